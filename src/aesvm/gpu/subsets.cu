// The dual in a working set, solved in one subset of it after another.
//
// Compiled with
//   REAL         float or double: the precision of kernel values
//   WORKING_SET  the variables of a working set, at most
//   PER_LANE     a thirty-second of the variables of a subset: what a lane of its warp has
//   OF_VARIABLE  bytes of a variable of a subset, its kernel values aside: what the host counts
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

// What a variable of a working set can do; whether it is of the second group; and whether it is zero at
// its upper bound, so that its coefficient is as precise as the distance from there. (Elsewhere it is
// zero at the lower one.)
enum { RISES = 1, FALLS = 2, OF_SECOND = 4, ZERO_ABOVE = 8 };

__device__ __forceinline__ int ways_of(double up, double down, int kind)
{
    return (up > 0 ? RISES : 0) | (down > 0 ? FALLS : 0) | (kind & (OF_SECOND | ZERO_ABOVE));
}

// What a block needs to choose a subset: of each bin the variables that are there, those to rise in the
// lower half of its bits and those to fall in the upper half.
struct Choice {
    int bins[BINS], kept[SUBSET / 2];
    unsigned char is_taken[PER_THREAD * THREADS];
};

__device__ __forceinline__ int half_of(int packed, int side) { return packed >> 16 * side & 0xffff; }

// A thread's variables: their slopes, and a bit for each that may be chosen, to fall or to rise.
struct Candidates {
    float slope[PER_THREAD], low, high;
    unsigned can, falls;

    // The bin that one is in, by how far it violates optimality: the first are those that do most. BINS:
    // it is not chosen.
    __device__ __forceinline__ int bin(int p, float bins_each) const
    {
        const float from_farthest = falls >> p & 1 ? high - slope[p] : slope[p] - low;
        // the last bits of a sum with 2^23 are the whole number nearest to what is added
        const float at = fminf(from_farthest * bins_each, (float)BINS) + 8388608.0f;
        return can >> p & 1 ? (int)(__float_as_uint(at) & 0x7fffffu) : BINS;
    }
};

// Append to the subset the variables that violate optimality most, at most ``room`` to rise and as many
// to fall: its new size. Of equal ones the first are taken.
__device__ int append_farthest(const Candidates &own, int *bins, int room, int *subset, int size)
{
    __shared__ int cut[2];
    const int thread = threadIdx.x;
    bins[thread] = bins[thread + THREADS] = 0;
    if (thread < 2) cut[thread] = BINS;  // all
    __syncthreads();
    const float bins_each = (BINS - 1) / (own.high - own.low);
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int bin = own.bin(p, bins_each);
        if (bin < BINS) atomicAdd(bins + bin, own.falls >> p & 1 ? 1 << 16 : 1);
    }
    __syncthreads();
    int total;
    const int first = bins[2 * thread], both = first + bins[2 * thread + 1];
    const int before = rank_in_block(both, &total);
    for (int side = 0; side < 2; side++) {  // the bin that holds more than there is room for
        const int left = room - half_of(before, side);
        if (left >= 0 && left < half_of(both, side)) cut[side] = 2 * thread + (left >= half_of(first, side));
    }
    __syncthreads();
    const int last[2] = {cut[0], cut[1]};
    unsigned is_below = 0, is_equal = 0;
    int n_below = 0, n_equal = 0, below, equal;
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int bin = own.bin(p, bins_each), side = own.falls >> p & 1, end = side ? last[1] : last[0];
        is_below |= (unsigned)(bin < end) << p, is_equal |= (unsigned)(bin == end && end < BINS) << p;
        n_below += bin < end ? 1 << 16 * side : 0;
        n_equal += bin == end && end < BINS ? 1 << 16 * side : 0;
    }
    n_below = rank_in_block(n_below, &below);
    n_equal = rank_in_block(n_equal, &equal);
    const int n_rise = min(room, half_of(below, 0) + half_of(equal, 0));
    const int n_fall = min(room, half_of(below, 1) + half_of(equal, 1));
    for (unsigned left = is_below | is_equal; left; left &= left - 1) {
        const int p = __ffs(left) - 1, side = own.falls >> p & 1, one = 1 << 16 * side;
        const bool waits = is_equal >> p & 1;
        const int rank = waits ? half_of(below, side) + half_of(n_equal, side) : half_of(n_below, side);
        n_below += waits ? 0 : one, n_equal += waits ? one : 0;
        if (rank < room) subset[size + (side ? n_rise : 0) + rank] = thread + p * THREADS;
    }
    __syncthreads();
    return size + n_rise + n_fall;
}

