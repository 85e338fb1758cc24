//! `rowloom run` on simulated devices: the plan in virtual time, without a Y.

use std::time::Instant;

use serde_json::json;

use super::recording::Recording;
use super::repeat::{Checked, Phase};
use super::report;
use super::report::Outcome;
use super::workload::Subject;
use crate::args::MatrixSource;
use crate::args::RunArguments;
use crate::args::no_effect;
use crate::args::no_effect::DeviceKinds;
use crate::console::Console;
use crate::operands::session::{Session, work};
use crate::operands::x;
use crate::request::cluster;
use crate::request::planning::{Requested, is_simulated, plan_request};
use crate::statistics::Times;
use crate::trace::median_product::describe;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::Loaded;
use rowloom::internal::plan::{Plan, make};
use rowloom::internal::runtime::Simulated;

/// Whether the devices of the flags, or those of the saved plan, are simulated.
pub fn is_asked_for(arguments: &RunArguments, saved: Option<&Plan>) -> bool {
    match saved {
        Some(plan) => plan.devices.iter().any(|device| device.name.starts_with("sim:")),
        None => is_simulated(&arguments.planning.devices),
    }
}

/// Plans, runs in virtual time, reports.
#[expect(clippy::too_many_arguments, reason = "the state of `run` once its devices turn out to be simulated")]
pub fn run<T: Kernels>(
    arguments: &RunArguments,
    console: &Console,
    session: &Session,
    source: &MatrixSource,
    loaded: &Loaded<T>,
    load_s: f64,
    saved: Option<Plan>,
    recording: Option<Recording>,
) -> Result<()> {
    if arguments.repeated.verify || arguments.output.is_some() {
        return Err(Error::usage(
            "simulated devices compute no Y: leave out --verify and --output, or use other devices",
        ));
    }
    let matrix = loaded.matrix.view();
    let limit = session.memory_limit_bytes().saturating_sub(loaded.matrix.memory_bytes());
    let k = arguments.k.or(saved.as_ref().map(|plan| plan.k as usize));
    let columns = || x::columns::<T>(&arguments.x, matrix.cols(), k, arguments.finite, limit);
    let (k, note) = session.pool.install(columns)?;
    note.iter().for_each(|note| console.note(note));
    let work = work(&matrix, &loaded.info, k)?;
    let start = Instant::now();
    let mut plan = {
        let _span = tracing::info_span!("plan").entered();
        match saved {
            Some(plan) => {
                let told = no_effect::of_run(arguments, DeviceKinds::of_plan(&plan));
                told.iter().for_each(|note| console.note(note));
                plan
            }
            None => {
                let planning = &arguments.planning;
                let Requested { request, mut notes, kinds, .. } = plan_request(
                    planning,
                    session,
                    Some(console),
                    matrix,
                    work.clone(),
                    arguments.repeated.repeat,
                )?;
                notes.extend(no_effect::of_run(arguments, kinds));
                let plan = session.pool.install(|| make(&request))?;
                notes.iter().for_each(|note| console.note(note));
                plan
            }
        }
    };
    let fingerprint = session.pool.install(|| work.fingerprint());
    plan.check_fits(&fingerprint, k as u64, T::DTYPE)?;
    let plan_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let span = tracing::info_span!("simulate").entered();
    let mut parts = None;
    let (report, descriptions) = match plan.cluster {
        None => {
            let simulated = Simulated::new(&plan)?;
            (simulated.run()?, simulated.descriptions())
        }
        Some(_) => {
            let (simulated, of_time) = session.pool.install(|| cluster::simulate(&mut plan, &work))?;
            parts = Some(of_time);
            (simulated.run()?, simulated.descriptions().to_vec())
        }
    };
    drop(span);
    let prepare_s = start.elapsed().as_secs_f64();
    let reports = [report];
    let described = describe(&plan, &descriptions, &reports)?;
    let mut subject = Subject::product(arguments, session, source, loaded, k as u64, "not needed");
    if let Some(parts) = parts {
        subject.keys.extend([("cluster", json!(plan.cluster)), ("time_parts", json!(parts))]);
    }
    let outcome = Outcome {
        subject,
        repeated: &arguments.repeated,
        execution: &arguments.planning,
        session,
        load_s,
        plan_s: Some(plan_s),
        prepare_s,
        plan: &plan,
        clock_errors: Vec::new(),
        host_reasons: vec![None; plan.chunks.len()],
        // Virtual time is deterministic: every product takes the same time.
        times: Times::new(&reports.each_ref().map(|report| report.seconds())),
        simulated_s: None,
        described: &described,
        checked: Checked::default(),
        faults: Vec::new(),
        simulated: true,
        verification: None,
        verified_part: None,
        result_hash: None,
        interrupted: session.interrupt.asked(),
    };
    console.table(&report::table(&outcome))?;
    console.json(&report::json(&outcome))?;
    if let Some(recording) = recording {
        let (plan, descriptions, reports) = (plan.clone(), descriptions.clone(), reports.to_vec());
        recording.finish(&outcome, &[], &Phase { plan, descriptions, set_up: None, reports })?;
    }
    session.interrupt.check()
}
