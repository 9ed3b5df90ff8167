// Kernel values by tiles: written down, or summed up as they are computed.
//
// Compiled with
//   REAL, SINGLE  float and 1, or double and 0: the precision of kernel values
//   MAP           0 exponential, 1 linear, 2 polynomial, 3 hyperbolic tangent
//   DIFFERENCES   1 where squared distances are summed up from differences, which do not cancel; double
//
// A kernel value is a map of scale * t + shift, t the product of two rows (or their squared
// distance, with DIFFERENCES). Of the exponential, whose base is 2, the norms of the two rows,
// scaled alike, are subtracted before the map.
//
// Rows are stored one after another, padded with zeros to a multiple of 64 bytes. A block of 256 threads
// computes one tile of LINES by COLUMNS values after another, EACH_LINES by EACH_COLUMNS to a thread.
// Sums over lines are in double precision, in an order that depends on shapes alone.

#include "warps.cu"

typedef REAL real;

#define LINES 64
#define EACH_LINES 4
#if SINGLE
#define COLUMNS 128
#define EACH_COLUMNS 8
#else
#define COLUMNS 64
#define EACH_COLUMNS 4
#endif
#define GROUPS (256 * EACH_COLUMNS / COLUMNS)  // threads that have the same columns
#define OF_NORMS (MAP == 0 && !DIFFERENCES)

struct Map { real scale, shift; int degree; };

__device__ __forceinline__ real power_of_two(real power)
{
#if SINGLE && defined(__CUDA_ARCH__)
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(power));
    return value;
#else
    return exp2(power);
#endif
}

__device__ __forceinline__ real mapped(real t, real norms, const Map map)
{
#if MAP == 0
    return power_of_two(map.scale * t - norms);
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

#if SINGLE

// Four features of a row, in its unit: each is a whole number and a rest, both of them halves
// (``prepared`` in cuda.py).
struct alignas(16) Pack { unsigned high[2], low[2]; };
#define PACKED 4

// What goes with a row: its norm, in two parts, and its unit, a power of two.
struct Size { real norm, rest, unit; };

#else

struct alignas(16) Pack { real of[2]; };
#define PACKED 2

struct Size { real norm; };

#endif

#define PANEL 4                   // packs of a row that are multiplied between two barriers
#define DEPTH (PANEL * PACKED)    // as many features

// Some rows: those at the given numbers, or all.
struct Rows {
    const Pack *rows;
    const Size *sizes;
    const int *numbers;
    int n, width;

    // beyond the last row, the last: what comes of it is not used, but a coefficient of zero is
    // multiplied by it, and infinity times zero would be no number
    __device__ __forceinline__ long long number(int k) const
    {
        k = min(k, n - 1);
        return numbers ? numbers[k] : k;
    }
    __device__ __forceinline__ const Pack *at(int k) const { return rows + number(k) * (width / PACKED); }
    __device__ __forceinline__ Size size(int k) const { return sizes[number(k)]; }
};

#if SINGLE

// Products of rows, by tensor cores: x = high + low and y alike. The sum of high x high is a whole number
// below 2^24, which single precision holds: nothing is rounded. The other products are small beside it,
// and are summed up apart: high x low, and low x (high + low). Then norms are subtracted before the sums
// are put together, so that what cancels is exact.

// sums += a b, of 16 rows of a and 8 columns of b, 16 features deep. Lane 4 g + t has rows g and g + 8 of
// a, column g of b, four features of each; of the sums, rows g and g + 8, columns 2 t and 2 t + 1.
__device__ __forceinline__ void multiply_halves(
    const unsigned (&a)[4], const unsigned (&b)[2], float &p, float &q, float &r, float &s)
{
#ifdef __CUDA_ARCH__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(p), "+f"(q), "+f"(r), "+f"(s)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    float sums[4] = {p, q, r, s};
    MULTIPLY_HALVES(a, b, sums);
    p = sums[0], q = sums[1], r = sums[2], s = sums[3];
#endif
}

// Two halves and two.
__device__ __forceinline__ unsigned add_halves(unsigned x, unsigned y)
{
#ifdef __CUDA_ARCH__
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(x) : "r"(x), "r"(y));
    return x;
#else
    return ADD_HALVES(x, y);
#endif
}