// The next subset: the variables that violate optimality most, and the newest of the last subset. Its
// size; 0 where the violation is no more than ``enough``. All blocks choose the same one.
__device__ int choose_subset(
    const float *seen, const unsigned char *ways, int n, int n_groups, double enough, Choice &choice,
    int *subset, int n_before, float *violation)
{
    __shared__ unsigned of_warp[2][32];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    int n_kept = min(n_before, SUBSET / 2);
    Candidates own;
    unsigned rises = 0, falls = 0, of_second = 0, is_new = 0;
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int k = thread + p * THREADS;
        own.slope[p] = k < n ? seen[k] : 0;
        const unsigned way = k < n ? ways[k] : 0;
        rises |= (unsigned)(way & RISES) << p, falls |= (way >> 1 & 1) << p, of_second |= (way >> 2 & 1) << p;
        choice.is_taken[k] = 0;
    }
    __syncthreads();
    for (int k = thread; k < n_kept; k += THREADS)
        choice.kept[k] = subset[k], choice.is_taken[subset[k]] = 1;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) is_new |= (unsigned)!choice.is_taken[thread + p * THREADS] << p;
    float most = -INFINITE;
    int size = 0;
    for (int g = 0; g < n_groups; g++) {
        const unsigned members = g ? of_second : ~of_second;
        const unsigned can_rise = rises & members, can_fall = falls & members;
        float low = INFINITE, high = -INFINITE;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++) {
            low = can_rise >> p & 1 ? fminf(low, own.slope[p]) : low;
            high = can_fall >> p & 1 ? fmaxf(high, own.slope[p]) : high;
        }
        const unsigned least = __reduce_min_sync(ALL, ordered(low));
        const unsigned greatest = __reduce_max_sync(ALL, ordered(high));
        __syncthreads();
        if (lane == 0) of_warp[0][warp] = least, of_warp[1][warp] = greatest;
        __syncthreads();
        own.low = low = from_ordered(__reduce_min_sync(ALL, of_warp[0][lane % (THREADS / 32)]));
        own.high = high = from_ordered(__reduce_max_sync(ALL, of_warp[1][lane % (THREADS / 32)]));
        most = fmaxf(most, high - low);
        if (n <= SUBSET || !(high > low)) continue;
        // one that can do both does what it is farther from
        own.falls = 0;
#pragma unroll
        for (int p = 0; p < PER_THREAD; p++)
            own.falls |= (unsigned)(own.slope[p] - low > high - own.slope[p]) << p;
        own.falls = (own.falls | ~can_rise) & can_fall;
        own.can = (can_rise | can_fall) & is_new;
        size = append_farthest(own, choice.bins, (SUBSET - n_kept) / (2 * n_groups), subset, size);
    }
    *violation = most;
    if (!(most > enough)) return 0;
    if (n <= SUBSET) {
        for (int k = thread; k < n; k += THREADS) subset[k] = k;
        size = n, n_kept = 0;
    }
    n_kept = min(n_kept, SUBSET - size);
    for (int k = thread; k < n_kept; k += THREADS) subset[size + k] = choice.kept[k];
    __syncthreads();
    return size + n_kept;
}

// What is copied at a time.
struct alignas(16) Pack { real of[16 / sizeof(real)]; };

// A subset, in shared memory.
struct alignas(16) Subset {
    real curvature[SUBSET * SUBSET];     // of the objective, along each pair: K_kk + K_mm - 2 K_km
    double slope[SUBSET];
    double up[SUBSET], down[SUBSET];     // how far each variable can rise and fall
    double width[SUBSET];                // between its bounds
    double diag[SUBSET];                 // K_kk
    double before[SUBSET];               // the distance from the bound that is zero, in the beginning
    float2 room[SUBSET];                 // ``up`` and ``down`` in single precision
    float2 reach[SUBSET];                // the highest slope where it can rise; 0 where it can fall
    int kind[SUBSET];                    // OF_SECOND and ZERO_ABOVE

