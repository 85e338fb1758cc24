//! What `gemm` and `colmean` share: flags, plans, simulated devices, and the report.

use std::path::Path;
use std::time::Instant;

use super::recording::Recording;
use super::repeat::{
    Checked, MAX_DESCRIBED_TASKS, MAX_TRACED_TASKS, Measured, Phase, Repeated, repeat, simulated_s,
};
use super::report;
use super::report::Outcome;
use super::workload::Subject;
use crate::args::DenseArguments;
use crate::args::no_effect;
use crate::args::no_effect::DeviceKinds;
use crate::console::{Console, check_target};
use crate::operands::session::Session;
use crate::request::planning;
use crate::request::planning::is_simulated;
use crate::statistics::Times;
use crate::trace::median_product::describe;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::{KindOfWork, Verification};
use rowloom::internal::plan::{Plan, make};
use rowloom::internal::runtime::{FaultReport, ProductOptions, Runtime, Simulated};
use rowloom::internal::trace::Clock;
use rowloom::internal::work::Work;

/// The flags of a command on dense matrices.
pub struct Flags<'a> {
    /// The kind of work.
    pub work: KindOfWork,
    /// The flags that all of these commands have.
    pub dense: &'a DenseArguments,
    /// The kernel.
    pub kernel: &'a str,
    /// Whether a result is to be written.
    pub has_output: bool,
    /// Whether an operand is read from a file.
    pub reads: bool,
    /// Whether an operand is generated.
    pub generates: bool,
}

/// A command that has checked its flags and opened its runtime.
pub struct DenseRun<'a> {
    flags: Flags<'a>,
    console: &'a Console,
    /// The machine and its threads.
    pub session: Session,
    /// The runtime.
    pub runtime: Runtime,
    /// The plan of the file, if there is one.
    pub saved: Option<Plan>,
    recording: Option<Recording>,
}

/// What the report says about work that was done.
pub struct Done<'a> {
    /// What was computed.
    pub subject: Subject,
    /// Seconds to load the operands.
    pub load_s: f64,
    /// Seconds of planning and of preparing.
    pub plan_s: f64,
    pub prepare_s: f64,
    /// The errors of clocks.
    pub clock_errors: Vec<(String, u64)>,
    /// All faults.
    pub faults: Vec<FaultReport>,
    /// The measured repetitions.
    pub measured: Measured,
    /// The result of `--verify`, and the part of the result that it compared.
    pub verification: Option<&'a Verification>,
    pub verified_part: Option<String>,
    /// The hash of a complete result.
    pub result_hash: Option<String>,
}

impl<'a> DenseRun<'a> {
    /// Checks the flags and opens the runtime.
    pub fn open(flags: Flags<'a>, console: &'a Console) -> Result<Self> {
        let targets: [Option<&Path>; 2] =
            [flags.dense.repeated.trace.as_deref(), flags.dense.save.as_deref()];
        targets.into_iter().flatten().try_for_each(check_target)?;
        let saved = flags.dense.plan.as_deref().map(Plan::load).transpose()?;
        let simulated = match &saved {
            Some(plan) => plan.devices.iter().any(|device| device.name.starts_with("sim:")),
            None => is_simulated(&flags.dense.execution.devices),
        };
        if simulated && (flags.dense.repeated.verify || flags.has_output) {
            return Err(Error::usage(
                "simulated devices compute nothing: leave out --verify and output files, or use other devices",
            ));
        }
        let clock = Clock::start();
        let trace = flags.dense.repeated.trace.as_deref();
        let recording = trace.map(|path| Recording::start(path, &clock)).transpose()?;
        let session = Session::open(&flags.dense.matrix_arguments)?;
        let runtime = planning::runtime(&flags.dense.execution, &session, clock)?;
        runtime.start_opening();
        Ok(Self { flags, console, session, runtime, saved, recording })
    }

    /// The options of the flags.
    pub fn options(&self) -> Result<ProductOptions> {
        let kernel = match self.flags.kernel {
            "auto" => None,
            name => Some(self.flags.work.kernel(name)?),
        };
        let times = self.flags.dense.repeated.repeat;
        let options = planning::execution_options(&self.flags.dense.execution, times);
        Ok(ProductOptions { kernel, ..options })
    }

    /// Whether the devices are simulated.
    pub fn is_simulated(&self) -> bool {
        match &self.saved {
            Some(plan) => plan.devices.iter().any(|device| device.name.starts_with("sim:")),
            None => is_simulated(&self.flags.dense.execution.devices),
        }
    }

