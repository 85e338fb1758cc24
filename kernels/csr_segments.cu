// Y = A X with lanes over the columns of X, A by compressed rows, in canonical order whatever the length of a row.
//
// An item is a whole row of up to 128 nonzeros or one segment of a longer one, as in csr_pieces.cu with pieces of 128:
//
//   begin_and_rows  first nonzero, counted from the first of the launch, in the low 48 bits
//   length          nonzeros; bit 31 marks a segment of a cut row
//   row             the row, or the number of the cut
//
// An item is added up as one chain of fused multiply-adds, and nothing may be added out of turn. What hides the way to memory
// is how many rows of X are on their way at once: W ways of L lanes fetch D each, a stretch of D entries after the other, and
// then take turns. In a way's turn all ways go on from the sums so far with the entries that they have, and the sums of the
// way whose turn it is are handed to all: the canonical order for any number of ways and any depth.
//
// The first `longest` items get a warp each, W = 32 / L ways; the others L * W lanes. The segment that is finished last adds
// all of its row, first to last, the ways taking turns again. Turns are not free: all ways compute in each of them.

// fast: no spills
// exact: EXACT_K=1 ENTRY=form SCALAR=double BYTES=8 LANES=1 VECTORS=1 WAYS=1 DEPTH=16
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=1 DEPTH=16
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=4 DEPTH=8
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=8 DEPTH=8
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=1 WAYS=2 DEPTH=8
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=2 WAYS=1 DEPTH=8
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4 WAYS=1 DEPTH=4
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=1 DEPTH=16
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=4 DEPTH=8
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2 WAYS=1 DEPTH=8
// exact: EXACT_K=64 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=4 WAYS=1 DEPTH=4

#include "lanes.cuh"

#define ITEM_PARAMETERS(T)                                                                                             \
    unsigned long long items, unsigned long long k, const uint4 *__restrict__ list,                                    \
        const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts,                                        \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, T *scratch, unsigned int *counters

#define ITEM_ARGUMENTS items, k, list, parts, cuts, columns, values, x, ldx, y, ldy, scratch, counters

#define PARAMETERS(T) unsigned long long longest, ITEM_PARAMETERS(T)
#define ARGUMENTS longest, ITEM_ARGUMENTS

#define WARP 0xffffffffu

// D entries of A from `at` on, as far as there are some.
template <typename T, int D>
static __device__ __forceinline__ void load_deep(const unsigned int *__restrict__ columns, const T *__restrict__ values,
                                                 unsigned int at, unsigned int length, unsigned int (&from)[D],
                                                 T (&factors)[D])
{
#pragma unroll
    for (int quad = 0; quad < D; quad += 4)
        load_entries<T, true, false>(columns, values, at + quad, length, PLENTY, from + quad, factors + quad);
}

// The sums of `count` entries of A times their rows of X, in the order of the entries, D of them at a time.
template <typename T, int E, int L, int V, int D>
static __device__ __forceinline__ void chain_of_one(unsigned long long begin, unsigned int count,
                                                    const unsigned int *__restrict__ columns,
                                                    const T *__restrict__ values, const T *__restrict__ x,
                                                    unsigned int ldx, unsigned int column, unsigned int k,
                                                    T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    const unsigned int skip = (unsigned int)(begin & 3), length = count + skip;
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    columns += begin - skip;
    values += begin - skip;
    unsigned int from[D];
    T factors[D];
    load_deep<T, D>(columns, values, 0, length, from, factors);
    for (unsigned int at = 0; at < length; at += D) {
        T part[D][V][E], now[D];
#pragma unroll
        for (int j = 0; j < D; ++j) {
            // One comparison: places before the first entry wrap around.
            if (at + j - skip < count)
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        // The next entries are on their way before the sums wait for X.
        load_deep<T, D>(columns, values, at + D, length, from, factors);
#pragma unroll
        for (int j = 0; j < D; ++j)
            if (at + j - skip < count) multiply_add<T, E, V>(now[j], part[j], sums);
    }
}

// An item by L lanes, which need no turns.
template <typename T, int E, int L, int V, int D>
static __device__ __forceinline__ void segment_of_one(unsigned long long item, ITEM_PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    if (item >= items) return;
    const uint4 about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    const unsigned int y_pitch = PITCH_OF(T, ldy);
    T sums[V][E];
    chain_of_one<T, E, L, V, D>(begin, about.z & ~CUT, columns, values, x, PITCH_OF(T, ldx), column, width, sums);
    // As many parts at once as rows of X: registers for more would be missing in the chain.
    if (about.z & CUT)
        finish_part<T, E, L, V, D>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch, scratch,
                                   counters);
    else
        store_row<T, E, L, V>(y + (unsigned long long)about.w * y_pitch, column, width, sums);
}

