//! Measurements of single kernels, conversions and copies: checked, and compared with other libraries.

mod bench;
mod bench_device;
mod calibration;
mod check;
mod compulsory_bytes;
mod description;
mod facts;
mod form_timing;
mod forms;
mod host;
mod host_memory;
mod oracle;
mod pattern;
mod provenance;
mod python_peer;
mod regret;
mod resident;
mod synchronous_device;
mod transfers;

pub use bench::{CaseResult, KernelNames, KernelResult, PeerResult, Subject, bench_kernels};
pub use bench_device::{BenchDevice, subject};
pub use calibration::{CalibrationSettings, calibrate};
pub use check::{Checked, Expected, Sizes, check_product, weighed};
pub use compulsory_bytes::{compulsory_bytes, used_columns};
pub use description::MatrixDescription;
pub use facts::MatrixFacts;
pub use form_timing::warm_up;
pub use forms::{form_names, forms_by_name};
pub use host::HostBench;
pub use host_memory::measure_host;
pub use oracle::{FormTime, OracleCase, OracleSettings, consult, time_forms};
pub use pattern::Pattern;
pub use provenance::{Program, Provenance, RecordedMachine};
pub use python_peer::{PythonPeer, with_threads};
pub use regret::{REGRET_NOISE, Regret};
pub use resident::{ResidentBench, batch};
pub use synchronous_device::SynchronousDevice;
pub use transfers::{
    Direction, LARGEST_BYTES, RegisterTime, SMALLEST_BYTES, TransferBench, TransferKind, TransferTime, sizes,
};
