//! The last steps of a plan: cut rows, predicted times, the floating tail, and every chunk's reason in words.

use super::data::{Chunk, Mode, Plan, SplitRow, XPlan};
use super::predict::{Steps, finish_s};
use crate::work::{ChunkRows, Work};

/// Share of a device's work that floats, where its chunks are small enough for that.
const TAIL_SHARE: f64 = 0.2;
/// A device may take a floating chunk if that keeps it busy for no more than this share of the product.
const TAIL_STEP: f64 = 0.25;

/// The rows that are computed in several chunks.
pub(super) fn split_rows(work: &Work<'_>, chunks: &[Chunk]) -> Vec<SplitRow> {
    let mut rows: Vec<SplitRow> = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let ChunkRows::Segments { row, .. } = chunk.rows else { continue };
        match rows.last_mut().filter(|split| split.row == row as u64) {
            Some(split) => split.chunks.push(index as u32),
            None => rows.push(SplitRow {
                row: row as u64,
                segments: work.row_segments(row) as u64,
                chunks: vec![index as u32],
            }),
        }
    }
    rows
}

/// Times of every chunk, every device and the product.
pub(super) fn predict(plan: &mut Plan) {
    let (k, dtype, mode) = (plan.k, plan.dtype, plan.mode);
    for chunk in &mut plan.chunks {
        if let Some(device) = plan.devices.get(chunk.home as usize) {
            let steps = Steps::of_chunk(device, &plan.host, chunk, k, dtype);
            chunk.predicted_s = steps.in_mode(mode).sum_s();
        }
    }
    let mut latest: f64 = 0.0;
    for (index, device) in plan.devices.iter_mut().enumerate() {
        let own: Vec<&Chunk> = plan.chunks.iter().filter(|chunk| chunk.home == index as u32).collect();
        device.predicted_s = finish_s(device, &plan.host, &own, mode, k, dtype);
        latest = latest.max(device.predicted_s);
    }
    let only_cpu = plan.devices.len() == 1;
    let memory_s = if only_cpu { 0.0 } else { plan.memory_s(&plan.host) };
    plan.predicted_s = latest.max(memory_s);
}

/// Lets the last chunks of each device be taken by whoever is free first.
pub(super) fn float_the_tail(plan: &mut Plan, reasons: &mut Vec<String>) {
    let computing: Vec<u32> = plan.computing().collect();
    if computing.len() < 2 {
        return;
    }
    let longest_s = TAIL_STEP * plan.predicted_s;
    let mut floating = 0;
    for &home in &computing {
        let own: Vec<usize> =
            (0..plan.chunks.len()).filter(|&index| plan.chunks[index].home == home).collect();
        if own.len() < 2 {
            continue;
        }
        let all_s: f64 = own.iter().map(|&index| plan.chunks[index].predicted_s).sum();
        let mut tail_s = 0.0;
        for (number, &index) in own.iter().rev().take(own.len() - 1).enumerate() {
            tail_s += plan.chunks[index].predicted_s;
            if number > 0 && tail_s > TAIL_SHARE * all_s {
                break;
            }
            let chunk = &plan.chunks[index];
            let takers = computing.iter().copied().filter(|&device| device != home);
            let also: Vec<u32> =
                takers.filter(|&device| may_take(plan, chunk, home, device, longest_s)).collect();
            floating += usize::from(!also.is_empty());
            plan.chunks[index].also = also;
        }
    }
    if floating > 0 {
        let (chunks, them) = if floating == 1 {
            ("the last chunk floats", "it")
        } else {
            ("of the last chunks some float", "them")
        };
        let who = match plan.mode {
            Mode::Resident => format!("the CPU takes {them} if it is free first, since A is nowhere else"),
            Mode::Oneshot | Mode::Stream => format!("the device that is free first takes {them}"),
        };
        reasons.push(format!("{chunks} ({floating}): {who}"));
    }
}

/// Whether `device` could compute a chunk of another without harm: everything is there, and it would not take long.
fn may_take(plan: &Plan, chunk: &Chunk, home: u32, device: u32, longest_s: f64) -> bool {
    // A cut row waits for all of its chunks; they stay where they were put.
    if matches!(chunk.rows, ChunkRows::Segments { .. }) {
        return false;
    }
    let (Some(to), Some(from)) = (plan.devices.get(device as usize), plan.devices.get(home as usize)) else {
        return false;
    };
    let steps = Steps::of_chunk(to, &plan.host, chunk, plan.k, plan.dtype);
    if steps.in_mode(plan.mode).sum_s() > longest_s {
        return false;
    }
    if to.profile.link.is_none() {
        return true;
    }
    let slice_bytes = chunk.slice_bytes(plan.k, plan.dtype);
    plan.mode != Mode::Resident
        && to.x == XPlan::Whole
        && to.slots.a_slots > 0
        && chunk.staged_bytes <= to.slots.a_slot_bytes
        && chunk.scratch_bytes <= to.slots.scratch_bytes
        && slice_bytes <= to.slots.y_slot_bytes
        && from.computes
}

/// Says of every chunk and device why it is as it is.
pub(super) fn describe(plan: &mut Plan) {
    let names: Vec<String> = plan.devices.iter().map(|device| device.name.clone()).collect();
    let name = |device: u32| names.get(device as usize).map_or("", String::as_str);
    let alone = plan.computing().count() == 1;
    let (rows, chunks) = (plan.matrix.rows, plan.chunks.len());
    let computing = plan.computing().count();
    for index in 0..plan.chunks.len() {
        let chunk = &mut plan.chunks[index];
        let place = match chunk.rows {
            ChunkRows::Segments { row, .. } => format!("part of row {row}, which costs more than a chunk"),
            ChunkRows::Rows { .. } if alone => format!("{} is the only device", name(chunk.home)),
            ChunkRows::Rows { .. } => format!("in the share of {}", name(chunk.home)),
        };
        let others: Vec<&str> = chunk.also.iter().map(|&device| name(device)).collect();
        let floats =
            if others.is_empty() { String::new() } else { format!("; floats to {}", others.join(", ")) };
        chunk.reason = format!("{place}{floats}; {}", chunk.reason);
    }
    for device in &mut plan.devices {
        device.reason = match (device.computes, device.chunks) {
            (false, _) => "stages and merges, and computes nothing: cpu is not among the devices".into(),
            (true, 0) if rows == 0 => "there are no rows".into(),
            (true, 0) if rows < computing as u64 => "there are fewer rows than devices".into(),
            (true, 0) if chunks < computing => "fewer chunks than devices were asked for".into(),
            (true, 0) => "it gets nothing: the others are done before it would help".into(),
            (true, 1) if alone => {
                "all rows in one chunk: no other device shares them, and threads share them in the kernel"
                    .into()
            }
            (true, _) if alone => "all rows: no other device shares them".into(),
            (true, _) => "a share with which all devices should be done at the same time".into(),
        };
    }
}
