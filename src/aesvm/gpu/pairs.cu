// Duals of two classes each (aesvm.solver.small), a block for each.
//
// Compiled with
//   REAL        float or double: the precision of kernel values
//   MOST_SLOTS  variables of a dual, at most, those of empty slots counted
//   PER_THREAD  how many of them a thread has; threads are a multiple of 32
//
// Kernel values of all rows with each other are at hand, class by class. A class begins at a slot whose
// number is a multiple of PER_THREAD, so that all variables of a thread are of one class, and their
// kernel values lie side by side. Slots after a class's last row are empty: what is there does not move.

#include "blocks.cu"

// The best of a warp's variables: to rise, group by group; and to fall as its partner. ``wide``: whether
// any is so far from it that the two are worth an update.
struct First { unsigned key[2], highest[2]; int k[2]; double slope[2], room[2], diag[2]; };
struct Second { unsigned gain; int k, wide; double slope, room, diag, value; };

#define UPDATE_THREADS (MOST_SLOTS / PER_THREAD)
#define UPDATE_WARPS (UPDATE_THREADS / 32)

// Kernel values of a variable with those of a thread.
struct alignas(PER_THREAD * sizeof(real)) Values { real of[PER_THREAD]; };

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

// The dual in the variables of a block, by updates of pairs; see aesvm.solver.pair_updates. Returns how
// many updates were made.
//
// A thread has PER_THREAD variables. ``up`` and ``down`` are how far each can rise and fall, ``width``
// how far its bounds are apart; ``of_second`` has a bit for each that is of the second group.
//
// An update takes as long as its longest chain of operations: so there is no branch but for the two
// variables that move, and the same is done for all of a thread's variables side by side. Slopes are
// seen from the middle of the edges, and compared in single precision; differences by which variables
// move are double.
__device__ __forceinline__ long long minimise_by_pairs(
    const ClassLines lines, int n_warps, const real (&diag)[PER_THREAD],
    const double (&width)[PER_THREAD], unsigned of_second, int n_groups, float enough,
    long long limit, double (&slope)[PER_THREAD], double (&up)[PER_THREAD],
    double (&down)[PER_THREAD])
{
    __shared__ First firsts[2][UPDATE_WARPS];
    __shared__ Second seconds[2][UPDATE_WARPS];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    unsigned rises = 0, falls = 0;  // a bit for each variable
    Extreme largest = {0.0, -1};
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        rises |= (unsigned)(up[p] > 0) << p, falls |= (unsigned)(down[p] > 0) << p;
        largest = better(largest, {fabs((double)diag[p]), thread * PER_THREAD + p}, -1);
    }
    const double flat = 1e-12 * best_of_block(largest, -1).slope + 1e-300;
    long long updates = 0;
    while (updates < limit) {
        const int turn = updates & 1;
        // the variable to rise: of smallest slope
        float seen[PER_THREAD];
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) seen[p] = (float)slope[p];
        for (int g = 0; g < n_groups; g++) {
            const unsigned members = g ? of_second : ~of_second;
            float least = INFINITE, most = -INFINITE;
            int own = 0;
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++) {
                const float low = (rises & members) >> p & 1 ? seen[p] : INFINITE;
                own = low < least ? p : own;
                least = fminf(least, low);
            }
            const unsigned key = __reduce_min_sync(ALL, ordered(least));
            unsigned top = 0;
            if (n_groups > 1) {  // it must be known which group is farther from its optimum
#pragma unroll
                for (int p = 0; p < PER_THREAD; p++)
                    most = fmaxf(most, (falls & members) >> p & 1 ? seen[p] : -INFINITE);
                top = __reduce_max_sync(ALL, ordered(most));
            }
            const double own_slope = pick(slope, own), own_room = pick(up, own);
            const double own_diag = (double)pick(diag, own);
            if (leads(ordered(least) == key)) {
                First &slot = firsts[turn][warp];
                slot.key[g] = key, slot.highest[g] = top, slot.k[g] = thread * PER_THREAD + own;
                slot.slope[g] = own_slope, slot.room[g] = own_room, slot.diag[g] = own_diag;
            }
        }
        __syncthreads();
        int from = 0, of_group = 0;
        unsigned first_key = 0;
        float violation = -INFINITE;
        for (int g = 0; g < n_groups; g++) {
            const unsigned low = lane < n_warps ? firsts[turn][lane].key[g] : ALL;
            const unsigned least = __reduce_min_sync(ALL, low);
            const unsigned leaders = __ballot_sync(ALL, low == least);
            float own = 0;
            if (n_groups > 1) {
                const unsigned high = lane < n_warps ? firsts[turn][lane].highest[g] : 0;
                own = from_ordered(__reduce_max_sync(ALL, high)) - from_ordered(least);
            }
            if (own > violation) {
                violation = own;
                of_group = g, first_key = least, from = __ffs(leaders) - 1;
            }
        }
        const float seen_i = from_ordered(first_key);
        if (!(seen_i < INFINITE)) break;
        const First &first = firsts[turn][from];
        const int i = first.k[of_group];
        const Values line = lines.of(i);
        const double slope_i = first.slope[of_group], room_i = first.room[of_group];
        const double diag_i = first.diag[of_group];
        // its partner, which falls: the one that lowers the objective most
        const unsigned members = falls & (of_group ? of_second : ~of_second);
        float gain = 0;
        int own = 0;
        bool is_wide = false;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            const float ahead = seen[p] - seen_i;
            const bool can = (members >> p & 1) && ahead > 0;
            const float eta = (float)((real)diag_i + diag[p] - 2 * line.of[p]);
            // nothing is too large, nor too small, to be compared
            float lowers = __fdividef(ahead * ahead, fmaxf(eta, (float)flat));
            lowers = can ? fmaxf(fminf(lowers, 3e38f), 1e-38f) : 0;
            is_wide = is_wide || (can && ahead > enough);
            own = lowers > gain ? p : own;
            gain = fmaxf(gain, lowers);
        }
        const unsigned bits = __float_as_uint(gain);
        const unsigned top = __reduce_max_sync(ALL, bits);
        const unsigned wide = __ballot_sync(ALL, is_wide);
        const double own_slope = pick(slope, own), own_room = pick(down, own);
        const double own_diag = (double)pick(diag, own), own_value = (double)pick(line.of, own);
        if (leads(bits == top)) {
            Second &slot = seconds[turn][warp];
            slot.gain = top, slot.k = thread * PER_THREAD + own, slot.wide = wide != 0;
            slot.slope = own_slope, slot.room = own_room;
            slot.diag = own_diag, slot.value = own_value;
        }
        __syncthreads();
        const unsigned given = lane < n_warps ? seconds[turn][lane].gain : 0;
        const unsigned most = __reduce_max_sync(ALL, given);
        if (!__ballot_sync(ALL, lane < n_warps && seconds[turn][lane].wide)) break;
        const Second &second = seconds[turn][__ffs(__ballot_sync(ALL, given == most)) - 1];
        const int j = second.k;
        const Values other = lines.of(j);
        const double difference = second.slope - slope_i, room_j = second.room;
        const double eta = diag_i + second.diag - 2 * second.value;
        const double step = fmin(difference / fmax(eta, flat), fmin(room_i, room_j));
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++)
            slope[p] += step * (double)(line.of[p] - other.of[p]);
        if (thread == i / PER_THREAD || thread == j / PER_THREAD) {
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++) {
                const int k = thread * PER_THREAD + p;
                if (k == i) {
                    up[p] = step == room_i ? 0 : fmax(up[p] - step, 0.0);
                    down[p] = up[p] == 0 ? width[p] : fmin(down[p] + step, width[p]);
                }
                if (k == j) {
                    down[p] = step == room_j ? 0 : fmax(down[p] - step, 0.0);
                    up[p] = down[p] == 0 ? width[p] : fmin(up[p] + step, width[p]);
                }
                rises = (rises & ~(1u << p)) | (unsigned)(up[p] > 0) << p;
                falls = (falls & ~(1u << p)) | (unsigned)(down[p] > 0) << p;
            }
        }
        updates++;
    }
    return updates;
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
    __shared__ double magnitudes[MOST_SLOTS];  // of coefficients
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
        n_updates = minimise_by_pairs(
            lines, blockDim.x / 32, diag, width, of_group, n_groups, (float)(0.5 * aims[dual]),
            most[dual], slope, up, down);
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
