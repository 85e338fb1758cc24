// Y = A X with lanes over the columns of X, A in CSR.
//
//   csr_subwarp  L lanes per row. A row is a chain of fused multiply-adds; above 128 nonzeros it is the sum of its segments'
//                chains, first to last, and above 1024 the sum of its spans: the canonical order
//   csr_ways     W ways of L lanes divide a row's nonzeros, and a tree adds their sums; for few or long rows and small K. A very
//                long row is computed by the whole block, to balance the load: each group of lanes computes a piece of it, and
//                the sums of the pieces are added first to last
//
// A launch covers `rows` rows of a larger matrix. The rows + 1 row pointers are those of the larger matrix; columns and values
// start at the first row's first nonzero.

// fast: no spills
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=8
// exact: EXACT_K=32 ENTRY=form SCALAR=double BYTES=16 LANES=16 VECTORS=1 WAYS=2
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2 WAYS=4
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4 WAYS=1

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, const unsigned long long *__restrict__ row_pointers,                \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS rows, k, row_pointers, columns, values, x, ldx, y, ldy, alpha, beta

// Rows of more than LONG_ROW nonzeros are computed by a whole block, in pieces of LONG_PIECE nonzeros per group of lanes.
#define LONG_ROW 2048u
#define LONG_PIECE 256u
#define MOST_THREADS 256

// Adds the sums of a span to the total of the spans before. The total changes once in 1024 nonzeros, and registers for it would be
// missing in the chains. An index that the compiler does not know to be zero keeps it in local memory.
template <typename T, int E, int V>
static __device__ __forceinline__ void end_span(bool is_first, T (&sums)[V][E], T (&total)[V * E])
{
    const unsigned int zero = blockIdx.z;
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < E; ++i) {
            if (!is_first) sums[v][i] = total[zero + v * E + i] + sums[v][i];
            total[zero + v * E + i] = sums[v][i];
        }
}

template <typename T, int E, int L, int V> static __device__ __forceinline__ void csr_subwarp(PARAMETERS(T))
{
    const unsigned int column = blockIdx.y * (E * L * V) + threadIdx.x % L * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned long long row = (unsigned long long)blockIdx.x * (blockDim.x / L) + threadIdx.x / L;
    if (row >= rows) return;
    unsigned long long begin = __ldg(row_pointers + row);
    const unsigned long long count = __ldg(row_pointers + row + 1) - begin, behind = __ldg(row_pointers + rows) - begin;
    begin -= __ldg(row_pointers);
    // The arrays end with the last row's entries.
    const unsigned int readable = behind < PLENTY ? (unsigned int)behind : PLENTY;
    const unsigned int pitch = PITCH_OF(T, ldx);
    T sums[V][E];
    if (count <= 4) {
        short_chain<T, E, L, V>(begin, (unsigned int)count, columns, values, x, pitch, column, width, sums);
    } else if (count <= SEGMENT) {
        chain<T, E, L, V, 1, false>(begin, (unsigned int)count, readable, columns, values, x, pitch, column, width, 0, sums);
    } else {
        T segment[V][E];
        T total[V * E];
        fill<T, E, V>(-T(0), sums);
        for (unsigned long long at = 0; at < count; at += SEGMENT) {
            const unsigned int length = count - at < SEGMENT ? (unsigned int)(count - at) : SEGMENT;
            const unsigned int left = behind - at < PLENTY ? (unsigned int)(behind - at) : PLENTY;
            if (at > 0 && at % SPAN == 0) {
                end_span<T, E, V>(at == SPAN, sums, total);
                fill<T, E, V>(-T(0), sums);
            }
            chain<T, E, L, V, 1, false>(begin + at, length, left, columns, values, x, pitch, column, width, 0, segment);
            add<T, E, V>(segment, sums);
        }
        if (count > SPAN) end_span<T, E, V>(false, sums, total);
    }
    store_result<T, E, L, V>(y + row * PITCH_OF(T, ldy), column, width, SCALING, sums);
}

// Whether `mine` is true for any thread of the block. All threads of the block must call it.
static __device__ __forceinline__ bool any_of_block(bool mine)
{
    __shared__ bool warps[MOST_THREADS / 32];
    const bool any = __any_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = any;
    __syncthreads();
    bool result = false;
    for (unsigned int warp = 0; warp < blockDim.x / 32; ++warp) result |= warps[warp];
    return result;
}

