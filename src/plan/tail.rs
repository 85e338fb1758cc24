//! The last steps of a plan: split rows and the unassigned tail.

use super::data::{Chunk, Mode, Plan, SplitRow, XPlan};
use super::predict::Steps;
use crate::work::{ChunkRows, Work};

/// Share of a device's work that may be left unassigned.
const TAIL_SHARE: f64 = 0.2;
/// A device may take an unassigned chunk that needs at most this share of the product's time.
const MAX_TAIL_STEP: f64 = 0.25;

/// The rows that are split into several chunks.
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

/// Leaves the last chunks of each device to the device that is idle first.
pub(super) fn unassign_tail(plan: &mut Plan, reasons: &mut Vec<String>) {
    let computing: Vec<u32> = plan.computing().collect();
    if computing.len() < 2 {
        return;
    }
    let longest_s = MAX_TAIL_STEP * plan.predicted_s;
    let mut unassigned: Vec<usize> = Vec::new();
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
            unassigned.extend((!also.is_empty()).then_some(index));
            plan.chunks[index].also = also;
        }
    }
    unassigned.sort_unstable();
    reasons.extend(tail_reason(plan, &unassigned));
}

/// Which chunks may move, and where to.
fn tail_reason(plan: &Plan, unassigned: &[usize]) -> Option<String> {
    const IN_FULL: usize = 6;
    let name = |device: u32| plan.devices.get(device as usize).map_or("", |device| &device.name);
    let held = if plan.mode == Mode::Resident { " (only the host also holds their part of A)" } else { "" };
    Some(match unassigned {
        [] => return None,
        [index] => {
            let chunk = plan.chunks.get(*index)?;
            let to: Vec<&str> = chunk.also.iter().map(|&device| name(device)).collect();
            let to = match &to[..] {
                [device] => format!("{device} if {device} is idle first"),
                [one, other] => format!("{one} or {other}, whichever is idle first"),
                _ => "the device that is idle first".into(),
            };
            format!("tail: chunk {index} may move from {} to {to}", name(chunk.home))
        }
        [first, .., last] if unassigned.len() > IN_FULL => format!(
            "tail: {} of the chunks {first} to {last} may move to the device that is idle first{held}",
            unassigned.len()
        ),
        [few @ .., last] => {
            let few: Vec<String> = few.iter().map(usize::to_string).collect();
            format!(
                "tail: chunks {} and {last} may move to the device that is idle first{held}",
                few.join(", ")
            )
        }
    })
}

/// Whether `device` may compute a chunk of `home`: it has the memory and X for it, and needs at most `longest_s`.
fn may_take(plan: &Plan, chunk: &Chunk, home: u32, device: u32, longest_s: f64) -> bool {
    // A split row waits for all of its chunks, so they stay on their device.
    if matches!(chunk.rows, ChunkRows::Segments { .. }) {
        return false;
    }
    let (Some(to), Some(from)) = (plan.devices.get(device as usize), plan.devices.get(home as usize)) else {
        return false;
    };
    let slice_bytes = chunk.slice_bytes(plan.k, plan.dtype);
    let has_memory = to.profile.link.is_none()
        || (plan.mode != Mode::Resident
            && to.x == XPlan::Whole
            && to.slots.a_slots > 0
            && chunk.staged_bytes <= to.slots.a_slot_bytes
            && chunk.scratch_bytes <= to.slots.scratch_bytes
            && slice_bytes <= to.slots.y_slot_bytes
            && from.computes);
    // The prediction takes longer than the other conditions.
    has_memory && Steps::of_chunk(plan, to, &plan.host, chunk).in_mode(plan.mode).sum_s() <= longest_s
}

#[cfg(test)]
mod tests {
    use super::super::make::make;
    use super::super::request::PlanRequest;
    use super::super::tests::{matrix, request};
    use super::*;

    #[test]
    fn at_most_a_fifth_of_the_work_of_a_device_is_unassigned() {
        let matrix = matrix("uniform,rows=4000,degree=8");
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let request =
            PlanRequest { chunks: Some(40), mode: Some(Mode::Oneshot), ..request(work, &["emu", "emu"]) };
        let plan = make(&request).unwrap();
        for home in [1, 2] {
            let own = || plan.chunks.iter().filter(|chunk| chunk.home == home);
            let seconds = |unassigned: bool| {
                let chunks = own().filter(|chunk| !unassigned || !chunk.also.is_empty());
                chunks.map(|chunk| chunk.predicted_s).sum::<f64>()
            };
            let share = seconds(true) / seconds(false);
            assert!(share > 0.1 && share <= 0.2, "{share}");
            let first = own().position(|chunk| !chunk.also.is_empty()).unwrap();
            assert!(
                own().skip(first).all(|chunk| !chunk.also.is_empty()),
                "the unassigned chunks are the last"
            );
        }
    }
}
