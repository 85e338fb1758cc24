// Sums over the rows of multivectors, in the order of src/kernel/vectors/order.rs. The rows are those of whole blocks, and
// `partials` gets one result per block.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"

// ---- Products of columns: 32 lanes of rows, and 64 bytes of columns, of one block of rows.

#define DOT_BLOCK_ROWS 1024u
#define DOT_LANES 32
// Vectors of a row that a block of threads computes.
#define DOT_VECTORS 4
// Rows that a thread has in flight.
#define DOT_TOGETHER 8

template <typename T, int E>
static __device__ __forceinline__ void dot_columns(T *sums, unsigned int count, unsigned int columns, const T *x, u64 ldx,
                                                   const T *y, u64 ldy, T *partial)
{
    const unsigned int vector = threadIdx.x % DOT_VECTORS, lane = threadIdx.x / DOT_VECTORS;
    T *own = sums + (lane * DOT_VECTORS + vector) * E;
    for (unsigned int tile = blockIdx.y; tile * DOT_VECTORS * E < columns; tile += gridDim.y) {
        const unsigned int column = (tile * DOT_VECTORS + vector) * E;
        T sum[E];
#pragma unroll
        for (int i = 0; i < E; ++i) sum[i] = T(0);
        if (column < columns)
            for (unsigned int row = lane; row < count; row += DOT_LANES * DOT_TOGETHER) {
                T xs[DOT_TOGETHER][E], ys[DOT_TOGETHER][E];
#pragma unroll
                for (int j = 0; j < DOT_TOGETHER; ++j)
                    if (row + j * DOT_LANES < count) {
                        load<T, E>(x + (row + j * DOT_LANES) * ldx + column, xs[j]);
                        load<T, E>(y + (row + j * DOT_LANES) * ldy + column, ys[j]);
                    }
#pragma unroll
                for (int j = 0; j < DOT_TOGETHER; ++j)
                    if (row + j * DOT_LANES < count) {
#pragma unroll
                        for (int i = 0; i < E; ++i) sum[i] = fused(xs[j][i], ys[j][i], sum[i]);
                    }
            }
        __syncthreads(); // the sums of the tile before have been read
        store<T, E>(own, sum);
        for (unsigned int half = DOT_LANES / 2; half > 0; half /= 2) {
            __syncthreads();
            if (lane < half) {
#pragma unroll
                for (int i = 0; i < E; ++i) own[i] += own[half * DOT_VECTORS * E + i];
            }
        }
        if (lane == 0 && column < columns) {
#pragma unroll
            for (int i = 0; i < E; ++i) partial[column + i] = own[i];
        }
    }
}

template <typename T>
static __device__ __forceinline__ void dot(u64 rows, u64 columns, const T *x, u64 ldx, const T *y, u64 ldy, T *partials)
{
    __shared__ __align__(16) T sums[DOT_LANES * DOT_VECTORS * WIDE(T)];
    const u64 first = (u64)blockIdx.x * DOT_BLOCK_ROWS;
    const unsigned int count = (unsigned int)min((u64)DOT_BLOCK_ROWS, rows - first);
    x += first * ldx;
    y += first * ldy;
    T *partial = partials + blockIdx.x * columns;
    if (columns % WIDE(T) == 0 && is_aligned(x, ldx) && is_aligned(y, ldy))
        dot_columns<T, WIDE(T)>(sums, count, (unsigned int)columns, x, ldx, y, ldy, partial);
    else
        dot_columns<T, 1>(sums, count, (unsigned int)columns, x, ldx, y, ldy, partial);
}

// Elements of the partial results that a block of threads has in shared memory at once.
#define TOTAL_CHUNK 1024u
#define DOT_THREADS (DOT_LANES * DOT_VECTORS)

// The sum of the partial results of `blocks` blocks in their order, for each column, and its square root if `roots` is not zero.
template <typename T>
static __device__ __forceinline__ void add_partials(T *chunk, u64 blocks, unsigned int columns, u64 roots, const T *partials,
                                                    T *totals)
{
    for (unsigned int first = 0; first < columns; first += DOT_THREADS) {
        const unsigned int width = min((unsigned int)DOT_THREADS, columns - first), most = TOTAL_CHUNK / width;
        T total = T(0);
        for (u64 block = 0; block < blocks; block += most) {
            const unsigned int count = (unsigned int)min((u64)most, blocks - block);
            __syncthreads(); // the chunk before has been read
#pragma unroll 8
            for (unsigned int at = threadIdx.x; at < count * width; at += DOT_THREADS)
                chunk[at] = __ldcg(partials + (block + at / width) * columns + first + at % width);
            __syncthreads();
            if (threadIdx.x < width) {
                // The sum begins with the first partial result: zero plus a negative zero would be another number.
                unsigned int i = 0;
                if (block == 0) {
                    total = chunk[threadIdx.x];
                    i = 1;
                }
#pragma unroll 8
                for (; i < count; ++i) total = total + chunk[i * width + threadIdx.x];
            }
        }
        if (threadIdx.x < width) totals[first + threadIdx.x] = roots ? (T)sqrt((double)total) : total;
    }
}

