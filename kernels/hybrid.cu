// Y = A X with lanes over the columns of X where most rows are short: ELLPACK of a small width, a multiple of four, with longer
// rows beside it.
//
// Row r has the `width` places from width * r on of `columns` and `values`; 0xffffffff stands behind its last column. Where the
// first column is 0xfffffffe the row is longer, and the second is its number in the list of long rows:
//
//   long_rows      first nonzero in `long_columns` and `long_values` (64 bits, a multiple of four), number of nonzeros, nothing
//
// So a short row needs no row pointer, and its columns are one load away from its rows of X. L lanes take R rows, a block's
// width apart, whose first columns are all on their way before the first is used. Each row is a chain of fused multiply-adds: the
// canonical order for rows of up to 256 nonzeros.

// fast: no spills

#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, unsigned long long width, const unsigned int *__restrict__ columns, \
        const T *__restrict__ values, const uint4 *__restrict__ long_rows,                                             \
        const unsigned int *__restrict__ long_columns, const T *__restrict__ long_values, const T *__restrict__ x,     \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy

#define ARGUMENTS rows, k, width, columns, values, long_rows, long_columns, long_values, x, ldx, y, ldy

#define NONE 0xffffffffu
#define LONG 0xfffffffeu

template <typename T, int E, int L, int V, int R> static __device__ __forceinline__ void hybrid(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L, apart = blockDim.x / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane * E, last = COLUMNS_OF(k);
    const unsigned long long first = (unsigned long long)blockIdx.x * apart * R + threadIdx.x / L;
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    unsigned int from[R][4];
#pragma unroll
    for (int r = 0; r < R; ++r)
        if (first + r * apart < rows) load_quad(columns + (first + r * apart) * width, from[r]);
    bool any_long = false;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const unsigned long long row = first + r * apart;
        if (row >= rows) break;
        if (from[r][0] == LONG) {
            any_long = true;
            continue;
        }
        T sums[V][E];
        clear<T, E, V>(sums);
        const unsigned long long behind = (row + 1) * width;
        for (unsigned long long at = row * width;;) {
            T part[4][V][E], factors[4];
            if (!IS_UNIFORM && from[r][0] != NONE) load_quad(values + at, factors);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (from[r][j] != NONE)
                    load_row<T, E, L, V>(x + (unsigned long long)from[r][j] * pitch, column, last, part[j]);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (from[r][j] != NONE) multiply_add<T, E, V>(IS_UNIFORM ? uniform : factors[j], part[j], sums);
            at += 4;
            if (at >= behind || from[r][3] == NONE) break;
            load_quad(columns + at, from[r]);
        }
        store_row<T, E, L, V>(y + row * y_pitch, column, last, sums);
    }
    if (!any_long) return;
#pragma unroll 1
    for (unsigned long long row = first; row < rows && row < first + R * apart; row += apart) {
        if (__ldg(columns + row * width) != LONG) continue;
        const uint4 about = __ldg(long_rows + __ldg(columns + row * width + 1));
        const unsigned long long begin = about.x | (unsigned long long)about.y << 32;
        T sums[V][E];
        chain<T, E, L, V, 1, true>(begin, about.z, PLENTY, long_columns, long_values, x, pitch, column, last, 0, sums);
        store_row<T, E, L, V>(y + row * y_pitch, column, last, sums);
    }
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    hybrid<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, ROWS>(ARGUMENTS);
}
#else
#define HYBRID(type, T, B, L, V)                                                                                       \
    extern "C" __global__ void __launch_bounds__(256) hybrid_##type##_b##B##l##L##v##V##r2(PARAMETERS(T))              \
    {                                                                                                                  \
        hybrid<T, B / sizeof(T), L, V, 2>(ARGUMENTS);                                                                  \
    }
HYBRID(f64, double, 8, 1, 1) LADDER(HYBRID, f64, double)
HYBRID(f32, float, 4, 1, 1) HYBRID(f32, float, 8, 1, 1) LADDER(HYBRID, f32, float)
#endif
