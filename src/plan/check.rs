//! Whether a plan that was read is one that can be carried out. Files are edited, cut off and mixed up; what comes from one
//! is looked at before anything is done with it.

use super::data::{Chunk, Mode, Plan, XPlan};
use crate::cost::Profile;
use crate::kernel::cuda::CudaKernel;
use crate::work::ChunkRows;

impl Plan {
    /// Whether the parts of the plan belong together: everything that later steps rely on.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let devices = self.devices.len();
        if self.devices.first().is_none_or(|host| host.profile.link.is_some()) {
            return Err("the first device is not the host".into());
        }
        let rates = [self.host.memory_gb_per_s, self.host.copy_gb_per_s];
        if !rates.iter().all(is_rate) {
            return Err("the host's memory has no rate".into());
        }
        for device in &self.devices {
            if !is_possible(&device.profile) {
                return Err(format!("{} has rates that nothing has", device.name));
            }
            if let XPlan::Columns { first, end } = device.x
                && (first > end || end > self.matrix.cols)
            {
                return Err(format!("{} is sent rows {first}..{end} of X", device.name));
            }
        }
        let exists = |device: &u32| self.devices.get(*device as usize).is_some_and(|device| device.computes);
        let (mut next_row, mut next_segment, mut nnz) = (0, 0, 0u64);
        for (index, chunk) in self.chunks.iter().enumerate() {
            if !exists(&chunk.home) || !chunk.also.iter().all(exists) {
                return Err(format!("chunk {index} names a device that does not compute, of {devices}"));
            }
            let follows = match chunk.rows {
                ChunkRows::Rows { begin, end } => {
                    let follows = (begin, 0) == (next_row, next_segment) && end > begin;
                    (next_row, next_segment) = (end, 0);
                    follows
                }
                ChunkRows::Segments { row, begin, end } => {
                    let split = self.split_rows.binary_search_by_key(&(row as u64), |split| split.row);
                    let split = split.ok().and_then(|found| self.split_rows.get(found));
                    let last = split.map_or(0, |split| split.segments as usize);
                    let follows = (row, begin) == (next_row, next_segment) && end > begin && end <= last;
                    (next_row, next_segment) = if end == last { (row + 1, 0) } else { (row, end) };
                    follows && split.is_some_and(|split| split.chunks.binary_search(&(index as u32)).is_ok())
                }
            };
            if !follows {
                return Err(format!("chunk {index} does not follow the one before"));
            }
            self.check_chunk(chunk).map_err(|what| format!("chunk {index} {what}"))?;
            nnz = nnz.saturating_add(chunk.nnz);
        }
        if (next_row as u64, next_segment, nnz) != (self.matrix.rows, 0, self.matrix.nnz) {
            return Err("the chunks do not cover the matrix".into());
        }
        let cut: usize = self.split_rows.iter().map(|split| split.chunks.len()).sum();
        let segments =
            self.chunks.iter().filter(|chunk| matches!(chunk.rows, ChunkRows::Segments { .. })).count();
        if cut != segments {
            return Err("cut rows and their chunks do not belong together".into());
        }
        Ok(())
    }

    /// Whether a chunk is one of this matrix, computed by a form that there is, in slots that hold it.
    fn check_chunk(&self, chunk: &Chunk) -> std::result::Result<(), &'static str> {
        let features = &chunk.features;
        if (features.rows, features.nnz) != (chunk.slice_rows(), chunk.nnz) || features.max > chunk.nnz {
            return Err("is said to look like other rows");
        }
        for device in chunk.also.iter().chain([&chunk.home]) {
            let Some(device) = self.devices.get(*device as usize).filter(|on| on.profile.link.is_some())
            else {
                continue;
            };
            let known = CudaKernel::of(chunk.gpu_kernel).is_ok_and(|kernel| {
                let built_in = kernel.forms(self.dtype, self.k, false).contains(&chunk.gpu_variant)
                    || kernel.variants_for(self.dtype, self.k).any(|form| *form == chunk.gpu_variant);
                let made = || kernel.forms(self.dtype, self.k, true).contains(&chunk.gpu_variant);
                built_in || (device.profile.compiles && made())
            });
            if !known {
                return Err("has a form of a kernel that its device cannot run");
            }
            let slots = &device.slots;
            let room = if self.mode == Mode::Resident { slots.resident_bytes } else { slots.a_slot_bytes };
            let slice_bytes = chunk.slice_bytes(self.k, self.dtype);
            if chunk.staged_bytes > room
                || chunk.scratch_bytes > slots.scratch_bytes
                || slice_bytes > slots.y_slot_bytes
            {
                return Err("does not fit into its device's slots");
            }
            if let XPlan::Columns { first, end } = device.x
                && chunk.nnz > 0
                && (features.first_column < first || features.end_column > end)
            {
                return Err("needs rows of X that its device is not sent");
            }
        }
        Ok(())
    }
}

/// Bytes each nanosecond, which are GB/s, of something that there is.
fn is_rate(rate: &f64) -> bool {
    (1e-6..=1e9).contains(rate)
}

/// Whether there can be a device like this: times that follow from its rates are finite and end.
fn is_possible(profile: &Profile) -> bool {
    let rates = [profile.stream_gb_per_s, profile.gather_gb_per_s, profile.far_gather_gb_per_s];
    let link = profile.link.iter();
    let of_link = link
        .clone()
        .flat_map(|link| [link.to_device_gb_per_s, link.from_device_gb_per_s, link.both_gb_per_s]);
    let latencies = link.map(|link| link.latency_us);
    let mut times = [profile.launch_us, profile.row_ns, profile.product_ns].into_iter().chain(latencies);
    let mut factors =
        profile.factors.values().copied().chain(profile.corrections.iter().map(|found| found.factor));
    rates.into_iter().chain(of_link).all(|rate| is_rate(&rate))
        && times.all(|time| (0.0..=1e9).contains(&time))
        && factors.all(|factor| (1e-9..=1e9).contains(&factor))
}
