// C = alpha A B + beta C, one thread per element of C: a row of A times a column of B straight from global memory.

#include "packs.cuh"
#include "vectors.cuh"
#include "gemm.cuh"

// Rows and columns of C that a block of threads computes.
#define BLOCK_ROWS 8
#define BLOCK_COLUMNS 32

template <typename T> static __device__ __forceinline__ void multiply(OF_PRODUCT(T))
{
    const u64 row = (u64)blockIdx.x * BLOCK_ROWS + threadIdx.x / BLOCK_COLUMNS;
    if (row >= rows) return;
    const u64 step = (u64)gridDim.y * BLOCK_COLUMNS;
    for (u64 column = blockIdx.y * BLOCK_COLUMNS + threadIdx.x % BLOCK_COLUMNS; column < columns; column += step) {
        T sum = T(0);
        for (u64 k = 0; k < depth; ++k) sum = fused(a[row * lda + k], b[k * ldb + column], sum);
        T *to = c + row * ldc + column;
        *to = scaled_element(sum, to, number<T>(alpha), number<T>(beta));
    }
}

ENTRY(BLOCK_ROWS *BLOCK_COLUMNS, gemm_naive_f64)(OF_PRODUCT(double)) { multiply<double>(PRODUCT); }
ENTRY(BLOCK_ROWS *BLOCK_COLUMNS, gemm_naive_f32)(OF_PRODUCT(float)) { multiply<float>(PRODUCT); }
