//! Messages in the memory of a card, for CUDA-aware communicators.

#![allow(unsafe_code)] // copies messages to and from memory of the card that they use alone

use std::ops::Range;
use std::sync::Arc;

use super::context::DeviceMemory;
use super::shared::Shared;
use super::{CudaDevice, misuse};
use crate::device::{DirectAccess, DirectBytes, DirectMemory, Fault, FaultKind, HeldContext, Memory};

/// An allocation of a CUDA device, for messages.
struct CudaMemory {
    name: String,
    memory: Arc<DeviceMemory>,
    device: Arc<Shared>,
}

/// The bytes of a message.
struct CudaBytes {
    memory: Arc<DeviceMemory>,
    range: Range<u64>,
    access: DirectAccess,
}

impl CudaDevice {
    pub(super) fn direct_of(&self, memory: Memory) -> Option<Arc<dyn DirectMemory>> {
        let (name, memory) = (self.description.name.clone(), self.memories.get(memory)?.clone());
        Some(Arc::new(CudaMemory { name, memory, device: self.shared.clone() }))
    }
}

impl CudaMemory {
    fn lost(&self, fault: Fault) -> Fault {
        let message = format!("{}, whose memory a message uses: {}", self.name, fault.message);
        Fault::new(FaultKind::PeerLost, message)
    }
}

impl DirectMemory for CudaMemory {
    fn device(&self) -> &str {
        &self.name
    }

    fn address(&self) -> u64 {
        self.memory.address()
    }

    fn make_current(&self) -> Result<HeldContext, Fault> {
        self.device.check_alive().map_err(|fault| self.lost(fault))?;
        self.memory.context().make_current().map_err(|fault| self.lost(fault))?;
        Ok(Box::new(self.memory.context().clone()))
    }

    fn begin(&self, begin: u64, end: u64, access: DirectAccess) -> Result<Box<dyn DirectBytes>, Fault> {
        self.device.check_alive().map_err(|fault| self.lost(fault))?;
        if begin > end || end > self.memory.bytes() {
            return Err(misuse(format!(
                "bytes {begin}..{end} of a message exceed the memory of {}",
                self.name
            )));
        }
        Ok(Box::new(CudaBytes { memory: self.memory.clone(), range: begin..end, access }))
    }
}

impl CudaBytes {
    fn check(&self, bytes: usize, access: DirectAccess) -> Result<(), Fault> {
        let is_whole = bytes as u64 == self.range.end - self.range.start;
        match is_whole && (access == DirectAccess::Read || access == self.access) {
            true => Ok(()),
            false => Err(misuse("a message is copied to or from other bytes than it holds".into())),
        }
    }
}

impl DirectBytes for CudaBytes {
    fn copy_to(&self, to: &mut [u8]) -> Result<(), Fault> {
        self.check(to.len(), DirectAccess::Read)?;
        // SAFETY: inside, as checked when the access began. The caller has ordered the message after the work that wrote the bytes.
        unsafe { self.memory.read(self.range.start, to) }
    }

    fn copy_from(&mut self, from: &[u8]) -> Result<(), Fault> {
        self.check(from.len(), DirectAccess::Write)?;
        // SAFETY: inside, as checked when the access began. The caller orders all other work on the bytes before or after the message.
        unsafe { self.memory.write(self.range.start, from) }
    }
}
