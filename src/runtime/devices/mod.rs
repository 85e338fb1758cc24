//! Worker threads and open devices, which all products of a runtime share.

mod allocations;
mod any_device;
mod device_memory;
#[cfg(all(test, feature = "emulator"))]
mod device_memory_tests;
mod memory_use;
mod open_device;
mod operation_queue;
mod pool;
mod shared_device;

pub use allocations::Allocations;
pub use any_device::{AnyDevice, open_device};
pub use device_memory::LayoutKey;
pub use memory_use::{HeldMemory, MemoryUse};
pub use open_device::OpenDevice;
pub use operation_queue::{COMPUTE, DOWNLOAD, OperationRecord, UPLOAD};
pub use pool::Pool;
pub use shared_device::SharedDevice;
