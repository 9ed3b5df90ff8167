// Steps of the dual's solver: which variables are solved for, these solved, which rest at a bound.
//
// Compiled with
//   REAL         float or double: the precision of kernel values
//   WORKING_SET  the variables that are solved for together, a multiple of 64
//   PER_THREAD   how many of them a thread has in updates of pairs; threads are a multiple of 32
//
// The problem is that of aesvm.solver.smo, in signed coefficients: slopes are scores + linear.
// Nothing depends on the order in which threads come by.

#include "warps.cu"

typedef REAL real;

#define FAR 1e300
#define CHOOSE_THREADS (WORKING_SET / 2 < 1024 ? WORKING_SET / 2 : 1024)
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

// Of each chunk of a group's variables, first to last: the one of smallest slope that can rise, and
// the one of largest slope that can fall, among those that are not marked; and these slopes among
// all. A block for each chunk. found[chunk]: rise, fall; edges[chunk]: lowest, highest.
extern "C" __global__ void find_candidates(
    VARIABLES, const int *marks, int mark, int first, int last, int chunk, Extreme *found,
    double *edges)
{
    const int begin = first + blockIdx.x * chunk, end = min(last, begin + chunk);
    Extreme rise = {FAR, -1}, fall = {-FAR, -1}, lowest = rise, highest = fall;
    for (int v = begin + threadIdx.x; v < end; v += blockDim.x) {
        const Extreme own = {scores[at[v]] + linear[v], v};
        const bool free = marks[v] != mark;
        if (coefs[v] < upper[v]) {
            lowest = better(lowest, own, 1);
            if (free) rise = better(rise, own, 1);
        }
        if (coefs[v] > lower[v]) {
            highest = better(highest, own, -1);
            if (free) fall = better(fall, own, -1);
        }
    }
    rise = best_of_block(rise, 1);
    fall = best_of_block(fall, -1);
    lowest = best_of_block(lowest, 1);
    highest = best_of_block(highest, -1);
    if (threadIdx.x == 0) {
        found[2 * blockIdx.x] = rise, found[2 * blockIdx.x + 1] = fall;
        edges[2 * blockIdx.x] = lowest.slope, edges[2 * blockIdx.x + 1] = highest.slope;
    }
}

// The number of earlier threads whose flag is set, and of all.
__device__ int rank_of(bool flag, int *total)
{
    __shared__ int of_warp[32];
    const int warp = threadIdx.x / 32;
    const unsigned set = __ballot_sync(ALL, flag);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[warp] = __popc(set);
    __syncthreads();
    int before = __popc(set & ((1u << threadIdx.x % 32) - 1)), all = 0;
    for (int w = 0; w < blockDim.x / 32; w++) {
        if (w < warp) before += of_warp[w];
        all += of_warp[w];
    }
    *total = all;
    return before;
}

