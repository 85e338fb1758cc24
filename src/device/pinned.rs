//! Host memory that devices copy from and to, shared by the host's jobs and a device's lanes.
//!
//! The graph keeps users apart; should it fail to, the second one is told instead of seeing half-written bytes.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Fault, FaultKind};
use crate::error;
use crate::matrix::AlignedBuffer;

/// A buffer in the host's memory. Clones are the same buffer.
#[derive(Debug, Clone)]
pub struct Pinned {
    bytes: usize,
    memory: Arc<RwLock<AlignedBuffer<u8>>>,
}

impl Pinned {
    /// Pageable memory, zeroed: for devices to which all host memory is alike.
    pub fn pageable(bytes: usize) -> error::Result<Self> {
        Ok(Self { bytes, memory: Arc::new(RwLock::new(AlignedBuffer::zeroed(bytes)?)) })
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes, to be read while nobody writes them.
    pub fn read(&self) -> Result<PinnedRead<'_>, Fault> {
        self.memory.try_read().map(PinnedRead).map_err(|_| in_use("read", "written"))
    }

    /// The bytes, to be written while nobody else uses them.
    pub fn write(&self) -> Result<PinnedWrite<'_>, Fault> {
        self.memory.try_write().map(PinnedWrite).map_err(|_| in_use("written", "used"))
    }
}

fn in_use(wanted: &str, other: &str) -> Fault {
    Fault::new(
        FaultKind::Misuse,
        format!("pinned memory is {wanted} while it is {other} elsewhere: the graph lacks an edge"),
    )
}

/// Pinned bytes that nobody writes meanwhile.
pub struct PinnedRead<'a>(RwLockReadGuard<'a, AlignedBuffer<u8>>);

impl Deref for PinnedRead<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Pinned bytes that nobody else uses meanwhile.
pub struct PinnedWrite<'a>(RwLockWriteGuard<'a, AlignedBuffer<u8>>);

impl Deref for PinnedWrite<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for PinnedWrite<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let pinned = Pinned::pageable(16).unwrap();
        pinned.write().unwrap()[3] = 7;
        let first = pinned.read().unwrap();
        assert_eq!((first[3], pinned.read().unwrap()[3]), (7, 7));
        assert_eq!(pinned.write().err().unwrap().kind, FaultKind::Misuse);
        drop(first);
        let _writer = pinned.write().unwrap();
        assert!(pinned.read().is_err());
    }
}
