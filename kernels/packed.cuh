// The product of the kernel on a packed A, after scaling.cuh, packs.cuh and lanes.cuh. The build replaces the #include line by this text.
//
// Rows and segments are computed as in cuts.cuh, and added in the same order. A has other arrays:
//
//   row_starts   32 bits per row and one more: the first nonzero of the row, counted from the first of the chunk
//   bases        32 bits per block of 16 rows: the smallest column of the block. `first_row` is the place of the chunk's first row in
//                the first block
//   low, high    the column minus the base of its row: 16 bits in `low`, and `high_bits` (0, 4, 8 or 16) more in `high`
//   codes, table `value_code` says how `codes` has the value of a nonzero:
//                0  not at all: table[0] is the value of all
//                1  8 bits, the place of the value in `table`
//                2  16 bits, the place of the value in `table`
//                3  32 bits, a float that is exactly the value
//                4  the value
//
// Nonzeros are read four at a time from multiples of four; all arrays but `codes` with plain values are padded to a multiple of four. A
// chunk has fewer than 2^31 of them, and of rows.

#define PARAMETERS(T)                                                                                                  \
    unsigned long long heavy, unsigned long long rows, unsigned long long first_row, unsigned long long high_bits,     \
        unsigned long long value_code, unsigned long long k, const uint4 *__restrict__ list,                           \
        const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts, const T *__restrict__ table,           \
        const unsigned int *__restrict__ bases, const unsigned int *__restrict__ row_starts,                           \
        const unsigned short *__restrict__ low, const unsigned char *__restrict__ high,                                \
        const unsigned char *__restrict__ codes, const T *__restrict__ x, unsigned long long ldx, T *__restrict__ y,   \
        unsigned long long ldy, SCALING_PARAMETERS, T *scratch, unsigned int *counters

#define ARGUMENTS                                                                                                      \
    heavy, rows, first_row, high_bits, value_code, k, list, parts, cuts, table, bases, row_starts, low, high, codes, x, ldx, y,  \
        ldy, alpha, beta, scratch, counters

// Rows with more nonzeros are in the list, as in src/work/spmm/cuts.rs.
#define LONG_ROW 256u
#define MOST_THREADS 128
// Rows of a block with a common base, as in src/matrix/packing.rs.
#define BLOCK_ROWS 16

// The nonzeros of a chunk.
template <typename T> struct Packed {
    const unsigned short *low;
    const unsigned char *high, *codes;
    const T *table;
    unsigned int high_bits, value_code;

    // Loads the four nonzeros from `at` on, a multiple of four. Of plain values only those from number `begin` to `end` of the four.
    __device__ __forceinline__ void load(unsigned int at, unsigned int base, unsigned int begin, unsigned int end,
                                         unsigned int *from, T *factors) const
    {
        const uint2 pairs = __ldg((const uint2 *)(low + at));
        from[0] = pairs.x & 0xffffu, from[1] = pairs.x >> 16, from[2] = pairs.y & 0xffffu, from[3] = pairs.y >> 16;
        if (high_bits == 4) {
            const unsigned int bits = __ldg((const unsigned short *)high + at / 4);
#pragma unroll
            for (int j = 0; j < 4; ++j) from[j] |= (bits >> 4 * j & 0xfu) << 16;
        } else if (high_bits == 8) {
            const unsigned int bits = __ldg((const unsigned int *)high + at / 4);
#pragma unroll
            for (int j = 0; j < 4; ++j) from[j] |= (bits >> 8 * j & 0xffu) << 16;
        } else if (high_bits == 16) {
            const uint2 bits = __ldg((const uint2 *)high + at / 4);
            from[0] |= bits.x << 16, from[1] |= bits.x & 0xffff0000u, from[2] |= bits.y << 16, from[3] |= bits.y & 0xffff0000u;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) from[j] += base;
        if (value_code == 0) {
            factors[0] = factors[1] = factors[2] = factors[3] = __ldg(table);
        } else if (value_code == 1) {
            const unsigned int places = __ldg((const unsigned int *)codes + at / 4);
#pragma unroll
            for (int j = 0; j < 4; ++j) factors[j] = __ldg(table + (places >> 8 * j & 0xffu));
        } else if (value_code == 2) {
            const uint2 places = __ldg((const uint2 *)codes + at / 4);
            factors[0] = __ldg(table + (places.x & 0xffffu)), factors[1] = __ldg(table + (places.x >> 16));
            factors[2] = __ldg(table + (places.y & 0xffffu)), factors[3] = __ldg(table + (places.y >> 16));
        } else if (value_code == 3) {
            const float4 values = __ldg((const float4 *)codes + at / 4);
            factors[0] = T(values.x), factors[1] = T(values.y), factors[2] = T(values.z), factors[3] = T(values.w);
        } else {
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (j >= begin && j < end) factors[j] = __ldg((const T *)codes + at + j);
        }
    }
};

