//! Simulates a plan: the same graph and the same coordinator in virtual time, without computing Y.

use std::sync::Arc;

use crossbeam::channel::unbounded;

use super::planned::Planned;
use super::report::{Round, RunReport};
use crate::device::simulated::{SimulatedDevice, SimulatedSpec, Simulation};
use crate::device::{Description, Device, Operation, Reports};
use crate::error::{Error, Result};
use crate::exec::{Binder, ExecOptions, HeldSlots, execute};
use crate::graph::{DeviceId, TaskId};
use crate::plan::{Plan, Remaining};

/// One lane, since the cost model predicts a chunk's time on the whole pool.
const POOL_LANES: usize = 1;
const COPY_LANES: usize = 2;

/// A plan's product, prepared on simulated devices.
pub struct Simulated<'plan> {
    plan: &'plan Plan,
    whole: Arc<Planned>,
}

impl<'plan> Simulated<'plan> {
    /// Builds the graph of `plan`, whose devices must all be simulated.
    pub fn new(plan: &'plan Plan) -> Result<Self> {
        let whole = Arc::new(Planned::new(plan.graph(&Remaining::all(plan))?)?);
        Ok(Self { plan, whole })
    }

    /// The descriptions of all devices, the host first.
    #[doc(hidden)]
    pub fn descriptions(&self) -> Vec<Description> {
        let (sender, _) = unbounded();
        let simulation = simulation(self.plan);
        specs(self.plan)
            .map(|spec| {
                let reports = Reports::new(DeviceId::HOST, sender.clone());
                Device::describe(&simulation.device(&spec, reports)).clone()
            })
            .collect()
    }

    /// Simulates one product, starting at time zero. Data that stays on the devices is assumed to be there already.
    pub fn run(&self) -> Result<RunReport> {
        let (sender, receiver) = unbounded();
        let simulation = simulation(self.plan);
        let mut devices: Vec<SimulatedDevice> = specs(self.plan)
            .enumerate()
            .map(|(index, spec)| {
                simulation.device(&spec, Reports::new(DeviceId(index as u32), sender.clone()))
            })
            .collect();
        for (device, planned) in devices.iter_mut().zip(&self.plan.devices).skip(1) {
            let needed = planned.slots.device_bytes();
            let allocated = Device::allocate(device, needed);
            allocated.map_err(|fault| fault.into_error(&planned.name))?;
        }
        let mut list: Vec<&mut dyn Device<'_>> =
            devices.iter_mut().map(|device| device as &mut dyn Device<'_>).collect();
        let planned = self.whole.graph();
        let options = ExecOptions::default();
        let outcome = execute(planned, &self.whole.schedule, &mut list, &receiver, &mut TimeOnly, &options)?;
        if let Some(fault) = outcome.faults.first() {
            let task = self.whole.describe(fault.task);
            return Err(Error::Internal(format!("simulated {task}: {}", fault.fault.message)));
        }
        let rounds = vec![Round { planned: self.whole.clone(), outcome }];
        Ok(RunReport {
            start_ns: 0,
            end_ns: simulation.now_ns(),
            rounds,
            faults: Vec::new(),
            cancelled: false,
            check_s: None,
        })
    }
}

/// The simulated devices of a plan, the host first. The networks of a cluster's nodes are the last.
pub(crate) fn specs(plan: &Plan) -> impl Iterator<Item = SimulatedSpec> + '_ {
    let devices = plan.devices.iter().enumerate().map(|(index, device)| match &device.profile.link {
        None => SimulatedSpec::host(&device.name, POOL_LANES, COPY_LANES),
        Some(link) => SimulatedSpec {
            link_duplex_factor: device.profile.duplex_factor(),
            peer_gb_per_s: link.peer_gb_per_s,
            node: plan.cluster.as_ref().map_or(0, |cluster| cluster.node(index)),
            ..SimulatedSpec::accelerator(
                &device.name,
                device.memory_budget_bytes,
                link.to_device_gb_per_s,
                (link.latency_us * 1e3) as u64,
            )
        },
    });
    let networks = plan.cluster.iter().flat_map(|cluster| {
        let (rate, latency_ns) = (cluster.network.injection_gb_per_s, cluster.network.latency_ns());
        (0..cluster.nodes as usize)
            .map(move |node| SimulatedSpec::network(format!("network/{node}"), node, rate, latency_ns))
    });
    devices.chain(networks)
}

/// The clock and the host memories of a plan's devices.
pub(crate) fn simulation(plan: &Plan) -> Simulation {
    match &plan.cluster {
        None => Simulation::new(plan.host.memory_gb_per_s),
        Some(cluster) => Simulation::of_nodes(cluster.nodes as usize, cluster.host.memory_gb_per_s),
    }
}

/// Binds every task to an operation that only takes its predicted time.
pub(crate) struct TimeOnly;

impl Binder<'_> for TimeOnly {
    fn operation(&mut self, _task: TaskId, _slots: &HeldSlots) -> Result<Operation<'static>> {
        Ok(Operation::Pass)
    }
}
