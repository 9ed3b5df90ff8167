// What steps.cu, subsets.cu and pairs.cu share.
//
// Compiled with REAL, float or double: the precision of kernel values.

#include "warps.cu"

typedef REAL real;

#define FAR 1e300
#define INFINITE __uint_as_float(0x7f800000u)  // NVRTC, without math.h, has no INFINITY

// The places of ``summary``, which the host reads in every iteration.
enum { VIOLATION, LOWEST, HIGHEST = LOWEST + 2, N_CHOSEN = HIGHEST + 2, N_UPDATES, MOVED, N_MOVED,
       FELL, N_STAY, N_FREE };  // as `Summary` of cuda.py

// All variables in play, and the rows they belong to.
#define VARIABLES \
    const double *scores, const int *at, const double *coefs, const double *linear, \
    const double *lower, const double *upper

struct Extreme {
    double slope;
    int variable;
};

// The smaller slope, or the larger; of equal ones that of the first variable. One that is no number
// comes before all, so that the host is told of it.
__device__ __forceinline__ Extreme better(Extreme one, Extreme other, double sign)
{
    if (other.variable < 0 || isnan(one.slope)) return one;
    if (one.variable < 0 || isnan(other.slope)) return other;
    const double lead = sign * (one.slope - other.slope);
    return lead < 0 || (lead == 0 && one.variable < other.variable) ? one : other;
}

__device__ Extreme best_of_block(Extreme own, double sign)
{
    __shared__ Extreme of_warp[32];
    for (int step = 16; step; step /= 2) {
        Extreme other;
        other.slope = __shfl_down_sync(ALL, own.slope, step);
        other.variable = __shfl_down_sync(ALL, own.variable, step);
        own = better(own, other, sign);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
    __syncthreads();
    own = of_warp[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++) own = better(own, of_warp[warp], sign);
    return own;
}

// What all threads of a block find together: all of them get the result.
// The sum of what earlier threads give, and of all.
__device__ __forceinline__ int rank_in_block(int own, int *total)
{
    __shared__ int of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = own;
    for (int step = 1; step < 32; step *= 2) {
        const int earlier = __shfl_up_sync(ALL, sum, step);
        sum += lane >= step ? earlier : 0;
    }
    __syncthreads();
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    const unsigned others = lane < blockDim.x / 32 ? (unsigned)of_warp[lane] : 0;
    *total = (int)__reduce_add_sync(ALL, others);
    return (int)__reduce_add_sync(ALL, lane < warp ? others : 0) + sum - own;
}

__device__ __forceinline__ double sum_of_block(double own)
{
    __shared__ double of_warp[32];
    own = sum_of_warp(own);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
    __syncthreads();
    double all = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) all += of_warp[warp];
    return all;
}
