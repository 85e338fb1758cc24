//! Predicted times: the steps of a chunk on a device, the finish time of a device, the traffic of the host's memory.

use super::data::{Chunk, DevicePlan, Mode, Plan, Registered, XPlan};
use super::set_up::{set_up, x_s};
use crate::cost::{Form, HostRates, Load, Profile};
use crate::kernel::Processor;
use crate::kernel::cuda::Layout;
use crate::matrix::Dtype;
use crate::work::{Facts, pitch_bytes};

/// Predicted seconds of each step of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Steps {
    pub stage_s: f64,
    pub upload_s: f64,
    pub kernel_s: f64,
    pub download_s: f64,
    pub merge_s: f64,
}

/// Time to build and stage a layout other than the host's, as a multiple of the time to copy as many bytes. Measured with lists of row
/// segments.
const LAYOUT_COPIES: f64 = 10.0;

impl Steps {
    /// The steps of some rows on a device whose kernel `form` takes `kernel_s`.
    pub fn new(
        profile: &Profile,
        host: &HostRates,
        form: &Form,
        kernel_s: f64,
        staged_bytes: u64,
        slice_bytes: u64,
    ) -> Self {
        if profile.link.is_none() {
            return Self { kernel_s, ..Self::default() };
        }
        let times = if form.reads_a_unchanged() { 1.0 } else { LAYOUT_COPIES };
        Self {
            stage_s: host.copy_s(staged_bytes) * times,
            upload_s: profile.upload_s(staged_bytes),
            kernel_s,
            download_s: profile.download_s(slice_bytes),
            merge_s: host.copy_s(slice_bytes),
        }
    }

    /// The steps of a chunk.
    pub fn of_chunk(plan: &Plan, device: &DevicePlan, host: &HostRates, chunk: &Chunk) -> Self {
        let kernel_s = chunk.kernel_s(&device.profile, plan.k, plan.dtype);
        Self::with_kernel_s(kernel_s, plan, device, host, chunk)
    }

    /// The steps of a chunk whose kernel is predicted to take `kernel_s` on the otherwise idle device.
    pub fn with_kernel_s(
        kernel_s: f64,
        plan: &Plan,
        device: &DevicePlan,
        host: &HostRates,
        chunk: &Chunk,
    ) -> Self {
        let (k, dtype) = (plan.k, plan.dtype);
        let slice_bytes = chunk.result_bytes(plan.output, k, dtype);
        let form = chunk.form(device.profile.processor);
        let kernel_s = kernel_s.max(memory_s(&device.profile, host, &form, &chunk.load(k, dtype)));
        Self::new(&device.profile, host, &form, kernel_s, chunk.staged_bytes, slice_bytes)
            .with(device.registered)
    }

    /// The steps of each product: without staging and upload where A is resident.
    pub fn in_mode(self, mode: Mode) -> Self {
        match mode {
            Mode::Resident => Self { stage_s: 0.0, upload_s: 0.0, ..self },
            Mode::Oneshot | Mode::Stream => self,
        }
    }

    /// The steps without the host's copies of registered operands.
    pub fn with(self, registered: Registered) -> Self {
        Self {
            stage_s: if registered.a { 0.0 } else { self.stage_s },
            merge_s: if registered.y { 0.0 } else { self.merge_s },
            ..self
        }
    }

    /// The sum of all steps.
    pub fn sum_s(&self) -> f64 {
        self.stage_s + self.upload_s + self.kernel_s + self.download_s + self.merge_s
    }

    /// The longest step, which limits a full pipeline. Staging and merging share the host's copy bandwidth, uploads and downloads
    /// the link of the device.
    pub fn longest_s(&self, profile: &Profile) -> f64 {
        let link_s = profile.duplex_s(self.upload_s, self.download_s);
        (self.stage_s + self.merge_s).max(link_s).max(self.kernel_s)
    }

