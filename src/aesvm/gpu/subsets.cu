// The dual in a working set, solved in one subset of it after another.
//
// Compiled with
//   REAL         float or double: the precision of kernel values
//   WORKING_SET  the variables of a working set, at most
//   PER_LANE     a thirty-second of the variables of a subset: what a lane of its warp has
//   THREADS      threads of a block, a multiple of 32
//
// Updates of pairs follow one another, and each takes as long as its longest chain of operations. In
// a subset they are those of a single warp, whose kernel values lie in shared memory: nothing waits
// for other warps, nor for the device's memory. There slopes are as precise as kernel values. Then all
// blocks bring those of the working set up to date, in double precision, and choose the next subset.

#include "blocks.cu"

#define SUBSET (32 * PER_LANE)
#define PER_THREAD ((WORKING_SET + THREADS - 1) / THREADS)
#define BINS (2 * THREADS)

// A subset is solved until its violation is NARROWER times what it was, or for UPDATES updates. (On an
// H200, 0.1 and 0.5 took as long on covtype and heart2020, within 5 %. Few subsets take so many updates.)
#define NARROWER 0.3f
#define UPDATES (4 * SUBSET)

// All blocks wait for each other; there must be room for all of them at once, and their number must
// be a power of two, since the count of arrivals goes round.
__device__ void wait_for_blocks(unsigned *arrivals)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned until = (atomicAdd(arrivals, 1u) / gridDim.x + 1) * gridDim.x;
        while ((int)(*(volatile unsigned *)arrivals - until) < 0) continue;
        __threadfence();
    }
    __syncthreads();
}

// Append to the subset the variables that violate optimality most, at most ``room``: its new size. By how
// far they do is compared in BINS steps; of equal ones the first are taken.
__device__ int append_farthest(
    const float (&depths)[PER_THREAD], float deepest, int room, int *subset, int size)
{
    __shared__ int bins[BINS], cut;
    const int thread = threadIdx.x;
    bins[thread] = bins[thread + THREADS] = 0;
    if (thread == 0) cut = BINS;  // all
    __syncthreads();
    int bin[PER_THREAD];
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const float above = __fdividef(deepest - depths[p], deepest);
        bin[p] = depths[p] > 0 ? max(0, min(BINS - 1, (int)(BINS * above))) : BINS;
        if (bin[p] < BINS) atomicAdd(bins + bin[p], 1);
    }
    __syncthreads();
    int total;
    const int first = bins[2 * thread], both = first + bins[2 * thread + 1];
    const int before = rank_in_block(both, &total);
    // the bin that holds more than there is room for
    if (before <= room && room < before + both) cut = 2 * thread + (room >= before + first);
    __syncthreads();
    const int end = size + room, last = cut;
    for (int equal = 0; equal < 2; equal++) {
        unsigned own = 0;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++)
            own |= (unsigned)(bin[p] < BINS && (equal ? bin[p] == last : bin[p] < last)) << p;
        int rank = size + rank_in_block(__popc(own), &total);
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++)
            if (own >> p & 1) {
                if (rank < end) subset[rank] = thread + p * THREADS;
                rank++;
            }
        size = min(end, size + total);
    }
    __syncthreads();
    return size;
}

// The next subset: the variables that violate optimality most, and the newest of the last subset. Its
// size; 0 where the violation is no more than ``enough``. All blocks choose the same one.
__device__ int choose_subset(
    const double *slope, const double *up, const double *down, const signed char *group_of, int n,
    int n_groups, double enough, int *subset, int n_before, float *violation)
{
    __shared__ int kept[SUBSET / 2];
    __shared__ unsigned char is_taken[PER_THREAD * THREADS];
    const int thread = threadIdx.x;
    int n_kept = min(n_before, SUBSET / 2);
    __syncthreads();
    for (int k = thread; k < n; k += THREADS) is_taken[k] = 0;
    __syncthreads();
    for (int k = thread; k < n_kept; k += THREADS) kept[k] = subset[k], is_taken[subset[k]] = 1;
    __syncthreads();
    unsigned rises = 0, falls = 0, of_second = 0;
    float seen[PER_THREAD];
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int k = thread + p * THREADS;
        const bool here = k < n;
        seen[p] = here ? (float)slope[k] : 0;
        rises |= (unsigned)(here && up[k] > 0) << p, falls |= (unsigned)(here && down[k] > 0) << p;
        of_second |= (unsigned)(here && group_of[k]) << p;
    }
    float most = -INFINITE;
    int size = 0;
    for (int g = 0; g < n_groups; g++) {
        const unsigned members = g ? of_second : ~of_second;
        float low = INFINITE, high = -INFINITE;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            if ((rises & members) >> p & 1) low = fminf(low, seen[p]);
            if ((falls & members) >> p & 1) high = fmaxf(high, seen[p]);
        }
        low = from_ordered(min_of_block(ordered(low)));
        high = from_ordered(~min_of_block(~ordered(high)));
        most = fmaxf(most, high - low);
        const int room = (SUBSET - n_kept) / (2 * n_groups);
        for (int side = 0; side < 2 && n > SUBSET; side++) {
            float depths[PER_THREAD];
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++) {
                const bool can = ((side ? falls : rises) & members) >> p & 1;
                const bool is_new = can && !is_taken[thread + p * THREADS];
                depths[p] = is_new ? side ? seen[p] - low : high - seen[p] : 0;
            }
            const int first = size;
            size = append_farthest(depths, high - low, room, subset, size);
            for (int k = first + thread; k < size; k += THREADS) is_taken[subset[k]] = 1;
            __syncthreads();
        }
    }
    *violation = most;
    if (!(most > enough)) return 0;
    if (n <= SUBSET) {
        for (int k = thread; k < n; k += THREADS) subset[k] = k;
        size = n, n_kept = 0;
    }
    n_kept = min(n_kept, SUBSET - size);
    for (int k = thread; k < n_kept; k += THREADS) subset[size + k] = kept[k];
    __syncthreads();
    return size + n_kept;
}

