//! The reason of a plan that leaves out the values of A, which are all equal.

use super::data::{Chunk, Mode, Plan};
use crate::error::{Bytes, Seconds};
use crate::kernel::Processor;

/// Bytes of values that the plan's kernels on GPUs do not store, and bytes of what they store.
fn bytes(plan: &Plan) -> (u64, u64) {
    let on_gpu = |chunk: &&Chunk| {
        let home = plan.devices.get(chunk.home as usize);
        home.is_some_and(|home| home.profile.link.is_some())
    };
    plan.chunks.iter().filter(on_gpu).fold((0, 0), |(left_out, stored), chunk| {
        let form = chunk.form(Processor::Gpu);
        let left_out_of_chunk = form.left_out_bytes(chunk.size.entries, plan.dtype);
        (left_out.saturating_add(left_out_of_chunk), stored.saturating_add(chunk.staged_bytes))
    })
}

/// Why `plan` copies a pattern and one value, and what the fastest of the plans `tried` takes that copies all values; `None` where it
/// copies all.
pub(super) fn values_reason<'a>(plan: &Plan, tried: impl Iterator<Item = &'a Plan>) -> Option<String> {
    let (left_out, stored) = bytes(plan);
    if left_out == 0 {
        return None;
    }
    let other = tried.filter(|other| other.mode == plan.mode && bytes(other).0 == 0 && bytes(other).1 > 0);
    let other_s =
        other.map(|other| other.predicted_s).reduce(f64::min).filter(|&other_s| other_s > plan.predicted_s);
    let gain = other_s.map(|other_s| {
        format!(
            "; a product is predicted {} faster than with all values",
            Seconds(other_s - plan.predicted_s)
        )
    });
    let times = if plan.mode == Mode::Resident { "once" } else { "with each product" };
    Some(format!(
        "values: all values of A are equal, so that one is copied: 4 bytes per nonzero instead of {}, {} of A {times} instead of {}{}",
        4 + plan.dtype.bytes(),
        Bytes(stored),
        Bytes(stored.saturating_add(left_out)),
        gain.unwrap_or_default()
    ))
}
