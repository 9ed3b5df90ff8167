// What all device code may use: memory, numbers of a thread, and what the 32 threads of a warp find together.
//
// All threads of a warp call these functions together, and all get the result.

#define ALL 0xffffffffu

#ifndef DYNAMIC_SHARED  // as much as a launch asks for
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

// Floats as whole numbers in the same order, and back.
__device__ __forceinline__ unsigned ordered(float x)
{
    const unsigned bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float from_ordered(unsigned u)
{
    return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u);
}

__device__ __forceinline__ float least_of_warp(float x)
{
    return from_ordered(__reduce_min_sync(ALL, ordered(x)));
}

__device__ __forceinline__ double least_of_warp(double x)
{
    const unsigned long long sign = 1ull << 63, bits = __double_as_longlong(x);
    const unsigned long long own = bits & sign ? ~bits : bits | sign;
    const unsigned upper = (unsigned)(own >> 32);
    const unsigned long long first = __reduce_min_sync(ALL, upper);
    const unsigned second = __reduce_min_sync(ALL, upper == first ? (unsigned)own : ALL);
    const unsigned long long least = first << 32 | second;
    return __longlong_as_double(least & sign ? least & ~sign : ~least);
}

// The lowest position of those whose flag is set.
__device__ __forceinline__ int lowest_of_warp(bool flag, int at)
{
    return (int)__reduce_min_sync(ALL, flag ? (unsigned)at : 0x7fffffffu);
}

// Whether this is the first lane whose flag is set.
__device__ __forceinline__ bool leads(bool flag)
{
    return threadIdx.x % 32 == __ffs(__ballot_sync(ALL, flag)) - 1;
}

__device__ __forceinline__ double sum_of_warp(double x)
{
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
}

// The one of a thread's numbers at a position that only a thread knows: registers have no index.
template <class T, int N> __device__ __forceinline__ T pick(const T (&values)[N], int at)
{
    T found = values[0];
#pragma unroll
    for (int p = 1; p < N; p++) found = at == p ? values[p] : found;
    return found;
}
