// Approximate extreme points of many subsets, a block to each: aesvm.sets.hull on the device.
//
// Compiled with
//   REAL     float or double: the precision of kernel values
//   THREADS  of a block: a multiple of 32, at most 256
//
// The same phases in the same order as there, and the same CheckPoint. What differs is where things
// are: the gradient, the members and the combination that is worked on lie in shared memory;
// members are gathered from the Gram block itself; and the ledger, in global memory, has the
// combinations.
//
// All threads of a block take every branch together: each of them computes the numbers that decide
// from what is shared. Thread k looks at members k, k + THREADS, ..., and no other thread changes
// their gradient. Minima go to the lowest position, and sums have an order that depends on sizes
// alone: nothing depends on the order in which threads come by.

#include "ball.cu"

#define MOST_SUPPORT 256  // rows of a combination: no check reaches that, by the moves it may make
#define TINY 1e-12f       // least squared distance that the choice of a target distinguishes

enum { ABSORB, PRUNE, COVER, PHASES };
enum { DONE, LEDGER_FULL };  // what becomes of a subset; hull.py knows the first

// The rows chosen so far. In ``g`` is half the gradient of a check, sum_s mu_s K_ts - K_it.
struct Members {
    int *rows, *place;  // the row of each member; the place of each row among them, or -1
    real *g, *diag;

    __device__ __forceinline__ int row(int t, int m) const { return rows[WITHIN(t, m)]; }
};

// Convex weights of some members; all zero of the others.
struct Combination {
    double mu[MOST_SUPPORT];
    int support[MOST_SUPPORT];
    int size;
};

// The rows on the sphere become the first members; returns how many.
__device__ __forceinline__ int seed(const Gram gram, const Members members, const int *order)
{
    const int thread = threadIdx.x, lane = thread % 32;
    for (int i = thread; i < gram.n; i += THREADS) members.place[i] = -1;
    __syncthreads();
    int m = 0;
    for (int first = 0; first < gram.n; first += 32) {
        const int i = first + lane < gram.n ? -1 - order[first + lane] : -1;
        const unsigned set = __ballot_sync(ALL, i >= 0);
        const int t = m + __popc(set & ((1u << lane) - 1));
        if (thread < 32 && i >= 0) {
            members.rows[t] = i;
            members.place[i] = t;
            members.diag[t] = gram.at(i, i);
        }
        m += __popc(set);
    }
    __syncthreads();
    return m;
}

// Squared distance of row i to its combination, in double precision.
//
// One barrier: there is another before the next call, so that all are done with the parts.
__device__ __forceinline__ double residual(
    const Gram gram, const Members members, const Combination &own, int size, int m, int i)
{
    __shared__ double parts[WARPS];
    double p = 0;
    for (int e = threadIdx.x; e < size * size; e += THREADS) {
        const int a = e / size, c = e - a * size;
        const int row = members.row(own.support[a], m), column = members.row(own.support[c], m);
        p += own.mu[a] * own.mu[c] * (double)gram.at(row, column);
        if (c == 0) p -= 2 * own.mu[a] * (double)gram.at(i, row);
    }
    p = sum_of_warp(p);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = p;
    __syncthreads();
    p = (double)gram.at(i, i);
#pragma unroll
    for (int w = 0; w < WARPS; w++) p += parts[w];
    return p;
}

// A recorded combination without the rows that have left. Returns its size; writes it down where
// it is not ``count``, or where it is wanted ``always``.
__device__ __forceinline__ int recall(
    const Gram gram, const Members members, const int *rows, const double *coefs, int count,
    bool always, Combination &own)
{
    const int thread = threadIdx.x, lane = thread % 32;
    int size = 0;
    double total = 0;
    for (int first = 0; first < count; first += 32) {
        const int e = first + lane;
        const bool stays = e < count && members.place[WITHIN(rows[e], gram.n)] >= 0;
        size += __popc(__ballot_sync(ALL, stays));
        if (stays) total += coefs[e];
    }
    if (size == count && !always) return size;
    total = sum_of_warp(total);
    int kept = 0;
    for (int first = 0; thread < 32 && first < count; first += 32) {
        const int e = first + lane, t = e < count ? members.place[rows[e]] : -1;
        const unsigned set = __ballot_sync(ALL, t >= 0);
        const int a = kept + __popc(set & ((1u << lane) - 1));
        if (t >= 0) own.support[a] = t, own.mu[a] = coefs[e] / total;
        kept += __popc(set);
    }
    if (thread == 0) own.size = size;
    __syncthreads();
    return size;
}

