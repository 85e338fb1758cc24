//! Copies A to the devices where it stays: before the first run of a job, and again after the memory was needed for others.

use std::sync::Arc;

use super::Job;
use super::binder::{JobBinder, Shared};
use super::job_devices::JobDevices;
use super::outputs::Outputs;
use super::prepared::Prepared;
use super::scaling::Scaling;
use crate::device::completion::Timeouts;
use crate::device::{Fault, borrow_scope};
use crate::error::Result;
use crate::graph::DeviceId;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::plan::Remaining;
use crate::runtime::devices::{LockedDevice, Pool};
use crate::runtime::run::{FaultReport, LockedDevices, Planned, Recovery, Round};

/// A job and its devices.
pub struct Uploading<'p, J: Job> {
    pub job: &'p J,
    pub opened: &'p JobDevices<J>,
    pub pool: &'p Pool,
    pub timeouts: Timeouts,
}

impl<J: Job> Uploading<'_, J> {
    /// Copies A to the devices for which `to` is true, whose memory is held.
    pub fn run(&self, locked: &mut LockedDevices<'_>, to: &[bool]) -> Result<Round> {
        let Self { job, opened, pool, timeouts } = *self;
        let plan = job.plan();
        let planned = Arc::new(Planned::new(plan.prepare_graph(to))?);
        let nothing = MultiVectorView::try_new(&[], 0, 0, 0)?;
        let round = borrow_scope(|scope| {
            let outputs = Outputs::cut(MultiVectorViewMut::try_new(&mut [], 0, 0, 0)?, &mut [], &[], scope)?;
            let (a, x_pinned) = (job.borrow(scope)?, scope.read_only(&[]));
            let shared = Shared {
                job,
                plan,
                accelerators: &opened.accelerators,
                scaling: Scaling::NONE,
                x: nothing,
                x_pinned: &x_pinned,
                a: &a,
                outputs: &outputs,
            };
            let mut binder = JobBinder { shared: &shared, planned: &planned };
            let options = pool.exec_options(None, timeouts);
            let outcome = locked.run(pool, &planned, &mut binder, None, &options)?;
            let round = Round { planned: planned.clone(), outcome };
            Recovery::new(plan, &opened.devices.alive).end_process_if_hung(&round, scope);
            Ok(round)
        })?;
        let outcome = &round.outcome;
        let unfinished: Vec<DeviceId> = outcome
            .unfinished
            .iter()
            .filter_map(|&strand| planned.strand(strand).map(|(_, device)| device))
            .chain(outcome.faults.iter().map(|fault| fault.device))
            .collect();
        for (index, accelerator) in opened.accelerators.iter().enumerate() {
            let is_copied = to.get(index) == Some(&true) && !unfinished.contains(&DeviceId(index as u32));
            if let Some(accelerator) = accelerator.as_ref().filter(|_| is_copied) {
                accelerator.memory_use().mark_filled();
                // Operations that are queued from now on come after the copies. A fault is that of the next operation, too.
                let _ = locked.device(DeviceId(index as u32)).map(LockedDevice::drain);
            }
        }
        Ok(round)
    }

    /// The same, if there are such devices. Returns those that failed.
    pub fn missing(&self, locked: &mut LockedDevices<'_>, to: &[bool]) -> Result<Vec<(DeviceId, Fault)>> {
        if !to.contains(&true) {
            return Ok(Vec::new());
        }
        let faults = self.run(locked, to)?.outcome.faults;
        Ok(faults.into_iter().map(|fault| (fault.device, fault.fault)).collect())
    }
}

impl<J: Job> Prepared<J> {
    /// Locks the devices. Those that can be used have A, and the scratch memory of its kernels, until they are unlocked.
    pub fn lock_with_a(&self) -> Result<LockedDevices<'_>> {
        let devices = &self.opened.devices;
        let mut locked = devices.lock();
        let held = self.opened.hold(&mut locked, &devices.alive);
        let held = held.map_err(|(device, fault)| fault.into_error(self.device_name(device)))?;
        if held.without_a.contains(&true) {
            let round = self.uploading().run(&mut locked, &held.without_a)?;
            let is_dead = |device: DeviceId| round.outcome.dead.contains(&device);
            // The tasks of a lost device fail again, and their caller recovers from that.
            if let Some(fault) = round.outcome.faults.iter().find(|fault| !is_dead(fault.device)) {
                return Err(fault.fault.clone().into_error(self.device_name(fault.device)));
            }
        }
        Ok(locked)
    }

    fn device_name(&self, device: DeviceId) -> &str {
        self.job.plan().devices.get(device.index()).map_or("?", |device| &device.name)
    }

    fn uploading(&self) -> Uploading<'_, J> {
        let Self { job, opened, pool, timeouts, .. } = self;
        Uploading { job, opened, pool, timeouts: *timeouts }
    }

    /// The numbers of its layouts of A on devices.
    pub fn layouts(&self) -> impl Iterator<Item = u64> {
        self.opened.layouts()
    }

    /// Copies A to the devices where it stays, unless they have it already.
    pub(super) fn upload_resident(&mut self) -> Result<()> {
        let plan = self.job.plan();
        let mut recovery = Recovery::new(plan, &self.opened.devices.alive);
        let mut locked = self.opened.devices.lock();
        let held = self.opened.hold(&mut locked, &self.opened.devices.alive);
        let held = held.map_err(|(device, fault)| fault.into_error(self.device_name(device)))?;
        if !held.without_a.contains(&true) {
            return Ok(());
        }
        let round = self.uploading().run(&mut locked, &held.without_a)?;
        let recorded = recovery.record_round(0, &round);
        drop(locked);
        recorded?;
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
