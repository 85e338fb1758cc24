//! A whole product as a case of a study: planned, run until its time is known, its last Y verified or checked.

use std::collections::HashSet;

use crate::args::options::{Devices, XSource, count_devices, parse_bytes};
use crate::args::{ExecutionArguments, PlanningArguments};
use crate::measure::{Checked, check_product};
use crate::operands::session::Session;
use crate::operands::x;
use crate::plots;
use crate::request::planning;
use crate::request::planning::{Requested, plan_request};
use crate::results::{Case, Record, StudyConfig, timeline};
use crate::run::repeat::Repeated;
use crate::statistics::{BenchSettings, Sampler, Times, doubts};
use rowloom::internal::device::Description;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::Schedule;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::{Csr, MultiVector};
use rowloom::internal::plan::{Plan, make};
use rowloom::internal::runtime::{FaultReport, ProductOptions, RunReport, Simulated, Timeline};
use rowloom::internal::trace::{Clock, Trace};
use rowloom::internal::work::Work;

/// Products that a plan is made for where the study does not set `repeat`.
pub const PLANNED_PRODUCTS: u32 = 20;

/// The result of a case.
pub struct CaseRun {
    /// Its measurements.
    pub record: Record,
    /// The timeline of its last product.
    pub timeline: plots::Timeline,
}

/// The repetitions of a case, all with one plan.
pub struct Repetitions {
    /// Statistics of their times.
    pub times: Times,
    /// The report of the last one.
    pub report: RunReport,
    /// The plan.
    pub plan: Plan,
    /// Its devices, the host first.
    pub descriptions: Vec<Description>,
    /// Faults of all repetitions.
    pub faults: Vec<FaultReport>,
    /// The check of the last result.
    pub checked: Checked,
}

impl CaseRun {
    /// A case in virtual time. `record` has what does not depend on the run.
    pub fn simulated(case: &Case, mut record: Record, plan: &Plan) -> Result<Self> {
        let simulated = Simulated::new(plan)?;
        let report = simulated.run()?;
        record.simulated = true;
        record.times = Times::new(&[report.seconds()]);
        let trace = traced(plan, &simulated.descriptions(), &report);
        fill(&mut record, plan, &trace, &report);
        Ok(Self { timeline: report_timeline(case, &trace, None), record })
    }

    /// A case that was measured. `record` has what does not depend on the run.
    pub fn measured(case: &Case, mut record: Record, repetitions: Repetitions) -> Result<Self> {
        let Repetitions { times, report, plan, descriptions, faults, checked } = repetitions;
        record.doubts = doubts(&times);
        record.times = times;
        let words = |fault: &FaultReport| format!("{}, {}: {}", fault.device, fault.task, fault.error);
        record.doubts.extend(faults.iter().map(words));
        record.checked = Some(checked);
        let trace = traced(&plan, &descriptions, &report);
        fill(&mut record, &plan, &trace, &report);
        let simulated = Simulated::new(&plan)?;
        let predicted = traced(&plan, &simulated.descriptions(), &simulated.run()?);
        Ok(Self { timeline: report_timeline(case, &trace, Some(&predicted)), record })
    }
}

