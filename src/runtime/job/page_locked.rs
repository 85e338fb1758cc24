//! Multivectors in memory that is page-locked for the devices of a job.

#![allow(unsafe_code)] // pinned memory: registered bytes that are not freed

use rayon::prelude::*;

use super::Job;
use super::in_place::can_copy_in_place;
use super::prepared::Prepared;
use crate::device::{Registration, StableBytes};
use crate::error::Result;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut, Scalar};
use crate::work::COPY_BYTES_PER_TASK;

impl<J: Job> Prepared<J> {
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
