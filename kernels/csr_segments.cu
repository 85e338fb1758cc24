// Y = A X with lanes over the columns of X, A in CSR, in canonical order for rows of any length.
//
// An item is a whole row of up to PIECE nonzeros or a piece of a longer row, as in csr_pieces.cu. A piece is a segment of 128
// nonzeros, or a span of 1024 if there is enough work to fill the GPU:
//
//   begin_and_rows  first nonzero, relative to the first of the launch, in the low 48 bits
//   length          nonzeros; bit 31 marks a piece of a cut row
//   row             the row, or the index of the cut
//
// A segment is one chain of fused multiply-adds, which must not be reordered. The memory latency is hidden by several loads of X
// in flight: each of W ways of L lanes loads D rows of X, for D consecutive entries, and then the ways add in turn. In each
// turn all ways add their own entries to the current sums, and the sums of the way whose turn it is are broadcast to all ways.
// This gives the canonical order for any number of ways and any depth.
//
// The first `longest` items get a warp each, with W = 32 / L ways if that is faster; the others get L * W lanes. The group of lanes
// that finishes the last piece adds up the row; in a row with many spans, the last piece of a span adds up the span, and the last
// span adds up the row. Turns have a cost: all ways compute in each of them.

// fast: no spills
// exact: EXACT_K=1 ENTRY=form SCALAR=double BYTES=8 LANES=1 VECTORS=1 WAYS=1 DEPTH=16 PIECE=128
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=1 DEPTH=16 PIECE=128
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=4 DEPTH=8 PIECE=128
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=8 DEPTH=8 PIECE=128
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=1 WAYS=2 DEPTH=8 PIECE=128
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=2 WAYS=1 DEPTH=8 PIECE=128
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4 WAYS=1 DEPTH=4 PIECE=128
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=1 DEPTH=16 PIECE=128
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=4 DEPTH=8 PIECE=128
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2 WAYS=1 DEPTH=8 PIECE=128
// exact: EXACT_K=64 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=4 WAYS=1 DEPTH=4 PIECE=128
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=1 DEPTH=16 PIECE=1024
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4 WAYS=1 DEPTH=4 PIECE=1024
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=1 DEPTH=16 PIECE=1024

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define ITEM_PARAMETERS(T)                                                                                             \
    unsigned long long items, unsigned long long k, const uint4 *__restrict__ list,                                    \
        const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts,                                        \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS, T *scratch,             \
        unsigned int *counters

#define ITEM_ARGUMENTS items, k, list, parts, cuts, columns, values, x, ldx, y, ldy, alpha, beta, scratch, counters

#define PARAMETERS(T) unsigned long long longest, ITEM_PARAMETERS(T)
#define ARGUMENTS longest, ITEM_ARGUMENTS

#define WARP 0xffffffffu

// Loads up to D entries of A from `at` on.
template <typename T, int D>
static __device__ __forceinline__ void load_deep(const unsigned int *__restrict__ columns, const T *__restrict__ values,
                                                 unsigned int at, unsigned int length, unsigned int (&from)[D],
                                                 T (&factors)[D])
{
#pragma unroll
    for (int quad = 0; quad < D; quad += 4)
        load_entries<T, true, false>(columns, values, at + quad, length, PLENTY, from + quad, factors + quad);
}

// The sums of `count` entries of A times their rows of X, in the order of the entries, with D rows of X in flight; with SPANS the
// entries are a span, added segment by segment.
template <typename T, int E, int L, int V, int D, bool SPANS>
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
    T factors[D], total[V][E];
    if (SPANS) fill<T, E, V>(-T(0), total);
    load_deep<T, D>(columns, values, 0, length, from, factors);
    for (unsigned int at = 0; at < length; at += D) {
        // A segment can begin only at one of the first four of these entries.
        const int next_segment = SPANS && at > 0 && at % SEGMENT == 0 ? (int)skip : D;
        T part[D][V][E], now[D];
#pragma unroll
        for (int j = 0; j < D; ++j) {
            // One comparison: indices before the first entry wrap around.
            if (at + j - skip < count)
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        // The next entries are requested before the sums wait for X.
        load_deep<T, D>(columns, values, at + D, length, from, factors);
#pragma unroll
        for (int j = 0; j < D; ++j)
            if (at + j - skip < count) {
                if (SPANS && j < 4 && j == next_segment) {
                    add<T, E, V>(sums, total);
                    clear<T, E, V>(sums);
                }
                multiply_add<T, E, V>(now[j], part[j], sums);
            }
    }
    if (SPANS) add<T, E, V>(total, sums);
}

