// Sums of columns, one warp per 64 bytes of columns of a block of rows: 4 lanes hold 16 bytes each of the 8 strands' rows, every lane
// has the loads of a group in flight, and shuffles add up the strands.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"
#include "columns.cuh"

// Warps of a block of threads, and lanes of a strand.
#define WARPS 4
#define LANES (32 / STRANDS)

template <typename T, bool DEVIATIONS> static __device__ __forceinline__ void add_columns(OF_COLUMNS(T), T *deviations)
{
    constexpr int E = WIDE(T);
    const u64 first = (u64)blockIdx.x * block_rows;
    const unsigned int count = (unsigned int)min(block_rows, rows - first), strand_rows = (unsigned int)(block_rows / STRANDS);
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32, strand = lane / LANES;
    const u64 first_row = first + (u64)strand * strand_rows;
    const bool wide = is_aligned(x, ldx);
    const u64 width = LANES * E, step = (u64)gridDim.y * WARPS * width;
    for (u64 tile = ((u64)blockIdx.y * WARPS + warp) * width; tile < columns; tile += step) {
        const u64 column = tile + lane % LANES * E;
        const unsigned int inside = (unsigned int)min((u64)E, columns - min(columns, column));
        Moments<T> own[E];
        add_strand<T, DEVIATIONS, E>(x + first_row * ldx + column, ldx, inside > 0 ? rows_of_strand(count, strand, strand_rows) : 0,
                                     inside, wide, own);
#pragma unroll
        for (unsigned int half = 1; half < STRANDS; half *= 2)
#pragma unroll
            for (int c = 0; c < E; ++c) {
                Moments<T> next = {__shfl_down_sync(0xffffffffu, own[c].sum, half * LANES), T(0),
                                   __shfl_down_sync(0xffffffffu, own[c].rows, half * LANES)};
                if (DEVIATIONS) next.deviations = __shfl_down_sync(0xffffffffu, own[c].deviations, half * LANES);
                if (strand % (2 * half) == 0) merge<T, DEVIATIONS>(own[c], next);
            }
        if (strand == 0) {
#pragma unroll
            for (int c = 0; c < E; ++c)
                if (c < inside) {
                    sums[blockIdx.x * columns + column + c] = own[c].sum;
                    if (DEVIATIONS) deviations[blockIdx.x * columns + column + c] = own[c].deviations;
                }
        }
    }
}

COLUMN_ENTRIES(32 * WARPS, colmean_warp, f64, double)
COLUMN_ENTRIES(32 * WARPS, colmean_warp, f32, float)
