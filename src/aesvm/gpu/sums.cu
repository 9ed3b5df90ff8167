// Sums of weighted rows of a matrix that is held: sum_m weights[m] matrix[numbers[m]].
//
// Compiled with REAL, float or double: the precision of the matrix, whose rows lie one after
// another. Sums are in double precision, in an order that depends on shapes alone: each block adds
// up a run of the rows, and the runs are added up afterwards.

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
