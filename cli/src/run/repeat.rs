//! Repeated computations: warm-up and measured repetitions until a signal comes, and what is kept of them.

use crate::args::RepeatArguments;
use crate::console::Console;
use crate::operands::session::Session;
use rowloom::internal::device::Description;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::Verification;
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{Round, RunReport, Simulated};

/// Tasks that are kept for a trace, and without one for the description of the median repetition; of more repetitions the first are
/// kept, and the last.
pub const MAX_TRACED_TASKS: usize = 1 << 20;
pub const MAX_DESCRIBED_TASKS: usize = 1 << 16;

/// Largest plan that is simulated in addition to being run.
const MAX_SIMULATED_CHUNKS: usize = 4096;

/// Work that is computed again and again.
pub trait Repeated {
    /// Computes once.
    fn apply(&mut self) -> Result<()>;

    /// The plan of the last repetition.
    fn plan(&mut self) -> &Plan;

    /// How often the plan changed.
    fn changes(&mut self) -> u64 {
        0
    }

    /// The devices of the plan, the host first.
    fn descriptions(&mut self) -> Vec<Description>;

    /// Takes the round that brought A to the devices.
    fn take_set_up(&mut self) -> Option<Round>;

    /// Changes of the plan, in words, since the last call.
    fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The report of the last repetition.
    fn last_report(&mut self) -> Option<&RunReport>;
}

/// The repetitions with one plan.
pub struct Phase {
    /// The plan.
    pub plan: Plan,
    /// Its devices, the host first.
    pub descriptions: Vec<Description>,
    /// The round that brought A to the devices.
    pub set_up: Option<Round>,
    /// The reports of measured repetitions, the last one always.
    pub reports: Vec<RunReport>,
}

/// The measured repetitions.
pub struct Repetitions {
    /// Seconds of each.
    pub seconds: Vec<f64>,
    /// The plans in their order.
    pub phases: Vec<Phase>,
    /// The checked repetitions, warm-up included.
    pub checked: CheckedRepetitions,
}

/// Repetitions whose result was checked.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct CheckedRepetitions {
    /// Their number.
    pub products: u64,
    /// Seconds of all checks.
    pub seconds: f64,
}

/// Runs the warm-up and the measured repetitions, until a signal comes; the current one is then completed, so that the result is whole.
/// Keeps reports of up to `kept_tasks` tasks, and the last one.
pub fn repeat(
    session: &Session,
    console: &Console,
    work: &mut dyn Repeated,
    arguments: &RepeatArguments,
    kept_tasks: usize,
) -> Result<Repetitions> {
    let (warmup, repeats) = (u64::from(arguments.warmup), u64::from(arguments.repeat));
    let mut measured =
        Repetitions { seconds: Vec::new(), phases: Vec::new(), checked: CheckedRepetitions::default() };
    let (mut free_tasks, mut changes) = (kept_tasks, None);
    for run in 0..warmup + repeats {
        if session.interrupt.asked() {
            break;
        }
        work.apply()?;
        work.take_notes().iter().for_each(|note| console.note(note));
        if changes != Some(work.changes()) {
            changes = Some(work.changes());
            let (plan, descriptions) = (work.plan().clone(), work.descriptions());
            let set_up = work.take_set_up();
            measured.phases.push(Phase { plan, descriptions, set_up, reports: Vec::new() });
        }
        let Some(report) = work.last_report().cloned() else { continue };
        if let Some(check_s) = report.check_s {
            measured.checked.products += 1;
            measured.checked.seconds += check_s;
        }
        if run >= warmup {
            measured.seconds.push(report.seconds());
        }
        let Some(phase) = measured.phases.last_mut() else { continue };
        // The report before this one stays if it was measured and there is space.
        if let Some(before) = phase.reports.last() {
            let tasks = before.tasks();
            if run > warmup && free_tasks >= tasks {
                free_tasks -= tasks;
            } else {
                phase.reports.pop();
            }
        }
        phase.reports.push(report);
    }
    // Without any repetition there is nothing to report.
    if measured.phases.is_empty() { session.interrupt.check().map(|()| measured) } else { Ok(measured) }
}

/// Seconds of the plan in virtual time, where several devices work together.
pub fn simulated_s(plan: &Plan) -> Option<f64> {
    let together = plan.devices.len() > 1 && plan.chunks.len() <= MAX_SIMULATED_CHUNKS;
    together
        .then(|| Simulated::new(plan).and_then(|simulated| simulated.run()).ok().map(|run| run.seconds()))?
}

/// An error where the result, named `result`, exceeds the rounding bound.
pub fn verdict(result: &str, verification: Option<&Verification>) -> Result<()> {
    match verification {
        Some(verification) if !verification.passed => {
            let place = verification.worst.map(|(row, column)| format!("row {row}, column {column} of "));
            Err(Error::Verification(format!(
                "{}{result} is off by {:.3} times the rounding bound",
                place.unwrap_or_default(),
                verification.max_bound_ratio
            )))
        }
        _ => Ok(()),
    }
}
