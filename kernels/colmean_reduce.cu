// Sums of columns, one thread per strand of rows and column: a tree in shared memory adds up the strands.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"
#include "columns.cuh"

// Columns of a block of threads.
#define WIDTH 32

template <typename T, bool DEVIATIONS> static __device__ __forceinline__ void add_columns(OF_COLUMNS(T), T *deviations)
{
    __shared__ Moments<T> partials[STRANDS * WIDTH];
    const u64 first = (u64)blockIdx.x * block_rows;
    const unsigned int count = (unsigned int)min(block_rows, rows - first), strand_rows = (unsigned int)(block_rows / STRANDS);
    const unsigned int strand = threadIdx.x / WIDTH;
    const u64 first_row = first + (u64)strand * strand_rows;
    Moments<T> *own = partials + threadIdx.x;
    for (u64 tile = blockIdx.y; tile * WIDTH < columns; tile += gridDim.y) {
        const u64 column = tile * WIDTH + threadIdx.x % WIDTH;
        Moments<T> sum[1] = {{T(0), T(0), 0}};
        if (column < columns)
            add_strand<T, DEVIATIONS, 1>(x + first_row * ldx + column, ldx, rows_of_strand(count, strand, strand_rows), 1, true, sum);
        *own = sum[0];
        for (unsigned int half = 1; half < STRANDS; half *= 2) {
            __syncthreads();
            if (strand % (2 * half) == 0) merge<T, DEVIATIONS>(*own, own[half * WIDTH]);
        }
        if (strand == 0 && column < columns) {
            sums[blockIdx.x * columns + column] = own->sum;
            if (DEVIATIONS) deviations[blockIdx.x * columns + column] = own->deviations;
        }
        __syncthreads(); // the partial results have been read
    }
}

COLUMN_ENTRIES(STRANDS *WIDTH, colmean_reduce, f64, double)
COLUMN_ENTRIES(STRANDS *WIDTH, colmean_reduce, f32, float)
