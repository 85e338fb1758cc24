//! Divides a device's memory into X, resident chunks, and rings of slots.

use super::data::{Mode, Registered, Slots};
use super::request::DeviceSpec;

/// Share of a device's memory that a plan may use; the driver needs the rest.
const MEMORY_SHARE: f64 = 0.95;

/// Slots of a ring: one for the upload, one for the kernel, one for the download.
pub(super) const RING_SLOTS: u32 = 3;

/// Small slices of Y get more slots, up to these bytes and this number, so that a device never waits for the host to release one.
const SMALL_SLICES_BYTES: u64 = 64 << 20;
pub(super) const MAX_SLICES: u64 = 64;

/// Largest part of a chunk that is staged at a time, where a chunk is staged in parts.
const PART_BYTES: u64 = 64 << 20;

/// The memory that a device's part needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    pub mode: Mode,
    pub x_bytes: u64,
    /// The operands that need no page-locked slots.
    pub registered: Registered,
    /// Number of its chunks.
    pub chunks: u32,
    /// Bytes of all of its chunks.
    pub all_staged_bytes: u64,
    /// Bytes of its largest chunk.
    pub staged_bytes: u64,
    /// Bytes of the largest chunk of any GPU, which this device may have to take over.
    pub any_staged_bytes: u64,
    /// Largest scratch memory of any GPU's kernel.
    pub scratch_bytes: u64,
    /// Bytes of the largest slice of any GPU.
    pub slice_bytes: u64,
    /// Whether a resident plan needs a slot for chunks of another GPU.
    pub spare: bool,
    /// Whether chunks that stay on the device are staged in parts.
    pub in_parts: bool,
}

/// The largest number of slots that fits; `Err` with the smallest memory that would suffice.
pub(super) fn divide(need: &Need, budget_bytes: u64) -> Result<Slots, u64> {
    let mut least = u64::MAX;
    for a_slot_bytes in [need.any_staged_bytes, need.staged_bytes] {
        for ring in (1..=RING_SLOTS.min(need.chunks.max(1))).rev() {
            let resident = need.mode == Mode::Resident;
            let small = (SMALL_SLICES_BYTES / need.slice_bytes.max(1)).min(MAX_SLICES) as u32;
            let wide = if resident { small.min(need.chunks).max(ring) } else { ring };
            let a_slots = if resident { [u32::from(need.spare), 0] } else { [ring, ring] };
            for (a_slots, y_slots) in
                a_slots.into_iter().flat_map(|a_slots| [(a_slots, wide), (a_slots, ring)])
            {
                // A chunk that another GPU takes over is staged at once.
                let in_parts = need.in_parts && resident && a_slots == 0;
                let staged_bytes = if in_parts { a_slot_bytes.min(PART_BYTES) } else { a_slot_bytes };
                let staging = if in_parts { RING_SLOTS } else { ring };
                let slots = Slots {
                    x_bytes: need.x_bytes,
                    resident_bytes: if resident { need.all_staged_bytes } else { 0 },
                    scratch_bytes: need.scratch_bytes,
                    a_slots,
                    a_slot_bytes,
                    y_slots,
                    y_slot_bytes: need.slice_bytes,
                    pinned_in_slots: if need.registered.a { 0 } else { staging },
                    pinned_in_slot_bytes: staged_bytes,
                    pinned_out_slots: if need.registered.y { 0 } else { y_slots },
                    pinned_out_slot_bytes: need.slice_bytes,
                };
                if slots.device_bytes() <= budget_bytes {
                    return Ok(slots);
                }
                least = least.min(slots.device_bytes());
            }
        }
    }
    Err(least)
}

/// Bytes of a device's memory that a plan may use.
pub(super) fn budget(device: &DeviceSpec) -> u64 {
    let memory = (device.profile.memory_bytes as f64 * MEMORY_SHARE) as u64;
    device.memory_limit_bytes.unwrap_or(u64::MAX).min(memory.saturating_sub(device.taken_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need {
        mode: Mode::Oneshot,
        x_bytes: 100,
        registered: Registered { a: false, x: false, y: false },
        chunks: 8,
        all_staged_bytes: 800,
        staged_bytes: 100,
        any_staged_bytes: 150,
        scratch_bytes: 0,
        slice_bytes: 10,
        spare: false,
        in_parts: false,
    };

    #[test]
    fn slots_become_fewer_and_smaller_until_they_fit() {
        let slots = |budget| divide(&NEED, budget).map(|slots| (slots.a_slots, slots.a_slot_bytes));
        assert_eq!(slots(1000), Ok((3, 150)));
        assert_eq!(slots(500), Ok((2, 150)));
        assert_eq!(slots(270), Ok((1, 150)));
        assert_eq!(slots(210), Ok((1, 100)));
        assert_eq!(slots(209), Err(210));
    }

    #[test]
    fn resident_chunks_need_no_ring_but_a_spare_slot_where_it_fits() {
        let need = Need { mode: Mode::Resident, spare: true, ..NEED };
        let slots = divide(&need, 10_000).unwrap();
        assert_eq!(
            (slots.resident_bytes, slots.a_slots, slots.y_slots),
            (800, 1, 8),
            "a slice for each chunk"
        );
        assert_eq!(divide(&need, 935).unwrap().a_slots, 0);
        let large =
            Need { spare: false, in_parts: true, any_staged_bytes: 1 << 30, staged_bytes: 1 << 30, ..need };
        let slots = divide(&large, 10_000).unwrap();
        assert_eq!((slots.pinned_in_slots, slots.pinned_in_slot_bytes), (3, PART_BYTES));
        assert_eq!(divide(&need, 900), Err(910));
    }
}
