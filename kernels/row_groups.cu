// Y = A X for matrices whose neighbouring rows have common columns: groups of R rows, each row of X loaded once per group.
//
// A section has the union of its rows' columns in ascending order, in octets (8 columns): `columns`, one byte of `masks` each
// (bit r: row r of the group has it), and for each octet the offset of its values, relative to the section's first. Values are
// stored by column, then by row. Padding has no bit set. A section is a whole group, or the s-th segments of 128 of long rows.
//
// A launch covers `items` items of 32 bytes:
//
//   first_value              first value of the section (64 bits)
//   first_octet, octets      index of its first octet, and number of octets
//   group                    its first row is R * group
//   cut, part                index of the cut, and of the part within it; cut 0xffffffff if the group is not cut
//   rows                     bit r: row r takes part
//
// The group of lanes that finishes the last part adds all parts first to last, segments span by span. In a group with many spans,
// each span is a cut of its own, whose sums are parts of the group's cut. A row that does not take part adds negative zero, which
// changes no sum, zeros of either sign included.
//
//   row_groups      an item is a section: each segment is a chain of fused multiply-adds, segments are added first to last in
//                   spans, and spans first to last: the canonical order. S shares of L lanes compute R / S rows each; they load
//                   the same rows of X at the same time, so each is fetched once. If there are few groups, S times as many
//                   lanes are busy, each with registers for more rows of X
//   row_groups_cut  sections of whole rows, cut anywhere; W ways of L lanes compute a W-th of the columns each

// fast: no spills
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=1 SHARES=1 ROWS=4 DEPTH=16
// exact: EXACT_K=16 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=2 WAYS=1 SHARES=1 ROWS=4 DEPTH=8
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=1 SHARES=1 ROWS=4 DEPTH=16
// exact: EXACT_K=32 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=2 WAYS=1 SHARES=1 ROWS=4 DEPTH=8
// exact: EXACT_K=8 ENTRY=form SCALAR=double BYTES=16 LANES=4 VECTORS=1 WAYS=1 SHARES=4 ROWS=4 DEPTH=16
// exact: EXACT_K=32 ENTRY=form SCALAR=double BYTES=16 LANES=8 VECTORS=2 WAYS=1 SHARES=4 ROWS=4 DEPTH=8
// exact: EXACT_K=16 ENTRY=form SCALAR=float BYTES=16 LANES=4 VECTORS=1 WAYS=1 SHARES=4 ROWS=4 DEPTH=16

#include "scaling.cuh"
#include "packs.cuh"
#include "lanes.cuh"

#define PARAMETERS(T)                                                                                                  \
    unsigned long long items, unsigned long long rows, unsigned long long k, const uint4 *__restrict__ groups,         \
        const unsigned int *__restrict__ columns, const unsigned long long *__restrict__ masks,                        \
        const unsigned int *__restrict__ offsets, const T *__restrict__ values, const uint4 *__restrict__ cuts,        \
        const T *__restrict__ x, unsigned long long ldx, T *__restrict__ y, unsigned long long ldy,                    \
        SCALING_PARAMETERS, T *scratch, unsigned int *counters

#define ARGUMENTS                                                                                                      \
    items, rows, k, groups, columns, masks, offsets, values, cuts, x, ldx, y, ldy, alpha, beta, scratch, counters

#define WHOLE 0xffffffffu

// The columns, masks and first value of an octet.
struct Octet {
    unsigned int columns[8], offset;
    unsigned long long masks;
};

static __device__ __forceinline__ void load_octet(const unsigned int *__restrict__ columns,
                                                  const unsigned long long *__restrict__ masks,
                                                  const unsigned int *__restrict__ offsets, unsigned int at,
                                                  unsigned int last, Octet &octet)
{
    octet.masks = 0;
    if (at >= last) return;
    octet.masks = __ldg(masks + at);
    load_quad(columns + 8ull * at, octet.columns);
    load_quad(columns + 8ull * at + 4, octet.columns + 4);
    octet.offset = IS_UNIFORM ? 0 : __ldg(offsets + at);
}

// The number of bits set in each byte, at most four.
static __device__ __forceinline__ unsigned long long bits_of_bytes(unsigned long long bytes)
{
    bytes -= bytes >> 1 & 0x5555555555555555ull;
    return (bytes & 0x3333333333333333ull) + (bytes >> 2 & 0x3333333333333333ull);
}

