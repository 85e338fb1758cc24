//! The scaling of a product, `Y = alpha A X + beta Y`, at the place where a row of Y is stored.

#![allow(unsafe_code)] // SIMD leaf

use crate::isa::Isa;
use crate::number::Number;
use crate::vector::Vector;

/// The factors of `Y = alpha A X + beta Y`, in the precision of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling<T> {
    /// Factor of A X.
    pub alpha: T,
    /// Factor of the old Y. If it is zero, the old Y is not read: it may hold NaN or no value at all.
    pub beta: T,
}

impl<T: Number> Scaling<T> {
    /// Whether the old Y is read.
    #[inline(always)]
    pub fn reads_old(self) -> bool {
        self.beta != T::ZERO
    }

    /// The element of Y for a sum of A X and the old element: `fma(beta, old, alpha * sum)`, or `alpha * sum` if beta is zero.
    #[inline(always)]
    pub fn apply(self, sum: T, old: T) -> T {
        let scaled = self.alpha.times(sum);
        if self.reads_old() { self.beta.fused_multiply_add(old, scaled) } else { scaled }
    }

    /// As [`Self::apply`], for all lanes; `old` is called only if the old Y is read.
    #[inline(always)]
    pub(super) unsafe fn apply_vector<V: Vector<Element = T>>(self, sum: V, old: impl FnOnce() -> V) -> V {
        // SAFETY: arithmetic only; the caller ensures that the processor has the instruction set of `V`.
        unsafe {
            let scaled = V::splat(self.alpha).multiply(sum);
            if self.reads_old() { V::splat(self.beta).multiply_add(old(), scaled) } else { scaled }
        }
    }
}

/// Stores scaled sums that were computed to a buffer: `y = scaling.apply(sum, y)` for each element. Calling it is unsafe: the
/// processor must have the instruction set that it was selected for.
pub type ScaledStore<T> = unsafe fn(Scaling<T>, &[T], &mut [T]);

#[inline(always)]
fn store_scaled<T: Number>(scaling: Scaling<T>, sums: &[T], y: &mut [T]) {
    for (y, &sum) in y.iter_mut().zip(sums) {
        *y = scaling.apply(sum, *y);
    }
}

fn portable<T: Number>(scaling: Scaling<T>, sums: &[T], y: &mut [T]) {
    store_scaled(scaling, sums, y);
}

// The same loop; with these features the compiler uses vector registers and the instruction for fused multiply-adds.
#[cfg(simd)]
#[target_feature(enable = "avx2,fma")]
fn avx2<T: Number>(scaling: Scaling<T>, sums: &[T], y: &mut [T]) {
    store_scaled(scaling, sums, y);
}

/// The store for an instruction set. AVX-512 gains nothing over AVX2 here.
pub(super) fn select<T: Number>(isa: Isa) -> ScaledStore<T> {
    match isa {
        #[cfg(simd)]
        Isa::Avx2 | Isa::Avx512 => avx2::<T>,
        _ => portable::<T>,
    }
}
