// Y = A X with one warp per row of Y, A in CSR, X by columns.
//
// The warp is divided into 8 sub-warps of 4 threads, which divide the row's K columns: each computes one column at a time; its
// threads stride over the row's nonzeros, and a tree in shared memory adds their sums. Adjacent threads load adjacent values
// and columns of A, and X by columns. The order of addition is not canonical.
//
// A launch covers `rows` rows of a larger matrix. The rows + 1 row pointers are those of the larger matrix; columns and values
// start at the first row's first nonzero. Element (i, j) of X is at x_transposed[j * ldx + i].

#define THREADS 512
#define WARP 32
#define SUBWARP 4

#include "scaling.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, const unsigned long long *__restrict__ row_pointers,                \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x_transposed,    \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS rows, k, row_pointers, columns, values, x_transposed, ldx, y, ldy, alpha, beta

template <typename T> static __device__ __forceinline__ void csr_vector_by_row(PARAMETERS(T))
{
    __shared__ T partial[THREADS];
    const unsigned int subwarp = threadIdx.x % WARP / SUBWARP, lane = threadIdx.x % SUBWARP;
    const unsigned long long row = (unsigned long long)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    if (row >= rows) return; // a whole warp returns, so no barrier below waits for it
    const unsigned long long first = row_pointers[0];
    const unsigned long long start = row_pointers[row] - first, end = row_pointers[row + 1] - first;
    for (unsigned long long some = 0; some < k; some += WARP / SUBWARP) {
        const unsigned long long column = some + subwarp;
        T sum = T(0);
        if (column < k) {
            for (unsigned long long at = start + lane; at < end; at += SUBWARP) {
                sum = fused(values[at], x_transposed[column * ldx + columns[at]], sum);
            }
        }
        partial[threadIdx.x] = sum;
        __syncwarp();
        for (unsigned int distance = SUBWARP / 2; distance > 0; distance /= 2) {
            if (lane < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
            __syncwarp();
        }
        if (lane == 0 && column < k) store_scaled(y + row * ldy + column, partial[threadIdx.x], SCALING);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) csr_vector_by_row_f64(PARAMETERS(double))
{
    csr_vector_by_row(ARGUMENTS);
}
extern "C" __global__ void __launch_bounds__(THREADS) csr_vector_by_row_f32(PARAMETERS(float))
{
    csr_vector_by_row(ARGUMENTS);
}
