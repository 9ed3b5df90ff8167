// The smallest ball around each subset, by one block: aesvm.sets.ball on the device.
//
// Included by hull.cu, which says what REAL and THREADS are. Nothing depends on the order in which
// threads come by.

#include "warps.cu"

typedef REAL real;

#define WARPS (THREADS / 32)
// Rows whose kernel values a thread asks for before it waits for any: without a branch, so that
// beyond the last it asks for the last again.
#define AHEAD 4
#define FAR 1e30       // out of reach of any gradient
#define BALL_TOL 1e-4  // of the squared radius: how much farther than the sphere a row may be

#ifndef WITHIN  // tests look whether a position is below a size
#define WITHIN(at, size) (at)
#endif

// Kernel values of a subset of n rows.
struct Gram {
    const real *values;
    int n, stride;

    __device__ __forceinline__ real at(int i, int j) const
    {
        return __ldg(values + WITHIN(i, n) * stride + WITHIN(j, n));
    }
};

// The row farthest from the centre, and the one on the sphere that is nearest to it.
struct alignas(16) Ends { double low, high, weight; int farthest, source; };

__device__ __forceinline__ Ends ends_of_block(Ends own, Ends *of_warp)
{
    Ends found;
    found.low = least_of_warp(own.low);
    found.farthest = lowest_of_warp(own.low == found.low, own.farthest);
    found.high = -least_of_warp(-own.high);
    found.source = lowest_of_warp(own.high == found.high, own.source);
    found.weight = own.weight;
    const int warp = threadIdx.x / 32;
    if (leads(own.high == found.high && own.source == found.source)) of_warp[warp] = found;
    __syncthreads();
    found = of_warp[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        const Ends other = of_warp[w];
        if (other.low < found.low || (other.low == found.low && other.farthest < found.farthest))
            found.low = other.low, found.farthest = other.farthest;
        if (other.high > found.high || (other.high == found.high && other.source < found.source))
            found.high = other.high, found.source = other.source, found.weight = other.weight;
    }
    return found;
}

// The smallest enclosing ball (aesvm.sets.ball): rows by their distance from its centre.
//
// In ``order`` are the rows, the farthest first; one on the sphere, i, is written as -1 - i.
__device__ __forceinline__ void rank_by_distance(
    const Gram gram, double *slopes, double *center, int *order)
{
    __shared__ Ends ends[2][WARPS];  // taken in turn: one is read while the other is written to
    const int n = gram.n;
    Ends own = {FAR, -FAR, 0, 0, 0};
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const double key = 2 * (double)gram.at(0, i) - (double)gram.at(i, i);
        if (key < own.low) own.low = key, own.farthest = i;
    }
    int to = ends_of_block(own, ends[1]).farthest, from = to;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        center[i] = i == to ? 1 : 0;
        // half the gradient of what is minimised
        slopes[i] = (double)gram.at(to, i) - 0.5 * (double)gram.at(i, i);
    }
    double move = 0, radius2 = 0;
    for (int moves = 0; moves <= 20 * n + 1000; moves++) {
        own = {FAR, -FAR, 0, 0, 0};
        for (int begin = threadIdx.x; begin < n; begin += AHEAD * THREADS) {
            real nearer[AHEAD], farther[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                const int i = min(begin + k * THREADS, n - 1);
                nearer[k] = gram.at(to, i), farther[k] = gram.at(from, i);
            }
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                const int i = begin + k * THREADS;
                if (i >= n) continue;
                double weight = center[i];
                if (i == to) weight += move;
                if (i == from) weight -= move;
                const double slope = slopes[i] + move * ((double)nearer[k] - (double)farther[k]);
                center[i] = weight;
                slopes[i] = slope;
                if (slope < own.low) own.low = slope, own.farthest = i;
                if (weight > 0 && slope > own.high)
                    own.high = slope, own.source = i, own.weight = weight;
            }
        }
        own = ends_of_block(own, ends[moves & 1]);
        const double slope = own.high - own.low;
        if (!(2 * slope > BALL_TOL * radius2)) break;
        to = own.farthest, from = own.source;
        const double curvature = (double)gram.at(to, to) + (double)gram.at(from, from) -
                                 2 * (double)gram.at(to, from);
        move = own.weight;
        if (slope < move * curvature) move = fmin(slope / curvature, move);
        radius2 += move * (2 * slope - move * curvature);
    }
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const double own_slope = slopes[i];
        int rank = 0;
        for (int j = 0; j < n; j++)
            rank += slopes[j] < own_slope || (slopes[j] == own_slope && j < i);
        order[WITHIN(rank, n)] = center[i] > 0 ? -1 - i : i;
    }
    __syncthreads();
}