// Moves the gradient for a step of weight between two rows; from nowhere where ``from`` is -1.
__device__ __forceinline__ void shift(
    const Gram gram, const Members members, int m, real step, int to, int from)
{
    for (int begin = threadIdx.x; begin < m; begin += AHEAD * THREADS) {
        real nearer[AHEAD], farther[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int row = members.rows[min(begin + k * THREADS, m - 1)];
            nearer[k] = gram.at(to, row), farther[k] = gram.at(from < 0 ? to : from, row);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int t = begin + k * THREADS;
            const real change = from < 0 ? nearer[k] : nearer[k] - farther[k];
            if (t < m) members.g[t] += step * change;
        }
    }
}

// The member at which a check starts, or to which weight moves: what a warp found, and all did.
struct alignas(16) Target {
    float gain;
    int at;
    real least;  // of g; at the start, of half the squared distances
    real slope, value;  // g of the member, and its kernel value with the source
};

// The gradient of a combination. Where there is none, the member nearest to row i.
__device__ __forceinline__ Target find_gradient(
    const Gram gram, const Members members, const Combination &own, int size, int m, int i,
    int place, Target *of_warp)
{
    const real half = 0.5, far = FAR;
    Target found = {0, m, 2 * far, 0, 0};
    for (int begin = threadIdx.x; begin < m; begin += AHEAD * THREADS) {
        real slopes[AHEAD];
        int rows[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            rows[k] = members.rows[min(begin + k * THREADS, m - 1)];
            slopes[k] = -gram.at(i, rows[k]);
        }
#pragma unroll 4
        for (int a = 0; a < size; a++) {
            const real weight = (real)own.mu[a];
            const int row = members.row(own.support[a], m);
#pragma unroll
            for (int k = 0; k < AHEAD; k++) slopes[k] += weight * gram.at(row, rows[k]);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int t = begin + k * THREADS;
            if (t >= m) continue;
            if (t == place) slopes[k] = far;
            members.g[t] = slopes[k];
            const real key = half * members.diag[t] + slopes[k];
            if (key < found.least) found.least = key, found.at = t, found.slope = slopes[k];
        }
    }
    if (size > 0) return found;
    const real least = least_of_warp(found.least);
    const int lowest = lowest_of_warp(found.least == least, found.at);
    if (leads(found.least == least && found.at == lowest)) of_warp[threadIdx.x / 32] = found;
    __syncthreads();
    found = of_warp[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        const Target other = of_warp[w];
        if (other.least < found.least || (other.least == found.least && other.at < found.at))
            found = other;
    }
    return found;
}

// The least g, and the member to which moving weight from the source lowers p most: where
// (g_s - g_t)^2 / |z_s - z_t|^2 is largest, in single precision; m where none is below the source.
__device__ __forceinline__ Target best_target(
    const Gram gram, const Members members, int m, real top, real source_diag, int source_row,
    Target *of_warp)
{
    Target found = {0, m, (real)FAR, 0, 0};
    for (int begin = threadIdx.x; begin < m; begin += AHEAD * THREADS) {
        real values[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            values[k] = gram.at(source_row, members.rows[min(begin + k * THREADS, m - 1)]);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int t = begin + k * THREADS;
            if (t >= m) continue;
            const real slope = members.g[t];
            if (slope < found.least) found.least = slope;
            if (!(slope < top)) continue;
            const float ahead = (float)(top - slope);
            const float curvature = (float)(source_diag + members.diag[t] - 2 * values[k]);
            // never nothing, which would be no target
            const float gain = fmaxf(fminf(ahead * ahead / fmaxf(curvature, TINY), 3e38f), 1e-38f);
            if (gain > found.gain)
                found.gain = gain, found.at = t, found.slope = slope, found.value = values[k];
        }
    }
    const unsigned bits = __float_as_uint(found.gain);
    const unsigned most = __reduce_max_sync(ALL, bits);
    const int lowest = lowest_of_warp(bits == most, found.at);
    const real least = least_of_warp(found.least);
    found.least = least;
    if (leads(bits == most && found.at == lowest)) of_warp[threadIdx.x / 32] = found;
    __syncthreads();
    found = of_warp[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        const Target other = of_warp[w];
        const real both = other.least < found.least ? other.least : found.least;
        if (other.gain > found.gain || (other.gain == found.gain && other.at < found.at))
            found = other;
        found.least = both;
    }
    return found;
}

