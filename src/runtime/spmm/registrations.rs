//! Registrations: of a shared A for the life of a product; of X, Y and a borrowed A during a call.
//!
//! A registration must end before its memory is freed. Otherwise the driver takes other memory at the same address for
//! the registered pages, and copies read the old ones. A program can leak a product, but neither a call nor a part of it.

#![allow(unsafe_code)] // pinned memory: registered bytes that are not freed

use super::matrix::Matrix;
use crate::device::{Fault, Registration, StableBytes};
use crate::matrix::{CsrView, MultiVectorViewMut, Scalar};
use crate::runtime::shared_device::OpenDevice;

/// Registered parts of A, with A itself if it is shared. A borrowed A is not registered, since it may be freed after the product was
/// leaked; [`register_borrowed`] registers it.
pub struct RegisteredMatrix<'a, T: Scalar> {
    // Dropped first.
    registrations: Vec<Registration<'static>>,
    matrix: Matrix<'a, T>,
}

impl<'a, T: Scalar> RegisteredMatrix<'a, T> {
    /// No part of `matrix` is registered yet.
    pub fn new(matrix: Matrix<'a, T>) -> Self {
        Self { registrations: Vec::new(), matrix }
    }

    /// Registers the bytes of each of the `arrays` of a shared matrix.
    pub fn register(
        &mut self,
        device: &mut OpenDevice,
        arrays: impl for<'m> FnOnce(CsrView<'m, T>) -> Vec<&'m [u8]>,
    ) -> Result<(), Fault> {
        let Matrix::Shared(matrix) = &self.matrix else { return Ok(()) };
        for bytes in arrays(matrix.view()) {
            // SAFETY: `matrix` shares the arrays, which stay in place, and is dropped after the registrations. If this is leaked,
            // the arrays are leaked, too.
            let bytes = unsafe { StableBytes::new(bytes) };
            self.registrations.push(device.register(bytes)?);
        }
        Ok(())
    }
}

/// Registers X or a borrowed A during a call: the caller keeps the registration in its own frame, where the program cannot leak it.
pub fn register_borrowed<'call>(
    device: &mut OpenDevice,
    bytes: &'call [u8],
) -> Result<Registration<'call>, Fault> {
    // SAFETY: the bytes are borrowed for `'call`, and the frame that keeps the registration is left before.
    device.register(unsafe { StableBytes::new(bytes) })
}

/// The same for Y, which is written while it is registered.
pub fn register_y<'call, T: Scalar>(
    device: &mut OpenDevice,
    y: &mut MultiVectorViewMut<'call, T>,
) -> Result<Registration<'call>, Fault> {
    // SAFETY: the same; the view borrows the memory for `'call`.
    device.register(unsafe { StableBytes::new(bytemuck::cast_slice(y.data_mut())) })
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use std::sync::Arc;

    use crate::adapt::Resolved;
    use crate::cost::{emulated_profile, host_rates};
    use crate::matrix::{Csr, MultiVector, generate};
    use crate::plan::{DeviceSpec, Mode};
    use crate::runtime::{Matrix, ProductOptions, Runtime, Transfer};

    /// Allocations and registrations on the device of a product that copies in place: before, during and after a call of `bind`.
    fn resources_in_use(a: Matrix<'_, f64>) -> [usize; 3] {
        let runtime = Runtime::builder().devices("emu:0").model("none").open().unwrap();
        let mut profile = emulated_profile().unwrap();
        profile.link.as_mut().unwrap().register_s_per_gb = Some(0.0);
        let devices =
            vec![DeviceSpec { name: "emu:0".into(), profile, memory_limit_bytes: None, required: true }];
        let resolved = Resolved { devices, host: host_rates(2).unwrap(), refined: None, has_model: false };
        let options = ProductOptions {
            mode: Some(Mode::Stream),
            transfer: Transfer::Registered,
            bound: true,
            fixed: true,
            ..ProductOptions::default()
        };
        let (rows, columns) = (a.view().rows(), a.view().cols());
        let mut product = runtime.product(a).columns(4).options(options).resolved(resolved).build().unwrap();
        let device = runtime.device("emu:0").unwrap();
        let in_use = || device.lock().device().resources_in_use();
        product.prepare().unwrap();
        let before = in_use();
        let x = MultiVector::zeros(columns, 4).unwrap();
        let mut y = MultiVector::zeros(rows, 4).unwrap();
        let during = product.bind(&x, &mut y, |bound| bound.apply().map(|()| in_use())).unwrap();
        let after = in_use();
        // A program may leak the product and then free a borrowed A.
        std::mem::forget(product);
        assert_eq!(in_use(), after);
        [before, during, after]
    }

    #[test]
    fn a_leaked_product_leaves_no_memory_of_the_caller_registered() {
        let a: Csr<f64> = generate("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
        let [allocations, during, after] = resources_in_use((&a).into());
        // The three arrays of A, X and Y.
        assert_eq!((during, after), (allocations + 5, allocations));
        // A shared matrix is leaked together with its product, and stays registered.
        let shared = Arc::new(a);
        let [before, during, after] = resources_in_use(shared.clone().into());
        assert_eq!([before, during, after], [3, 5, 3].map(|registrations| allocations + registrations));
        assert!(Arc::strong_count(&shared) > 1);
    }
}
