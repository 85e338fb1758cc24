//! The open devices of a plan: their descriptions, their clock, and which of them are usable.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::planned::Planned;
use super::pool::Pool;
use crate::device::{
    Completion, Cpu, CudaDevice, CudaOptions, Description, Device, EmulatedDevice, EmulatedOptions, Fault,
    Reports,
};
use crate::error::{Error, Result};
use crate::exec::{Binder, ExecOptions, Outcome, execute};
use crate::graph::DeviceId;
use crate::plan::Plan;
use crate::trace::Clock;

/// A device that stays open between runs.
pub type AnyDevice = Box<dyn for<'run> Device<'run> + Send>;

/// The open devices of a plan. The host is opened anew for every run, since its jobs borrow.
pub struct OpenDevices {
    clock: Clock,
    sender: Sender<Completion>,
    receiver: Receiver<Completion>,
    /// All devices of the plan except the host.
    devices: Vec<AnyDevice>,
    /// For each device of the plan, including the host, whether it is usable.
    pub alive: Vec<bool>,
}

impl OpenDevices {
    /// Opens every device of `plan` with times on `clock`. `emulated` and `cuda` hold options by device name.
    pub fn open(
        plan: &Plan,
        clock: Clock,
        emulated: &[(String, EmulatedOptions)],
        cuda: &[(String, CudaOptions)],
    ) -> Result<Self> {
        let (sender, receiver) = unbounded();
        let mut devices: Vec<AnyDevice> = Vec::new();
        for (index, device) in plan.devices.iter().enumerate().skip(1) {
            let reports = Reports { device: DeviceId(index as u32), sender: sender.clone() };
            let name = device.name.as_str();
            let (emulated, cuda) = (options_of(name, emulated), options_of(name, cuda));
            devices.push(open_device(name, emulated, cuda, clock, reports)?);
        }
        Ok(Self { clock, sender, receiver, devices, alive: vec![true; plan.devices.len()] })
    }

    /// Device number `id`; `None` for the host.
    pub fn device(&mut self, id: DeviceId) -> Option<&mut AnyDevice> {
        id.index().checked_sub(1).and_then(|index| self.devices.get_mut(index))
    }

    /// Closes the devices that are not `alive`. Their operations in flight no longer access host memory afterwards.
    pub fn close_dead(&mut self, alive: &[bool]) {
        for (device, alive) in self.devices.iter_mut().zip(alive.iter().skip(1)) {
            if !alive {
                device.close();
            }
        }
    }

    /// The clock of all reported times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The descriptions of all devices, the host first.
    pub fn descriptions(&self) -> Vec<Description> {
        let host = Cpu::description();
        std::iter::once(host).chain(self.devices.iter().map(|device| device.describe().clone())).collect()
    }

    /// The clock errors of devices with their own clock, by device name, in nanoseconds.
    pub fn clock_errors(&self) -> Vec<(String, u64)> {
        let error = |device: &AnyDevice| Some((device.describe().name.clone(), device.clock_error_ns()?));
        self.devices.iter().filter_map(error).collect()
    }

    /// Runs a graph, with host jobs on `pool`. Fails if the caller is a worker of `pool`, which would deadlock.
    pub fn run<'scope>(
        &mut self,
        pool: &Pool,
        planned: &Planned,
        binder: &mut (dyn Binder<'scope> + Send),
        cancel: Option<&AtomicBool>,
        watchdog_timeout: Duration,
    ) -> Result<Outcome> {
        if pool.is_worker() {
            return Err(Error::Usage(
                "a product on several devices cannot be run from a worker thread of its own pool".into(),
            ));
        }
        let Self { clock, sender, receiver, devices, .. } = self;
        pool.in_place_scope(|scope| {
            let reports = Reports { device: DeviceId::HOST, sender: sender.clone() };
            let mut host = Cpu::new(scope, *clock, reports);
            let mut list: Vec<&mut dyn Device<'scope>> = vec![&mut host];
            for device in devices.iter_mut() {
                list.push(&mut **device);
            }
            let options = ExecOptions { cancel, watchdog_timeout };
            execute(&planned.planned.graph, &planned.schedule, &mut list, receiver, binder, &options)
        })
    }
}

/// Opens the device named `name`, a CUDA or an emulated one, with the options of its kind.
pub fn open_device(
    name: &str,
    emulated: EmulatedOptions,
    cuda: CudaOptions,
    clock: Clock,
    reports: Reports,
) -> Result<AnyDevice> {
    let failed = |fault: Fault| fault.into_error(name);
    if name.starts_with("cuda:") {
        return Ok(Box::new(CudaDevice::open(name, cuda, clock, reports).map_err(failed)?));
    }
    if name.starts_with("emu:") {
        return Ok(Box::new(EmulatedDevice::open(name, emulated, clock, reports).map_err(failed)?));
    }
    let reason = "simulated devices cannot be opened; use cpu, cuda:0 or emu:0".into();
    Err(Error::Device { device: name.into(), reason })
}

/// The options of the device named `name`, or the defaults.
fn options_of<T: Copy + Default>(name: &str, options: &[(String, T)]) -> T {
    options.iter().find(|(of, _)| of == name).map(|(_, options)| *options).unwrap_or_default()
}

impl Drop for OpenDevices {
    fn drop(&mut self) {
        for device in &mut self.devices {
            device.close();
        }
    }
}