    /// The name of the longest step.
    pub fn longest(&self, profile: &Profile) -> &'static str {
        let link_s = profile.duplex_s(self.upload_s, self.download_s);
        match self.longest_s(profile) {
            longest if longest == self.kernel_s => "the kernel",
            longest if longest == link_s && self.upload_s >= self.download_s => "the upload of A",
            longest if longest == link_s => "the download of Y",
            _ if self.stage_s >= self.merge_s => "staging A on the host",
            _ => "merging Y on the host",
        }
    }

    /// The sum of both, step by step.
    pub fn plus(self, other: Self) -> Self {
        Self {
            stage_s: self.stage_s + other.stage_s,
            upload_s: self.upload_s + other.upload_s,
            kernel_s: self.kernel_s + other.kernel_s,
            download_s: self.download_s + other.download_s,
            merge_s: self.merge_s + other.merge_s,
        }
    }
}

/// Seconds to make the list of the long rows of a chunk on the host: a pass over its row pointers. 0 if its kernel needs none.
pub(super) fn list_s(device: &DevicePlan, host: &HostRates, chunk: &Chunk) -> f64 {
    let layout = chunk.form(device.profile.processor).layout();
    let has_list =
        device.profile.link.is_some() && matches!(layout, Layout::Cuts | Layout::Pattern | Layout::Packed);
    if has_list { host.copy_s(chunk.slice_rows().saturating_mul(8)) } else { 0.0 }
}

/// Lower bound of a CPU kernel in seconds: the host's memory moves the bytes that do not fit in the caches; zero for other devices.
/// Weights fitted to small matrices would predict less. The correction of the kernel applies here too.
pub(super) fn memory_s(profile: &Profile, host: &HostRates, form: &Form, load: &Load) -> f64 {
    if profile.link.is_some() {
        return 0.0;
    }
    host.memory_s(load.moved_bytes().saturating_sub(profile.cache_bytes)) * profile.correction(form)
}

/// The steps of the whole product on a device, from samples of its rows and the kernels chosen for them.
pub(super) fn whole(
    profile: &Profile,
    host: &HostRates,
    parts: impl Iterator<Item = (Facts, Form, f64)>,
    k: u64,
    dtype: Dtype,
) -> Steps {
    parts
        .map(|(part, form, kernel_s)| {
            let load = part.load(k, dtype);
            let row_bytes = k.saturating_mul(dtype.bytes() as u64);
            let a_bytes = load.compulsory_bytes.saturating_sub(part.rows().saturating_mul(row_bytes));
            let a_bytes = a_bytes.saturating_sub(form.left_out_bytes(part.entries(), dtype));
            let y_bytes = part.rows().saturating_mul(pitch_bytes(row_bytes));
            Steps::new(profile, host, &form, kernel_s, a_bytes, y_bytes)
        })
        .fold(Steps::default(), Steps::plus)
}

/// The finish time of a device in parts that add up: X, then a pipeline that fills with the first chunk and drains with the last.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Finish {
    /// Copying X.
    pub x_s: f64,
    /// The longest step of all chunks, and its name.
    pub chunks_s: f64,
    pub longest: &'static str,
    /// Filling and draining the pipeline.
    pub ends_s: f64,
}

impl Finish {
    /// The finish time.
    pub fn total_s(&self) -> f64 {
        self.x_s + self.chunks_s + self.ends_s
    }
}

/// The finish time of a device that computes these chunks in these steps. `x_row_bytes` is the size of a row of X on the device.
pub(super) fn finish(
    device: &DevicePlan,
    host: &HostRates,
    chunks: &[(&Chunk, Steps)],
    x_row_bytes: u64,
) -> Finish {
    if !device.x_blocks.is_empty() && !chunks.is_empty() {
        return finish_in_blocks(device, host, chunks, x_row_bytes);
    }
    let all = chunks.iter().map(|(_, steps)| *steps).fold(Steps::default(), Steps::plus);
    let ends = match (chunks.first(), chunks.last()) {
        (Some((_, first)), Some((_, last))) => {
            let fill = first.stage_s + first.upload_s;
            let drain = last.download_s + last.merge_s;
            // The longest step is already in the sum.
            (fill + first.kernel_s + drain - first.longest_s(&device.profile).min(first.kernel_s)).max(0.0)
        }
        _ => return Finish::default(),
    };
    Finish {
        x_s: x_s(&device.profile, host, device.slots.x_bytes, device.registered),
        chunks_s: all.longest_s(&device.profile),
        longest: all.longest(&device.profile),
        ends_s: if all.upload_s + all.download_s > 0.0 { ends } else { 0.0 },
    }
}

