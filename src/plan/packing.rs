//! What packing A costs and gains, where it is copied with each product.

use super::data::{Chunk, DevicePlan, Mode, Plan};
use super::request::PlanRequest;
use crate::cost::HostRates;
use crate::error::{Bytes, Counted, Seconds};
use crate::kernel::Processor;
use crate::kernel::cuda::Layout;
use crate::work::ChunkRows;

/// Nanoseconds per nonzero to find out how A is packed, while the plan is made: 0.7 to 1.4 with 16 cores, about as many with two
/// (benches/results/oneshot-h200.md).
const FIND_NS: f64 = 1.2;
/// The least bytes of A whose packing is considered: below, latencies of copies count, and not bytes.
const LEAST_BYTES: u64 = 4 << 20;

/// Seconds to pack entries of A, of which `value_bytes` each are packed too, on the host: all threads read A twice, to find out how it is
/// packed and to pack it.
fn pack_s(host: &HostRates, entries: u64, value_bytes: u64, packed_bytes: u64) -> f64 {
    let read_bytes = entries.saturating_mul(4 + value_bytes);
    entries as f64 * 1e-9 * FIND_NS + host.memory_s(read_bytes.saturating_add(packed_bytes))
}

/// Bytes of a value that are packed, where a nonzero takes so many bytes. Plain values and offsets of two bytes take more.
fn packed_value_bytes(value_bytes: u64, entry_bytes: f64) -> u64 {
    if entry_bytes < 2.0 + value_bytes as f64 { value_bytes } else { 0 }
}

/// Seconds to pack a chunk; 0 where its kernel on `device` reads another layout.
pub(super) fn pack_chunk_s(plan: &Plan, device: &DevicePlan, chunk: &Chunk) -> f64 {
    let is_packed = chunk.form(Processor::Gpu).layout() == Layout::Packed;
    if device.profile.link.is_none() || !is_packed {
        return 0.0;
    }
    let entries = chunk.size.entries;
    let entry_bytes = chunk.staged_bytes as f64 / entries.max(1) as f64;
    let value_bytes = packed_value_bytes(plan.dtype.bytes() as u64, entry_bytes);
    pack_s(&plan.host, entries, value_bytes, chunk.staged_bytes)
}

/// Whether a packed A may cross so much faster with all products that packing it once pays. Samples of A decide whether it is read.
pub(super) fn may_gain_from_packing(request: &PlanRequest<'_>) -> bool {
    let (work, host) = (&request.work, &request.host);
    let a_bytes = work.a_bytes();
    let Some(packed_bytes) = work.sampled_packed_bytes().filter(|_| a_bytes >= LEAST_BYTES) else {
        return false;
    };
    if packed_bytes > request.host_memory_bytes {
        return false;
    }
    let entries = work.piece_entries(&ChunkRows::Rows { begin: 0, end: work.rows() });
    let value_bytes =
        packed_value_bytes(work.dtype().bytes() as u64, packed_bytes as f64 / entries.max(1) as f64);
    let pack_s = pack_s(host, entries, value_bytes, packed_bytes);
    // Values that are all equal are left out without packing, too.
    let equal_bytes = if work.has_equal_values() { entries * work.dtype().bytes() as u64 } else { 0 };
    let saved_bytes = a_bytes.saturating_sub(equal_bytes).saturating_sub(packed_bytes);
    request.devices.iter().any(|device| {
        let Some(link) = &device.profile.link else { return false };
        let upload_s = device.profile.upload_s(saved_bytes) - device.profile.upload_s(0);
        let register_s = link.register_s_per_gb.unwrap_or(0.0) * saved_bytes as f64 * 1e-9;
        let stage_s = if link.register_s_per_gb.is_none() { host.copy_s(saved_bytes) } else { 0.0 };
        request.repeat.max(1) as f64 * upload_s.max(stage_s) + register_s > pack_s
    })
}

/// The chunks that are copied packed.
fn packed_chunks(plan: &Plan) -> impl Iterator<Item = (&DevicePlan, &Chunk)> {
    let of_gpu = plan.chunks.iter().filter_map(|chunk| {
        let home = plan.devices.get(chunk.home as usize)?;
        home.profile.link.as_ref().map(|_| (home, chunk))
    });
    of_gpu.filter(|(_, chunk)| chunk.form(Processor::Gpu).layout() == Layout::Packed)
}

/// Whether `plan` packs A.
pub(super) fn packs(plan: &Plan) -> bool {
    packed_chunks(plan).next().is_some()
}

/// Why `plan` packs A, and what the fastest of the plans `tried` takes that does not; `None` where it does not.
pub(super) fn packing_reason<'a>(plan: &Plan, tried: impl Iterator<Item = &'a Plan>) -> Option<String> {
    let sum = |of: &dyn Fn(&Chunk) -> u64| packed_chunks(plan).map(|(_, chunk)| of(chunk)).sum::<u64>();
    let entry_bytes = 4 + plan.dtype.bytes() as u64;
    let entries = sum(&|chunk| chunk.size.entries);
    let before = sum(&|chunk| chunk.size.entries * entry_bytes + (chunk.slice_rows() + 1) * 8);
    let after = sum(&|chunk| chunk.staged_bytes);
    if entries == 0 || plan.mode == Mode::Resident {
        return None;
    }
    let pack_s: f64 = packed_chunks(plan).map(|(device, chunk)| pack_chunk_s(plan, device, chunk)).sum();
    let other = tried.filter(|other| other.mode == plan.mode && !packs(other));
    let copying =
        other.filter(|other| other.devices.iter().any(|on| on.chunks > 0 && on.profile.link.is_some()));
    let other_s = copying.map(|other| other.predicted_s).reduce(f64::min);
    let gain = other_s.filter(|&other_s| other_s > plan.predicted_s).map(|other_s| {
        format!(
            "; a product is predicted {} faster than with an unpacked A",
            Seconds(other_s - plan.predicted_s)
        )
    });
    let per_entry = |bytes: u64| bytes as f64 / entries as f64;
    Some(format!(
        "packing: {:.1} bytes per nonzero cross instead of {:.1}, {} of A with each product instead of {}; packing takes {} once ({}){}",
        per_entry(after),
        per_entry(before),
        Bytes(after),
        Bytes(before),
        Seconds(pack_s),
        Counted(plan.repeat, "product"),
        gain.unwrap_or_default()
    ))
}
