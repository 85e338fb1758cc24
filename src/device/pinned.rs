//! Host memory that devices copy from and to, shared by the host's jobs and a device's lanes.
//!
//! The graph keeps users apart; should it fail to, the second one is told instead of seeing half-written bytes.

#![allow(unsafe_code)] // pinned memory: a device's copies use it for longer than any borrow lasts

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Fault, FaultKind};
use crate::error;
use crate::matrix::AlignedBuffer;

/// Bytes of the host that stay where they are for as long as their owner lives.
pub trait HostBytes: Send + Sync {
    /// The first of them; the owner itself does not touch them any more.
    fn address(&mut self) -> NonNull<u8>;

    /// How many there are.
    fn bytes(&self) -> usize;

    /// Whether they may be written.
    fn writable(&self) -> bool {
        true
    }
}

impl HostBytes for AlignedBuffer<u8> {
    fn address(&mut self) -> NonNull<u8> {
        NonNull::from(&mut **self).cast()
    }

    fn bytes(&self) -> usize {
        self.len()
    }
}

/// A buffer in the host's memory. Clones are the same buffer.
#[derive(Clone)]
pub struct Pinned {
    shared: Arc<Shared>,
}

/// How long whoever takes memory back sleeps before looking again; hardly ever, as copies have ended by then.
const REVOKE_POLL_INTERVAL: Duration = Duration::from_micros(100);

const WRITE_LOCKED: isize = -1;
const REVOKED: isize = -2;

struct Shared {
    address: NonNull<u8>,
    bytes: usize,
    writable: bool,
    /// How many read the bytes; [`WRITE_LOCKED`] while somebody writes them, [`REVOKED`] when nobody may any more.
    users: AtomicIsize,
    /// Frees the bytes when it is dropped.
    _owner: Box<dyn HostBytes>,
}

// SAFETY: the bytes are reached only by those whom `users` admits, and the owner may be dropped by any thread.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Pinned {
    /// Pageable memory, zeroed: for devices to which all host memory is alike.
    pub fn pageable(bytes: usize) -> error::Result<Self> {
        // SAFETY: an aligned buffer owns its bytes, which do not move with it.
        Ok(unsafe { Self::new(Box::new(AlignedBuffer::zeroed(bytes)?)) })
    }

    /// The bytes of `owner`, initialised.
    ///
    /// # Safety
    /// From `address` on lie as many initialised bytes as `bytes` says, for as long as the owner lives and wherever it
    /// is moved to, and nobody else touches them.
    pub(crate) unsafe fn new(mut owner: Box<dyn HostBytes>) -> Self {
        let (address, bytes, writable) = (owner.address(), owner.bytes(), owner.writable());
        let users = AtomicIsize::new(0);
        Self { shared: Arc::new(Shared { address, bytes, writable, users, _owner: owner }) }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.shared.bytes
    }

    /// The bytes, to be read while nobody writes them.
    pub fn read(&self) -> Result<PinnedRead, Fault> {
        let admitted = |users: isize| (users >= 0).then(|| users + 1);
        let taken = self.shared.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, admitted);
        taken.map(|_| PinnedRead(self.clone())).map_err(|_| in_use("read", "written"))
    }

    /// The bytes, to be written while nobody else uses them.
    pub fn write(&self) -> Result<PinnedWrite, Fault> {
        if !self.shared.writable {
            return Err(Fault::new(FaultKind::Misuse, "memory that was lent to be read is to be written"));
        }
        let taken = self.shared.users.compare_exchange(0, WRITE_LOCKED, Ordering::Acquire, Ordering::Relaxed);
        taken.map(|_| PinnedWrite(self.clone())).map_err(|_| in_use("written", "used"))
    }
}

impl Pinned {
    /// Admits nobody any more once those who use the bytes are done.
    pub(super) fn revoke(&self) {
        let users = &self.shared.users;
        while users.compare_exchange(0, REVOKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            thread::sleep(REVOKE_POLL_INTERVAL);
        }
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes)", self.bytes())
    }
}

fn in_use(wanted: &str, other: &str) -> Fault {
    Fault::new(
        FaultKind::Misuse,
        format!("pinned memory is {wanted} while it is {other} elsewhere: the graph lacks an edge"),
    )
}

/// Pinned bytes that nobody writes meanwhile.
pub struct PinnedRead(Pinned);

impl Deref for PinnedRead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let shared = &self.0.shared;
        // SAFETY: the bytes are there (`Pinned::new`), and whoever would write them is not admitted before the drop.
        unsafe { slice::from_raw_parts(shared.address.as_ptr(), shared.bytes) }
    }
}

impl Drop for PinnedRead {
    fn drop(&mut self) {
        self.0.shared.users.fetch_sub(1, Ordering::Release);
    }
}

/// Pinned bytes that nobody else uses meanwhile.
pub struct PinnedWrite(Pinned);

impl Deref for PinnedWrite {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let shared = &self.0.shared;
        // SAFETY: the bytes are there (`Pinned::new`), and nobody else is admitted before the drop.
        unsafe { slice::from_raw_parts(shared.address.as_ptr(), shared.bytes) }
    }
}

impl DerefMut for PinnedWrite {
    fn deref_mut(&mut self) -> &mut [u8] {
        let shared = &self.0.shared;
        // SAFETY: the same.
        unsafe { slice::from_raw_parts_mut(shared.address.as_ptr(), shared.bytes) }
    }
}

impl Drop for PinnedWrite {
    fn drop(&mut self) {
        self.0.shared.users.store(0, Ordering::Release);
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
        let writer = pinned.write().unwrap();
        assert!(pinned.read().is_err() && pinned.write().is_err());
        drop(writer);
        assert!(pinned.write().is_ok());
    }

    #[test]
    fn who_uses_the_bytes_keeps_them() {
        let pinned = Pinned::pageable(1 << 21).unwrap();
        pinned.write().unwrap().fill(5);
        let reader = pinned.read().unwrap();
        drop(pinned);
        let sum = std::thread::spawn(move || reader.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        assert_eq!(sum.join().unwrap(), 5 << 21);
    }

    #[test]
    fn no_bytes_are_bytes_too() {
        let pinned = Pinned::pageable(0).unwrap();
        assert!(pinned.write().unwrap().is_empty());
        assert!(pinned.read().unwrap().is_empty());
    }
}