// Computes an item with L lanes (one way).
template <typename T, int E, int L, int V, int D, bool SPANS>
static __device__ __forceinline__ void item_of_one(unsigned long long item, ITEM_PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    if (item >= items) return;
    const uint4 about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    const unsigned int y_pitch = PITCH_OF(T, ldy);
    T sums[V][E];
    chain_of_one<T, E, L, V, D, SPANS>(begin, about.z & ~CUT, columns, values, x, PITCH_OF(T, ldx), column, width, sums);
    // As many parts in flight as rows of X: more registers would be missing in the chain.
    const int TOGETHER = IS_EXACT ? D : PARTS_TOGETHER;
    if (about.z & CUT)
        finish_part<T, E, L, V, TOGETHER>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch,
                                          SCALING, scratch, counters);
    else
        store_result<T, E, L, V>(y + (unsigned long long)about.w * y_pitch, column, width, SCALING, sums);
}

// The maximum over the warp of a number that is uniform in each group of N lanes.
template <int N> static __device__ __forceinline__ unsigned int largest_of_warp(unsigned int number)
{
#pragma unroll
    for (int distance = N; distance < 32; distance *= 2) {
        const unsigned int other = __shfl_xor_sync(WARP, number, distance);
        if (other > number) number = other;
    }
    return number;
}

// Broadcasts the sums of one way to all ways. All lanes of `mask` must take part.
template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void hand_over(unsigned int mask, unsigned int way, T (&sums)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < E; ++i)
            sums[v][i] = __shfl_sync(mask, sums[v][i], (int)(way * L + threadIdx.x % L), L * W);
}

