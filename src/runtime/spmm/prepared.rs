//! A product that is prepared once and run repeatedly on any mix of devices, and that survives the loss of some of them.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::binder::{HostProduct, Shared, SpmmBinder};
use super::borrowed_inputs::BorrowedInputs;
use super::job::Job;
use super::opened::{Opened, registration_refused};
use super::outputs::Outputs;
use super::settings::Settings;
use crate::device::{Description, Registration, borrow_scope};
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::plan::{Plan, Remaining};
use crate::runtime::planned::Planned;
use crate::runtime::pool::Pool;
use crate::runtime::recovery::Recovery;
use crate::runtime::report::{FaultReport, Round, RunReport};
use crate::work::ChunkRows;

/// A product ready to run.
pub struct Prepared<'job, T: Kernels> {
    pool: &'job Pool,
    job: &'job Job<'job, T>,
    settings: Settings,
    chunk_rows: Vec<ChunkRows>,
    opened: Opened<'job>,
    products: Vec<HostProduct<T>>,
    carries: Vec<MultiVector<T>>,
    /// The graph of a whole product on the devices that are alive.
    whole: Arc<Planned>,
    /// The set-up round, which uploads the resident parts of A.
    set_up: Option<Round>,
    /// Faults before the first run, and refused registrations.
    faults: Vec<FaultReport>,
}

impl<'job, T: Kernels> Prepared<'job, T> {
    /// Prepares the host's chunks and uploads the resident parts of A. `opened` must be the open devices of `job`.
    pub fn new(
        pool: &'job Pool,
        job: &'job Job<'job, T>,
        mut opened: Opened<'job>,
        settings: Settings,
    ) -> Result<Self> {
        let plan = job.plan();
        let on_devices = plan.chunks.iter().any(|chunk| chunk.home != DeviceId::HOST.0);
        let pool = if on_devices { pool.sparing_threads_for_devices() } else { pool };
        let carries = plan
            .split_rows
            .iter()
            .map(|split| MultiVector::zeros(split.segments as usize, plan.k as usize))
            .collect::<Result<Vec<_>>>()?;
        let faults = std::mem::take(&mut opened.faults);
        let mut prepared = Self {
            pool,
            job,
            settings,
            chunk_rows: plan.chunks.iter().map(|chunk| chunk.rows).collect(),
            whole: Arc::new(Planned::new(plan.graph(&Remaining::all(plan))?)?),
            opened,
            products: plan.chunks.iter().map(|_| Mutex::new(None)).collect(),
            carries,
            set_up: None,
            faults,
        };
        prepared.prepare_host()?;
        prepared.upload_resident()?;
        Ok(prepared)
    }