// Copies to shared memory that go on beside other work, in groups; ``wait_for_copies`` waits until all
// but the last group are there.
template <class T> __device__ __forceinline__ void copy_beside(T *to, const T *from)
{
#ifdef __CUDA_ARCH__
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(T)));
#else
    *to = *from;
#endif
}

__device__ __forceinline__ void end_group()
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_copies()
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

#define STAGES 3  // one in use, one on its way, one that may still be read by others

struct Panels {
    Pack columns[PANEL][COLUMNS * PANEL];  // a whole tile, where rows are no longer than that
    Pack lines[STAGES][LINES * PANEL];
    Size of_lines[STAGES][LINES], of_columns[COLUMNS];
};

// One tile of lines after another, with the same columns.
struct Products {
    const Rows lines, columns;
    const int left, end;
    Panels &panels;
    int asked_top, asked_panel = 0, asked_stage = 0, asked_tile = 0;
    int stage = 0, tile = STAGES - 1;
    bool is_first = true;
    const Pack *line = nullptr, *column[2];

    __device__ __forceinline__ Products(
        const Rows lines, int top, int end, const Rows columns, int left, Panels &panels)
        : lines(lines), columns(columns), left(left), end(end), panels(panels), asked_top(top)
    {
        const int thread = threadIdx.x;
#pragma unroll
        for (int c = 0; c < 2; c++)
            column[c] = columns.at(left + c * COLUMNS / 2 + thread / PANEL) + thread % PANEL;
        if (thread < COLUMNS) panels.of_columns[thread] = columns.size(left + thread);
        for (int s = 0; s < STAGES - 1; s++) ask();
    }

    __device__ __forceinline__ int line_of(int a) const
    {
        return threadIdx.x / 128 * 32 + 8 * a + threadIdx.x % 32 / 4;
    }
    __device__ __forceinline__ int column_of(int b) const
    {
        return threadIdx.x / 32 % 4 * 32 + b / 2 * 8 + threadIdx.x % 4 * 2 + b % 2;
    }
    // which of the threads that have the same columns
    __device__ __forceinline__ int group() const { return threadIdx.x / 128 * 8 + threadIdx.x % 32 / 4; }

    __device__ __forceinline__ bool is_whole() const { return lines.width <= PANEL * DEPTH; }

    // Ask for the next panel, of this tile or the next one.
    __device__ __forceinline__ void ask()
    {
        const int thread = threadIdx.x;
        if (asked_top < end) {
            if (asked_panel == 0) {
                line = lines.at(asked_top + thread / PANEL) + thread % PANEL;
                if (thread < LINES) {
                    Size *to = &panels.of_lines[asked_tile][thread];
                    const Size *from = lines.sizes + lines.number(asked_top + thread);
                    copy_beside(&to->norm, &from->norm);
                    copy_beside(&to->rest, &from->rest);
                    copy_beside(&to->unit, &from->unit);
                }
            }
            copy_beside(&panels.lines[asked_stage][thread], line + asked_panel * PANEL);
            if (is_first || !is_whole()) {
                Pack *to = panels.columns[is_whole() ? asked_panel : asked_stage] + thread;
                copy_beside(to, column[0] + asked_panel * PANEL);
                copy_beside(to + 256, column[1] + asked_panel * PANEL);
            }
            if (++asked_panel * DEPTH == lines.width) {
                asked_panel = 0, asked_top += LINES, is_first = false;
                asked_tile = asked_tile == STAGES - 1 ? 0 : asked_tile + 1;
            }
        }
        end_group();
        asked_stage = asked_stage == STAGES - 1 ? 0 : asked_stage + 1;
    }

