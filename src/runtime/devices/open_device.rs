//! An open device that the products of a runtime share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam::channel::unbounded;

use super::boxed_device::{BoxedDevice, open_device};
use super::device_memory::DeviceMemory;
use super::locked_device::LockedDevice;
use crate::device::{CudaOptions, EmulatedOptions, Reports};
use crate::error::Result;
use crate::graph::DeviceId;
use crate::trace::Clock;

/// An open device of a runtime. A product locks it for the duration of a run.
pub struct OpenDevice {
    state: Mutex<LockedDevice>,
    closed: Arc<AtomicBool>,
    memory: DeviceMemory,
}

impl OpenDevice {
    /// Opens the device named `name`, a CUDA or an emulated one, with the options of its kind.
    pub fn open(name: &str, emulated: EmulatedOptions, cuda: CudaOptions, clock: Clock) -> Result<Self> {
        let reports = Reports::new(DeviceId::HOST, unbounded().0);
        let device = open_device(name, emulated, cuda, clock, reports.clone())?;
        Ok(Self::new(device, reports))
    }

    fn new(device: BoxedDevice, reports: Reports) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let state = LockedDevice::new(device, reports, closed.clone());
        Self { state: Mutex::new(state), closed, memory: DeviceMemory::default() }
    }

    /// The memory that its products share. Locked after the device, where both are.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Whether it can still be used. Does not wait for a product that uses it.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    /// Waits until no other product uses the device.
    pub fn lock(&self) -> MutexGuard<'_, LockedDevice> {
        // A panic while it was locked leaves no invariant broken: the device checks every call itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "open_device_tests.rs"]
mod tests;
