//! A job that is prepared once and run repeatedly on any mix of devices, and that survives the loss of some of them.

use std::sync::Arc;
use std::time::Duration;

use super::check::Checks;
use super::in_place::InPlacePlan;
use super::job_devices::{JobDevices, OpenedPlan, registration_refused};
use super::registrations::{borrowed, borrowed_y, united};
use super::{BorrowsA, Job};
use crate::device::completion::Timeouts;
use crate::device::{Description, NetworkDevice, Registration};
use crate::error::{Error, Result};
use crate::exec::{Binder, ExecOutcome};
use crate::graph::DeviceId;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::plan::{Plan, Remaining};
use crate::runtime::Check;
use crate::runtime::Runtime;
use crate::runtime::devices::{OpenDevice, Pool};
use crate::runtime::run::{FaultReport, Planned, Round};
use crate::trace::Clock;
use crate::work::ChunkRows;

/// A job ready to run. It owns its devices' memory and shares the pool and the open devices.
pub struct Prepared<J: Job> {
    /// The open devices.
    pub(in crate::internal::runtime) opened: JobDevices<J>,
    /// The threads of the host.
    pub(in crate::internal::runtime) pool: Arc<Pool>,
    /// The job.
    pub(in crate::internal::runtime) job: J,
    /// How long its devices may be silent.
    pub(in crate::internal::runtime) timeouts: Timeouts,
    pub(super) chunk_rows: Vec<ChunkRows>,
    pub(super) carries: Vec<MultiVector<J::Value>>,
    /// The graph of the whole job on the devices that are alive.
    pub(super) whole: Arc<Planned>,
    /// The same without copies of X; made when it is first needed.
    pub(super) without_x: Option<Arc<Planned>>,
    /// The plans for operands in page-locked memory; made when they are first needed.
    pub(super) in_place: Vec<Arc<InPlacePlan>>,
    /// Whether the devices hold the X of the last run.
    pub(super) holds_x: bool,
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
    pub fn device(&self, index: usize) -> Option<&Arc<OpenDevice>> {
        self.opened.devices.alive.get(index).filter(|alive| **alive)?;
        self.opened.devices.device(DeviceId(index as u32))
    }

    /// Runs a graph on the devices of the plan and, if it has messages between ranks, a network. Jobs run on the pool of the host.
    pub fn run_tasks<'scope>(
        &self,
        planned: &Planned,
        binder: &mut (dyn Binder<'scope> + Send),
        network: Option<&mut NetworkDevice>,
    ) -> Result<ExecOutcome> {
        let options = self.pool.exec_options(None, self.timeouts);
        self.lock_with_a()?.run(&self.pool, planned, binder, network, &options)
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

    /// Later runs use only the devices that are `alive`.
    pub(super) fn use_only(&mut self, alive: Vec<bool>) -> Result<()> {
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

    pub(super) fn check_shapes(
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
