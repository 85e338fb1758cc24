//! The open devices of a plan, with the memory that its job needs.

use std::time::Instant;

use super::Job;
use super::accelerator::{Accelerator, Keeps};
use super::registrations::RegisteredA;
use crate::device::{Fault, FaultKind};
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::kernel::Processor;
use crate::plan::{Mode, Plan, PlanRequest, XPlan, make};
use crate::runtime::Runtime;
use crate::runtime::devices::{LayoutKey, MemoryUse};
use crate::runtime::run::{FaultReport, LockedDevices, PlanDevices, Planned};
use crate::work::HeldRows;

/// The task of a fault report where a device has no memory.
const ALLOCATION: &str = "allocation";

/// Open devices and their allocated memory.
pub struct JobDevices<J: Job> {
    /// The devices.
    pub devices: PlanDevices,
    /// For each device of the plan its memory; `None` for the host.
    pub accelerators: Vec<Option<Accelerator>>,
    /// The parts of A that are copied in place.
    _registered: RegisteredA<J::Shared>,
}

/// A device that refused an allocation or a registration of its plan.
struct OpenFailure {
    device: usize,
    fault: Fault,
    refused: Refused,
}

/// The resource that a device refused.
enum Refused {
    Memory,
    Registration,
}

/// A plan on open devices.
pub struct OpenedPlan<J: Job> {
    /// The job.
    pub job: J,
    /// The devices.
    pub opened: JobDevices<J>,
    /// Faults while opening: devices that got a smaller budget, were left out or refused a registration.
    pub faults: Vec<FaultReport>,
    /// Seconds that planning took.
    pub plan_s: f64,
}

/// Opens the devices of the plan for `request`, which is made unless it is `known`; `job` makes the job of a plan. If a device runs out of memory, its budget is halved once; the
/// second time it is left out. If a device refuses to register A, A is staged instead.
pub fn open<J: Job>(
    runtime: &Runtime,
    mut request: PlanRequest<'_>,
    mut known: Option<Plan>,
    job: impl Fn(Plan) -> Result<J> + Sync,
) -> Result<OpenedPlan<J>> {
    let mut faults: Vec<FaultReport> = Vec::new();
    let (mut plan_s, mut planned_again) = (0.0, false);
    let keeps = if request.vectors_stay { Keeps::A } else { Keeps::Operands };
    loop {
        let start = Instant::now();
        let plan = known.take().map_or_else(|| runtime.pool().install(|| make(&request)), Ok);
        plan_s += start.elapsed().as_secs_f64();
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                // A device that has too little memory for a smaller share gets none.
                let last = faults.last().filter(|fault| fault.task == ALLOCATION);
                let place = last.and_then(|fault| place_of(&request, &fault.device));
                let recovered_on = place.and_then(|place| leave_out(&mut request, place));
                match faults.last_mut() {
                    Some(fault) if recovered_on.is_some() => fault.recovered_on = recovered_on,
                    _ => return Err(explain(error, &faults)),
                }
                continue;
            }
        };
        let job = runtime.pool().install(|| job(plan))?;
        let layouts = runtime.layouts_of(job.content(), &[]);
        if layouts.len() > request.resident.len() && !planned_again {
            // Another thread has brought A to a device meanwhile.
            (request.resident, planned_again) = (layouts, true);
            if request.misses_layouts(job.plan()) {
                continue;
            }
        }
        let OpenFailure { device, fault, refused } = match JobDevices::new(&job, runtime, keeps)? {
            Ok(opened) => return Ok(OpenedPlan { job, opened, faults, plan_s }),
            Err(failure) => failure,
        };
        let planned = &job.plan().devices[device];
        if let Refused::Registration = refused {
            for device in request.devices.iter_mut().filter(|device| device.name == planned.name) {
                device.profile.link.iter_mut().for_each(|link| link.register_s_per_gb = None);
            }
            faults.push(registration_refused(&planned.name, fault));
            continue;
        }
        let again = faults.iter().any(|known| known.device == planned.name);
        let budget = planned.memory_budget_bytes;
        let recovered_on = match place_of(&request, &planned.name) {
            Some(place) if !again => {
                request.devices[place].memory_limit_bytes = Some(budget / 2);
                Some(planned.name.clone())
            }
            place => place.and_then(|place| leave_out(&mut request, place)),
        };
        if recovered_on.is_none() {
            return Err(fault.into_error(&planned.name));
        }
        faults.push(FaultReport {
            device: planned.name.clone(),
            task: ALLOCATION.into(),
            error: fault.message,
            recovered_on,
        });
    }
}

