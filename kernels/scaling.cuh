// The scaling of a product, Y = alpha A X + beta Y, as src/kernel/scaling.rs defines it. The build replaces the #include line by
// this text.

static __device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
static __device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }

static __device__ __forceinline__ void unpack_bits(unsigned long long bits, double &to) { to = __longlong_as_double((long long)bits); }
static __device__ __forceinline__ void unpack_bits(unsigned long long bits, float &to) { to = __int_as_float((int)bits); }

// The factors, as bits of numbers in the kernel's precision, and the number of columns of Y. Instructions read the factors where the
// launch stored them, so that they take no registers.
struct Scaling {
    unsigned long long alpha_bits, beta_bits, k;
    template <typename T> __device__ __forceinline__ T alpha() const
    {
        T value;
        unpack_bits(alpha_bits, value);
        return value;
    }
    template <typename T> __device__ __forceinline__ T beta() const
    {
        T value;
        unpack_bits(beta_bits, value);
        return value;
    }
};

// The parameters of every kernel after its others, and their value.
#define SCALING_PARAMETERS unsigned long long alpha, unsigned long long beta
#define SCALING Scaling{alpha, beta, k}

// The element of Y for a sum and the old element. The old one has no effect if beta is zero.
template <typename T> static __device__ __forceinline__ T scaled(T sum, T old, const Scaling &scaling)
{
    const T product = scaling.alpha<T>() * sum, beta = scaling.beta<T>();
    return beta == T(0) ? product : fused(beta, old, product);
}

// The old element of Y, which is read only if beta is not zero.
template <typename T> static __device__ __forceinline__ T old_element(const T *y, const Scaling &scaling)
{
    return scaling.beta<T>() == T(0) ? T(0) : *y;
}

template <typename T> static __device__ __forceinline__ void store_scaled(T *y, T sum, const Scaling &scaling)
{
    *y = scaled(sum, old_element(y, scaling), scaling);
}
