//! Vectors on simulated devices: shapes and times without values.
//!
//! Products and row-wise operations run as graphs in virtual time. To read values is an error.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam::channel::{Receiver, unbounded};

use crate::device::simulated::{SimulatedDevice, Simulation};
use crate::device::{Completion, Description, Device, Reports};
use crate::error::{Error, Result};
use crate::exec::{ExecOptions, ExecOutcome, TaskSchedule, execute};
use crate::graph::{DeviceId, Graph};
use crate::plan::Plan;
use crate::runtime::run::{Planned, TimeOnly, simulation, specs};

/// The simulated devices of a plan, the host first. Their clock runs on from one operation to the next.
pub struct SimulatedMachine {
    simulation: Simulation,
    state: Mutex<State>,
}

/// Its devices, and what they report.
pub(super) struct State {
    pub devices: Vec<SimulatedDevice>,
    pub completions: Receiver<Completion>,
}

impl SimulatedMachine {
    /// The devices of `plan` at time zero. A has its place in their memory.
    pub fn new(plan: &Plan) -> Result<Self> {
        let (sender, completions) = unbounded();
        let simulation = simulation(plan);
        let device =
            |(index, spec)| simulation.device(&spec, Reports::new(DeviceId(index as u32), sender.clone()));
        let mut devices: Vec<SimulatedDevice> = specs(plan).enumerate().map(device).collect();
        for (device, planned) in devices.iter_mut().zip(&plan.devices).skip(1) {
            let bytes = planned.slots.resident_bytes.saturating_add(planned.slots.scratch_bytes);
            Device::allocate(device, bytes).map_err(|fault| fault.into_error(&planned.name))?;
        }
        Ok(Self { simulation, state: Mutex::new(State { devices, completions }) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds on the simulated clock.
    pub fn now_ns(&self) -> u64 {
        self.simulation.now_ns()
    }

    /// The descriptions of all devices, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        self.state().devices.iter().map(|device| Device::describe(device).clone()).collect()
    }

    /// Runs a graph in virtual time.
    pub fn run(&self, planned: &Planned) -> Result<ExecOutcome> {
        self.run_graph(planned.graph(), &planned.schedule)
    }

    pub(super) fn run_graph(&self, graph: &Graph, schedule: &TaskSchedule) -> Result<ExecOutcome> {
        let State { devices, completions } = &mut *self.state();
        let mut list: Vec<&mut dyn Device<'_>> =
            devices.iter_mut().map(|device| device as &mut dyn Device<'_>).collect();
        let options = ExecOptions::default();
        let outcome = execute(graph, schedule, &mut list, completions, &mut TimeOnly, &options)?;
        match outcome.faults.first() {
            Some(fault) => Err(Error::Internal(format!("simulated task: {}", fault.fault.message))),
            None => Ok(outcome),
        }
    }
}
