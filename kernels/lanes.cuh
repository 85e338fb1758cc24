// Common code of the kernels with lanes over the columns of X, after scaling.cuh and packs.cuh. The build replaces the
// #include line by this text.
//
// A row of X is loaded in vectors of E elements, 16 bytes if K allows it. L lanes of a warp cover a row, with V vectors each;
// W ways (groups of L lanes) divide the nonzeros of a row. Entries of A are loaded four at a time from multiples of four;
// staged arrays are padded to a multiple of four. Rows of X are readable up to the next vector. Each block along y computes
// one tile of E * L * V columns. The padding between K and the pitch is computed and stored like the other columns, since
// whole sectors are written faster than parts of them; its values are not used.
//
// With EXACT_K the number of columns and the pitches of X and Y are constants; one form is compiled, named ENTRY, in precision
// SCALAR. UNIFORM means that all values of A are equal; only the first one is read.

#define SEGMENT 128u
#define SPAN 1024u
// A number of readable entries that is larger than any item.
#define PLENTY 0x7fffffffu
#define CUT 0x80000000u

#ifdef EXACT_K
#define IS_EXACT true
#define PITCH_OF(T, ld) (pitch_of(EXACT_K * (unsigned int)sizeof(T)) / (unsigned int)sizeof(T))
#define COUNT_OF(k) ((void)(k), (unsigned int)EXACT_K)
#define HAS_PARTIAL_VECTORS(E) (EXACT_K % (E) != 0)
#define HAS_NO_PADDING(T) (PITCH_OF(T, 0) == EXACT_K)
#define TILE_OF(T, columns) (PITCH_OF(T, 0) <= (columns) ? 0 : blockIdx.y * (columns))
// The pitch in bytes, as in src/kernel/cuda/forms.rs: a power of two up to a sector, then whole sectors.
static __device__ __forceinline__ constexpr unsigned int pitch_of(unsigned int bytes)
{
    return bytes > 32 ? (bytes + 31) / 32 * 32 : bytes > 16 ? 32 : bytes > 8 ? 16 : bytes > 4 ? 8 : 4;
}
#define PARTS_TOGETHER 4 // more would take registers from the code for whole rows
#else
#define IS_EXACT false
#define PITCH_OF(T, ld) ((unsigned int)(ld))
#define COUNT_OF(k) ((unsigned int)(k))
#define HAS_PARTIAL_VECTORS(E) ((E) > 1)
#define HAS_NO_PADDING(T) false
#define TILE_OF(T, columns) (blockIdx.y * (columns))
#define PARTS_TOGETHER 2 // short code, since there are many of these forms
#endif
// Number of computed columns: K and the padding of a row.
#define COLUMNS_OF(T, k, ld) ((void)(k), PITCH_OF(T, ld))
#ifdef UNIFORM
#define IS_UNIFORM true
#else
#define IS_UNIFORM false
#endif

template <typename T, int E> static __device__ __forceinline__ void load(const T *from, T *to)
{
    unpack(__ldg((const typename Pack<T, E>::Raw *)from), to);
}

static __device__ __forceinline__ void load_quad(const unsigned int *from, unsigned int *to)
{
    const uint4 raw = __ldg((const uint4 *)from);
    to[0] = raw.x, to[1] = raw.y, to[2] = raw.z, to[3] = raw.w;
}
static __device__ __forceinline__ void load_quad(const double *from, double *to)
{
    load<double, 2>(from, to);
    load<double, 2>(from + 2, to + 2);
}
static __device__ __forceinline__ void load_quad(const float *from, float *to) { load<float, 4>(from, to); }

// Loads of A that are used once bypass the L1 cache, which is left to X.
#ifdef ROWLOOM_EMULATED
template <typename T> static __device__ __forceinline__ void load_quad_once(const T *from, T *to) { load_quad(from, to); }
#else
static __device__ __forceinline__ void load_quad_once(const unsigned int *from, unsigned int *to)
{
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(from));
}
static __device__ __forceinline__ void load_quad_once(const double *from, double *to)
{
    asm("ld.global.nc.L1::no_allocate.v2.f64 {%0, %1}, [%2];" : "=d"(to[0]), "=d"(to[1]) : "l"(from));
    asm("ld.global.nc.L1::no_allocate.v2.f64 {%0, %1}, [%2];" : "=d"(to[2]), "=d"(to[3]) : "l"(from + 2));
}
static __device__ __forceinline__ void load_quad_once(const float *from, float *to)
{
    asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from));
}
#endif

// Stores a vector with the streaming hint.
template <typename T, int E> static __device__ __forceinline__ void store(T *to, const T *from)
{
    typename Pack<T, E>::Raw raw;
    pack(from, raw);
    __stcs((typename Pack<T, E>::Raw *)to, raw);
}

