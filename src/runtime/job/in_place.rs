//! X and Y that the caller keeps in page-locked memory: devices copy them without staging, although the plan stages them.

#![allow(unsafe_code)] // pinned memory: registered bytes that are not freed

use std::sync::Arc;

use rayon::prelude::*;

use super::{Job, Prepared};
use crate::device::{Registration, StableBytes};
use crate::error::Result;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::plan::{Plan, Remaining};
use crate::runtime::run::Planned;
use crate::work::COPY_BYTES_PER_TASK;

/// The operands of a run that are in page-locked memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InPlace {
    /// X is.
    pub x: bool,
    /// Y is.
    pub y: bool,
}

impl InPlace {
    /// The plan that copies these operands in place wherever their rows have the same pitch on the device; `None` if that changes nothing.
    fn plan(self, plan: &Plan) -> Option<Plan> {
        if !can_copy_in_place(plan) {
            return None;
        }
        let mut changed = plan.clone();
        for device in changed.devices.iter_mut().filter(|device| device.profile.link.is_some()) {
            device.registered.x |= self.x && plan.held_rows(device.x).is_some();
            device.registered.y |= self.y && !plan.output.is_staged();
            if device.registered.y {
                device.slots.pinned_out_slots = 0;
            }
        }
        (changed.devices != plan.devices).then_some(changed)
    }
}

fn can_copy_in_place(plan: &Plan) -> bool {
    plan.row_bytes() == plan.pitch_bytes()
}

/// The plan of a job for operands in page-locked memory, and its graph on the devices that are alive.
pub struct InPlacePlan {
    in_place: InPlace,
    /// The plan.
    pub plan: Plan,
    /// Its graph.
    pub whole: Arc<Planned>,
}

impl<J: Job> Prepared<J> {
    /// The plan that copies these operands in place, which is made once; `None` if it is the plan of the job.
    pub(super) fn in_place_plan(&mut self, in_place: InPlace) -> Result<Option<Arc<InPlacePlan>>> {
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

    /// A multivector of zeros with the rows of Y in memory that is page-locked for the devices of the plan. `None` if they would not
    /// copy it in place, or cannot page-lock it.
    pub fn page_locked_y(&self) -> Result<Option<PageLockedMultiVector<J::Value>>> {
        let plan = self.job.plan();
        let alive = self.opened.devices.alive.iter();
        let copying = plan.devices.iter().zip(alive).enumerate();
        let copying = copying.filter(|(_, (device, alive))| {
            **alive && device.profile.link.is_some() && device.chunks > 0 && !device.registered.y
        });
        let devices: Vec<usize> = copying.map(|(index, _)| index).collect();
        if devices.is_empty() || !can_copy_in_place(plan) || plan.output.is_staged() {
            return Ok(None);
        }
        let mut values = MultiVector::<J::Value>::zeros(plan.matrix.rows as usize, plan.k as usize)?;
        // All threads touch the pages first; the driver would with one.
        let length = COPY_BYTES_PER_TASK / size_of::<J::Value>();
        let touch = |part: &mut [J::Value]| part.fill(bytemuck::Zeroable::zeroed());
        self.pool.install(|| values.data_mut().par_chunks_mut(length).for_each(touch));
        let mut registrations = Vec::new();
        for index in devices {
            let Some(device) = self.device(index) else { continue };
            // SAFETY: the multivector keeps its memory in place, and is dropped after the registrations, or leaked with them.
            let bytes = unsafe { StableBytes::new(bytemuck::cast_slice(values.data())) };
            let Ok(registration) = device.lock().register(bytes) else { return Ok(None) };
            registrations.push(registration);
        }
        Ok(Some(PageLockedMultiVector { _registrations: registrations, values }))
    }
}

/// A multivector in page-locked memory. It gives away no owned memory, which could be freed while it is page-locked.
pub struct PageLockedMultiVector<T: Scalar> {
    // Dropped first.
    _registrations: Vec<Registration<'static>>,
    values: MultiVector<T>,
}

impl<T: Scalar> PageLockedMultiVector<T> {
    /// A view of all elements.
    pub fn view(&self) -> MultiVectorView<'_, T> {
        self.values.view()
    }

    /// A mutable view of all elements.
    pub fn view_mut(&mut self) -> MultiVectorViewMut<'_, T> {
        self.values.view_mut()
    }
}
