// Sums of the columns of a dense matrix, and sums of squared deviations from their means, after packs.cuh and vectors.cuh, in the order
// of src/kernel/colmean/order.rs. The build replaces the #include line by this text.
//
// The rows are those of whole blocks of `block_rows` rows, and `sums` and `deviations` get one row per block. A block has STRANDS
// strands of consecutive rows, and a strand has groups of GROUP rows. The rows of a group are added as a tree; the deviations of its
// rows from its own mean are squared and added in the same way. Groups are merged into strands one after the other, strands into
// blocks as a tree, by the formula of Chan, Golub and LeVeque.

#define GROUP 8
#define STRANDS 8

// The sums of one column over `rows` rows. `deviations` is used only by kernels that compute it.
template <typename T> struct Moments {
    T sum, deviations;
    unsigned int rows;
};

template <typename T> static __device__ __forceinline__ T tree(const T (&v)[GROUP])
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

// Merges `more`, whose rows follow, into `to`.
template <typename T, bool DEVIATIONS> static __device__ __forceinline__ void merge(Moments<T> &to, const Moments<T> &more)
{
    if (more.rows == 0) return;
    if (DEVIATIONS && to.rows > 0) {
        const T all = T(to.rows + more.rows), weight = T(to.rows) / all * T(more.rows);
        const T difference = more.sum * (T(1) / T(more.rows)) - to.sum * (T(1) / T(to.rows));
        to.deviations = fused(difference * difference, weight, to.deviations + more.deviations);
    } else {
        to.deviations = more.deviations;
    }
    to.sum += more.sum;
    to.rows += more.rows;
}

// Merges the next `count` rows of a column, at most GROUP, into a strand. Values beyond them are zero.
template <typename T, bool DEVIATIONS>
static __device__ __forceinline__ void merge_group(Moments<T> &strand, const T (&values)[GROUP], unsigned int count)
{
    Moments<T> group = {tree(values), T(0), count};
    if (DEVIATIONS) {
        const T mean = group.sum * (T(1) / T(count));
        T squares[GROUP];
#pragma unroll
        for (unsigned int i = 0; i < GROUP; ++i) {
            const T deviation = values[i] - mean;
            squares[i] = i < count ? deviation * deviation : T(0);
        }
        group.deviations = tree(squares);
    }
    merge<T, DEVIATIONS>(strand, group);
}

// Rows of strand `strand` of a block of `rows` rows, whose strands have `strand_rows` rows.
static __device__ __forceinline__ unsigned int rows_of_strand(unsigned int rows, unsigned int strand, unsigned int strand_rows)
{
    return min(strand_rows, rows - min(rows, strand * strand_rows));
}

// Merges the next `here` rows at `x`, at most GROUP, of E columns into a strand. If not WHOLE, only `count` columns are inside.
template <typename T, bool DEVIATIONS, int E, bool WHOLE>
static __device__ __forceinline__ void add_group(const T *x, u64 ldx, unsigned int here, unsigned int count, Moments<T> (&strand)[E])
{
    T values[GROUP][E];
#pragma unroll
    for (unsigned int i = 0; i < GROUP; ++i) {
        const T *from = x + i * ldx;
        if (WHOLE) {
            load<T, E>(from, values[i]);
        } else {
#pragma unroll
            for (unsigned int c = 0; c < E; ++c) values[i][c] = i < here && c < count ? from[c] : T(0);
        }
    }
#pragma unroll
    for (int c = 0; c < E; ++c) {
        T column[GROUP];
#pragma unroll
        for (int i = 0; i < GROUP; ++i) column[i] = values[i][c];
        merge_group<T, DEVIATIONS>(strand[c], column, here);
    }
}

// Adds up E columns of a strand of `rows` rows at `x`, of which `count` columns are inside. Vectors are loaded if `wide`.
template <typename T, bool DEVIATIONS, int E>
static __device__ __forceinline__ void add_strand(const T *x, u64 ldx, unsigned int rows, unsigned int count, bool wide,
                                                  Moments<T> (&strand)[E])
{
#pragma unroll
    for (int c = 0; c < E; ++c) strand[c] = {T(0), T(0), 0};
    unsigned int row = 0;
    if (wide && count >= E)
        for (; row + GROUP <= rows; row += GROUP) add_group<T, DEVIATIONS, E, true>(x + row * ldx, ldx, GROUP, E, strand);
    for (; row < rows; row += GROUP)
        add_group<T, DEVIATIONS, E, false>(x + row * ldx, ldx, min((unsigned int)GROUP, rows - row), count, strand);
}

#define OF_COLUMNS(T) u64 rows, u64 columns, u64 block_rows, const T *__restrict__ x, u64 ldx, T *__restrict__ sums
#define COLUMNS rows, columns, block_rows, x, ldx, sums

// The entry points of a kernel: sums alone, and sums with squared deviations.
#define COLUMN_ENTRIES(threads, name, type, T)                                                                         \
    ENTRY(threads, name##_##type)(OF_COLUMNS(T)) { add_columns<T, false>(COLUMNS, (T *)0); }                           \
    ENTRY(threads, name##_deviations_##type)(OF_COLUMNS(T), T *__restrict__ deviations)                                \
    {                                                                                                                  \
        add_columns<T, true>(COLUMNS, deviations);                                                                     \
    }
