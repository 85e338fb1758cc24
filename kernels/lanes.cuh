// What the kernels with lanes over the columns of X share. The build puts this text before theirs.
//
// A row of X is read in vectors of E elements, 16 bytes where K allows it. L lanes of a warp lie side by side over a row,
// each with V vectors; W ways of L lanes share the nonzeros of a row. Entries of A are read four at a time from multiples
// of four, and lists that are staged fill columns and values up to that; rows of X are readable up to the next
// vector. Blocks along y take one tile of E * L * V columns each. Columns between K and the distance of rows are computed and
// stored like the others, as whole sectors are written faster than parts of them: nobody looks at what lies there.
//
// With EXACT_K the number of columns is a constant, and so is the distance of rows of X and Y; one form is compiled, named
// ENTRY, in precision SCALAR. UNIFORM says that all values of A are equal, and only the first of them is read.

#define SEGMENT 128u
#define SPAN 1024u
// More entries than are ever looked at from one place.
#define PLENTY 0x7fffffffu
#define CUT 0x80000000u

#ifdef EXACT_K
#define IS_EXACT true
#define PITCH_OF(T, ld) (pitch_of(EXACT_K * (unsigned int)sizeof(T)) / (unsigned int)sizeof(T))
// Bytes from one row to the next, as src/kernel/cuda/forms.rs has it: a power of two up to a sector, then whole sectors.
static __device__ __forceinline__ constexpr unsigned int pitch_of(unsigned int bytes)
{
    return bytes > 32 ? (bytes + 31) / 32 * 32 : bytes > 16 ? 32 : bytes > 8 ? 16 : bytes > 4 ? 8 : 4;
}
#define PARTS_TOGETHER 4 // more take registers from rows that are whole
#else
#define IS_EXACT false
#define PITCH_OF(T, ld) ((unsigned int)(ld))
#define PARTS_TOGETHER 2 // short code: these forms are many
#endif
// Columns that are computed: K and what is between rows.
#define COLUMNS_OF(T, k, ld) ((void)(k), PITCH_OF(T, ld))
#ifdef UNIFORM
#define IS_UNIFORM true
#else
#define IS_UNIFORM false
#endif

template <typename T, int E> struct Pack;
template <> struct Pack<double, 1> { typedef double Raw; };
template <> struct Pack<double, 2> { typedef double2 Raw; };
template <> struct Pack<float, 1> { typedef float Raw; };
template <> struct Pack<float, 2> { typedef float2 Raw; };
template <> struct Pack<float, 4> { typedef float4 Raw; };

static __device__ __forceinline__ void unpack(double from, double *to) { to[0] = from; }
static __device__ __forceinline__ void unpack(double2 from, double *to) { to[0] = from.x, to[1] = from.y; }
static __device__ __forceinline__ void unpack(float from, float *to) { to[0] = from; }
static __device__ __forceinline__ void unpack(float2 from, float *to) { to[0] = from.x, to[1] = from.y; }
static __device__ __forceinline__ void unpack(float4 from, float *to)
{
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

static __device__ __forceinline__ void pack(const double *from, double &to) { to = from[0]; }
static __device__ __forceinline__ void pack(const double *from, double2 &to) { to.x = from[0], to.y = from[1]; }
static __device__ __forceinline__ void pack(const float *from, float &to) { to = from[0]; }
static __device__ __forceinline__ void pack(const float *from, float2 &to) { to.x = from[0], to.y = from[1]; }
static __device__ __forceinline__ void pack(const float *from, float4 &to)
{
    to.x = from[0], to.y = from[1], to.z = from[2], to.w = from[3];
}

static __device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
static __device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }

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

// Reads of A that are used once leave the first-level cache to X.
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

// A vector, written past the caches.
template <typename T, int E> static __device__ __forceinline__ void store(T *to, const T *from)
{
    typename Pack<T, E>::Raw raw;
    pack(from, raw);
    __stcs((typename Pack<T, E>::Raw *)to, raw);
}

// A vector, read as other multiprocessors left it.
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

// A sum of parts that begins with a negative zero begins with its first part: nothing is changed by adding one, zeros of
// either sign included.
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

// A lane's vectors of one row of X.
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

// Four entries of A from `at` on, unless they begin behind the last. FILLED arrays can be read up to a multiple of four,
// others have `readable` entries. ONCE says that nobody else reads from the same sectors soon.
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

