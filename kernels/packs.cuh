// Packs of E elements, which are loaded and stored at once. The build replaces the #include line by this text.

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
