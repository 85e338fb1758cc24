//! Pinned host memory, shared by host jobs and device lanes.
//!
//! The graph orders accesses. A reader-writer count checks that at run time: a conflicting access returns a fault
//! instead of half-written bytes.

#![allow(unsafe_code)] // pinned memory: device copies use it for longer than any borrow lasts

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::sync::atomic::{AtomicIsize, Ordering};
use super::sync::{Instant, sleep, spin_loop};
use super::{Fault, FaultKind};
use crate::error;
use crate::matrix::AlignedBuffer;

/// Host bytes at a fixed address for as long as their owner lives.
pub trait HostBytes: Send + Sync {
    /// Address of the first byte. After this call the owner must not access the bytes itself.
    fn address(&mut self) -> NonNull<u8>;

    /// Number of bytes.
    fn bytes(&self) -> usize;

    /// Whether the bytes may be written.
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

/// A buffer in host memory. Clones refer to the same buffer.
#[derive(Clone)]
pub struct Pinned {
    shared: Arc<Shared>,
}

/// How long `revoke` waits for the end of current accesses without sleeping. Most copies have completed by then.
const REVOKE_SPIN_TIME: Duration = Duration::from_micros(200);
/// How often it polls afterwards.
const REVOKE_POLL_INTERVAL: Duration = Duration::from_micros(100);

const WRITE_LOCKED: isize = -1;
const REVOKED: isize = -2;

struct Shared {
    address: NonNull<u8>,
    bytes: usize,
    writable: bool,
    /// Number of readers, or [`WRITE_LOCKED`] during a write, or [`REVOKED`] after the borrow scope ended.
    users: AtomicIsize,
    /// Frees the bytes when it is dropped.
    _owner: Box<dyn HostBytes>,
}

// SAFETY: `users` controls every access to the bytes, and any thread may drop the owner.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Pinned {
    /// Zeroed pageable memory, for devices that do not distinguish it from page-locked memory.
    pub fn pageable(bytes: usize) -> error::Result<Self> {
        Ok(Self::of_buffer(AlignedBuffer::zeroed(bytes)?))
    }

    /// The same of memory that is written already.
    pub fn of_buffer(buffer: AlignedBuffer<u8>) -> Self {
        // SAFETY: an aligned buffer owns its bytes, which do not move with it.
        unsafe { Self::new(Box::new(buffer)) }
    }

    /// A buffer over the bytes of `owner`.
    ///
    /// # Safety
    /// `owner.address()` points to `owner.bytes()` initialised bytes. They stay valid and in place while the owner lives,
    /// also when the owner moves, and no other code accesses them.
    pub(crate) unsafe fn new(mut owner: Box<dyn HostBytes>) -> Self {
        let (address, bytes, writable) = (owner.address(), owner.bytes(), owner.writable());
        let users = AtomicIsize::new(0);
        Self { shared: Arc::new(Shared { address, bytes, writable, users, _owner: owner }) }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.shared.bytes
    }

    /// The address of the first byte, for comparison with others.
    pub(super) fn address(&self) -> usize {
        self.shared.address.as_ptr() as usize
    }

    /// Starts a read access. Returns a fault if a write access is active or the borrow was revoked.
    pub fn read(&self) -> Result<PinnedRead, Fault> {
        let admitted = |users: isize| (users >= 0).then(|| users + 1);
        let taken = self.shared.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, admitted);
        taken.map(|_| PinnedRead(self.clone())).map_err(|_| in_use("read", "writes"))
    }

    /// Starts a write access. Returns a fault if any access is active or the memory is read-only.
    pub fn write(&self) -> Result<PinnedWrite, Fault> {
        if !self.shared.writable {
            return Err(Fault::new(
                FaultKind::Misuse,
                "an operation writes memory that was borrowed read-only",
            ));
        }
        let taken = self.shared.users.compare_exchange(0, WRITE_LOCKED, Ordering::Acquire, Ordering::Relaxed);
        taken.map(|_| PinnedWrite(self.clone())).map_err(|_| in_use("written", "uses"))
    }
}

impl Pinned {
    /// Waits for the current accesses to end and refuses all later ones. Returns `false` if an access has not ended after
    /// `timeout`.
    #[must_use]
    pub(super) fn revoke(&self, timeout: Duration) -> bool {
        let users = &self.shared.users;
        let begin = Instant::now();
        while users.compare_exchange(0, REVOKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // A device reports the end of a copy a moment before it releases the memory.
            match begin.elapsed() {
                elapsed if elapsed < REVOKE_SPIN_TIME => spin_loop(),
                elapsed if elapsed < timeout => sleep(REVOKE_POLL_INTERVAL),
                _ => return false,
            }
        }
        true
    }

    /// Whether an operation accesses the memory.
    pub(super) fn is_in_use(&self) -> bool {
        !matches!(self.shared.users.load(Ordering::Acquire), 0 | REVOKED)
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
        format!("pinned memory is {wanted} while another operation {other} it: the graph lacks an edge"),
    )
}

/// A read access to pinned bytes. No write access exists at the same time.
pub struct PinnedRead(Pinned);

impl Deref for PinnedRead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let shared = &self.0.shared;
        // SAFETY: the bytes are valid (`Pinned::new`), and write accesses are refused until the drop.
        unsafe { slice::from_raw_parts(shared.address.as_ptr(), shared.bytes) }
    }
}

impl Drop for PinnedRead {
    fn drop(&mut self) {
        self.0.shared.users.fetch_sub(1, Ordering::Release);
    }
}

/// A write access to pinned bytes. No other access exists at the same time.
pub struct PinnedWrite(Pinned);

impl Deref for PinnedWrite {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let shared = &self.0.shared;
        // SAFETY: the bytes are valid (`Pinned::new`), and other accesses are refused until the drop.
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