    __device__ __forceinline__ int group(int k) const { return kind[k] & OF_SECOND ? 1 : 0; }
    __device__ __forceinline__ double distance(int k) const { return kind[k] & ZERO_ABOVE ? up[k] : down[k]; }

    // What a variable has moved by. (From the other bound, which may be far, a small move is not seen.)
    __device__ __forceinline__ double moved(int k) const
    {
        return kind[k] & ZERO_ABOVE ? before[k] - up[k] : down[k] - before[k];
    }
};

// A distance in single precision: one that is not zero does not become zero.
__device__ __forceinline__ float rounded(double distance)
{
    return distance > 0 ? fmaxf((float)distance, 1.2e-38f) : 0;
}

static_assert(sizeof(Subset) == SUBSET * (SUBSET * sizeof(real) + OF_VARIABLE), "as in cuda.py");
static_assert(sizeof(Choice) <= sizeof(Subset), "they share their place");
static_assert(PER_THREAD <= 32, "a bit for each");

// Positive numbers are compared with the position of each in their last bits, so that one reduction finds
// both. (Their bits, as whole numbers, are in the same order.) What is found may be less than the largest
// by a part of 3e-5.
#define PLACES 255
static_assert(SUBSET <= PLACES + 1, "there are as many positions");
#define IMPOSSIBLE 3e38f

__device__ __forceinline__ int key_of(float x, int k)
{
    return (int)(__float_as_uint(x) & ~(unsigned)PLACES) | k;
}

__device__ __forceinline__ float less_than_key(int key)
{
    return __uint_as_float((unsigned)(key & ~PLACES) - (PLACES + 1));
}

// Nearly 1 / x, for normal x > 0: to choose by, at half the price of a division.
__device__ __forceinline__ float nearly_inverse(float x)
{
    const float guess = __uint_as_float(0x7ef311c7u - __float_as_uint(x));
    return guess * (2.0f - x * guess);
}

// So many updates are made between two looks at whether the subset is solved.
#define CHECK_EVERY 16

// A pair to update: how far its variables can move, and by how much they are to; infinite where that is as
// far as they can.
struct Move {
    int i, j;
    float wanted;
    double up, down, farther, width;
};

// What becomes of the two, written by even lanes and odd ones.
__device__ __forceinline__ void write(const Move move, bool is_partner, double *near, double *far)
{
    const double most = move.up < move.down ? move.up : move.down;
    const double by = move.wanted < most ? move.wanted : most;
    const double left = (is_partner ? move.down : move.up) - by, other = move.farther + by;
    const int own = is_partner ? move.j : move.i;
    near[own] = left, far[own] = left == 0 || other > move.width ? move.width : other;
}