// Increments a counter in global memory and returns its previous value. Stores before a counted increment are visible to the
// block of threads that counts last.
static __device__ __forceinline__ unsigned int count_block(unsigned int *counter)
{
#ifdef ROWLOOM_EMULATED
    __threadfence();
    return atomicAdd(counter, 1u);
#else
    unsigned int before;
    asm volatile("atom.release.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
#endif
}

// True for all threads of the block that is the last of `count` to call this for the counter, which it resets to zero. The stores
// of the other blocks before their calls are visible to them.
static __device__ __forceinline__ bool is_last_block(unsigned int *counter, unsigned int count)
{
    __shared__ unsigned int before;
    __syncthreads(); // the stores of all threads come before the count
    if (threadIdx.x == 0) {
        before = count_block(counter);
        if (before + 1 == count) *counter = 0;
        // The first thread has read the counter, so its fence acquires the stores of the other blocks. The barrier orders the loads
        // of all threads after the fence.
        __threadfence();
    }
    __syncthreads();
    return before + 1 == count;
}

// The products of columns: the block of threads that ends last adds the partial results of all. `ended` is zero before and after.
template <typename T>
static __device__ __forceinline__ void dot_total(u64 rows, u64 columns, u64 roots, const T *x, u64 ldx, const T *y, u64 ldy,
                                                 T *partials, unsigned int *ended, T *totals)
{
    __shared__ T chunk[TOTAL_CHUNK];
    dot<T>(rows, columns, x, ldx, y, ldy, partials);
    if (!is_last_block(ended, gridDim.x * gridDim.y)) return;
    add_partials<T>(chunk, gridDim.x, (unsigned int)columns, roots, partials, totals);
}

// ---- Weighted sums of rows, in double, and sums of squares: the check of a product. Thread blocks are those of the products of
// columns.

#define WEIGH_BLOCK_ROWS 1024u

template <typename T, int E>
static __device__ __forceinline__ void weigh_columns(double *totals, unsigned int count, unsigned int columns,
                                                     const double *weights, const T *y, u64 ldy, double *partial)
{
    const unsigned int vector = threadIdx.x % DOT_VECTORS, lane = threadIdx.x / DOT_VECTORS;
    double *own = totals + (lane * DOT_VECTORS + vector) * 2 * E;
    for (unsigned int tile = blockIdx.y; tile * DOT_VECTORS * E < columns; tile += gridDim.y) {
        const unsigned int column = (tile * DOT_VECTORS + vector) * E;
        double total[2 * E];
#pragma unroll
        for (int i = 0; i < 2 * E; ++i) total[i] = 0;
        if (column < columns)
            for (unsigned int row = lane; row < count; row += DOT_LANES * DOT_TOGETHER) {
                T ys[DOT_TOGETHER][E];
                double pairs[DOT_TOGETHER][2];
#pragma unroll
                for (int j = 0; j < DOT_TOGETHER; ++j)
                    if (row + j * DOT_LANES < count) {
                        load<double, 2>(weights + 2 * (u64)(row + j * DOT_LANES), pairs[j]);
                        load<T, E>(y + (row + j * DOT_LANES) * ldy + column, ys[j]);
                    }
                // Short chains, so that rounding does not hide errors.
                double sum[E];
#pragma unroll
                for (int i = 0; i < E; ++i) sum[i] = 0;
#pragma unroll
                for (int j = 0; j < DOT_TOGETHER; ++j)
                    if (row + j * DOT_LANES < count) {
#pragma unroll
                        for (int i = 0; i < E; ++i) {
                            const double value = (double)ys[j][i], scaled = pairs[j][1] * value;
                            sum[i] = fma(pairs[j][0], value, sum[i]);
                            total[E + i] = fma(scaled, scaled, total[E + i]);
                        }
                    }
#pragma unroll
                for (int i = 0; i < E; ++i) total[i] += sum[i];
            }
        __syncthreads(); // the totals of the tile before have been read
#pragma unroll
        for (int i = 0; i < 2 * E; ++i) own[i] = total[i];
        for (unsigned int half = DOT_LANES / 2; half > 0; half /= 2) {
            __syncthreads();
            if (lane < half) {
#pragma unroll
                for (int i = 0; i < 2 * E; ++i) own[i] += own[half * DOT_VECTORS * 2 * E + i];
            }
        }
        if (lane == 0 && column < columns) {
#pragma unroll
            for (int i = 0; i < E; ++i) {
                partial[column + i] = own[i];
                partial[columns + column + i] = own[E + i];
            }
        }
    }
}

template <typename T>
static __device__ __forceinline__ void weigh(u64 rows, u64 columns, const double *weights, const T *y, u64 ldy, double *partials)
{
    __shared__ __align__(16) double totals[DOT_LANES * DOT_VECTORS * 2 * WIDE(T)];
    const u64 first = (u64)blockIdx.x * WEIGH_BLOCK_ROWS;
    const unsigned int count = (unsigned int)min((u64)WEIGH_BLOCK_ROWS, rows - first);
    weights += 2 * first;
    y += first * ldy;
    double *partial = partials + blockIdx.x * 2 * columns;
    if (columns % WIDE(T) == 0 && is_aligned(y, ldy))
        weigh_columns<T, WIDE(T)>(totals, count, (unsigned int)columns, weights, y, ldy, partial);
    else
        weigh_columns<T, 1>(totals, count, (unsigned int)columns, weights, y, ldy, partial);
}

// ---- Products of all pairs of columns. A block of threads computes a tile of TILE by TILE pairs of one block of rows; a group of
// threads computes each of its strands, R by R pairs in each thread.

#define STRANDS 8
#define STRAND_ROWS 512
#define GRAM_BLOCK_ROWS 4096u
// Elements of X, and of Y, that a group loads at a time.
#define STAGE 256

template <int TILE, int R> static constexpr int GROUP = (TILE / R) * (TILE / R);

template <typename T, int G>
static __device__ __forceinline__ void store_stage(const T (&from)[STAGE / G], unsigned int thread, T *to)
{
    constexpr int E = WIDE(T);
#pragma unroll
    for (int n = 0; n < STAGE / G / E; ++n) store<T, E>(to + (thread + n * G) * E, from + n * E);
}

// The R columns of a thread: vectors of E columns, those of neighbouring threads next to each other.
template <typename T, int TILE, int R, int E>
static __device__ __forceinline__ void load_columns(const T *row, unsigned int thread, T (&to)[R])
{
#pragma unroll
    for (int v = 0; v < R / E; ++v) load<T, E>(row + v * (TILE / R * E) + thread * E, to + v * E);
}

template <typename T, int TILE, int R, int E>
static __device__ __forceinline__ void multiply_row(const T *x, const T *y, unsigned int tx, unsigned int ty, T (&sum)[R][R])
{
    T xs[R], ys[R];
    load_columns<T, TILE, R, E>(x, ty, xs);
    load_columns<T, TILE, R, E>(y, tx, ys);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < R; ++j) sum[i][j] = fused(xs[i], ys[j], sum[i][j]);
}

