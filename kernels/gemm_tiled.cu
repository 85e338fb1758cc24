// C = alpha A B + beta C, one thread per element of C: tiles of A and B of TILE by TILE elements go through shared memory.

#include "packs.cuh"
#include "vectors.cuh"
#include "gemm.cuh"

template <typename T, int TILE> static __device__ __forceinline__ void multiply(OF_PRODUCT(T))
{
    __shared__ T as[TILE * TILE];
    __shared__ T bs[TILE * TILE];
    const unsigned int i = threadIdx.x / TILE, j = threadIdx.x % TILE;
    const u64 row = (u64)blockIdx.x * TILE + i;
    for (u64 tile = blockIdx.y; tile * TILE < columns; tile += gridDim.y) {
        const u64 column = tile * TILE + j;
        T sum = T(0);
        for (u64 first = 0; first < depth; first += TILE) {
            as[threadIdx.x] = row < rows && first + j < depth ? a[row * lda + first + j] : T(0);
            bs[threadIdx.x] = column < columns && first + i < depth ? b[(first + i) * ldb + column] : T(0);
            __syncthreads();
            if (depth - first >= TILE) {
#pragma unroll
                for (int k = 0; k < TILE; ++k) sum = fused(as[i * TILE + k], bs[k * TILE + j], sum);
            } else {
                // Products beyond the depth would change a sum of -0.
                const int count = (int)(depth - first);
                for (int k = 0; k < count; ++k) sum = fused(as[i * TILE + k], bs[k * TILE + j], sum);
            }
            __syncthreads(); // the tiles have been read
        }
        if (row < rows && column < columns) {
            T *to = c + row * ldc + column;
            *to = scaled_element(sum, to, number<T>(alpha), number<T>(beta));
        }
    }
}

#define TILED(tile)                                                                                                    \
    ENTRY(tile *tile, gemm_tiled_t##tile##_f64)(OF_PRODUCT(double)) { multiply<double, tile>(PRODUCT); }               \
    ENTRY(tile *tile, gemm_tiled_t##tile##_f32)(OF_PRODUCT(float)) { multiply<float, tile>(PRODUCT); }

TILED(8)
TILED(16)
TILED(32)