fn place_of(request: &PlanRequest<'_>, name: &str) -> Option<usize> {
    request.devices.iter().position(|device| device.name == name)
}

/// Removes the device at `place` from the request and returns the names of the others, if there are any.
fn leave_out(request: &mut PlanRequest<'_>, place: usize) -> Option<String> {
    if request.devices.len() < 2 {
        return None;
    }
    request.devices.remove(place);
    Some(request.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(","))
}

/// `error`, which the planner returned after `faults`. Without the first fault there would be a plan, so the fault is the
/// cause.
fn explain(error: Error, faults: &[FaultReport]) -> Error {
    match faults.first() {
        Some(FaultReport { device, task, error: fault, .. }) => {
            let words = |words: &str| format!("{task}: {fault}; there is no plan without it: {words}");
            Error::device(device, error.as_reason().map_words(words))
        }
        None => error,
    }
}

/// Opens the devices of an existing plan; `job` checks it and makes its job.
pub fn open_planned<J: Job>(
    runtime: &Runtime,
    job: impl FnOnce() -> Result<J> + Send,
) -> Result<OpenedPlan<J>> {
    let job = runtime.pool().install(job)?;
    match JobDevices::new(&job, runtime, Keeps::Operands)? {
        Ok(opened) => Ok(OpenedPlan { job, opened, faults: Vec::new(), plan_s: 0.0 }),
        Err(OpenFailure { device, fault, .. }) => Err(fault.into_error(&job.plan().devices[device].name)),
    }
}

/// The fault report of a refused registration. The same device continues, with staged or pageable copies.
pub(super) fn registration_refused(device: &str, fault: Fault) -> FaultReport {
    FaultReport {
        device: device.into(),
        task: "registration".into(),
        error: fault.message,
        recovered_on: Some(device.into()),
    }
}

impl<J: Job> JobDevices<J> {
    fn new(job: &J, runtime: &Runtime, keeps: Keeps) -> Result<std::result::Result<Self, OpenFailure>> {
        let plan = job.plan();
        let devices = runtime.open_devices(plan)?;
        let mut accelerators: Vec<Option<Accelerator>> = vec![None];
        for (device, planned) in plan.devices.iter().enumerate().skip(1) {
            let held = held_rows(job, device, planned.x)?;
            let opened = devices.device(DeviceId(device as u32));
            let opened = opened.ok_or_else(|| Error::Internal(format!("{} is not open", planned.name)))?;
            let memory_use = MemoryUse::new(opened, layout_key(job, device));
            let accelerator = Accelerator::new(memory_use, plan, device, held, keeps);
            // A device that has too little memory is planned for again.
            let allocated = accelerator.and_then(|accelerator| {
                accelerator.hold(&mut opened.lock())?;
                Ok(accelerator)
            });
            match allocated {
                Ok(accelerator) => accelerators.push(Some(accelerator)),
                Err(fault) => return Ok(Err(OpenFailure { device, fault, refused: Refused::Memory })),
            }
        }
        let mut registered = RegisteredA::new(job.shared());
        let registering = plan.devices.iter().enumerate().skip(1).filter(|(_, device)| device.registered.a);
        // A layout that another product has filled is not copied.
        let is_copied = |device: usize| {
            let accelerator = accelerators.get(device).and_then(Option::as_ref);
            plan.mode != Mode::Resident || accelerator.is_none_or(|on| !on.memory_use().is_filled())
        };
        let registering: Vec<usize> =
            registering.map(|(device, _)| device).filter(|&device| is_copied(device)).collect();
        let done = registered.register(
            |shared| {
                let of = |&device: &usize| {
                    job.shared_arrays(shared, device).into_iter().map(move |bytes| (device, bytes))
                };
                registering.iter().flat_map(of).collect()
            },
            |device, bytes| match devices.device(DeviceId(device as u32)) {
                Some(device) => device.lock().register(bytes),
                None => Err(Fault::new(FaultKind::Lost, "the device is not open")),
            },
        );
        if let Err((device, fault)) = done {
            return Ok(Err(OpenFailure { device, fault, refused: Refused::Registration }));
        }
        for &device in &registering {
            let page_lock = |buffer| match devices.device(DeviceId(device as u32)) {
                Some(device) => device.lock().device().page_lock(buffer),
                None => Err(Fault::new(FaultKind::Lost, "the device is not open")),
            };
            if let Err(fault) = runtime.pool().install(|| job.make_beside_a(device, &page_lock))? {
                return Ok(Err(OpenFailure { device, fault, refused: Refused::Registration }));
            }
        }
        Ok(Ok(Self { devices, accelerators, _registered: registered }))
    }

