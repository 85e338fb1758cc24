// Common code of dense products C = alpha A B + beta C, after packs.cuh and vectors.cuh. The build replaces the #include line by this
// text.
//
// A is rows by depth, B is depth by columns, C is rows by columns, all stored by rows. Every element is one chain of fused
// multiply-adds over the depth in order, which starts at +0; src/kernel/gemm/mod.rs defines it. Tiles along the columns are strided
// by the grid, so that any number of columns can be launched.

#define OF_PRODUCT(T)                                                                                                  \
    u64 rows, u64 columns, u64 depth, const T *__restrict__ a, u64 lda, const T *__restrict__ b, u64 ldb,               \
        T *__restrict__ c, u64 ldc, u64 alpha, u64 beta
#define PRODUCT rows, columns, depth, a, lda, b, ldb, c, ldc, alpha, beta

// The element of C for a sum. The old element is read only if beta is not zero.
template <typename T> static __device__ __forceinline__ T scaled_element(T sum, const T *old, T alpha, T beta)
{
    const T product = alpha * sum;
    return beta == T(0) ? product : fused(beta, *old, product);
}
