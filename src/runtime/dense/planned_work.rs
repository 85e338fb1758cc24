//! A job with a dense A: planned when it is built, prepared with its first run, run any number of times.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::builder::DenseBuilder;
use super::operand::DenseOperand;
use crate::adapt::ResolvedDevices;
use crate::device::completion::WATCHDOG_TIMEOUT;
use crate::device::{Description, Registration};
use crate::error::{Advice, Error, Result};
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::plan::{Plan, PlanRequest, make};
use crate::runtime::job::{BorrowsA, Job, Prepared, Scaling, open, open_planned};
use crate::runtime::run::{FaultReport, Round, RunReport};
use crate::runtime::{ProductOptions, Runtime, Transfer};
use crate::work::Work;

/// A job with a dense A, which is made from A, its shape and a plan.
pub trait DenseJob<'a>: Job {
    /// The shape, as a planner sees it.
    type Work: Copy + Into<Work<'static>> + Send + Sync;

    /// The job of a plan, which must have been made for this shape.
    fn of(a: DenseOperand<'a, Self::Value>, work: Self::Work, plan: Plan) -> Self;
}

/// A dense product, or sums of columns: its plan, and its memory on devices.
pub struct DenseWork<'a, J: DenseJob<'a>> {
    runtime: Runtime,
    pub(in crate::internal::runtime) a: DenseOperand<'a, J::Value>,
    pub(in crate::internal::runtime) work: J::Work,
    options: ProductOptions,
    resolved: Option<ResolvedDevices>,
    /// A plan that the caller gave.
    pub(in crate::internal::runtime) given: bool,
    plan: Plan,
    prepared: Option<Prepared<J>>,
    /// How often the plan changed.
    pub(in crate::internal::runtime) changes: u64,
    last: Option<RunReport>,
    faults: Vec<FaultReport>,
    plan_s: f64,
    prepare_s: f64,
}

