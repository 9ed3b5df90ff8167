// Steps of the dual's solver: which variables are solved for, these solved, which rest at a bound.
//
// Compiled with
//   REAL         float or double: the precision of kernel values
//   WORKING_SET  the variables that are solved for together, a multiple of 64, at most 1024
//
// The problem is that of aesvm.solver.smo, in signed coefficients: slopes are scores + linear.
// Nothing depends on the order in which threads come by.

#include "warps.cu"

typedef REAL real;

#define FAR 1e300
#define INFINITE __uint_as_float(0x7f800000u)  // NVRTC, without math.h, has no INFINITY

// The places of ``summary``, which the host reads in every iteration.
enum { VIOLATION, LOWEST, HIGHEST = LOWEST + 2, N_CHOSEN = HIGHEST + 2, N_UPDATES, MOVED, N_MOVED,
       N_STAY };  // as in steps.py

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
// One block of WORKING_SET threads. Candidates of group g are found[g * most ...], two for each of
// its chunks. Those that will stay in the next set are marked.
extern "C" __global__ void __launch_bounds__(1024) make_working_set(
    const Extreme *found, const double *edges, int n_chunks_first, int n_chunks_last, int most,
    int n_groups, int *chosen, int *n_chosen, int *marks, int mark, double *summary)
{
    const int thread = threadIdx.x;
    double violation = -FAR;
    int size = 0;
    __shared__ int kept[WORKING_SET];
    const int n_before = min(*n_chosen, WORKING_SET / 2);
    if (thread < n_before) kept[thread] = chosen[thread];
    __syncthreads();
    for (int g = 0; g < n_groups; g++) {
        const double *own = edges + 2 * g * most;
        const int n_chunks = g == 0 ? n_chunks_first : n_chunks_last;
        Extreme lowest = {FAR, -1}, highest = {-FAR, -1};
        for (int c = thread; c < n_chunks; c += blockDim.x) {
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
        // candidates to rise are those of the first threads, and those to fall of the others
        const int c = thread % (WORKING_SET / 2), side = thread / (WORKING_SET / 2);
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
    const int n_kept = min(n_before, WORKING_SET - size);
    if (thread < n_kept) chosen[size + thread] = kept[thread];
    size += n_kept;
    __syncthreads();
    if (thread < min(size, WORKING_SET / 2)) marks[chosen[thread]] = mark + 1;
    if (thread == 0) {
        *n_chosen = size;
        summary[VIOLATION] = violation;
        summary[N_CHOSEN] = size;
    }
}

// Rows of the variables chosen, by number among the rows in play.
extern "C" __global__ void find_rows(
    const int *chosen, const int *n_chosen, const int *at, int *numbers)
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < *n_chosen) numbers[k] = at[chosen[k]];
}

struct First { unsigned key[2], highest[2]; int k[2]; double slope[2], room[2], diag[2]; };
struct Second { unsigned gain; int k; double slope, room, diag, value; };