/// Runs a case. `base` has the fields that all records of the case share.
pub fn run<T: Kernels>(
    case: &Case,
    config: &StudyConfig,
    session: &Session,
    matrix: &Csr<T>,
    base: &Record,
) -> Result<CaseRun> {
    let devices: Devices = case.devices.parse().map_err(Error::usage)?;
    let planning = planning(case, devices)?;
    let k = case.k.unwrap_or(1);
    let view = matrix.view();
    let repeat = config.measure.repeat.unwrap_or(PLANNED_PRODUCTS);
    let Requested { request, .. } =
        plan_request(&planning, session, None, view, Work::spmm(&view, k)?, repeat)?;
    let single = request.devices.len() == 1;
    let memory_gb_per_s = request.devices.first().map(|device| device.profile.stream_gb_per_s);
    let record = Record {
        mode: Some(case.mode.clone()),
        schedule: Some(case.schedule.clone()),
        transfer: Some(case.transfer.clone()),
        chunk_bytes: planning.chunk_bytes,
        cpu_share: case.cpu_share,
        kernel: case.kernels.first().cloned().unwrap_or_default(),
        k: case.k,
        dtype: Some(T::DTYPE),
        devices: case.devices.clone(),
        threads: session.pool.threads(),
        memory_gb_per_s: memory_gb_per_s.filter(|_| single),
        flops: Some(2.0 * view.nnz() as f64 * k as f64),
        ..base.clone()
    };
    if case.devices.contains("sim:") {
        let plan = session.pool.install(|| make(&request))?;
        return CaseRun::simulated(case, record, &plan);
    }

    let limit = session.memory_limit_bytes().saturating_sub(view.bytes());
    let x =
        session.pool.install(|| x::load::<T>(&XSource::Random, view.cols(), case.k, session.seed, limit))?;
    x::check_memory::<T>("Y", view.rows(), k, limit)?;
    let mut y = MultiVector::<T>::zeros(view.rows(), k)?;
    // The plan is fixed, so that all products of a case are computed in the same way.
    let options = ProductOptions {
        schedule: schedule(&case.schedule)?,
        host_memory_limit_bytes: Some(limit),
        fixed: true,
        ..planning::options(&planning, repeat)?
    };
    let runtime = planning::runtime(&planning, session, Clock::start())?;
    let resolved = runtime.resolve(&options)?;
    let builder = runtime.product(view).columns(k).options(options).resolved(resolved);
    let mut product = builder.build()?;
    let (times, report) = product.bind(&x, &mut y, |bound| repeat_until_known(config, session, bound))?;
    let check = || check_product(view, x.view(), y.view(), config.measure.verify);
    let checked = session.pool.install(check)?;
    let (plan, descriptions, faults) = (product.plan().clone(), product.descriptions(), product.faults());
    CaseRun::measured(case, record, Repetitions { times, report, plan, descriptions, faults, checked })
}

/// The planning flags of a case.
pub fn planning(case: &Case, devices: Devices) -> Result<PlanningArguments> {
    Ok(PlanningArguments {
        execution: execution(case, devices)?,
        kernel: case.kernels.first().cloned().unwrap_or_else(|| "auto".into()),
        ..PlanningArguments::of(Devices::Auto)
    })
}

/// The flags of a case that all kinds of work have.
pub fn execution(case: &Case, devices: Devices) -> Result<ExecutionArguments> {
    let chunk_bytes = case.chunk_bytes.as_deref().map(parse_bytes).transpose().map_err(Error::usage)?;
    Ok(ExecutionArguments {
        mode: case.mode.clone(),
        chunk_bytes,
        cpu_share: case.cpu_share,
        transfer: case.transfer.clone(),
        ..ExecutionArguments::of(devices)
    })
}

/// The schedule of that name.
pub fn schedule(name: &str) -> Result<Schedule> {
    let known = [Schedule::Balanced, Schedule::EqualRows];
    let found = known.into_iter().find(|schedule| schedule.name() == name);
    found.ok_or_else(|| {
        Error::usage(format!("unknown schedule '{name}'; schedules are balanced and equal-rows"))
    })
}

/// The measurement settings of a study.
pub fn settings(config: &StudyConfig) -> BenchSettings {
    let measure = &config.measure;
    BenchSettings {
        warmup: measure.warmup,
        repeat: measure.repeat,
        time_cap_s: measure.time_cap_s,
        cut_hopeless: false,
    }
}

/// Repeats the work until its time is known; an error where a signal came first.
pub fn repeat_until_known(
    config: &StudyConfig,
    session: &Session,
    work: &mut dyn Repeated,
) -> Result<(Times, RunReport)> {
    let settings = settings(config);
    let mut sampler = Sampler::new(settings, f64::INFINITY);
    let mut run = 0;
    while !sampler.is_enough() && !session.interrupt.asked() {
        work.apply()?;
        if run >= settings.warmup {
            sampler.push(work.last_report().map_or(0.0, RunReport::seconds));
        }
        run += 1;
    }
    session.interrupt.check()?;
    let last = work.last_report().cloned().ok_or_else(|| Error::Internal("nothing was computed".into()))?;
    Ok((Times::new(&sampler.into_seconds()), last))
}

