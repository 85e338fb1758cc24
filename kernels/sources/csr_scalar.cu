// Y = A X with one thread per element of Y, A in CSR: three versions, each faster than the one before.
//
//   csr_scalar_v1  accumulates in Y in global memory
//   csr_scalar_v2  accumulates in a register and stores once
//   csr_scalar_v3  also loads the row's bounds once, before the loop
//
// A launch covers `rows` rows of a larger matrix. The rows + 1 row pointers are those of the larger matrix; columns and values
// start at the first row's first nonzero. Thread t computes row t / k, column t % k.
//
// v2 and v3 add in the canonical order: a chain of fused multiply-adds for each segment of 128 nonzeros, the segments
// added first to last in spans of 1024, the spans added first to last. v1 is one chain, which is the same for rows up to one
// segment. Sums of segments start at negative zero: adding any number to it gives this number, zeros of either sign included.

#define SEGMENT 128ull
#define SPAN 1024ull
#define THREADS 512

#include "scaling.cuh"

static __device__ __forceinline__ unsigned long long global_thread()
{
    return (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
}

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, const unsigned long long *__restrict__ row_pointers,                \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS rows, k, row_pointers, columns, values, x, ldx, y, ldy, alpha, beta

template <typename T> static __device__ __forceinline__ void csr_scalar_v1(PARAMETERS(T))
{
    const unsigned long long element = global_thread();
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    const T old = old_element(y + row * ldy + column, SCALING);
    y[row * ldy + column] = T(0);
    for (unsigned long long at = row_pointers[row] - first; at < row_pointers[row + 1] - first; ++at) {
        y[row * ldy + column] = fused(values[at], x[columns[at] * ldx + column], y[row * ldy + column]);
    }
    y[row * ldy + column] = scaled(y[row * ldy + column], old, SCALING);
}

template <typename T> static __device__ __forceinline__ void csr_scalar_v2(PARAMETERS(T))
{
    const unsigned long long element = global_thread();
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    T sum = -T(0), span = -T(0), chain = T(0);
    unsigned long long in_row = 0;
    for (unsigned long long at = row_pointers[row] - first; at < row_pointers[row + 1] - first; ++at) {
        if (in_row > 0 && in_row % SEGMENT == 0) {
            span += chain;
            chain = T(0);
            if (in_row % SPAN == 0) {
                sum += span;
                span = -T(0);
            }
        }
        chain = fused(values[at], x[columns[at] * ldx + column], chain);
        ++in_row;
    }
    store_scaled(y + row * ldy + column, sum + (span + chain), SCALING);
}

template <typename T> static __device__ __forceinline__ void csr_scalar_v3(PARAMETERS(T))
{
    const unsigned long long element = global_thread();
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    const unsigned long long start = row_pointers[row] - first, end = row_pointers[row + 1] - first;
    T sum = start < end ? -T(0) : T(0);
    for (unsigned long long first_of_span = start; first_of_span < end; first_of_span += SPAN) {
        const unsigned long long span_end = end - first_of_span < SPAN ? end : first_of_span + SPAN;
        T span = -T(0);
        for (unsigned long long segment = first_of_span; segment < span_end; segment += SEGMENT) {
            const unsigned long long segment_end = span_end - segment < SEGMENT ? span_end : segment + SEGMENT;
            T chain = T(0);
            for (unsigned long long at = segment; at < segment_end; ++at) {
                chain = fused(values[at], x[columns[at] * ldx + column], chain);
            }
            span += chain;
        }
        sum += span;
    }
    store_scaled(y + row * ldy + column, sum, SCALING);
}

#define ENTRIES(name)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_f64(PARAMETERS(double)) { name(ARGUMENTS); }          \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_f32(PARAMETERS(float)) { name(ARGUMENTS); }

ENTRIES(csr_scalar_v1)
ENTRIES(csr_scalar_v2)
ENTRIES(csr_scalar_v3)
