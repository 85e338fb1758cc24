//! The devices of a plan: their descriptions, their clock, and which of them are usable.

use std::sync::{Arc, MutexGuard};

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::planned::Planned;
use crate::device::{Completion, Cpu, Description, Device, NetworkDevice, Reports};
use crate::error::{Error, Result};
use crate::exec::{Binder, ExecOptions, ExecOutcome, execute};
use crate::graph::DeviceId;
use crate::runtime::devices::{LockedDevice, OpenDevice, Pool};
use crate::trace::Clock;

/// The open devices of a plan. The host is opened anew for every run, since its jobs borrow.
pub struct PlanDevices {
    clock: Clock,
    sender: Sender<Completion>,
    receiver: Receiver<Completion>,
    /// All devices of the plan except the host.
    devices: Vec<Arc<OpenDevice>>,
    /// For each device of the plan, including the host, whether it is usable.
    pub alive: Vec<bool>,
}

impl PlanDevices {
    /// The host and `devices`, which are open and the others of a plan in its order.
    pub fn new(clock: Clock, devices: Vec<Arc<OpenDevice>>) -> Self {
        let (sender, receiver) = unbounded();
        let alive = vec![true; 1 + devices.len()];
        Self { clock, sender, receiver, devices, alive }
    }

    /// Device number `id`; `None` for the host.
    pub fn device(&self, id: DeviceId) -> Option<&Arc<OpenDevice>> {
        id.index().checked_sub(1).and_then(|index| self.devices.get(index))
    }

    /// The clock of all reported times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The descriptions of all devices, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        let host = Cpu::description();
        std::iter::once(host).chain(self.devices.iter().map(|device| device.lock().description())).collect()
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        let error = |device: &Arc<OpenDevice>| {
            let device = device.lock();
            Some((device.description().name, device.clock_error_ns()?))
        };
        self.devices.iter().filter_map(error).collect()
    }

    /// Locks all devices, in the order of their addresses: plans have them in different orders, and no product may wait for another in
    /// a circle.
    pub fn lock(&self) -> LockedDevices<'_> {
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        order.sort_unstable_by_key(|&index| Arc::as_ptr(&self.devices[index]).addr());
        let mut locked: Vec<(usize, MutexGuard<'_, LockedDevice>)> =
            order.into_iter().map(|index| (index, self.devices[index].lock())).collect();
        locked.sort_unstable_by_key(|(index, _)| *index);
        LockedDevices { open: self, locked: locked.into_iter().map(|(_, device)| device).collect() }
    }
}

/// The devices of a plan while no other product uses them.
pub struct LockedDevices<'d> {
    open: &'d PlanDevices,
    locked: Vec<MutexGuard<'d, LockedDevice>>,
}

impl LockedDevices<'_> {
    /// Device number `id`; `None` for the host.
    pub fn device(&mut self, id: DeviceId) -> Option<&mut LockedDevice> {
        id.index().checked_sub(1).and_then(|index| self.locked.get_mut(index)).map(|device| &mut **device)
    }

    /// Runs a graph, with host jobs on `pool` and a network as the last device. Devices that were lost or hang are closed when this
    /// returns; their operations in flight no longer access host memory. Fails if the caller is a worker of `pool`, which would deadlock.
    pub fn run<'scope>(
        &mut self,
        pool: &Pool,
        planned: &Planned,
        binder: &mut (dyn Binder<'scope> + Send),
        network: Option<&mut NetworkDevice>,
        options: &ExecOptions<'_>,
    ) -> Result<ExecOutcome> {
        if pool.is_worker() {
            return Err(Error::usage(
                "a product on several devices cannot be run from a worker thread of its own pool",
            ));
        }
        let PlanDevices { clock, sender, receiver, .. } = self.open;
        let locked = &mut self.locked;
        // Tasks of a closed device fail when they are submitted.
        for (index, device) in locked.iter_mut().enumerate().filter(|(_, device)| device.is_open()) {
            let ready = device.report_to(DeviceId(index as u32 + 1), sender);
            ready.map_err(|fault| fault.into_error(&device.description().name))?;
        }
        let outcome = pool.in_place_scope(|scope| {
            let reports = Reports::new(DeviceId::HOST, sender.clone());
            let mut host = Cpu::new(scope, *clock, reports);
            let mut list: Vec<&mut dyn Device<'scope>> = vec![&mut host];
            for device in locked {
                list.push(&mut **device.device());
            }
            if let Some(network) = network {
                network.report_to(DeviceId(list.len() as u32), sender);
                list.push(network);
            }
            execute(planned.graph(), &planned.schedule, &mut list, receiver, binder, options)
        })?;
        for &dead in &outcome.dead {
            self.device(dead).into_iter().for_each(LockedDevice::close);
        }
        Ok(outcome)
    }
}
