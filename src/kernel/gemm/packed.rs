//! The fast product on all cores, with the kernels of the `gemm` crates. A build without the feature `gemm` has [`multiply_rows`] in
//! its place.

#![allow(unsafe_code)] // calls SIMD leaves

#[cfg(feature = "gemm")]
use gemm_common::Parallelism;

#[cfg(feature = "gemm")]
use super::reference;
use super::{check_shapes, multiply_rows};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::Scaling;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};

/// With at most this many rows, to pack B for the crate takes longer than the product itself, which reads B once.
#[cfg(feature = "gemm")]
const FEW_ROWS: usize = 16;

/// The operands of a product as pointers, in the order of the crate: `C = old_factor C + product_factor A B`.
///
/// The caller guarantees that A, B and C have the elements of their shapes, and that C overlaps neither A nor B.
#[cfg(feature = "gemm")]
#[derive(Debug, Clone, Copy)]
pub struct PackedJob<T> {
    shape: [usize; 3],
    a: (*const T, isize),
    b: (*const T, isize),
    c: (*mut T, isize),
    reads_old: bool,
    old_factor: T,
    product_factor: T,
    threads: usize,
}

/// Value types with a packed product: `f64` and `f32`.
pub trait PackedProduct: Kernels {
    /// Runs a job.
    ///
    /// # Safety
    /// The job satisfies its contract.
    #[cfg(feature = "gemm")]
    #[doc(hidden)]
    unsafe fn run(job: PackedJob<Self>);
}

#[cfg(feature = "gemm")]
macro_rules! packed_product {
    ($scalar:ident, $module:path) => {
        impl PackedProduct for $scalar {
            unsafe fn run(job: PackedJob<Self>) {
                use $module as kernels;
                let [rows, columns, depth] = job.shape;
                // The crate's kernels are for matrices stored by columns: Cᵀ = Bᵀ Aᵀ.
                // SAFETY: the job satisfies its contract.
                unsafe {
                    kernels::get_gemm_fn()(
                        columns,
                        rows,
                        depth,
                        job.c.0,
                        job.c.1,
                        1,
                        job.reads_old,
                        job.b.0,
                        job.b.1,
                        1,
                        job.a.0,
                        job.a.1,
                        1,
                        job.old_factor,
                        job.product_factor,
                        false,
                        false,
                        false,
                        if job.threads > 1 { Parallelism::Rayon(job.threads) } else { Parallelism::None },
                    );
                }
            }
        }
    };
}

#[cfg(feature = "gemm")]
packed_product!(f64, gemm_f64::gemm::f64);
#[cfg(feature = "gemm")]
packed_product!(f32, gemm_f32::gemm::f32);
#[cfg(not(feature = "gemm"))]
impl PackedProduct for f64 {}
#[cfg(not(feature = "gemm"))]
impl PackedProduct for f32 {}

/// `C = alpha A B + beta C` in an order that the crate chooses, on the threads of the current pool.
pub fn multiply_packed<T: PackedProduct>(
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    c: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    multiply_packed_on(rayon::current_num_threads(), scaling, a, b, c)
}

/// The same on at most `threads` threads of the current pool; the others stay free for other jobs.
#[cfg(feature = "gemm")]
pub fn multiply_packed_on<T: PackedProduct>(
    threads: usize,
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    mut c: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    check_shapes(a, b, &c)?;
    if a.k() == 0 {
        return reference::multiply(scaling, a, b, c);
    }
    if c.rows() <= FEW_ROWS || c.k() == 0 {
        return multiply_rows(scaling, a, b, c);
    }
    let job = PackedJob {
        shape: [c.rows(), c.k(), a.k()],
        a: (a.data().as_ptr(), a.leading_dimension() as isize),
        b: (b.data().as_ptr(), b.leading_dimension() as isize),
        c: (c.data_mut().as_mut_ptr(), c.leading_dimension() as isize),
        reads_old: scaling.reads_old(),
        old_factor: scaling.beta,
        product_factor: scaling.alpha,
        threads,
    };
    // SAFETY: the views hold the elements of their shapes, and C is a separate borrow.
    unsafe { T::run(job) };
    Ok(())
}

/// The same on one thread.
#[cfg(not(feature = "gemm"))]
pub fn multiply_packed_on<T: PackedProduct>(
    _: usize,
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    c: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    check_shapes(a, b, &c)?;
    multiply_rows(scaling, a, b, c)
}
