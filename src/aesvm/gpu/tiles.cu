// Kernel values by tiles: written down, or summed up as they are computed.
//
// Compiled with
//   REAL, SINGLE  float and 1, or double and 0: the precision of rows and of kernel values
//   MAP           0 exponential, 1 linear, 2 polynomial, 3 hyperbolic tangent
//   DIFFERENCES   1 where squared distances are summed up from differences, which do not cancel
//
// A kernel value is a map of scale * t + shift, t the product of two rows (or their squared
// distance, with DIFFERENCES). Of the exponential, whose base is 2, the norms of the two rows,
// scaled alike, are subtracted before the map.
//
// Rows are stored one after another, padded with zeros to a multiple of DEPTH features. A block of
// 256 threads, 16 by 16, computes a tile of TILE lines by TILE columns, WIDTH by WIDTH values to a
// thread. Sums over lines are in double precision, in an order that depends on shapes alone.

#include "warps.cu"

typedef REAL real;

#if SINGLE
#define WIDTH 8
#else
#define WIDTH 4
#endif
#define TILE (16 * WIDTH)
#define DEPTH 8                      // features that are multiplied between two barriers
#define LOADS (TILE * DEPTH / 256)   // numbers that a thread loads at once: 16 bytes
#define OF_NORMS (MAP == 0 && !DIFFERENCES)

struct alignas(16) Pack { real of[LOADS]; };

struct Map { real scale, shift; int degree; };

__device__ __forceinline__ real mapped(real t, real norms, const Map map)
{
#if MAP == 0
    const real power = map.scale * t - norms;
#if SINGLE && defined(__CUDA_ARCH__)
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(power));
    return value;
#else
    return exp2(power);
#endif
#elif MAP == 1
    return t;
#elif MAP == 2
    real base = map.scale * t + map.shift, value = 1;
    for (int left = map.degree; left; left >>= 1) {
        if (left & 1) value *= base;
        base *= base;
    }
    return value;
#else
    return tanh(map.scale * t + map.shift);
#endif
}

// Some rows: those at the given numbers, or all.
struct Rows {
    const real *rows, *norms;
    const int *numbers;
    int n, width;

    // beyond the last row, the last: what comes of it is not used, but a coefficient of zero is
    // multiplied by it, and infinity times zero would be no number
    __device__ __forceinline__ long long number(int k) const
    {
        k = min(k, n - 1);
        return numbers ? numbers[k] : k;
    }
    __device__ __forceinline__ const real *at(int k) const { return rows + number(k) * width; }
    __device__ __forceinline__ real norm(int k) const { return OF_NORMS ? norms[number(k)] : 0; }
};

struct alignas(16) Panels {
    real lines[2][DEPTH][TILE];
    real columns[2][DEPTH][TILE];
};

// Where value w of a thread's WIDTH lies in its tile. Threads side by side read 16 bytes each,
// side by side.
__device__ __forceinline__ int place(int thread, int w)
{
    return w / LOADS * (16 * LOADS) + thread * LOADS + w % LOADS;
}

__device__ __forceinline__ void read(const real *panel, int thread, real (&values)[WIDTH])
{
#pragma unroll
    for (int w = 0; w < WIDTH; w += LOADS) {
        const Pack pack = *reinterpret_cast<const Pack *>(panel + place(thread, w));
#pragma unroll
        for (int l = 0; l < LOADS; l++) values[w + l] = pack.of[l];
    }
}

// t of a tile.
__device__ __forceinline__ void multiply(
    const Rows lines, int top, const Rows columns, int left, Panels &panels,
    real (&sums)[WIDTH][WIDTH])
{
    const int thread = threadIdx.x, tx = thread % 16, ty = thread / 16;
    const int row = thread / (DEPTH / LOADS), feature = thread % (DEPTH / LOADS) * LOADS;
    const real *one = lines.at(top + row) + feature, *other = columns.at(left + row) + feature;
#pragma unroll
    for (int a = 0; a < WIDTH; a++)
#pragma unroll
        for (int b = 0; b < WIDTH; b++) sums[a][b] = 0;
    Pack next_line = *reinterpret_cast<const Pack *>(one);
    Pack next_column = *reinterpret_cast<const Pack *>(other);
    __syncthreads();  // what the panels held has been used
    int panel = 0;
    for (int depth = 0; depth < lines.width; depth += DEPTH) {
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            panels.lines[panel][feature + l][row] = next_line.of[l];
            panels.columns[panel][feature + l][row] = next_column.of[l];
        }
        __syncthreads();
        if (depth + DEPTH < lines.width) {
            next_line = *reinterpret_cast<const Pack *>(one + depth + DEPTH);
            next_column = *reinterpret_cast<const Pack *>(other + depth + DEPTH);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            real x[WIDTH], y[WIDTH];
            read(panels.lines[panel][k], ty, x);
            read(panels.columns[panel][k], tx, y);
#pragma unroll
            for (int a = 0; a < WIDTH; a++)
#pragma unroll
                for (int b = 0; b < WIDTH; b++) {
#if DIFFERENCES
                    const real d = x[a] - y[b];
                    sums[a][b] += d * d;
#else
                    sums[a][b] += x[a] * y[b];
#endif
                }
        }
        panel ^= 1;
    }
}

