//! The devices of a plan, opened, with everything allocated on them that its products need.

use std::time::Instant;

use super::accelerator::Accelerator;
use super::job::Job;
use super::settings::Settings;
use crate::device::Fault;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::matrix::{CsrView, Scalar};
use crate::plan::{Plan, PlanRequest, XPlan, make};
use crate::runtime::fleet::Fleet;
use crate::runtime::planned::Planned;
use crate::runtime::pool::Pool;
use crate::runtime::report::FaultReport;
use crate::trace::Clock;
use crate::work::HeldColumns;

/// Open devices and what they hold.
pub struct Opened {
    pub(super) fleet: Fleet,
    /// For each device of the plan but the host.
    pub(super) accelerators: Vec<Option<Accelerator>>,
    /// Devices that had to be asked for less, or left out.
    pub(super) faults: Vec<FaultReport>,
    /// Seconds that planning took.
    pub plan_s: f64,
}

/// A device that has not the memory its plan gives it.
struct Shortage {
    device: usize,
    fault: Fault,
}

/// Makes the plan that `request` asks for and opens its devices. A device that runs out of memory is asked for half as
/// much, once, and then left out.
pub fn open<'a, T: Kernels>(
    pool: &Pool,
    matrix: CsrView<'a, T>,
    mut request: PlanRequest<'a>,
    settings: &Settings,
    clock: Clock,
) -> Result<(Job<'a, T>, Opened)> {
    let mut faults: Vec<FaultReport> = Vec::new();
    let mut plan_s = 0.0;
    loop {
        let start = Instant::now();
        let plan = pool.install(|| make(&request))?;
        plan_s += start.elapsed().as_secs_f64();
        let job = Job::new(matrix, plan)?;
        let Shortage { device, fault } = match Opened::new(&job, settings, clock)? {
            Ok(opened) => return Ok((job, Opened { faults, plan_s, ..opened })),
            Err(shortage) => shortage,
        };
        let planned = &job.plan().devices[device];
        let again = faults.iter().any(|known| known.device == planned.name);
        let budget = planned.memory_budget_bytes;
        let place = request.devices.iter().position(|device| device.name == planned.name);
        let recovered_on = match place {
            Some(place) if !again => {
                request.devices[place].memory_limit_bytes = Some(budget / 2);
                planned.name.clone()
            }
            Some(place) if request.devices.len() > 1 => {
                request.devices.remove(place);
                request.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(",")
            }
            _ => return Err(fault.into_error(&planned.name)),
        };
        faults.push(FaultReport {
            device: planned.name.clone(),
            task: "allocation".into(),
            error: fault.message,
            recovered_on: Some(recovered_on),
        });
    }
}

/// Opens the devices of a plan that was made before.
pub fn open_planned<'a, T: Kernels>(
    matrix: CsrView<'a, T>,
    plan: Plan,
    settings: &Settings,
    clock: Clock,
) -> Result<(Job<'a, T>, Opened)> {
    let job = Job::new(matrix, plan)?;
    match Opened::new(&job, settings, clock)? {
        Ok(opened) => Ok((job, opened)),
        Err(Shortage { device, fault }) => Err(fault.into_error(&job.plan().devices[device].name)),
    }
}

impl Opened {
    fn new<T: Kernels>(
        job: &Job<'_, T>,
        settings: &Settings,
        clock: Clock,
    ) -> Result<std::result::Result<Self, Shortage>> {
        let plan = job.plan();
        let mut fleet = Fleet::open(plan, clock, &settings.emulated, &settings.cuda)?;
        let mut accelerators: Vec<Option<Accelerator>> = vec![None];
        for (device, planned) in plan.devices.iter().enumerate().skip(1) {
            let held = held_columns(job, device, planned.x)?;
            let opened = fleet.device(DeviceId(device as u32));
            let opened = opened.ok_or_else(|| Error::Internal(format!("{} is not open", planned.name)))?;
            match Accelerator::allocate(&mut **opened, plan, device, held) {
                Ok(accelerator) => accelerators.push(Some(accelerator)),
                Err(fault) => return Ok(Err(Shortage { device, fault })),
            }
        }
        Ok(Ok(Self { fleet, accelerators, faults: Vec::new(), plan_s: 0.0 }))
    }

    /// Makes room for all of X where a device has taken over chunks that may need it.
    pub(super) fn hold_x<T: Scalar>(&mut self, job: &Job<'_, T>, planned: &Planned) -> Result<()> {
        for (index, x) in planned.planned.x.iter().enumerate().skip(1) {
            let Some(device) = job.plan().devices.get(index).filter(|device| device.x != *x) else {
                continue;
            };
            let held = held_columns(job, index, *x)?;
            let opened = self.fleet.device(DeviceId(index as u32));
            if let (Some(Some(accelerator)), Some(opened)) = (self.accelerators.get_mut(index), opened) {
                accelerator.hold(&mut **opened, held).map_err(|fault| fault.into_error(&device.name))?;
            }
        }
        Ok(())
    }
}

/// The rows of X that device number `index` is planned to hold.
fn held_columns<T: Scalar>(job: &Job<'_, T>, index: usize, x: XPlan) -> Result<HeldColumns> {
    let cols = job.matrix().cols();
    Ok(match x {
        XPlan::Nothing => HeldColumns::Range { first: 0, end: 0 },
        XPlan::Whole => HeldColumns::Whole { cols },
        XPlan::Columns { first, end } => HeldColumns::Range { first: first as u32, end: end as u32 },
        XPlan::Gather { .. } => {
            let number = index as u32;
            let chunks = job.plan().chunks.iter().enumerate();
            let taken = chunks.filter(|(_, chunk)| chunk.home == number || chunk.also.contains(&number));
            let parts = taken.map(|(chunk, _)| job.rows(chunk)).collect::<Result<Vec<_>>>()?;
            HeldColumns::gather(cols, &parts)
        }
    })
}
