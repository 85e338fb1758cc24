// Defines CUDA's built-ins for a CPU, so that the kernels compile with the host's C++ compiler and run in the emulator.
// The build prepends it to each kernel; declarations of shared variables are rewritten first (shared_declarations.rs).
#pragma once

// Lets kernels omit inline assembly, which only GPU compilers understand.
#define ROWLOOM_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
    unsigned int x, y, z;
};

// Functions of the emulator. A thread's indices and sizes are constant.
extern "C" {
uint3 rowloom_thread_index() __attribute__((const));
uint3 rowloom_block_index() __attribute__((const));
uint3 rowloom_block_size() __attribute__((const));
uint3 rowloom_grid_size() __attribute__((const));
void *rowloom_shared(const void *key, const char *name, unsigned long bytes, unsigned long alignment);
void *rowloom_dynamic_shared();
void rowloom_barrier(unsigned int line);
unsigned long long rowloom_warp(unsigned int kind, unsigned int mask, unsigned int line, unsigned long long value,
                                unsigned int from, unsigned int width);
double fma(double, double, double);
float fmaf(float, float, float);
double sqrt(double);
}

#define threadIdx (rowloom_thread_index())
#define blockIdx (rowloom_block_index())
#define blockDim (rowloom_block_size())
#define gridDim (rowloom_grid_size())

static constexpr int warpSize = 32;

// Vector types, aligned as in CUDA. They are copied member by member, so that clang checks the alignment too.
#define ROWLOOM_VECTOR2(name, type)                                                                                    \
    struct alignas(2 * sizeof(type)) name {                                                                            \
        type x, y;                                                                                                     \
        name() = default;                                                                                              \
        name(type x, type y) : x(x), y(y) {}                                                                           \
        name(const name &other) : x(other.x), y(other.y) {}                                                            \
        name &operator=(const name &other)                                                                             \
        {                                                                                                              \
            x = other.x, y = other.y;                                                                                  \
            return *this;                                                                                              \
        }                                                                                                              \
    };                                                                                                                 \
    [[maybe_unused]] static inline name make_##name(type x, type y) { return name(x, y); }
#define ROWLOOM_VECTOR4(name, type)                                                                                    \
    struct alignas(16) name {                                                                                          \
        type x, y, z, w;                                                                                               \
        name() = default;                                                                                              \
        name(type x, type y, type z, type w) : x(x), y(y), z(z), w(w) {}                                               \
        name(const name &other) : x(other.x), y(other.y), z(other.z), w(other.w) {}                                    \
        name &operator=(const name &other)                                                                             \
        {                                                                                                              \
            x = other.x, y = other.y, z = other.z, w = other.w;                                                        \
            return *this;                                                                                              \
        }                                                                                                              \
    };                                                                                                                 \
    [[maybe_unused]] static inline name make_##name(type x, type y, type z, type w) { return name(x, y, z, w); }
ROWLOOM_VECTOR2(int2, int)
ROWLOOM_VECTOR2(uint2, unsigned int)
ROWLOOM_VECTOR2(longlong2, long long)
ROWLOOM_VECTOR2(ulonglong2, unsigned long long)
ROWLOOM_VECTOR2(float2, float)
ROWLOOM_VECTOR2(double2, double)
ROWLOOM_VECTOR4(int4, int)
ROWLOOM_VECTOR4(uint4, unsigned int)
ROWLOOM_VECTOR4(float4, float)
ROWLOOM_VECTOR4(double4, double)

// Loads and stores with cache hints.
template <typename T> static inline T __ldg(const T *address) { return *address; }
template <typename T> static inline T __ldcg(const T *address) { return *address; }
template <typename T> static inline T __ldcs(const T *address) { return *address; }
template <typename T> static inline void __stcs(T *address, T value) { *address = value; }