// The variables of a subset, solved for by one warp; how many pairs were updated. See
// aesvm.solver.pair_updates for the choice of pairs. ``of.slope`` becomes the sum of slopes before and after:
// half of it, times what a variable moves by, is what the objective rises by.
//
// Slopes move by half the difference of a pair's lines of curvatures, and all by the same besides, which
// is added in the end. What is compared is of single precision; how far variables can move is double, and
// brought up to date while the next pair is looked for.
//
// (Not inlined, since more registers are left to it then.)
__device__ __noinline__ int update_pairs(Subset &of, int n, int n_groups, float enough, int limit)
{
    const int lane = threadIdx.x % 32;
    real slope[PER_LANE];
    float largest = 0;
#pragma unroll
    for (int p = 0; p < PER_LANE; p++) {
        const int k = lane + 32 * p;
        const bool here = k < n;
        slope[p] = here ? (real)of.slope[k] : (real)0;
        largest = here ? fmaxf(largest, fabsf((float)of.diag[k])) : largest;
        of.room[k] = here ? make_float2(rounded(of.up[k]), rounded(of.down[k])) : make_float2(0, 0);
    }
    __syncwarp();
    // nothing is too small to be compared
    const float flat = fmaxf(1e-12f * -least_of_warp(-largest), 1e-37f);
    // even lanes write what becomes of the variable that rises, odd ones of its partner
    const bool is_partner = lane & 1;
    double *near = is_partner ? of.down : of.up, *far = is_partner ? of.up : of.down;
    const real *columns = of.curvature + lane;
    int updates = 0, last = -1;
    while (updates < limit && updates > last) {
        // the group that is farthest from its optimum
        int group = 0;
        float highest = 0, violation = -INFINITE;
        for (int g = 0; g < n_groups; g++) {
            float low = INFINITE, high = -INFINITE;
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) {
                const int k = lane + 32 * p;
                const bool member = n_groups == 1 || of.group(k) == g;
                if (member && of.room[k].x > 0) low = fminf(low, (float)slope[p]);
                if (member && of.room[k].y > 0) high = fmaxf(high, (float)slope[p]);
            }
            low = least_of_warp(low), high = -least_of_warp(-high);
            if (high - low > violation) violation = high - low, highest = high, group = g;
        }
        if (!(violation > enough)) break;
#pragma unroll
        for (int p = 0; p < PER_LANE; p++) {
            const int k = lane + 32 * p;
            const bool member = n_groups == 1 || of.group(k) == group;
            of.reach[k] = make_float2(member && of.room[k].x > 0 ? highest : -IMPOSSIBLE,
                                      member && of.room[k].y > 0 ? 0 : -IMPOSSIBLE);
        }
        last = updates;
        int left = min(limit - updates, CHECK_EVERY);
        Move move = {0, 0, 0, of.up[0], of.down[0], far[0], of.width[0]};  // by nothing
        bool is_written = true;
        __syncwarp();
#pragma unroll 1
        for (; left; left--) {
            // the variable to rise: of smallest slope
            float2 reach[PER_LANE];
            int first = 0;
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) reach[p] = of.reach[lane + 32 * p];
            write(move, is_partner, near, far);
            is_written = true;
#pragma unroll
            for (int p = 0; p < PER_LANE; p++)
                first = max(first, key_of((float)((real)reach[p].x - slope[p]), lane + 32 * p));
            first = __reduce_max_sync(ALL, first);
            if (first <= PLACES) break;
            __syncwarp();
            const int i = first & PLACES;
            const real slope_i = (real)highest - (real)less_than_key(first);  // no less than its own
            // its partner, which falls: the one that lowers the objective most
            const real *line_i = columns + i * SUBSET;
            real line[PER_LANE];
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) line[p] = line_i[32 * p];
            const float2 room_i = of.room[i];
            int second = 0;
            float best = 0;
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) {
                const float ahead = (float)(slope[p] - slope_i) + reach[p].y;
                const float step = ahead * nearly_inverse(fmaxf((float)line[p], flat));
                const int gain = key_of(fabsf(ahead) * step, lane + 32 * p);
                best = gain > second ? step : best;
                second = max(second, gain);
            }
            second = __reduce_max_sync(ALL, second);
            const int j = second & PLACES;
            if (second <= PLACES || i == j) break;
            best = __shfl_sync(ALL, best, j % 32);
            const float2 room_j = of.room[j];
            const real *line_j = columns + j * SUBSET;
            real other[PER_LANE];
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) other[p] = line_j[32 * p];
            const float room = fminf(room_i.x, room_j.y), step = fminf(best, room);
            const int own = is_partner ? j : i;
            const float up = is_partner ? room_j.x + step : room_i.x - step;
            const float down = is_partner ? room_j.y - step : room_i.y + step;
            move = {i, j, best < room ? step : INFINITE, of.up[i], of.down[j], far[own], of.width[own]};
            is_written = false;
            __syncwarp();
            of.reach[own] = make_float2(up > 0 ? highest : -IMPOSSIBLE, down > 0 ? 0 : -IMPOSSIBLE);
            of.room[own] = make_float2(up, down);
