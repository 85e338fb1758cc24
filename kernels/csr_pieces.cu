// Y = A X with lanes over the columns of X, A in CSR with a list of work items.
//
// An item is a whole row, or a part of a long row:
//
//   begin_and_rows  first nonzero, relative to the first of the launch, in the low 48 bits
//   length          nonzeros; bit 31 marks a part of a cut row
//   row             the row, or the index of the cut
//
// The first `heavy` items get a warp each, with W = 32 / L ways; the others get L * W lanes. A cut has a row, its first slot in
// `scratch` and the number of its parts; `parts` has the index of each item's part. The group of lanes that finishes the last
// part adds all parts in a fixed order, so that every run gives the same result.

// fast: no spills

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define PIECE_PARAMETERS(T)                                                                                            \
    unsigned long long items, unsigned long long k, const uint4 *__restrict__ list,                                    \
        const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts,                                        \
        const unsigned int *__restrict__ columns, const T *__restrict__ values, const T *__restrict__ x,               \
        unsigned long long ldx, T *__restrict__ y, unsigned long long ldy, SCALING_PARAMETERS, T *scratch,             \
        unsigned int *counters

#define PIECE_ARGUMENTS items, k, list, parts, cuts, columns, values, x, ldx, y, ldy, alpha, beta, scratch, counters

#define PARAMETERS(T) unsigned long long heavy, PIECE_PARAMETERS(T)
#define ARGUMENTS heavy, PIECE_ARGUMENTS

template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void piece(unsigned long long item, PIECE_PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % (L * W), way = lane / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane % L * E, width = COLUMNS_OF(T, k, ldx);
    const bool is_there = item < items;
    uint4 about = make_uint4(0, 0, 0, 0);
    if (is_there) about = __ldg(list + item);
    const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
    T sums[V][E];
    chain<T, E, L, V, W, IS_EXACT>(begin, about.z & ~CUT, PLENTY, columns, values, x, PITCH_OF(T, ldx), column, width, way, sums);
    if (W > 1) add_ways<T, E, L, V, W>(sums);
    if (!is_there) return;
    if (about.z & CUT) {
        finish_part_by_ways<T, E, L, V, W>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y,
                                           PITCH_OF(T, ldy), SCALING, scratch, counters);
    } else if (way == 0) {
        store_result<T, E, L, V>(y + (unsigned long long)about.w * PITCH_OF(T, ldy), column, width, SCALING, sums);
    }
}

template <typename T, int E, int L, int V, int W> static __device__ __forceinline__ void csr_pieces(PARAMETERS(T))
{
    const unsigned int warps = blockDim.x / 32, heavy_blocks = (unsigned int)((heavy + warps - 1) / warps);
    if (blockIdx.x < heavy_blocks) {
        const unsigned long long item = (unsigned long long)blockIdx.x * warps + threadIdx.x / 32;
        // After the last heavy item this block has no more items.
        piece<T, E, L, V, 32 / L>(item < heavy ? item : items, PIECE_ARGUMENTS);
    } else {
        const unsigned int groups = blockDim.x / (L * W);
        piece<T, E, L, V, W>(heavy + (unsigned long long)(blockIdx.x - heavy_blocks) * groups + threadIdx.x / (L * W),
                             PIECE_ARGUMENTS);
    }
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    csr_pieces<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, WAYS>(ARGUMENTS);
}
#else
#define PIECES(type, T, B, L, V, W)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) csr_pieces_##type##_b##B##l##L##v##V##w##W(PARAMETERS(T))        \
    {                                                                                                                  \
        csr_pieces<T, B / sizeof(T), L, V, W>(ARGUMENTS);                                                              \
    }
PIECES(f64, double, 8, 1, 1, 8) WAYS_LADDER(PIECES, f64, double)
PIECES(f32, float, 4, 1, 1, 8) PIECES(f32, float, 8, 1, 1, 8) WAYS_LADDER(PIECES, f32, float)
#endif
