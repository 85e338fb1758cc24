//! Results of studies: the configuration and its cases, records, the journal, and the figures, answers and page made of them.

mod answer;
mod baseline;
mod cases;
mod comparison;
mod config;
mod figures;
mod journal;
mod page;
mod rank_sweep;
mod ranking;
mod record;
mod required_keys;
mod scaled_names;
mod scaling;
mod table;
mod timeline;
mod wording;

pub use answer::answers;
pub use baseline::{ONE_THREAD_KERNEL, add_peer_speedups, add_speedups};
pub use cases::Case;
pub use comparison::{CaseChange, Change, Comparison, KernelChange, LEAST_DIFFERENCE, Verdict};
pub use config::{Baseline, Measure, StudyConfig, Subject as StudySubject, Sweep, Threads};
pub use figures::figures;
pub use journal::{Journal, key_of};
pub use page::{Results, page};
pub use ranking::{Standing, standings};
pub use record::{BYTE_MODEL, Measured, Record, records_of};
pub use table::{csv, markdown};
pub use timeline::timeline;