    // Kernel values of the next tile.
    __device__ __forceinline__ void next(const Map map, real (&values)[EACH_LINES][EACH_COLUMNS])
    {
        tile = tile == STAGES - 1 ? 0 : tile + 1;
        real rests[EACH_LINES][EACH_COLUMNS];
#pragma unroll
        for (int a = 0; a < EACH_LINES; a++)
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS; b++) values[a][b] = rests[a][b] = 0;
        for (int panel = 0; panel * DEPTH < lines.width; panel++) {
            wait_for_copies();
            __syncthreads();
            ask();
            multiply(panels.lines[stage], panels.columns[is_whole() ? panel : stage], values, rests);
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
#pragma unroll
        for (int a = 0; a < EACH_LINES; a++) {
            const Size size = panels.of_lines[tile][line_of(a)];
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS; b++) {
                const Size other = panels.of_columns[column_of(b)];
#if MAP == 0
                const real scale = map.scale * size.unit * other.unit;
                const real most = fma(scale, values[a][b], -(size.norm + other.norm));
                values[a][b] = power_of_two(fma(scale, rests[a][b], most - (size.rest + other.rest)));
#else
                values[a][b] = mapped((values[a][b] + rests[a][b]) * size.unit * other.unit, 0, map);
#endif
            }
        }
    }

    __device__ __forceinline__ void multiply(
        const Pack *of_lines, const Pack *of_columns, real (&values)[EACH_LINES][EACH_COLUMNS],
        real (&rests)[EACH_LINES][EACH_COLUMNS])
    {
        const int lane = threadIdx.x % 32;
        const Pack *x = of_lines + threadIdx.x / 128 * 32 * PANEL + lane;
        const Pack *y = of_columns + threadIdx.x / 32 % 4 * 32 * PANEL + lane;
        Pack columns[EACH_COLUMNS / 2];
#pragma unroll
        for (int b = 0; b < EACH_COLUMNS / 2; b++) columns[b] = y[8 * b * PANEL];
#pragma unroll
        for (int a = 0; a < EACH_LINES; a += 2) {
            const Pack one = x[8 * a * PANEL], other = x[8 * (a + 1) * PANEL];
            const unsigned high[4] = {one.high[0], other.high[0], one.high[1], other.high[1]};
            const unsigned low[4] = {one.low[0], other.low[0], one.low[1], other.low[1]};
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS / 2; b++) {
                const Pack own = columns[b];
                const unsigned both[2] = {
                    add_halves(own.high[0], own.low[0]), add_halves(own.high[1], own.low[1])};
                multiply_halves(high, own.high, values[a][2 * b], values[a][2 * b + 1],
                                values[a + 1][2 * b], values[a + 1][2 * b + 1]);
                float(&rest)[EACH_COLUMNS] = rests[a], (&next)[EACH_COLUMNS] = rests[a + 1];
                multiply_halves(high, own.low, rest[2 * b], rest[2 * b + 1], next[2 * b], next[2 * b + 1]);
                multiply_halves(low, both, rest[2 * b], rest[2 * b + 1], next[2 * b], next[2 * b + 1]);
            }
        }
    }
};

#else

struct alignas(16) Panels {
    real lines[2][DEPTH][LINES];
    real columns[2][DEPTH][COLUMNS];
    real norms[COLUMNS];
};

// One tile of lines after another, with the same columns.
struct Products {
    const Rows lines, columns;
    const int left;
    Panels &panels;
    int top;

    __device__ __forceinline__ Products(
        const Rows lines, int top, int, const Rows columns, int left, Panels &panels)
        : lines(lines), columns(columns), left(left), panels(panels), top(top)
    {
        for (int k = threadIdx.x; OF_NORMS && k < COLUMNS; k += 256)
            panels.norms[k] = columns.size(left + k).norm;
    }

