// Device code on this processor: threads of a block are fibers, which take turns at barriers.
//
// Blocks run one after another, so that memory which a block shares may be static. Slow, and exact:
// it is for tests of what kernels compute, where there is a C++ compiler and no GPU. A warp runs as
// far as it can before the next one does: the first is ahead of the others, or the last block, warp
// and thread are, where the environment has BACKWARDS. What differs then lacks a barrier.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#undef INFINITY  // which NVRTC does not have

using std::fabs; using std::fma; using std::fmax; using std::fmin; using std::isnan; using std::max; using std::min;

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
#define DYNAMIC_SHARED(type, name) static type name[1 << 14]
#define WITHIN(at, size) emulation::within(at, size)
#define MULTIPLY_HALVES(a, b, sums) emulation::multiply_halves(a, b, sums)
#define ADD_HALVES(x, y) emulation::add_halves(x, y)

struct Dim { unsigned x, y; };
struct float2 { float x, y; };
static float2 make_float2(float x, float y) { return {x, y}; }
static Dim blockIdx, blockDim, gridDim, threadIdx;

namespace emulation {

// Those that wait for each other: none of them returns before the others have come, too.
struct Barrier {
    unsigned size, come;
    long passed;
};

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
    Barrier *waits_for;
    long until;  // that has been passed so often
    uint64_t given;
};

static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static Barrier block;
static ucontext_t scheduler;
static unsigned current;
static std::function<void()> body;

static void yield() { swapcontext(&fibers[current].context, &scheduler); }

static void wait(Barrier &barrier)
{
    const long before = barrier.passed;
    if (++barrier.come == barrier.size) {
        barrier.come = 0, barrier.passed++;
        return;
    }
    fibers[current].waits_for = &barrier;
    fibers[current].until = before + 1;
    yield();
    fibers[current].waits_for = nullptr;
}

static bool can_run(const Fiber &fiber)
{
    return !fiber.done && (!fiber.waits_for || fiber.waits_for->passed >= fiber.until);
}

static void wait_for_warp() { wait(warps[current / 32]); }

// What the lanes of a warp give, by lane.
template <class T> static std::vector<T> lanes(T own)
{
    static_assert(sizeof(T) <= 8, "");
    std::memcpy(&fibers[current].given, &own, sizeof(T));
    wait_for_warp();
    std::vector<T> all;
    const unsigned first = current / 32 * 32;
    for (unsigned k = first; k < first + 32 && k < fibers.size(); k++) {
        T value;
        std::memcpy(&value, &fibers[k].given, sizeof(T));
        all.push_back(value);
    }
    wait_for_warp();
    return all;
}

static float of_half(unsigned bits)
{
    const int exponent = bits >> 10 & 31, digits = bits & 1023;
    const float value = exponent ? std::ldexp(1024.0f + digits, exponent - 25) : std::ldexp((float)digits, -24);
    return bits & 0x8000 ? -value : value;
}

// The half that is nearest, of equally near ones the even one; none here is too large for halves.
static unsigned to_half(float value)
{
    const unsigned sign = value < 0 ? 0x8000 : 0;
    const float size = fabs(value);
    const int exponent = size > 0 ? max(std::ilogb(size), -14) : -14;
    const unsigned digits = (unsigned)std::nearbyint(std::ldexp(size, 10 - exponent));
    return sign | ((exponent + 14 << 10) + digits);  // where they are 2048, of the next power
}

static unsigned add_halves(unsigned x, unsigned y)
{
    const unsigned low = to_half(of_half(x & 0xffff) + of_half(y & 0xffff));
    return to_half(of_half(x >> 16) + of_half(y >> 16)) << 16 | low;
}

// mma.m16n8k16 of halves: what is where in registers is as PTX has it.
static void multiply_halves(const unsigned (&a)[4], const unsigned (&b)[2], float (&sums)[4])
{
    const std::vector<uint64_t> low = lanes((uint64_t)a[1] << 32 | a[0]), high = lanes((uint64_t)a[3] << 32 | a[2]);
    const std::vector<uint64_t> columns = lanes((uint64_t)b[1] << 32 | b[0]);
    const unsigned lane = current % 32;
    for (unsigned one = 0; one < 4; one++) {
        const unsigned row = lane / 4 + one / 2 * 8, column = lane % 4 * 2 + one % 2;
        double sum = sums[one];  // a tensor core does not round in between
        for (unsigned k = 0; k < 16; k++) {
            const uint64_t x = (k < 8 ? low : high)[row % 8 * 4 + k % 8 / 2];
            const uint64_t y = columns[column * 4 + k % 8 / 2];
            sum += (double)of_half(x >> (row / 8 * 32 + k % 2 * 16) & 0xffff) *
                   of_half(y >> (k / 8 * 32 + k % 2 * 16) & 0xffff);
        }
        sums[one] = (float)sum;
    }
}

