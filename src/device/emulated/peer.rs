//! Copies between emulated devices, and the accesses in flight with which they may not overlap.
//!
//! Waits order the operations of one device. Between two devices there is no wait, so the earlier operation must have completed when
//! the later one is submitted. A copy from another device is refused while an operation of that device that writes the bytes is in
//! flight. An operation that writes bytes is refused while another device copies them.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::AccessKind;
use super::lane::{DeviceBytes, Shared};
use super::memory::Allocation;
use super::{EmulatedDevice, misuse};
use crate::device::{Fault, FaultKind, Memory, MemoryRange, PeerCopy, PeerMemory};

/// The accesses in flight to an allocation: writes by its device, and reads by other devices.
#[derive(Debug, Default)]
pub struct Accesses {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    accesses: Vec<(u64, AccessKind, Range<usize>)>,
}

impl Accesses {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An access in flight. It ends when this is dropped.
pub struct Hold {
    memory: Arc<Allocation>,
    number: u64,
}

impl Hold {
    /// Begins an access: a write by the device of `memory`, or a read by another device. `None` if an access of the other kind to some
    /// of the bytes is in flight.
    pub fn new(memory: &Arc<Allocation>, range: Range<usize>, access: AccessKind) -> Option<Self> {
        let mut held = memory.accesses().held();
        let overlaps = |other: &Range<usize>| other.start < range.end && range.start < other.end;
        if held.accesses.iter().any(|(_, kind, other)| *kind != access && overlaps(other)) {
            return None;
        }
        let number = held.next;
        held.next += 1;
        held.accesses.push((number, access, range));
        drop(held);
        Some(Self { memory: memory.clone(), number })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.accesses().held().accesses.retain(|(number, ..)| *number != self.number);
    }
}

/// An allocation of an emulated device, for copies by other emulated devices.
struct EmulatedPeer {
    memory: Arc<Allocation>,
    number: Memory,
    device: Arc<Shared>,
}

/// A checked copy from another device. It holds the other device's bytes from submission to completion.
pub struct FromPeer {
    pub from: DeviceBytes,
    pub to: DeviceBytes,
    name: String,
    device: Arc<Shared>,
    _hold: Hold,
}

impl FromPeer {
    /// The fault of a copy from a device that is lost or closed.
    pub fn check_peer(&self) -> Result<(), Fault> {
        match self.device.is_usable() {
            true => Ok(()),
            false => Err(Fault::new(
                FaultKind::PeerLost,
                format!("{}, from which rows are copied, is lost", self.name),
            )),
        }
    }
}

impl EmulatedDevice {
    pub(super) fn peer_of(&self, memory: Memory) -> Option<PeerMemory> {
        let allocation = self.memories.get(memory)?.clone();
        let peer = EmulatedPeer { memory: allocation, number: memory, device: self.shared.clone() };
        Some(PeerMemory::new(&self.description.name, peer))
    }

    pub(super) fn allows_copies_from(&mut self, peer: &PeerMemory) -> bool {
        self.counts.peer_requests += 1;
        let refused = self.options.faults.refuse_peer_copies;
        peer.of::<EmulatedPeer>().is_some() && refused.is_none_or(|first| self.counts.peer_requests < first)
    }

    pub(super) fn check_peer_copy(&self, copy: &PeerCopy) -> Result<FromPeer, Fault> {
        let PeerCopy { from, begin, to } = copy;
        let other_kind = || misuse(format!("{} is not an emulated device", from.device()));
        let EmulatedPeer { memory, number, device } = from.of::<EmulatedPeer>().ok_or_else(other_kind)?;
        let place = self.resolve(to)?;
        let end = begin.checked_add(to.bytes()).filter(|end| *end <= memory.bytes() as u64);
        let outside = || {
            misuse(format!(
                "{} bytes from byte {begin} exceed memory {} of {}",
                to.bytes(),
                number.0,
                from.device()
            ))
        };
        let range = *begin as usize..end.ok_or_else(outside)? as usize;
        let hold = Hold::new(memory, range.clone(), AccessKind::Read).ok_or_else(|| {
            misuse(format!(
                "used before ready: a peer copy reads bytes {}..{} of memory {} of {} while an operation there writes some of \
                 them: the graph lacks an edge",
                range.start,
                range.end,
                number.0,
                from.device()
            ))
        })?;
        let from_bytes = DeviceBytes { memory: memory.clone(), number: number.0, range };
        let (name, device) = (from.device().to_owned(), device.clone());
        Ok(FromPeer { from: from_bytes, to: place, name, device, _hold: hold })
    }

    /// Holds the bytes that the operation `what` writes.
    pub(super) fn hold_writes(&self, what: &str, writes: &[MemoryRange]) -> Result<Vec<Hold>, Fault> {
        let hold = |range: &MemoryRange| {
            let place = self.resolve(range)?;
            Hold::new(&place.memory, place.range, AccessKind::Write).ok_or_else(|| {
                misuse(format!(
                    "reused too early: a {what} writes bytes {}..{} of memory {} while another device copies some of them: \
                     the graph lacks an edge",
                    range.begin, range.end, range.memory.0
                ))
            })
        };
        writes.iter().map(hold).collect()
    }
}