// The largest of the numbers that groups of N lanes have, for the whole warp.
template <int N> static __device__ __forceinline__ unsigned int largest_of_warp(unsigned int number)
{
#pragma unroll
    for (int distance = N; distance < 32; distance *= 2) {
        const unsigned int other = __shfl_xor_sync(WARP, number, distance);
        if (other > number) number = other;
    }
    return number;
}

// All ways get the sums of one. All lanes of `mask` take part.
template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void hand_over(unsigned int mask, unsigned int way, T (&sums)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < E; ++i)
            sums[v][i] = __shfl_sync(mask, sums[v][i], (int)(way * L + threadIdx.x % L), L * W);
}

// The sums of `count` entries of A times their rows of X, in the order of the entries, D of them a way at a time. All lanes
// of a warp take part.
template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void deep_chain(unsigned long long begin, unsigned int count,
                                                  const unsigned int *__restrict__ columns,
                                                  const T *__restrict__ values, const T *__restrict__ x,
                                                  unsigned int ldx, unsigned int column, unsigned int k,
                                                  unsigned int way, T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    const unsigned int skip = (unsigned int)(begin & 3), length = count + skip;
    // As ways take turns, the groups of a warp go on together until the last is done.
    const unsigned int end = largest_of_warp<L * W>(length);
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    columns += begin - skip;
    values += begin - skip;
    unsigned int from[D];
    T factors[D];
    load_deep<T, D>(columns, values, way * D, length, from, factors);
    for (unsigned int at = 0; at < end; at += W * D) {
        const unsigned int own = at + way * D;
        unsigned int present = 0; // a bit for each entry
        T part[D][V][E], now[D];
#pragma unroll
        for (int j = 0; j < D; ++j) {
            // One comparison: places before the first entry wrap around.
            if (own + j - skip < count) {
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
                present |= 1u << j;
            }
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        // The next entries are on their way before the sums wait for X.
        load_deep<T, D>(columns, values, own + W * D, length, from, factors);
#pragma unroll 1
        for (unsigned int turn = 0; turn < W && at + turn * D < end; ++turn) {
#pragma unroll
            for (int j = 0; j < D; ++j)
                if (present >> j & 1) multiply_add<T, E, V>(now[j], part[j], sums);
            hand_over<T, E, L, V, W>(WARP, turn, sums);
        }
    }
}

// One segment of a cut row is done; whoever finishes the last one adds all of them, first to last, and stores the row. D of
// them a way are on their way at once.
template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void finish_segment(const uint4 *__restrict__ cuts, unsigned int cut,
                                                      unsigned int segment, unsigned int lane, unsigned int column,
                                                      unsigned int k, T (&sums)[V][E], T *y, unsigned int ldy,
                                                      T *scratch, unsigned int *counters)
{
    const uint4 about = __ldg(cuts + cut); // row, first slot, number of segments
    const unsigned int way = lane / L, end = about.z;
    T *slots = scratch + (unsigned long long)about.y * ldy;
    if (way == 0) store_row<T, E, L, V>(slots + (unsigned long long)segment * ldy, column, k, sums);
    if (!is_last<L * W>(counters + (unsigned long long)cut * gridDim.y + blockIdx.y, end, lane)) return;
    for (unsigned int at = 0; at < end; at += W * D) {
        const unsigned int own = at + way * D;
        unsigned int present = 0;
        T next[D][V][E];
#pragma unroll
        for (int j = 0; j < D; ++j)
            if (own + j < end) {
                present |= 1u << j;
                const T *slot = slots + (unsigned long long)(own + j) * ldy;
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (column + v * (L * E) < k) load_shared_by_all<T, E>(slot + column + v * (L * E), next[j][v]);
            }
#pragma unroll 1
        for (unsigned int turn = 0; turn < W && at + turn * D < end; ++turn) {
#pragma unroll
            for (int j = 0; j < D; ++j)
                if (present >> j & 1) {
                    // The sum begins with the first segment, not with zero, so that a negative zero stays one.
#pragma unroll
                    for (int v = 0; v < V; ++v)
#pragma unroll
                        for (int i = 0; i < E; ++i)
                            sums[v][i] = own + j == 0 ? next[j][v][i] : sums[v][i] + next[j][v][i];
                }
            hand_over<T, E, L, V, W>(group_mask<L * W>(), turn, sums);
        }
    }
    if (way == 0) store_row<T, E, L, V>(y + (unsigned long long)about.x * ldy, column, k, sums);
}

template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void segment(unsigned long long item, ITEM_PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % (L * W), way = lane / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane % L * E, width = COLUMNS_OF(T, k, ldx);
    const bool is_there = item < items;
    uint4 about = make_uint4(0, 0, 0, 0);
    if (is_there) about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    const unsigned int y_pitch = PITCH_OF(T, ldy);
    T sums[V][E];
    deep_chain<T, E, L, V, W, D>(begin, about.z & ~CUT, columns, values, x, PITCH_OF(T, ldx), column, width, way, sums);
    if (!is_there) return;
    // At least as many segments at once as rows of X, as a row may have hundreds; registers for more would be missing in the
    // chain.
    const int TOGETHER = !IS_EXACT ? PARTS_TOGETHER : V == 1 && D < 8 ? 8 : D;
    if (about.z & CUT)
        finish_segment<T, E, L, V, W, TOGETHER>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch,
                                                scratch, counters);
    else if (way == 0)
        store_row<T, E, L, V>(y + (unsigned long long)about.w * y_pitch, column, width, sums);
}

