//! Results of a study without times, and their reasons.

use crate::args::options::count_devices;
use crate::console::advice;
use crate::console::table::count_of;
use crate::measure::MatrixFacts;
use crate::results::{Case, Measured, Record, StudySubject};
use rowloom::internal::error::Error;

/// Reasons for missing results that are printed; results.csv has all of them.
const SHOWN_REASONS: usize = 4;

/// Whether there is a time.
pub fn is_measured(record: &Record) -> bool {
    record.times.median.is_some()
}

/// Why results are missing: each reason with the number of results it explains; none where every result is there.
pub fn refusals(records: &[Record]) -> Option<String> {
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for reason in records.iter().filter_map(|record| record.reason.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let more = reasons.len().saturating_sub(SHOWN_REASONS);
    let mut parts: Vec<String> = reasons
        .iter()
        .take(SHOWN_REASONS)
        .map(|(reason, count)| format!("{} ({reason})", count_of(*count, "result", "results")))
        .collect();
    if more > 0 {
        parts.push(format!("and {} in results.csv", count_of(more as u64, "more reason", "more reasons")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The record of a case that could not be measured. `loaded` is the matrix in memory, which names it as other records do.
pub fn refused(case: &Case, loaded: Option<&(String, MatrixFacts)>, error: &Error) -> Record {
    let facts = loaded.filter(|(name, _)| *name == case.matrix).map(|(_, facts)| facts.clone());
    let is_run = matches!(case.subject, StudySubject::Run | StudySubject::Gemm | StudySubject::Colmean);
    Record {
        sweep: case.sweep.clone(),
        measured: Measured::of(case.subject),
        matrix: facts.unwrap_or_else(|| MatrixFacts { name: case.matrix.clone(), ..MatrixFacts::default() }),
        mode: Some(case.mode.clone()).filter(|_| is_run),
        schedule: Some(case.schedule.clone()),
        transfer: Some(case.transfer.clone()).filter(|_| is_run),
        cpu_share: case.cpu_share,
        dtype: Some(case.dtype),
        k: case.k,
        devices: case.devices.clone(),
        device_count: count_devices(&case.devices),
        threads: case.threads,
        kernel: case.kernels.join(","),
        reason: Some(advice::text(error)),
        ..Record::default()
    }
}
