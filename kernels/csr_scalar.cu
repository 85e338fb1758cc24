// Y = A X with one thread for each element of Y, A by compressed rows: three versions, each a step faster.
//
//   csr_scalar_v1  adds into Y in global memory at every step
//   csr_scalar_v2  adds in a register and stores once
//   csr_scalar_v3  also reads where the row starts and ends once, before the loop
//
// A launch covers `rows` rows of a larger matrix. Their rows + 1 row pointers count from that matrix's start; columns and
// values begin at the first row's first nonzero. Thread t computes row t / k, column t % k.
//
// v2 and v3 add in the canonical order: a chain of fused multiply-adds for each segment of 128 nonzeros, the segments
// added first to last. v1 is one chain, which is the same for rows up to one segment.

#define SEGMENT 128ull
#define THREADS 512

static __device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
static __device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }

static __device__ __forceinline__ unsigned long long global_thread()
{
    return (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
}

#define PARAMETERS(T)                                                                                                  \
    unsigned long long rows, unsigned long long k, const unsigned long long *__restrict__ row_pointers,                \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy

#define ARGUMENTS rows, k, row_pointers, columns, values, x, ldx, y, ldy

template <typename T> static __device__ __forceinline__ void csr_scalar_v1(PARAMETERS(T))
{
    const unsigned long long element = global_thread();
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    y[row * ldy + column] = T(0);
    for (unsigned long long at = row_pointers[row] - first; at < row_pointers[row + 1] - first; ++at) {
        y[row * ldy + column] = fused(values[at], x[columns[at] * ldx + column], y[row * ldy + column]);
    }
}

template <typename T> static __device__ __forceinline__ void csr_scalar_v2(PARAMETERS(T))
{
    const unsigned long long element = global_thread();
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    T sum = T(0), chain = T(0);
    unsigned long long in_segment = 0;
    bool later_segment = false;
    for (unsigned long long at = row_pointers[row] - first; at < row_pointers[row + 1] - first; ++at) {
        if (in_segment == SEGMENT) {
            sum = later_segment ? sum + chain : chain;
            later_segment = true;
            chain = T(0);
            in_segment = 0;
        }
        chain = fused(values[at], x[columns[at] * ldx + column], chain);
        ++in_segment;
    }
    y[row * ldy + column] = later_segment ? sum + chain : chain;
}

template <typename T> static __device__ __forceinline__ void csr_scalar_v3(PARAMETERS(T))
{
    const unsigned long long element = global_thread();
    if (element >= rows * k) return;
    const unsigned long long row = element / k, column = element % k;
    const unsigned long long first = row_pointers[0];
    const unsigned long long start = row_pointers[row] - first, end = row_pointers[row + 1] - first;
    T sum = T(0);
    for (unsigned long long segment = start; segment < end; segment += SEGMENT) {
        const unsigned long long segment_end = end - segment < SEGMENT ? end : segment + SEGMENT;
        T chain = T(0);
        for (unsigned long long at = segment; at < segment_end; ++at) {
            chain = fused(values[at], x[columns[at] * ldx + column], chain);
        }
        sum = segment == start ? chain : sum + chain;
    }
    y[row * ldy + column] = sum;
}

#define ENTRIES(name)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_f64(PARAMETERS(double)) { name(ARGUMENTS); }          \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_f32(PARAMETERS(float)) { name(ARGUMENTS); }

ENTRIES(csr_scalar_v1)
ENTRIES(csr_scalar_v2)
ENTRIES(csr_scalar_v3)
