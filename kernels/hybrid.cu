// Y = A X with lanes over the columns of X, for matrices whose rows mostly have at most four nonzeros: ELLPACK of width 4, with
// longer rows stored separately.
//
// Row r has the entries 4 r to 4 r + 3 of `columns` and `values`, with column 0xffffffff after its last entry. A separate row has
// 0xfffffffe there. If `narrow` is not zero, columns have 16 bits: they are distances from a base that 32 rows have in common,
// with 0xffff and 0xfffe for the two marks, so that a row's columns take 8 bytes instead of 16. Short rows with a column out of
// reach of the base are then stored separately too.
//
//   bases          32 bits per 32 rows; empty if columns have 32 bits
//   long_rows      first index in `long_columns` and `long_values` (64 bits, a multiple of four), number of nonzeros, row
//
// Separate rows are padded with column 0xffffffff to a multiple of four.
//
// A short row needs no row pointer, so a single load of columns precedes the loads of X. The first rows / R of the `items` items
// are R short rows each: the block has R times as many rows as groups of lanes, in R rounds, and a group computes one row of
// each round; the columns of all rounds are loaded before the first is used. The other items are one separate row each, in
// thread blocks of their own. A row is a chain of fused multiply-adds: the canonical order for rows of up to 128 nonzeros.

// fast: no spills
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 ROWS=2 ONLY_HEAVY
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=2 VECTORS=2 ROWS=2 ONLY_HEAVY
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=1 ROWS=2 ONLY_HEAVY
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=2 ROWS=2 ONLY_HEAVY
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=2 ROWS=2

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long items, unsigned long long rows, unsigned long long narrow, unsigned long long k,                \
        const unsigned int *__restrict__ columns, const unsigned int *__restrict__ bases,                              \
        const T *__restrict__ values, const uint4 *__restrict__ long_rows,                                             \
        const unsigned int *__restrict__ long_columns, const T *__restrict__ long_values, const T *__restrict__ x,     \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS                                                                                                      \
    items, rows, narrow, k, columns, bases, values, long_rows, long_columns, long_values, x, ldx, y, ldy, alpha, beta

#define NONE 0xffffffffu
#define LONG 0xfffffffeu
// If there are no separate rows, the code for them would only take registers.
#ifdef ONLY_HEAVY
#define ONLY_SHORT true
#else
#define ONLY_SHORT false
#endif

// The columns of a short row, loaded packed and unpacked where they are used.
template <bool NARROW> struct Columns;
template <> struct Columns<false> {
    unsigned int from[4];
    __device__ __forceinline__ void load(const unsigned int *columns, const unsigned int *, unsigned int row)
    {
        load_quad(columns + 4ull * row, from);
    }
    __device__ __forceinline__ bool is_long() const { return from[0] == LONG; }
    __device__ __forceinline__ void open(unsigned int (&to)[4]) const
    {
#pragma unroll
        for (int j = 0; j < 4; ++j) to[j] = from[j];
    }
};
template <> struct Columns<true> {
    uint2 distances;
    unsigned int base;
    __device__ __forceinline__ void load(const unsigned int *columns, const unsigned int *bases, unsigned int row)
    {
        distances = __ldg((const uint2 *)columns + row);
        base = __ldg(bases + row / 32);
    }
    __device__ __forceinline__ bool is_long() const { return (distances.x & 0xffffu) == (LONG & 0xffffu); }
    __device__ __forceinline__ void open(unsigned int (&to)[4]) const
    {
        to[0] = place(distances.x & 0xffffu), to[1] = place(distances.x >> 16);
        to[2] = place(distances.y & 0xffffu), to[3] = place(distances.y >> 16);
    }
    __device__ __forceinline__ unsigned int place(unsigned int distance) const
    {
        return distance == (NONE & 0xffffu) ? NONE : base + distance;
    }
};