// The chain of fused multiply-adds of `count` nonzeros from `begin` on, in their order.
template <typename T, int E, int L, int V>
static __device__ __forceinline__ void packed_chain(const Packed<T> &a, unsigned int begin, unsigned int count,
                                                    unsigned int base, const T *__restrict__ x, unsigned int ldx,
                                                    unsigned int column, unsigned int k, T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    const unsigned int skip = begin & 3, length = count + skip;
    begin -= skip;
    for (unsigned int at = 0; at < length; at += 4) {
        unsigned int from[4];
        T part[4][V][E], factors[4];
        a.load(begin + at, base, at < skip ? skip : 0, length - at, from, factors);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (at + j >= skip && at + j < length)
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (at + j >= skip && at + j < length) multiply_add<T, E, V>(factors[j], part[j], sums);
    }
}

template <typename T, int E, int L, int V> static __device__ __forceinline__ void csr_packed(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L, groups = blockDim.x / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    const unsigned int list_blocks = (unsigned int)((heavy + groups - 1) / groups);
    const Packed<T> a = {low, high, codes, table, (unsigned int)high_bits, (unsigned int)value_code};
    T sums[V][E];
    if (blockIdx.x < list_blocks) {
        const unsigned long long item = (unsigned long long)blockIdx.x * groups + threadIdx.x / L;
        if (item >= heavy) return;
        const uint4 about = __ldg(list + item);
        // The row is that of the cut, or of its parent.
        const uint4 cut = __ldg(cuts + about.w);
        const unsigned int row = cut.w == 0 ? cut.x : __ldg(cuts + cut.w - 1).x;
        const unsigned int base = __ldg(bases + (row + (unsigned int)first_row) / BLOCK_ROWS);
        packed_chain<T, E, L, V>(a, about.x, about.z & ~CUT, base, x, pitch, column, width, sums);
        finish_part<T, E, L, V>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch, SCALING, scratch,
                                counters);
        return;
    }
    const unsigned int row = (blockIdx.x - list_blocks) * groups + threadIdx.x / L;
    if (row >= (unsigned int)rows) return;
    const unsigned int begin = __ldg(row_starts + row), count = __ldg(row_starts + row + 1) - begin;
    if (count > LONG_ROW) return;
    const unsigned int base = __ldg(bases + (row + (unsigned int)first_row) / BLOCK_ROWS);
    if (count <= SEGMENT) {
        packed_chain<T, E, L, V>(a, begin, count, base, x, pitch, column, width, sums);
    } else {
        T segment[V][E];
        fill<T, E, V>(-T(0), sums);
        for (unsigned int at = 0; at < count; at += SEGMENT) {
            const unsigned int own = count - at < SEGMENT ? count - at : SEGMENT;
            packed_chain<T, E, L, V>(a, begin + at, own, base, x, pitch, column, width, segment);
            add<T, E, V>(segment, sums);
        }
    }
    store_result<T, E, L, V>(y + (unsigned long long)row * y_pitch, column, width, SCALING, sums);
}