#pragma unroll
            for (int p = 0; p < PER_LANE; p++) slope[p] += (real)(0.5f * step) * (other[p] - line[p]);
            updates++;
            __syncwarp();
        }
        __syncwarp();
        if (!is_written) {
            write(move, is_partner, near, far);
        }
        __syncwarp();
    }
    double drift = 0;
#pragma unroll
    for (int p = 0; p < PER_LANE; p++) {
        const int k = lane + 32 * p;
        if (k < n) drift += 0.5 * of.diag[k] * of.moved(k);
    }
    drift = sum_of_warp(drift);
#pragma unroll
    for (int p = 0; p < PER_LANE; p++)
        if (lane + 32 * p < n) of.slope[lane + 32 * p] += (double)slope[p] + drift;
    return updates;
}

// Packs that a thread copies at once: two such turns copy a subset.
#define AT_ONCE (int)((SUBSET * SUBSET * sizeof(real) / 16 + 2 * THREADS - 1) / (2 * THREADS))

// Copied by a block. Many packs are on their way at once: a store may not overtake a load by itself.
__device__ void copy_values(real *to, const real *from, int n)
{
    Pack *packs = reinterpret_cast<Pack *>(to);
    const Pack *source = reinterpret_cast<const Pack *>(from);
    const int n_packs = n / (16 / sizeof(real));
    for (int first = threadIdx.x; first < n_packs; first += AT_ONCE * THREADS) {
        Pack values[AT_ONCE];
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++)
            if (first + q * THREADS < n_packs) values[q] = source[first + q * THREADS];
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++)
            if (first + q * THREADS < n_packs) packs[first + q * THREADS] = values[q];
    }
}

