//! Cuts a device's memory into X, chunks that stay, and rings of slots.

use super::data::{Mode, Registered, Slots};
use super::request::DeviceSpec;

/// Share of a device's memory that is planned for; the rest is for its driver.
const MEMORY_SHARE: f64 = 0.95;

/// Slots of a ring with which copying in, computing and copying out can all be under way.
pub(super) const RING: u32 = 3;

/// Bytes of all slices of Y together where they are small, and how many there are then at most: enough that a device never
/// waits for the host to hear of an end.
const SMALL_SLICES_BYTES: u64 = 64 << 20;
const MOST_SLICES: u64 = 64;

/// What has to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    pub mode: Mode,
    pub x_bytes: u64,
    /// What needs no pinned memory.
    pub registered: Registered,
    /// Number of chunks that the device may get.
    pub chunks: u32,
    /// All of its own chunks.
    pub all_staged_bytes: u64,
    /// The largest of its own chunks.
    pub staged_bytes: u64,
    /// The largest chunk of any GPU, which it may have to take over.
    pub any_staged_bytes: u64,
    /// The most that any GPU's kernel needs beside its chunk.
    pub scratch_bytes: u64,
    /// The largest slice of any GPU.
    pub slice_bytes: u64,
    /// Whether chunks of another GPU may come here where A stays.
    pub spare: bool,
}

/// The slots that fit, most first; `Err` with the least that would be needed.
pub(super) fn cut(need: &Need, budget_bytes: u64) -> Result<Slots, u64> {
    let mut least = u64::MAX;
    for a_slot_bytes in [need.any_staged_bytes, need.staged_bytes] {
        for ring in (1..=RING.min(need.chunks.max(1))).rev() {
            let resident = need.mode == Mode::Resident;
            let small = (SMALL_SLICES_BYTES / need.slice_bytes.max(1)).min(MOST_SLICES) as u32;
            let wide = if resident { small.min(need.chunks).max(ring) } else { ring };
            let a_slots = if resident { [u32::from(need.spare), 0] } else { [ring, ring] };
            for (a_slots, y_slots) in
                a_slots.into_iter().flat_map(|a_slots| [(a_slots, wide), (a_slots, ring)])
            {
                let slots = Slots {
                    x_bytes: need.x_bytes,
                    resident_bytes: if resident { need.all_staged_bytes } else { 0 },
                    scratch_bytes: need.scratch_bytes,
                    a_slots,
                    a_slot_bytes,
                    y_slots,
                    y_slot_bytes: need.slice_bytes,
                    pinned_in_slots: if need.registered.a { 0 } else { ring },
                    pinned_in_slot_bytes: a_slot_bytes,
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

/// Bytes that may be planned for on a device.
pub(super) fn budget(device: &DeviceSpec) -> u64 {
    let memory = (device.profile.memory_bytes as f64 * MEMORY_SHARE) as u64;
    device.memory_limit_bytes.unwrap_or(u64::MAX).min(memory)
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
    };

    #[test]
    fn slots_become_fewer_and_smaller_before_nothing_fits() {
        let slots = |budget| cut(&NEED, budget).map(|slots| (slots.a_slots, slots.a_slot_bytes));
        assert_eq!(slots(1000), Ok((3, 150)));
        assert_eq!(slots(500), Ok((2, 150)));
        assert_eq!(slots(270), Ok((1, 150)));
        assert_eq!(slots(210), Ok((1, 100)));
        assert_eq!(slots(209), Err(210));
    }

    #[test]
    fn what_stays_needs_no_ring_but_a_spare_slot_where_there_is_room() {
        let need = Need { mode: Mode::Resident, spare: true, ..NEED };
        let slots = cut(&need, 10_000).unwrap();
        assert_eq!(
            (slots.resident_bytes, slots.a_slots, slots.y_slots),
            (800, 1, 8),
            "a slice for each chunk"
        );
        assert_eq!(cut(&need, 935).unwrap().a_slots, 0);
        assert_eq!(cut(&need, 900), Err(910));
    }
}