// The next working set: candidates that violate optimality, then the newest of the last set.
//
// One block of CHOOSE_THREADS threads. Candidates of group g are found[g * most ...], two for each of
// its chunks. Those that will stay in the next set are marked.
extern "C" __global__ void __launch_bounds__(CHOOSE_THREADS) make_working_set(
    const Extreme *found, const double *edges, int n_chunks_first, int n_chunks_last, int most,
    int n_groups, int *chosen, int *n_chosen, int *marks, int mark, double *summary)
{
    const int thread = threadIdx.x;
    double violation = -FAR;
    int size = 0;
    __shared__ int kept[WORKING_SET / 2];
    const int n_before = min(*n_chosen, WORKING_SET / 2);
    for (int k = thread; k < n_before; k += CHOOSE_THREADS) kept[k] = chosen[k];
    __syncthreads();
    for (int g = 0; g < n_groups; g++) {
        const double *own = edges + 2 * g * most;
        const int n_chunks = g == 0 ? n_chunks_first : n_chunks_last;
        Extreme lowest = {FAR, -1}, highest = {-FAR, -1};
        for (int c = thread; c < n_chunks; c += CHOOSE_THREADS) {
            lowest = better(lowest, {own[2 * c], c}, 1);
            highest = better(highest, {own[2 * c + 1], c}, -1);
        }
        lowest = best_of_block(lowest, 1);
        highest = best_of_block(highest, -1);
        if (thread == 0) {
            summary[LOWEST + g] = lowest.slope;
            summary[HIGHEST + g] = highest.slope;
        }
        violation = max(violation, highest.slope - lowest.slope);
        // candidates to rise come first, then those to fall
        for (int first = 0; first < WORKING_SET; first += CHOOSE_THREADS) {
            const int c = (first + thread) % (WORKING_SET / 2);
            const int side = (first + thread) / (WORKING_SET / 2);
            Extreme own_one = {0.0, -1};
            bool wanted = false;
            if (c < n_chunks) {
                const Extreme *pair = found + 2 * (g * most + c);
                own_one = pair[side];
                wanted = own_one.variable >= 0;
                wanted = wanted && (side ? own_one.slope > lowest.slope : own_one.slope < highest.slope);
                // one that is chosen to rise is chosen once
                const bool rises = pair[0].slope < highest.slope;
                if (side && rises && pair[0].variable == own_one.variable) wanted = false;
            }
            int total;
            const int rank = size + rank_of(wanted, &total);
            if (wanted && rank < WORKING_SET) chosen[rank] = own_one.variable;
            size = min(WORKING_SET, size + total);
        }
    }
    const int n_kept = min(n_before, WORKING_SET - size);
    for (int k = thread; k < n_kept; k += CHOOSE_THREADS) chosen[size + k] = kept[k];
    size += n_kept;
    __syncthreads();
    for (int k = thread; k < min(size, WORKING_SET / 2); k += CHOOSE_THREADS) marks[chosen[k]] = mark + 1;
    if (thread == 0) {
        *n_chosen = size;
        summary[VIOLATION] = violation;
        summary[N_CHOSEN] = size;
        summary[N_STAY] = summary[N_FREE] = 0;  // counted from here on
    }
}

// Rows of the variables chosen, by number among the rows in play.
extern "C" __global__ void find_rows(
    const int *chosen, const int *n_chosen, const int *at, int *numbers)
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < *n_chosen) numbers[k] = at[chosen[k]];
}

// The best of a warp's variables: to rise, group by group; and to fall as its partner. ``wide``: whether
// any is so far from it that the two are worth an update.
struct First { unsigned key[2], highest[2]; int k[2]; double slope[2], room[2], diag[2]; };
struct Second { unsigned gain; int k, wide; double slope, room, diag, value; };

#define UPDATE_THREADS (WORKING_SET / PER_THREAD)
#define UPDATE_WARPS (UPDATE_THREADS / 32)

// Kernel values of a variable with those of a thread.
struct alignas(PER_THREAD * sizeof(real)) Values { real of[PER_THREAD]; };

// The lines of a working set's matrix: each variable's values with those of this thread.
struct SetLines {
    const real *K;

    __device__ __forceinline__ Values of(int k) const
    {
        return reinterpret_cast<const Values *>(K + (long long)k * WORKING_SET)[threadIdx.x];
    }
};

// The one of a thread's numbers at a position that only a thread knows: registers have no index.
template <class T> __device__ __forceinline__ T pick(const T (&values)[PER_THREAD], int at)
{
    T found = values[0];
#pragma unroll
    for (int p = 1; p < PER_THREAD; p++) found = at == p ? values[p] : found;
    return found;
}

// The dual in the variables of a block, by updates of pairs; see aesvm.solver.pair_updates. Returns how
// many updates were made.
//
// A thread has PER_THREAD variables. ``up`` and ``down`` are how far each can rise and fall, ``width``
// how far its bounds are apart; ``of_second`` has a bit for each that is of the second group. ``fell``
// is by how much the updates lowered the objective in which a variable of this thread rose.
//
// An update takes as long as its longest chain of operations: so there is no branch but for the two
// variables that move, and the same is done for all of a thread's variables side by side. Slopes are
// seen from the middle of the edges, and compared in single precision; differences by which variables
// move are double.
template <class Lines> __device__ __forceinline__ long long minimise_by_pairs(
    const Lines lines, int n_warps, const real (&diag)[PER_THREAD],
    const double (&width)[PER_THREAD], unsigned of_second, int n_groups, float enough,
    long long limit, double (&slope)[PER_THREAD], double (&up)[PER_THREAD],
    double (&down)[PER_THREAD], double &fell)
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
    fell = 0;
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
                    fell += step * (difference - 0.5 * step * eta);
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