// The sums of `count` entries of A times their rows of X, in the order of the entries, with D rows of X per way in flight. All
// lanes of the warp must take part.
template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void deep_chain(unsigned long long begin, unsigned int count,
                                                  const unsigned int *__restrict__ columns,
                                                  const T *__restrict__ values, const T *__restrict__ x,
                                                  unsigned int ldx, unsigned int column, unsigned int k,
                                                  unsigned int way, T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    const unsigned int skip = (unsigned int)(begin & 3), length = count + skip;
    // Turns synchronize the warp, so all its groups iterate until the longest item is done.
    const unsigned int end = largest_of_warp<L * W>(length);
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    columns += begin - skip;
    values += begin - skip;
    unsigned int from[D];
    T factors[D];
    load_deep<T, D>(columns, values, way * D, length, from, factors);
    for (unsigned int at = 0; at < end; at += W * D) {
        const unsigned int own = at + way * D;
        unsigned int present = 0; // one bit per entry
        T part[D][V][E], now[D];
#pragma unroll
        for (int j = 0; j < D; ++j) {
            // One comparison: indices before the first entry wrap around.
            if (own + j - skip < count) {
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
                present |= 1u << j;
            }
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        // The next entries are requested before the sums wait for X.
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

// Adds up to D rows of partial sums from `first` on, first to last.
template <typename T, int E, int L, int V, int D>
static __device__ __forceinline__ void add_some(const T *slots, unsigned int first, unsigned int end, unsigned int ldy,
                                                unsigned int column, unsigned int k, T (&sums)[V][E])
{
    T next[D][V][E];
#pragma unroll
    for (int j = 0; j < D; ++j) {
        fill<T, E, V>(-T(0), next[j]);
        if (first + j < end) {
            const T *slot = slots + (unsigned long long)(first + j) * ldy;
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (column + v * (L * E) < k) load_shared_by_all<T, E>(slot + column + v * (L * E), next[j][v]);
        }
    }
#pragma unroll
    for (int j = 0; j < D; ++j) add<T, E, V>(next[j], sums);
}

// The sum of `end` rows of segment sums, span by span: each way adds up a span, with D segments in flight, and the spans of the
// ways are added first to last.
template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void add_segments(const T *slots, unsigned int end, unsigned int ldy,
                                                    unsigned int way, unsigned int column, unsigned int k,
                                                    T (&sums)[V][E])
{
    const unsigned int of_span = SPAN / SEGMENT;
    fill<T, E, V>(-T(0), sums);
    for (unsigned int at = 0; at < end; at += W * of_span) {
        T span[V][E];
        fill<T, E, V>(-T(0), span);
#pragma unroll 1
        for (unsigned int j = 0; j < of_span; j += D)
            add_some<T, E, L, V, D>(slots, at + way * of_span + j, end, ldy, column, k, span);
#pragma unroll 1
        for (unsigned int turn = 0; turn < W && at + turn * of_span < end; ++turn) {
            T other[V][E];
#pragma unroll
            for (int v = 0; v < V; ++v)
#pragma unroll
                for (int i = 0; i < E; ++i) other[v][i] = span[v][i];
            hand_over<T, E, L, V, W>(group_mask<L * W>(), turn, other);
            add<T, E, V>(other, sums);
        }
    }
}

// The sum of `end` rows of span sums, first to last, with D of them per way in flight.
template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void add_spans(const T *slots, unsigned int end, unsigned int ldy, unsigned int way,
                                                 unsigned int column, unsigned int k, T (&sums)[V][E])
{
    fill<T, E, V>(-T(0), sums);
    for (unsigned int at = 0; at < end; at += W * D) {
        T next[D][V][E];
#pragma unroll
        for (int j = 0; j < D; ++j) {
            const unsigned int own = at + way * D + j;
            fill<T, E, V>(-T(0), next[j]);
            if (own < end) {
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (column + v * (L * E) < k)
                        load_shared_by_all<T, E>(slots + (unsigned long long)own * ldy + column + v * (L * E), next[j][v]);
            }
        }
#pragma unroll 1
        for (unsigned int turn = 0; turn < W && at + turn * D < end; ++turn) {
#pragma unroll
            for (int j = 0; j < D; ++j) add<T, E, V>(next[j], sums);
            hand_over<T, E, L, V, W>(group_mask<L * W>(), turn, sums);
        }
    }
}

// As finish_part of lanes.cuh, with ways that add in turn.
template <typename T, int E, int L, int V, int W, int D>
static __device__ __forceinline__ void finish_in_turns(const uint4 *__restrict__ cuts, unsigned int cut,
                                                       unsigned int part, unsigned int lane, unsigned int column,
                                                       unsigned int k, T (&sums)[V][E], T *y, unsigned int ldy,
                                                       const Scaling &scaling, T *scratch, unsigned int *counters)
{
    const unsigned int way = lane / L;
    for (;;) {
        const uint4 about = __ldg(cuts + cut);
        const unsigned int count = about.z & ~CUT;
        T *slots = scratch + (unsigned long long)about.y * ldy;
        if (way == 0) store_row<T, E, L, V>(slots + (unsigned long long)part * ldy, column, k, sums);
        if (!is_last<L * W>(counters + (unsigned long long)cut * gridDim.y + blockIdx.y, count, lane)) return;
        if (about.z & CUT)
            add_spans<T, E, L, V, W, D>(slots, count, ldy, way, column, k, sums);
        else
            add_segments<T, E, L, V, W, D>(slots, count, ldy, way, column, k, sums);
        part = about.x;
        if (about.w == 0) break;
        cut = about.w - 1;
    }
    if (way == 0) store_result<T, E, L, V>(y + (unsigned long long)part * ldy, column, k, scaling, sums);
}

// Computes an item with L * W lanes. With SPANS a warp has a single item: the warp iterates together, and items may differ in
// their number of segments.
template <typename T, int E, int L, int V, int W, int D, bool SPANS>
static __device__ __forceinline__ void item_in_turns(unsigned long long item, ITEM_PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % (L * W), way = lane / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane % L * E, width = COLUMNS_OF(T, k, ldx);
    const bool is_there = item < items;
    uint4 about = make_uint4(0, 0, 0, 0);
    if (is_there) about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    const unsigned int y_pitch = PITCH_OF(T, ldy);
    const unsigned int count = about.z & ~CUT, first = SPANS && count > SEGMENT ? SEGMENT : count;
    T sums[V][E];
    deep_chain<T, E, L, V, W, D>(begin, first, columns, values, x, PITCH_OF(T, ldx), column, width, way, sums);
    for (unsigned int at = first; SPANS && at < count; at += SEGMENT) {
        const unsigned int length = count - at < SEGMENT ? count - at : SEGMENT;
        T segment[V][E];
        deep_chain<T, E, L, V, W, D>(begin + at, length, columns, values, x, PITCH_OF(T, ldx), column, width, way, segment);
        add<T, E, V>(segment, sums);
    }
    if (!is_there) return;
    // A whole span in flight if the chain has registers for it.
    const int TOGETHER = !IS_EXACT ? PARTS_TOGETHER : V == 1 || D > 8 ? 8 : D;
    if (about.z & CUT)
        finish_in_turns<T, E, L, V, W, TOGETHER>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y,
                                                 y_pitch, SCALING, scratch, counters);
    else if (way == 0)
        store_result<T, E, L, V>(y + (unsigned long long)about.w * y_pitch, column, width, SCALING, sums);
}

template <typename T, int E, int L, int V, int W, int D, bool SPANS>
static __device__ __forceinline__ void csr_segments(PARAMETERS(T))
{
    static_assert(W == 1 || L * W == 32 || !SPANS, "turns are for all items of a warp");
    // All ways of an item together have enough loads in flight with a small depth each, which saves registers.
    const int depth_of_longest = W == 1 && D > 4 ? 4 : D;
    // If one way has about as many loads in flight as all ways of a warp, turns would only add cost.
    const bool takes_turns = L * W < 32 && L < 16 && 32 / L * depth_of_longest > D;
    const unsigned int warps = blockDim.x / 32, long_blocks = (unsigned int)((longest + warps - 1) / warps);
    const bool is_long = blockIdx.x < long_blocks;
    unsigned long long item = (unsigned long long)blockIdx.x * warps + threadIdx.x / 32;
    if (!is_long)
        item = longest + (unsigned long long)(blockIdx.x - long_blocks) * (blockDim.x / (L * W)) +
               threadIdx.x / (L * W);
    // No item after the last of the longest, nor for lanes that have no part in a one-way item.
    else if (item >= longest || (W == 1 && !takes_turns && threadIdx.x % 32 >= L))
        item = items;
    if (is_long && takes_turns)
        item_in_turns<T, E, L, V, 32 / L, depth_of_longest, SPANS>(item, ITEM_ARGUMENTS);
    else if (W == 1)
        item_of_one<T, E, L, V, D, SPANS>(item, ITEM_ARGUMENTS);
    else
        item_in_turns<T, E, L, V, W, D, SPANS>(item, ITEM_ARGUMENTS);
}

// Turns need more registers than blocks of 256 threads allow; forms are launched with 64.
#define MOST_THREADS(W) ((W) == 1 ? 128 : 64)
// Without a minimum of one block, the compiler spills a few bytes of some forms to fit one more block per multiprocessor.
#if defined(EXACT_K) && __CUDA_ARCH__ >= 900 && WAYS == 1
#define BOUNDS(W) __launch_bounds__(MOST_THREADS(W))
#else
#define BOUNDS(W) __launch_bounds__(MOST_THREADS(W), 1)
#endif

#ifdef EXACT_K
extern "C" __global__ void BOUNDS(WAYS) ENTRY(PARAMETERS(SCALAR))
{
    csr_segments<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, WAYS, DEPTH, (PIECE > SEGMENT)>(ARGUMENTS);
}
#else
#define ENTRY_OF(name, T, B, L, V, W, D, SPANS)                                                                        \
    extern "C" __global__ void BOUNDS(W) name(PARAMETERS(T))                                                      \
    {                                                                                                                  \
        csr_segments<T, B / sizeof(T), L, V, W, D, SPANS>(ARGUMENTS);                                                  \
    }
#define SEGMENTS(type, T, B, L, V, D) ENTRY_OF(csr_segments_##type##_b##B##l##L##v##V##d##D##p128, T, B, L, V, 1, D, false)
#define SPANS(type, T, B, L, V, D) ENTRY_OF(csr_segments_##type##_b##B##l##L##v##V##d##D##p1024, T, B, L, V, 1, D, true)
#define BY_WAYS(type, T, B, L, V, W, D)                                                                                \
    ENTRY_OF(csr_segments_##type##_b##B##l##L##v##V##w##W##d##D##p128, T, B, L, V, W, D, false)
#define FORMS(type, T)                                                                                                 \
    SEGMENTS(type, T, 8, 1, 1, 8) SEGMENTS(type, T, 16, 1, 1, 8) SEGMENTS(type, T, 16, 2, 1, 8)                          \
    SEGMENTS(type, T, 16, 4, 1, 8) SEGMENTS(type, T, 16, 4, 2, 8) SEGMENTS(type, T, 16, 8, 2, 8)                       \
    SEGMENTS(type, T, 16, 8, 4, 4) SEGMENTS(type, T, 16, 16, 4, 4) SPANS(type, T, 16, 4, 1, 8)                         \
    BY_WAYS(type, T, 8, 1, 1, 8, 8) BY_WAYS(type, T, 16, 1, 1, 8, 4) BY_WAYS(type, T, 16, 4, 1, 4, 4)
FORMS(f64, double)
SEGMENTS(f32, float, 4, 1, 1, 8) BY_WAYS(f32, float, 4, 1, 1, 4, 8) FORMS(f32, float)
#endif