// out[split][o][k] = sum_m coefs[o][m] K(line m, column k), over the lines of each split.
//
// Grid: tiles of columns by splits. Where ``count`` is given, only so many of the lines are there.
// Shared memory: n_outputs * TILE doubles, where there are SEVERAL outputs.
template <bool SEVERAL>
__device__ __forceinline__ void sum_of_lines(
    const Rows columns, const Rows lines, int first, const double *coefs, int n_coefs, int n_outputs,
    const Map map, double *totals, double *out)
{
    __shared__ Panels panels;
    __shared__ double parts[16][TILE];
    __shared__ real right[TILE];
    const int thread = threadIdx.x, tx = thread % 16, ty = thread / 16, left = blockIdx.x * TILE;
    for (int k = thread; k < TILE; k += 256) right[k] = columns.norm(left + k);
#pragma unroll
    for (int b = 0; b < WIDTH; b++) parts[ty][place(tx, b)] = 0;
    if (SEVERAL)
        for (int e = thread; e < n_outputs * TILE; e += 256) totals[e] = 0;
    for (int top = first; top < lines.n; top += TILE) {
        real values[WIDTH][WIDTH];
        multiply(lines, top, columns, left, panels, values);
#pragma unroll
        for (int a = 0; a < WIDTH; a++) {
            const real norm = lines.norm(top + place(ty, a));
#pragma unroll
            for (int b = 0; b < WIDTH; b++)
                values[a][b] = mapped(values[a][b], norm + right[place(tx, b)], map);
        }
        if (!SEVERAL) {
            double coef[WIDTH];
#pragma unroll
            for (int a = 0; a < WIDTH; a++) {
                const int line = top + place(ty, a);
                coef[a] = line < lines.n ? coefs[line] : 0.0;
            }
#pragma unroll
            for (int b = 0; b < WIDTH; b++) {
                double own = 0;
#pragma unroll
                for (int a = 0; a < WIDTH; a++) own += coef[a] * (double)values[a][b];
                parts[ty][place(tx, b)] += own;
            }
            continue;
        }
        for (int o = 0; o < n_outputs; o++) {
            double own[WIDTH];
#pragma unroll
            for (int b = 0; b < WIDTH; b++) own[b] = 0;
#pragma unroll
            for (int a = 0; a < WIDTH; a++) {
                const int line = top + place(ty, a);
                const double coef = line < lines.n ? coefs[(long long)o * n_coefs + line] : 0.0;
#pragma unroll
                for (int b = 0; b < WIDTH; b++) own[b] += coef * (double)values[a][b];
            }
            __syncthreads();
#pragma unroll
            for (int b = 0; b < WIDTH; b++) parts[ty][place(tx, b)] = own[b];
            __syncthreads();
            for (int k = thread; k < TILE; k += 256) {
                double sum = 0;
                for (int t = 0; t < 16; t++) sum += parts[t][k];
                totals[o * TILE + k] += sum;
            }
        }
    }
    __syncthreads();
    for (int e = thread; e < n_outputs * TILE; e += 256) {
        const int o = e / TILE, k = e % TILE;
        if (left + k >= columns.n) continue;
        double sum = 0;
        if (SEVERAL) sum = totals[e];
        else for (int t = 0; t < 16; t++) sum += parts[t][k];
        out[(long long)o * columns.n + left + k] = sum;
    }
}

#define SUM_OF_LINES(NAME, SEVERAL) \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME( \
        const real *column_rows, const real *column_norms, int n_columns, const real *line_rows, \
        const real *line_norms, const int *numbers, const double *coefs, int n_lines, \
        const int *count, int n_outputs, int tiles_of_split, int width, real scale, real shift, \
        int degree, double *out) \
    { \
        DYNAMIC_SHARED(double, totals); \
        const int first = blockIdx.y * tiles_of_split * TILE; \
        const int last = min(count ? *count : n_lines, first + tiles_of_split * TILE); \
        sum_of_lines<SEVERAL>( \
            {column_rows, column_norms, nullptr, n_columns, width}, \
            {line_rows, line_norms, numbers, last, width}, first, coefs, n_lines, n_outputs, \
            {scale, shift, degree}, totals, \
            out + (long long)blockIdx.y * n_outputs * n_columns); \
    }

SUM_OF_LINES(sum_lines, false)
SUM_OF_LINES(sum_lines_to_several, true)

// sums[k] += parts[0][k] + parts[1][k] + ...
extern "C" __global__ void add_parts(const double *parts, int n_parts, long long n, double *sums)
{
    const long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    double sum = 0;
    for (int p = 0; p < n_parts; p++) sum += parts[p * n + k];
    sums[k] += sum;
}

// out[m * stride + k] = K(line m, column k). Grid: tiles of columns by tiles of lines.
//
// Where ``count`` is given, only so many of the lines, and of the columns, are there.
extern "C" __global__ void __launch_bounds__(256, 2) write_values(
    const real *column_rows, const real *column_norms, const int *column_numbers, int n_columns,
    const real *line_rows, const real *line_norms, const int *line_numbers, int n_lines,
    const int *count, int width, real scale, real shift, int degree, long long stride, real *out)
{
    __shared__ Panels panels;
    const Map map = {scale, shift, degree};
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    if (count) n_lines = n_columns = *count;
    if (top >= n_lines || left >= n_columns) return;
    const Rows columns = {column_rows, column_norms, column_numbers, n_columns, width};
    const Rows lines = {line_rows, line_norms, line_numbers, n_lines, width};
    real values[WIDTH][WIDTH];
    multiply(lines, top, columns, left, panels, values);
#pragma unroll
    for (int a = 0; a < WIDTH; a++) {
        const int line = top + place(ty, a);
        if (line >= n_lines) continue;
        const real norm = lines.norm(line);
#pragma unroll
        for (int b = 0; b < WIDTH; b++) {
            const int column = left + place(tx, b);
            if (column < n_columns)
                out[line * stride + column] = mapped(values[a][b], norm + columns.norm(column), map);
        }
    }
}
