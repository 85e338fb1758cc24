//! Measurements: every kernel alone on its device, checked, beside the vendor's library.

mod bench;
mod check;
mod host;
mod host_memory;
mod oracle;
mod resident;
mod room;
mod summary;
mod times;

pub use bench::{BenchSettings, CaseResult, KernelNames, KernelResult, PeerResult, Subject, bench_kernels};
pub use check::{Checked, Expected, Sizes};
pub use host::HostBench;
pub use host_memory::measure_host;
pub use oracle::{FormTime, OracleCase, OracleSettings, RIGHT, Regret, consult, time_forms};
pub use resident::ResidentBench;
pub use room::Room;
pub use summary::{Summary, compulsory_bytes, used_columns};
pub use times::Times;