// Loads a vector from the L2 cache, where stores of other multiprocessors are visible.
template <typename T, int E> static __device__ __forceinline__ void load_shared_by_all(const T *from, T *to)
{
    unpack(__ldcg((const typename Pack<T, E>::Raw *)from), to);
}

template <typename T, int E, int V> static __device__ __forceinline__ void fill(T value, T (&sums)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < E; ++i) sums[v][i] = value;
}

template <typename T, int E, int V> static __device__ __forceinline__ void clear(T (&sums)[V][E])
{
    fill<T, E, V>(T(0), sums);
}

// Adds a part to the sums. Sums of parts start at negative zero: adding any number to it gives this number, zeros of either
// sign included.
template <typename T, int E, int V> static __device__ __forceinline__ void add(const T (&part)[V][E], T (&sums)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < E; ++i) sums[v][i] += part[v][i];
}

template <typename T, int E, int V>
static __device__ __forceinline__ void multiply_add(T factor, const T (&part)[V][E], T (&sums)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < E; ++i) sums[v][i] = fused(factor, part[v][i], sums[v][i]);
}

// Loads a lane's vectors of one row of X.
template <typename T, int E, int L, int V>
static __device__ __forceinline__ void load_row(const T *__restrict__ row, unsigned int column, unsigned int k,
                                                T (&to)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
        if (column + v * (L * E) < k) load<T, E>(row + column + v * (L * E), to[v]);
}

template <typename T, int E, int L, int V>
static __device__ __forceinline__ void store_row(T *row, unsigned int column, unsigned int k, const T (&from)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; ++v)
        if (column + v * (L * E) < k) store<T, E>(row + column + v * (L * E), from[v]);
}

// Stores a lane's vectors of one row of Y, scaled. The old Y is read only if beta is not zero, and only its K columns: its padding
// may be unwritten.
template <typename T, int E, int L, int V>
static __device__ __forceinline__ void store_result(T *row, unsigned int column, unsigned int width,
                                                    const Scaling &scaling, const T (&sums)[V][E])
{
    const T alpha = scaling.alpha<T>(), beta = scaling.beta<T>();
    const unsigned int k = COUNT_OF(scaling.k);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const unsigned int at = column + v * (L * E);
        if (at >= width) continue;
        T result[E];
#pragma unroll
        for (int i = 0; i < E; ++i) result[i] = alpha * sums[v][i];
        if (beta != T(0)) {
            // The address depends on the sum, through a number that is always zero: otherwise the compiler loads the old Y
            // together with X, and registers for both would be missing in the chains.
            const T *from = row + at + (result[0] > T(0) ? blockIdx.z : 0);
            if (HAS_NO_PADDING(T) || at + E <= k) {
                T old[E];
                unpack(__ldcs((const typename Pack<T, E>::Raw *)from), old);
#pragma unroll
                for (int i = 0; i < E; ++i) result[i] = fused(beta, old[i], result[i]);
            } else if (HAS_PARTIAL_VECTORS(E)) {
#pragma unroll
                for (int i = 0; i < E; ++i)
                    if (at + i < k) result[i] = fused(beta, from[i], result[i]);
            }
        }
        store<T, E>(row + at, result);
    }
}

