//! The product that `run` and `trace` describe: of repeated products the one of median length, as [`Trace::summary`] chooses it.

use rowloom::internal::device::Description;
use rowloom::internal::error::Result;
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{Round, RunReport, Timeline};
use rowloom::internal::trace::{Summary, Trace};

/// A summary of the described product, and its report.
pub struct Described<'a> {
    /// Overlap, idle time and busy devices.
    pub summary: Summary,
    /// The product itself; `None` where nothing ran.
    pub report: Option<&'a RunReport>,
}

/// Adds the set-up and all `reports` to a trace, numbered in their order from `first` on.
pub fn add_runs(
    trace: &mut Trace,
    plan: &Plan,
    descriptions: &[Description],
    set_up: Option<&Round>,
    reports: &[RunReport],
    first: u64,
) {
    let timeline = Timeline::new(trace, plan, descriptions);
    if let Some(round) = set_up {
        timeline.add_round(trace, round, None);
    }
    for (run, report) in reports.iter().enumerate() {
        timeline.add_run(trace, report, first + run as u64);
    }
}

/// Describes `reports` with the numbers that `trace` finds in a file of them.
pub fn describe<'a>(
    plan: &Plan,
    descriptions: &[Description],
    reports: &'a [RunReport],
) -> Result<Described<'a>> {
    let mut trace = Trace::default();
    add_runs(&mut trace, plan, descriptions, None, reports, 0);
    trace.separate_spans()?;
    let summary = trace.summary();
    let report = summary.run.and_then(|run| reports.get(run as usize)).or(reports.last());
    Ok(Described { summary, report })
}