/// One product as a trace.
fn traced(plan: &Plan, descriptions: &[Description], report: &RunReport) -> Trace {
    let mut trace = Trace::default();
    Timeline::new(&mut trace, plan, descriptions).add_run(&mut trace, report, 0);
    trace
}

/// The names of the kernels of a plan.
pub fn chosen_kernels(plan: &Plan) -> String {
    let mut chosen: Vec<&str> =
        plan.chunks.iter().map(|chunk| plan.kernel_on(chunk, chunk.home).name()).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen.join(" + ")
}

/// Fills in the plan and the trace of a run.
fn fill(record: &mut Record, plan: &Plan, trace: &Trace, report: &RunReport) {
    let summary = trace.summary();
    record.device_count = plan.computing().count();
    record.chunks = Some(plan.chunks.len());
    record.chosen = Some(chosen_kernels(plan));
    record.predicted_s = Some(plan.predicted_s);
    record.hidden_fraction = summary.hidden_fraction;
    record.idle_fraction = summary.idle_fraction;
    let (up, down) = report.link_bytes();
    (record.to_device_bytes, record.from_device_bytes) = (Some(up), Some(down));
}

/// The timeline that the report shows.
fn report_timeline(case: &Case, trace: &Trace, predicted: Option<&Trace>) -> plots::Timeline {
    let k = case.k.unwrap_or(1);
    let title = format!("{} with K = {k} on {}", case.matrix, case.devices);
    let caption = match predicted {
        Some(_) => "The last product. Outlines show when the cost model predicted each task.",
        None => "Simulated: every task takes the time that the cost model predicts.",
    };
    let mut shown = timeline(title, caption.into(), trace, predicted);
    shown.caption += &idle_devices(&shown, count_devices(&case.devices));
    shown
}

/// A sentence where the plan gives some of `devices` no work; empty where all have some.
fn idle_devices(timeline: &plots::Timeline, devices: usize) -> String {
    let of_span = |span: &plots::Span| Some(timeline.lanes.get(span.lane)?.process.as_str());
    // The host copies for the devices and computes nothing; where the CPU is a device, it has lanes of its own.
    let working: HashSet<&str> =
        timeline.spans.iter().filter_map(of_span).filter(|process| *process != "host").collect();
    match devices.checked_sub(working.len()) {
        None | Some(0) => String::new(),
        Some(1) => format!(" 1 of {devices} devices has no work in this plan."),
        Some(idle) => format!(" {idle} of {devices} devices have no work in this plan."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_says_how_many_devices_have_no_work() {
        let lane = |process: &str| plots::Lane { process: process.into(), name: "kernels".into() };
        let span = |lane| plots::Span {
            lane,
            name: "kernel".into(),
            kind: "kernel".into(),
            start_s: 0.0,
            end_s: 1.0,
            predicted_start_s: None,
            predicted_end_s: None,
            details: Vec::new(),
        };
        let timeline = |spans: Vec<plots::Span>| plots::Timeline {
            title: String::new(),
            caption: String::new(),
            lanes: vec![lane("sim:0"), lane("sim:1"), lane("sim:1"), lane("sim:2"), lane("host")],
            spans,
        };
        let all = timeline(vec![span(0), span(1), span(2), span(3), span(4)]);
        assert_eq!(idle_devices(&all, 3), "");
        assert!(idle_devices(&all, 8).starts_with(" 5 of 8 devices have no work"));
        let two = timeline(vec![span(0), span(1), span(4)]);
        assert!(
            idle_devices(&two, 3).starts_with(" 1 of 3 devices has no work"),
            "a lane without tasks is idle"
        );
    }
}