template <typename T, int TILE, int R>
static __device__ __forceinline__ void gram(u64 rows, u64 x_columns, u64 y_columns, const T *x, u64 ldx, const T *y, u64 ldy,
                                            T *partials)
{
    constexpr int G = GROUP<TILE, R>, STAGE_ROWS = STAGE / TILE, E = R < WIDE(T) ? R : WIDE(T);
    __shared__ __align__(16) T xs[STRANDS * STAGE];
    __shared__ __align__(16) T ys[STRANDS * STAGE];
    __shared__ __align__(16) T sums[TILE * TILE];
    const unsigned int strand = threadIdx.x / G, thread = threadIdx.x % G;
    const unsigned int tx = thread % (TILE / R), ty = thread / (TILE / R);
    const unsigned int x_column = blockIdx.y * TILE, y_column = blockIdx.z * TILE;
    const u64 first = (u64)blockIdx.x * GRAM_BLOCK_ROWS;
    const unsigned int all = (unsigned int)min((u64)GRAM_BLOCK_ROWS, rows - first);
    // Rows of this group's strand.
    const unsigned int count = min((unsigned int)STRAND_ROWS, all - min(all, strand * STRAND_ROWS));
    const bool x_wide = is_aligned(x, ldx), y_wide = is_aligned(y, ldy);
    if (count > 0) {
        x += (first + strand * STRAND_ROWS) * ldx;
        y += (first + strand * STRAND_ROWS) * ldy;
    }
    T *own_x = xs + strand * STAGE, *own_y = ys + strand * STAGE;
    T next_x[STAGE / G], next_y[STAGE / G], sum[R][R];
    load_tile<T, TILE, STAGE, G>(x, ldx, count, x_column, (unsigned int)x_columns, x_wide, thread, next_x);
    load_tile<T, TILE, STAGE, G>(y, ldy, count, y_column, (unsigned int)y_columns, y_wide, thread, next_y);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < R; ++j) sum[i][j] = T(0);
    for (unsigned int row = 0; row < STRAND_ROWS; row += STAGE_ROWS) {
        __syncthreads(); // the stage before has been read
        store_stage<T, G>(next_x, thread, own_x);
        store_stage<T, G>(next_y, thread, own_y);
        __syncthreads();
        const unsigned int here = count - min(count, row), after = count - min(count, row + STAGE_ROWS);
        if (after > 0) {
            const u64 next = row + STAGE_ROWS;
            load_tile<T, TILE, STAGE, G>(x + next * ldx, ldx, after, x_column, (unsigned int)x_columns, x_wide, thread, next_x);
            load_tile<T, TILE, STAGE, G>(y + next * ldy, ldy, after, y_column, (unsigned int)y_columns, y_wide, thread, next_y);
        }
        if (here >= STAGE_ROWS) {
#pragma unroll 2 // more would spill registers
            for (int r = 0; r < STAGE_ROWS; ++r)
                multiply_row<T, TILE, R, E>(own_x + r * TILE, own_y + r * TILE, tx, ty, sum);
        } else {
            for (unsigned int r = 0; r < here; ++r)
                multiply_row<T, TILE, R, E>(own_x + r * TILE, own_y + r * TILE, tx, ty, sum);
        }
    }
    for (unsigned int turn = 0; turn < STRANDS; ++turn) {
        if (strand == turn) {
#pragma unroll
            for (int i = 0; i < R; ++i)
#pragma unroll
                for (int j = 0; j < R; ++j) {
                    const unsigned int at_row = i / E * (TILE / R * E) + ty * E + i % E;
                    const unsigned int at_column = j / E * (TILE / R * E) + tx * E + j % E;
                    T *to = sums + at_row * TILE + at_column;
                    *to = turn == 0 ? sum[i][j] : *to + sum[i][j];
                }
        }
        __syncthreads();
    }
    T *partial = partials + blockIdx.x * (x_columns * y_columns);
    for (unsigned int at = threadIdx.x; at < TILE * TILE; at += STRANDS * G) {
        const unsigned int i = x_column + at / TILE, j = y_column + at % TILE;
        if (i < x_columns && j < y_columns) partial[i * y_columns + j] = sums[at];
    }
}

