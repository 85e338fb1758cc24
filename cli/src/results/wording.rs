//! Numbers and refusals in the words of answers.

use super::figures::{count, grouped, short_reason};
use super::record::Record;

/// A sentence for each reason why records have no times.
pub fn not_measured(records: &[&Record]) -> Vec<String> {
    let refused: Vec<&Record> = records.iter().copied().filter(|record| record.reason.is_some()).collect();
    let sentence = |(reason, members): (String, Vec<&Record>)| {
        let verb = if members.len() == 1 { "was" } else { "were" };
        format!("{} {verb} not measured: {reason}.", count(members.len(), "result"))
    };
    grouped(&refused, short_reason).into_iter().map(sentence).collect()
}

/// A number with three significant digits.
pub fn digits(value: f64) -> String {
    let decimals = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", decimals as usize)
}

/// Seconds in the unit that fits.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{} s", digits(s)),
        s if s >= 1e-3 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} µs", digits(s * 1e6)),
    }
}
