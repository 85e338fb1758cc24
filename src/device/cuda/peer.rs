//! Copies from the memory of another CUDA device: of another card, or of another logical device on the same card.

use std::sync::Arc;

use super::actions::{Action, CardCopy};
use super::completion_thread::HeldMemory;
use super::context::DeviceMemory;
use super::shared::Shared;
use super::{CudaDevice, misuse};
use crate::device::{Fault, FaultKind, Memory, PeerCopy, PeerMemory};

/// An allocation of a CUDA device, for copies by other CUDA devices.
struct CudaPeer {
    memory: Arc<DeviceMemory>,
    device: Arc<Shared>,
}

impl CudaDevice {
    pub(super) fn peer_of(&self, memory: Memory) -> Option<PeerMemory> {
        let peer = CudaPeer { memory: self.memories.get(memory)?.clone(), device: self.shared.clone() };
        Some(PeerMemory::new(&self.description.name, peer))
    }

    pub(super) fn allows_copies_from(&self, peer: &PeerMemory) -> bool {
        let source = peer.of::<CudaPeer>();
        source.is_some_and(|source| self.context.can_copy_from(source.memory.context()))
    }

    /// The driver action of a copy from another device, and the memory that it holds until it completes.
    pub(super) fn bind_peer_copy(&self, copy: &PeerCopy) -> Result<(Action, HeldMemory), Fault> {
        let PeerCopy { from, begin, to } = copy;
        let other_kind = || misuse(format!("{} is not a CUDA device", from.device()));
        let CudaPeer { memory, device } = from.of::<CudaPeer>().ok_or_else(other_kind)?;
        let bytes = to.bytes();
        if begin.checked_add(bytes).is_none_or(|end| end > memory.bytes()) {
            return Err(misuse(format!(
                "{bytes} bytes from byte {begin} exceed the memory of {}",
                from.device()
            )));
        }
        let copy = CardCopy {
            to: self.address(to)?,
            from: memory.address() + begin,
            source: memory.context().clone(),
            source_device: device.clone(),
            bytes: bytes as usize,
        };
        Ok((Action::PeerCopy(copy), HeldMemory::Peer(memory.clone())))
    }
}

impl CardCopy {
    /// A fault if the other device is lost: a copy from a lost context would end this context too.
    pub fn check_source(&self) -> Result<(), Fault> {
        self.source_device.check_alive().map_err(|fault| {
            Fault::new(
                FaultKind::PeerLost,
                format!("the device from which rows are copied: {}", fault.message),
            )
        })
    }
}