// The dual in the variables chosen. ``block`` has their kernel values, ``state`` room for six numbers
// of each of a working set: slopes, how far each can rise and fall, the width between its bounds, its own
// kernel value, and what those move by that move in a subset; ``seen`` slopes in single precision, and
// ``ways`` what each can do; ``corner`` curvatures along the pairs of a subset.
//
// A power of two of blocks that are there at once. All choose, the first one solves, and tells the others
// how many moved: -1 where it came to the end.
extern "C" __global__ void __launch_bounds__(THREADS) solve_working_set(
    const real *block, const int *chosen, const int *n_chosen, const int *numbers,
    const double *scores, const int *at, double *coefs, const double *linear, const double *lower,
    const double *upper, const signed char *groups, int n_groups, double tol, double inner,
    long long limit, double *state, float *seen, unsigned char *ways, real *corner, int *movers,
    unsigned *arrivals, int *n_movers, int *moved_rows, double *moves, int *n_moved, double *summary)
{
    DYNAMIC_SHARED(Pack, memory);
    Choice &choice = *reinterpret_cast<Choice *>(memory);
    Subset &of = *reinterpret_cast<Subset *>(memory);  // later, in the same place
    __shared__ double change_here[SUBSET], sums[THREADS];
    __shared__ int subset[SUBSET], movers_here[SUBSET], updated;
    const int thread = threadIdx.x, n = *n_chosen;
    const int everywhere = blockIdx.x * THREADS + thread, all = gridDim.x * THREADS;
    double *slope = state, *up = slope + WORKING_SET, *down = up + WORKING_SET;
    double *width = down + WORKING_SET, *diag = width + WORKING_SET, *change = diag + WORKING_SET;
    // Where there are other blocks, the first one only solves. Each of the others has some columns of the
    // working set: while the first one solves, it copies what it will need of them.
    const int helpers = max(1, (int)gridDim.x - 1), across = (WORKING_SET + helpers - 1) / helpers;
    const int begin = gridDim.x == 1 ? 0 : ((int)blockIdx.x - 1) * across;
    const int here = begin < 0 ? 0 : max(0, min(across, n - begin));
    const bool holds = gridDim.x > 1 && across <= SUBSET;
    real *held = of.curvature;
    for (int k = everywhere; k < n; k += all) {
        const int v = chosen[k], group = groups[v];
        const double lowest = summary[LOWEST + group], highest = summary[HIGHEST + group];
        const bool both = lowest < 0.5 * FAR && highest > -0.5 * FAR;
        // seen from the middle of the edges: single precision is enough to compare them
        slope[k] = scores[at[v]] + linear[v] - (both ? 0.5 * (lowest + highest) : 0);
        // between bounds that are equal, none moves
        up[k] = upper[v] - coefs[v], down[k] = coefs[v] - lower[v], width[k] = upper[v] - lower[v];
        diag[k] = (double)block[(long long)k * (WORKING_SET + 1)];
        seen[k] = (float)slope[k];
        ways[k] = ways_of(up[k], down[k], (group ? OF_SECOND : 0) | (upper[v] == 0 ? ZERO_ABOVE : 0));
    }
    const double enough = fmax(tol, inner * summary[VIOLATION]);
    long long updates = 0;
    double fell = 0;
    int size = 0;
    while (true) {
        wait_for_blocks(arrivals);
        float violation;
        size = choose_subset(seen, ways, n, n_groups, enough, choice, subset, size, &violation);
        if (!size) break;
        for (int e = everywhere; e < size * SUBSET; e += all) {
            const int k = e / SUBSET, m = e % SUBSET;
            corner[e] = 0;
            if (m >= size) continue;
            const long long one = subset[k], other = subset[m];
            corner[e] = (real)diag[one] + (real)diag[other] - 2 * block[one * WORKING_SET + other];
        }
        wait_for_blocks(arrivals);
        if (blockIdx.x == 0) {
            const float narrow = fmaxf((float)enough, NARROWER * violation);
            copy_values(of.curvature, corner, size * SUBSET);
            for (int k = thread; k < size; k += THREADS) {
                const int s = subset[k];
                of.slope[k] = slope[s], of.up[k] = up[s], of.down[k] = down[s];
                of.width[k] = width[s], of.diag[k] = diag[s], of.kind[k] = ways[s];
                of.before[k] = of.distance(k);
            }
            __syncthreads();
            if (thread < 32) {
                const int most = (int)min(limit - updates, (long long)UPDATES);
                const int count = update_pairs(of, size, n_groups, narrow, most);
                if (thread == 0) updated = count;
            }
            __syncthreads();
            updates += updated;
            int moved = 0;
            double fall = 0;
            for (int first = 0; first < size; first += THREADS) {
                const int k = first + thread, s = k < size ? subset[k] : 0;
                const double by = k < size ? of.moved(k) : 0;
                int total;
                const int rank = moved + rank_in_block(by != 0, &total);
                if (by != 0) {
                    change[rank] = by, movers[rank] = k;
                    up[s] = of.up[k], down[s] = of.down[k];
                    ways[s] = ways_of(up[s], down[s], of.kind[k]);
                    fall -= 0.5 * by * of.slope[k];
                }
                moved += total;
            }
            fell += sum_of_block(fall);
            if (thread == 0) *n_movers = updated == 0 || updates >= limit ? -1 : moved;
        } else if (holds) {
#pragma unroll 8
            for (int e = thread; e < size * across; e += THREADS) {
                const int m = e / across, k = e % across;
                if (k < here) held[e] = block[(long long)subset[m] * WORKING_SET + begin + k];
            }
        }
        wait_for_blocks(arrivals);
        const int n_here = *n_movers;
        if (n_here < 0) break;
        for (int m = thread; m < n_here; m += THREADS) movers_here[m] = movers[m], change_here[m] = change[m];
        __syncthreads();
        // each thread has some of the movers for a column
        const int columns = min(across, THREADS), parts = THREADS / columns;
        for (int first = 0; first < here; first += columns) {
            const int part = thread / columns, k = first + thread % columns;
            const bool counts = part < parts && k < here;
            double sum = 0;
#pragma unroll 8
            for (int m = counts ? part : n_here; m < n_here; m += parts) {
                const int mover = movers_here[m];
                const real value = holds ? held[mover * across + k]
                                         : block[(long long)subset[mover] * WORKING_SET + begin + k];
                sum += change_here[m] * (double)value;
            }
            sums[thread] = sum;
            __syncthreads();
            if (counts && part == 0) {
                for (int other = 1; other < parts; other++) sum += sums[thread + other * columns];
                slope[begin + k] += sum, seen[begin + k] = (float)slope[begin + k];
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
