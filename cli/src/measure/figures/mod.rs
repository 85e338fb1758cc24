//! The figures of a study: one for each question that its sweeps answer.

mod bars;
mod kernels;
mod lines;
mod series;

pub(super) use series::{Naming, grouped, short_reason, size};

use super::config::{StudyConfig, Subject, Sweep};
use super::record::{Measured, Record};
use crate::plots::{Figure, share_colours};

/// The records of one sweep, with and without times.
struct Swept<'a> {
    sweep: &'a Sweep,
    records: Vec<&'a Record>,
}

impl<'a> Swept<'a> {
    /// The records with times of verified results.
    fn timed(&self) -> impl Iterator<Item = &'a Record> {
        self.records.iter().copied().filter(|record| record.verified_s().is_some())
    }

    /// The noun for the times: measured ones are medians, simulated ones are not.
    fn time_noun(&self) -> &'static str {
        let (simulated, measured): (Vec<&Record>, Vec<&Record>) = self.timed().partition(|r| r.simulated);
        match (simulated.is_empty(), measured.is_empty()) {
            (true, _) => "median time",
            (false, true) => "simulated time",
            (false, false) => "median time or simulated time",
        }
    }

    /// A sentence on the error bars, where there are any.
    fn error_bars(&self) -> &'static str {
        match self.timed().all(|record| record.simulated) {
            true => "",
            false => " Error bars: noise of the median (95 %).",
        }
    }

    /// Whether matrices grow along an axis: then all of them belong to one series.
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

    /// The noun for what a time is of.
    fn unit(&self) -> &'static str {
        match self.sweep.subject {
            Subject::PowerIteration | Subject::SubspaceIteration => "solve",
            Subject::Colmean => "run",
            Subject::Transfers => "copy",
            _ => "product",
        }
    }

    /// The number of distinct values in the records with times.
    fn values<K: PartialEq>(&self, of: impl Fn(&Record) -> K) -> usize {
        let mut known: Vec<K> = Vec::new();
        for record in self.timed() {
            let value = of(record);
            if !known.contains(&value) {
                known.push(value);
            }
        }
        known.len()
    }
}

/// The name of a choice, and its value in a record.
type Choice = (&'static str, fn(&Record) -> Option<String>);

/// The figures of all sweeps, with one colour for each series name.
pub fn figures(config: &StudyConfig, records: &[Record]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for sweep in &config.sweep {
        let records = records.iter().filter(|record| record.sweep == sweep.name);
        let swept = Swept { sweep, records: records.collect() };
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

/// Whether a record is of a serial kernel or conversion.
fn is_serial(record: &Record) -> bool {
    record.kernel.starts_with("serial_")
        || record.kernel.ends_with(", serial")
        || record.measured == Measured::Peer && record.kernel == "scipy"
}

/// `1 thread`, `2 threads`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests;
