//! Measurements: single kernels and whole products, checked, compared with other libraries.

mod answer;
mod baseline;
mod bench;
mod bench_device;
mod calibration;
mod cases;
mod check;
mod config;
mod doubts;
mod facts;
mod figures;
mod form_timing;
mod growing;
mod host;
mod host_memory;
mod interval;
mod journal;
mod noise;
mod oracle;
mod page;
mod provenance;
mod python_peer;
mod rank_sweep;
mod ranking;
mod record;
mod regret;
mod resident;
mod sampling;
mod scaling;
mod solver;
mod summary;
mod synchronous_device;
mod table;
mod timeline;
mod times;
mod transfers;
mod welford;

pub use answer::answers;
pub use baseline::{CaseChange, Change, Comparison, KernelChange, LEAST_DIFFERENCE, Verdict};
pub use bench::{CaseResult, KernelNames, KernelResult, PeerResult, Subject, bench_kernels};
pub use bench_device::{BenchDevice, subject};
pub use calibration::{CalibrationSettings, calibrate};
pub use cases::Case;
pub use check::{Checked, Expected, Sizes, check_product, weighed};
pub use config::{Measure, StudyConfig, Subject as StudySubject, Sweep, Threads};
pub use doubts::doubts;
pub use facts::MatrixFacts;
pub use figures::figures;
pub use form_timing::warm_up;
pub use host::HostBench;
pub use host_memory::measure_host;
pub use interval::{MedianInterval, TimeRatio};
pub use journal::{Journal, key_of};
pub use noise::{Difference, difference, noise_interval};
pub use oracle::{FormTime, OracleCase, OracleSettings, consult, form_names, forms_by_name, time_forms};
pub use page::{Results, page};
pub use provenance::{Place, Program, Provenance};
pub use python_peer::PythonPeer;
pub use ranking::{Standing, standings};
pub use record::{BYTE_MODEL, Measured, Record, add_speedups, records_of};
pub use regret::{REGRET_NOISE, Regret};
pub use resident::{ResidentBench, batch};
pub use sampling::{BenchSettings, Sampler, TIME_CAP_S};
pub use solver::{
    PowerSettings, SolverReport, SpectrumEnd, SubspaceSettings, power_iteration, start_vectors,
    subspace_iteration,
};
pub use summary::{Summary, compulsory_bytes, used_columns};
pub use synchronous_device::SynchronousDevice;
pub use table::{csv, markdown};
pub use timeline::timeline;
pub use times::Times;
pub use transfers::{
    Direction, LARGEST_BYTES, RegisterTime, SMALLEST_BYTES, TransferBench, TransferKind, TransferTime, sizes,
};
pub use welford::Welford;
