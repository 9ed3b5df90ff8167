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
// for other warps, nor for the device's memory. Then all blocks bring the slopes of the working set
// up to date, and the next subset is chosen as the working set itself was chosen.

#include "blocks.cu"

#define SUBSET (32 * PER_LANE)
#define PER_THREAD ((WORKING_SET + THREADS - 1) / THREADS)

#ifndef DYNAMIC_SHARED  // as much as a launch asks for
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

// A subset is solved to this fraction of the violation it was chosen at, or to so many updates for
// each of its variables.
#define NARROWER 0.3f
#define UPDATES (4 * SUBSET)

// What blocks tell each other: how often they came to a barrier, whether all is over, and the size of
// the subset, of which so many moved.
enum { ARRIVALS, IS_OVER, N_SUBSET, N_MOVED_OF_SUBSET };

// All blocks wait for each other; there must be room for all of them at once, and their number must
// be a power of two, since the count of arrivals goes round.
__device__ void wait_for_blocks(unsigned *told)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned until = (atomicAdd(told + ARRIVALS, 1u) / gridDim.x + 1) * gridDim.x;
        while ((int)(*(volatile unsigned *)(told + ARRIVALS) - until) < 0) continue;
        __threadfence();
    }
    __syncthreads();
}

// Those of a block's wanted variables that have the smallest keys, appended to the subset as far as there
// is ``room``: all of them, or nearly as many as there is room for. Its new size.
__device__ int append_smallest(
    const unsigned (&keys)[PER_THREAD], unsigned &wanted, int room, int *subset, int size)
{
    unsigned limit = ALL;  // those with smaller keys come first, then those with this one
    if (sum_of_block(__popc(wanted)) > room) {
        limit = 0;
        for (unsigned bit = 1u << 31; bit; bit >>= 1) {
            int count = 0;
#pragma unroll
            for (int p = 0; p < PER_THREAD; p++) count += (wanted >> p & 1) && keys[p] < (limit | bit);
            const int smaller = sum_of_block(count);
            if (smaller <= room) limit |= bit;
            if (smaller <= room && 8 * smaller >= 7 * room) break;
        }
    }
    const int end = size + room;
    for (int equal = 0; equal < 2; equal++) {
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            const bool own = (wanted >> p & 1) && (equal ? keys[p] == limit : keys[p] < limit);
            int total;
            const int rank = size + rank_of(own, &total);
            if (own && rank < end) {
                subset[rank] = threadIdx.x + p * THREADS;
                wanted &= ~(1u << p);
            }
            size = min(end, size + total);
        }
    }
    return size;
}

// The next subset: the variables that violate optimality most, and the newest of the last subset.
// Its size; 0 where the violation is no more than ``enough``.
__device__ int choose_subset(
    const double *slope, const double *up, const double *down, const signed char *group_of, int n,
    int n_groups, double enough, int *subset, int n_before, float *violation)
{
    __shared__ int kept[SUBSET / 2];
    __shared__ unsigned char is_kept[WORKING_SET];
    const int thread = threadIdx.x;
    int n_kept = min(n_before, SUBSET / 2);
    for (int k = thread; k < n; k += THREADS) is_kept[k] = 0;
    __syncthreads();
    for (int k = thread; k < n_kept; k += THREADS) kept[k] = subset[k], is_kept[subset[k]] = 1;
    __syncthreads();
    unsigned rises = 0, falls = 0, free = 0, of_second = 0;
    float seen[PER_THREAD];
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int k = thread + p * THREADS;
        const bool here = k < n;
        seen[p] = here ? (float)slope[k] : 0;
        rises |= (unsigned)(here && up[k] > 0) << p, falls |= (unsigned)(here && down[k] > 0) << p;
        free |= (unsigned)(here && !is_kept[k]) << p;
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
        low = from_ordered(least_of_block(ordered(low)));
        high = from_ordered(~least_of_block(~ordered(high)));
        most = fmaxf(most, high - low);
        if (n <= SUBSET) continue;
        const int room = (SUBSET - n_kept) / (2 * n_groups);
        unsigned keys[PER_THREAD], wanted = 0;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            keys[p] = ordered(seen[p]);
            wanted |= (unsigned)((rises & free & members) >> p & 1 && seen[p] < high) << p;
        }
        free &= ~wanted;
        size = append_smallest(keys, wanted, room, subset, size);
        free |= wanted;
        wanted = 0;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            keys[p] = ~keys[p];
            wanted |= (unsigned)((falls & free & members) >> p & 1 && seen[p] > low) << p;
        }
        free &= ~wanted;
        size = append_smallest(keys, wanted, room, subset, size);
        free |= wanted;
    }
    *violation = most;
    if (!(most > enough)) return 0;
    if (n <= SUBSET) {
        for (int k = thread; k < n; k += THREADS) subset[k] = k;
        return n;
    }
    n_kept = min(n_kept, SUBSET - size);
    for (int k = thread; k < n_kept; k += THREADS) subset[size + k] = kept[k];
    return size + n_kept;
}

