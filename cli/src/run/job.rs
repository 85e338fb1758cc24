//! One computation from its request to its report, for every kind of work: opened, planned or simulated, repeated, reported.

use std::time::Instant;

use super::recording::Recording;
use super::repeat::{
    CheckedRepetitions, MAX_DESCRIBED_TASKS, MAX_TRACED_TASKS, Phase, Repeated, Repetitions, repeat, verdict,
};
use super::report::{self, Done, Outcome};
use super::request::Request;
use super::workload::Workload;
use crate::args::PlanningArguments;
use crate::args::no_effect::DeviceKinds;
use crate::console::{Console, check_target};
use crate::operands::session::Session;
use crate::request::cluster;
use crate::request::planning::{self, is_simulated};
use crate::trace::median_product::describe;
use rowloom::internal::adapt::ResolvedDevices;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::{KindOfWork, Verification};
use rowloom::internal::matrix::CsrView;
use rowloom::internal::plan::{Plan, make};
use rowloom::internal::runtime::{Runtime, Simulated};
use rowloom::internal::trace::Clock;
use rowloom::internal::work::Work;

/// A computation whose request was checked and whose runtime is open.
pub struct Job<'a> {
    /// The request.
    pub request: Request<'a>,
    /// Where notes, progress and results go.
    pub console: &'a Console,
    /// The machine and its threads.
    pub session: Session,
    /// The runtime.
    pub runtime: Runtime,
    /// The plan of the file, if there is one.
    pub saved: Option<Plan>,
    recording: Option<Recording>,
}

impl<'a> Job<'a> {
    /// Checks the files of the request and opens the runtime; GPUs that were named open while operands are read.
    pub fn open(request: Request<'a>, console: &'a Console) -> Result<Self> {
        let trace = request.repeated.trace.as_deref();
        [trace, request.save].into_iter().flatten().try_for_each(check_target)?;
        let saved = request.plan.map(Plan::load).transpose()?;
        let clock = Clock::start();
        let recording = trace.map(|path| Recording::start(path, &clock)).transpose()?;
        let session = Session::open(request.matrix)?;
        session.note_surplus_threads(console);
        let runtime = planning::runtime(request.execution, &session, clock)?;
        let job = Self { request, console, session, runtime, saved, recording };
        if job.is_simulated() && (job.request.repeated.verify || job.request.has_output) {
            return Err(Error::usage(match job.request.work {
                KindOfWork::Spmm => {
                    "simulated devices compute no Y: leave out --verify and --output, or use other devices"
                }
                KindOfWork::Gemm | KindOfWork::Colmean => {
                    "simulated devices compute nothing: leave out --verify and output files, or use other devices"
                }
            }));
        }
        job.runtime.start_opening();
        Ok(job)
    }

    /// Whether the devices, those of the saved plan if there is one, are simulated.
    pub fn is_simulated(&self) -> bool {
        match &self.saved {
            Some(plan) => plan.devices.iter().any(|device| device.name.starts_with("sim:")),
            None => is_simulated(&self.request.execution.devices),
        }
    }

    /// Prints notes on flags without effect.
    pub fn note_flags(&self, kinds: DeviceKinds) {
        (self.request.idle_flags)(kinds).iter().for_each(|note| self.console.note(note));
    }

    /// Writes the plan where `--save` was given.
    fn save(&self, plan: &Plan) -> Result<()> {
        self.request.save.map_or(Ok(()), |path| plan.save(path))
    }

    /// An error unless the saved plan was made for `work`.
    pub fn check_saved(&self, work: &Work<'_>) -> Result<()> {
        let Some(plan) = &self.saved else { return Ok(()) };
        let found = self.session.pool.install(|| work.fingerprint());
        plan.check_fits(&found, work.k() as u64, work.dtype())
    }

    /// The devices for a product of `matrix` with `k` columns, with `--tune` applied.
    pub fn resolve_for<T: Kernels>(
        &self,
        arguments: &PlanningArguments,
        matrix: CsrView<'_, T>,
        k: usize,
    ) -> Result<ResolvedDevices> {
        planning::resolve(arguments, &self.runtime, &self.session, Some(self.console), matrix, k)
    }