// Barriers and warp operations.
static inline void __syncthreads(unsigned int line = __builtin_LINE()) { rowloom_barrier(line); }
static inline void __syncwarp(unsigned int mask = 0xffffffffu, unsigned int line = __builtin_LINE())
{
    rowloom_warp(0, mask, line, 0, 0, 32);
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <typename T>
static inline T rowloom_shuffle(unsigned int kind, unsigned int mask, T value, unsigned int from, int width,
                                unsigned int line)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves eight bytes at most");
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof(T));
    word = rowloom_warp(kind, mask, line, word, from, (unsigned int)width);
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
}

#define ROWLOOM_SHUFFLE(name, kind)                                                                                    \
    template <typename T>                                                                                              \
    static inline T name(unsigned int mask, T value, unsigned int from, int width = 32,                                \
                         unsigned int line = __builtin_LINE())                                                         \
    {                                                                                                                  \
        return rowloom_shuffle(kind, mask, value, from, width, line);                                                  \
    }
ROWLOOM_SHUFFLE(__shfl_sync, 1)
ROWLOOM_SHUFFLE(__shfl_up_sync, 2)
ROWLOOM_SHUFFLE(__shfl_down_sync, 3)
ROWLOOM_SHUFFLE(__shfl_xor_sync, 4)

static inline unsigned int __ballot_sync(unsigned int mask, int predicate, unsigned int line = __builtin_LINE())
{
    return (unsigned int)rowloom_warp(5, mask, line, predicate != 0, 0, 32);
}
static inline int __any_sync(unsigned int mask, int predicate, unsigned int line = __builtin_LINE())
{
    return __ballot_sync(mask, predicate, line) != 0;
}
static inline int __all_sync(unsigned int mask, int predicate, unsigned int line = __builtin_LINE())
{
    return __ballot_sync(mask, predicate == 0, line) == 0;
}

// Atomics. Threads switch only where they wait, so a plain read-modify-write is atomic.
#define ROWLOOM_ATOMIC(name, type, changed)                                                                            \
    static inline type name(type *address, type value)                                                                 \
    {                                                                                                                  \
        const type old = *address;                                                                                     \
        *address = changed;                                                                                            \
        return old;                                                                                                    \
    }
#define ROWLOOM_INTEGER_ATOMICS(type)                                                                                  \
    ROWLOOM_ATOMIC(atomicAdd, type, old + value)                                                                       \
    ROWLOOM_ATOMIC(atomicExch, type, value)                                                                            \
    ROWLOOM_ATOMIC(atomicMin, type, value < old ? value : old)                                                         \
    ROWLOOM_ATOMIC(atomicMax, type, value > old ? value : old)                                                         \
    ROWLOOM_ATOMIC(atomicAnd, type, old &value)                                                                        \
    ROWLOOM_ATOMIC(atomicOr, type, old | value)                                                                        \
    ROWLOOM_ATOMIC(atomicXor, type, old ^ value)                                                                       \
    static inline type atomicCAS(type *address, type expected, type value)                                             \
    {                                                                                                                  \
        const type old = *address;                                                                                     \
        *address = old == expected ? value : old;                                                                      \
        return old;                                                                                                    \
    }
ROWLOOM_INTEGER_ATOMICS(int)
ROWLOOM_INTEGER_ATOMICS(unsigned int)
ROWLOOM_INTEGER_ATOMICS(unsigned long long)
ROWLOOM_ATOMIC(atomicSub, int, old - value)
ROWLOOM_ATOMIC(atomicSub, unsigned int, old - value)
ROWLOOM_ATOMIC(atomicAdd, float, old + value)
ROWLOOM_ATOMIC(atomicAdd, double, old + value)
ROWLOOM_ATOMIC(atomicExch, float, value)

// Small functions of CUDA's library.
static inline double __longlong_as_double(long long bits)
{
    double value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline float __int_as_float(int bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline int __double2hiint(double value)
{
    long long bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return (int)(bits >> 32);
}
static inline int __double2loint(double value)
{
    long long bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return (int)bits;
}
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }
static inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz((unsigned int)bits); }