// The one of a lane's numbers at a position that only the lane knows: registers have no index.
template <class T> __device__ __forceinline__ T pick(const T (&values)[PER_LANE], int at)
{
    T found = values[0];
#pragma unroll
    for (int p = 1; p < PER_LANE; p++) found = at == p ? values[p] : found;
    return found;
}

// The subset's variables, solved for by one warp; how many pairs were updated. ``up`` and ``down`` are
// how far each can rise and fall. See aesvm.solver.pair_updates for the choice of pairs.
//
// Slopes are seen from the middle of the edges, and compared in single precision; differences by which
// variables move are double.
__device__ int update_pairs(
    const real *K, const double *start, const int *group_of, int n, int n_groups, float enough,
    int limit, double *up, double *down, const double *width, double *fell)
{
    const int lane = threadIdx.x % 32;
    double slope[PER_LANE];
    real diag[PER_LANE];
    float largest = 0;
    unsigned rises = 0, falls = 0, of_second = 0;  // a bit for each: of the second group
#pragma unroll
    for (int p = 0; p < PER_LANE; p++) {
        const int k = lane + 32 * p;
        const bool here = k < n;
        slope[p] = here ? start[k] : 0;
        diag[p] = here ? K[k * SUBSET + k] : (real)0;
        largest = fmaxf(largest, fabsf((float)diag[p]));
        rises |= (unsigned)(here && up[k] > 0) << p, falls |= (unsigned)(here && down[k] > 0) << p;
        of_second |= (unsigned)(here && group_of[k]) << p;
    }
    const double flat = 1e-12 * -(double)least_of_warp(-largest) + 1e-300;
    int updates = 0;
    while (updates < limit) {
        // the variable to rise: of smallest slope, in the group that is farthest from its optimum
        float seen[PER_LANE];
#pragma unroll
        for (int p = 0; p < PER_LANE; p++) seen[p] = (float)slope[p];
        int i = -1;
        unsigned members = ~0u;
        float seen_i = INFINITE, violation = -INFINITE;
        for (int g = 0; g < n_groups; g++) {
            const unsigned own_group = n_groups == 1 ? ~0u : g ? of_second : ~of_second;
            float least = INFINITE, most = -INFINITE;
            int own = 0;
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) {
                const float low = (rises & own_group) >> p & 1 ? seen[p] : INFINITE;
                own = low < least ? p : own;
                least = fminf(least, low);
            }
            const float lowest = least_of_warp(least);
            const int from = __ffs(__ballot_sync(ALL, least == lowest)) - 1;
            const int first = from + 32 * __shfl_sync(ALL, own, from);
            if (n_groups > 1) {
#pragma unroll
                for (int p = 0; p < PER_LANE; p++)
                    most = fmaxf(most, (falls & own_group) >> p & 1 ? seen[p] : -INFINITE);
                most = -least_of_warp(-most);
            } else {
                most = INFINITE;
            }
            if (lowest < INFINITE && most - lowest > violation)
                violation = most - lowest, i = first, seen_i = lowest, members = own_group;
        }
        if (i < 0) break;
        const real *line_i = K + i * SUBSET;
        const double diag_i = (double)line_i[i];
        // its partner, which falls: the one that lowers the objective most
        real line[PER_LANE];
        float gain = 0;
        int own = 0;
        bool is_wide = false;
#pragma unroll
        for (int p = 0; p < PER_LANE; p++) {
            line[p] = line_i[lane + 32 * p];
            const float ahead = seen[p] - seen_i;
            const bool can = ((falls & members) >> p & 1) && ahead > 0;
            const float eta = (float)((real)diag_i + diag[p] - 2 * line[p]);
            // nothing is too large, nor too small, to be compared
            float lowers = __fdividef(ahead * ahead, fmaxf(eta, (float)flat));
            lowers = can ? fmaxf(fminf(lowers, 3e38f), 1e-38f) : 0;
            is_wide = is_wide || (can && ahead > enough);
            own = lowers > gain ? p : own;
            gain = fmaxf(gain, lowers);
        }
        if (!__ballot_sync(ALL, is_wide)) break;
        const unsigned bits = __float_as_uint(gain);
        const int from = __ffs(__ballot_sync(ALL, bits == __reduce_max_sync(ALL, bits))) - 1;
        const int j = from + 32 * __shfl_sync(ALL, own, from);
        const real *line_j = K + j * SUBSET;
        const double slope_i = __shfl_sync(ALL, pick(slope, i / 32), i % 32);
        const double slope_j = __shfl_sync(ALL, pick(slope, j / 32), j % 32);
        const double eta = diag_i + (double)line_j[j] - 2 * (double)line_i[j];
        const double room_i = up[i], room_j = down[j], difference = slope_j - slope_i;
        const double step = fmin(difference / fmax(eta, flat), fmin(room_i, room_j));
#pragma unroll
        for (int p = 0; p < PER_LANE; p++)
            slope[p] += step * (double)(line[p] - line_j[lane + 32 * p]);
        const double up_i = step == room_i ? 0 : fmax(room_i - step, 0.0);
        const double down_j = step == room_j ? 0 : fmax(room_j - step, 0.0);
        const double down_i = up_i == 0 ? width[i] : fmin(down[i] + step, width[i]);
        const double up_j = down_j == 0 ? width[j] : fmin(up[j] + step, width[j]);
        __syncwarp();
        if (lane == 0) up[i] = up_i, down[i] = down_i, up[j] = up_j, down[j] = down_j;
        if (lane == i % 32) {
            const unsigned bit = 1u << i / 32;
            rises = up_i > 0 ? rises | bit : rises & ~bit;
            falls = down_i > 0 ? falls | bit : falls & ~bit;
        }
        if (lane == j % 32) {
            const unsigned bit = 1u << j / 32;
            rises = up_j > 0 ? rises | bit : rises & ~bit;
            falls = down_j > 0 ? falls | bit : falls & ~bit;
        }
        __syncwarp();
        *fell += step * (difference - 0.5 * step * eta);
        updates++;
    }
    return updates;
}

