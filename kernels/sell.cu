// Y = A X with one thread per row, A in sliced ELLPACK: slices of 32 rows sorted by length, so that the lanes of a warp load
// adjacent entries and finish at nearly the same time. For few columns.
//
// Entry e of lane l of slice s is at slice_starts[s] + 32 e + l; `lane_lengths` has the length of each lane, `lane_rows` its row, or
// 0xffffffff if it has none. A row is a chain of fused multiply-adds: the canonical order for rows of up to 128
// nonzeros.

// fast: no spills

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long items, unsigned long long k, const unsigned long long *__restrict__ slice_starts,               \
        const unsigned int *__restrict__ lane_lengths, const unsigned int *__restrict__ lane_rows,                     \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS items, k, slice_starts, lane_lengths, lane_rows, columns, values, x, ldx, y, ldy, alpha, beta

#define NO_ROW 0xffffffffu

template <typename T, int E, int V> static __device__ __forceinline__ void sell(PARAMETERS(T))
{
    const unsigned long long thread = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x, slice = thread / 32;
    if (slice >= items) return;
    const unsigned int column = blockIdx.y * (E * V), width = COLUMNS_OF(T, k, ldx), pitch = PITCH_OF(T, ldx);
    const unsigned long long begin = __ldg(slice_starts + slice) + thread % 32;
    const unsigned int length = __ldg(lane_lengths + thread), row = __ldg(lane_rows + thread);
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    columns += begin;
    values += begin;
    T sums[V][E];
    clear<T, E, V>(sums);
    for (unsigned int at = 0; at < length; at += 2) {
        unsigned int from[2];
        T factors[2], part[2][V][E];
#pragma unroll
        for (int j = 0; j < 2; ++j)
            if (at + j < length) {
                from[j] = __ldcs(columns + 32ull * (at + j));
                factors[j] = IS_UNIFORM ? uniform : __ldcs(values + 32ull * (at + j));
            }
#pragma unroll
        for (int j = 0; j < 2; ++j)
            if (at + j < length) load_row<T, E, 1, V>(x + (unsigned long long)from[j] * pitch, column, width, part[j]);
#pragma unroll
        for (int j = 0; j < 2; ++j)
            if (at + j < length) multiply_add<T, E, V>(factors[j], part[j], sums);
    }
    if (row != NO_ROW)
        store_result<T, E, 1, V>(y + (unsigned long long)row * PITCH_OF(T, ldy), column, width, SCALING, sums);
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    sell<SCALAR, BYTES / sizeof(SCALAR), VECTORS>(ARGUMENTS);
}
#else
#define SELL(type, T, B, V)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256) sell_##type##_b##B##v##V(PARAMETERS(T))                          \
    {                                                                                                                  \
        sell<T, B / sizeof(T), V>(ARGUMENTS);                                                                          \
    }
SELL(f64, double, 8, 1) SELL(f64, double, 16, 1) SELL(f64, double, 16, 2) SELL(f64, double, 16, 4)
SELL(f32, float, 4, 1) SELL(f32, float, 8, 1) SELL(f32, float, 16, 1) SELL(f32, float, 16, 2) SELL(f32, float, 16, 4)
#endif
