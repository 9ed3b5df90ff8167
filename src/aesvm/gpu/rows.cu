// Rows of a matrix: weighted sums of dense ones that are held, and sparse ones made dense.
//
// Compiled with REAL, float or double: the precision of the matrix.

// sum_m weights[m] matrix[numbers[m]]. The rows of the matrix lie one after another. Sums are in
// double precision, in an order that depends on shapes alone: each block adds up a run of the rows,
// and the runs are added up afterwards.

#define COLUMNS 4  // of a thread, as far apart as there are threads in a block

extern "C" __global__ void sum_rows(
    const REAL *__restrict__ matrix,
    const long long n_columns,
    const long long *__restrict__ numbers,  // or null: all rows, in order
    const double *__restrict__ weights,
    const long long n_rows,
    const long long run,  // rows that a block adds up
    double *__restrict__ parts)  // (blocks along y, n_columns)
{
    const long long begin = (long long)blockIdx.x * blockDim.x * COLUMNS + threadIdx.x;
    const long long first = blockIdx.y * run;
    const long long last = first + run < n_rows ? first + run : n_rows;
    double sums[COLUMNS] = {0};
#pragma unroll 4
    for (long long m = first; m < last; ++m) {
        const REAL *row = matrix + (numbers ? numbers[m] : m) * n_columns;
        const double weight = weights[m];
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const long long k = begin + (long long)c * blockDim.x;
            if (k < n_columns) sums[c] += weight * (double)row[k];
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        const long long k = begin + (long long)c * blockDim.x;
        if (k < n_columns) parts[blockIdx.y * n_columns + k] = sums[c];
    }
}

// Sparse rows made dense, one column of the result to each. A block for each row; columns are zero
// before.
extern "C" __global__ void write_dense(
    const REAL *__restrict__ data, const int *__restrict__ indices, const int *__restrict__ indptr,
    const int *__restrict__ numbers,  // which rows
    int n_rows, REAL *__restrict__ out)  // (n_features, n_rows)
{
    const int row = numbers[blockIdx.x];
    for (int e = indptr[row] + threadIdx.x; e < indptr[row + 1]; e += blockDim.x)
        out[(long long)indices[e] * n_rows + blockIdx.x] = data[e];
}
