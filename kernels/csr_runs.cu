// Y = A X with lanes over the columns of X, A in CSR, short rows joined into runs.
//
// An item is a run of whole rows, whose entries L lanes process as one list, or one segment of a row longer than 128:
//
//   begin_and_rows  first nonzero, relative to the first of the launch, in the low 48 bits; number of rows in the high 16
//   length          nonzeros; bit 31 marks a segment of a cut row
//   row             the first row, or the index of the cut
//
// A cut has a row, its first slot in `scratch` and the number of its segments; `parts` has the index of each item's segment. The
// group of lanes that finishes the last segment adds all of them, first to last: the canonical order.

// fast: no spills

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long items, unsigned long long k, const unsigned long long *__restrict__ row_pointers,               \
        const uint4 *__restrict__ list, const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts,        \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS, T *scratch,             \
        unsigned int *counters

#define ARGUMENTS                                                                                                      \
    items, k, row_pointers, list, parts, cuts, columns, values, x, ldx, y, ldy, alpha, beta, scratch, counters

template <typename T, int E, int L, int V> static __device__ __forceinline__ void csr_runs(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L;
    const unsigned int column = TILE_OF(T, E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned long long item = (unsigned long long)blockIdx.x * (blockDim.x / L) + threadIdx.x / L;
    if (item >= items) return;
    const uint4 about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    T sums[V][E];
    if (about.z & CUT) {
        chain<T, E, L, V, 1, true>(begin, about.z & ~CUT, PLENTY, columns, values, x, pitch, column, width, 0, sums);
        finish_part<T, E, L, V>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch, SCALING,
                                scratch, counters);
        return;
    }
    clear<T, E, V>(sums);
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    const unsigned int skip = (unsigned int)(begin & 3), length = about.z + skip;
    columns += begin - skip;
    values += begin - skip;
    unsigned int rows_left = about.y >> 16;
    const unsigned long long *pointer = row_pointers + about.w;
    const unsigned long long origin = __ldg(row_pointers) + begin - skip;
    unsigned int row_end = (unsigned int)(__ldg(++pointer) - origin);
    T *row = y + (unsigned long long)about.w * y_pitch;
    unsigned int from[4];
    T factors[4];
    load_entries<T, true, false>(columns, values, 0, length, PLENTY, from, factors);
    for (unsigned int at = 0; at < length; at += 4) {
        T part[4][V][E], now[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (at + j >= skip && at + j < length)
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * pitch, column, width, part[j]);
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        load_entries<T, true, false>(columns, values, at + 4, length, PLENTY, from, factors);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (at + j >= skip && at + j < length) {
                while (at + j == row_end) {
                    store_result<T, E, L, V>(row, column, width, SCALING, sums);
                    clear<T, E, V>(sums);
                    row += y_pitch;
                    --rows_left;
                    row_end = (unsigned int)(__ldg(++pointer) - origin);
                }
                multiply_add<T, E, V>(now[j], part[j], sums);
            }
    }
    // The last row, and empty rows after it.
    for (; rows_left > 0; --rows_left) {
        store_result<T, E, L, V>(row, column, width, SCALING, sums);
        clear<T, E, V>(sums);
        row += y_pitch;
    }
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    csr_runs<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS>(ARGUMENTS);
}
#else
#define RUNS(type, T, B, L, V)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256, V < 4 ? 2 : 1) csr_runs_##type##_b##B##l##L##v##V(PARAMETERS(T))    \
    {                                                                                                                  \
        csr_runs<T, B / sizeof(T), L, V>(ARGUMENTS);                                                                   \
    }
RUNS(f64, double, 8, 1, 1) LADDER(RUNS, f64, double)
RUNS(f32, float, 4, 1, 1) RUNS(f32, float, 8, 1, 1) LADDER(RUNS, f32, float)
#endif