// Adds those of four entries that are not padding.
template <typename T, int E, int L, int V>
static __device__ __forceinline__ void add_quad(const unsigned int (&from)[4], const T *__restrict__ values, T uniform,
                                                const T *__restrict__ x, unsigned int pitch, unsigned int column,
                                                unsigned int width, T (&sums)[V][E])
{
    T part[4][V][E], factors[4];
    if (!IS_UNIFORM && from[0] != NONE) load_quad(values, factors);
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (from[j] != NONE) load_row<T, E, L, V>(x + (unsigned long long)from[j] * pitch, column, width, part[j]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (from[j] != NONE) multiply_add<T, E, V>(IS_UNIFORM ? uniform : factors[j], part[j], sums);
}

// Computes the short rows among R rows at a distance of `groups`.
template <typename T, int E, int L, int V, int R, bool NARROW>
static __device__ __forceinline__ void short_rows(unsigned int first, unsigned int groups, unsigned int count,
                                                  const unsigned int *__restrict__ columns,
                                                  const unsigned int *__restrict__ bases,
                                                  const T *__restrict__ values, T uniform, const T *__restrict__ x,
                                                  unsigned int pitch, unsigned int column, unsigned int width,
                                                  T *__restrict__ y, unsigned int y_pitch, const Scaling &scaling)
{
    Columns<NARROW> loaded[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
        if (first + r * groups < count) loaded[r].load(columns, bases, first + r * groups);
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const unsigned int row = first + r * groups;
        if (row >= count || loaded[r].is_long()) continue;
        unsigned int from[4];
        loaded[r].open(from);
        T sums[V][E];
        clear<T, E, V>(sums);
        add_quad<T, E, L, V>(from, values + 4ull * row, uniform, x, pitch, column, width, sums);
        store_result<T, E, L, V>(y + (unsigned long long)row * y_pitch, column, width, scaling, sums);
    }
}

template <typename T, int E, int L, int V, int R> static __device__ __forceinline__ void hybrid(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L;
    const unsigned int column = TILE_OF(T, E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    // Row indices have 32 bits, like columns.
    const unsigned int groups = blockDim.x / L, group = threadIdx.x / L, count = (unsigned int)rows;
    const unsigned int short_items = (unsigned int)((rows + R - 1) / R);
    const unsigned int short_blocks = (short_items + groups - 1) / groups;
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    if (ONLY_SHORT || blockIdx.x < short_blocks) {
        const unsigned int first = blockIdx.x * groups * R + group;
        if (narrow)
            short_rows<T, E, L, V, R, true>(first, groups, count, columns, bases, values, uniform, x, pitch, column,
                                            width, y, y_pitch, SCALING);
        else
            short_rows<T, E, L, V, R, false>(first, groups, count, columns, bases, values, uniform, x, pitch, column,
                                             width, y, y_pitch, SCALING);
    } else {
        const unsigned int item = (blockIdx.x - short_blocks) * groups + group;
        if (item >= (unsigned int)items - short_items) return;
        const uint4 about = __ldg(long_rows + item);
        const unsigned long long begin = about.x | (unsigned long long)about.y << 32;
        T sums[V][E];
        clear<T, E, V>(sums);
#pragma unroll 1
        for (unsigned int at = 0; at < about.z; at += 4) {
            unsigned int from[4];
            load_quad(long_columns + begin + at, from);
            add_quad<T, E, L, V>(from, long_values + begin + at, uniform, x, pitch, column, width, sums);
        }
        store_result<T, E, L, V>(y + (unsigned long long)about.w * y_pitch, column, width, SCALING, sums);
    }
}

#ifdef EXACT_K
// Many warps hide the memory latency: the code for short rows alone needs few registers, so that a multiprocessor holds this
// many blocks. Older GPUs hold fewer.
#if defined(ONLY_HEAVY) && __CUDA_ARCH__ >= 900
#define BLOCKS                                                                                                         \
    (VECTORS == 1   ? (EXACT_K * sizeof(SCALAR) == BYTES * LANES && sizeof(SCALAR) == 4 ? 12 : 10)                     \
     : VECTORS == 2 ? 8                                                                                                \
                    : 4)
#define BOUNDS __launch_bounds__(128, BLOCKS)
#else
#define BOUNDS __launch_bounds__(128)
#endif
extern "C" __global__ void BOUNDS ENTRY(PARAMETERS(SCALAR))
{
    hybrid<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, ROWS>(ARGUMENTS);
}
#else
#define HYBRID(type, T, B, L, V)                                                                                       \
    extern "C" __global__ void __launch_bounds__(128) hybrid_##type##_b##B##l##L##v##V##r2(PARAMETERS(T))              \
    {                                                                                                                  \
        hybrid<T, B / sizeof(T), L, V, 2>(ARGUMENTS);                                                                  \
    }
HYBRID(f64, double, 8, 1, 1) LADDER(HYBRID, f64, double)
HYBRID(f32, float, 4, 1, 1) HYBRID(f32, float, 8, 1, 1) LADDER(HYBRID, f32, float)
#endif
