//! Products on the devices of a machine: open a [`Runtime`], build a [`Product`], apply it. Dense products and sums of columns
//! work the same way: [`DenseWork`].
//!
//! [`Runtime::over`] opens a [`Cluster`]: the same product on the ranks of a job, each with its own rows.
//!
//! [`Simulated`] runs a plan in virtual time on simulated devices. [`Timeline`] writes products into a trace.
//!
//! Each folder uses only those above it:
//!
//! | folder | contents |
//! |---|---|
//! | `options` | what programs say of a product |
//! | `devices` | worker threads and open devices, which products share |
//! | `run` | one run of a planned graph on open devices or in virtual time; its report, and its spans in a trace |
//! | `open` | the runtime: which devices were named, which there are, their profiles |
//! | `job` | jobs of any kind of work: memory on devices, operations of tasks, recovery, checks |
//! | `spmm` | the job of a product with a sparse A |
//! | `vectors` | multivectors that stay on devices, and products on them |
//! | `product` | a sparse product as programs use it, which changes its plan after measured products |
//! | `cluster` | a sparse product on the ranks of a job |
//! | `dense` | jobs with a dense A: dense products and sums of columns |

pub mod cluster;
pub(crate) mod dense;
pub(crate) mod devices;
pub(crate) mod job;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod product;
pub(crate) mod run;
pub(crate) mod spmm;
#[cfg(test)]
mod tests;
pub(crate) mod vectors;

pub use cluster::{Cluster, ClusterProduct, ClusterProductBuilder, RowBlock};
pub use dense::colmean::{ColumnSums, ColumnSumsBuilder};
pub use dense::gemm::{BoundGemm, Gemm, GemmBuilder};
pub use dense::{DenseBuilder, DenseJob, DenseOperand, DenseWork};
pub use devices::{BoxedDevice, OperationRecord, Pool};
pub use job::{Job, PageLockedMultiVector};
pub use open::{CudaWord, DeviceWord, Devices, Runtime, RuntimeBuilder};
pub use options::{Check, ProductOptions, Transfer};
pub use product::{Bound, Product, ProductBuilder};
pub use run::{Computed, FaultReport, Planned, Round, RunReport, Simulated, Timeline};
pub use spmm::Matrix;
pub use vectors::{
    Coefficient, ExportedRows, Input, Output, PageLocked, Scalars, SimulatedVectors, TimeParts, Vectors,
};
