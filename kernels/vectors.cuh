// Common code of the operations on multivectors, after packs.cuh. The build replaces the #include line by this text.
//
// A kernel computes exactly `columns` columns and does not access the padding between them and the pitch. A caller that wants
// padding written passes the pitch as the number of columns. Vectors of 16 bytes are used if addresses, pitches and
// columns allow it.

typedef unsigned long long u64;

static __device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
static __device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }

template <typename T, int E> static __device__ __forceinline__ void load(const T *from, T *to)
{
    unpack(*(const typename Pack<T, E>::Raw *)from, to);
}

template <typename T, int E> static __device__ __forceinline__ void store(T *to, const T *from)
{
    typename Pack<T, E>::Raw raw;
    pack(from, raw);
    *(typename Pack<T, E>::Raw *)to = raw;
}

template <typename T> static __device__ __forceinline__ T number(u64 bits)
{
    return (T)__longlong_as_double((long long)bits);
}

// Elements of a vector of 16 bytes.
#define WIDE(T) (16 / (int)sizeof(T))

template <typename T> static __device__ __forceinline__ bool is_aligned(const T *rows, u64 ld)
{
    return ((u64)rows | ld * sizeof(T)) % 16 == 0;
}

// Loads COUNT elements of WIDTH columns into the registers of G threads; elements outside the multivector are zero.
template <typename T, int WIDTH, int COUNT, int G>
static __device__ __forceinline__ void load_tile(const T *rows, u64 ld, unsigned int row_count, unsigned int column,
                                                 unsigned int columns, bool wide, unsigned int thread, T (&to)[COUNT / G])
{
    constexpr int E = WIDE(T);
#pragma unroll
    for (int n = 0; n < COUNT / G / E; ++n) {
        const unsigned int at = thread + n * G, row = at / (WIDTH / E), c = column + at % (WIDTH / E) * E;
        T *own = to + n * E;
#pragma unroll
        for (int i = 0; i < E; ++i) own[i] = T(0);
        if (row < row_count) {
            const T *from = rows + row * ld + c;
            if (wide && c + E <= columns) {
                load<T, E>(from, own);
            } else {
#pragma unroll
                for (int i = 0; i < E; ++i)
                    if (c + i < columns) own[i] = from[i];
            }
        }
    }
}

#define OF_X(T) const T *__restrict__ x, u64 ldx
#define OF_Y(T) T *__restrict__ y, u64 ldy
#define ENTRY(threads, name) extern "C" __global__ void __launch_bounds__(threads) name
