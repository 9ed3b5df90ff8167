// Sparse rows made dense, one column of the result to each.
//
// Compiled with REAL, float or double. A block for each row; columns are zero before.

extern "C" __global__ void write_dense(
    const REAL *__restrict__ data, const int *__restrict__ indices, const int *__restrict__ indptr,
    const int *__restrict__ numbers,  // which rows
    int n_rows, REAL *__restrict__ out)  // (n_features, n_rows)
{
    const int row = numbers[blockIdx.x];
    for (int e = indptr[row] + threadIdx.x; e < indptr[row + 1]; e += blockDim.x)
        out[(long long)indices[e] * n_rows + blockIdx.x] = data[e];
}
