#![allow(unsafe_code)] // The emulator's bridge: copies messages to and from device memory that is held for them.
//! Messages in the memory of an emulated device, which is host memory.

use std::ops::Range;
use std::sync::Arc;

use super::lane::Shared;
use super::memory::Allocation;
use super::peer::{Access, Hold};
use super::{EmulatedDevice, misuse};
use crate::device::{DirectAccess, DirectBytes, DirectMemory, Fault, FaultKind, HeldContext, Memory};

/// An allocation of an emulated device, for messages.
struct EmulatedMemory {
    name: String,
    memory: Arc<Allocation>,
    number: Memory,
    device: Arc<Shared>,
}

impl EmulatedDevice {
    pub(super) fn direct_of(&self, memory: Memory) -> Option<Arc<dyn DirectMemory>> {
        let (name, allocation) = (self.description.name.clone(), self.memories.get(memory)?.clone());
        let device = self.shared.clone();
        Some(Arc::new(EmulatedMemory { name, memory: allocation, number: memory, device }))
    }
}

/// The bytes of a message.
struct EmulatedBytes {
    memory: Arc<Allocation>,
    range: Range<usize>,
    access: DirectAccess,
    _hold: Hold,
}

impl DirectMemory for EmulatedMemory {
    fn device(&self) -> &str {
        &self.name
    }

    fn address(&self) -> u64 {
        self.memory.address() as u64
    }

    fn make_current(&self) -> Result<HeldContext, Fault> {
        Ok(Box::new(()))
    }

    fn begin(&self, begin: u64, end: u64, access: DirectAccess) -> Result<Box<dyn DirectBytes>, Fault> {
        if !self.device.is_usable() {
            let message = format!("{}, whose memory a message uses, is lost", self.name);
            return Err(Fault::new(FaultKind::PeerLost, message));
        }
        if begin > end || end > self.memory.bytes() as u64 {
            let (number, name) = (self.number.0, &self.name);
            return Err(misuse(format!("bytes {begin}..{end} are outside memory {number} of {name}")));
        }
        let range = begin as usize..end as usize;
        let (kind, headline, verb) = match access {
            DirectAccess::Read => (Access::OutsideRead, "used before ready", "reads"),
            DirectAccess::Write => (Access::OutsideWrite, "reused too early", "writes"),
        };
        let hold = Hold::new(&self.memory, range.clone(), kind).ok_or_else(|| {
            misuse(format!(
                "{headline}: a message {verb} bytes {begin}..{end} of memory {} of {} while an operation there uses some of them: \
                 the graph lacks an edge",
                self.number.0, self.name
            ))
        })?;
        if let (DirectAccess::Read, Some(at)) = (access, self.memory.first_unwritten(range.clone())) {
            let (number, name) = (self.number.0, &self.name);
            return Err(misuse(format!(
                "a message reads byte {at} of memory {number} of {name}, which is unwritten"
            )));
        }
        Ok(Box::new(EmulatedBytes { memory: self.memory.clone(), range, access, _hold: hold }))
    }
}

impl EmulatedBytes {
    fn check(&self, bytes: usize, access: DirectAccess) -> Result<(), Fault> {
        match bytes == self.range.len() && (access == DirectAccess::Read || access == self.access) {
            true => Ok(()),
            false => Err(misuse("a message is copied to or from other bytes than it holds".into())),
        }
    }
}

impl DirectBytes for EmulatedBytes {
    fn copy_to(&self, to: &mut [u8]) -> Result<(), Fault> {
        self.check(to.len(), DirectAccess::Read)?;
        // SAFETY: inside, as checked when the access began; it excludes writes by others.
        unsafe { self.memory.read(self.range.start, to) };
        Ok(())
    }

    fn copy_from(&mut self, from: &[u8]) -> Result<(), Fault> {
        self.check(from.len(), DirectAccess::Write)?;
        // SAFETY: inside, as checked when the access began; an access to write excludes all others.
        unsafe { self.memory.write(self.range.start, from) };
        Ok(())
    }

    fn mark_written(&mut self) {
        self.memory.mark(self.range.clone(), true);
    }
}
