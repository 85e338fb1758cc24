//! `rowloom run` on simulated devices: the plan in virtual time, and no Y.

use std::time::Instant;

use super::args::RunArguments;
use super::console::Console;
use super::no_effect::{self, DeviceKinds};
use super::options::DeviceWord;
use super::planning::{notes, request, resolve};
use super::recording::Recording;
use super::run_report::{self, Outcome};
use super::session::{MatrixSource, Session, work};
use crate::error::{Error, Result};
use crate::matrix::{Loaded, Scalar};
use crate::plan::{Plan, make};
use crate::runtime::Simulated;
use crate::study::Times;

/// Columns of X unless told otherwise.
const DEFAULT_K: usize = 32;

/// Whether the devices that were named, or those of the plan, are simulated.
pub fn is_asked_for(arguments: &RunArguments, saved: Option<&Plan>) -> bool {
    let words = arguments.planning.devices.words();
    match saved {
        Some(plan) => plan.devices.iter().any(|device| device.name.starts_with("sim:")),
        None => words.iter().any(|word| matches!(word, DeviceWord::Simulated { .. })),
    }
}

/// Plans, runs in virtual time, reports.
#[expect(
    clippy::too_many_arguments,
    reason = "all that `run` knows when it finds out that nothing is computed"
)]
pub fn run<T: Scalar>(
    arguments: &RunArguments,
    console: &Console,
    session: &Session,
    source: &MatrixSource,
    loaded: &Loaded<T>,
    load_s: f64,
    saved: Option<Plan>,
    recording: Option<Recording>,
) -> Result<()> {
    if arguments.verify || arguments.output.is_some() {
        return Err(Error::Usage(
            "simulated devices compute no Y: leave --verify and --output out, or take other devices".into(),
        ));
    }
    let matrix = loaded.matrix.view();
    let k = arguments.k.or(saved.as_ref().map(|plan| plan.k as usize)).unwrap_or(DEFAULT_K);
    let work = work(&matrix, &loaded.info, k)?;
    let start = Instant::now();
    let plan = {
        let _span = tracing::info_span!("plan").entered();
        match saved {
            Some(plan) => {
                let told = no_effect::of_run(arguments, DeviceKinds::of_plan(&plan));
                told.iter().for_each(|note| console.note(note));
                plan
            }
            None => {
                let resolved = resolve(&arguments.planning, session)?;
                let mut told = notes(&arguments.planning, &resolved);
                told.extend(no_effect::of_run(arguments, resolved.kinds()));
                let products = u64::from(arguments.warmup) + u64::from(arguments.repeat);
                let request = request(&arguments.planning, resolved, work, products)?;
                let plan = session.pool.install(|| make(&request))?;
                told.iter().for_each(|note| console.note(note));
                plan
            }
        }
    };
    plan.check_fits(&work.fingerprint(), k as u64, T::DTYPE)?;
    let plan_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let simulated = Simulated::new(&plan)?;
    let prepare_s = start.elapsed().as_secs_f64();
    let report = {
        let _span = tracing::info_span!("simulate").entered();
        simulated.run()?
    };
    let descriptions = simulated.descriptions();
    let outcome = Outcome {
        arguments,
        session,
        source,
        loaded,
        load_s,
        plan_s: Some(plan_s),
        prepare_s,
        plan: &plan,
        descriptions: &descriptions,
        clock_errors: Vec::new(),
        host_reasons: vec![None; plan.chunks.len()],
        // Virtual time has no noise: every repeat would be the same.
        times: Times::new(&[report.seconds()]),
        simulated_s: None,
        last: Some(&report),
        faults: Vec::new(),
        simulated: true,
        verification: None,
        y_hash: None,
        interrupted: session.interrupt.asked(),
    };
    console.table(&run_report::table(&outcome))?;
    console.json(&run_report::json(&outcome))?;
    if let Some(recording) = recording {
        recording.finish(&outcome, None, &[])?;
    }
    session.interrupt.check()
}