// The indices of a row's values, one byte per column of an octet, relative to the octet's first value.
template <int R>
static __device__ __forceinline__ unsigned long long value_places(unsigned long long masks, unsigned int row)
{
    const unsigned long long each = 0x0101010101010101ull;
    // All rows have all columns, as in most octets of suitable matrices.
    if (masks == ((1ull << R) - 1) * each) return 0x0706050403020100ull * R + row * each;
    return bits_of_bytes(masks) * (each << 8) + bits_of_bytes(masks & ((1ull << row) - 1) * each);
}

// D columns at a time: so many rows of X are in flight. W or S must be 1.
template <typename T, int E, int L, int V, int W, int S, int R, int D>
static __device__ __forceinline__ void row_groups(PARAMETERS(T))
{
    const int OCTETS = D > 8 ? D / 8 : 1, OWN = R / S;
    const unsigned int lane = threadIdx.x % (L * W * S), way = S == 1 ? lane / L : 0, share = S == 1 ? 0 : lane / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane % L * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned long long item =
        (unsigned long long)blockIdx.x * (blockDim.x / (L * W * S)) + threadIdx.x / (L * W * S);
    uint4 head = make_uint4(0, 0, 0, 0), tail = make_uint4(0, WHOLE, 0, 0);
    if (item < items) {
        head = __ldg(groups + 2 * item);
        tail = __ldg(groups + 2 * item + 1);
    }
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    values += head.x | (unsigned long long)head.y << 32;
    const unsigned int last = head.z + head.w, pitch = PITCH_OF(T, ldx), first_own = share * OWN;
    T sums[OWN][V][E];
#pragma unroll
    for (int r = 0; r < OWN; ++r) clear<T, E, V>(sums[r]);
    Octet next[OCTETS];
    const unsigned int begin = head.z + way * OCTETS;
#pragma unroll
    for (int o = 0; o < OCTETS; ++o) load_octet(columns, masks, offsets, begin + o, last, next[o]);
    for (unsigned int at = begin; at < last; at += W * OCTETS) {
        Octet octets[OCTETS];
#pragma unroll
        for (int o = 0; o < OCTETS; ++o) {
            octets[o] = next[o];
            load_octet(columns, masks, offsets, at + W * OCTETS + o, last, next[o]);
        }
        const T *value = values;
        unsigned long long own_masks[OCTETS], places[OCTETS];
#pragma unroll
        for (int o = 0; o < OCTETS; ++o) {
            own_masks[o] = octets[o].masks >> first_own;
            places[o] = S > 1 && !IS_UNIFORM ? value_places<R>(octets[o].masks, first_own) : 0;
        }
#pragma unroll
        for (int first = 0; first < 8 * OCTETS; first += D) {
            T part[D][V][E], factors[D][OWN];
#pragma unroll
            for (int j = 0; j < D; ++j) {
                const Octet &octet = octets[(first + j) / 8];
                const int place = (first + j) % 8;
                if (octet.masks >> (8 * place) & 0xff)
                    load_row<T, E, L, V>(x + (unsigned long long)octet.columns[place] * pitch, column, width, part[j]);
                if (S > 1 && !IS_UNIFORM) {
                    const T *own = values + octet.offset + (places[(first + j) / 8] >> (8 * place) & 0xff);
#pragma unroll
                    for (int r = 0; r < OWN; ++r)
                        if (own_masks[(first + j) / 8] >> (8 * place + r) & 1) factors[j][r] = __ldg(own++);
                }
            }
#pragma unroll
            for (int j = 0; j < D; ++j) {
                const Octet &octet = octets[(first + j) / 8];
                const int place = (first + j) % 8;
                if (place == 0 && octet.masks != 0) value = values + octet.offset;
#pragma unroll
                for (int r = 0; r < OWN; ++r)
                    if (own_masks[(first + j) / 8] >> (8 * place + r) & 1) {
                        multiply_add<T, E, V>(IS_UNIFORM ? uniform : S > 1 ? factors[j][r] : __ldg(value), part[j],
                                              sums[r]);
                        ++value;
                    }
            }
        }
    }
    if (W > 1) {
#pragma unroll
        for (int r = 0; r < OWN; ++r) add_ways<T, E, L, V, W>(sums[r]);
    }
    if (item >= items || way != 0) return;
    const unsigned long long first_row = (unsigned long long)tail.x * R + first_own, y_pitch = PITCH_OF(T, ldy);
    if (tail.y != WHOLE) {
#pragma unroll
        for (int r = 0; r < OWN; ++r)
            if (!(tail.w >> (first_own + r) & 1)) fill<T, E, V>(-T(0), sums[r]);
        unsigned int cut = tail.y, part = tail.z;
        for (;;) {
            // First slot; number of parts, with CUT set if they are spans; parent cut + 1; part of the parent cut.
            const uint4 about = __ldg(cuts + cut);
            const unsigned int count = about.y & ~CUT;
            T *slots = scratch + ((unsigned long long)about.x * R + first_own) * y_pitch;
#pragma unroll
            for (int r = 0; r < OWN; ++r)
                store_row<T, E, L, V>(slots + ((unsigned long long)part * R + r) * y_pitch, column, width, sums[r]);
            if (!is_last<L * S>(counters + (unsigned long long)cut * gridDim.y + blockIdx.y, count, lane)) return;
            // Few parts in flight: more registers would be missing in the loop above.
#pragma unroll
            for (int r = 0; r < OWN; ++r)
                add_parts<T, E, L, V, 4, W == 1>(slots + r * y_pitch, count, R * y_pitch, column, width, sums[r],
                                                 (about.y & CUT) != 0);
            if (about.z == 0) break;
            cut = about.z - 1;
            part = about.w;
        }
    }
#pragma unroll
    for (int r = 0; r < OWN; ++r)
        if (first_row + r < rows) store_result<T, E, L, V>(y + (first_row + r) * y_pitch, column, width, SCALING, sums[r]);
}