    /// Prints notes on flags without effect.
    pub fn note_flags(&self, kinds: DeviceKinds) {
        let Flags { dense, reads, generates, .. } = self.flags;
        let notes = no_effect::of_dense(&dense.common, kinds, reads, generates);
        notes.iter().for_each(|note| self.console.note(note));
    }

    /// Writes the plan where `--save` was given.
    fn save(&self, plan: &Plan) -> Result<()> {
        self.flags.dense.save.as_deref().map_or(Ok(()), |path| plan.save(path))
    }

    /// An error unless the saved plan was made for `work`.
    pub fn check_saved(&self, work: &Work<'_>) -> Result<()> {
        let Some(plan) = &self.saved else { return Ok(()) };
        let found = self.session.pool.install(|| work.fingerprint());
        plan.check_fits(&found, work.k() as u64, work.dtype())
    }

    /// Plans, runs in virtual time, reports.
    pub fn simulate(mut self, work: Work<'_>, subject: Subject, load_s: f64) -> Result<()> {
        let start = Instant::now();
        self.check_saved(&work)?;
        let plan = match self.saved.take() {
            Some(plan) => {
                self.note_flags(DeviceKinds::of_plan(&plan));
                plan
            }
            None => {
                let options = self.options()?;
                let resolved = self.runtime.resolve(&options)?;
                self.note_flags(planning::kinds(&resolved));
                let request = options.request(&resolved, work, u64::from(self.flags.dense.repeated.repeat));
                self.session.pool.install(|| make(&request))?
            }
        };
        self.save(&plan)?;
        let plan_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let simulated = Simulated::new(&plan)?;
        let prepare_s = start.elapsed().as_secs_f64();
        let reports = vec![simulated.run()?];
        let descriptions = simulated.descriptions();
        let seconds = reports.iter().map(|report| report.seconds()).collect();
        let phase = Phase { plan: plan.clone(), descriptions, set_up: None, reports };
        let measured =
            Measured { seconds, phases: vec![phase], is_complete: true, checked: Checked::default() };
        let done = Done {
            subject,
            load_s,
            plan_s,
            prepare_s,
            clock_errors: Vec::new(),
            faults: Vec::new(),
            measured,
            verification: None,
            verified_part: None,
            result_hash: None,
        };
        self.report(done, true)
    }

    /// Repeats the work.
    pub fn repeat(&self, work: &mut dyn Repeated) -> Result<Measured> {
        let _spinner = self.console.spinner("computing");
        let _span = tracing::info_span!("compute").entered();
        let kept_tasks = if self.recording.is_some() { MAX_TRACED_TASKS } else { MAX_DESCRIBED_TASKS };
        repeat(&self.session, self.console, work, &self.flags.dense.repeated, kept_tasks)
    }

    /// Whether a complete result is to be verified.
    pub fn verifies(&self, measured: &Measured) -> bool {
        self.flags.dense.repeated.verify && measured.is_complete && !self.session.interrupt.asked()
    }

    /// Prints the table and the JSON object, writes trace and plan.
    pub fn report(mut self, done: Done<'_>, simulated: bool) -> Result<()> {
        self.session.add_gpus();
        let Done { subject, load_s, plan_s, prepare_s, clock_errors, faults, mut measured, .. } = done;
        let nothing = || Error::Internal("nothing was computed".into());
        let last = measured.phases.pop().ok_or_else(nothing)?;
        if !simulated {
            self.save(&last.plan)?;
        }
        let described = describe(&last.plan, &last.descriptions, &last.reports)?;
        let outcome = Outcome {
            subject,
            repeated: &self.flags.dense.repeated,
            execution: &self.flags.dense.execution,
            session: &self.session,
            load_s,
            plan_s: Some(plan_s),
            prepare_s,
            plan: &last.plan,
            clock_errors,
            host_reasons: vec![None; last.plan.chunks.len()],
            times: Times::new(&measured.seconds),
            simulated_s: if simulated { None } else { simulated_s(&last.plan) },
            described: &described,
            checked: measured.checked,
            faults,
            simulated,
            verification: done.verification,
            verified_part: done.verified_part,
            result_hash: done.result_hash,
            interrupted: self.session.interrupt.asked(),
        };
        self.console.table(&report::table(&outcome))?;
        self.console.json(&report::json(&outcome))?;
        if let Some(recording) = self.recording.take() {
            recording.finish(&outcome, &measured.phases, &last)?;
        }
        self.session.interrupt.check()
    }
}
