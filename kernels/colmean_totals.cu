// Adds up the partial results of the blocks of a matrix, from its first block on, one thread per column, in the order and precision of
// `Totals::add_blocks` (src/kernel/colmean/totals.rs). `partials` has the sums of all blocks, then their squared deviations.
//
// The results are in double precision. They replace the first partial results: the sums of all columns, then the deviations. In single
// precision a result takes the place of two numbers of its column, which hold its high and its low word.

// fast: no spills
#include "packs.cuh"
#include "vectors.cuh"

#define THREADS 64

// Stores result `part` of the column at `column`.
static __device__ __forceinline__ void store_result(double *column, u64 columns, u64 part, double value) { column[part * columns] = value; }
static __device__ __forceinline__ void store_result(float *column, u64 columns, u64 part, double value)
{
    column[2 * part * columns] = __int_as_float(__double2hiint(value));
    column[(2 * part + 1) * columns] = __int_as_float(__double2loint(value));
}

template <typename T, bool DEVIATIONS> static __device__ __forceinline__ void add_blocks(u64 rows, u64 columns, u64 block_rows, T *partials)
{
    const u64 blocks = (rows + block_rows - 1) / block_rows, column = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (column >= columns) return;
    // A thread reads and writes its own column only.
    T *own = partials + column;
    double sum = 0, deviations = 0;
#pragma unroll 8
    for (u64 block = 0; block < blocks; ++block) {
        const double more = own[block * columns];
        if (DEVIATIONS) {
            const double more_deviations = own[(blocks + block) * columns];
            const u64 before = block * block_rows, here = min(block_rows, rows - before);
            if (before > 0) {
                const double weight = (double)before / (double)(before + here) * (double)here;
                const double difference = more * (1.0 / (double)here) - sum * (1.0 / (double)before);
                deviations = fused(difference * difference, weight, deviations + more_deviations);
            } else {
                deviations = more_deviations;
            }
        }
        sum += more;
    }
    store_result(own, columns, 0, sum);
    if (DEVIATIONS) store_result(own, columns, 1, deviations);
}

#define TOTALS_ENTRIES(type, T)                                                                                        \
    ENTRY(THREADS, colmean_totals_##type)(u64 rows, u64 columns, u64 block_rows, T *partials)                          \
    {                                                                                                                  \
        add_blocks<T, false>(rows, columns, block_rows, partials);                                                     \
    }                                                                                                                  \
    ENTRY(THREADS, colmean_totals_deviations_##type)(u64 rows, u64 columns, u64 block_rows, T *partials)               \
    {                                                                                                                  \
        add_blocks<T, true>(rows, columns, block_rows, partials);                                                      \
    }

TOTALS_ENTRIES(f64, double)
TOTALS_ENTRIES(f32, float)
