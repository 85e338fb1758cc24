// Kernels for the emulator's tests: kernels that use CUDA's built-ins, and kernels with a deliberate fault.

extern "C" __global__ void block_sum_f64(unsigned long long n, const double *from, double *to)
{
    extern __shared__ double sums[];
    const unsigned int thread = threadIdx.x;
    sums[thread] = thread < n ? from[thread] : 0.0;
    __syncthreads();
    for (unsigned int distance = blockDim.x / 2; distance > 0; distance /= 2) {
        if (thread < distance) sums[thread] += sums[thread + distance];
        __syncthreads();
    }
    if (thread == 0) to[blockIdx.x] = sums[0];
}

extern "C" __global__ void warp_sum_f64(unsigned long long n, const double *from, double *to)
{
    __shared__ double of_warp[32];
    const unsigned int thread = threadIdx.x, lane = thread % warpSize;
    double sum = thread < n ? __ldg(from + thread) : 0.0;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0) of_warp[thread / warpSize] = sum;
    __syncthreads();
    if (thread == 0) {
        sum = 0.0;
        for (unsigned int warp = 0; warp < blockDim.x / warpSize; ++warp) sum += of_warp[warp];
        to[blockIdx.x] = sum;
    }
}

// Results of votes, shuffles, atomics and vector loads in a two-dimensional block of 64 threads.
extern "C" __global__ void __launch_bounds__(64) cuda_builtins(const double *pairs, double *out, unsigned int *counts)
{
    __shared__ unsigned int count;
    __shared__ float total;
    __shared__ unsigned long long largest;
    const unsigned int thread = threadIdx.y * blockDim.x + threadIdx.x, lane = thread % warpSize;
    if (thread == 0) {
        count = 0;
        total = 0.0f;
        largest = 0;
    }
    __syncthreads();
    atomicAdd(&count, 1u);
    atomicAdd(&total, 0.5f);
    atomicMax(&largest, (unsigned long long)thread * thread);
    __syncthreads();
    const unsigned int odd = __ballot_sync(0xffffffffu, lane % 2);
    const int any = __any_sync(0xffffffffu, lane == 40), all = __all_sync(0xffffffffu, lane < 32);
    const unsigned int neighbour = __shfl_xor_sync(0xffffffffu, thread, 1);
    const unsigned int before = __shfl_up_sync(0xffffffffu, thread, 1);
    const unsigned int first = __shfl_sync(0xffffffffu, thread, 0);
    const double2 pair = ((const double2 *)pairs)[thread];
    const float4 halves = make_float4(0.5f, 0.5f, 0.5f, 0.5f);
    out[thread] = fma(pair.x, pair.y, (double)(halves.x + halves.w));
    unsigned int *mine = counts + thread * 8;
    mine[0] = count;
    mine[1] = (unsigned int)total;
    mine[2] = (unsigned int)largest;
    mine[3] = odd;
    mine[4] = (unsigned int)(any * 2 + all);
    mine[5] = neighbour;
    mine[6] = before;
    __syncthreads();
    mine[7] = atomicCAS(&count, 64u, 7u) + first + max(gridDim.x, blockDim.y);
}

// Each block stores its number. The last block to arrive sums them in block order and resets the counter.
extern "C" __global__ void last_block_adds(unsigned int *counter, double *scratch, double *to)
{
    __shared__ unsigned int before;
    if (threadIdx.x == 0) {
        scratch[blockIdx.x] = (double)(blockIdx.x + 1);
        __threadfence();
        before = atomicAdd(counter, 1u);
    }
    __syncthreads();
    if (before + 1 != gridDim.x || threadIdx.x != 0) return;
    __threadfence();
    double sum = 0.0;
    for (unsigned int block = 0; block < gridDim.x; ++block) sum += scratch[block];
    *to = sum;
    *counter = 0;
}