/// Seconds of a copy that takes `alone_s` alone, where the other direction of the link is busy for `busy_s` from its start.
fn duplex_copy_s(alone_s: f64, busy_s: f64, factor: f64) -> f64 {
    // In `busy_s`, the copy makes the progress of `busy_s / factor`.
    (alone_s * factor).min(alone_s + busy_s.max(0.0) * (1.0 - 1.0 / factor))
}

/// The finish time of a device that receives X in blocks: each step of a chunk follows the step before it and the same step of the
/// chunk before it. Blocks of X are copied with the first chunk that needs them. Uploads and downloads slow each other down.
fn finish_in_blocks(
    device: &DevicePlan,
    host: &HostRates,
    chunks: &[(&Chunk, Steps)],
    x_row_bytes: u64,
) -> Finish {
    let mut order = chunks.to_vec();
    order.sort_by_key(|(chunk, _)| chunk.last_row_of_x());
    let first = if let XPlan::Columns { first, .. } = device.x { first } else { 0 };
    let starts = std::iter::once(first).chain(device.x_blocks.iter().copied());
    let block = |(begin, end): (u64, u64)| {
        let bytes = end.saturating_sub(begin).saturating_mul(x_row_bytes);
        let stage_s = if device.registered.x { 0.0 } else { host.copy_s(bytes) };
        (begin, Steps { stage_s, upload_s: device.profile.upload_s(bytes), ..Steps::default() })
    };
    let blocks: Vec<(u64, Steps)> = starts.zip(device.x_blocks.iter().copied()).map(block).collect();
    let of_blocks: f64 = blocks.iter().map(|(_, copy)| copy.upload_s).sum();
    let uploads_s = of_blocks + order.iter().map(|(_, own)| own.upload_s).sum::<f64>();
    let factor = device.profile.duplex_factor();
    let (mut all, mut ends) = (Steps::default(), Steps::default());
    let copy = |copied: &Steps, all: &mut Steps, ends: &mut Steps| {
        ends.stage_s += copied.stage_s;
        let start_s = ends.upload_s.max(ends.stage_s);
        ends.upload_s = start_s + duplex_copy_s(copied.upload_s, ends.download_s - start_s, factor);
        all.stage_s += copied.stage_s;
        all.upload_s += copied.upload_s;
    };
    let mut blocks = blocks.iter().peekable();
    for (chunk, own) in &order {
        while let Some((_, block)) = blocks.next_if(|(begin, _)| *begin < chunk.last_row_of_x()) {
            copy(block, &mut all, &mut ends);
        }
        if own.upload_s > 0.0 {
            copy(own, &mut all, &mut ends);
        }
        ends.kernel_s = ends.kernel_s.max(ends.upload_s) + own.kernel_s;
        let start_s = ends.download_s.max(ends.kernel_s);
        let uploads_end_s = ends.upload_s + factor * (uploads_s - all.upload_s);
        ends.download_s = start_s + duplex_copy_s(own.download_s, uploads_end_s - start_s, factor);
        ends.merge_s = ends.merge_s.max(ends.download_s) + own.merge_s;
        all = all.plus(Steps { stage_s: 0.0, upload_s: 0.0, ..*own });
    }
    for (_, block) in blocks {
        copy(block, &mut all, &mut ends);
    }
    let longest_s = all.longest_s(&device.profile);
    let total_s = ends.merge_s.max(ends.upload_s).max(longest_s);
    let copies_a = order.iter().any(|(_, own)| own.upload_s > 0.0);
    let longest = match (all.longest(&device.profile), copies_a) {
        ("the upload of A", true) => "the upload of X and A",
        ("the upload of A", false) => "the upload of X",
        ("staging A on the host", true) => "staging X and A on the host",
        ("staging A on the host", false) => "staging X on the host",
        (other, _) => other,
    };
    Finish { x_s: 0.0, chunks_s: longest_s, longest, ends_s: total_s - longest_s }
}

/// Accesses to the host's memory per staged byte: read, written, and read by the device's copy.
const STAGED_ACCESSES: u64 = 3;

/// Smallest share of a CPU kernel's time during which it occupies the host's memory: rows of X are fetched repeatedly, and whole
/// cache lines for a part of their bytes. Measured as the slow-down of a CPU next to the copies of a GPU.
const MEMORY_BUSY_SHARE: f64 = 0.75;

