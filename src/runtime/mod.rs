//! Products on the devices of a machine: open a [`Runtime`], build a [`Product`], apply it. Dense products and sums of columns
//! work the same way: [`DenseWork`].
//!
//! [`Runtime::over`] opens a [`Cluster`]: the same product on the ranks of a job, each with its own rows.
//!
//! [`Simulated`] runs a plan in virtual time on simulated devices. [`Timeline`] writes products into a trace.

mod colmean;
pub(crate) mod dense;
#[cfg(all(test, feature = "emulator"))]
mod dense_tests;
mod device_bank;
pub(crate) mod device_list;
pub(crate) mod device_memory;
#[cfg(all(test, feature = "emulator"))]
mod device_memory_tests;
#[cfg(all(test, feature = "emulator"))]
mod fault_policy_tests;
#[cfg(all(test, feature = "emulator"))]
mod fault_sweep;
mod gemm;
pub(crate) mod job;
#[cfg(test)]
mod kinds_tests;
mod open;
pub(crate) mod open_devices;
pub(crate) mod operation_queue;
pub(crate) mod planned;
pub(crate) mod pool;
pub(crate) mod recovery;
pub(crate) mod report;
mod resolve;
pub(crate) mod shared_device;
pub(crate) mod simulate;
pub(crate) mod spmm;
mod timeline;

pub use colmean::{ColumnSums, ColumnSumsBuilder};
pub use dense::{DenseBuilder, DenseJob, DenseOperand, DenseWork};
pub use device_list::{CudaWord, DeviceWord, Devices};
pub use gemm::{BoundGemm, Gemm, GemmBuilder};
pub use job::{Check, Job, PageLockedMultiVector};
pub use open::{Runtime, RuntimeBuilder};
pub use operation_queue::OperationRecord;
pub use planned::Planned;
pub use pool::Pool;
pub use report::{Computed, FaultReport, Round, RunReport};
pub use shared_device::AnyDevice;
pub use simulate::Simulated;
pub use spmm::cluster;
pub use spmm::cluster::{Cluster, ClusterProduct, ClusterProductBuilder, RowBlock};
pub use spmm::{
    Bound, ExportedRows, Input, Matrix, Output, PageLocked, Product, ProductBuilder, ProductOptions,
    SimulatedVectors, TimeParts, Transfer, Vectors,
};
pub use timeline::Timeline;
