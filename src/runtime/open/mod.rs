//! The runtime of a program: the devices that were named, those that the machine has, and their profiles.

mod device_list;
mod resolve;
mod runtime;
mod runtime_devices;

pub use device_list::{CudaWord, DeviceWord, Devices};
pub use runtime::{Runtime, RuntimeBuilder};