    /// The plan.
    pub fn plan(&self) -> &'job Plan {
        self.job.plan()
    }

    /// The descriptions of all devices, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        self.opened.devices.descriptions()
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        self.opened.devices.clock_errors()
    }

    /// The set-up round, if parts of A are resident on devices.
    pub fn set_up(&self) -> Option<&Round> {
        self.set_up.as_ref()
    }

    /// Faults before the first run, and refused registrations.
    pub fn faults(&self) -> &[FaultReport] {
        &self.faults
    }

    /// The reason for the host's choice of kernel for a chunk.
    pub fn host_reason(&self, chunk: usize) -> Option<String> {
        let product = self.products.get(chunk)?.lock().ok()?;
        product.as_ref().map(|product| product.reason().to_string())
    }

    /// Whether the product is one chunk on the host, which runs without the coordinator.
    fn is_direct(&self) -> bool {
        self.opened.devices.alive.len() == 1 && self.products.len() == 1
    }

    /// Computes `y = A x` `runs` times, or until `cancel` is set, and passes the report of each run to `seen`. X and Y are
    /// page-locked once, for all runs. Fails if the caller is a worker of the pool.
    pub fn repeat(
        &mut self,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
        runs: u64,
        cancel: Option<&AtomicBool>,
        mut seen: impl FnMut(u64, RunReport) + Send,
    ) -> Result<()> {
        let stop = || cancel.is_some_and(|cancel| cancel.load(std::sync::atomic::Ordering::SeqCst));
        if self.is_direct() {
            let pool = self.pool;
            // All runs inside one `install`, so that no run includes the switch to the pool.
            return pool.install(|| {
                for run in (0..runs).take_while(|_| !stop()) {
                    seen(run, self.run_direct(x, y.reborrow())?);
                }
                Ok(())
            });
        }
        let _registrations = self.register(x, &mut y);
        for run in (0..runs).take_while(|_| !stop()) {
            let report = self.run_registered(x, y.reborrow(), cancel)?;
            let cancelled = report.cancelled;
            seen(run, report);
            if cancelled {
                break;
            }
        }
        Ok(())
    }

    /// Computes the only chunk on the current rayon pool.
    fn run_direct(&mut self, x: MultiVectorView<'_, T>, y: MultiVectorViewMut<'_, T>) -> Result<RunReport> {
        let clock = self.opened.devices.clock();
        let start_ns = clock.now_ns();
        let product = self.products.first_mut().and_then(|product| product.get_mut().ok()?.as_mut());
        product.ok_or_else(|| Error::Internal("the only chunk has no product".into()))?.run(
            self.job.rows(0)?,
            x,
            y,
        )?;
        let end_ns = clock.now_ns();
        Ok(RunReport { start_ns, end_ns, rounds: Vec::new(), faults: Vec::new(), cancelled: false })
    }

    /// Computes `y = A x` once. If a device fails, the others take over its work. X and Y are page-locked at every call;
    /// [`Self::repeat`] does so once for several runs. Fails if the caller is a worker of the pool.
    pub fn run(
        &mut self,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        let _registrations = self.register(x, &mut y);
        self.run_registered(x, y, cancel)
    }

    /// Page-locks X and Y for the devices that copy them in place. If a device refuses, its copies are slower.
    fn register(
        &mut self,
        x: MultiVectorView<'_, T>,
        y: &mut MultiVectorViewMut<'_, T>,
    ) -> Vec<Registration<'static>> {
        let mut registrations = Vec::new();
        for (index, planned) in self.job.plan().devices.iter().enumerate().skip(1) {
            let (wants, alive) = (planned.registered, self.opened.devices.alive.get(index) == Some(&true));
            let Some(device) = self.opened.devices.device(DeviceId(index as u32)).filter(|_| alive) else {
                continue;
            };
            let x: Option<&[u8]> = wants.x.then(|| bytemuck::cast_slice(x.data()));
            let y: Option<&[u8]> = wants.y.then(|| bytemuck::cast_slice(y.data_mut()));
            for bytes in x.into_iter().chain(y).filter(|bytes| !bytes.is_empty()) {
                match device.register(bytes) {
                    // Detached because Y is written while it is registered. The caller drops it before the borrows end.
                    Ok(registration) => registrations.push(registration.detached()),
                    Err(fault) => {
                        let report = registration_refused(&planned.name, fault);
                        if !self.faults.contains(&report) {
                            self.faults.push(report);
                        }
                    }
                }
            }
        }
        registrations
    }

    fn run_registered(
        &mut self,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        self.check_shapes(&x, &y)?;
        let Self { pool, job, settings, chunk_rows, opened, products, carries, whole, .. } = self;
        let plan = job.plan();
        let clock = opened.devices.clock();
        let start_ns = clock.now_ns();
        let mut recovery = Recovery::new(plan, &opened.devices.alive);
        let mut rounds = Vec::new();
        let cancelled = borrow_scope(|scope| {
            let outputs = Outputs::cut(y, carries, chunk_rows, scope)?;
            let inputs = BorrowedInputs::new(job, x, scope)?;
            let mut planned = whole.clone();
            loop {
                opened.hold_x(job, &planned)?;
                let shared = Shared {
                    job,
                    accelerators: &opened.accelerators,
                    products,
                    settings,
                    x,
                    inputs: &inputs,
                    outputs: &outputs,
                };
                let mut binder = SpmmBinder { shared: &shared, planned: &planned };
                let outcome =
                    opened.devices.run(pool, &planned, &mut binder, cancel, settings.watchdog_timeout)?;
                let round = Round { planned: planned.clone(), outcome };
                let (complete, cancelled) = (round.outcome.is_complete(), round.outcome.cancelled);
                let recorded = recovery.record_round(rounds.len(), &round);
                opened.devices.close_dead(&recovery.remaining.alive);
                recorded?;
                rounds.push(round);
                if complete || cancelled {
                    return Ok::<bool, Error>(cancelled);
                }
                let rest = plan.graph(&recovery.remaining).map_err(|error| recovery.explain(error))?;
                planned = Arc::new(Planned::new(rest)?);
            }
        })?;
        if recovery.remaining.alive != opened.devices.alive {
            // Later runs do not use failed devices.
            opened.devices.alive.clone_from(&recovery.remaining.alive);
            let all = Remaining { alive: opened.devices.alive.clone(), ..Remaining::all(plan) };
            *whole = Arc::new(Planned::new(plan.graph(&all)?)?);
        }
        let faults = recovery.into_faults(&rounds);
        Ok(RunReport { start_ns, end_ns: clock.now_ns(), rounds, faults, cancelled })
    }

    fn check_shapes(&self, x: &MultiVectorView<'_, T>, y: &MultiVectorViewMut<'_, T>) -> Result<()> {
        let matrix = self.job.matrix();
        let k = self.job.plan().k as usize;
        if x.rows() == matrix.cols() && y.rows() == matrix.rows() && x.k() == k && y.k() == k {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "a {} x {} matrix prepared for k = {k} was given X of {} x {} and Y of {} x {}",
            matrix.rows(),
            matrix.cols(),
            x.rows(),
            x.k(),
            y.rows(),
            y.k()
        )))
    }

    /// Prepares the chunks that the host may compute.
    fn prepare_host(&mut self) -> Result<()> {
        let Self { pool, job, settings, products, .. } = self;
        let job = *job;
        pool.install(|| {
            for (index, chunk) in job.plan().chunks.iter().enumerate() {
                if chunk.home == DeviceId::HOST.0 || chunk.also.contains(&DeviceId::HOST.0) {
                    let product = job.host_product(index, settings)?;
                    products[index] = Mutex::new(Some(product));
                }
            }
            Ok(())
        })
    }

    /// Uploads the resident parts of A.
    fn upload_resident(&mut self) -> Result<()> {
        let plan = self.job.plan();
        let planned = Arc::new(Planned::new(plan.prepare_graph())?);
        if planned.planned.graph.tasks().is_empty() {
            return Ok(());
        }
        let nothing = MultiVectorView::try_new(&[], 0, 0, 0)?;
        let Self { pool, job, settings, opened, products, .. } = self;
        let outcome = borrow_scope(|scope| {
            let outputs = Outputs::cut(MultiVectorViewMut::try_new(&mut [], 0, 0, 0)?, &mut [], &[], scope)?;
            let inputs = BorrowedInputs::new(job, nothing, scope)?;
            let shared = Shared {
                job,
                accelerators: &opened.accelerators,
                products,
                settings,
                x: nothing,
                inputs: &inputs,
                outputs: &outputs,
            };
            let mut binder = SpmmBinder { shared: &shared, planned: &planned };
            opened.devices.run(pool, &planned, &mut binder, None, settings.watchdog_timeout)
        })?;
        let round = Round { planned, outcome };
        let mut recovery = Recovery::new(plan, &self.opened.devices.alive);
        recovery.record_round(0, &round)?;
        if !round.outcome.is_complete() {
            // A device without its part of A cannot compute.
            for fault in &round.outcome.faults {
                if let Some(alive) = self.opened.devices.alive.get_mut(fault.device.index()) {
                    *alive = false;
                }
            }
            let all = Remaining { alive: self.opened.devices.alive.clone(), ..Remaining::all(plan) };
            let rest = plan.graph(&all).map_err(|error| recovery.explain(error))?;
            self.whole = Arc::new(Planned::new(rest)?);
        }
        let alive = plan.computing().filter(|&device| self.opened.devices.alive[device as usize]);
        let names: Vec<&str> = alive.map(|device| plan.devices[device as usize].name.as_str()).collect();
        self.faults.extend(
            recovery
                .into_faults(&[])
                .into_iter()
                .map(|fault| FaultReport { recovered_on: Some(names.join(",")), ..fault }),
        );
        self.set_up = Some(round);
        Ok(())
    }
}
