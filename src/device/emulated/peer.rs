//! Copies between emulated devices, and the accesses in flight with which they may not overlap.
//!
//! Waits order the operations of one device. Between two devices, or a device and a network, there is no wait, so the earlier operation
//! must have completed when the later one is submitted. A copy from another device, or a message from this one, is refused while an
//! operation that writes the bytes is in flight. An operation that writes bytes is refused while another device copies them or a message
//! has them. A message that is received into bytes excludes all operations on them.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lane::{DeviceBytes, Shared};
use super::memory::Allocation;
use super::{EmulatedDevice, misuse};
use crate::device::{Fault, FaultKind, Memory, MemoryRange, PeerCopy, PeerMemory};

/// Who accesses bytes of a device, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An operation of the device reads them.
    OwnRead,
    /// An operation of the device writes them.
    OwnWrite,
    /// Another device copies them, or a message is sent from them.
    OutsideRead,
    /// A message is received into them.
    OutsideWrite,
}

impl Access {
    /// Whether two accesses to the same bytes may not be in flight together. The race detector orders those of the device itself.
    fn excludes(self, other: Self) -> bool {
        let either = |kinds: [Self; 2]| kinds.contains(&self) || kinds.contains(&other);
        either([Self::OwnWrite, Self::OutsideWrite]) && either([Self::OutsideRead, Self::OutsideWrite])
    }
}

/// The accesses in flight to an allocation.
#[derive(Debug, Default)]
pub struct Accesses {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    accesses: Vec<(u64, Access, Range<usize>)>,
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
    /// Begins an access. `None` if an access to some of the bytes is in flight that excludes it.
    pub fn new(memory: &Arc<Allocation>, range: Range<usize>, access: Access) -> Option<Self> {
        let mut held = memory.accesses().held();
        let overlaps = |other: &Range<usize>| other.start < range.end && range.start < other.end;
        if held.accesses.iter().any(|(_, other, bytes)| access.excludes(*other) && overlaps(bytes)) {
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
        let hold = Hold::new(memory, range.clone(), Access::OutsideRead).ok_or_else(|| {
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

    /// Holds the bytes that the operation `what` reads and writes.
    pub(super) fn hold(
        &self,
        what: &str,
        reads: &[MemoryRange],
        writes: &[MemoryRange],
    ) -> Result<Vec<Hold>, Fault> {
        let hold = |range: &MemoryRange, access, refusal: &str, other: &str| {
            let place = self.resolve(range)?;
            Hold::new(&place.memory, place.range, access).ok_or_else(|| {
                let MemoryRange { memory, begin, end } = range;
                misuse(format!(
                    "{refusal} bytes {begin}..{end} of memory {} while {other} some of them: the graph lacks an edge",
                    memory.0
                ))
            })
        };
        let read = format!("used before ready: a {what} reads");
        let read = |range| hold(range, Access::OwnRead, &read, "a message writes");
        let write = format!("reused too early: a {what} writes");
        let write =
            |range| hold(range, Access::OwnWrite, &write, "another device copies, or a message uses,");
        reads.iter().map(read).chain(writes.iter().map(write)).collect()
    }
}
