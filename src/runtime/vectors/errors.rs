//! Errors of multivectors that stay on devices.

use crate::device::Fault;
use crate::error::Error;

/// A part that does not exist, or that is elsewhere.
pub fn missing_part() -> Error {
    Error::Internal("a multivector has no such part".into())
}

/// The rows of a device that was lost together with them.
pub fn rows_lost(device: &str) -> Error {
    let reason = "the device was lost, and the host has no copy of its rows of a multivector; keep_host_copy makes one";
    Error::Device { device: device.into(), reason: reason.into() }
}

/// Scalars that were in the memory of a lost device.
pub fn scalars_lost(device: &str) -> Error {
    let reason = "the device was lost with the scalars in its memory; compute them again";
    Error::Device { device: device.into(), reason: reason.into() }
}

pub fn misuse(fault: Fault) -> Error {
    Error::Internal(fault.message)
}

pub fn unaligned(error: bytemuck::PodCastError) -> Error {
    Error::Internal(format!("pinned memory is not aligned for its values: {error}"))
}