template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void csr_segments(PARAMETERS(T))
{
    // What ways of one item have on their way is enough with few each, and registers for more would be missing elsewhere.
    const int depth_of_longest = W == 1 && D > 4 ? 4 : D;
    const unsigned int warps = blockDim.x / 32, long_blocks = (unsigned int)((longest + warps - 1) / warps);
    const bool is_long = blockIdx.x < long_blocks;
    unsigned long long item = (unsigned long long)blockIdx.x * warps + threadIdx.x / 32;
    if (!is_long)
        item = longest + (unsigned long long)(blockIdx.x - long_blocks) * (blockDim.x / (L * W)) +
               threadIdx.x / (L * W);
    // Behind the last of the longest there is nothing for this block.
    else if (item >= longest)
        item = items;
    if (is_long && L * W < 32)
        segment<T, E, L, V, 32 / L, depth_of_longest>(item, ITEM_ARGUMENTS);
    else if (W == 1)
        segment_of_one<T, E, L, V, D>(item, ITEM_ARGUMENTS);
    else
        segment<T, E, L, V, W, D>(item, ITEM_ARGUMENTS);
}

// Turns need more registers than 256 threads leave; forms are launched with 64.
#define MOST_THREADS(W) ((W) == 1 ? 128 : 64)

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(MOST_THREADS(WAYS)) ENTRY(PARAMETERS(SCALAR))
{
    csr_segments<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, WAYS, DEPTH>(ARGUMENTS);
}
#else
#define ENTRY_OF(name, T, B, L, V, W, D)                                                                               \
    extern "C" __global__ void __launch_bounds__(MOST_THREADS(W)) name(PARAMETERS(T))                                 \
    {                                                                                                                  \
        csr_segments<T, B / sizeof(T), L, V, W, D>(ARGUMENTS);                                                         \
    }
#define SEGMENTS(type, T, B, L, V, D) ENTRY_OF(csr_segments_##type##_b##B##l##L##v##V##d##D, T, B, L, V, 1, D)
#define BY_WAYS(type, T, B, L, V, W, D) ENTRY_OF(csr_segments_##type##_b##B##l##L##v##V##w##W##d##D, T, B, L, V, W, D)
#define FORMS(type, T)                                                                                                 \
    SEGMENTS(type, T, 8, 1, 1, 8) SEGMENTS(type, T, 16, 1, 1, 8) SEGMENTS(type, T, 16, 2, 1, 8)                          \
    SEGMENTS(type, T, 16, 4, 1, 4) SEGMENTS(type, T, 16, 4, 1, 8) SEGMENTS(type, T, 16, 4, 1, 16)                        \
    SEGMENTS(type, T, 16, 4, 2, 8) SEGMENTS(type, T, 16, 8, 2, 8) SEGMENTS(type, T, 16, 8, 4, 4)                         \
    SEGMENTS(type, T, 16, 16, 4, 4)                                                                                    \
    BY_WAYS(type, T, 8, 1, 1, 8, 8) BY_WAYS(type, T, 16, 1, 1, 8, 4) BY_WAYS(type, T, 16, 4, 1, 4, 4)
FORMS(f64, double)
SEGMENTS(f32, float, 4, 1, 1, 8) BY_WAYS(f32, float, 4, 1, 1, 4, 8) FORMS(f32, float)
#endif