    // Threads side by side read 16 bytes each, side by side.
    static __device__ __forceinline__ int place(int thread, int w)
    {
        return w / PACKED * (16 * PACKED) + thread * PACKED + w % PACKED;
    }
    __device__ __forceinline__ int line_of(int a) const { return place(threadIdx.x / 16, a); }
    __device__ __forceinline__ int column_of(int b) const { return place(threadIdx.x % 16, b); }
    // which of the threads that have the same columns
    __device__ __forceinline__ int group() const { return threadIdx.x / 16; }

    static __device__ __forceinline__ void read(const real *panel, int thread, real (&values)[4])
    {
#pragma unroll
        for (int w = 0; w < 4; w += PACKED) {
            const Pack pack = *reinterpret_cast<const Pack *>(panel + place(thread, w));
#pragma unroll
            for (int l = 0; l < PACKED; l++) values[w + l] = pack.of[l];
        }
    }

    // Kernel values of the next tile.
    __device__ __forceinline__ void next(const Map map, real (&values)[EACH_LINES][EACH_COLUMNS])
    {
        const int thread = threadIdx.x, row = thread / PANEL, feature = thread % PANEL * PACKED;
        const Pack *one = lines.at(top + row) + thread % PANEL;
        const Pack *other = columns.at(left + row) + thread % PANEL;
#pragma unroll
        for (int a = 0; a < EACH_LINES; a++)
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS; b++) values[a][b] = 0;
        Pack next_line = *one, next_column = *other;
        __syncthreads();  // what the panels held has been used
        int panel = 0;
        for (int depth = 0; depth < lines.width; depth += DEPTH) {
#pragma unroll
            for (int l = 0; l < PACKED; l++) {
                panels.lines[panel][feature + l][row] = next_line.of[l];
                panels.columns[panel][feature + l][row] = next_column.of[l];
            }
            __syncthreads();
            if (depth + DEPTH < lines.width) next_line = *(one += PANEL), next_column = *(other += PANEL);
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                real x[EACH_LINES], y[EACH_COLUMNS];
                read(panels.lines[panel][k], thread / 16, x);
                read(panels.columns[panel][k], thread % 16, y);
#pragma unroll
                for (int a = 0; a < EACH_LINES; a++)
#pragma unroll
                    for (int b = 0; b < EACH_COLUMNS; b++) {
#if DIFFERENCES
                        const real d = x[a] - y[b];
                        values[a][b] += d * d;
#else
                        values[a][b] += x[a] * y[b];
#endif
                    }
            }
            panel ^= 1;
        }
#pragma unroll
        for (int a = 0; a < EACH_LINES; a++) {
            const real norm = OF_NORMS ? lines.size(top + line_of(a)).norm : 0;
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS; b++) {
                const real other = OF_NORMS ? panels.norms[column_of(b)] : 0;
                values[a][b] = mapped(values[a][b], norm + other, map);
            }
        }
        top += LINES;
    }
};

#endif