// Adds the sums of `count` groups of lanes, first to last, to the total of a row so far, or starts the total if `is_first`. The
// first L lanes of the block then have the new total in `sums`. The total is in shared memory, since registers for it would be
// missing in the chains.
template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void add_groups(T (&sums)[V][E], unsigned int count, bool is_first)
{
    __shared__ T total[L * V * E];
    __shared__ T tile[MOST_THREADS / W * E];
    const unsigned int lane = threadIdx.x % (L * W);
    T *own = tile + (threadIdx.x / (L * W) * L + lane % L) * E;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (lane < L)
#pragma unroll
            for (int i = 0; i < E; ++i) own[i] = sums[v][i];
        __syncthreads();
        if (threadIdx.x < L) {
#pragma unroll
            for (int i = 0; i < E; ++i) sums[v][i] = is_first ? own[i] : total[(v * L + lane) * E + i] + own[i];
            for (unsigned int other = 1; other < count; ++other)
#pragma unroll
                for (int i = 0; i < E; ++i) sums[v][i] += own[other * (L * E) + i];
#pragma unroll
            for (int i = 0; i < E; ++i) total[(v * L + lane) * E + i] = sums[v][i];
        }
        __syncthreads();
    }
}

template <typename T, int E, int L, int V, int W> static __device__ __forceinline__ void csr_ways(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % (L * W), way = lane / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane % L * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned int group = threadIdx.x / (L * W), groups = blockDim.x / (L * W);
    const unsigned long long first_row = (unsigned long long)blockIdx.x * groups, row = first_row + group;
    const unsigned long long last_row = first_row + groups < rows ? first_row + groups : rows;
    const unsigned long long start = __ldg(row_pointers), end = __ldg(row_pointers + rows);
    // Uniform in a block, so that most blocks skip the barriers. Loaded together with the other row pointers.
    const bool may_be_long = __ldg(row_pointers + last_row) - __ldg(row_pointers + first_row) > LONG_ROW;
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    unsigned long long begin = end, length = 0;
    if (row < rows) {
        begin = __ldg(row_pointers + row);
        length = __ldg(row_pointers + row + 1) - begin;
    }
    const bool is_long = length > LONG_ROW;
    if (is_long) length = 0;
    // First every group computes its own row, then all groups compute each long row together, from `at` to `until`.
    bool together = false;
    unsigned long long next = first_row, at = 0, until = 0;
    for (;;) {
        // The arrays end with the last row's entries.
        const unsigned int readable = end - begin < PLENTY ? (unsigned int)(end - begin) : PLENTY;
        T sums[V][E];
        chain<T, E, L, V, W, false>(begin - start, (unsigned int)length, readable, columns, values, x, pitch, column, width, way,
                                    sums);
        add_ways<T, E, L, V, W>(sums);
        if (!together) {
            if (row < rows && way == 0 && !is_long)
                store_result<T, E, L, V>(y + row * y_pitch, column, width, SCALING, sums);
            if (!may_be_long || !any_of_block(is_long)) return;
            together = true;
        } else {
            const unsigned long long pieces = (until - at + LONG_PIECE - 1) / LONG_PIECE;
            add_groups<T, E, L, V, W>(sums, pieces < groups ? (unsigned int)pieces : groups,
                                      at == __ldg(row_pointers + next - 1));
            at += (unsigned long long)groups * LONG_PIECE;
            if (at >= until && threadIdx.x < L)
                store_result<T, E, L, V>(y + (next - 1) * y_pitch, column, width, SCALING, sums);
        }
        while (at >= until) {
            if (next == last_row) return;
            at = __ldg(row_pointers + next), until = __ldg(row_pointers + ++next);
            if (until - at <= LONG_ROW) at = until;
        }
        begin = at + group * LONG_PIECE;
        length = begin >= until ? 0 : until - begin < LONG_PIECE ? until - begin : LONG_PIECE;
        if (length == 0) begin = end;
    }
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(MOST_THREADS) ENTRY(PARAMETERS(SCALAR))
{
#if WAYS == 1
    csr_subwarp<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS>(ARGUMENTS);
#else
    csr_ways<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, WAYS>(ARGUMENTS);
#endif
}
#else
#define SUBWARP(type, T, B, L, V)                                                                                      \
    extern "C" __global__ void __launch_bounds__(MOST_THREADS) csr_subwarp_##type##_b##B##l##L##v##V(PARAMETERS(T))             \
    {                                                                                                                  \
        csr_subwarp<T, B / sizeof(T), L, V>(ARGUMENTS);                                                             \
    }
// Without a minimum of one block, the compiler spills a few bytes of some forms to fit one more block per multiprocessor.
#define WAYS_FORM(type, T, B, L, V, W)                                                                                 \
    extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1) csr_ways_##type##_b##B##l##L##v##V##w##W(PARAMETERS(T))       \
    {                                                                                                                  \
        csr_ways<T, B / sizeof(T), L, V, W>(ARGUMENTS);                                                             \
    }
SUBWARP(f64, double, 8, 1, 1) LADDER(SUBWARP, f64, double)
SUBWARP(f32, float, 4, 1, 1) SUBWARP(f32, float, 8, 1, 1) LADDER(SUBWARP, f32, float)
WAYS_FORM(f64, double, 8, 1, 1, 8) WAYS_LADDER(WAYS_FORM, f64, double)
WAYS_FORM(f32, float, 4, 1, 1, 8) WAYS_FORM(f32, float, 8, 1, 1, 8) WAYS_LADDER(WAYS_FORM, f32, float)
#endif
