// Products of tiles in double precision by tensor cores, after gemm.cuh. The build replaces the #include line by this text.
//
// A tensor core continues the chain of fused multiply-adds of each element in order, so that the sums have the bits of other kernels. The
// tiles of A and B for one step along the depth are in shared memory; while a block of threads multiplies a step, the next one is copied.

// The tile of C of a block of threads, the depth of a step, and the part of the tile of a warp.
#define TILE_ROWS 128
#define TILE_COLUMNS 64
#define TILE_DEPTH 16
#define WARP_PART 32
#define TILE_THREADS (TILE_ROWS / WARP_PART * (TILE_COLUMNS / WARP_PART) * 32)
// Elements between rows in shared memory. Four more than the tile has, so that no two threads of half a warp access the same bank.
#define PITCH_A (TILE_DEPTH + 4)
#define PITCH_B (TILE_COLUMNS + 4)
#define STAGE (TILE_ROWS * PITCH_A + TILE_DEPTH * PITCH_B)
// Blocks per multiprocessor: one multiplies while the other waits at its barrier. Without tensor cores the sums need more registers.
#if defined(ROWLOOM_EMULATED) || __CUDA_ARCH__ >= 800
#define TILE_BLOCKS 2
#else
#define TILE_BLOCKS 1
#endif
// Fragments of 16 rows and of 8 columns in the part of a warp.
#define ROW_FRAGMENTS (WARP_PART / 16)
#define COLUMN_FRAGMENTS (WARP_PART / 8)

// Element `e` of a fragment of C is in row `lane / 4 + e / 2 * 8` and in column `lane % 4 * 2 + e % 2`.
struct Sums {
    double of[ROW_FRAGMENTS][COLUMN_FRAGMENTS][4];
};

// Adds one product to each element: column `k` of A and row `k` of B, for the rows and columns of a warp.
static __device__ __forceinline__ void add_product(const double *a, const double *b, unsigned int lane, Sums &sums)
{
    double own_a[ROW_FRAGMENTS][2], own_b[COLUMN_FRAGMENTS][2];
#pragma unroll
    for (int m = 0; m < ROW_FRAGMENTS; ++m)
#pragma unroll
        for (int h = 0; h < 2; ++h) own_a[m][h] = a[(m * 16 + h * 8 + lane / 4) * PITCH_A];
#pragma unroll
    for (int n = 0; n < COLUMN_FRAGMENTS; ++n) load<double, 2>(b + n * 8 + lane % 4 * 2, own_b[n]);
#pragma unroll
    for (int m = 0; m < ROW_FRAGMENTS; ++m)
#pragma unroll
        for (int n = 0; n < COLUMN_FRAGMENTS; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) sums.of[m][n][e] = fused(own_a[m][e / 2], own_b[n][e % 2], sums.of[m][n][e]);
}

#if !defined(ROWLOOM_EMULATED) && __CUDA_ARCH__ >= 800
// Adds four products to each element of a fragment.
static __device__ __forceinline__ void multiply_fragments(double (&sum)[4], const double (&a)[2], double b)
{
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(b));
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[0]), "+d"(sum[1])
        : "d"(a[0]), "d"(b));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[1]), "d"(b));
#endif
}

static __device__ __forceinline__ void multiply_stage(const double *a, const double *b, unsigned int lane, Sums &sums)
{
    const unsigned int group = lane / 4, part = lane % 4;
#pragma unroll
    for (int k = 0; k < TILE_DEPTH; k += 4) {
        double own_a[ROW_FRAGMENTS][2], own_b[COLUMN_FRAGMENTS];
#pragma unroll
        for (int m = 0; m < ROW_FRAGMENTS; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) own_a[m][h] = a[(m * 16 + h * 8 + group) * PITCH_A + k + part];
#pragma unroll
        for (int n = 0; n < COLUMN_FRAGMENTS; ++n) own_b[n] = b[(k + part) * PITCH_B + n * 8 + group];
#pragma unroll
        for (int m = 0; m < ROW_FRAGMENTS; ++m)
#pragma unroll
            for (int n = 0; n < COLUMN_FRAGMENTS; ++n) multiply_fragments(sums.of[m][n], own_a[m], own_b[n]);
    }
}

// Copies `bytes` of BYTES bytes to shared memory and zeros behind them, without waiting.
template <int BYTES> static __device__ __forceinline__ void copy(double *to, const double *from, unsigned int bytes)
{
    const unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(bytes));
}
static __device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
static __device__ __forceinline__ void multiply_stage(const double *a, const double *b, unsigned int lane, Sums &sums)
{
#pragma unroll 2
    for (int k = 0; k < TILE_DEPTH; ++k) add_product(a + k, b + k * PITCH_B, lane, sums);
}

template <int BYTES> static __device__ __forceinline__ void copy(double *to, const double *from, unsigned int bytes)
{
#pragma unroll
    for (int i = 0; i < BYTES / 8; ++i) to[i] = i * 8 < bytes ? from[i] : 0.0;
}
static __device__ __forceinline__ void wait_for_copies() {}
#endif

