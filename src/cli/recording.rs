//! `--trace FILE`: records the program and its devices and writes one timeline.

use std::path::{Path, PathBuf};

use super::report::machine_report;
use super::run_report::{Outcome, config};
use crate::error::Result;
use crate::matrix::Scalar;
use crate::runtime::{Round, RunReport, Timeline};
use crate::trace::{Clock, HostSpans, Trace};

/// A timeline that is being recorded.
pub struct Recording {
    path: PathBuf,
    spans: HostSpans,
}

impl Recording {
    /// Records the program's own spans from now on.
    pub fn start(path: &Path, clock: &Clock) -> Result<Self> {
        Ok(Self { path: path.to_owned(), spans: HostSpans::start(clock)? })
    }

    /// Adds the work of the devices, during set-up, in `traced` and in the last run, and writes the file.
    pub fn finish<T: Scalar>(
        self,
        outcome: &Outcome<'_, T>,
        set_up: Option<&Round>,
        traced: &[RunReport],
    ) -> Result<()> {
        let mut trace = Trace::default();
        self.spans.finish(&mut trace)?;
        let program_end_ns = trace.spans().iter().map(|span| span.end_ns).max().unwrap_or(0);
        let mut timeline = Timeline::new(&mut trace, outcome.plan, outcome.descriptions);
        if outcome.simulated {
            timeline = timeline.shifted_by(program_end_ns);
        }
        if let Some(round) = set_up {
            timeline.add_round(&mut trace, round, None);
        }
        for (run, report) in traced.iter().chain(outcome.last).enumerate() {
            timeline.add_run(&mut trace, report, run as u64);
        }
        for (device, error_ns) in &outcome.clock_errors {
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
