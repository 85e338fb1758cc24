//! Predicted times of the steps that bring a chunk through a device.

use super::data::{Chunk, DevicePlan, Mode, Plan, Registered};
use crate::cost::{Form, HostRates, Load, Profile};
use crate::kernel::cuda::Layout;
use crate::matrix::Dtype;
use crate::work::{Features, pitch_bytes};

/// Seconds of each step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Steps {
    pub stage_s: f64,
    pub upload_s: f64,
    pub kernel_s: f64,
    pub download_s: f64,
    pub merge_s: f64,
}

/// How many times longer it takes to build what a kernel reads from A than to copy as many bytes: seen with lists of parts of rows.
const BUILDING: f64 = 10.0;

impl Steps {
    /// Steps of some rows on a device, where its kernel `form` takes so long.
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
        let times = if form.layout() == Layout::Csr { 1.0 } else { BUILDING };
        Self {
            stage_s: host.copy_s(staged_bytes) * times,
            upload_s: profile.upload_s(staged_bytes),
            kernel_s,
            download_s: profile.download_s(slice_bytes),
            merge_s: host.copy_s(slice_bytes),
        }
    }

    /// Steps of a chunk.
    pub fn of_chunk(device: &DevicePlan, host: &HostRates, chunk: &Chunk, k: u64, dtype: Dtype) -> Self {
        let slice_bytes = chunk.slice_bytes(k, dtype);
        let form = chunk.form(device.profile.processor);
        let kernel_s = device.profile.form_s(&form, &chunk.features, k, dtype);
        let kernel_s = kernel_s.max(memory_s(&device.profile, host, &form, &chunk.load(k, dtype)));
        Self::new(&device.profile, host, &form, kernel_s, chunk.staged_bytes, slice_bytes)
            .with(device.registered)
    }

    /// The same without what happens only once where A stays.
    pub fn in_mode(self, mode: Mode) -> Self {
        match mode {
            Mode::Resident => Self { stage_s: 0.0, upload_s: 0.0, ..self },
            Mode::Oneshot | Mode::Stream => self,
        }
    }

    /// The same without the host's copies of what crosses from where it lies.
    pub fn with(self, registered: Registered) -> Self {
        Self {
            stage_s: if registered.a { 0.0 } else { self.stage_s },
            merge_s: if registered.y { 0.0 } else { self.merge_s },
            ..self
        }
    }

    /// One step after the other.
    pub fn sum_s(&self) -> f64 {
        self.stage_s + self.upload_s + self.kernel_s + self.download_s + self.merge_s
    }

    /// The longest step, which a full pipeline waits for. Staging and merging share the host's copying.
    pub fn longest_s(&self) -> f64 {
        (self.stage_s + self.merge_s).max(self.upload_s).max(self.kernel_s).max(self.download_s)
    }

    /// All steps of both.
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

/// Seconds that the host's memory needs for what a CPU moves and cannot keep in its caches; nothing on other devices. Weights that
/// were fitted to what fits there would predict less. What a kernel was found to be slower or faster by holds here too.
pub(super) fn memory_s(profile: &Profile, host: &HostRates, form: &Form, load: &Load) -> f64 {
    if profile.link.is_some() {
        return 0.0;
    }
    host.memory_s(load.moved_bytes().saturating_sub(profile.cache_bytes)) * profile.correction(form)
}

/// Steps of the whole job on a device, from the features of parts of it and the kernels chosen for them.
pub(super) fn whole(
    profile: &Profile,
    host: &HostRates,
    parts: impl Iterator<Item = (Features, Form, f64)>,
    k: u64,
    dtype: Dtype,
) -> Steps {
    parts
        .map(|(part, form, kernel_s)| {
            let load = Load::of(&part, k, dtype);
            let row_bytes = k.saturating_mul(dtype.bytes() as u64);
            let a_bytes = load.compulsory_bytes.saturating_sub(part.rows.saturating_mul(row_bytes));
            let y_bytes = part.rows.saturating_mul(pitch_bytes(row_bytes));
            Steps::new(profile, host, &form, kernel_s, a_bytes, y_bytes)
        })
        .fold(Steps::default(), Steps::plus)
}

