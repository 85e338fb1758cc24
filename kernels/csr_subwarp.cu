// Y = A X with lanes over the columns of X: L lanes a row of A by compressed rows.
//
//   csr_subwarp  one way: a row is a chain of fused multiply-adds, or, beyond 256 nonzeros, the sum of its segments' chains,
//                first to last; the canonical order
//   csr_ways     W ways share a row's nonzeros and a tree adds their sums; for few or long rows and small K
//
// A launch covers `rows` rows of a larger matrix. Their rows + 1 row pointers count from that matrix's start; columns and
// values begin at the first row's first nonzero.

// fast: no spills

#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, const unsigned long long *__restrict__ row_pointers,                \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy

#define ARGUMENTS rows, k, row_pointers, columns, values, x, ldx, y, ldy

template <typename T, int E, int L, int V, int W> static __device__ __forceinline__ void csr_subwarp(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % (L * W), way = lane / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane % L * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned long long row = (unsigned long long)blockIdx.x * (blockDim.x / (L * W)) + threadIdx.x / (L * W);
    unsigned long long begin = 0, count = 0, behind = 0;
    if (row < rows) {
        begin = __ldg(row_pointers + row);
        count = __ldg(row_pointers + row + 1) - begin;
        behind = __ldg(row_pointers + rows) - begin;
        begin -= __ldg(row_pointers);
    }
    // The arrays end with the last row's entries.
    const unsigned int readable = behind < PLENTY ? (unsigned int)behind : PLENTY;
    const unsigned int pitch = PITCH_OF(T, ldx);
    T sums[V][E];
    if (W == 1 && count <= 4) {
        short_chain<T, E, L, V>(begin, (unsigned int)count, columns, values, x, pitch, column, width, sums);
    } else if (W > 1 || count <= SEGMENT) {
        chain<T, E, L, V, W, false>(begin, (unsigned int)count, readable, columns, values, x, pitch, column, width, way, sums);
    } else {
        T segment[V][E];
        for (unsigned long long at = 0; at < count; at += SEGMENT) {
            const unsigned int length = count - at < SEGMENT ? (unsigned int)(count - at) : SEGMENT;
            const unsigned int left = behind - at < PLENTY ? (unsigned int)(behind - at) : PLENTY;
            chain<T, E, L, V, W, false>(begin + at, length, left, columns, values, x, pitch, column, width, way, segment);
#pragma unroll
            for (int v = 0; v < V; ++v)
#pragma unroll
                for (int i = 0; i < E; ++i) sums[v][i] = at == 0 ? segment[v][i] : sums[v][i] + segment[v][i];
        }
    }
    if (W > 1) add_ways<T, E, L, V, W>(sums);
    if (row < rows && way == 0) store_row<T, E, L, V>(y + row * PITCH_OF(T, ldy), column, width, sums);
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    csr_subwarp<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, WAYS>(ARGUMENTS);
}
#else
#define SUBWARP(type, T, B, L, V)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256) csr_subwarp_##type##_b##B##l##L##v##V(PARAMETERS(T))             \
    {                                                                                                                  \
        csr_subwarp<T, B / sizeof(T), L, V, 1>(ARGUMENTS);                                                             \
    }
#define WAYS_FORM(type, T, B, L, V, W)                                                                                 \
    extern "C" __global__ void __launch_bounds__(256) csr_ways_##type##_b##B##l##L##v##V##w##W(PARAMETERS(T))          \
    {                                                                                                                  \
        csr_subwarp<T, B / sizeof(T), L, V, W>(ARGUMENTS);                                                             \
    }
SUBWARP(f64, double, 8, 1, 1) LADDER(SUBWARP, f64, double)
SUBWARP(f32, float, 4, 1, 1) SUBWARP(f32, float, 8, 1, 1) LADDER(SUBWARP, f32, float)
WAYS_FORM(f64, double, 8, 1, 1, 8) WAYS_LADDER(WAYS_FORM, f64, double)
WAYS_FORM(f32, float, 4, 1, 1, 8) WAYS_FORM(f32, float, 8, 1, 1, 8) WAYS_LADDER(WAYS_FORM, f32, float)
#endif