// The dual in the variables chosen, by updates of pairs; see aesvm.solver.pair_updates.
//
// One block of WORKING_SET threads, one for each variable. Slopes are compared in single
// precision, seen from the middle of the edges; differences by which variables move are double.
extern "C" __global__ void __launch_bounds__(1024) update_pairs(
    const real *K, const int *chosen, const int *n_chosen, const int *numbers, const double *scores,
    const int *at, double *coefs, const double *linear, const double *lower, const double *upper,
    const signed char *groups, int n_groups, double tol, double inner, long long limit,
    int *moved_rows, double *moves, int *n_moved, double *summary)
{
    __shared__ First firsts[2][32];
    __shared__ Second seconds[2][32];
    const int k = threadIdx.x, lane = k % 32, warp = k / 32, n = *n_chosen;
    const bool here = k < n;
    const int v = here ? chosen[k] : 0;
    const double low = here ? lower[v] : 0, high = here ? upper[v] : 0, begin = here ? coefs[v] : 0;
    const int group = here ? groups[v] : 0;
    double slope = here ? scores[at[v]] + linear[v] : 0, coef = begin;
    const double diag = here ? (double)K[(long long)k * WORKING_SET + k] : 0;
    double middle = 0, largest = 0;
    for (int g = 0; g < n_groups; g++)
        if (summary[LOWEST + g] < 0.5 * FAR && summary[HIGHEST + g] > -0.5 * FAR && g == group)
            middle = 0.5 * (summary[LOWEST + g] + summary[HIGHEST + g]);
    {
        Extreme own = {fabs(diag), here ? k : -1};
        largest = best_of_block(own, -1).slope;
    }
    const double flat = 1e-12 * largest + 1e-300;
    const float enough = (float)fmax(tol, inner * summary[VIOLATION]);
    long long updates = 0;
    while (updates < limit) {
        const int turn = updates & 1;
        // the variable to rise: of smallest slope
        const float seen = (float)(slope - middle);
        const bool can_rise = here && coef < high, can_fall = here && coef > low;
        for (int g = 0; g < n_groups; g++) {
            const bool own = group == g;
            const unsigned up = can_rise && own ? ordered(seen) : ordered(INFINITE);
            const unsigned down = can_fall && own ? ordered(seen) : ordered(-INFINITE);
            const unsigned least = __reduce_min_sync(ALL, up);
            const unsigned most = __reduce_max_sync(ALL, down);
            const int leader = __ffs(__ballot_sync(ALL, up == least)) - 1;
            if (lane == leader) {
                First &slot = firsts[turn][warp];
                slot.key[g] = least, slot.highest[g] = most, slot.k[g] = k;
                slot.slope[g] = slope, slot.room[g] = high - coef, slot.diag[g] = diag;
            }
        }
        __syncthreads();
        float violation = enough;
        int i = -1, from = 0, of_group = 0;
        for (int g = 0; g < n_groups; g++) {
            const bool filled = lane * 32 < WORKING_SET;
            const unsigned up = filled ? firsts[turn][lane].key[g] : ordered(INFINITE);
            const unsigned down = filled ? firsts[turn][lane].highest[g] : ordered(-INFINITE);
            const unsigned least = __reduce_min_sync(ALL, up);
            const unsigned most = __reduce_max_sync(ALL, down);
            const float own = from_ordered(most) - from_ordered(least);
            if (own > violation && own < INFINITE) {
                violation = own;
                from = __ffs(__ballot_sync(ALL, up == least)) - 1;
                of_group = g;
                i = firsts[turn][from].k[g];
            }
        }
        if (i < 0) break;
        const double slope_i = firsts[turn][from].slope[of_group];
        const double room_i = firsts[turn][from].room[of_group];
        const double diag_i = firsts[turn][from].diag[of_group];
        // its partner, which falls: the one that lowers the objective most
        const double value = here ? (double)K[(long long)i * WORKING_SET + k] : 0;
        float gain = 0;
        if (can_fall && group == of_group && slope > slope_i) {
            const float ahead = (float)(slope - slope_i);
            gain = ahead * ahead / (float)fmax(diag_i + diag - 2 * value, flat);
            gain = fmaxf(fminf(gain, 3e38f), 1e-38f);
        }
        const unsigned bits = __float_as_uint(gain);
        const unsigned top = __reduce_max_sync(ALL, bits);
        if (lane == __ffs(__ballot_sync(ALL, bits == top)) - 1)
            seconds[turn][warp] = {top, k, slope, coef - low, diag, value};
        __syncthreads();
        const unsigned own = lane * 32 < WORKING_SET ? seconds[turn][lane].gain : 0;
        const unsigned most = __reduce_max_sync(ALL, own);
        if (most == 0) break;
        const Second second = seconds[turn][__ffs(__ballot_sync(ALL, own == most)) - 1];
        const int j = second.k;
        const double other = here ? (double)K[(long long)j * WORKING_SET + k] : 0;
        const double difference = second.slope - slope_i;
        const double eta = diag_i + second.diag - 2 * second.value;
        const double step = fmin(difference / fmax(eta, flat), fmin(room_i, second.room));
        if (k == i) coef = step == room_i ? high : fmin(coef + step, high);
        if (k == j) coef = step == second.room ? low : fmax(coef - step, low);
        slope += step * (value - other);
        updates++;
    }
    const double change = coef - begin;
    int total;
    const int rank = rank_of(here && change != 0, &total);
    if (here && change != 0) {
        coefs[v] = coef;
        moved_rows[rank] = numbers[k];
        moves[rank] = change;
    }
    __syncthreads();
    if (k == 0) {
        double moved = 0;
        for (int m = 0; m < total; m++) moved += fabs(moves[m]);
        *n_moved = total;
        summary[N_UPDATES] += (double)updates;
        summary[MOVED] += moved;
        summary[N_MOVED] += total;
    }
}

// For how many iterations each variable has been at a bound that it does not want to leave; and how many
// have been there for less than ``most``.
extern "C" __global__ void count_rest(
    VARIABLES, const signed char *groups, int n, int most, signed char *rest, double *summary)
{
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    bool stays = false;
    if (v < n) {
        const double slope = scores[at[v]] + linear[v];
        const bool rests = (coefs[v] == lower[v] && slope > summary[HIGHEST + groups[v]]) ||
                           (coefs[v] == upper[v] && slope < summary[LOWEST + groups[v]]);
        rest[v] = rests ? min(rest[v] + 1, 100) : 0;
        stays = rest[v] < most;
    }
    const int count = __popc(__ballot_sync(ALL, stays));
    // whole numbers: their sum does not depend on the order
    if (threadIdx.x % 32 == 0 && count) atomicAdd(summary + N_STAY, (double)count);
}
