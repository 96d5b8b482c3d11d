// What the CUDA kernels need, for g++: the threads of a block are coroutines that take turns at every barrier.
//
// Between barriers a thread runs alone, so that plain additions are atomic. A warp's matrix product is a barrier of
// its 32 threads, at which each shows what it holds and then computes its own share of the result.

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define HAS_MATRIX_UNIT 1

struct uint2 { unsigned int x, y; };
struct uint4 { unsigned int x, y, z, w; };
struct dim3 { unsigned int x, y, z; };
static inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }

static inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }

static dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) static unsigned char shared_memory[1 << 18];
static inline unsigned char* dynamic_shared() { return shared_memory; }

// ---- threads

static const int MOST_THREADS = 512, STACK_BYTES = 1 << 17;
struct Fiber {
    jmp_buf state;
    ucontext_t start;
    bool begun, done;
    int waits_for;  // 0: nothing, 1: its block, 2: its warp
};
static Fiber fibers[MOST_THREADS];
static jmp_buf scheduler;
static int current;
static std::function<void()> kernel_call;

static void run_fiber() {
    for (;;) {
        kernel_call();
        fibers[current].done = true;
        if (!_setjmp(fibers[current].state)) _longjmp(scheduler, 1);
    }
}

static void wait_at(int barrier) {
    fibers[current].waits_for = barrier;
    if (!_setjmp(fibers[current].state)) _longjmp(scheduler, 1);
}

static void resume(int thread) {
    current = thread;
    threadIdx = {(unsigned int)thread, 0, 0};
    Fiber& fiber = fibers[thread];
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.state, 1);
    fiber.begun = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fiber.start.uc_stack.ss_size = STACK_BYTES;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, run_fiber, 0);
    setcontext(&fiber.start);
}

// Run a block: warps go from one barrier of theirs to the next, until all wait for the block, or are done.
static void run_block(int threads) {
    for (int i = 0; i < threads; i++) fibers[i].done = false, fibers[i].waits_for = 0;
    for (bool left = true; left;) {
        left = false;
        for (int warp = 0; warp < threads; warp += 32) {
            int end = warp + 32 < threads ? warp + 32 : threads;
            for (bool at_warp = true; at_warp;) {
                at_warp = false;
                int stopped[3] = {0, 0, 0};
                for (int i = warp; i < end; i++) {
                    if (!fibers[i].done && fibers[i].waits_for != 1) fibers[i].waits_for = 0, resume(i);
                    stopped[fibers[i].done ? 0 : fibers[i].waits_for]++;
                }
                if (stopped[2]) {
                    at_warp = true;
                    if (stopped[2] != end - warp) std::fprintf(stderr, "part of a warp waits for the rest\n"), std::abort();
                }
            }
        }
        for (int i = 0; i < threads; i++)
            if (!fibers[i].done) left = true, fibers[i].waits_for = 0;
    }
}

static inline void __syncthreads() { wait_at(1); }

// ---- arithmetic

template <class T> static inline T atomicAdd(T* there, T x) { T old = *there; *there += x; return old; }
template <class T> static inline T atomicMin(T* there, T x) { T old = *there; *there = x < old ? x : old; return old; }
template <class T> static inline T atomicMax(T* there, T x) { T old = *there; *there = x > old ? x : old; return old; }
template <class T> static inline T atomicCAS(T* there, T expected, T x) {
    T old = *there;
    if (old == expected) *there = x;
    return old;
}
static inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static inline double __dsqrt_rn(double x) { return std::sqrt(x); }
static inline long long __double_as_longlong(double x) { long long y; std::memcpy(&y, &x, 8); return y; }
static inline double __longlong_as_double(long long x) { double y; std::memcpy(&y, &x, 8); return y; }
static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int chosen) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned int made = 0;
    for (int i = 0; i < 4; i++) made |= (unsigned int)(both >> 8 * (chosen >> 4 * i & 7) & 255) << 8 * i;
    return made;
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (signed char)(b >> i);
    return c;
}
using std::fabs; using std::trunc; using std::truncf;

// ---- warps

static struct { unsigned int a[4], b[2]; long long number; } shown[MOST_THREADS];

static inline long long warp_sum(long long x) {
    shown[current].number = x;
    wait_at(2);
    int warp = current / 32 * 32;
    x = 0;
    for (int i = 0; i < 32; i++) x += shown[warp + i].number;
    wait_at(2);
    return x;
}

// Two arrays in turn, so that nobody overwrites what a slower thread of the warp still reads.
static struct { unsigned int a[4], b[2]; } held[2][MOST_THREADS];
static unsigned char turn[MOST_THREADS];

static inline void multiply_add(int* sums, const unsigned int* a, unsigned int b0, unsigned int b1) {
    auto& here = held[turn[current] ^= 1];
    std::memcpy(here[current].a, a, 16);
    here[current].b[0] = b0, here[current].b[1] = b1;
    wait_at(2);
    int warp = current / 32 * 32, lane = current % 32;
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        for (int quad = 0; quad < 4; quad++)  // inner places 4 quad .. 4 quad + 3, and 16 more
            for (int upper = 0; upper < 2; upper++)
                sums[i] = __dp4a((int)here[warp + 4 * (row % 8) + quad].a[row / 8 + 2 * upper],
                                 (int)here[warp + 4 * column + quad].b[upper], sums[i]);
    }
}

static inline void copy_later(unsigned char* target, const unsigned char* source) { std::memcpy(target, source, 16); }
static inline void end_of_copies() {}
template <int PENDING> static inline void wait_for_copies() {}

// ---- launches

template <class... P, std::size_t... I>
static void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel_call = [=] { kernel(*(P*)arguments[I]...); };
}

template <class... P>
static void launch_kernel(void (*kernel)(P...), const int* grid, int threads, void** arguments) {
    call(kernel, arguments, std::index_sequence_for<P...>());
    gridDim = {(unsigned int)grid[0], (unsigned int)grid[1], (unsigned int)grid[2]};
    blockDim = {(unsigned int)threads, 1, 1};
    for (unsigned int z = 0; z < gridDim.z; z++)
        for (unsigned int y = 0; y < gridDim.y; y++)
            for (unsigned int x = 0; x < gridDim.x; x++) blockIdx = {x, y, z}, run_block(threads);
}