// out[split][o][k] = sum_m coefs[o][m] K(line m, column k), over the lines of each split.
//
// Grid: tiles of columns by splits. Where ``count`` is given, only so many of the lines are there.
// Shared memory: GROUPS * COLUMNS doubles, and n_outputs * COLUMNS where there are SEVERAL outputs.
template <bool SEVERAL>
__device__ __forceinline__ void sum_of_lines(
    const Rows columns, const Rows lines, int first, const double *coefs, int n_coefs, int n_outputs,
    const Map map, double *parts, double *out)
{
    __shared__ Panels panels;
    const int thread = threadIdx.x, left = blockIdx.x * COLUMNS;
    double *totals = parts + GROUPS * COLUMNS, own[EACH_COLUMNS];
#pragma unroll
    for (int b = 0; b < EACH_COLUMNS; b++) own[b] = 0;
    if (SEVERAL)
        for (int e = thread; e < n_outputs * COLUMNS; e += 256) totals[e] = 0;
    Products products(lines, first, lines.n, columns, left, panels);
    double *part = parts + products.group() * COLUMNS;
    for (int top = first; top < lines.n; top += LINES) {
        double coef[EACH_LINES];
        const auto read = [&](int o) {
#pragma unroll
            for (int a = 0; a < EACH_LINES; a++) {
                const int line = top + products.line_of(a);
                coef[a] = line < lines.n ? coefs[(long long)o * n_coefs + line] : 0.0;
            }
        };
        if (!SEVERAL) read(0);
        real values[EACH_LINES][EACH_COLUMNS];
        products.next(map, values);
        for (int o = 0; o < (SEVERAL ? n_outputs : 1); o++) {
            if (SEVERAL) read(o);
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS; b++) {
                if (SEVERAL) own[b] = 0;
#pragma unroll
                for (int a = 0; a < EACH_LINES; a++) own[b] += coef[a] * (double)values[a][b];
            }
            if (!SEVERAL) break;
            __syncthreads();
#pragma unroll
            for (int b = 0; b < EACH_COLUMNS; b++) part[products.column_of(b)] = own[b];
            __syncthreads();
            for (int k = thread; k < COLUMNS; k += 256) {
                double sum = 0;
                for (int g = 0; g < GROUPS; g++) sum += parts[g * COLUMNS + k];
                totals[o * COLUMNS + k] += sum;
            }
        }
    }
    if (!SEVERAL) {
#pragma unroll
        for (int b = 0; b < EACH_COLUMNS; b++) part[products.column_of(b)] = own[b];
    }
    __syncthreads();
    for (int e = thread; e < n_outputs * COLUMNS; e += 256) {
        const int o = e / COLUMNS, k = e % COLUMNS;
        if (left + k >= columns.n) continue;
        double sum = 0;
        if (SEVERAL) sum = totals[e];
        else for (int g = 0; g < GROUPS; g++) sum += parts[g * COLUMNS + k];
        out[(long long)o * columns.n + left + k] = sum;
    }
}

#define SUM_OF_LINES(NAME, SEVERAL) \
    extern "C" __global__ void __launch_bounds__(256, 2) NAME( \
        const Pack *column_rows, const Size *column_sizes, int n_columns, const Pack *line_rows, \
        const Size *line_sizes, const int *numbers, const double *coefs, int n_lines, \
        const int *count, int n_outputs, int tiles_of_split, int width, real scale, real shift, \
        int degree, double *out) \
    { \
        DYNAMIC_SHARED(double, parts); \
        const int first = blockIdx.y * tiles_of_split * LINES; \
        const int last = min(count ? *count : n_lines, first + tiles_of_split * LINES); \
        sum_of_lines<SEVERAL>( \
            {column_rows, column_sizes, nullptr, n_columns, width}, \
            {line_rows, line_sizes, numbers, last, width}, first, coefs, n_lines, n_outputs, \
            {scale, shift, degree}, parts, \
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
    const Pack *column_rows, const Size *column_sizes, const int *column_numbers, int n_columns,
    const Pack *line_rows, const Size *line_sizes, const int *line_numbers, int n_lines,
    const int *count, int width, real scale, real shift, int degree, long long stride, real *out)
{
    __shared__ Panels panels;
    const int left = blockIdx.x * COLUMNS, top = blockIdx.y * LINES;
    if (count) n_lines = n_columns = *count;
    if (top >= n_lines || left >= n_columns) return;
    const Rows columns = {column_rows, column_sizes, column_numbers, n_columns, width};
    const Rows lines = {line_rows, line_sizes, line_numbers, n_lines, width};
    real values[EACH_LINES][EACH_COLUMNS];
    Products products(lines, top, min(n_lines, top + LINES), columns, left, panels);
    products.next({scale, shift, degree}, values);
#pragma unroll
    for (int a = 0; a < EACH_LINES; a++) {
        const int line = top + products.line_of(a);
        if (line >= n_lines) continue;
#pragma unroll
        for (int b = 0; b < EACH_COLUMNS; b++) {
            const int column = left + products.column_of(b);
            if (column < n_columns) out[line * stride + column] = values[a][b];
        }
    }
}