/// Bytes that the CPU reads and writes in the host's memory to compute a chunk in `kernel_s`.
pub(super) fn cpu_bytes(host: &HostRates, chunk: &Chunk, kernel_s: f64, k: u64, dtype: Dtype) -> u64 {
    let moved_bytes = chunk.load(k, dtype).moved_bytes();
    if !chunk.features.is_memory_bound(&chunk.form(Processor::Cpu)) {
        return moved_bytes;
    }
    let busy_bytes = MEMORY_BUSY_SHARE * kernel_s * host.memory_gb_per_s * 1e9;
    moved_bytes.max(busy_bytes as u64)
}

/// Bytes that a chunk reads and writes in the host's memory: three accesses per byte of a staged operand, one per byte of a
/// registered one. `steps` gives the steps of a chunk on the CPU.
fn host_bytes(
    plan: &Plan,
    device: &DevicePlan,
    host: &HostRates,
    chunk: &Chunk,
    steps: impl Fn() -> Steps,
) -> u64 {
    let slice_bytes = chunk.result_bytes(plan.output, plan.k, plan.dtype);
    if device.profile.link.is_none() {
        return cpu_bytes(host, chunk, steps().kernel_s, plan.k, plan.dtype);
    }
    let staged = if plan.mode == Mode::Resident { 0 } else { chunk.staged_bytes };
    let times = |registered: bool| if registered { 1 } else { STAGED_ACCESSES };
    let Registered { a, y, .. } = device.registered;
    staged.saturating_mul(times(a)).saturating_add(slice_bytes.saturating_mul(times(y)))
}

impl Plan {
    /// Predicted finish time of a device that computes these chunks, whichever device they were planned for.
    #[doc(hidden)]
    pub fn finish_s(&self, device: u32, chunks: impl IntoIterator<Item = usize>) -> f64 {
        let Some(device) = self.devices.get(device as usize) else { return 0.0 };
        self.finish_of(device, chunks.into_iter().filter_map(|chunk| self.chunks.get(chunk))).total_s()
    }

    /// The finish time of device number `index`, in parts.
    pub(super) fn finish(&self, index: usize) -> Finish {
        let own = self.chunks.iter().filter(|chunk| chunk.home as usize == index);
        self.finish_of(&self.devices[index], own)
    }

