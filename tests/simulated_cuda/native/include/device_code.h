// What CUDA C++ needs in order to be compiled by the host's compiler. It comes before the source of every kernel.
// The threads of a block are the turns of a loop, or fibers where they meet (`__syncthreads`). One thread runs at a
// time, so atomic operations are ordinary ones.
#pragma once
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include <ucontext.h>
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#include <crt/host_defines.h>
#include <vector_types.h>
#undef __shared__
#undef __launch_bounds__
#undef __noinline__
#define __shared__ static
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
typedef long long longlong;
static thread_local dim3 gridDim, blockDim;
static thread_local uint3 blockIdx, threadIdx;
static const int warpSize = 32;
static thread_local char simulated_shared[232448] __attribute__((aligned(16)));
using std::min;
using std::isinf;
using std::isnan;
using std::isfinite;
using std::signbit;
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
template <class T, class F> static inline T simulated_bits(F f) { T t; memcpy(&t, &f, sizeof t); return t; }
static inline int __float_as_int(float x) { return simulated_bits<int>(x); }
static inline float __int_as_float(int x) { return simulated_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return simulated_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return simulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return simulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return simulated_bits<double>(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(unsigned x) { return __builtin_ffs(x); }
using std::max;
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline float __fdividef(float a, float b) { return a / b; }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T, class V> static inline T atomicAdd(T *p, V v) { T o = *p; *p = o + (T)v; return o; }
template <class T, class V> static inline T atomicMax(T *p, V v) { T o = *p; if ((T)v > o) *p = (T)v; return o; }
template <class T, class V> static inline T atomicMin(T *p, V v) { T o = *p; if ((T)v < o) *p = (T)v; return o; }
template <class T, class V> static inline T atomicExch(T *p, V v) { T o = *p; *p = (T)v; return o; }
template <class T, class V, class W> static inline T atomicCAS(T *p, V c, W v) { T o = *p; if (o == (T)c) *p = (T)v; return o; }
static inline void __threadfence() {}

// ---- threads that meet

struct simulated_fiber {
    ucontext_t context;
    bool done;
    uint3 index;
};
static thread_local ucontext_t simulated_main;
static thread_local simulated_fiber *simulated_now;
static inline void simulated_meet() { swapcontext(&simulated_now->context, &simulated_main); }
#define __syncthreads() simulated_meet()
#define __syncwarp(...) simulated_meet()

// makecontext passes integers only, so the address comes in two halves.
template <class F> struct simulated_start {
    static void go(unsigned high, unsigned low)
    {
        (*(F *)(((uintptr_t)high << 32) | low))();
        simulated_now->done = true;
    }
};

// Runs the threads of a block in turns, each as far as the next meeting.
template <class F> static void simulated_block_of_fibers(F f)
{
    const size_t stack = 65536;
    size_t count = (size_t)blockDim.x * blockDim.y * blockDim.z;
    static std::vector<char> stacks;
    if (stacks.size() < count * stack) stacks.resize(count * stack);
    std::vector<simulated_fiber> fibers(count);
    for (size_t i = 0; i < count; i++) {
        simulated_fiber &fiber = fibers[i];
        fiber.done = false;
        fiber.index = {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x % blockDim.y),
                       (unsigned)(i / blockDim.x / blockDim.y)};
        getcontext(&fiber.context);
        fiber.context.uc_stack = {stacks.data() + i * stack, 0, stack};
        fiber.context.uc_link = &simulated_main;
        uintptr_t address = (uintptr_t)&f;
        makecontext(&fiber.context, (void (*)())simulated_start<F>::go, 2, (unsigned)(address >> 32),
                    (unsigned)address);
    }
    for (bool left = true; left;) {
        left = false;
        for (auto &fiber : fibers) {
            if (fiber.done) continue;
            simulated_now = &fiber;
            threadIdx = fiber.index;
            swapcontext(&simulated_main, &fiber.context);
            left |= !fiber.done;
        }
    }
}

// ---- what a launch may touch

typedef void (*See)(void *, const void *, size_t, int);

// An array of CuPy's: the bytes from its first element to its last.
template <class T>
static auto simulated_see(T &a, int writes, See see, void *data, int)
    -> decltype((void)a.strides(), (void)a.shape(), void())
{
    intptr_t low = 0, high = 0;
    if (a.size() == 0) return;
    for (int i = 0; i < T::ndim; i++) {
        intptr_t extent = (intptr_t)(a.shape()[i] - 1) * a.strides()[i];
        (extent < 0 ? low : high) += extent;
    }
    see(data, (const char *)&a[0] + low, high - low + sizeof(a[0]), writes);
}

// A bare pointer does not say how far the kernel goes. It counts up to the end of the unit in which the frameworks'
// pools hand out memory: less than the kernel may touch, but all of a small array.
template <class T> static void simulated_see(T *&pointer, int writes, See see, void *data, int)
{
    const uintptr_t unit = 512, start = (uintptr_t)pointer;
    see(data, (const void *)pointer, (start / unit + 1) * unit - start, writes);
}

template <class T> static void simulated_see(T &, int, See, void *, long) {}

// ---- launches

template <bool MEET, class... A> struct simulated_kernel {
    template <size_t... I>
    static char *keep(void **arguments, void **kept, const char *uses, See see, void *data, std::index_sequence<I...>)
    {
        size_t sizes[] = {sizeof(A)..., 0}, at[sizeof...(A) + 1], total = 0;
        for (size_t i = 0; i < sizeof...(A); i++) {
            at[i] = total;
            total += (sizes[i] + 63) & ~(size_t)63;
        }
        char *memory = (char *)aligned_alloc(64, total + 64);
        for (size_t i = 0; i < sizeof...(A); i++) memcpy(kept[i] = memory + at[i], arguments[i], sizes[i]);
        (simulated_see(*(std::remove_const_t<A> *)kept[I], uses[I] != 'r', see, data, 0), ...);
        return memory;
    }

    template <size_t... I>
    static void run(void (*f)(A...), void **kept, const unsigned *grid, const unsigned *block,
                    std::index_sequence<I...>)
    {
        gridDim = {grid[0], grid[1], grid[2]};
        blockDim = {block[0], block[1], block[2]};
        auto thread = [&] { f(*(A *)kept[I]...); };
        auto threads = [&] {
            if (MEET) return simulated_block_of_fibers(thread);
            for (unsigned z = 0; z < block[2]; z++)
                for (unsigned y = 0; y < block[1]; y++)
                    for (unsigned x = 0; x < block[0]; x++) {
                        threadIdx = {x, y, z};
                        thread();
                    }
        };
        for (unsigned z = 0; z < grid[2]; z++)
            for (unsigned y = 0; y < grid[1]; y++)
                for (unsigned x = 0; x < grid[0]; x++) {
                    blockIdx = {x, y, z};
                    threads();
                }
    }
};

template <bool MEET, class... A>
static char *simulated_keep(void (*)(A...), void **arguments, void **kept, const char *uses, See see, void *data)
{
    return simulated_kernel<MEET, A...>::keep(arguments, kept, uses, see, data, std::index_sequence_for<A...>{});
}

template <bool MEET, class... A>
static void simulated_run(void (*f)(A...), void **kept, const unsigned *grid, const unsigned *block)
{
    simulated_kernel<MEET, A...>::run(f, kept, grid, block, std::index_sequence_for<A...>{});
}

// The two functions of a kernel that the stand-in for the driver looks for.
#define SIMULATED_KERNEL(name, meet, uses)                                                                             \
    extern "C" char *simulated_keep_##name(void **arguments, void **kept, See see, void *data)                         \
    {                                                                                                                  \
        return simulated_keep<meet>(name, arguments, kept, uses, see, data);                                           \
    }                                                                                                                  \
    extern "C" void simulated_run_##name(void **kept, const unsigned *grid, const unsigned *block)                     \
    {                                                                                                                  \
        simulated_run<meet>(name, kept, grid, block);                                                                  \
    }
