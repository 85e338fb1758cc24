//! Worker threads and open devices, which all products of a runtime share.

mod device_memory;
#[cfg(all(test, feature = "emulator"))]
mod device_memory_tests;
mod operation_queue;
mod pool;
mod shared_device;

pub use device_memory::{HeldMemory, LayoutKey, MemoryUse};
pub use operation_queue::{COMPUTE, DOWNLOAD, OperationRecord, UPLOAD};
pub use pool::Pool;
pub use shared_device::{Allocations, AnyDevice, OpenDevice, SharedDevice, open_device};