    fn finish_of<'a>(&self, device: &DevicePlan, chunks: impl Iterator<Item = &'a Chunk>) -> Finish {
        let steps = |chunk| Steps::of_chunk(self, device, &self.host, chunk).in_mode(self.mode);
        let own: Vec<(&Chunk, Steps)> = chunks.map(|chunk| (chunk, steps(chunk))).collect();
        finish(device, &self.host, &own, self.pitch_bytes())
    }

    /// Predicts the times of every chunk, every device, the product and the set-up. `kernel_s` has the predicted seconds of the
    /// kernel of each chunk on its own device.
    pub(super) fn predict(&mut self, kernel_s: &[f64]) {
        let steps_of = |(chunk, &kernel_s): (&Chunk, &f64)| {
            let device = self.devices.get(chunk.home as usize);
            device.map_or(Steps::default(), |device| {
                Steps::with_kernel_s(kernel_s, self, device, &self.host, chunk).in_mode(self.mode)
            })
        };
        let steps: Vec<Steps> = self.chunks.iter().zip(kernel_s).map(steps_of).collect();
        for (chunk, steps) in self.chunks.iter_mut().zip(&steps) {
            chunk.predicted_s = steps.sum_s();
        }
        let x_row_bytes = self.pitch_bytes();
        let mut latest: f64 = 0.0;
        for (index, device) in self.devices.iter_mut().enumerate() {
            let all = self.chunks.iter().zip(steps.iter().copied());
            let own: Vec<(&Chunk, Steps)> = all.filter(|(chunk, _)| chunk.home == index as u32).collect();
            device.predicted_s = finish(device, &self.host, &own, x_row_bytes).total_s();
            latest = latest.max(device.predicted_s);
        }
        let only_cpu = self.devices.len() == 1;
        let memory_bytes = || self.memory_bytes_with(&self.host, |index, _| steps.get(index).copied());
        let memory_s = if only_cpu { 0.0 } else { self.host.memory_s(memory_bytes()) };
        self.predicted_s = latest.max(memory_s);
        self.set_up = set_up(self);
    }

    /// Seconds that a host's memory with these rates needs for all accesses of a product.
    #[doc(hidden)]
    pub fn memory_s(&self, host: &HostRates) -> f64 {
        host.memory_s(self.memory_bytes(host))
    }

    /// Bytes that a product reads and writes in the host's memory.
    pub(super) fn memory_bytes(&self, host: &HostRates) -> u64 {
        self.memory_bytes_with(host, |_, (device, chunk)| Some(Steps::of_chunk(self, device, host, chunk)))
    }

    /// The same, with `steps` for each chunk on the CPU.
    fn memory_bytes_with(
        &self,
        host: &HostRates,
        steps: impl Fn(usize, (&DevicePlan, &Chunk)) -> Option<Steps>,
    ) -> u64 {
        let of_chunk = |(index, chunk): (usize, &Chunk)| {
            let device = self.devices.get(chunk.home as usize)?;
            let steps = || steps(index, (device, chunk)).unwrap_or_default();
            Some(host_bytes(self, device, host, chunk, steps))
        };
        let of_x = |device: &DevicePlan| {
            device.slots.x_bytes.saturating_mul(if device.registered.x { 1 } else { STAGED_ACCESSES })
        };
        let of_chunks = self.chunks.iter().enumerate().filter_map(of_chunk);
        of_chunks.chain(self.devices.iter().map(of_x)).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::make::make;
    use super::super::request::PlanRequest;
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::kernel::KernelId;
    use crate::work::Work;

    #[test]
    fn a_copy_is_slow_only_while_the_other_direction_is_busy() {
        // In 4 s at half the speed the copy makes the progress of 2 s; the other 8 s of 10 s follow at full speed.
        assert_eq!(duplex_copy_s(10.0, 4.0, 2.0), 4.0 + 8.0);
        assert_eq!(duplex_copy_s(10.0, 100.0, 2.0), 20.0);
        assert_eq!(duplex_copy_s(10.0, -1.0, 2.0), 10.0);
        assert_eq!(duplex_copy_s(10.0, 4.0, 1.0), 10.0);
    }

    #[test]
    fn a_list_of_long_rows_is_made_once() {
        let matrix = matrix("hub,rows=4000,degree=2,hubs=2");
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let kernel = Some(KernelId::CsrCuts);
        let mode = Some(Mode::Oneshot);
        let request = PlanRequest { mode, kernel, chunks: Some(1), ..request(work, &["emu"]) };
        let mut plan = make(&request).unwrap();
        let list_s = plan.host.copy_s(4000 * 8);
        assert!(list_s > 0.0);
        for a in [false, true] {
            plan.devices[1].registered.a = a;
            assert_eq!(set_up(&plan).register_s, list_s);
        }
        plan.chunks[0].gpu_kernel = KernelId::CsrSubwarp;
        assert_eq!(set_up(&plan).register_s, 0.0);
    }

    #[test]
    fn the_hosts_memory_is_accessed_three_times_for_staged_operands_and_once_for_registered_ones() {
        let matrix = matrix("diagonal,rows=400");
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let request = PlanRequest { mode: Some(Mode::Oneshot), chunks: Some(4), ..request(work, &["emu"]) };
        let mut plan = make(&request).unwrap();
        let a_bytes: u64 = plan.chunks.iter().map(|chunk| chunk.staged_bytes).sum();
        // A row of X or Y has 8 columns of 8 bytes.
        let (x_bytes, y_bytes) = (400 * 64, 400 * 64);
        plan.devices[1].registered = Registered::default();
        assert_eq!(plan.memory_bytes(&plan.host), 3 * (a_bytes + x_bytes + y_bytes));
        plan.devices[1].registered = Registered { a: true, x: true, y: false };
        assert_eq!(plan.memory_bytes(&plan.host), a_bytes + x_bytes + 3 * y_bytes);
        plan.mode = Mode::Resident;
        assert_eq!(plan.memory_bytes(&plan.host), x_bytes + 3 * y_bytes);
    }
}
