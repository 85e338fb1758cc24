// Y = A X with one thread block per row block and column of Y, A in CSR, X by columns.
//
// Rows are grouped into row blocks with a limited number of nonzeros, which balances the load of thread blocks. For a row block
// with several rows, the threads write all products to shared memory, then each thread adds up some of the rows. For a row
// block of one row, which may be long, all threads stride over the row, and a tree adds their sums. The order of addition is
// not canonical.
//
// A launch covers `items` row blocks of a larger matrix. Block b has the rows from row_blocks[b] up to row_blocks[b + 1], and at
// most 1024 nonzeros if it has several rows. Row pointers are those of the larger matrix; columns and values start at the first
// row's first nonzero. Element (i, j) of X is at x_transposed[j * ldx + i]. Thread block t computes
// row block t / k, column t % k.

#define THREADS 128
#define MOST_NONZEROS 1024

#include "scaling.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long k, const unsigned long long *__restrict__ row_blocks,                                           \
        const unsigned long long *__restrict__ row_pointers, const unsigned int *__restrict__ columns,                 \
        const T *__restrict__ values, const T *__restrict__ x_transposed, unsigned long long ldx, T *__restrict__ y,   \
        unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS k, row_blocks, row_pointers, columns, values, x_transposed, ldx, y, ldy, alpha, beta

template <typename T> static __device__ __forceinline__ void csr_adaptive(PARAMETERS(T))
{
    __shared__ T shared[MOST_NONZEROS];
    const unsigned long long block = blockIdx.x / k, column = blockIdx.x % k;
    const unsigned long long first_row = row_blocks[block], end_row = row_blocks[block + 1];
    const unsigned long long first = row_pointers[0];
    const unsigned long long start = row_pointers[first_row] - first, end = row_pointers[end_row] - first;
    const T *__restrict__ from = x_transposed + column * ldx;
    if (end_row - first_row > 1) {
        for (unsigned long long at = start + threadIdx.x; at < end; at += THREADS) {
            shared[at - start] = values[at] * from[columns[at]];
        }
        __syncthreads();
        for (unsigned long long row = first_row + threadIdx.x; row < end_row; row += THREADS) {
            const unsigned long long row_end = row_pointers[row + 1] - first - start;
            T sum = T(0);
            for (unsigned long long at = row_pointers[row] - first - start; at < row_end; ++at) sum += shared[at];
            store_scaled(y + row * ldy + column, sum, SCALING);
        }
    } else {
        T sum = T(0);
        for (unsigned long long at = start + threadIdx.x; at < end; at += THREADS) {
            sum = fused(values[at], from[columns[at]], sum);
        }
        shared[threadIdx.x] = sum;
        __syncthreads();
        for (unsigned int distance = THREADS / 2; distance > 0; distance /= 2) {
            if (threadIdx.x < distance) shared[threadIdx.x] += shared[threadIdx.x + distance];
            __syncthreads();
        }
        if (threadIdx.x == 0) store_scaled(y + first_row * ldy + column, shared[0], SCALING);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) csr_adaptive_f64(PARAMETERS(double)) { csr_adaptive(ARGUMENTS); }
extern "C" __global__ void __launch_bounds__(THREADS) csr_adaptive_f32(PARAMETERS(float)) { csr_adaptive(ARGUMENTS); }
