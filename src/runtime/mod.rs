//! Products on the devices of a machine: open a [`Runtime`], build a [`Product`], apply it.
//!
//! [`Simulated`] runs a plan in virtual time on simulated devices. [`Timeline`] writes products into a trace.

mod adaptation;
mod device_bank;
mod device_list;
#[cfg(all(test, feature = "emulator"))]
mod fault_sweep;
mod matrix;
mod open;
mod open_devices;
mod operand;
mod operation_queue;
mod planned;
mod pool;
mod product;
mod product_builder;
mod recovery;
mod registrations;
mod report;
mod resolve;
mod shared_device;
mod simulate;
mod spmm;
mod timeline;
mod vectors;

pub use device_list::{CudaWord, DeviceWord, Devices};
pub use matrix::Matrix;
pub use open::{Runtime, RuntimeBuilder};
pub use operand::{Input, Output};
pub use planned::Planned;
pub use pool::Pool;
pub use product::{Bound, Product};
pub use product_builder::{ProductBuilder, ProductOptions, Transfer};
pub use report::{Computed, FaultReport, Round, RunReport};
pub use shared_device::AnyDevice;
pub use simulate::Simulated;
pub use timeline::Timeline;
pub use vectors::Vectors;