// ---- Entry points.

#define OF_SUM(T) OF_X(T), const T *__restrict__ y, u64 ldy, T *__restrict__ partials
#define OF_PAIRS u64 rows, u64 x_columns, u64 y_columns
#define PAIRS rows, x_columns, y_columns, x, ldx, y, ldy, partials

#define SUMS(type, T)                                                                                                  \
    ENTRY(DOT_LANES * DOT_VECTORS, vectors_dot_##type)(u64 rows, u64 columns, OF_SUM(T))                               \
    {                                                                                                                  \
        dot<T>(rows, columns, x, ldx, y, ldy, partials);                                                               \
    }                                                                                                                  \
    ENTRY(DOT_LANES * DOT_VECTORS, vectors_dot_total_##type)                                                           \
    (u64 rows, u64 columns, u64 roots, OF_SUM(T), unsigned int *__restrict__ ended, T *__restrict__ totals)            \
    {                                                                                                                  \
        dot_total<T>(rows, columns, roots, x, ldx, y, ldy, partials, ended, totals);                                   \
    }                                                                                                                  \
    ENTRY(DOT_LANES * DOT_VECTORS, vectors_weigh_##type)                                                               \
    (u64 rows, u64 columns, const double *__restrict__ weights, const T *__restrict__ y, u64 ldy, double *__restrict__ partials) \
    {                                                                                                                  \
        weigh<T>(rows, columns, weights, y, ldy, partials);                                                            \
    }                                                                                                                  \
    ENTRY(128, vectors_gram8_##type)(OF_PAIRS, OF_SUM(T)) { gram<T, 8, 2>(PAIRS); }                                    \
    ENTRY(128, vectors_gram16_##type)(OF_PAIRS, OF_SUM(T)) { gram<T, 16, 4>(PAIRS); }                                  \
    ENTRY(512, vectors_gram32_##type)(OF_PAIRS, OF_SUM(T)) { gram<T, 32, 4>(PAIRS); }

SUMS(f64, double)
SUMS(f32, float)
