//! A job that is prepared once and run repeatedly on any mix of devices, and that survives the loss of some of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::binder::{JobBinder, Shared};
use super::check::{Check, CheckedProduct, Checks};
use super::in_place::{InPlace, InPlacePlan};
use super::opened::{Opened, OpenedPlan, registration_refused};
use super::outputs::Outputs;
use super::registrations::{borrowed, borrowed_y, united};
use super::scaling::Scaling;
use super::upload::Uploading;
use super::{BorrowsA, Job};
use crate::device::completion::Timeouts;
use crate::device::{Description, Network, Registration, borrow_scope};
use crate::error::{Error, Result};
use crate::exec::{Binder, Outcome};
use crate::graph::DeviceId;
use crate::kernel::check::Method;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::plan::{Plan, Remaining};
use crate::runtime::Runtime;
use crate::runtime::devices::{OpenDevice, Pool, SharedDevice};
use crate::runtime::run::{FaultReport, Planned, Recovery, Round, RunReport};
use crate::trace::Clock;
use crate::work::ChunkRows;

/// A job ready to run. It owns its devices' memory and shares the pool and the open devices.
pub struct Prepared<J: Job> {
    /// The open devices.
    pub(in crate::internal::runtime) opened: Opened<J>,
    /// The threads of the host.
    pub(in crate::internal::runtime) pool: Arc<Pool>,
    /// The job.
    pub(in crate::internal::runtime) job: J,
    /// How long its devices may be silent.
    pub(in crate::internal::runtime) timeouts: Timeouts,
    chunk_rows: Vec<ChunkRows>,
    carries: Vec<MultiVector<J::Value>>,
    /// The graph of the whole job on the devices that are alive.
    pub(super) whole: Arc<Planned>,
    /// The same without copies of X; made when it is first needed.
    without_x: Option<Arc<Planned>>,
    /// The plans for operands in page-locked memory; made when they are first needed.
    pub(super) in_place: Vec<Arc<InPlacePlan>>,
    /// Whether the devices hold the X of the last run.
    holds_x: bool,
    /// The set-up round, which uploads the resident parts of A.
    pub(super) set_up: Option<Round>,
    /// Faults before the first run, and refused registrations.
    pub(super) faults: Vec<FaultReport>,
    pub(super) checks: Checks,
    plan_s: f64,
}

impl<J: Job> Prepared<J> {
    /// Prepares the chunks of the host and uploads the resident parts of A.
    pub fn new(
        runtime: &Runtime,
        opened: OpenedPlan<J>,
        watchdog_timeout: Duration,
        check: Check,
    ) -> Result<Self> {
        let OpenedPlan { job, opened, faults, plan_s } = opened;
        let plan = job.plan();
        let on_devices = plan.chunks.iter().any(|chunk| chunk.home != DeviceId::HOST.0);
        let pool = runtime.pool();
        let pool = if on_devices { pool.sparing_threads_for_devices() } else { pool.clone() };
        let carries = plan
            .split_rows
            .iter()
            .map(|split| MultiVector::zeros(split.segments as usize, plan.k as usize))
            .collect::<Result<Vec<_>>>()?;
        let mut prepared = Self {
            opened,
            pool,
            timeouts: Timeouts { watchdog: watchdog_timeout, message: None },
            chunk_rows: plan.chunks.iter().map(|chunk| chunk.rows).collect(),
            whole: Arc::new(Planned::new(plan.graph(&Remaining::all(plan))?)?),
            without_x: None,
            in_place: Vec::new(),
            holds_x: false,
            carries,
            set_up: None,
            faults,
            checks: Checks::new(check, job.plan().devices.len()),
            plan_s,
            job,
        };
        prepared.prepare_host()?;
        prepared.check_method()?;
        prepared.upload_resident()?;
        Ok(prepared)
    }

    /// Device number `index` of the plan; `None` for the host, and for a device that failed before the first product.
    pub fn device(&self, index: usize) -> Option<&Arc<SharedDevice>> {
        self.opened.devices.alive.get(index).filter(|alive| **alive)?;
        self.opened.devices.device(DeviceId(index as u32))
    }