#ifdef EXACT_K
extern "C" __global__ void __launch_bounds__(256) ENTRY(PARAMETERS(SCALAR))
{
    row_groups<SCALAR, BYTES / sizeof(SCALAR), LANES, VECTORS, WAYS, SHARES, ROWS, DEPTH>(ARGUMENTS);
}
#else
#define GROUPS(type, T, B, L, V, D)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) row_groups_##type##_b##B##l##L##v##V##r4d##D(PARAMETERS(T))      \
    {                                                                                                                  \
        row_groups<T, B / sizeof(T), L, V, 1, 1, 4, D>(ARGUMENTS);                                                     \
    }
#define GROUPS_SHARED(type, T, B, L, V, S, D)                                                                          \
    extern "C" __global__ void __launch_bounds__(256) row_groups_##type##_b##B##l##L##v##V##s##S##r4d##D(PARAMETERS(T)) \
    {                                                                                                                  \
        row_groups<T, B / sizeof(T), L, V, 1, S, 4, D>(ARGUMENTS);                                                     \
    }
#define GROUPS_CUT(type, T, B, L, V, D)                                                                                \
    extern "C" __global__ void __launch_bounds__(256) row_groups_cut_##type##_b##B##l##L##v##V##w1r4(PARAMETERS(T))    \
    {                                                                                                                  \
        row_groups<T, B / sizeof(T), L, V, 1, 1, 4, D>(ARGUMENTS);                                                     \
    }
#define FORMS(FORM) FORM(f64, double, 16, 4, 1, 8) FORM(f64, double, 16, 8, 2, 4) FORM(f64, double, 16, 16, 4, 4)      \
    FORM(f32, float, 16, 4, 1, 8) FORM(f32, float, 16, 8, 2, 4) FORM(f32, float, 16, 16, 4, 4)
FORMS(GROUPS) FORMS(GROUPS_CUT)
GROUPS(f64, double, 16, 4, 1, 16) GROUPS(f32, float, 16, 4, 1, 16)
GROUPS_SHARED(f64, double, 16, 4, 1, 4, 8) GROUPS_SHARED(f32, float, 16, 4, 1, 4, 8)
GROUPS_SHARED(f64, double, 16, 16, 4, 2, 4) GROUPS_SHARED(f32, float, 16, 16, 4, 2, 4)
#endif
