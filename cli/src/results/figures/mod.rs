//! The figures of a study: one for each question that its sweeps answer.

mod bars;
mod kernels;
mod lines;
mod series;
mod sweep_records;

pub use series::{Naming, grouped, short_reason, size};
pub use sweep_records::count;

use sweep_records::SweepRecords;

use super::config::{StudyConfig, Subject};
use super::record::Record;
use crate::plots::{Figure, share_colours};

/// The name of a choice, and its value in a record.
type Choice = (&'static str, fn(&Record) -> Option<String>);

/// The figures of all sweeps, with one colour for each series name.
pub fn figures(config: &StudyConfig, records: &[Record]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for sweep in &config.sweep {
        let records = records.iter().filter(|record| record.sweep == sweep.name);
        let swept = SweepRecords { sweep, records: records.collect() };
        if swept.timed().next().is_none() {
            continue;
        }
        if sweep.subject == Subject::Conversion {
            figures.extend(bars::conversions(&swept));
            figures.extend(lines::speedup_by_threads(&swept));
            continue;
        }
        if sweep.subject == Subject::Transfers {
            let bytes = |record: &Record| record.chunk_bytes.map_or_else(String::new, size);
            figures.extend(bars::choices(&swept, "chunk_bytes", bytes));
            continue;
        }
        if swept.values(|record| record.threads) > 1 {
            figures.extend(lines::scaling_by_threads(&swept));
            figures.extend(lines::speedup_by_threads(&swept));
        }
        if swept.values(|record| record.ranks) > 1 {
            figures.extend(lines::scaling_by_ranks(&swept));
        } else if swept.values(|record| record.device_count) > 1 {
            figures.extend(lines::scaling_by_devices(&swept));
        } else if swept.values(|record| record.devices.clone()) > 1 {
            figures.extend(bars::choices(&swept, "devices", |record| record.devices.clone()));
        }
        if swept.values(|record| record.k) > 1 {
            figures.extend(lines::rate_by_k(&swept));
        }
        if sweep.subject == Subject::Kernel {
            figures.extend(kernels::roofline(&swept));
            figures.extend(kernels::heat_maps(&swept));
        }
        if !sweep.subject.is_sparse() && swept.values(|record| record.kernel.clone()) > 1 {
            figures.extend(bars::choices(&swept, "kernel", |record| record.kernel.clone()));
        }
        if swept.values(|record| record.chunk_bytes) > 1 {
            figures.extend(lines::overlap_by_chunk(&swept));
        }
        if swept.values(|record| record.cpu_share.map(f64::to_bits)) > 1 {
            figures.extend(lines::time_by_share(&swept));
        }
        let choices: [Choice; 3] = [
            ("mode", |record| record.mode.clone()),
            ("transfer", |record| record.transfer.clone()),
            ("schedule", |record| record.schedule.clone()),
        ];
        for (name, of) in choices {
            if swept.values(of) > 1 {
                figures.extend(bars::choices(&swept, name, |record| of(record).unwrap_or_default()));
            }
        }
    }
    share_colours(&mut figures);
    figures
}

#[cfg(test)]
mod tests;
