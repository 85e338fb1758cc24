//! `--trace FILE`: records the program and its devices and writes one timeline.

use std::path::{Path, PathBuf};

use super::repeat::Phase;
use super::report::{Outcome, config};
use crate::console::report::machine_report;
use crate::trace::host_spans::HostSpans;
use crate::trace::median_product::add_runs;
use rowloom::internal::error::Result;
use rowloom::internal::trace::{Clock, Trace};

/// A timeline that is being recorded.
pub struct Recording {
    path: PathBuf,
    spans: HostSpans,
}

impl Recording {
    /// Starts to record the spans of the program.
    pub fn start(path: &Path, clock: &Clock) -> Result<Self> {
        Ok(Self { path: path.to_owned(), spans: HostSpans::start(clock)? })
    }

    /// Adds the products of all plans, `last` being the last, and writes the file. A simulated run has virtual times, which begin at zero, so
    /// its file has no spans of the program.
    pub fn finish(self, outcome: &Outcome<'_>, before: &[Phase], last: &Phase) -> Result<()> {
        let (mut trace, mut program) = (Trace::default(), Trace::default());
        self.spans.finish(if outcome.done.simulated { &mut program } else { &mut trace })?;
        let mut first = 0;
        for Phase { plan, descriptions, set_up, reports } in before.iter().chain([last]) {
            add_runs(&mut trace, plan, descriptions, set_up.as_ref(), reports, first);
            first += reports.len() as u64;
        }
        for (device, error_ns) in &outcome.done.clock_errors {
            trace.clock_error(device, *error_ns);
        }
        trace.metadata("config", config(outcome));
        trace.metadata("provenance", serde_json::to_value(&outcome.session.provenance).unwrap_or_default());
        trace.metadata(
            "machine",
            serde_json::to_value(machine_report(&outcome.session.machine)).unwrap_or_default(),
        );
        trace.write(&self.path)
    }
}
