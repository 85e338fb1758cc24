// C = alpha A B + beta C with the sums of several elements of C in the registers of each thread. In double precision tensor cores
// multiply; fragments.cuh. In single precision, where they would round differently, a thread has 8 by 8 elements: the tiles of A and B for
// one step along the depth are in shared memory, A transposed; while a block of threads multiplies a step, it loads the next one into
// registers.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"
#include "gemm.cuh"
#include "fragments.cuh"

// Rows and columns of C in a thread.
#define R 8

// The tile of C of a block of threads, and the depth of a step.
template <typename T> struct Tile;
template <> struct Tile<float> {
    static constexpr int ROWS = 128, COLUMNS = 128, DEPTH = 8;
};
#define THREADS_OF(T) (Tile<T>::ROWS / R * (Tile<T>::COLUMNS / R))
// Elements between rows of the transposed tile of A: a vector more than the tile has, against bank conflicts.
#define PITCH(T) (Tile<T>::ROWS + WIDE(T))

// The R elements of a thread out of SIZE: vectors, those of neighbouring threads next to each other.
template <typename T, int SIZE> static __device__ __forceinline__ void load_own(const T *from, unsigned int thread, T (&to)[R])
{
#pragma unroll
    for (int v = 0; v < R / WIDE(T); ++v) load<T, WIDE(T)>(from + (v * (SIZE / R) + thread) * WIDE(T), to + v * WIDE(T));
}

// The position in the tile of element `i` of a thread.
template <typename T, int SIZE> static __device__ __forceinline__ unsigned int own_position(int i, unsigned int thread)
{
    return (i / WIDE(T) * (SIZE / R) + thread) * WIDE(T) + i % WIDE(T);
}

template <typename T>
static __device__ __forceinline__ void multiply_step(const T *as, const T *bs, unsigned int ty, unsigned int tx, T (&sum)[R][R])
{
    T own_a[R], own_b[R];
    load_own<T, Tile<T>::ROWS>(as, ty, own_a);
    load_own<T, Tile<T>::COLUMNS>(bs, tx, own_b);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < R; ++j) sum[i][j] = fused(own_a[i], own_b[j], sum[i][j]);
}

// Stores the vectors that `load_tile` loaded: those of A transposed, those of B as they are.
template <typename T, int COUNT_A, int COUNT_B>
static __device__ __forceinline__ void store_stage(const T (&next_a)[COUNT_A], const T (&next_b)[COUNT_B], T *as, T *bs)
{
    constexpr int E = WIDE(T), G = THREADS_OF(T), PER_ROW = Tile<T>::DEPTH / E;
#pragma unroll
    for (int n = 0; n < COUNT_A / E; ++n) {
        const unsigned int at = threadIdx.x + n * G;
#pragma unroll
        for (int i = 0; i < E; ++i) as[(at % PER_ROW * E + i) * PITCH(T) + at / PER_ROW] = next_a[n * E + i];
    }
#pragma unroll
    for (int n = 0; n < COUNT_B / E; ++n) store<T, E>(bs + (threadIdx.x + n * G) * E, next_b + n * E);
}

// Stores E elements of a row of C, of which `count` are inside.
template <typename T, int E>
static __device__ __forceinline__ void store_elements(T *to, const T *sums, u64 count, bool wide, T alpha, T beta)
{
    if (wide && count >= E) {
        T old[E], result[E];
        if (beta != T(0)) load<T, E>(to, old);
#pragma unroll
        for (int i = 0; i < E; ++i) result[i] = scaled_element(sums[i], old + i, alpha, beta);
        store<T, E>(to, result);
    } else {
#pragma unroll
        for (int i = 0; i < E; ++i)
            if (i < count) to[i] = scaled_element(sums[i], to + i, alpha, beta);
    }
}

