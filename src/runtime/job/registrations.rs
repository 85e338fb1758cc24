//! Registrations: of a shared A for the life of a job; of X, Y and a borrowed A during a call.
//!
//! A registration must end before its memory is freed. Otherwise the driver takes other memory at the same address for
//! the registered pages, and copies read the old ones. A program can leak a job, but neither a call nor a part of it.

#![allow(unsafe_code)] // pinned memory: registered bytes that are not freed

use std::sync::Arc;

use crate::device::{Fault, Registration, StableBytes};
use crate::matrix::{MultiVectorViewMut, Scalar};

/// Registered parts of a shared A, with A itself. A borrowed A is not registered, since it may be freed after the job was leaked;
/// [`borrowed`] makes it ready for a call.
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

    /// Registers the `arrays` of a shared A, each with the number of the device that copies it. `register` does so on a device. The
    /// error has the number of the device that refused.
    pub fn register(
        &mut self,
        arrays: impl for<'m> FnOnce(&'m S) -> Vec<(usize, &'m [u8])>,
        register: impl Fn(usize, StableBytes<'static>) -> Result<Registration<'static>, Fault>,
    ) -> Result<(), (usize, Fault)> {
        let Some(shared) = &self.shared else { return Ok(()) };
        // SAFETY: `shared` owns the arrays and keeps them in place, as `Job::Shared` demands, and is dropped after the registrations.
        // If this is leaked, the arrays are leaked, too.
        let stable = |(device, bytes): (usize, &[u8])| (device, unsafe { StableBytes::new(bytes) });
        for (device, bytes) in united(arrays(shared).into_iter().map(stable).collect()) {
            self.registrations.push(register(device, bytes).map_err(|fault| (device, fault))?);
        }
        Ok(())
    }
}

/// The ranges without common bytes, each with the first device that wants a part of it. A driver refuses to register bytes twice, and
/// a copy that begins in one registered range may not end in another: ranges that touch are united, too.
pub fn united(mut ranges: Vec<(usize, StableBytes<'_>)>) -> Vec<(usize, StableBytes<'_>)> {
    ranges.sort_by_key(|(_, bytes)| bytes.address());
    let mut all: Vec<(usize, StableBytes<'_>)> = Vec::new();
    for (device, bytes) in ranges.into_iter().filter(|(_, bytes)| bytes.bytes() > 0) {
        match all.last_mut() {
            Some((first, last)) if let Some(both) = last.joined(bytes) => {
                (*first, *last) = (device.min(*first), both);
            }
            _ => all.push((device, bytes)),
        }
    }
    all
}

/// X or a borrowed A, to be registered during a call: the caller keeps the registration in its own frame, where the program cannot leak
/// it.
pub fn borrowed(bytes: &[u8]) -> StableBytes<'_> {
    // SAFETY: the bytes are borrowed during the call, and the frame that keeps the registration is left before.
    unsafe { StableBytes::new(bytes) }
}

/// The same for Y, which is written while it is registered.
pub fn borrowed_y<'call, T: Scalar>(y: &mut MultiVectorViewMut<'call, T>) -> StableBytes<'call> {
    // SAFETY: the same; the view borrows the memory for `'call`.
    unsafe { StableBytes::new(bytemuck::cast_slice(y.data_mut())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_are_registered_once_by_the_first_of_their_devices() {
        let all: &'static [u8] = Vec::leak(vec![0; 100]);
        let range = |device: usize, begin: usize, end: usize| (device, StableBytes::from(&all[begin..end]));
        let wanted =
            vec![range(2, 19, 40), range(1, 0, 20), range(3, 40, 50), range(1, 60, 70), range(2, 65, 66)];
        let place = |(device, bytes): (usize, StableBytes<'_>)| {
            let begin = bytes.address().as_ptr() as usize - all.as_ptr() as usize;
            (device, begin..begin + bytes.bytes())
        };
        let found: Vec<_> = united(wanted).into_iter().map(place).collect();
        assert_eq!(found, [(1, 0..50), (1, 60..70)]);
        assert!(united(vec![range(1, 10, 10)]).is_empty());
    }
}