// Weight moves to the member ``target`` from the one at ``high``, whose weight is given. By a warp.
__device__ __forceinline__ void move_weight(
    Combination &own, int size, int target, int high, double weight, double step)
{
    const int lane = threadIdx.x % 32;
    int known = size;
    for (int a = lane; a < size; a += 32)
        if (own.support[a] == target) known = a;
    known = lowest_of_warp(true, known);
    if (lane) return;
    own.mu[known] = known < size ? own.mu[known] + step : step;
    own.support[known] = target;
    own.mu[high] = weight - step;
    size += known == size;
    if (step == weight) {  // nothing is left of the source
        size--;
        own.support[high] = own.support[size];
        own.mu[high] = own.mu[size];
    }
    own.size = size;
}

struct Limits { int moves; double patience; };
struct Answer { bool inside; int size; double p; };

// CheckPoint: is row i, itself at ``place`` or -1, within tol of the hull of the other members?
//
// As in aesvm.sets.hull, but that ``mu`` is parallel to ``support``. Two barriers to a move: before
// the gradient is read, and before what the warps found is.
__device__ __forceinline__ Answer check(
    const Gram gram, const Members members, Combination &own, int size, int m, int i, int place,
    double tol, const Limits limits)
{
    __shared__ Target targets[WARPS];
    const int lane = threadIdx.x % 32;
    const double square = (double)gram.at(i, i);
    double p = 0, dot = 0;  // <z_i, u>
    if (size > 0) {
        p = residual(gram, members, own, size, m, i);
        if (p <= tol) return {true, size, p};
    }
    const Target nearest = find_gradient(gram, members, own, size, m, i, place, targets);
    // The start is a move too: from nowhere to the nearest member, or none at all.
    double step = 0;
    int to = -1, from = -1;
    if (size == 0) {
        if (!(nearest.least < 0.5 * FAR)) return {false, 0, 0};
        if (threadIdx.x == 0) own.support[0] = nearest.at, own.mu[0] = 1, own.size = 1;
        step = 1;
        to = members.row(nearest.at, m);
        dot = -(double)nearest.slope;
        p = square - 2 * dot + (double)members.diag[nearest.at];
    } else {
        for (int a = lane; a < size; a += 32)
            dot += own.mu[a] * (double)gram.at(i, members.row(own.support[a], m));
        dot = sum_of_warp(dot);
    }
    bool inside = size == 0 && p <= tol;
    real gained = 0, lost = 0;  // kernel values of row i that the last move brings into dot
    for (int moves = 0; moves < limits.moves && !inside; moves++) {
        if (step != 0) shift(gram, members, m, (real)step, to, from);
        __syncthreads();
        size = own.size;
        if (p <= tol) {
            p = residual(gram, members, own, size, m, i);
            inside = p <= tol;
            if (inside) break;
        }
        real top = -FAR;
        int high = 0;
        for (int a = lane; a < size; a += 32) {
            const real slope = members.g[WITHIN(own.support[a], m)];
            if (slope > top) top = slope, high = a;
        }
        const real most = -least_of_warp(-top);
        high = lowest_of_warp(top == most, high);
        const int source = own.support[high];
        const double weight = own.mu[high];
        const real source_diag = members.diag[source];
        from = members.row(source, m);
        const Target target = best_target(gram, members, m, most, source_diag, from, targets);
        dot += step * ((double)gained - (double)lost);
        const double reach = square - dot + (double)target.least;  // <v, z_i> - max_t <v, z_t>
        if ((reach > 0 && reach * reach > tol * p) || target.at == m || size == MOST_SUPPORT) break;
        const double slope = (double)most - (double)target.slope;
        const double curvature =
            (double)source_diag + (double)members.diag[target.at] - 2 * (double)target.value;
        step = weight;
        if (slope < step * curvature) step = fmin((double)((real)slope / (real)curvature), weight);
        const double gain = step * (2 * slope - step * curvature);
        if (!(gain > 1e-9 * p) || p - tol > limits.patience * gain) break;
        p -= gain;
        to = members.row(target.at, m);
        gained = gram.at(i, to), lost = gram.at(i, from);
        if (threadIdx.x / 32 == WARPS - 1) move_weight(own, size, target.at, high, weight, step);
    }
    __syncthreads();
    return {inside, own.size, p};
}

