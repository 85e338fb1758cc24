// Y = A X with one warp per element of Y, A in CSR.
//
// The lanes of a warp stride over the row, then a tree in shared memory adds their sums, and lane 0 stores the element.
// Rows much shorter than a warp leave most lanes idle. The order of addition is not canonical.
//
// A launch covers `rows` rows of a larger matrix. The rows + 1 row pointers are those of the larger matrix; columns and values
// start at the first row's first nonzero. Warp w computes row w / k, column w % k.

#define THREADS 512
#define LANES 32

#include "scaling.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, const unsigned long long *__restrict__ row_pointers,                \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS rows, k, row_pointers, columns, values, x, ldx, y, ldy, alpha, beta

template <typename T> static __device__ __forceinline__ void csr_vector(PARAMETERS(T))
{
    __shared__ T partial[THREADS];
    const unsigned int lane = threadIdx.x % LANES;
    const unsigned long long element =
        (unsigned long long)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    if (element >= rows * k) return; // a whole warp returns, so no barrier below waits for it
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    const unsigned long long start = row_pointers[row] - first, end = row_pointers[row + 1] - first;
    T sum = T(0);
    for (unsigned long long at = start + lane; at < end; at += LANES) {
        sum = fused(values[at], x[columns[at] * ldx + column], sum);
    }
    partial[threadIdx.x] = sum;
    __syncwarp();
    for (unsigned int distance = LANES / 2; distance > 0; distance /= 2) {
        if (lane < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
        __syncwarp();
    }
    if (lane == 0) store_scaled(y + row * ldy + column, partial[threadIdx.x], SCALING);
}

extern "C" __global__ void __launch_bounds__(THREADS) csr_vector_f64(PARAMETERS(double)) { csr_vector(ARGUMENTS); }
extern "C" __global__ void __launch_bounds__(THREADS) csr_vector_f32(PARAMETERS(float)) { csr_vector(ARGUMENTS); }