// Positions that were no positions, in whose place the first is read; threads that wait for
// others which do not come.
static long n_beyond, n_stuck;

static int within(int at, int size)
{
    if (at >= 0 && at < size) return at;
    n_beyond++;
    return 0;
}

extern "C" __attribute__((visibility("default"))) int went_well() { return !n_beyond && !n_stuck; }

static bool any_can_run()
{
    for (const Fiber &fiber : fibers)
        if (can_run(fiber)) return true;
    return false;
}

static void begin() { body(); fibers[current].done = true; yield(); }

static void launch(unsigned across, unsigned down, unsigned threads, std::function<void()> kernel)
{
    body = kernel;
    n_beyond = n_stuck = 0;
    blockDim = {threads, 1}, gridDim = {across, down};
    fibers.resize(threads);
    warps.assign((threads + 31) / 32, {32, 0, 0});
    block = {threads, 0, 0};
    const bool backwards = std::getenv("BACKWARDS");
    const auto turn = [=](unsigned k, unsigned n) { return backwards ? n - 1 - k : k; };
    for (unsigned y = 0; y < down; y++)
        for (unsigned x = 0; x < across; x++) {
            blockIdx = {turn(x, across), turn(y, down)};
            for (Fiber &fiber : fibers) {
                fiber.stack.resize(1 << 16);
                fiber.done = false;
                fiber.waits_for = nullptr;
                getcontext(&fiber.context);
                fiber.context.uc_stack.ss_sp = fiber.stack.data();
                fiber.context.uc_stack.ss_size = fiber.stack.size();
                fiber.context.uc_link = &scheduler;
                makecontext(&fiber.context, begin, 0);
            }
            for (unsigned k = 0; k < threads;) {
                bool runs = false;
                const unsigned first = k / 32 * 32;
                for (k = first; k < first + 32 && k < threads; k++) {
                    current = turn(k, threads);
                    if (!can_run(fibers[current])) continue;
                    threadIdx = {current, 0};
                    swapcontext(&scheduler, &fibers[current].context);
                    runs = true;
                }
                // the same warp again; where it can do nothing, the next; after the last, the first
                if (runs) k = first;
                else if (k >= threads && any_can_run()) k = 0;
            }
            for (const Fiber &fiber : fibers) n_stuck += !fiber.done;
            if (n_stuck) return;
        }
}

}  // namespace emulation

static void __syncthreads() { emulation::wait(emulation::block); }

template <class T> static T __shfl_down_sync(unsigned, T own, unsigned step)
{
    const std::vector<T> all = emulation::lanes(own);
    const unsigned from = emulation::current % 32 + step;
    return from < all.size() ? all[from] : own;
}

template <class T> static T __shfl_xor_sync(unsigned, T own, unsigned mask)
{
    const std::vector<T> all = emulation::lanes(own);
    return all[emulation::current % 32 ^ mask];
}

template <class T> static T __shfl_up_sync(unsigned, T own, unsigned step)
{
    const std::vector<T> all = emulation::lanes(own);
    const unsigned lane = emulation::current % 32;
    return lane < step ? own : all[lane - step];
}

template <class T> static T __shfl_sync(unsigned, T own, unsigned from)
{
    return emulation::lanes(own)[from % 32];
}

static void __syncwarp() { emulation::wait_for_warp(); }
static void __threadfence() {}

static unsigned __ballot_sync(unsigned, bool flag)
{
    unsigned set = 0, lane = 0;
    for (int one : emulation::lanes<int>(flag)) set |= (unsigned)one << lane++;
    return set;
}

static unsigned __reduce_min_sync(unsigned, unsigned own)
{
    for (unsigned one : emulation::lanes(own)) own = min(own, one);
    return own;
}

template <class T> static T __reduce_max_sync(unsigned, T own)
{
    for (T one : emulation::lanes(own)) own = max(own, one);
    return own;
}

static unsigned __reduce_add_sync(unsigned, unsigned own)
{
    unsigned sum = 0;
    for (unsigned one : emulation::lanes(own)) sum += one;
    return sum;
}

static float __fdividef(float x, float y) { return x / y; }
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int __ffs(unsigned bits) { return __builtin_ffs(bits); }
static unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
static int64_t __double_as_longlong(double x) { int64_t u; std::memcpy(&u, &x, 8); return u; }
static double __longlong_as_double(int64_t u) { double x; std::memcpy(&x, &u, 8); return x; }
static float __uint_as_float(unsigned u) { float x; std::memcpy(&x, &u, 4); return x; }
template <class T> static T __ldg(const T *from) { return *from; }
template <class T> static T atomicAdd(T *to, T value)
{
    const T before = *to;
    *to += value;
    return before;
}