// A subset's variables, in shared memory: slopes, how far each can rise and fall, the width between its
// bounds, its group.
struct Subset {
    double slope[SUBSET], up[SUBSET], down[SUBSET], width[SUBSET];
    int group[SUBSET];
};

// The variables of a subset, solved for by one warp; how many pairs were updated. See
// aesvm.solver.pair_updates for the choice of pairs. ``of.slope`` becomes the sum of slopes before and after:
// half of it, times what a variable moves by, is what the objective rises by.
template <int GROUPS> __device__ int update_pairs(
    const real *K, Subset &of, int n, float enough, int limit)
{
    const int lane = threadIdx.x % 32;
    real slope[PER_LANE], diag[PER_LANE];
    // 0, or infinite where a variable cannot rise; and where it cannot fall
    float no_rise[PER_LANE], no_fall[PER_LANE], largest = 0;
    unsigned of_second = 0;  // a bit for each: of the second group
#pragma unroll
    for (int p = 0; p < PER_LANE; p++) {
        const int k = lane + 32 * p;
        const bool here = k < n;
        slope[p] = here ? (real)of.slope[k] : (real)0;
        diag[p] = here ? K[k * SUBSET + k] : (real)0;
        largest = fmaxf(largest, fabsf((float)diag[p]));
        no_rise[p] = here && of.up[k] > 0 ? 0 : INFINITE;
        no_fall[p] = here && of.down[k] > 0 ? 0 : -INFINITE;
        of_second |= (unsigned)(here && of.group[k]) << p;
    }
    // nothing is too large, nor too small, to be compared
    const float flat = fmaxf(1e-12f * -least_of_warp(-largest), 1e-37f);
    int updates = 0;
    while (updates < limit) {
        // the variable to rise: of smallest slope, in the group that is farthest from its optimum
        unsigned i = 0;
        int group = 0;
        float lowest = INFINITE, violation = -INFINITE;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            float least = INFINITE, most = -INFINITE;
            unsigned own = 0;
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) {
                const bool member = GROUPS == 1 || (int)(of_second >> p & 1) == g;
                const float low = member ? (float)slope[p] + no_rise[p] : INFINITE;
                if (GROUPS > 1 && member) most = fmaxf(most, (float)slope[p] + no_fall[p]);
                own = low < least ? p : own;
                least = fminf(least, low);
            }
            const float first = least_of_warp(least);
            if (GROUPS > 1) most = -least_of_warp(-most);
            const float between = GROUPS > 1 ? most - first : INFINITE;
            const unsigned at = __reduce_min_sync(ALL, least == first ? lane + 32 * own : ALL);
            if (first < INFINITE && (GROUPS == 1 || between > violation))
                violation = between, group = g, lowest = first, i = at;
        }
        if (!(lowest < INFINITE)) break;
        const real slope_i = sizeof(real) == sizeof(float)
            ? (real)lowest : __shfl_sync(ALL, pick(slope, i / 32), i % 32);
        const real *line_i = K + i * SUBSET;
        const real diag_i = line_i[i];
        const double up_i = of.up[i];
        // its partner, which falls: the one that lowers the objective most
        real line[PER_LANE];
        float gain = 0, step_of_own = 0, widest = 0;
        unsigned own = 0;