// Copies a tile of ROWS by COLUMNS elements, of which `row_count` by `column_count` are inside the matrix, in units of E elements.
template <int ROWS, int COLUMNS, int PITCH, int E>
static __device__ __forceinline__ void copy_tile(const double *from, u64 ld, unsigned int row_count, unsigned int column_count, double *to)
{
#pragma unroll
    for (int n = 0; n < ROWS * COLUMNS / E / TILE_THREADS; ++n) {
        const unsigned int at = threadIdx.x + n * TILE_THREADS, row = at / (COLUMNS / E), column = at % (COLUMNS / E) * E;
        const bool inside = row < row_count && column < column_count;
        const unsigned int count = inside ? min((unsigned int)E, column_count - column) : 0;
        copy<E * 8>(to + row * PITCH + column, inside ? from + row * ld + column : from, count * 8);
    }
}

// Copies `count` columns of the rows of A and `count` rows of the columns of B to a stage.
static __device__ __forceinline__ void copy_step(const double *a, u64 lda, unsigned int row_count, const double *b, u64 ldb,
                                                 unsigned int column_count, unsigned int count, bool wide, double *stage)
{
    double *stage_b = stage + TILE_ROWS * PITCH_A;
    if (wide) {
        copy_tile<TILE_ROWS, TILE_DEPTH, PITCH_A, 2>(a, lda, row_count, count, stage);
        copy_tile<TILE_DEPTH, TILE_COLUMNS, PITCH_B, 2>(b, ldb, count, column_count, stage_b);
    } else {
        copy_tile<TILE_ROWS, TILE_DEPTH, PITCH_A, 1>(a, lda, row_count, count, stage);
        copy_tile<TILE_DEPTH, TILE_COLUMNS, PITCH_B, 1>(b, ldb, count, column_count, stage_b);
    }
}

static __device__ __forceinline__ void multiply_by_fragments(OF_PRODUCT(double))
{
    extern __shared__ double stages[];
    constexpr int WARPS_PER_ROW = TILE_COLUMNS / WARP_PART;
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned int warp_row = warp / WARPS_PER_ROW * WARP_PART, warp_column = warp % WARPS_PER_ROW * WARP_PART;
    const u64 first_row = (u64)blockIdx.x * TILE_ROWS;
    const unsigned int row_count = (unsigned int)min((u64)TILE_ROWS, rows - first_row);
    const bool wide = is_aligned(a, lda) && is_aligned(b, ldb);
    a += first_row * lda;
    for (u64 tile = blockIdx.y; tile * TILE_COLUMNS < columns; tile += gridDim.y) {
        const u64 first_column = tile * TILE_COLUMNS;
        const unsigned int column_count = (unsigned int)min((u64)TILE_COLUMNS, columns - first_column);
        const double *own_b = b + first_column;
        Sums sums;
#pragma unroll
        for (int m = 0; m < ROW_FRAGMENTS; ++m)
#pragma unroll
            for (int n = 0; n < COLUMN_FRAGMENTS; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) sums.of[m][n][e] = 0.0;
        unsigned int count = (unsigned int)min((u64)TILE_DEPTH, depth);
        double *stage = stages, *other = stages + STAGE;
        copy_step(a, lda, row_count, own_b, ldb, column_count, count, wide, stage);
        for (u64 first = 0; first < depth;) {
            wait_for_copies();
            __syncthreads(); // this step has arrived, and the other stage has been read
            const u64 after = first + count;
            const unsigned int next = (unsigned int)min((u64)TILE_DEPTH, depth - after);
            if (next > 0) copy_step(a + after, lda, row_count, own_b + after * ldb, ldb, column_count, next, wide, other);
            const double *step_a = stage + warp_row * PITCH_A, *step_b = stage + TILE_ROWS * PITCH_A + warp_column;
            if (count == TILE_DEPTH) {
                multiply_stage(step_a, step_b, lane, sums);
            } else {
                // Products beyond the depth would change a sum of -0.
#pragma unroll 1
                for (unsigned int k = 0; k < count; ++k) add_product(step_a + k, step_b + k * PITCH_B, lane, sums);
            }
            double *read = stage;
            stage = other, other = read;
            first = after, count = next;
        }
        __syncthreads(); // both stages have been read
#pragma unroll
        for (int m = 0; m < ROW_FRAGMENTS; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const unsigned int row = warp_row + m * 16 + h * 8 + lane / 4;
                if (row >= row_count) continue;
#pragma unroll
                for (int n = 0; n < COLUMN_FRAGMENTS; ++n)
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        const unsigned int column = warp_column + n * 8 + lane % 4 * 2 + j;
                        double *to = c + (first_row + row) * ldc + first_column + column;
                        if (column < column_count)
                            *to = scaled_element(sums.of[m][n][h * 2 + j], to, number<double>(alpha), number<double>(beta));
                    }
            }
    }
}