// Loads four entries of A from `at` on, if `at` is less than `length`. FILLED arrays are readable up to a multiple of four,
// others have `readable` entries. ONCE means that no other lanes load from the same sectors soon.
template <typename T, bool FILLED, bool ONCE>
static __device__ __forceinline__ void load_entries(const unsigned int *__restrict__ columns,
                                                    const T *__restrict__ values, unsigned int at, unsigned int length,
                                                    unsigned int readable, unsigned int *from, T *factors)
{
    if (at >= length) return;
    if (FILLED || readable - at >= 4) {
        if (ONCE) {
            load_quad_once(columns + at, from);
            if (!IS_UNIFORM) load_quad_once(values + at, factors);
        } else {
            load_quad(columns + at, from);
            if (!IS_UNIFORM) load_quad(values + at, factors);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 3; ++j)
        if (at + j < length) {
            from[j] = __ldg(columns + at + j);
            if (!IS_UNIFORM) factors[j] = __ldg(values + at + j);
        }
}

// The sums of `count` entries of A from `begin` on times their rows of X; way w of W ways computes every W-th quad of entries.
// With one way it is a chain of fused multiply-adds in the order of the entries.
template <typename T, int E, int L, int V, int W, bool FILLED>
static __device__ __forceinline__ void chain(unsigned long long begin, unsigned int count, unsigned int readable,
                                             const unsigned int *__restrict__ columns, const T *__restrict__ values,
                                             const T *__restrict__ x, unsigned int ldx, unsigned int column,
                                             unsigned int k, unsigned int way, T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    const unsigned int skip = (unsigned int)(begin & 3), length = count + skip;
    readable += skip;
    const T uniform = IS_UNIFORM ? __ldg(values) : T(0);
    columns += begin - skip;
    values += begin - skip;
    unsigned int from[4];
    T factors[4];
    load_entries<T, FILLED, (W > 1)>(columns, values, 4 * way, length, readable, from, factors);
    for (unsigned int at = 4 * way; at < length; at += 4 * W) {
        T part[4][V][E], now[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (at + j >= skip && at + j < length)
                load_row<T, E, L, V>(x + (unsigned long long)from[j] * ldx, column, k, part[j]);
            now[j] = IS_UNIFORM ? uniform : factors[j];
        }
        // The next entries are requested before the sums wait for X.
        load_entries<T, FILLED, (W > 1)>(columns, values, at + 4 * W, length, readable, from, factors);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (at + j >= skip && at + j < length) multiply_add<T, E, V>(now[j], part[j], sums);
    }
}

// As `chain`, for up to four entries at any alignment: all loads are in flight at once.
template <typename T, int E, int L, int V>
static __device__ __forceinline__ void short_chain(unsigned long long begin, unsigned int count,
                                                   const unsigned int *__restrict__ columns,
                                                   const T *__restrict__ values, const T *__restrict__ x,
                                                   unsigned int ldx, unsigned int column, unsigned int k, T (&sums)[V][E])
{
    clear<T, E, V>(sums);
    T part[4][V][E], factors[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (j < (int)count) {
            load_row<T, E, L, V>(x + (unsigned long long)__ldg(columns + begin + j) * ldx, column, k, part[j]);
            factors[j] = __ldg(IS_UNIFORM ? values : values + begin + j);
        }
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (j < (int)count) multiply_add<T, E, V>(factors[j], part[j], sums);
}

// The mask of the lanes in this lane's group of N.
template <int N> static __device__ __forceinline__ unsigned int group_mask()
{
    return N == 32 ? 0xffffffffu : ((1u << (N % 32)) - 1) << (threadIdx.x % 32 / N * N);
}

// Gives every way the sum of all ways, added as a tree. All lanes of `mask` must take part.
template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void add_ways(T (&sums)[V][E], unsigned int mask = 0xffffffffu)
{
#pragma unroll
    for (int distance = L; distance < L * W; distance *= 2)
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int i = 0; i < E; ++i) sums[v][i] += __shfl_xor_sync(mask, sums[v][i], distance);
}

// Increments a counter in global memory and returns its previous value. Stores before a counted increment are visible to the
// group that counts last. Release ordering only: an acquire would invalidate the L1 cache, which holds rows of X.
static __device__ __forceinline__ unsigned int count_one(unsigned int *counter)
{
#ifdef ROWLOOM_EMULATED
    __threadfence();
    return atomicAdd(counter, 1u);
#else
    unsigned int before;
    asm volatile("atom.release.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
#endif
}

// True for the group of N lanes that is the last of `count` groups to call this for the counter, which it resets to zero. The
// stores of the other groups before their calls are visible to it.
template <int N>
static __device__ __forceinline__ bool is_last(unsigned int *counter, unsigned int count, unsigned int lane)
{
    const unsigned int mask = group_mask<N>();
    __syncwarp(mask);
    unsigned int before = 0;
    if (lane == 0) {
        before = count_one(counter);
        if (before + 1 == count) *counter = 0;
    }
    before = __shfl_sync(mask, before, 0, N);
    if (before + 1 != count) return false;
    // Lane 0 has read the counter, so its fence acquires the stores of the other groups. The barrier orders the loads of all
    // lanes after the fence; a shuffle alone orders nothing.
    if (lane == 0) __threadfence();
    __syncwarp(mask);
    return true;
}

// The sum of `count` rows of partial sums, first to last, with TOGETHER of them in flight at once. With SEGMENTS they are sums of
// segments, added span by span, or sums of spans if `are_spans`. Sums start at negative zero (see `add`).
template <typename T, int E, int L, int V, int TOGETHER = PARTS_TOGETHER, bool SEGMENTS = false>
static __device__ __forceinline__ void add_parts(const T *slots, unsigned int count, unsigned long long stride,
                                                 unsigned int column, unsigned int k, T (&sums)[V][E],
                                                 bool are_spans = false)
{
    T spans[V][E];
    if (SEGMENTS) fill<T, E, V>(-T(0), spans);
    fill<T, E, V>(-T(0), sums);
    for (unsigned int first = 0; first < count; first += TOGETHER) {
        T next[TOGETHER][V][E];
#pragma unroll
        for (int b = 0; b < TOGETHER; ++b)
            if (first + b < count) {
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (column + v * (L * E) < k)
                        load_shared_by_all<T, E>(slots + (first + b) * stride + column + v * (L * E), next[b][v]);
            }
#pragma unroll
        for (int b = 0; b < TOGETHER; ++b)
            if (first + b < count) {
                if (SEGMENTS && !are_spans && (first + b) % (SPAN / SEGMENT) == 0) {
                    add<T, E, V>(sums, spans);
                    fill<T, E, V>(-T(0), sums);
                }
                add<T, E, V>(next[b], sums);
            }
    }
    if (SEGMENTS) add<T, E, V>(spans, sums);
}

// Stores the sums of a part of a cut row. The group of lanes that finishes the last part adds all parts and stores the row. In a
// row with many spans each span is a cut of its own, whose sum is a part of the row's cut.
template <typename T, int E, int L, int V, int TOGETHER = PARTS_TOGETHER>
static __device__ __forceinline__ void finish_part(const uint4 *__restrict__ cuts, unsigned int cut, unsigned int part,
                                                   unsigned int lane, unsigned int column, unsigned int k,
                                                   T (&sums)[V][E], T *y, unsigned int ldy, const Scaling &scaling,
                                                   T *scratch, unsigned int *counters)
{
    for (;;) {
        // Row, or part of the parent cut; first slot; number of parts, with CUT set if they are spans; parent cut + 1.
        const uint4 about = __ldg(cuts + cut);
        const unsigned int count = about.z & ~CUT;
        T *slots = scratch + (unsigned long long)about.y * ldy;
        store_row<T, E, L, V>(slots + (unsigned long long)part * ldy, column, k, sums);
        if (!is_last<L>(counters + (unsigned long long)cut * gridDim.y + blockIdx.y, count, lane)) return;
        add_parts<T, E, L, V, TOGETHER, true>(slots, count, ldy, column, k, sums, (about.z & CUT) != 0);
        part = about.x;
        if (about.w == 0) break;
        cut = about.w - 1;
    }
    store_result<T, E, L, V>(y + (unsigned long long)part * ldy, column, k, scaling, sums);
}

// As `finish_part` with W ways: each way adds every W-th part, first to last, and a tree adds the ways.
template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void finish_part_by_ways(const uint4 *__restrict__ cuts, unsigned int cut,
                                                           unsigned int part, unsigned int lane, unsigned int column,
                                                           unsigned int k, T (&sums)[V][E], T *y, unsigned int ldy,
                                                           const Scaling &scaling, T *scratch, unsigned int *counters)
{
    const uint4 about = __ldg(cuts + cut); // as above; there are no parent cuts
    const unsigned int way = lane / L, count = about.z & ~CUT;
    T *slots = scratch + (unsigned long long)about.y * ldy;
    if (way == 0) store_row<T, E, L, V>(slots + (unsigned long long)part * ldy, column, k, sums);
    if (!is_last<L * W>(counters + (unsigned long long)cut * gridDim.y + blockIdx.y, count, lane)) return;
    clear<T, E, V>(sums);
    const unsigned int own = count > way ? (count - way + W - 1) / W : 0;
    add_parts<T, E, L, V>(slots + (unsigned long long)way * ldy, own, (unsigned long long)W * ldy, column, k, sums);
    add_ways<T, E, L, V, W>(sums, group_mask<L * W>());
    if (way == 0) store_result<T, E, L, V>(y + (unsigned long long)about.x * ldy, column, k, scaling, sums);
}

// The forms that every file has for any number of columns: FORM(type, T, B, L, V), or FORM(type, T, B, L, V, W) with ways, with
// vectors of B bytes.
#define LADDER(FORM, type, T)                                                                                          \
    FORM(type, T, 16, 1, 1) FORM(type, T, 16, 2, 1) FORM(type, T, 16, 4, 1) FORM(type, T, 16, 4, 2)                        \
    FORM(type, T, 16, 8, 2) FORM(type, T, 16, 8, 4) FORM(type, T, 16, 16, 4)
#define WAYS_LADDER(FORM, type, T)                                                                                     \
    FORM(type, T, 16, 1, 1, 8) FORM(type, T, 16, 2, 1, 4) FORM(type, T, 16, 4, 1, 2) FORM(type, T, 16, 4, 2, 2)            \
    FORM(type, T, 16, 8, 2, 4) FORM(type, T, 16, 8, 4, 4) FORM(type, T, 16, 16, 4, 2)