// The sums of entries begin..end of A times their rows of X; way w of W ways takes every W-th four of them. With one way
// it is a chain of fused multiply-adds in the order of the entries.
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
        // The next entries are on their way before the sums wait for X.
        load_entries<T, FILLED, (W > 1)>(columns, values, at + 4 * W, length, readable, from, factors);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (at + j >= skip && at + j < length) multiply_add<T, E, V>(now[j], part[j], sums);
    }
}

// The same sums of up to four entries, wherever they begin: all of them are on their way at once.
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

// The lanes of a warp that belong to this one's group of N.
template <int N> static __device__ __forceinline__ unsigned int group_mask()
{
    return N == 32 ? 0xffffffffu : ((1u << (N % 32)) - 1) << (threadIdx.x % 32 / N * N);
}

// Every way gets the sum of all ways, added as a tree. All lanes of `mask` take part.
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

// Adds one to a counter that others add to; who finds there what others added can read what they wrote before. A fence for
// writes only: one for reads would empty the first-level cache, where rows of X are.
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

// True for the N lanes that are the last of `count` groups of lanes to come here for this counter, which is zero again then.
// What the others wrote before they came can be read.
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
    __threadfence();
    return true;
}

// The sum of `count` rows of partial sums, first to last, TOGETHER of them on their way at once. With SEGMENTS they are sums of
// segments, unless `are_spans`, and are added span by span. Sums begin with a negative zero, which changes nothing.
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

// One segment of a cut row, or span of one, is done; whoever finishes the last one adds all and stores the row. In a row of many
// spans those are cuts of their own, whose sums are parts of the row's.
template <typename T, int E, int L, int V, int TOGETHER = PARTS_TOGETHER>
static __device__ __forceinline__ void finish_part(const uint4 *__restrict__ cuts, unsigned int cut, unsigned int part,
                                                   unsigned int lane, unsigned int column, unsigned int k,
                                                   T (&sums)[V][E], T *y, unsigned int ldy, T *scratch,
                                                   unsigned int *counters)
{
    for (;;) {
        // Row, or part of the cut above; first slot; number of parts, and CUT where they are spans; cut above + 1.
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
    store_row<T, E, L, V>(y + (unsigned long long)part * ldy, column, k, sums);
}

// The same with W ways, which add the parts side by side: every way has its own, first to last, and a tree adds the ways.
template <typename T, int E, int L, int V, int W>
static __device__ __forceinline__ void finish_part_by_ways(const uint4 *__restrict__ cuts, unsigned int cut,
                                                           unsigned int part, unsigned int lane, unsigned int column,
                                                           unsigned int k, T (&sums)[V][E], T *y, unsigned int ldy,
                                                           T *scratch, unsigned int *counters)
{
    const uint4 about = __ldg(cuts + cut); // as above; none is above another
    const unsigned int way = lane / L, count = about.z & ~CUT;
    T *slots = scratch + (unsigned long long)about.y * ldy;
    if (way == 0) store_row<T, E, L, V>(slots + (unsigned long long)part * ldy, column, k, sums);
    if (!is_last<L * W>(counters + (unsigned long long)cut * gridDim.y + blockIdx.y, count, lane)) return;
    clear<T, E, V>(sums);
    const unsigned int own = count > way ? (count - way + W - 1) / W : 0;
    add_parts<T, E, L, V>(slots + (unsigned long long)way * ldy, own, (unsigned long long)W * ldy, column, k, sums);
    add_ways<T, E, L, V, W>(sums, group_mask<L * W>());
    if (way == 0) store_row<T, E, L, V>(y + (unsigned long long)about.x * ldy, column, k, sums);
}

// The forms that every file has for any number of columns: FORM(type, T, B, L, V), and with ways FORM(type, T, B, L, V, W),
// B bytes a vector.
#define LADDER(FORM, type, T)                                                                                          \
    FORM(type, T, 16, 1, 1) FORM(type, T, 16, 2, 1) FORM(type, T, 16, 4, 1) FORM(type, T, 16, 4, 2)                        \
    FORM(type, T, 16, 8, 2) FORM(type, T, 16, 8, 4) FORM(type, T, 16, 16, 4)
#define WAYS_LADDER(FORM, type, T)                                                                                     \
    FORM(type, T, 16, 1, 1, 8) FORM(type, T, 16, 2, 1, 4) FORM(type, T, 16, 4, 1, 2) FORM(type, T, 16, 4, 2, 2)            \
    FORM(type, T, 16, 8, 2, 4) FORM(type, T, 16, 8, 4, 4) FORM(type, T, 16, 16, 4, 2)
