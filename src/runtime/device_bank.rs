//! The open devices of a runtime, by name. A device is opened when it is first needed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::shared_device::SharedDevice;
use crate::device::{CudaOptions, EmulatedOptions};
use crate::error::Result;
use crate::trace::Clock;

/// The options of devices, by device name.
#[derive(Debug, Clone, Default)]
pub struct DeviceOptions {
    /// Of emulated devices.
    pub emulated: Vec<(String, EmulatedOptions)>,
    /// Of CUDA devices.
    pub cuda: Vec<(String, CudaOptions)>,
}

/// The open devices of a runtime.
pub struct DeviceBank {
    clock: Clock,
    open: Mutex<HashMap<String, Arc<SharedDevice>>>,
}

impl DeviceBank {
    /// No device is open yet. Their times will be on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { clock, open: Mutex::default() }
    }

    /// The clock of all devices.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The device named `name`, which is opened with `options` unless it is open.
    pub fn get(&self, name: &str, options: &DeviceOptions) -> Result<Arc<SharedDevice>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(name).filter(|device| device.lock().is_open()) {
            return Ok(device.clone());
        }
        fn find<T: Copy + Default>(name: &str, options: &[(String, T)]) -> T {
            options.iter().find(|(of, _)| of == name).map(|(_, options)| *options).unwrap_or_default()
        }
        let (emulated, cuda) = (find(name, &options.emulated), find(name, &options.cuda));
        let device = Arc::new(SharedDevice::open(name, emulated, cuda, self.clock)?);
        open.insert(name.into(), device.clone());
        Ok(device)
    }
}