    /// Plans for the devices of `resolve`, computes in virtual time, reports.
    pub fn simulate(
        mut self,
        work: Work<'_>,
        mut workload: Workload,
        load_s: f64,
        resolve: impl FnOnce(&Self) -> Result<ResolvedDevices>,
    ) -> Result<()> {
        let start = Instant::now();
        let span = tracing::info_span!("plan").entered();
        self.check_saved(&work)?;
        let mut plan = match self.saved.take() {
            Some(plan) => {
                self.note_flags(DeviceKinds::of_plan(&plan));
                plan
            }
            None => {
                let resolved = resolve(&self)?;
                self.note_flags(DeviceKinds::of_resolved(&resolved));
                let times = u64::from(self.request.repeated.repeat);
                let request = self.request.options.request(&resolved, work.clone(), times);
                self.session.pool.install(|| make(&request))?
            }
        };
        drop(span);
        self.save(&plan)?;
        let plan_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let span = tracing::info_span!("simulate").entered();
        let (report, descriptions) = if self.request.work == KindOfWork::Spmm && plan.cluster.is_some() {
            let (simulated, parts) = self.session.pool.install(|| cluster::simulate(&mut plan, &work))?;
            workload.add_cluster(&plan, &parts);
            (simulated.run()?, simulated.descriptions().to_vec())
        } else {
            let simulated = Simulated::new(&plan)?;
            (simulated.run()?, simulated.descriptions())
        };
        drop(span);
        let seconds = vec![report.seconds()];
        let phase = Phase { plan, descriptions, set_up: None, reports: vec![report] };
        let measured = Repetitions { seconds, phases: vec![phase], checked: CheckedRepetitions::default() };
        let prepare_s = start.elapsed().as_secs_f64();
        self.report(Done { load_s, plan_s, prepare_s, simulated: true, ..Done::new(workload) }, measured)?;
        self.session.interrupt.check()
    }

    /// Repeats the work.
    pub fn repeat(&self, work: &mut dyn Repeated) -> Result<Repetitions> {
        let _measuring = self.session.interrupt.measure(
            self.console,
            match self.request.work {
                KindOfWork::Spmm | KindOfWork::Gemm => "product",
                KindOfWork::Colmean => "run",
            },
        );
        let _spinner = self.console.spinner(match self.request.work {
            KindOfWork::Spmm => "multiplying",
            KindOfWork::Gemm | KindOfWork::Colmean => "computing",
        });
        let _span = match self.request.work {
            KindOfWork::Spmm => tracing::info_span!("multiply"),
            KindOfWork::Gemm | KindOfWork::Colmean => tracing::info_span!("compute"),
        }
        .entered();
        let kept_tasks = if self.recording.is_some() { MAX_TRACED_TASKS } else { MAX_DESCRIBED_TASKS };
        repeat(&self.session, self.console, work, self.request.repeated, kept_tasks)
    }

    /// The verification of the result, where it is asked for and no signal came.
    pub fn verify(
        &self,
        verify: impl FnOnce() -> Result<Verification> + Send,
    ) -> Result<Option<Verification>> {
        if !self.request.repeated.verify || self.session.interrupt.asked() {
            return Ok(None);
        }
        let _measuring = self.session.interrupt.measure(self.console, "verification");
        let _spinner = self.console.spinner("verifying");
        self.session.pool.install(verify).map(Some)
    }

    /// Prints the table and the JSON object, writes trace and plan.
    pub fn report(&mut self, done: Done, mut measured: Repetitions) -> Result<()> {
        self.session.add_gpus();
        let nothing = || Error::Internal("nothing was computed".into());
        let last = measured.phases.pop().ok_or_else(nothing)?;
        if !done.simulated {
            self.save(&last.plan)?;
        }
        let described = describe(&last.plan, &last.descriptions, &last.reports)?;
        let done = Done { checked: measured.checked, seconds: measured.seconds, ..done };
        let outcome = Outcome::new(&self.request, &self.session, done, &last.plan, &described);
        self.console.table(&report::table(&outcome))?;
        self.console.json(&report::json(&outcome))?;
        match self.recording.take() {
            Some(recording) => recording.finish(&outcome, &measured.phases, &last),
            None => Ok(()),
        }
    }

    /// The end of the command: an error where a signal came, or where the result, named `result`, is wrong.
    pub fn end(&self, result: &str, verification: Option<&Verification>) -> Result<()> {
        self.session.interrupt.check()?;
        verdict(result, verification)
    }
}
