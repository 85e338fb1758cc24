// Y = A X with one thread per element of Y, A in padded ELLPACK.
//
// Slot s of row r is at r * width + s, so that consecutive rows are contiguous in both arrays. A row's entries come first;
// column 0xffffffff marks the padding after them, which is skipped. Thread t computes row t / k, column t % k.
//
// The order of addition is canonical: a chain of fused multiply-adds for each segment of 128 entries, the segments added
// first to last in spans of 1024, the spans added first to last. Sums of segments start at negative zero: adding any number
// to it gives this number, zeros of either sign included.

#define SEGMENT 128ull
#define SPAN 1024ull
#define THREADS 512
#define PADDING 0xffffffffu

#include "scaling.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, unsigned long long width,                                           \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS

#define ARGUMENTS rows, k, width, columns, values, x, ldx, y, ldy, alpha, beta

template <typename T> static __device__ __forceinline__ void ellpack(PARAMETERS(T))
{
    const unsigned long long element = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long start = row * width, end = start + width;
    T sum = -T(0), span = -T(0);
    bool row_goes_on = true;
    for (unsigned long long segment = start; segment < end && row_goes_on; segment += SEGMENT) {
        const unsigned long long segment_end = end - segment < SEGMENT ? end : segment + SEGMENT;
        if (segment > start && columns[segment] == PADDING) break;
        if (segment > start && (segment - start) % SPAN == 0) {
            sum += span;
            span = -T(0);
        }
        T chain = T(0);
        for (unsigned long long at = segment; at < segment_end; ++at) {
            const unsigned int from = columns[at];
            if (from == PADDING) {
                row_goes_on = false;
                break;
            }
            chain = fused(values[at], x[from * ldx + column], chain);
        }
        span += chain;
    }
    store_scaled(y + row * ldy + column, width == 0 ? T(0) : sum + span, SCALING);
}

extern "C" __global__ void __launch_bounds__(THREADS) ellpack_f64(PARAMETERS(double)) { ellpack(ARGUMENTS); }
extern "C" __global__ void __launch_bounds__(THREADS) ellpack_f32(PARAMETERS(float)) { ellpack(ARGUMENTS); }
