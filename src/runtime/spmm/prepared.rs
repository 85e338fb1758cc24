//! A product that is prepared once and run often on any mix of devices, and that survives the loss of some of them.

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
    products: Vec<HostProduct<'job, T>>,
    carries: Vec<MultiVector<T>>,
    /// The graph of a whole product on the devices that are alive.
    whole: Arc<Planned>,
    /// What bringing A to its devices did.
    set_up: Option<Round>,
    /// Faults of devices that were given up before the first run.
    faults: Vec<FaultReport>,
}

impl<'job, T: Kernels> Prepared<'job, T> {
    /// Decides how the host computes its chunks and brings A to where it stays. `opened` are the devices of the job.
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

    /// What each device is, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        self.opened.devices.descriptions()
    }

    /// By how much the times of devices with a clock of their own may be off, by their names.
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        self.opened.devices.clock_errors()
    }

    /// What bringing A to its devices did, where it stays there.
    pub fn set_up(&self) -> Option<&Round> {
        self.set_up.as_ref()
    }

    /// What went wrong before the first run.
    pub fn faults(&self) -> &[FaultReport] {
        &self.faults
    }

    /// Why the host computes a chunk the way it does.
    pub fn host_reason(&self, chunk: usize) -> Option<String> {
        let product = self.products.get(chunk)?.lock().ok()?;
        product.as_ref().map(|product| product.reason().to_string())
    }

    /// Whether all there is to do is one chunk on the host, for which nothing has to be coordinated.
    fn is_direct(&self) -> bool {
        self.opened.devices.alive.len() == 1 && self.products.len() == 1
    }

    /// Computes `y = A x` `runs` times and shows `seen` the report of each, until `cancel` is set. An error if the caller
    /// is a worker of the pool.
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
            // On the pool from the first to the last, so that no time of handing over is measured.
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

    /// One chunk on the host, in the pool this is called in.
    fn run_direct(&mut self, x: MultiVectorView<'_, T>, y: MultiVectorViewMut<'_, T>) -> Result<RunReport> {
        let clock = self.opened.devices.clock();
        let start_ns = clock.now_ns();
        let product = self.products.first_mut().and_then(|product| product.get_mut().ok()?.as_mut());
        product.ok_or_else(|| Error::Internal("the only chunk has no product".into()))?.run(x, y)?;
        let end_ns = clock.now_ns();
        Ok(RunReport { start_ns, end_ns, rounds: Vec::new(), faults: Vec::new(), cancelled: false })
    }

    /// Computes `y = A x`; what a device fails to do, another does. An error if the caller is a worker of the pool.
    pub fn run(
        &mut self,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
        cancel: Option<&AtomicBool>,
    ) -> Result<RunReport> {
        let _registrations = self.register(x, &mut y);
        self.run_registered(x, y, cancel)
    }

    /// Locks X and Y for the devices that copy from and to where they lie. Where one refuses, its copies are slower.
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
                    // Y is written while it is locked; both locks end with the runs, and the borrows after them.
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
                let stock = recovery.record_round(rounds.len(), &round);
                opened.devices.close_dead(&recovery.remaining.alive);
                stock?;
                rounds.push(round);
                if complete || cancelled {
                    return Ok::<bool, Error>(cancelled);
                }
                let rest = plan.graph(&recovery.remaining).map_err(|error| recovery.explain(error))?;
                planned = Arc::new(Planned::new(rest)?);
            }
        })?;
        if recovery.remaining.alive != opened.devices.alive {
            // Later runs do not ask those again that failed.
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

    /// Decides how the host computes the chunks that it may get.
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

    /// Brings what stays on the devices there.
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
            // A device that did not get its part of A has nothing to compute with, whatever else it can do.
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