    /// Runs a graph on the devices of the plan and, if it has messages between ranks, a network. Jobs run on the pool of the host.
    pub fn run_tasks<'scope>(
        &self,
        planned: &Planned,
        binder: &mut (dyn Binder<'scope> + Send),
        network: Option<&mut Network>,
    ) -> Result<Outcome> {
        self.lock_with_a()?.run(&self.pool, planned, binder, network, None, self.timeouts)
    }

    /// The clock of all reported times.
    pub fn clock(&self) -> Clock {
        self.opened.devices.clock()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.job.plan()
    }

    /// Seconds that planning took.
    pub fn plan_s(&self) -> f64 {
        self.plan_s
    }

    /// The descriptions of all devices, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        self.opened.devices.descriptions()
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        self.opened.devices.clock_errors()
    }

    /// Takes the set-up round, if parts of A are resident on devices.
    pub fn take_set_up(&mut self) -> Option<Round> {
        self.set_up.take()
    }

    /// Faults before the first run, and refused registrations.
    pub fn faults(&self) -> &[FaultReport] {
        &self.faults
    }

    /// Whether the job is one chunk of rows on the host, which runs without the coordinator.
    pub(super) fn is_direct(&self) -> bool {
        self.opened.devices.alive.len() == 1 && matches!(self.chunk_rows[..], [ChunkRows::Rows { .. }])
    }

    /// Computes the only chunk on the current thread and its rayon pool.
    fn run_direct(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        y: MultiVectorViewMut<'_, J::Value>,
    ) -> Result<RunReport> {
        let clock = self.opened.devices.clock();
        let start_ns = clock.now_ns();
        self.job.compute(0, scaling, x, y)?;
        let end_ns = clock.now_ns();
        Ok(RunReport::of_host(start_ns, end_ns))
    }

    /// The same, and finds wrong rows of Y meanwhile if the kind of work can.
    pub(super) fn run_direct_checked(
        &mut self,
        method: &Method,
        product: CheckedProduct<'_, J::Value, &mut MultiVectorViewMut<'_, J::Value>>,
    ) -> Result<(RunReport, Option<Vec<usize>>)> {
        let clock = self.opened.devices.clock();
        self.check_shapes(&product.x, &*product.y)?;
        let start_ns = clock.now_ns();
        // Also a small product: its check divides the rows, and must not do so in rayon's global pool, which a runtime neither owns nor
        // limits, and whose threads a forked child does not have.
        let (pool, job) = (self.pool.clone(), &self.job);
        let wrong = pool.install_spinning(|| job.compute_checked(method, product))?;
        Ok((RunReport::of_host(start_ns, clock.now_ns()), wrong))
    }

    /// Computes `y = alpha A x + beta y`. If a device fails, the others take over its work. Copies in place are fast only while X and Y are
    /// registered. Fails if the caller is a worker of the pool and the product has several chunks.
    pub fn run(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        y: MultiVectorViewMut<'_, J::Value>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        self.checked(scaling, x, y, |prepared, y| prepared.run_unchecked(scaling, x, y, cancel))
    }

    fn run_unchecked(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        y: MultiVectorViewMut<'_, J::Value>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        let in_place = self.plan().devices.iter().any(|device| device.registered.y);
        if scaling.reads_y() && in_place {
            return Err(Error::usage(
                "Y = alpha A X + beta Y needs a staged Y on GPUs: leave the transfer to the planner",
            ));
        }
        if self.is_direct() {
            // To start another thread takes longer than a product that is too small for two.
            if self.job.is_serial(0) {
                return self.run_direct(scaling, x, y);
            }
            let pool = self.pool.clone();
            return pool.install_spinning(|| self.run_direct(scaling, x, y));
        }
        self.run_graph((self.whole.clone(), None, false), scaling, x, y, cancel)
    }

    /// The same with operands in page-locked memory, which devices copy in place where they can.
    pub fn run_in_place(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        y: MultiVectorViewMut<'_, J::Value>,
        in_place: InPlace,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        // The host combines the results with the old Y.
        let in_place = InPlace { y: in_place.y && !scaling.reads_y(), ..in_place };
        match self.in_place_plan(in_place)? {
            Some(known) => self.checked(scaling, x, y, |prepared, y| {
                prepared.run_graph((known.whole.clone(), Some(known), false), scaling, x, y, cancel)
            }),
            None => self.run(scaling, x, y, cancel),
        }
    }

    /// The same with the X of the last run, whose values must not have changed: devices that hold it do not receive it again.
    pub fn run_again(
        &mut self,
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        y: MultiVectorViewMut<'_, J::Value>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        if !self.holds_x {
            return self.run(scaling, x, y, cancel);
        }
        let first = match &self.without_x {
            Some(planned) => planned.clone(),
            None => {
                let plan = self.job.plan();
                let alive = self.opened.devices.alive.clone();
                let all = Remaining { alive, x_is_held: true, ..Remaining::all(plan) };
                let planned = Arc::new(Planned::new(plan.graph(&all)?)?);
                self.without_x.insert(planned).clone()
            }
        };
        self.checked(scaling, x, y, |prepared, y| {
            prepared.run_graph((first, None, true), scaling, x, y, cancel)
        })
    }

    /// Page-locks X, Y and a borrowed A for the devices that copy them in place. If a device refuses, its copies are slower.
    pub fn register<'xy>(
        &mut self,
        x: MultiVectorView<'xy, J::Value>,
        y: &mut MultiVectorViewMut<'xy, J::Value>,
    ) -> Vec<Registration<'xy>>
    where
        J: BorrowsA<'xy>,
    {
        let mut wanted = Vec::new();
        for (index, planned) in self.job.plan().devices.iter().enumerate().skip(1) {
            if self.device(index).is_none() {
                continue;
            }
            let wants = planned.registered;
            // A shared A is registered since the devices were opened.
            let a = if wants.a { self.job.borrowed_arrays(index) } else { Vec::new() };
            wanted.extend(a.into_iter().map(|bytes| (index, borrowed(bytes))));
            if wants.x {
                wanted.push((index, borrowed(bytemuck::cast_slice(x.data()))));
            }
            if wants.y {
                wanted.push((index, borrowed_y(y)));
            }
        }
        let mut registrations = Vec::new();
        for (index, bytes) in united(wanted) {
            let Some(device) = self.device(index) else { continue };
            let registered = device.lock().register(bytes);
            match registered {
                Ok(registration) => registrations.push(registration),
                Err(fault) => {
                    let report = registration_refused(&self.job.plan().devices[index].name, fault);
                    if !self.faults.contains(&report) {
                        self.faults.push(report);
                    }
                }
            }
        }
        registrations
    }

    /// Runs a graph of the whole job, and what faults leave of it. `in_place` is the plan of the graph if it is not the job's. A graph
    /// `without_x` is replaced by that of the whole job if another job has used the memory of X meanwhile.
    fn run_graph(
        &mut self,
        (first, in_place, without_x): (Arc<Planned>, Option<Arc<InPlacePlan>>, bool),
        scaling: Scaling,
        x: MultiVectorView<'_, J::Value>,
        y: MultiVectorViewMut<'_, J::Value>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        self.check_shapes(&x, &y)?;
        self.holds_x = false;
        let Self { pool, job, timeouts, chunk_rows, opened, carries, whole, .. } = self;
        let plan = in_place.as_ref().map_or(job.plan(), |known| &known.plan);
        let clock = opened.devices.clock();
        let start_ns = clock.now_ns();
        let mut recovery = Recovery::new(plan, &opened.devices.alive);
        let mut rounds = Vec::new();
        let cancelled = borrow_scope(|scope| {
            let outputs = Outputs::cut(y, carries, chunk_rows, scope)?;
            let (a, x_pinned) = (job.borrow(scope)?, scope.read_only(bytemuck::cast_slice(x.data())));
            let mut planned = first;
            loop {
                let alive = recovery.remaining.alive.clone();
                let mut failed =
                    opened.change_x(job, &planned, &alive)?.err().into_iter().collect::<Vec<_>>();
                let mut locked = opened.devices.lock();
                if failed.is_empty() {
                    match opened.hold(&mut locked, &alive) {
                        Ok(held) => {
                            if without_x && rounds.is_empty() && !held.has_x {
                                planned = whole.clone();
                            }
                            let uploading = Uploading { job, opened, pool, timeouts: *timeouts };
                            failed.extend(uploading.missing(&mut locked, &held.without_a)?);
                        }
                        Err(of_device) => failed.push(of_device),
                    }
                }
                if !failed.is_empty() {
                    for (device, fault) in failed {
                        if fault.closes_device() {
                            locked.device(device).into_iter().for_each(OpenDevice::close);
                        }
                        recovery.record_refused_memory(rounds.len(), &planned, device, fault)?;
                    }
                    let rest = plan.graph(&recovery.remaining).map_err(|error| recovery.explain(error))?;
                    planned = Arc::new(Planned::new(rest)?);
                    continue;
                }
                let shared = Shared {
                    job,
                    plan,
                    accelerators: &opened.accelerators,
                    scaling,
                    x,
                    x_pinned: &x_pinned,
                    a: &a,
                    outputs: &outputs,
                };
                let mut binder = JobBinder { shared: &shared, planned: &planned };
                let outcome = locked.run(pool, &planned, &mut binder, None, cancel, *timeouts)?;
                let round = Round { planned: planned.clone(), outcome };
                let (complete, cancelled) = (round.outcome.is_complete(), round.outcome.cancelled);
                let recorded = recovery.record_round(rounds.len(), &round);
                drop(locked);
                recovery.end_process_if_hung(&round, scope);
                recorded?;
                rounds.push(round);
                if complete || cancelled {
                    return Ok::<bool, Error>(cancelled);
                }
                let rest = plan.graph(&recovery.remaining).map_err(|error| recovery.explain(error))?;
                planned = Arc::new(Planned::new(rest)?);
            }
        })?;
        let alive = recovery.remaining.alive.clone();
        let faults = recovery.into_faults(&rounds);
        // Later runs do not use failed devices.
        if alive != self.opened.devices.alive {
            self.use_only(alive)?;
        }
        self.holds_x = faults.is_empty() && !cancelled;
        Ok(RunReport { start_ns, end_ns: clock.now_ns(), rounds, faults, cancelled, check_s: None })
    }

    /// Later runs use only the devices that are `alive`.
    fn use_only(&mut self, alive: Vec<bool>) -> Result<()> {
        let all = Remaining { alive: alive.clone(), ..Remaining::all(self.job.plan()) };
        self.whole = Arc::new(Planned::new(self.job.plan().graph(&all)?)?);
        self.opened.devices.alive = alive;
        self.without_x = None;
        self.in_place.clear();
        Ok(())
    }

    /// Closes a device whose results were wrong, unless it is the only one. Then its products are checked and computed again.
    pub(super) fn exclude_wrong_device(&mut self, device: DeviceId) -> Result<()> {
        let mut alive = self.opened.devices.alive.clone();
        alive.iter_mut().skip(device.index()).take(1).for_each(|alive| *alive = false);
        if self.plan().computing().any(|other| alive.get(other as usize) == Some(&true)) {
            self.opened.devices.device(device).into_iter().for_each(|device| device.lock().close());
            self.use_only(alive)?;
        }
        Ok(())
    }

    fn check_shapes(
        &self,
        x: &MultiVectorView<'_, J::Value>,
        y: &MultiVectorViewMut<'_, J::Value>,
    ) -> Result<()> {
        let plan = self.job.plan();
        let (rows, cols, k) = (plan.matrix.rows, plan.matrix.cols, plan.k as usize);
        if x.rows() as u64 == cols && y.rows() as u64 == rows && x.k() == k && y.k() == k {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a {rows} x {cols} matrix prepared for k = {k} was given X of {} x {} and Y of {} x {}",
            x.rows(),
            x.k(),
            y.rows(),
            y.k()
        )))
    }

    /// Prepares the chunks that the host may compute.
    fn prepare_host(&self) -> Result<()> {
        let job = &self.job;
        self.pool.install(|| {
            for (index, chunk) in job.plan().chunks.iter().enumerate() {
                if chunk.home == DeviceId::HOST.0 || chunk.also.contains(&DeviceId::HOST.0) {
                    job.prepare_on_host(index)?;
                }
            }
            Ok(())
        })
    }
}