    /// Allocates the memory of the devices that are alive and that is not there, in `locked`. Returns for each device whether it has no A
    /// yet, and whether all have the X of the last run. The inner error is the device that has too little memory.
    pub fn hold(
        &self,
        locked: &mut LockedDevices<'_>,
        alive: &[bool],
    ) -> std::result::Result<Held, (DeviceId, Fault)> {
        let mut held = Held { without_a: vec![false; self.accelerators.len()], has_x: true };
        for (index, accelerator) in self.accelerators.iter().enumerate() {
            let id = DeviceId(index as u32);
            let Some(accelerator) = accelerator.as_ref().filter(|_| alive.get(index) == Some(&true)) else {
                continue;
            };
            // The tasks of a closed device fail when they are submitted.
            let Some(device) = locked.device(id).filter(|device| device.is_open()) else { continue };
            let memory = accelerator.hold(device).map_err(|fault| (id, fault))?;
            held.without_a[index] = !memory.is_filled;
            held.has_x &= memory.is_unchanged;
        }
        Ok(held)
    }

    /// The numbers of the layouts of A.
    pub fn layouts(&self) -> impl Iterator<Item = u64> {
        self.accelerators.iter().flatten().filter_map(|accelerator| accelerator.memory_use().layout())
    }

    /// Reallocates X on devices that are alive and took over chunks, and therefore need more rows of X than planned.
    /// The inner error is the device that has no page-locked memory for them.
    pub fn change_x(
        &mut self,
        job: &J,
        planned: &Planned,
        alive: &[bool],
    ) -> Result<std::result::Result<(), (DeviceId, Fault)>> {
        let is_alive = |index: usize| alive.get(index).copied().unwrap_or(false);
        for (index, x) in planned.x().iter().enumerate().skip(1).filter(|(index, _)| is_alive(*index)) {
            if let Some(Some(accelerator)) = self.accelerators.get_mut(index)
                && accelerator.x_plan != *x
            {
                let blocks: Vec<u64> = job.plan().x_block_rows(index, *x);
                let held = held_rows(job, index, *x)?;
                if let Err(fault) = accelerator.change_x((held, *x), &blocks) {
                    return Ok(Err((DeviceId(index as u32), fault)));
                }
            }
        }
        Ok(Ok(()))
    }
}

/// The memory of all devices of a plan, before a run.
pub struct Held {
    /// For each device whether A must be copied to it.
    pub without_a: Vec<bool>,
    /// Whether all devices have the X of the last run.
    pub has_x: bool,
}

/// The layout of A of device number `index`; `None` if no part of A stays there.
fn layout_key(job: &impl Job, index: usize) -> Option<LayoutKey> {
    let (plan, number) = (job.plan(), index as u32);
    let device = plan.devices.get(index).filter(|_| plan.mode == Mode::Resident)?;
    let own = plan.chunks.iter().filter(|chunk| chunk.home == number);
    let chunks: Vec<_> = own.map(|chunk| (chunk.rows, chunk.form(Processor::Gpu).stored())).collect();
    // Gathered rows of X are known by the chunks that need them, unless others need some, too.
    let takes_others = plan.chunks.iter().any(|chunk| chunk.also.contains(&number));
    let is_known = !matches!(device.x, XPlan::Gather { .. }) || !takes_others;
    let content = job.content().filter(|_| is_known);
    let bytes = device.slots.resident_bytes;
    (!chunks.is_empty()).then_some(LayoutKey { content, chunks, x: device.x, bytes })
}

/// The rows of X that device number `index` holds.
fn held_rows(job: &impl Job, index: usize, x: XPlan) -> Result<HeldRows> {
    Ok(match x {
        XPlan::Nothing => HeldRows::Range { first: 0, end: 0 },
        XPlan::Whole => HeldRows::Whole { cols: job.plan().matrix.cols as usize },
        XPlan::Columns { first, end } => HeldRows::Range { first: first as u32, end: end as u32 },
        XPlan::Gather { .. } => job.gathered_rows(index)?,
    })
}
