// Duals of two classes each (aesvm.solver.small), a block for each.
//
// Compiled with what steps.cu is; WORKING_SET is how many slots a dual has at most.
//
// Kernel values of all rows with each other are at hand, class by class. A class begins at a slot whose
// number is a multiple of PER_THREAD, so that all variables of a thread are of one class, and their
// kernel values lie side by side. Slots after a class's last row are empty: what is there does not move.

#include "steps.cu"

// The lines of a dual's matrix: each variable's values with those of this thread.
struct ClassLines {
    const real *own;      // the first column that is this thread's
    long long stride;
    int first, second;    // slots at which the classes begin
    int middle;           // slots of the first class

    __device__ __forceinline__ Values of(int k) const
    {
        const long long slot = k < middle ? first + k : second + (k - middle);
        return *reinterpret_cast<const Values *>(own + slot * stride);
    }
};

// A sum over the threads of a block, in an order that depends on how many they are alone.
__device__ double sum_of_block(double own)
{
    __shared__ double of_warp[32];
    own = sum_of_warp(own);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
    __syncthreads();
    double total = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) total += of_warp[warp];
    return total;
}

// Sums whose relative difference is smaller are the same; see aesvm.solver.small.
#define SAME_SUM 1e-13

// Improve duals by pair updates; their arrays are those of DeviceDuals in cuda.py. Slopes are in the end
// computed anew, row by row: scores + linear in the first class, scores - linear in the second.
extern "C" __global__ void __launch_bounds__(UPDATE_THREADS) solve_pairs(
    const real *K, long long stride, double linear, int n_groups, const int *places,
    const int *sizes, const int *starts, const double *held, const double *aims,
    const long long *most, const double *bounds, double *coefs, double *slopes, long long *updates)
{
    __shared__ double magnitudes[WORKING_SET];  // of coefficients
    const int thread = threadIdx.x, dual = blockIdx.x, k = thread * PER_THREAD;
    const int n_first = sizes[2 * dual], n_second = sizes[2 * dual + 1];
    const int middle = (n_first + PER_THREAD - 1) / PER_THREAD * PER_THREAD;
    const bool second = k >= middle;
    // of this thread's first variable: its number in its class
    const int at = second ? k - middle : k;
    const int n_own = max(0, min(PER_THREAD, (second ? n_second : n_first) - at));
    const long long begin = (long long)starts[dual] + (second ? n_first : 0) + at;
    ClassLines lines = {K, stride, places[2 * dual], places[2 * dual + 1], middle};
    if (n_own) lines.own += (second ? lines.second : lines.first) + at;
    double slope[PER_THREAD], up[PER_THREAD], down[PER_THREAD], width[PER_THREAD];
    real diag[PER_THREAD];
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const bool here = p < n_own;
        width[p] = here ? bounds[begin + p] : 0;
        const double magnitude = here ? fabs(coefs[begin + p]) : 0, rest = width[p] - magnitude;
        up[p] = second ? magnitude : rest, down[p] = second ? rest : magnitude;
        diag[p] = here ? lines.of(k + p).of[p] : (real)0;
    }
    long long n_updates = 0;
    for (int turn = 0; turn < 2; turn++) {
        // rounding has moved the sums of the classes
        double own = 0;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) own += second ? up[p] : down[p];
        const double of_first = sum_of_block(second ? 0.0 : own);
        const double of_second = sum_of_block(second ? own : 0.0);
        const double wanted = held[dual] > 0 ? held[dual] : fmin(of_first, of_second);
        const double reached = second ? of_second : of_first;
        const bool differs = reached > 0 && fabs(reached - wanted) > SAME_SUM * reached;
        __syncthreads();  // the magnitudes have been used
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            double magnitude = second ? up[p] : down[p];
            if (differs) {
                magnitude = fmin(magnitude * (wanted / reached), width[p]);
                const double rest = width[p] - magnitude;
                up[p] = second ? magnitude : rest, down[p] = second ? rest : magnitude;
            }
            magnitudes[k + p] = magnitude;
            slope[p] = second ? -linear : linear;
        }
        __syncthreads();
        for (int j = 0; j < middle + n_second; j++) {
            const double magnitude = magnitudes[j];
            if (magnitude == 0) continue;
            const Values line = lines.of(j);
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++)
                slope[p] += (j < middle ? magnitude : -magnitude) * (double)line.of[p];
        }
        if (turn) break;
        // slopes as they are seen from the middle of the edges
        for (int g = 0; g < n_groups; g++) {
            const bool member = n_groups == 1 || second == (g == 1);
            Extreme lowest = {FAR, -1}, highest = {-FAR, -1};
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++) {
                if (member && up[p] > 0) lowest = better(lowest, {slope[p], k + p}, 1);
                if (member && down[p] > 0) highest = better(highest, {slope[p], k + p}, -1);
            }
            lowest = best_of_block(lowest, 1);
            highest = best_of_block(highest, -1);
            const bool both = lowest.variable >= 0 && highest.variable >= 0;
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++)
                if (member && both) slope[p] -= 0.5 * (lowest.slope + highest.slope);
        }
        const unsigned of_group = n_groups > 1 && second ? ~0u : 0u;
        double fell;
        n_updates = minimise_by_pairs(
            lines, blockDim.x / 32, diag, width, of_group, n_groups, (float)(0.5 * aims[dual]),
            most[dual], slope, up, down, fell);
    }
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++)
        if (p < n_own) {
            const double magnitude = magnitudes[k + p];
            coefs[begin + p] = second ? -magnitude : magnitude;
            slopes[begin + p] = slope[p];
        }
    if (thread == 0) updates[dual] = n_updates;
}
