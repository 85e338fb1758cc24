//! The records of one sweep, and what figures ask of them.

use crate::results::config::{Subject, Sweep};
use crate::results::record::{Measured, Record};

/// The records of one sweep, with and without times.
pub struct SweepRecords<'a> {
    pub sweep: &'a Sweep,
    pub records: Vec<&'a Record>,
}

impl<'a> SweepRecords<'a> {
    /// The records with times of verified results.
    pub fn timed(&self) -> impl Iterator<Item = &'a Record> {
        self.records.iter().copied().filter(|record| record.verified_s().is_some())
    }

    /// The noun for the times: measured ones are medians, simulated ones are not.
    pub fn time_noun(&self) -> &'static str {
        let (simulated, measured): (Vec<&Record>, Vec<&Record>) = self.timed().partition(|r| r.simulated);
        match (simulated.is_empty(), measured.is_empty()) {
            (true, _) => "median time",
            (false, true) => "simulated time",
            (false, false) => "median time or simulated time",
        }
    }

    /// A sentence on the error bars, where there are any.
    pub fn error_bars(&self) -> &'static str {
        match self.timed().all(|record| record.simulated) {
            true => "",
            false => " Error bars: noise of the median (95 %).",
        }
    }

    /// Whether matrices grow along an axis: then all of them belong to one series.
    pub fn grows(&self) -> bool {
        self.sweep.matrices.iter().any(|matrix| matrix.contains('{'))
    }

    /// The stem of a figure's file: the sweep and the question, without a word that would stand twice in a row.
    pub fn id(&self, question: &str) -> String {
        let word = |text: &str| -> String {
            let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let letters: String = text.chars().map(letter).collect();
            letters.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
        };
        let (sweep, question) = (word(&self.sweep.name), word(question));
        let last = sweep.rsplit('-').next().unwrap_or_default();
        match question.strip_prefix(last) {
            Some("") => sweep,
            Some(rest) if rest.starts_with('-') => format!("{sweep}{rest}"),
            _ => format!("{sweep}-{question}"),
        }
    }

    /// The noun for what a time is of.
    pub fn unit(&self) -> &'static str {
        match self.sweep.subject {
            Subject::PowerIteration | Subject::SubspaceIteration => "solve",
            Subject::Colmean => "run",
            Subject::Transfers => "copy",
            _ => "product",
        }
    }

    /// The number of distinct values in the records with times.
    pub fn values<K: PartialEq>(&self, of: impl Fn(&Record) -> K) -> usize {
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

/// Whether a record is of a serial kernel or conversion.
pub fn is_serial(record: &Record) -> bool {
    record.kernel.starts_with("serial_")
        || record.kernel.ends_with(", serial")
        || record.measured == Measured::Peer && record.kernel == "scipy"
}

/// `1 thread`, `2 threads`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
