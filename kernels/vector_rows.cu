// Row-wise operations on multivectors, stored by rows, and products with a small matrix.
//
// Numbers such as `alpha` are the bits of a double. The factor of a column is `alpha * alphas[column] / alpha_divisors[column]`,
// in this order. `arrays` has a bit for each array that there is: 1 for `alphas`, 2 for `alpha_divisors`, 4 and 8 for those of beta.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"

// ---- Row-wise operations. A block of threads computes a tile of `tile_rows` rows.

#define THREADS 256
// Vectors that a thread has in flight.
#define TOGETHER 4

template <typename T, int E, class Operation>
static __device__ __forceinline__ void tile_of_rows(u64 rows, u64 columns, u64 tile_rows, const Operation &operation,
                                                    const T *x, u64 ldx, T *y, u64 ldy)
{
    const u64 first = blockIdx.x * tile_rows;
    const unsigned int vectors = (unsigned int)columns / E;
    const unsigned int total = (unsigned int)min(tile_rows, rows - first) * vectors;
    for (unsigned int begin = threadIdx.x; begin < total; begin += TOGETHER * THREADS) {
        T xs[TOGETHER][E], ys[TOGETHER][E];
        T *to[TOGETHER];
        unsigned int column[TOGETHER];
#pragma unroll
        for (int j = 0; j < TOGETHER; ++j) {
            const unsigned int at = begin + j * THREADS;
            if (at >= total) continue;
            const unsigned int row = at / vectors;
            column[j] = (at - row * vectors) * E;
            to[j] = y + operation.row_of_y(first + row) * ldy + column[j];
            if (Operation::READS_X) load<T, E>(x + operation.row_of_x(first + row) * ldx + column[j], xs[j]);
            if (Operation::READS_Y) load<T, E>(to[j], ys[j]);
        }
#pragma unroll
        for (int j = 0; j < TOGETHER; ++j) {
            if (begin + j * THREADS >= total) continue;
            T result[E];
#pragma unroll
            for (int i = 0; i < E; ++i)
                result[i] = operation.value(column[j] + i, Operation::READS_X ? xs[j][i] : T(0),
                                            Operation::READS_Y ? ys[j][i] : T(0));
            store<T, E>(to[j], result);
        }
    }
}

template <typename T, class Operation>
static __device__ __forceinline__ void over_rows(u64 rows, u64 columns, u64 tile_rows, const Operation &operation,
                                                 const T *x, u64 ldx, T *y, u64 ldy)
{
    if (columns % WIDE(T) == 0 && is_aligned(y, ldy) && (!Operation::READS_X || is_aligned(x, ldx)))
        tile_of_rows<T, WIDE(T)>(rows, columns, tile_rows, operation, x, ldx, y, ldy);
    else
        tile_of_rows<T, 1>(rows, columns, tile_rows, operation, x, ldx, y, ldy);
}

template <bool X, bool Y> struct EveryRow {
    static constexpr bool READS_X = X, READS_Y = Y;
    __device__ __forceinline__ u64 row_of_x(u64 row) const { return row; }
    __device__ __forceinline__ u64 row_of_y(u64 row) const { return row; }
};

template <typename T> struct Fill : EveryRow<false, false> {
    T constant;
    __device__ __forceinline__ T value(unsigned int, T, T) const { return constant; }
};

template <typename T> struct Copy : EveryRow<true, false> {
    __device__ __forceinline__ T value(unsigned int, T x, T) const { return x; }
};

template <typename T> struct GatherRows : Copy<T> {
    const unsigned int *list;
    __device__ __forceinline__ u64 row_of_x(u64 row) const { return __ldg(list + row); }
};

template <typename T> struct ScatterRows : Copy<T> {
    const unsigned int *list;
    __device__ __forceinline__ u64 row_of_y(u64 row) const { return __ldg(list + row); }
};

// The factor of each column. Arrays that are null count as ones.
template <typename T> struct Factor {
    T value;
    const T *times, *over;
    __device__ __forceinline__ T of_column(unsigned int column) const
    {
        T result = value;
        if (times) result = result * __ldg(times + column);
        if (over) result = result / __ldg(over + column);
        return result;
    }
};

// The factor of `bits`, of the array `times` if `arrays` has the bit `bit`, and of the array `over` if it has the next one.
template <typename T>
static __device__ __forceinline__ Factor<T> factor_of(u64 columns, u64 bits, u64 arrays, u64 bit, const T *times, const T *over)
{
    Factor<T> result;
    result.value = number<T>(bits);
    result.times = arrays & bit ? times : nullptr;
    result.over = arrays & (2 * bit) ? over : nullptr;
    if (columns == 1) {
        // One division for all elements of a thread.
        result.value = result.of_column(0);
        result.times = result.over = nullptr;
    }
    return result;
}

