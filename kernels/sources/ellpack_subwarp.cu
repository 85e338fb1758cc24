// Y = A X with a sub-warp per element of Y, A in padded ELLPACK.
//
// The warp is divided into sub-warps of `ways` threads: 2, 4, 8, 16 or 32. The threads of a sub-warp stride over the row, a
// tree in shared memory adds their sums, and the first thread stores the element. The order of addition is not canonical.
//
// Slot s of row r is at r * width + s. A row's entries come first; column 0xffffffff marks the padding after them, which is
// skipped. Sub-warp s computes row s / k, column s % k.

#define THREADS 512
#define PADDING 0xffffffffu

#include "scaling.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, unsigned long long width,                                           \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS rows, k, width, columns, values, x, ldx, y, ldy, alpha, beta

template <unsigned int ways, typename T> static __device__ __forceinline__ void ellpack_subwarp(PARAMETERS(T))
{
    __shared__ T partial[THREADS];
    const unsigned int lane = threadIdx.x % ways;
    const unsigned long long element = (unsigned long long)blockIdx.x * (THREADS / ways) + threadIdx.x / ways;
    const bool inside = element < rows * k; // sub-warps outside do not return, since the barriers below need the whole warp
    const unsigned long long row = inside ? element / k : 0, column = inside ? element % k : 0;
    T sum = T(0);
    if (inside) {
        const unsigned long long end = (row + 1) * width;
        for (unsigned long long at = row * width + lane; at < end; at += ways) {
            const unsigned int from = columns[at];
            if (from == PADDING) break;
            sum = fused(values[at], x[from * ldx + column], sum);
        }
    }
    partial[threadIdx.x] = sum;
    __syncwarp();
    for (unsigned int distance = ways / 2; distance > 0; distance /= 2) {
        if (lane < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
        __syncwarp();
    }
    if (inside && lane == 0) store_scaled(y + row * ldy + column, partial[threadIdx.x], SCALING);
}

#define ENTRIES(ways)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) ellpack_subwarp_f64_w##ways(PARAMETERS(double))              \
    {                                                                                                                  \
        ellpack_subwarp<ways>(ARGUMENTS);                                                                              \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) ellpack_subwarp_f32_w##ways(PARAMETERS(float))               \
    {                                                                                                                  \
        ellpack_subwarp<ways>(ARGUMENTS);                                                                              \
    }

ENTRIES(2)
ENTRIES(4)
ENTRIES(8)
ENTRIES(16)
ENTRIES(32)