// 16-byte loads and stores of every type, bit operations, and shuffles within parts of a warp, for 32 threads.
extern "C" __global__ void vectors_and_bits(const double *doubles, const float *floats, const unsigned int *words,
                                            double *out, unsigned int *bits)
{
    const unsigned int lane = threadIdx.x;
    const double2 two = __ldg((const double2 *)doubles + lane);
    const float4 four = __ldg((const float4 *)floats + lane);
    const uint4 some = *((const uint4 *)words + lane);
    const int4 same = *((const int4 *)words + lane);
    const uint2 half = *((const uint2 *)words + lane);
    const float2 pair = *((const float2 *)floats + lane);
    const unsigned int low = 0x0000ffffu << (lane / 16 * 16);
    __syncwarp(low);
    double sum = two.x + two.y;
    for (int distance = 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(low, sum, distance, 4);
    const float first = __shfl_sync(low, four.x + four.y + four.z + four.w, 0, 16);
    const unsigned int next = __shfl_down_sync(low, some.w, 1, 8);
    ((double2 *)out)[2 * lane] = make_double2(sum, (double)first);
    ((double2 *)out)[2 * lane + 1] = make_double2((double)next, (double)(pair.x + pair.y));
    const unsigned int odd = __ballot_sync(low, lane & 1);
    const uint4 answer = make_uint4((unsigned int)__popc(odd), (unsigned int)__ffs((int)(some.x << 3)),
                                    min(some.y, 9u) + max(half.x, 4u), (unsigned int)(same.z - same.w + 2));
    ((uint4 *)bits)[lane] = answer;
}

extern "C" __global__ void reads_beyond(unsigned long long n, const double *from, double *to)
{
    to[threadIdx.x] = from[threadIdx.x + n];
}

extern "C" __global__ void writes_beyond(unsigned long long n, const double *from, double *to)
{
    to[threadIdx.x + n] = from[0];
}

extern "C" __global__ void reads_unwritten(const float *from, float *to) { to[threadIdx.x] = from[threadIdx.x]; }

extern "C" __global__ void reads_unwritten_shared(const double *from, double *to)
{
    __shared__ double sums[64];
    if (threadIdx.x < 32) sums[threadIdx.x] = from[0];
    __syncthreads();
    to[threadIdx.x] = sums[threadIdx.x];
}

// Only the first `writers` blocks write the variable that all blocks read.
extern "C" __global__ void reads_the_last_blocks_shared(unsigned long long writers, double *to)
{
    __shared__ double sums[64];
    if (blockIdx.x < writers) sums[threadIdx.x] = 1.0;
    to[threadIdx.x] = sums[threadIdx.x];
}

extern "C" __global__ void runs_over_shared(const double *from, double *to)
{
    __shared__ double sums[32];
    __shared__ double others[32];
    others[threadIdx.x % 32] = 1.0;
    sums[threadIdx.x] = from[0];
    __syncthreads();
    to[threadIdx.x] = sums[threadIdx.x] + others[0];
}

extern "C" __global__ void runs_over_dynamic_shared(double *to)
{
    extern __shared__ double sums[];
    sums[threadIdx.x] = 1.0;
    __syncthreads();
    to[threadIdx.x] = sums[threadIdx.x];
}

extern "C" __global__ void diverges_at_a_barrier(double *to)
{
    if (threadIdx.x < 40)
        __syncthreads();
    else
        __syncthreads();
    to[threadIdx.x] = 1.0;
}

extern "C" __global__ void leaves_before_a_barrier(double *to)
{
    if (threadIdx.x == 50) return;
    __syncthreads();
    to[threadIdx.x] = 1.0;
}

extern "C" __global__ void shuffles_without_a_lane(double *to)
{
    const unsigned int lane = threadIdx.x % warpSize;
    if (lane == 9) return;
    to[threadIdx.x] = __shfl_down_sync(0xffffffffu, (double)lane, 1);
}

extern "C" __global__ void shuffles_from_an_absent_lane(double *to)
{
    const unsigned int lane = threadIdx.x % warpSize;
    if (lane < 16) to[threadIdx.x] = __shfl_sync(0x0000ffffu, (double)lane, 20);
}

extern "C" __global__ void reads_misaligned(const double *from, double *to)
{
    const double2 pair = *(const double2 *)(from + 1);
    to[threadIdx.x] = pair.x + pair.y;
}

extern "C" __global__ void writes_read_only(const double *from) { ((double *)from)[threadIdx.x] += 1.0; }

// Reads one element beyond the end of `left`, where another argument may begin.
extern "C" __global__ void reads_adjacent(const double *left, double *right) { right[0] = left[4]; }