// The dual in the variables chosen, by updates of pairs. One block.
extern "C" __global__ void __launch_bounds__(UPDATE_THREADS) update_pairs(
    const real *K, const int *chosen, const int *n_chosen, const int *numbers, const double *scores,
    const int *at, double *coefs, const double *linear, const double *lower, const double *upper,
    const signed char *groups, int n_groups, double tol, double inner, long long limit,
    int *moved_rows, double *moves, int *n_moved, double *summary)
{
    __shared__ double moved_by[UPDATE_WARPS], fell_by[UPDATE_WARPS];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, n = *n_chosen;
    // how far each can rise, and fall
    double slope[PER_THREAD], up[PER_THREAD], down[PER_THREAD], width[PER_THREAD];
    real diag[PER_THREAD];
    unsigned of_second = 0;
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int k = thread * PER_THREAD + p;
        const bool here = k < n;
        const int v = here ? chosen[k] : 0, group = here ? groups[v] : 0;
        // between bounds that are equal, none moves
        up[p] = here ? upper[v] - coefs[v] : 0, down[p] = here ? coefs[v] - lower[v] : 0;
        width[p] = here ? upper[v] - lower[v] : 0;
        of_second |= (unsigned)group << p;
        const double lowest = summary[LOWEST + group], highest = summary[HIGHEST + group];
        const bool both = lowest < 0.5 * FAR && highest > -0.5 * FAR;
        slope[p] = here ? scores[at[v]] + linear[v] - (both ? 0.5 * (lowest + highest) : 0) : 0;
        diag[p] = here ? K[(long long)k * WORKING_SET + k] : (real)0;
    }
    const float enough = (float)fmax(tol, inner * summary[VIOLATION]);
    double fell;
    const long long updates = minimise_by_pairs(
        SetLines{K}, UPDATE_WARPS, diag, width, of_second, n_groups, enough, limit, slope, up, down,
        fell);
    double moved = 0;
    int total = 0;
#pragma unroll
    for (int p = 0; p < PER_THREAD; p++) {
        const int k = thread * PER_THREAD + p, v = k < n ? chosen[k] : 0;
        // seen from the bound that is zero: a coefficient may be very near to that
        const double coef = upper[v] == 0 ? -up[p] : lower[v] + down[p];
        const double change = k < n ? coef - coefs[v] : 0;
        int more;
        const int rank = total + rank_of(change != 0, &more);
        if (change != 0) {
            coefs[v] = coef;
            moved_rows[rank] = numbers[k];
            moves[rank] = change;
        }
        total += more;
        moved += fabs(change);
    }
    moved = sum_of_warp(moved), fell = sum_of_warp(fell);
    if (lane == 0) moved_by[warp] = moved, fell_by[warp] = fell;
    __syncthreads();
    if (thread == 0) {
        for (int w = 1; w < UPDATE_WARPS; w++) moved += moved_by[w], fell += fell_by[w];
        *n_moved = total;
        summary[N_UPDATES] += (double)updates;
        summary[MOVED] += moved;
        summary[N_MOVED] += total;
        summary[FELL] += fell;
    }
}

// For how many iterations each variable has been at a bound that it does not want to leave; and how many
// have been there for less than ``most``, and how many are at none. After make_working_set.
extern "C" __global__ void count_rest(
    VARIABLES, const signed char *groups, int n, int most, signed char *rest, double *summary)
{
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    bool stays = false, is_free = false;
    if (v < n) {
        const double slope = scores[at[v]] + linear[v];
        const bool rests = (coefs[v] == lower[v] && slope > summary[HIGHEST + groups[v]]) ||
                           (coefs[v] == upper[v] && slope < summary[LOWEST + groups[v]]);
        rest[v] = rests ? min(rest[v] + 1, 100) : 0;
        stays = rest[v] < most;
        is_free = lower[v] < coefs[v] && coefs[v] < upper[v];
    }
    const int count = __popc(__ballot_sync(ALL, stays));
    const int n_free = __popc(__ballot_sync(ALL, is_free));
    // whole numbers: their sum does not depend on the order
    if (threadIdx.x % 32 == 0 && count) atomicAdd(summary + N_STAY, (double)count);
    if (threadIdx.x % 32 == 0 && n_free) atomicAdd(summary + N_FREE, (double)n_free);
}
