//! Registrations that outlive one run: of A for the life of a product, of X and Y while they are bound.
//!
//! A registration must end before its memory is freed. Otherwise the driver takes other memory at the same address for
//! the registered pages, and copies read the old ones.

#![allow(unsafe_code)] // pinned memory: registered bytes that are written while they are registered

use super::matrix::Matrix;
use super::shared_device::OpenDevice;
use crate::device::{Fault, Registration};
use crate::matrix::{CsrView, MultiVectorViewMut, Scalar};

/// Registered parts of A, with A itself: the arrays outlive their registrations. If all of it is leaked, a shared A stays allocated; a
/// borrowed A must not be freed then.
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

    /// Registers the bytes of each of the `arrays` of the matrix.
    pub fn register(
        &mut self,
        device: &mut OpenDevice,
        arrays: impl for<'m> FnOnce(CsrView<'m, T>) -> Vec<&'m [u8]>,
    ) -> Result<(), Fault> {
        for bytes in arrays(self.matrix.view()) {
            let registration = device.register(bytes)?;
            // SAFETY: `matrix` shares or borrows the arrays, which stay in place, and is dropped after the registrations.
            self.registrations.push(unsafe { registration.extend() });
        }
        Ok(())
    }
}

/// Registers the memory of Y, which is written while it is registered.
pub fn register_y<'y, T: Scalar>(
    device: &mut OpenDevice,
    y: &mut MultiVectorViewMut<'y, T>,
) -> Result<Registration<'y>, Fault> {
    let registration = device.register(bytemuck::cast_slice(y.data_mut()))?;
    // SAFETY: the view borrows the memory for `'y`.
    Ok(unsafe { registration.extend() })
}
