//! The runs of a prepared job, and the recovery from faults of its devices.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Job;
use super::binder::{JobBinder, Shared};
use super::check::CheckedProduct;
use super::in_place::{InPlace, InPlacePlan};
use super::outputs::Outputs;
use super::prepared::Prepared;
use super::scaling::Scaling;
use super::upload::Uploading;
use crate::device::borrow_scope;
use crate::error::{Error, Result};
use crate::kernel::check::Method;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::plan::Remaining;
use crate::runtime::devices::LockedDevice;
use crate::runtime::run::{Planned, Recovery, Round, RunReport};

impl<J: Job> Prepared<J> {
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
                            locked.device(device).into_iter().for_each(LockedDevice::close);
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
                let options = pool.exec_options(cancel, *timeouts);
                let outcome = locked.run(pool, &planned, &mut binder, None, &options)?;
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

    /// The plan that copies these operands in place, which is made once; `None` if it is the plan of the job.
    fn in_place_plan(&mut self, in_place: InPlace) -> Result<Option<Arc<InPlacePlan>>> {
        if in_place == InPlace::default() {
            return Ok(None);
        }
        if let Some(known) = self.in_place.iter().find(|known| known.in_place == in_place) {
            return Ok(Some(known.clone()));
        }
        let Some(plan) = in_place.plan(self.job.plan()) else { return Ok(None) };
        let all = Remaining { alive: self.opened.devices.alive.clone(), ..Remaining::all(&plan) };
        let whole = Arc::new(Planned::new(plan.graph(&all)?)?);
        let made = Arc::new(InPlacePlan { in_place, plan, whole });
        self.in_place.push(made.clone());
        Ok(Some(made))
    }
}