template <typename T> static __device__ __forceinline__ void multiply(OF_PRODUCT(T))
{
    constexpr int ROWS = Tile<T>::ROWS, COLUMNS = Tile<T>::COLUMNS, DEPTH = Tile<T>::DEPTH, E = WIDE(T);
    constexpr int G = THREADS_OF(T), WARP_COLUMNS = COLUMNS / R / 8;
    __shared__ __align__(16) T as[2 * DEPTH * PITCH(T)];
    __shared__ __align__(16) T bs[2 * DEPTH * COLUMNS];
    // A warp has 4 by 8 threads.
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned int ty = warp / WARP_COLUMNS * 4 + lane / 8, tx = warp % WARP_COLUMNS * 8 + lane % 8;
    const u64 first_row = (u64)blockIdx.x * ROWS;
    const unsigned int row_count = (unsigned int)min((u64)ROWS, rows - first_row);
    const bool a_wide = is_aligned(a, lda), b_wide = is_aligned(b, ldb), c_wide = is_aligned(c, ldc);
    a += first_row * lda;
    for (u64 tile = blockIdx.y; tile * COLUMNS < columns; tile += gridDim.y) {
        const u64 first_column = tile * COLUMNS;
        const unsigned int column_count = (unsigned int)min((u64)COLUMNS, columns - first_column);
        const T *own_a = a, *own_b = b + first_column;
        T next_a[ROWS * DEPTH / G], next_b[DEPTH * COLUMNS / G], sum[R][R];
#pragma unroll
        for (int i = 0; i < R; ++i)
#pragma unroll
            for (int j = 0; j < R; ++j) sum[i][j] = T(0);
        unsigned int count = (unsigned int)min((u64)DEPTH, depth), stage = 0;
        load_tile<T, DEPTH, ROWS * DEPTH, G>(own_a, lda, row_count, 0, count, a_wide, threadIdx.x, next_a);
        load_tile<T, COLUMNS, DEPTH * COLUMNS, G>(own_b, ldb, count, 0, column_count, b_wide, threadIdx.x, next_b);
        store_stage<T>(next_a, next_b, as, bs);
        __syncthreads();
        for (u64 left = depth; left > 0;) {
            left -= count;
            const unsigned int next = (unsigned int)min((u64)DEPTH, left);
            own_a += DEPTH;
            own_b += DEPTH * ldb;
            if (next > 0) {
                load_tile<T, DEPTH, ROWS * DEPTH, G>(own_a, lda, row_count, 0, next, a_wide, threadIdx.x, next_a);
                load_tile<T, COLUMNS, DEPTH * COLUMNS, G>(own_b, ldb, next, 0, column_count, b_wide, threadIdx.x, next_b);
            }
            const T *step_a = as + stage * DEPTH * PITCH(T), *step_b = bs + stage * DEPTH * COLUMNS;
            if (count == DEPTH) {
#pragma unroll
                for (int k = 0; k < DEPTH; ++k) multiply_step<T>(step_a + k * PITCH(T), step_b + k * COLUMNS, ty, tx, sum);
            } else {
                // Products beyond the depth would change a sum of -0.
#pragma unroll 1
                for (unsigned int k = 0; k < count; ++k)
                    multiply_step<T>(step_a + k * PITCH(T), step_b + k * COLUMNS, ty, tx, sum);
            }
            stage ^= 1;
            if (next > 0)
                store_stage<T>(next_a, next_b, as + stage * DEPTH * PITCH(T), bs + stage * DEPTH * COLUMNS);
            __syncthreads();
            count = next;
        }
#pragma unroll
        for (int i = 0; i < R; ++i) {
            const unsigned int row = own_position<T, ROWS>(i, ty);
            if (row < row_count) {
#pragma unroll
                for (int j = 0; j < R; j += E) {
                    const unsigned int column = own_position<T, COLUMNS>(j, tx);
                    if (column < column_count)
                        store_elements<T, E>(c + (first_row + row) * ldc + first_column + column, sum[i] + j,
                                             column_count - column, c_wide, number<T>(alpha), number<T>(beta));
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS) gemm_blocked_f64(OF_PRODUCT(double)) { multiply_by_fragments(PRODUCT); }

// Two blocks per multiprocessor, as there.
extern "C" __global__ void __launch_bounds__(THREADS_OF(float), 2) gemm_blocked_f32(OF_PRODUCT(float)) { multiply<float>(PRODUCT); }
