// Y = A X with lanes over the columns of X, A by compressed rows, in canonical order whatever the length of a row.
//
// An item is a whole row of up to 256 nonzeros or one segment of a longer one, as in csr_pieces.cu with pieces of 256:
//
//   begin_and_rows  first nonzero, counted from the first of the launch, in the low 48 bits
//   length          nonzeros; bit 31 marks a segment of a cut row
//   row             the row, or the number of the cut
//
// L lanes add an item up as one chain of fused multiply-adds. Since nothing may be added out of turn, what hides the way to
// memory is DEPTH: so many rows of X are on their way at once. The segment that is finished last adds all of its row, first
// to last: the canonical order for any depth.

// fast: no spills
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 DEPTH=16
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=2 DEPTH=8
// exact: EXACT_K=64 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=4 DEPTH=4
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 DEPTH=16
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2 DEPTH=8
// exact: EXACT_K=64 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=4 DEPTH=4

#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long items, unsigned long long k, const uint4 *__restrict__ list,                                    \
        const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts,                                        \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, T *scratch, unsigned int *counters

#define ARGUMENTS items, k, list, parts, cuts, columns, values, x, ldx, y, ldy, scratch, counters

// D entries of A from `at` on, as far as there are some.
template <typename T, int D>
static __device__ __forceinline__ void load_deep(const unsigned int *__restrict__ columns, const T *__restrict__ values,
                                                 unsigned int at, unsigned int length, unsigned int (&from)[D],
                                                 T (&factors)[D])
{
#pragma unroll
    for (int quad = 0; quad < D; quad += 4)
        load_entries<T, true, false>(columns, values, at + quad, length, PLENTY, from + quad, factors + quad);
}

// The sums of `count` entries of A times their rows of X, in the order of the entries, D of them at a time.
template <typename T, int E, int L, int V, int D>
static __device__ __forceinline__ void deep_chain(unsigned long long begin, unsigned int count,
                                                  const unsigned int *__restrict__ columns,
                                                  const T *__restrict__ values, const T *__restrict__ x,
                                                  unsigned int ldx, unsigned int column, unsigned int k, T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    const unsigned int skip = (unsigned int)(begin & 3), length = count + skip;
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    columns += begin - skip;
    values += begin - skip;
    unsigned int from[D];
    T factors[D];
    load_deep<T, D>(columns, values, 0, length, from, factors);
    for (unsigned int at = 0; at < length; at += D) {
        T part[D][V][E], now[D];
#pragma unroll
        for (int j = 0; j < D; ++j) {
            // One comparison: places before the first entry wrap around.
            if (at + j - skip < count)
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        // The next entries are on their way before the sums wait for X.
        load_deep<T, D>(columns, values, at + D, length, from, factors);
#pragma unroll
        for (int j = 0; j < D; ++j)
            if (at + j - skip < count) multiply_add<T, E, V>(now[j], part[j], sums);
    }
}

template <typename T, int E, int L, int V, int D> static __device__ __forceinline__ void csr_segments(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned long long item = (unsigned long long)blockIdx.x * (blockDim.x / L) + threadIdx.x / L;
    if (item >= items) return;
    const uint4 about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    T sums[V][E];
    deep_chain<T, E, L, V, D>(begin, about.z & ~CUT, columns, values, x, pitch, column, width, sums);
    // As many parts at once as rows of X: registers for more would be missing in the chain.
    if (about.z & CUT)
        finish_part<T, E, L, V, D>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch,
                                   scratch, counters);
    else
        store_row<T, E, L, V>(y + (unsigned long long)about.w * y_pitch, column, width, sums);
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    csr_segments<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, DEPTH>(ARGUMENTS);
}
#else
#define SEGMENTS(type, T, B, L, V, D)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) csr_segments_##type##_b##B##l##L##v##V##d##D(PARAMETERS(T))      \
    {                                                                                                                  \
        csr_segments<T, B / sizeof(T), L, V, D>(ARGUMENTS);                                                            \
    }
#define FORMS(type, T)                                                                                                 \
    SEGMENTS(type, T, 8, 1, 1, 8) SEGMENTS(type, T, 16, 1, 1, 8) SEGMENTS(type, T, 16, 2, 1, 8)                          \
    SEGMENTS(type, T, 16, 4, 1, 4) SEGMENTS(type, T, 16, 4, 1, 8) SEGMENTS(type, T, 16, 4, 1, 16)                        \
    SEGMENTS(type, T, 16, 4, 2, 8) SEGMENTS(type, T, 16, 8, 2, 8) SEGMENTS(type, T, 16, 8, 4, 4)                         \
    SEGMENTS(type, T, 16, 16, 4, 4)
FORMS(f64, double)
SEGMENTS(f32, float, 4, 1, 1, 8) FORMS(f32, float)
#endif
