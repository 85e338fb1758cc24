//! Registrations: of a shared A for the life of a job; of X, Y and a borrowed A during a call.
//!
//! A registration must end before its memory is freed. Otherwise the driver takes other memory at the same address for
//! the registered pages, and copies read the old ones. A program can leak a job, but neither a call nor a part of it.

#![allow(unsafe_code)] // pinned memory: registered bytes that are not freed

use std::sync::Arc;

use crate::device::{Fault, Registration, StableBytes};
use crate::matrix::{MultiVectorViewMut, Scalar};
use crate::runtime::shared_device::OpenDevice;

/// Registered parts of a shared A, with A itself. A borrowed A is not registered, since it may be freed after the job was leaked;
/// [`register_borrowed`] registers it.
pub struct RegisteredA<S> {
    // Dropped first.
    registrations: Vec<Registration<'static>>,
    shared: Option<Arc<S>>,
}

impl<S> RegisteredA<S> {
    /// No part of A is registered yet. `shared` is `None` if A is borrowed.
    pub fn new(shared: Option<Arc<S>>) -> Self {
        Self { registrations: Vec::new(), shared }
    }

    /// Registers the bytes of each of the `arrays` of a shared A.
    pub fn register(
        &mut self,
        device: &mut OpenDevice,
        arrays: impl for<'m> FnOnce(&'m S) -> Vec<&'m [u8]>,
    ) -> Result<(), Fault> {
        let Some(shared) = &self.shared else { return Ok(()) };
        for bytes in arrays(shared) {
            // SAFETY: `shared` owns the arrays and keeps them in place, as `Job::Shared` demands, and is dropped after the registrations.
            // If this is leaked, the arrays are leaked, too.
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