// Combinations that sum to one, and the weights handed on by them.
__device__ __forceinline__ void write_out(
    int n, const double *weights, const int *place, const int *start, int *length,
    const int *ledger_rows, double *ledger_coefs, double *totals, int *selected, double *residuals,
    double *sums)
{
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const bool member = place[i] >= 0;
        selected[i] = member;
        totals[i] = member ? weights[i] : 0;
        if (member) residuals[i] = 0, length[i] = 0;
        const int first = start[i], last = first + (member ? 0 : length[i]);
        double total = 0;
        for (int e = first; e < last; e++) total += ledger_coefs[e];
        for (int e = first; e < last; e++) ledger_coefs[e] /= total;
    }
    __syncthreads();
    // one row after another, so that sums have one order; the entries of a row are different rows
    for (int i = 0; i < n; i++) {
        const int first = start[i], count = length[i];
        if (count == 0) continue;
        for (int a = threadIdx.x; a < count; a += THREADS)
            totals[ledger_rows[first + a]] += weights[i] * ledger_coefs[first + a];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += THREADS) sums[i] = totals[i];
}

// Reduce subset b of a batch in block b.
//
// grams (subsets, n, n), of which each subset has sizes[b] rows; weights (subsets, n).
// Written: the combinations, of row i length[i] entries of the ledger (subsets, n_entries) from
// start[i] on, none of a row that is selected; whether it is; its squared distance from its
// combination; the weight that it stands for, where it is. answers[b]: DONE, or LEDGER_FULL, and
// nothing else that was written is of use. ``order`` is scratch.
//
// Five blocks of 128 threads share a multiprocessor, so that 132 of those are enough for 581,012
// rows in subsets of 1,000. Shared memory: (8 + max(8, 2 sizeof(real))) n bytes.
extern "C" __global__ void __launch_bounds__(THREADS, 640 / THREADS) find_extreme_points(
    const real *grams, const int *sizes, const double *weights, int n, int n_entries, double tol,
    int absorb_moves, double absorb_patience, int check_moves, double check_patience,
    int *ledger_rows, double *ledger_coefs, int *start, int *length, int *order, int *selected,
    double *residuals, double *sums, int *answers)
{
    // slopes and centre of the ball; afterwards the members, and in the end sums of weights
    DYNAMIC_SHARED(double, memory);
    __shared__ Combination own;
    const int thread = threadIdx.x;
    const long long b = blockIdx.x;
    const Gram gram = {grams + b * n * n, sizes[b], n};
    int *rows = (int *)memory;
    real *values = (real *)(memory + n);
    const Members members = {rows, rows + n, values, values + n};
    ledger_rows += b * n_entries, ledger_coefs += b * n_entries;
    start += b * n, length += b * n, order += b * n, residuals += b * n;
    rank_by_distance(gram, memory, memory + n, order);
    int m = seed(gram, members, order), used = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        const Limits limits = phase == ABSORB ? Limits{absorb_moves, absorb_patience}
                                              : Limits{check_moves, check_patience};
        for (int at = 0; at < gram.n; at++) {
            const int i = order[at];
            if (i < 0) continue;
            const int place = members.place[i];
            if ((phase == PRUNE) != (place >= 0)) continue;
            int size = 0, first = 0, count = 0;
            if (phase != ABSORB) {
                first = start[i], count = length[i];
                size = recall(gram, members, ledger_rows + first, ledger_coefs + first, count,
                              phase == PRUNE, own);
                if (size == count && phase != PRUNE) continue;
            }
            const Answer found = check(gram, members, own, size, m, i, place, tol, limits);
            size = found.size;
            if (found.inside || phase == ABSORB) {
                if (size == 0 || size > count) {
                    if (used + size > n_entries) {
                        if (thread == 0) answers[b] = LEDGER_FULL;
                        return;
                    }
                    first = used;
                    used += size;
                }
                for (int a = thread; a < size; a += THREADS) {
                    ledger_rows[first + a] = members.row(own.support[a], m);
                    ledger_coefs[first + a] = own.mu[a];
                }
                if (thread == 0) start[i] = first, length[i] = size, residuals[i] = found.p;
            }
            const bool joins = !found.inside && phase != PRUNE;
            const bool leaves = found.inside && phase == PRUNE;
            // Others may still be reading rows of the combination. Row i is none of them: what
            // changes is its own place, or the one behind the last.
            if (thread == 0 && joins) {
                members.rows[m] = i;
                members.diag[m] = gram.at(i, i);
                members.place[i] = m;
            }
            if (thread == 0 && leaves) {
                const int last = members.rows[m - 1];
                members.rows[place] = last;
                members.diag[place] = members.diag[m - 1];
                members.place[last] = place;
                members.place[i] = -1;
            }
            m += joins - leaves;
            __syncthreads();
        }
    }
    write_out(gram.n, weights + b * n, members.place, start, length, ledger_rows, ledger_coefs,
              memory + n, selected + b * n, residuals, sums + b * n);
    if (thread == 0) answers[b] = DONE;
}
