// Steps of the dual's solver: which variables are solved for, and which rest at a bound.
//
// Compiled with
//   REAL         float or double: the precision of kernel values
//   WORKING_SET  the variables that are solved for together, a multiple of 64
//
// The problem is that of aesvm.solver.smo, in signed coefficients: slopes are scores + linear.
// Nothing depends on the order in which threads come by.

#include "blocks.cu"

#define CHOOSE_THREADS (WORKING_SET / 2 < 1024 ? WORKING_SET / 2 : 1024)

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
            const int rank = size + rank_in_block(wanted, &total);
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