impl<'a, J: DenseJob<'a>> DenseWork<'a, J> {
    /// Makes the plan. Devices are opened with the first run.
    pub(in crate::internal::runtime) fn new(builder: DenseBuilder<'a, J::Value, J::Work>) -> Result<Self> {
        let DenseBuilder { runtime, a, work, options, resolved, plan } = builder;
        let start = Instant::now();
        let given = plan.is_some();
        let (plan, resolved) = match plan {
            Some(plan) => {
                runtime.pool().install(|| plan.check_matrix(&work.into()))?;
                (plan, None)
            }
            None => {
                let resolved = resolved.map_or_else(|| runtime.resolve(&options), Ok)?;
                let request = request(&options, &resolved, work.into(), &a);
                (runtime.pool().install(|| make(&request))?, Some(resolved))
            }
        };
        let (last, plan_s) = (None, start.elapsed().as_secs_f64());
        let (prepared, faults, prepare_s, changes) = (None, Vec::new(), 0.0, 0);
        Ok(Self {
            runtime,
            a,
            work,
            options,
            resolved,
            given,
            plan,
            prepared,
            changes,
            last,
            faults,
            plan_s,
            prepare_s,
        })
    }

    /// Changes the shape, and with it the plan. Devices are opened with the next run.
    pub(in crate::internal::runtime) fn change_work(&mut self, work: J::Work) -> Result<()> {
        let resolved = self.resolved.as_ref().filter(|_| !self.given);
        let resolved = resolved.ok_or_else(|| {
            Error::usage("the given plan is for another job").advise([Advice::NewPlan, Advice::NoPlan])
        })?;
        let start = Instant::now();
        let request = request(&self.options, resolved, work.into(), &self.a);
        self.plan = self.runtime.pool().install(|| make(&request))?;
        if let Some(prepared) = self.prepared.take() {
            self.faults.extend_from_slice(prepared.faults());
        }
        self.work = work;
        self.changes += 1;
        self.plan_s += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Opens the devices of the plan and brings a resident A to them, unless that was done.
    pub fn prepare(&mut self) -> Result<()> {
        self.prepared().map(drop)
    }

    /// The same; returns the prepared job.
    pub(in crate::internal::runtime) fn prepared(&mut self) -> Result<&mut Prepared<J>> {
        if self.prepared.is_none() {
            let start = Instant::now();
            let timeout = self.options.watchdog_timeout.unwrap_or(WATCHDOG_TIMEOUT);
            let (a, work, plan) = (&self.a, self.work, self.plan.clone());
            let job = |plan| Ok(J::of(a.clone(), work, plan));
            let opened = match &self.resolved {
                Some(resolved) => {
                    let request = request(&self.options, resolved, work.into(), a);
                    open(&self.runtime, request, Some(plan), job)?
                }
                None => open_planned(&self.runtime, || job(plan))?,
            };
            let prepared = Prepared::new(&self.runtime, opened, timeout, self.options.check)?;
            self.plan_s += prepared.plan_s();
            self.prepare_s += start.elapsed().as_secs_f64() - prepared.plan_s();
            // Another plan where a device had too little memory.
            self.plan = prepared.plan().clone();
            self.prepared = Some(prepared);
        }
        self.prepared.as_mut().ok_or_else(|| Error::Internal("a prepared job is gone".into()))
    }

    /// Page-locks the matrices that the plan copies in place.
    pub(in crate::internal::runtime) fn register<'xy>(
        &mut self,
        x: MultiVectorView<'xy, J::Value>,
        y: &mut MultiVectorViewMut<'xy, J::Value>,
    ) -> Result<Vec<Registration<'xy>>>
    where
        J: BorrowsA<'xy>,
    {
        Ok(self.prepared()?.register(x, y))
    }

    /// Runs the job. Copies in place are fast only while their matrices are registered. If `same_x`, X has the values of the last run, and
    /// devices keep it.
    pub(in crate::internal::runtime) fn run(
        &mut self,
        scaling: Scaling,
        (x, same_x): (MultiVectorView<'_, J::Value>, bool),
        y: MultiVectorViewMut<'_, J::Value>,
        cancel: Option<&AtomicBool>,
    ) -> Result<()> {
        let prepared = self.prepared()?;
        let report = match same_x {
            true => prepared.run_again(scaling, x, y, cancel)?,
            false => prepared.run(scaling, x, y, cancel)?,
        };
        self.faults.extend_from_slice(&report.faults);
        self.last = Some(report);
        Ok(())
    }

    /// The runtime that it was built with.
    #[doc(hidden)]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The decisions of the plan in words, one per line.
    pub fn explain(&self) -> String {
        self.plan.reasons.join("\n")
    }

    /// The report of the last run.
    pub fn last_report(&self) -> Option<&RunReport> {
        self.last.as_ref()
    }

    /// The report of the last run, taken out.
    #[doc(hidden)]
    pub fn take_report(&mut self) -> Option<RunReport> {
        self.last.take()
    }

    /// Faults before the first run, refused registrations, and the faults of all runs.
    pub fn faults(&self) -> Vec<FaultReport> {
        let prepared = self.prepared.iter().flat_map(|prepared| prepared.faults());
        prepared.chain(&self.faults).cloned().collect()
    }

    /// Seconds of planning so far.
    #[doc(hidden)]
    pub fn plan_s(&self) -> f64 {
        self.plan_s
    }

    /// Seconds of opening devices and bringing A so far.
    #[doc(hidden)]
    pub fn prepare_s(&self) -> f64 {
        self.prepare_s
    }

    /// The descriptions of the devices of the plan, the host first; empty before the first run. A
    /// [`Timeline`](crate::runtime::Timeline) needs them.
    #[doc(hidden)]
    pub fn descriptions(&self) -> Vec<Description> {
        self.prepared.as_ref().map_or_else(Vec::new, |prepared| prepared.descriptions())
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    #[doc(hidden)]
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        self.prepared.as_ref().map_or_else(Vec::new, |prepared| prepared.clock_errors())
    }

    /// Takes the round that brought A to the devices, where it stays there.
    #[doc(hidden)]
    pub fn take_set_up(&mut self) -> Option<Round> {
        self.prepared.as_mut()?.take_set_up()
    }
}

/// The request for a plan. The caller's arrays may be registered during a call, or as long as they are bound. With several calls that are
/// not bound they are staged, since each call would register them again; only an A that the job owns stays registered.
fn request<'w, T: crate::matrix::Scalar>(
    options: &ProductOptions,
    resolved: &ResolvedDevices,
    work: Work<'w>,
    a: &DenseOperand<'_, T>,
) -> PlanRequest<'w> {
    let uses = options.uses.unwrap_or(1);
    let mut request = options.request(resolved, work, uses);
    request.vectors_change = uses > 1 && !options.bound && options.transfer == Transfer::Auto;
    if request.vectors_change && matches!(a, DenseOperand::Borrowed(_)) {
        let links = request.devices.iter_mut().filter_map(|device| device.profile.link.as_mut());
        links.for_each(|link| link.register_s_per_gb = None);
    }
    request
}
