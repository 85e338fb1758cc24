//! The work that remains after a fault, the devices that are alive, and the devices that take over.

use super::data::{Chunk, DevicePlan, Mode, Plan, XPlan};
use super::predict::Steps;
use crate::error::{Advice, Error, Result};

/// The chunks and split rows that are not in Y yet, and the devices that are alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remaining {
    /// For each chunk whether it remains to be computed.
    pub chunks: Vec<bool>,
    /// For each split row whether its partial sums remain to be added.
    pub split_rows: Vec<bool>,
    /// For each device whether it is alive.
    pub alive: Vec<bool>,
    /// Whether the devices still hold their parts of X, so that X is not copied again.
    pub x_is_held: bool,
}

impl Remaining {
    /// All work, on all devices.
    pub fn all(plan: &Plan) -> Self {
        Self {
            chunks: vec![true; plan.chunks.len()],
            split_rows: vec![true; plan.split_rows.len()],
            alive: vec![true; plan.devices.len()],
            x_is_held: false,
        }
    }

    /// Whether no work remains.
    pub fn is_empty(&self) -> bool {
        !self.chunks.contains(&true) && !self.split_rows.contains(&true)
    }
}

impl Plan {
    /// For each chunk the devices that may compute it; none where it is done. Each chunk of a lost device goes to the device that
    /// would finish it first.
    pub(super) fn takers(&self, remaining: &Remaining) -> Result<Vec<Vec<u32>>> {
        let alive = |device: &u32| {
            let index = *device as usize;
            remaining.alive.get(index).copied().unwrap_or(false)
                && self.devices.get(index).is_some_and(|device| device.computes)
        };
        let mut busy_s = vec![0.0; self.devices.len()];
        let mut takers = Vec::with_capacity(self.chunks.len());
        let mut orphans = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            let wanted = remaining.chunks.get(index).copied().unwrap_or(false);
            let all = std::iter::once(chunk.home).chain(chunk.also.iter().copied());
            let devices: Vec<u32> = if wanted { all.filter(alive).collect() } else { Vec::new() };
            if let Some(&first) = devices.first() {
                busy_s[first as usize] += self.chunk_s(chunk, first);
            } else if wanted {
                orphans.push(index);
            }
            takers.push(devices);
        }
        for index in orphans {
            let chunk = &self.chunks[index];
            let able = (0..self.devices.len() as u32).filter(alive).filter(|&device| {
                self.devices.get(device as usize).is_some_and(|device| self.can_take_over(chunk, device))
            });
            let done_s = |device: u32| busy_s[device as usize] + self.chunk_s(chunk, device);
            let Some(device) = able.min_by(|&a, &b| done_s(a).total_cmp(&done_s(b)).then(a.cmp(&b))) else {
                let home = self.devices.get(chunk.home as usize);
                let reason = format!("it is lost, and no device is left that can take over chunk {index}");
                return Err(
                    Error::device(home.map_or("", |device| &device.name), reason).advise([Advice::AddCpu])
                );
            };
            busy_s[device as usize] = done_s(device);
            takers[index] = vec![device];
        }
        Ok(takers)
    }

    fn chunk_s(&self, chunk: &Chunk, device: u32) -> f64 {
        self.devices
            .get(device as usize)
            .map_or(0.0, |device| Steps::of_chunk(self, device, &self.host, chunk).longest_s(&device.profile))
    }

    /// Whether `device` has the memory for a chunk of another device and for all of X.
    fn can_take_over(&self, chunk: &Chunk, device: &DevicePlan) -> bool {
        if device.profile.link.is_none() {
            return true;
        }
        // The columns of its resident chunks are numbered for its part of X, which therefore cannot change.
        if self.mode == Mode::Resident && device.x != XPlan::Whole && self.matrix.cols > 0 {
            return false;
        }
        let slots = &device.slots;
        let x_bytes = match device.x {
            XPlan::Whole => slots.x_bytes,
            _ => self.x_bytes(self.matrix.cols),
        };
        let needed = slots.device_bytes().saturating_sub(slots.x_bytes).saturating_add(x_bytes);
        slots.a_slots > 0
            && chunk.staged_bytes <= slots.a_slot_bytes
            && chunk.scratch_bytes <= slots.scratch_bytes
            && chunk.slice_bytes(self.k, self.dtype) <= slots.y_slot_bytes
            && needed <= device.memory_budget_bytes
    }
}