// The dual in the variables chosen. ``block`` has their kernel values, ``inside`` room for five numbers
// of each of a working set: slopes, how far each can rise and fall, the width between its bounds, and
// what it moves by in a subset; ``corner`` for the kernel values of a subset.
//
// Blocks that are there at once, a power of two of them; the first one chooses and solves.
extern "C" __global__ void __launch_bounds__(THREADS) solve_working_set(
    const real *block, const int *chosen, const int *n_chosen, const int *numbers,
    const double *scores, const int *at, double *coefs, const double *linear, const double *lower,
    const double *upper, const signed char *groups, int n_groups, double tol, double inner,
    long long limit, double *inside, real *corner, int *subset, signed char *group_of,
    unsigned *told, int *moved_rows, double *moves, int *n_moved, double *summary)
{
    DYNAMIC_SHARED(real, K);
    __shared__ double start[SUBSET], can_rise[SUBSET], can_fall[SUBSET], span[SUBSET];
    __shared__ double before[SUBSET], fell_by;
    __shared__ int own_group[SUBSET], updated;
    const int thread = threadIdx.x, n = *n_chosen;
    const int everywhere = blockIdx.x * THREADS + thread, all = gridDim.x * THREADS;
    double *slope = inside, *up = slope + WORKING_SET, *down = up + WORKING_SET;
    double *width = down + WORKING_SET, *change = width + WORKING_SET;
    for (int k = everywhere; k < n; k += all) {
        const int v = chosen[k], group = groups[v];
        const double lowest = summary[LOWEST + group], highest = summary[HIGHEST + group];
        const bool both = lowest < 0.5 * FAR && highest > -0.5 * FAR;
        slope[k] = scores[at[v]] + linear[v] - (both ? 0.5 * (lowest + highest) : 0);
        // between bounds that are equal, none moves
        up[k] = upper[v] - coefs[v], down[k] = coefs[v] - lower[v], width[k] = upper[v] - lower[v];
        group_of[k] = group;
    }
    const double enough = fmax(tol, inner * summary[VIOLATION]);
    long long updates = 0;
    double fell = 0;
    int size = 0;
    wait_for_blocks(told);
    while (true) {
        float violation = 0;  // of the subset, as the first block knows
        if (blockIdx.x == 0) {
            if (updates < limit)
                size = choose_subset(slope, up, down, group_of, n, n_groups, enough, subset, size, &violation);
            if (thread == 0) told[N_SUBSET] = size, told[IS_OVER] = size == 0 || updates >= limit;
        }
        wait_for_blocks(told);
        if (told[IS_OVER]) break;
        const int n_subset = told[N_SUBSET];
        for (int e = everywhere; e < n_subset * SUBSET; e += all) {
            const int k = e / SUBSET, m = e % SUBSET;
            if (m < n_subset) corner[e] = block[(long long)subset[k] * WORKING_SET + subset[m]];
        }
        wait_for_blocks(told);
        if (blockIdx.x == 0) {
            const float narrow = fmaxf((float)enough, NARROWER * violation);
            for (int e = thread; e < n_subset * SUBSET; e += THREADS) K[e] = corner[e];
            for (int k = thread; k < n_subset; k += THREADS) {
                const int s = subset[k];
                start[k] = slope[s], can_rise[k] = before[k] = up[s], can_fall[k] = down[s];
                span[k] = width[s], own_group[k] = group_of[s];
            }
            __syncthreads();
            if (thread < 32) {
                double own_fall = 0;
                const long long most = limit - updates < UPDATES ? limit - updates : UPDATES;
                const int count = update_pairs(K, start, own_group, n_subset, n_groups, narrow, (int)most,
                                               can_rise, can_fall, span, &own_fall);
                if (thread == 0) updated = count, fell_by = own_fall;
            }
            __syncthreads();
            updates += updated, fell += fell_by;
            int count = 0;
            for (int first = 0; first < n_subset; first += THREADS) {
                const int k = first + thread, s = k < n_subset ? subset[k] : 0;
                const double by = k < n_subset ? before[k] - can_rise[k] : 0;
                int total;
                const int rank = count + rank_of(by != 0, &total);
                if (by != 0) {
                    change[rank] = by, subset[SUBSET + rank] = s;
                    up[s] = can_rise[k], down[s] = can_fall[k];
                }
                count += total;
            }
            if (thread == 0) told[N_MOVED_OF_SUBSET] = count, told[IS_OVER] = updated == 0;
        }
        wait_for_blocks(told);
        if (told[IS_OVER]) break;
        const int n_changed = told[N_MOVED_OF_SUBSET];
        for (int k = everywhere; k < n; k += all) {
            double sum = 0;
#pragma unroll 8
            for (int m = 0; m < n_changed; m++)
                sum += change[m] * (double)block[(long long)subset[SUBSET + m] * WORKING_SET + k];
            slope[k] += sum;
        }
        wait_for_blocks(told);
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
        const int rank = total + rank_of(by != 0, &more);
        if (by != 0) {
            coefs[v] = coef;
            moved_rows[rank] = numbers[k];
            moves[rank] = by;
        }
        total += more;
        moved += fabs(by);
    }
    moved = total_of_block(moved);
    if (thread == 0) {
        *n_moved = total;
        summary[N_UPDATES] += (double)updates;
        summary[MOVED] += moved;
        summary[N_MOVED] += total;
        summary[FELL] += fell;
    }
}