/// Seconds to bring X to a device.
pub(super) fn x_s(profile: &Profile, host: &HostRates, x_bytes: u64, registered: Registered) -> f64 {
    if profile.link.is_none() {
        return 0.0;
    }
    let staged_s = if registered.x { 0.0 } else { host.copy_s(x_bytes) };
    staged_s + profile.upload_s(x_bytes)
}

/// When a device is done with its chunks: X, then a pipeline that fills with the first chunk and drains with the last.
pub(super) fn finish_s(
    device: &DevicePlan,
    host: &HostRates,
    chunks: &[&Chunk],
    mode: Mode,
    k: u64,
    dtype: Dtype,
) -> f64 {
    let steps = |chunk: &&Chunk| Steps::of_chunk(device, host, chunk, k, dtype).in_mode(mode);
    let all = chunks.iter().map(steps).fold(Steps::default(), Steps::plus);
    let ends = match (chunks.first(), chunks.last()) {
        (Some(first), Some(last)) => {
            let (first, last) = (steps(first), steps(last));
            let fill = first.stage_s + first.upload_s;
            let drain = last.download_s + last.merge_s;
            // The longest step is in the sum already.
            (fill + first.kernel_s + drain - first.longest_s().min(first.kernel_s)).max(0.0)
        }
        _ => return 0.0,
    };
    x_s(&device.profile, host, device.slots.x_bytes, device.registered)
        + all.longest_s()
        + if all.upload_s + all.download_s > 0.0 { ends } else { 0.0 }
}

/// How often the host's memory is touched by a byte that is staged: read, written, and read by the copy.
const STAGED_TIMES: u64 = 3;

/// Share of its time for which a product on the CPU keeps the host's memory busy, if it does not move more bytes than that: rows
/// of X that are fetched again, lines that are fetched for a part of them. Seen where a CPU slowed down beside copies.
const KEEPS_BUSY: f64 = 0.75;

/// Bytes that the CPU moves through its memory to compute a chunk in `kernel_s`: it reads A and X and writes Y.
pub(super) fn cpu_bytes(host: &HostRates, chunk: &Chunk, kernel_s: f64, k: u64, dtype: Dtype) -> u64 {
    let busy_bytes = KEEPS_BUSY * kernel_s * host.memory_gb_per_s * 1e9;
    chunk.load(k, dtype).moved_bytes().max(busy_bytes as u64)
}

/// Bytes that a chunk moves through the host's memory: read and written when staged, read by the copy, and the same
/// for its slice on the way back; once for what crosses from where it lies.
fn host_bytes(device: &DevicePlan, host: &HostRates, chunk: &Chunk, mode: Mode, k: u64, dtype: Dtype) -> u64 {
    let slice_bytes = chunk.slice_bytes(k, dtype);
    if device.profile.link.is_none() {
        let kernel_s = Steps::of_chunk(device, host, chunk, k, dtype).kernel_s;
        return cpu_bytes(host, chunk, kernel_s, k, dtype);
    }
    let staged = if mode == Mode::Resident { 0 } else { chunk.staged_bytes };
    let times = |registered: bool| if registered { 1 } else { STAGED_TIMES };
    let Registered { a, y, .. } = device.registered;
    staged.saturating_mul(times(a)).saturating_add(slice_bytes.saturating_mul(times(y)))
}

impl Plan {
    /// Seconds after which a device should be done if it computes these chunks, whoever they were planned for.
    pub fn finish_s(&self, device: u32, chunks: impl IntoIterator<Item = usize>) -> f64 {
        let own: Vec<&Chunk> = chunks.into_iter().filter_map(|chunk| self.chunks.get(chunk)).collect();
        let device = self.devices.get(device as usize);
        device.map_or(0.0, |device| finish_s(device, &self.host, &own, self.mode, self.k, self.dtype))
    }

    /// Seconds in which a host's memory with these rates can move all that devices read and write there.
    pub fn memory_s(&self, host: &HostRates) -> f64 {
        let of_chunk = |chunk: &Chunk| {
            let device = self.devices.get(chunk.home as usize)?;
            Some(host_bytes(device, host, chunk, self.mode, self.k, self.dtype))
        };
        let of_x = |device: &DevicePlan| {
            device.slots.x_bytes.saturating_mul(if device.registered.x { 1 } else { STAGED_TIMES })
        };
        let moved = self.chunks.iter().filter_map(of_chunk).chain(self.devices.iter().map(of_x));
        host.memory_s(moved.fold(0, u64::saturating_add))
    }
}