#pragma unroll
        for (int p = 0; p < PER_LANE; p++) line[p] = line_i[lane + 32 * p];
#pragma unroll
        for (int p = 0; p < PER_LANE; p++) {
            float ahead = (float)(slope[p] - slope_i) + no_fall[p];
            if (GROUPS > 1) ahead = (int)(of_second >> p & 1) == group ? ahead : -INFINITE;
            ahead = fmaxf(ahead, 0.0f);
            widest = fmaxf(widest, ahead);
            const float eta = fmaxf((float)(diag_i + diag[p] - 2 * line[p]), flat);
            const float step = __fdividef(ahead, eta), lowers = fminf(ahead * step, 3e38f);
            own = lowers > gain ? p : own;
            step_of_own = lowers > gain ? step : step_of_own;
            gain = fmaxf(gain, lowers);
        }
        const unsigned bits = __float_as_uint(gain), most = __reduce_max_sync(ALL, bits);
        if (!most || !__ballot_sync(ALL, widest > enough)) break;
        const unsigned j = __reduce_min_sync(ALL, bits == most ? lane + 32 * own : ALL);
        const real *line_j = K + j * SUBSET;
        const double best = __shfl_sync(ALL, step_of_own, j % 32), down_j = of.down[j];
        double step = best < up_i ? best : up_i;
        step = step < down_j ? step : down_j;
#pragma unroll
        for (int p = 0; p < PER_LANE; p++)
            slope[p] += (real)step * (line[p] - line_j[lane + 32 * p]);
        __syncwarp();
        if (lane < 2) {  // one for the variable that rises, one for the other
            const unsigned k = lane ? j : i;
            double *near = lane ? of.down : of.up, *far = lane ? of.up : of.down;
            const double left = near[k] - step, other = far[k] + step, width = of.width[k];
            near[k] = left, far[k] = left == 0 || other > width ? width : other;
        }
#pragma unroll
        for (int p = 0; p < PER_LANE; p++) {
            const unsigned k = lane + 32 * p;
            if (k == i) no_rise[p] = step < up_i ? 0 : INFINITE, no_fall[p] = 0;
            if (k == j) no_fall[p] = step < down_j ? 0 : -INFINITE, no_rise[p] = 0;
        }
        __syncwarp();
        updates++;
    }
#pragma unroll
    for (int p = 0; p < PER_LANE; p++)
        if (lane + 32 * p < n) of.slope[lane + 32 * p] += (double)slope[p];
    return updates;
}

// Copied by a block. Many are on their way at once: a store may not overtake a load by itself.
__device__ void copy_values(real *to, const real *from, int n)
{
    for (int first = threadIdx.x; first < n; first += 16 * THREADS) {
        real values[16];
#pragma unroll
        for (int q = 0; q < 16; q++) values[q] = first + q * THREADS < n ? from[first + q * THREADS] : (real)0;
#pragma unroll
        for (int q = 0; q < 16; q++)
            if (first + q * THREADS < n) to[first + q * THREADS] = values[q];
    }
}

