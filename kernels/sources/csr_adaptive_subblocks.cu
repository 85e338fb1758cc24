// Y = A X with one thread block per row block, for all columns of Y, A in CSR, X by columns.
//
// As csr_adaptive, but the thread block is divided into 4 sub-blocks of 128 threads that divide the K columns; each computes one
// column at a time. If the row block has several rows, a sub-block writes its products to its own part of shared memory; if it
// has one row, the threads stride over it and a tree adds their sums. A's row block is then read from the L1 cache for all
// columns but the first. The order of addition is not canonical.
//
// A launch covers rows of a larger matrix. Block b has the rows from row_blocks[b] up to row_blocks[b + 1], and at most 1024
// nonzeros if it has several rows. Row pointers are those of the larger matrix; columns and values start at the first row's
// first nonzero. Element (i, j) of X is at x_transposed[j * ldx + i].

#define THREADS 512
#define SUBBLOCK 128
#define SUBBLOCKS (THREADS / SUBBLOCK)
#define MOST_NONZEROS 1024

#include "scaling.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long k, const unsigned long long *__restrict__ row_blocks,                                           \
        const unsigned long long *__restrict__ row_pointers, const unsigned int *__restrict__ columns,                 \
        const T *__restrict__ values, const T *__restrict__ x_transposed, unsigned long long ldx, T *__restrict__ y,   \
        unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS k, row_blocks, row_pointers, columns, values, x_transposed, ldx, y, ldy, alpha, beta

template <typename T> static __device__ __forceinline__ void csr_adaptive_subblocks(PARAMETERS(T))
{
    __shared__ T all_shared[SUBBLOCKS][MOST_NONZEROS];
    const unsigned int subblock = threadIdx.x / SUBBLOCK, thread = threadIdx.x % SUBBLOCK;
    T *shared = all_shared[subblock];
    const unsigned long long first_row = row_blocks[blockIdx.x], end_row = row_blocks[blockIdx.x + 1];
    const unsigned long long first = row_pointers[0];
    const unsigned long long start = row_pointers[first_row] - first, end = row_pointers[end_row] - first;
    const bool several = end_row - first_row > 1;
    // All sub-blocks execute the same steps, since the barriers need the whole block; some have no column in the last round.
    for (unsigned long long some = 0; some < k; some += SUBBLOCKS) {
        const unsigned long long column = some + subblock;
        const bool inside = column < k;
        const T *__restrict__ from = x_transposed + (inside ? column * ldx : 0);
        if (several) {
            for (unsigned long long at = start + thread; inside && at < end; at += SUBBLOCK) {
                shared[at - start] = values[at] * from[columns[at]];
            }
            __syncthreads();
            for (unsigned long long row = first_row + thread; inside && row < end_row; row += SUBBLOCK) {
                const unsigned long long row_end = row_pointers[row + 1] - first - start;
                T sum = T(0);
                for (unsigned long long at = row_pointers[row] - first - start; at < row_end; ++at) sum += shared[at];
                store_scaled(y + row * ldy + column, sum, SCALING);
            }
            __syncthreads();
        } else {
            T sum = T(0);
            for (unsigned long long at = start + thread; inside && at < end; at += SUBBLOCK) {
                sum = fused(values[at], from[columns[at]], sum);
            }
            shared[thread] = sum;
            __syncthreads();
            for (unsigned int distance = SUBBLOCK / 2; distance > 0; distance /= 2) {
                if (thread < distance) shared[thread] += shared[thread + distance];
                __syncthreads();
            }
            if (inside && thread == 0) store_scaled(y + first_row * ldy + column, shared[0], SCALING);
            __syncthreads();
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) csr_adaptive_subblocks_f64(PARAMETERS(double))
{
    csr_adaptive_subblocks(ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(THREADS) csr_adaptive_subblocks_f32(PARAMETERS(float))
{
    csr_adaptive_subblocks(ARGUMENTS);
}
