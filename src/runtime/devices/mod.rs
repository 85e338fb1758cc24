//! Worker threads and open devices, which all products of a runtime share.

mod allocations;
mod boxed_device;
mod device_memory;
#[cfg(all(test, feature = "emulator"))]
mod device_memory_tests;
mod locked_device;
mod memory_use;
mod open_device;
mod operation_queue;
mod pool;

pub use allocations::Allocations;
pub use boxed_device::{BoxedDevice, open_device};
pub use device_memory::LayoutKey;
pub use locked_device::LockedDevice;
pub use memory_use::{HeldMemory, MemoryUse};
pub use open_device::OpenDevice;
pub use operation_queue::{COMPUTE, DOWNLOAD, OperationRecord, Submission, UPLOAD};
pub use pool::Pool;