// The dual in the variables chosen. ``block`` has their kernel values, ``inside`` room for five numbers
// of each of a working set: slopes, how far each can rise and fall, the width between its bounds, and
// what those move by that move in a subset; ``corner`` for the kernel values of a subset.
//
// A power of two of blocks that are there at once. All choose, the first one solves, and tells the others
// how many moved: -1 where it came to the end.
extern "C" __global__ void __launch_bounds__(THREADS) solve_working_set(
    const real *block, const int *chosen, const int *n_chosen, const int *numbers,
    const double *scores, const int *at, double *coefs, const double *linear, const double *lower,
    const double *upper, const signed char *groups, int n_groups, double tol, double inner,
    long long limit, double *inside, real *corner, int *movers, signed char *group_of,
    unsigned *arrivals, int *told, int *moved_rows, double *moves, int *n_moved, double *summary)
{
    DYNAMIC_SHARED(real, K);
    __shared__ Subset of;
    __shared__ double before[SUBSET], change_here[SUBSET], sums[THREADS];
    __shared__ int subset[SUBSET], movers_here[SUBSET], updated;
    const int thread = threadIdx.x, n = *n_chosen;
    const int everywhere = blockIdx.x * THREADS + thread, all = gridDim.x * THREADS;
    double *slope = inside, *up = slope + WORKING_SET, *down = up + WORKING_SET;
    double *width = down + WORKING_SET, *change = width + WORKING_SET;
    for (int k = everywhere; k < n; k += all) {
        const int v = chosen[k], group = groups[v];
        const double lowest = summary[LOWEST + group], highest = summary[HIGHEST + group];
        const bool both = lowest < 0.5 * FAR && highest > -0.5 * FAR;
        // seen from the middle of the edges: single precision is enough to compare them
        slope[k] = scores[at[v]] + linear[v] - (both ? 0.5 * (lowest + highest) : 0);
        // between bounds that are equal, none moves
        up[k] = upper[v] - coefs[v], down[k] = coefs[v] - lower[v], width[k] = upper[v] - lower[v];
        group_of[k] = group;
    }
    const double enough = fmax(tol, inner * summary[VIOLATION]);
    long long updates = 0;
    double fell = 0;
    int size = 0;
    while (true) {
        wait_for_blocks(arrivals);
        float violation;
        size = choose_subset(slope, up, down, group_of, n, n_groups, enough, subset, size, &violation);
        if (!size) break;
        for (int e = everywhere; e < size * SUBSET; e += all) {
            const int k = e / SUBSET, m = e % SUBSET;
            if (m < size) corner[e] = block[(long long)subset[k] * WORKING_SET + subset[m]];
        }
        wait_for_blocks(arrivals);
        if (blockIdx.x == 0) {
            const float narrow = fmaxf((float)enough, NARROWER * violation);
            copy_values(K, corner, size * SUBSET);
            for (int k = thread; k < size; k += THREADS) {
                const int s = subset[k];
                of.slope[k] = slope[s], of.up[k] = before[k] = up[s], of.down[k] = down[s];
                of.width[k] = width[s], of.group[k] = group_of[s];
            }
            __syncthreads();
            if (thread < 32) {
                const int most = (int)min(limit - updates, (long long)UPDATES);
                const int count = n_groups == 1 ? update_pairs<1>(K, of, size, narrow, most)
                                                : update_pairs<2>(K, of, size, narrow, most);
                if (thread == 0) updated = count;
            }
            __syncthreads();
            updates += updated;
            int n_movers = 0;
            double fall = 0;
            for (int first = 0; first < size; first += THREADS) {
                const int k = first + thread, s = k < size ? subset[k] : 0;
                const double by = k < size ? before[k] - of.up[k] : 0;
                int total;
                const int rank = n_movers + rank_in_block(by != 0, &total);
                if (by != 0) {
                    change[rank] = by, movers[rank] = s;
                    up[s] = of.up[k], down[s] = of.down[k];
                    fall -= 0.5 * by * of.slope[k];
                }
                n_movers += total;
            }
            fell += sum_of_block(fall);
            if (thread == 0) *told = updated == 0 || updates >= limit ? -1 : n_movers;
        }
        wait_for_blocks(arrivals);
        const int n_movers = *told;
        if (n_movers < 0) break;
        for (int m = thread; m < n_movers; m += THREADS) movers_here[m] = movers[m], change_here[m] = change[m];
        __syncthreads();
        // a block has some columns, and each of its threads some of the movers for one of these
        const int across = (WORKING_SET + gridDim.x - 1) / gridDim.x;
        const int columns = min(across, THREADS), parts = THREADS / columns;
        for (int first = 0; first < across; first += columns) {
            const int column = thread % columns, part = thread / columns;
            const int k = blockIdx.x * across + first + column;
            const bool here = part < parts && first + column < across && k < n;
            double sum = 0;
#pragma unroll 8
            for (int m = here ? part : n_movers; m < n_movers; m += parts)
                sum += change_here[m] * (double)block[(long long)movers_here[m] * WORKING_SET + k];
            sums[thread] = sum;
            __syncthreads();
            if (here && part == 0) {
                for (int other = 1; other < parts; other++) sum += sums[column + other * columns];
                slope[k] += sum;
            }
            __syncthreads();
        }
    }
    if (blockIdx.x) return;
    double moved = 0;
    int total = 0;
    for (int first = 0; first < n; first += THREADS) {
        const int k = first + thread, v = k < n ? chosen[k] : 0;
        // seen from the bound that is zero: a coefficient may be very near to that
        const double coef = k < n ? upper[v] == 0 ? -up[k] : lower[v] + down[k] : 0;
        const double by = k < n ? coef - coefs[v] : 0;
        int more;
        const int rank = total + rank_in_block(by != 0, &more);
        if (by != 0) {
            coefs[v] = coef;
            moved_rows[rank] = numbers[k];
            moves[rank] = by;
        }
        total += more;
        moved += fabs(by);
    }
    moved = sum_of_block(moved);
    if (thread == 0) {
        *n_moved = total;
        summary[N_UPDATES] += (double)updates;
        summary[MOVED] += moved;
        summary[N_MOVED] += total;
        summary[FELL] += fell;
    }
}
