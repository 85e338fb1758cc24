//! Validation of a loaded plan. Files may be edited, truncated or mixed up, so a plan is validated before it is used.

use super::check_matrix::is_consistent;
use super::data::{Chunk, DevicePlan, Mode, Plan, XPlan};
use crate::cost::{Profile, SimulatedCluster, VALID_RATES};
use crate::kernel::{KernelId, Processor};
use crate::work::ChunkRows;

impl Plan {
    /// Checks every property that later steps rely on; the error says what is wrong.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let devices = self.devices.len();
        if self.devices.first().is_none_or(|host| host.profile.link.is_some()) {
            return Err("the first device is not the host".into());
        }
        let is_rank = self.cluster.as_ref().is_some_and(SimulatedCluster::has_cpu_ranks);
        let mut devices_of = self.devices.iter().enumerate();
        if let Some((_, device)) = devices_of.find(|(number, on)| !is_consistent(*number, on, is_rank)) {
            return Err(format!("{} is neither the host nor a device with a link", device.name));
        }
        if !self.host.is_valid() {
            return Err("the rates of the host's memory are out of range".into());
        }
        if let Some(cluster) = &self.cluster {
            if !cluster.host.is_valid() || !cluster.network.is_valid() {
                return Err("the rates of the cluster are out of range".into());
            }
            if cluster.devices() + 1 != devices as u64 {
                return Err("the devices differ from the GPUs of all nodes of the cluster".into());
            }
        }
        for device in &self.devices {
            if !is_valid(&device.profile) {
                return Err(format!("the rates of {} are out of range", device.name));
            }
            if let XPlan::Columns { first, end } = device.x
                && (first > end || end > self.matrix.cols)
            {
                return Err(format!("{} receives rows {first}..{end} of X, which do not exist", device.name));
            }
            self.check_blocks(device)?;
        }
        let exists = |device: &u32| self.devices.get(*device as usize).is_some_and(|device| device.computes);
        let (mut next_row, mut next_segment, mut entries) = (0, 0, 0u64);
        for (index, chunk) in self.chunks.iter().enumerate() {
            if !exists(&chunk.home) || !chunk.also.iter().all(exists) {
                return Err(format!(
                    "chunk {index} names a device that cannot compute; there are {devices} devices"
                ));
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
                return Err(format!("chunk {index} does not start where the chunk before it ends"));
            }
            self.check_chunk(chunk).map_err(|what| format!("chunk {index} {what}"))?;
            entries = entries.saturating_add(chunk.size.entries);
        }
        if (next_row as u64, next_segment, entries) != (self.matrix.rows, 0, self.matrix.entries) {
            return Err("the chunks do not cover the matrix".into());
        }
        let cut: usize = self.split_rows.iter().map(|split| split.chunks.len()).sum();
        let segments =
            self.chunks.iter().filter(|chunk| matches!(chunk.rows, ChunkRows::Segments { .. })).count();
        if cut != segments {
            return Err("the split rows do not match their chunks".into());
        }
        Ok(())
    }

    /// Checks that the blocks of X of a device are its rows of X, one after the other.
    fn check_blocks(&self, device: &DevicePlan) -> std::result::Result<(), String> {
        if device.x_blocks.is_empty() {
            return Ok(());
        }
        let Some(held) = self.held_rows(device.x) else {
            return Err(format!("{} receives blocks of X, but holds no range of rows", device.name));
        };
        let ends = &device.x_blocks;
        let ascend = ends.is_sorted_by(|a, b| a < b) && ends.first().is_some_and(|&end| end > held.first);
        if !ascend || ends.last() != Some(&held.end) {
            return Err(format!("the blocks of X of {} are not its rows of X", device.name));
        }
        Ok(())
    }

    /// Whether a kernel belongs to the plan's kind of work and runs on a processor.
    fn has_kernel(&self, kernel: KernelId, processor: Processor) -> bool {
        let info = kernel.info();
        info.work.name() == self.matrix.kind && info.runs_on == processor
    }

    /// Checks that the features of a chunk match its rows, that its kernel exists, and that it fits in its slots.
    fn check_chunk(&self, chunk: &Chunk) -> std::result::Result<(), &'static str> {
        let entries = chunk.size.entries;
        if !chunk.features.are_of(chunk.slice_rows(), entries) {
            return Err("has features of other rows");
        }
        if !self.has_kernel(chunk.cpu_kernel, Processor::Cpu) {
            return Err("has no CPU kernel");
        }
        let sampled = chunk.features.sampled_x().filter(|_| entries > 0);
        if let Some(rows) = chunk.x_rows {
            // Exact rows are compared with the matrix when the plan is used: `check_matrix`.
            let covers = sampled.is_none_or(|sample| rows.first <= sample.first && sample.end <= rows.end);
            if rows.first > rows.end || rows.end > self.matrix.cols || !covers {
                return Err("has columns outside the rows of X that it waits for");
            }
        }
        for device in chunk.also.iter().chain([&chunk.home]) {
            let is_gpu = |on: &&DevicePlan| on.profile.processor == Processor::Gpu;
            let Some(device) = self.devices.get(*device as usize).filter(is_gpu) else { continue };
            let form = chunk.form(Processor::Gpu);
            if !self.has_kernel(form.kernel, Processor::Gpu)
                || !form.is_available(&device.profile, self.dtype, self.k)
            {
                return Err("has a kernel variant that its device cannot run");
            }
            let slots = &device.slots;
            let capacity =
                if self.mode == Mode::Resident { slots.resident_bytes } else { slots.a_slot_bytes };
            let slice_bytes = chunk.slice_bytes(self.k, self.dtype);
            if chunk.staged_bytes > capacity
                || chunk.scratch_bytes > slots.scratch_bytes
                || slice_bytes > slots.y_slot_bytes
            {
                return Err("does not fit in the slots of its device");
            }
            if let XPlan::Columns { first, end } = device.x
                && sampled.is_some_and(|sample| sample.first < first || sample.end > end)
            {
                return Err("uses rows of X that its device does not receive");
            }
        }
        Ok(())
    }
}

/// Whether all rates and times of a device are in their valid ranges, so that predicted times are finite.
fn is_valid(profile: &Profile) -> bool {
    let memory = [profile.stream_gb_per_s, profile.gather_gb_per_s, profile.far_gather_gb_per_s];
    let rates = memory.into_iter().chain([profile.f64_gflop_per_s, profile.f32_gflop_per_s]);
    let link = profile.link.iter();
    let of_link = link
        .clone()
        .flat_map(|link| [link.to_device_gb_per_s, link.from_device_gb_per_s, link.both_gb_per_s]);
    let latencies = link.map(|link| link.latency_us);
    let once = [profile.driver_start_s, profile.open_s, profile.load_kernel_s, profile.first_compile_s];
    let times = [profile.launch_us, profile.row_ns, profile.product_ns].into_iter().chain(once);
    let mut times = times.chain(latencies);
    let mut factors =
        profile.factors.values().copied().chain(profile.corrections.iter().map(|found| found.factor));
    rates.chain(of_link).all(|rate| VALID_RATES.contains(&rate))
        && times.all(|time| (0.0..=1e9).contains(&time))
        && factors.all(|factor| (1e-9..=1e9).contains(&factor))
}
