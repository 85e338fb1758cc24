// The product of the kernels on A's own row pointers and columns with a list of the segments of long rows, after scaling.cuh,
// packs.cuh and lanes.cuh. The build replaces the #include line by this text.
//
// Rows of up to 256 nonzeros are computed as in csr_subwarp.cu: L lanes per row. Longer rows are cut at every segment of 128
// nonzeros, and L lanes compute a segment; the group of lanes that finishes the last segment of a row adds them up, span by span.
// Only the long rows are listed, so that the list has few bytes where A is copied for each product:
//
//   list, parts, cuts, counters  as in csr_segments.cu, for the segments of long rows only
//
// The first blocks compute the `heavy` segments of the list, the others the rows.
//
// A launch covers `rows` rows of a larger matrix. The rows + 1 row pointers are those of the larger matrix; columns and values
// start at the first row's first nonzero. With UNIFORM there is one value, that of every nonzero.

#define PARAMETERS(T)                                                                                                  \
    unsigned long long heavy, unsigned long long rows, unsigned long long k, const uint4 *__restrict__ list,           \
        const unsigned int *__restrict__ parts, const uint4 *__restrict__ cuts,                                        \
        const unsigned long long *__restrict__ row_pointers, const unsigned int *__restrict__ columns,                 \
        const T *__restrict__ values, const T *__restrict__ x, unsigned long long ldx, T *__restrict__ y,              \
        unsigned long long ldy, SCALING_PARAMETERS, T *scratch, unsigned int *counters

#define ARGUMENTS                                                                                                      \
    heavy, rows, k, list, parts, cuts, row_pointers, columns, values, x, ldx, y, ldy, alpha, beta, scratch, counters

// Rows with more nonzeros are in the list, as in src/work/spmm/cuts.rs.
#define LONG_ROW 256u
#define MOST_THREADS 128

// The number of entries from `begin` on; the arrays end with the last row's entries.
static __device__ __forceinline__ unsigned int readable_from(unsigned long long begin, unsigned long long end)
{
    return end - begin < PLENTY ? (unsigned int)(end - begin) : PLENTY;
}

template <typename T, int E, int L, int V> static __device__ __forceinline__ void csr_cuts(PARAMETERS(T))
{
    const unsigned int lane = threadIdx.x % L, groups = blockDim.x / L;
    const unsigned int column = blockIdx.y * (E * L * V) + lane * E, width = COLUMNS_OF(T, k, ldx);
    const unsigned int pitch = PITCH_OF(T, ldx), y_pitch = PITCH_OF(T, ldy);
    const unsigned int list_blocks = (unsigned int)((heavy + groups - 1) / groups);
    const unsigned long long start = __ldg(row_pointers), end = __ldg(row_pointers + rows) - start;
    T sums[V][E];
    if (blockIdx.x < list_blocks) {
        const unsigned long long item = (unsigned long long)blockIdx.x * groups + threadIdx.x / L;
        if (item >= heavy) return;
        const uint4 about = __ldg(list + item);
        const unsigned long long begin = about.x | (unsigned long long)(about.y & 0xffffu) << 32;
        chain<T, E, L, V, 1, false>(begin, about.z & ~CUT, readable_from(begin, end), columns, values, x, pitch, column, width,
                                    0, sums);
        // As many parts in flight as the chain has registers for.
        const int TOGETHER = V == 1 ? 8 : V == 2 ? 4 : PARTS_TOGETHER;
        finish_part<T, E, L, V, TOGETHER>(cuts, about.w, __ldg(parts + item), lane, column, width, sums, y, y_pitch, SCALING,
                                          scratch, counters);
        return;
    }
    const unsigned long long row = (unsigned long long)(blockIdx.x - list_blocks) * groups + threadIdx.x / L;
    if (row >= rows) return;
    unsigned long long begin = __ldg(row_pointers + row);
    const unsigned long long length = __ldg(row_pointers + row + 1) - begin;
    begin -= start;
    if (length > LONG_ROW) return;
    const unsigned int count = (unsigned int)length, readable = readable_from(begin, end);
    if (count <= 4) {
        short_chain<T, E, L, V>(begin, count, columns, values, x, pitch, column, width, sums);
    } else if (count <= SEGMENT) {
        chain<T, E, L, V, 1, false>(begin, count, readable, columns, values, x, pitch, column, width, 0, sums);
    } else {
        T segment[V][E];
        fill<T, E, V>(-T(0), sums);
        for (unsigned int at = 0; at < count; at += SEGMENT) {
            const unsigned int own = count - at < SEGMENT ? count - at : SEGMENT;
            chain<T, E, L, V, 1, false>(begin + at, own, readable_from(begin + at, end), columns, values, x, pitch, column,
                                        width, 0, segment);
            add<T, E, V>(segment, sums);
        }
    }
    store_result<T, E, L, V>(y + row * y_pitch, column, width, SCALING, sums);
}