template <typename T> struct Scaled : EveryRow<true, false> {
    Factor<T> alpha;
    __device__ __forceinline__ T value(unsigned int column, T x, T) const { return alpha.of_column(column) * x; }
};

template <typename T> struct Scale : EveryRow<false, true> {
    Factor<T> alpha;
    __device__ __forceinline__ T value(unsigned int column, T, T y) const { return alpha.of_column(column) * y; }
};

template <typename T> struct Axpby : EveryRow<true, true> {
    Factor<T> alpha, beta;
    __device__ __forceinline__ T value(unsigned int column, T x, T y) const
    {
        return fused(alpha.of_column(column), x, beta.of_column(column) * y);
    }
};

// ---- Products with a small matrix. A block of threads computes 128 rows and 32 columns of Y, each thread 4 by 4 elements.

#define TIMES_ROWS 128
#define TIMES_COLUMNS 32
// Columns of X that are in shared memory at once.
#define TIMES_DEPTH 32
#define TIMES_THREADS_ALONG 8
#define TIMES_ROW_STEP (THREADS / TIMES_THREADS_ALONG)

template <typename T, bool READS_Y>
static __device__ __forceinline__ void times(u64 rows, u64 x_columns, u64 columns, T beta, const T *s, u64 lds, const T *x,
                                             u64 ldx, T *y, u64 ldy)
{
    constexpr int E = WIDE(T), PITCH = TIMES_DEPTH + E; // rows of X begin in different banks
    __shared__ __align__(16) T xs[TIMES_ROWS * PITCH];
    __shared__ __align__(16) T ss[TIMES_DEPTH * TIMES_COLUMNS];
    const unsigned int tx = threadIdx.x % TIMES_THREADS_ALONG, ty = threadIdx.x / TIMES_THREADS_ALONG;
    const u64 first = (u64)blockIdx.x * TIMES_ROWS;
    const unsigned int count = (unsigned int)min((u64)TIMES_ROWS, rows - first);
    const unsigned int y_column = blockIdx.y * TIMES_COLUMNS;
    const bool x_wide = is_aligned(x, ldx), y_wide = is_aligned(y, ldy), s_wide = is_aligned(s, lds);
    x += first * ldx;
    y += first * ldy;
    T sums[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const unsigned int row = ty + i * TIMES_ROW_STEP;
            const unsigned int column = y_column + j / E * (TIMES_THREADS_ALONG * E) + tx * E + j % E;
            sums[i][j] = T(0);
            if (READS_Y && row < count && column < columns) sums[i][j] = beta * y[row * ldy + column];
        }
    for (unsigned int begin = 0; begin < x_columns; begin += TIMES_DEPTH) {
        const unsigned int depth = min((unsigned int)TIMES_DEPTH, (unsigned int)x_columns - begin);
        __syncthreads(); // the columns before have been read
        T from[TIMES_ROWS * TIMES_DEPTH / THREADS];
        load_tile<T, TIMES_DEPTH, TIMES_ROWS * TIMES_DEPTH, THREADS>(x, ldx, count, begin, (unsigned int)x_columns, x_wide,
                                                                     threadIdx.x, from);
#pragma unroll
        for (int n = 0; n < TIMES_ROWS * TIMES_DEPTH / THREADS / E; ++n) {
            const unsigned int at = threadIdx.x + n * THREADS;
            store<T, E>(xs + at / (TIMES_DEPTH / E) * PITCH + at % (TIMES_DEPTH / E) * E, from + n * E);
        }
        T small[TIMES_DEPTH * TIMES_COLUMNS / THREADS];
        load_tile<T, TIMES_COLUMNS, TIMES_DEPTH * TIMES_COLUMNS, THREADS>(s + begin * lds, lds, depth, y_column,
                                                                          (unsigned int)columns, s_wide, threadIdx.x, small);
#pragma unroll
        for (int n = 0; n < TIMES_DEPTH * TIMES_COLUMNS / THREADS / E; ++n)
            store<T, E>(ss + (threadIdx.x + n * THREADS) * E, small + n * E);
        __syncthreads();
        for (unsigned int at = 0; at < depth; at += E) {
            T factors[4][E];
#pragma unroll
            for (int i = 0; i < 4; ++i) load<T, E>(xs + (ty + i * TIMES_ROW_STEP) * PITCH + at, factors[i]);
#pragma unroll
            for (int e = 0; e < E; ++e) {
                if (at + e >= depth) break;
                T values[4];
#pragma unroll
                for (int v = 0; v < 4 / E; ++v)
                    load<T, E>(ss + (at + e) * TIMES_COLUMNS + v * (TIMES_THREADS_ALONG * E) + tx * E, values + v * E);
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j) sums[i][j] = fused(factors[i][e], values[j], sums[i][j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned int row = ty + i * TIMES_ROW_STEP;
        if (row >= count) continue;
#pragma unroll
        for (int v = 0; v < 4 / E; ++v) {
            const unsigned int column = y_column + v * (TIMES_THREADS_ALONG * E) + tx * E;
            T *to = y + row * ldy + column;
            if (y_wide && column + E <= columns) {
                store<T, E>(to, sums[i] + v * E);
            } else {
#pragma unroll
                for (int e = 0; e < E; ++e)
                    if (column + e < columns) to[e] = sums[i][v * E + e];
            }
        }
    }
}

// ---- Entry points.

#define OF_ROWS u64 rows, u64 columns, u64 tile_rows
#define OF_LIST const unsigned int *__restrict__ list
#define OF_ALPHA(T) u64 arrays, u64 alpha, const T *__restrict__ alphas, const T *__restrict__ alpha_divisors
#define OF_BETA(T) u64 beta, const T *__restrict__ betas, const T *__restrict__ beta_divisors
#define ALPHA(T) factor_of<T>(columns, alpha, arrays, 1, alphas, alpha_divisors)
#define BETA(T) factor_of<T>(columns, beta, arrays, 4, betas, beta_divisors)

#define ROW_WISE(type, T)                                                                                              \
    ENTRY(THREADS, vectors_fill_##type)(OF_ROWS, u64 value, OF_Y(T))                                                            \
    {                                                                                                                  \
        Fill<T> fill;                                                                                                  \
        fill.constant = number<T>(value);                                                                              \
        over_rows<T>(rows, columns, tile_rows, fill, nullptr, 0, y, ldy);                                              \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_copy_##type)(OF_ROWS, OF_X(T), OF_Y(T))                                                              \
    {                                                                                                                  \
        over_rows<T>(rows, columns, tile_rows, Copy<T>(), x, ldx, y, ldy);                                             \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_gather_rows_##type)(OF_ROWS, OF_LIST, OF_X(T), OF_Y(T))                                              \
    {                                                                                                                  \
        GatherRows<T> gather;                                                                                          \
        gather.list = list;                                                                                            \
        over_rows<T>(rows, columns, tile_rows, gather, x, ldx, y, ldy);                                                \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_scatter_rows_##type)(OF_ROWS, OF_LIST, OF_X(T), OF_Y(T))                                             \
    {                                                                                                                  \
        ScatterRows<T> scatter;                                                                                        \
        scatter.list = list;                                                                                           \
        over_rows<T>(rows, columns, tile_rows, scatter, x, ldx, y, ldy);                                               \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_scaled_##type)(OF_ROWS, OF_ALPHA(T), OF_X(T), OF_Y(T))                                               \
    {                                                                                                                  \
        Scaled<T> scaled;                                                                                              \
        scaled.alpha = ALPHA(T);                                                                                       \
        over_rows<T>(rows, columns, tile_rows, scaled, x, ldx, y, ldy);                                                \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_scale_##type)(OF_ROWS, OF_ALPHA(T), OF_Y(T))                                                         \
    {                                                                                                                  \
        Scale<T> scale;                                                                                                \
        scale.alpha = ALPHA(T);                                                                                        \
        over_rows<T>(rows, columns, tile_rows, scale, nullptr, 0, y, ldy);                                             \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_axpby_##type)(OF_ROWS, OF_ALPHA(T), OF_BETA(T), OF_X(T), OF_Y(T))                                    \
    {                                                                                                                  \
        Axpby<T> axpby;                                                                                                \
        axpby.alpha = ALPHA(T);                                                                                        \
        axpby.beta = BETA(T);                                                                                          \
        over_rows<T>(rows, columns, tile_rows, axpby, x, ldx, y, ldy);                                                 \
    }

ROW_WISE(f64, double)
ROW_WISE(f32, float)

#define OF_TIMES(T) const T *__restrict__ s, u64 lds, OF_X(T), OF_Y(T)
#define TIMES(type, T)                                                                                                 \
    ENTRY(THREADS, vectors_times_##type)(u64 rows, u64 x_columns, u64 columns, OF_TIMES(T))                            \
    {                                                                                                                  \
        times<T, false>(rows, x_columns, columns, T(0), s, lds, x, ldx, y, ldy);                                       \
    }                                                                                                                  \
    ENTRY(THREADS, vectors_times_add_##type)(u64 rows, u64 x_columns, u64 columns, u64 beta, OF_TIMES(T))              \
    {                                                                                                                  \
        times<T, true>(rows, x_columns, columns, number<T>(beta), s, lds, x, ldx, y, ldy);                             \
    }

TIMES(f64, double)
TIMES(f32, float)
