// Kernels for the emulator's own tests: small ones that use every word of CUDA, and ones with a fault planted in them.

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

// Answers, in order: votes, shuffles, atomics and vector loads, of a block of 64 threads in two dimensions.
extern "C" __global__ void __launch_bounds__(64) words_of_cuda(const double *pairs, double *out, unsigned int *counts)
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

// Only the first `writers` blocks write what all of them read.
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

extern "C" __global__ void writes_what_it_may_read(const double *from) { ((double *)from)[threadIdx.x] += 1.0; }

// Reads one element behind `left`, where another argument may begin.
extern "C" __global__ void reads_next_door(const double *left, double *right) { right[0] = left[4]; }
