//! The figures of a study: one for each question that its sweeps can answer.

mod bars;
mod kernels;
mod lines;
mod series;

use super::config::{StudyConfig, Subject, Sweep};
use super::record::{Measured, Record};
use crate::report::Figure;

/// The records of one sweep that have times.
struct Swept<'a> {
    sweep: &'a Sweep,
    records: Vec<&'a Record>,
}

impl Swept<'_> {
    /// Whether matrices grow along an axis, so that their names say nothing.
    fn grows(&self) -> bool {
        self.sweep.matrices.iter().any(|matrix| matrix.contains('{'))
    }

    /// The stem of a figure's file.
    fn id(&self, question: &str) -> String {
        let word = |text: &str| -> String {
            let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let letters: String = text.chars().map(letter).collect();
            letters.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
        };
        format!("{}-{}", word(&self.sweep.name), word(question))
    }

    /// How many values something takes.
    fn values<K: PartialEq>(&self, of: impl Fn(&Record) -> K) -> usize {
        let mut known: Vec<K> = Vec::new();
        for record in &self.records {
            let value = of(record);
            if !known.contains(&value) {
                known.push(value);
            }
        }
        known.len()
    }
}

/// A word that a case is asked for with: its name, and what a record has of it.
type Choice = (&'static str, fn(&Record) -> Option<String>);

/// Every figure that the records can fill; what was not swept is not asked.
pub fn figures(config: &StudyConfig, records: &[Record]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for sweep in &config.sweep {
        let timed = |record: &&Record| record.sweep == sweep.name && record.times.median.is_some();
        let swept = Swept { sweep, records: records.iter().filter(timed).collect() };
        if swept.records.is_empty() {
            continue;
        }
        if sweep.subject == Subject::Conversion {
            figures.extend(bars::conversions(&swept));
            figures.extend(lines::speedup_by_threads(&swept));
            continue;
        }
        if swept.values(|record| record.threads) > 1 {
            figures.extend(lines::scaling_by_threads(&swept));
            figures.extend(lines::speedup_by_threads(&swept));
        }
        if swept.values(|record| record.device_count) > 1 {
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
    figures
}

/// Whether a record is of a serial kernel, which threads do not matter to.
fn is_serial(record: &Record) -> bool {
    record.kernel.starts_with("serial_") || record.measured == Measured::Peer && record.kernel == "scipy"
}

#[cfg(test)]
mod tests;
