// Sums of columns, one thread per column of a block of rows: a loop over the rows.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"
#include "columns.cuh"

#define THREADS 128

template <typename T, bool DEVIATIONS> static __device__ __forceinline__ void add_columns(OF_COLUMNS(T), T *deviations)
{
    const u64 first = (u64)blockIdx.x * block_rows;
    const unsigned int count = (unsigned int)min(block_rows, rows - first), strand_rows = (unsigned int)(block_rows / STRANDS);
    for (u64 column = (u64)blockIdx.y * THREADS + threadIdx.x; column < columns; column += (u64)gridDim.y * THREADS) {
        // The sums of 1, 2 and 4 strands that wait for the strands after them.
        Moments<T> one = {T(0), T(0), 0}, two = one, four = one, own[1];
#pragma unroll 1
        for (unsigned int strand = 0; strand < STRANDS; ++strand) {
            const unsigned int strand_count = rows_of_strand(count, strand, strand_rows);
            add_strand<T, DEVIATIONS, 1>(x + (first + (u64)strand * strand_rows) * ldx + column, ldx, strand_count, 1, true, own);
            if (strand % 2 == 0) {
                one = own[0];
                continue;
            }
            merge<T, DEVIATIONS>(one, own[0]);
            if (strand % 4 == 1) {
                two = one;
                continue;
            }
            merge<T, DEVIATIONS>(two, one);
            if (strand == 3)
                four = two;
            else
                merge<T, DEVIATIONS>(four, two);
        }
        sums[blockIdx.x * columns + column] = four.sum;
        if (DEVIATIONS) deviations[blockIdx.x * columns + column] = four.deviations;
    }
}

COLUMN_ENTRIES(THREADS, colmean_loop, f64, double)
COLUMN_ENTRIES(THREADS, colmean_loop, f32, float)
