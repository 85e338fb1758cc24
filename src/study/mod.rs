//! Measurements: every kernel alone on its device, checked, beside the vendor's library.

mod bench;
mod check;
mod doubts;
mod host;
mod host_memory;
mod oracle;
mod journal;
mod provenance;
mod python_peer;
mod record;
mod resident;
mod room;
mod sampling;
mod summary;
mod table;
mod times;
mod welford;

pub use bench::{CaseResult, KernelNames, KernelResult, PeerResult, Subject, bench_kernels};
pub use check::{Checked, Expected, Sizes};
pub use doubts::doubts;
pub use host::HostBench;
pub use host_memory::measure_host;
pub use oracle::{FormTime, OracleCase, OracleSettings, RIGHT, Regret, consult, time_forms};
pub use journal::{Journal, key_of};
pub use provenance::{Place, Program, Provenance};
pub use python_peer::PythonPeer;
pub use record::{BYTE_MODEL, MatrixFacts, Measured, Record, add_speedups, records_of};
pub use resident::ResidentBench;
pub use room::Room;
pub use sampling::{BenchSettings, Sampler, TIME_CAP_S};
pub use summary::{Summary, compulsory_bytes, used_columns};
pub use table::{csv, markdown};
pub use times::Times;
pub use welford::Welford;
