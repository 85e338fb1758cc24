//! Borrow scopes: host memory of the caller (A, X and Y in place) that devices may use until the scope ends.
//!
//! A device holds [`Pinned`] memory for the duration of a copy, which may outlast the caller's borrow. Every borrow is
//! therefore revoked before it ends: when a [`borrow_scope`] is left, new accesses are refused and current ones are
//! waited for.
//!
//! A device that never answers never releases the memory. To return would let the device read or write memory that is
//! the caller's again, or that is freed. The process ends instead, with the exit code of a device fault.

#![allow(unsafe_code)] // pinned memory: borrowed bytes that device copies use

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::pinned::{HostBytes, Pinned};
use crate::error::Error;

/// How long the end of a scope waits for the accesses of devices.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// Host memory that a device has page-locked in place. Dropping it unlocks the memory.
pub struct Registration<'a> {
    _lock: Option<Box<dyn Send + Sync>>,
    borrowed: PhantomData<&'a [u8]>,
}

impl Registration<'_> {
    /// A registration that unlocks by dropping `lock`.
    pub fn new(lock: Box<dyn Send + Sync>) -> Self {
        Self { _lock: Some(lock), borrowed: PhantomData }
    }

    /// An empty registration, for devices that do not distinguish pageable from page-locked memory.
    pub fn nothing() -> Self {
        Self { _lock: None, borrowed: PhantomData }
    }
}

/// Host memory that is not freed while it is registered, which lasts `'a` at most.
///
/// The driver knows registered memory by its address. If it is freed while it is registered, the driver takes other memory at the
/// same address for the registered one, and copies read the wrong bytes. A borrow does not exclude that, because a registration
/// could be leaked and the memory freed then. Only the runtime makes such bytes, and it keeps the memory:
///
/// ```compile_fail
/// use rowloom::internal::device::StableBytes;
///
/// let bytes = vec![0u8; 4096];
/// let stable = unsafe { StableBytes::new(&bytes) }; // private
/// ```
#[derive(Debug, Clone, Copy)]
pub struct StableBytes<'a> {
    address: NonNull<u8>,
    bytes: usize,
    kept: PhantomData<&'a [u8]>,
}

impl StableBytes<'_> {
    /// # Safety
    /// The memory is not freed before every registration of it is dropped; a registration that is leaked is never dropped.
    pub(crate) unsafe fn new(bytes: &[u8]) -> Self {
        Self { address: NonNull::from(bytes).cast(), bytes: bytes.len(), kept: PhantomData }
    }

    /// All bytes of both, if they overlap or one begins where the other ends. Neither is freed while they are registered.
    pub(crate) fn joined(self, other: Self) -> Option<Self> {
        let (first, second) = if self.address <= other.address { (self, other) } else { (other, self) };
        let gap = second.address.as_ptr() as usize - first.address.as_ptr() as usize;
        (gap <= first.bytes).then(|| Self { bytes: first.bytes.max(gap + second.bytes), ..first })
    }

    /// Address of the first byte.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl From<&'static [u8]> for StableBytes<'static> {
    /// Memory that is never freed.
    fn from(bytes: &'static [u8]) -> Self {
        // SAFETY: it lives as long as the program.
        unsafe { Self::new(bytes) }
    }
}

/// A scope in which devices may use borrowed memory. `'env` outlives the scope.
pub struct BorrowScope<'env> {
    pinned: RefCell<Vec<Pinned>>,
    /// Invariant in `'env`: borrowed memory must live until the scope is left.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> BorrowScope<'env> {
    /// Borrows bytes for reading. Write accesses are refused.
    pub fn read_only(&self, bytes: &'env [u8]) -> Pinned {
        let owner =
            BorrowedBytes { address: NonNull::from(bytes).cast(), bytes: bytes.len(), writable: false };
        self.borrow(owner)
    }

    /// Borrows bytes for reading and writing.
    pub fn writable(&self, bytes: &'env mut [u8]) -> Pinned {
        let owner =
            BorrowedBytes { address: NonNull::from(&mut *bytes).cast(), bytes: bytes.len(), writable: true };
        self.borrow(owner)
    }

    /// Ends the process if a device still accesses memory of the scope. Called for a device that hangs and was closed, which
    /// is the cause `hang`: there is no reason to wait for it.
    pub fn end_process_if_in_use(&self, hang: &Error) {
        if self.pinned.borrow().iter().any(Pinned::is_in_use) {
            end_process(hang);
        }
    }

    fn borrow(&self, owner: BorrowedBytes) -> Pinned {
        // SAFETY: the bytes are borrowed for `'env`: shared if read-only, exclusive if writable. `borrow_scope` revokes
        // the memory before `'env` can end.
        let pinned = unsafe { Pinned::new(Box::new(owner)) };
        self.pinned.borrow_mut().push(pinned.clone());
        pinned
    }
}

/// Runs `with`, then revokes every borrow made in the scope, also if `with` panics.
pub fn borrow_scope<'env, R>(with: impl FnOnce(&BorrowScope<'env>) -> R) -> R {
    struct RevokeOnDrop<'env>(BorrowScope<'env>);
    impl Drop for RevokeOnDrop<'_> {
        fn drop(&mut self) {
            for pinned in self.0.pinned.get_mut().drain(..) {
                if !pinned.revoke(RELEASE_TIMEOUT) {
                    let reason = format!("an operation did not end within {} s", RELEASE_TIMEOUT.as_secs());
                    end_process(&Error::device("?", reason));
                }
            }
        }
    }
    let scope = RevokeOnDrop(BorrowScope { pinned: RefCell::default(), env: PhantomData });
    with(&scope.0)
}

/// Ends the process because of a device that hangs with memory of the caller.
fn end_process(hang: &Error) -> ! {
    eprintln!("error: {hang}; the device still uses A, X or Y in place, so the process ends");
    // Without exit handlers: that of the CUDA driver would wait for the device.
    // SAFETY: the call ends the process and has no other requirement.
    unsafe { libc::_exit(i32::from(hang.exit_code())) }
}

/// The borrowed bytes. The caller owns and frees them.
struct BorrowedBytes {
    address: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: this is an address; `Pinned` controls access to the bytes behind it.
unsafe impl Send for BorrowedBytes {}
// SAFETY: the same.
unsafe impl Sync for BorrowedBytes {}

impl HostBytes for BorrowedBytes {
    fn address(&mut self) -> NonNull<u8> {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn writable(&self) -> bool {
        self.writable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::FaultKind;

    #[test]
    fn memory_borrowed_read_only_cannot_be_written() {
        let bytes = [1u8, 2, 3];
        borrow_scope(|scope| {
            let pinned = scope.read_only(&bytes);
            assert_eq!(&*pinned.read().unwrap(), &[1, 2, 3]);
            assert_eq!(pinned.write().err().unwrap().kind, FaultKind::Misuse);
        });
    }

    #[test]
    fn writes_persist_after_the_scope_and_later_accesses_are_refused() {
        let mut bytes = [0u8; 4];
        let kept = borrow_scope(|scope| {
            let pinned = scope.writable(&mut bytes);
            pinned.write().unwrap()[2] = 9;
            pinned
        });
        assert_eq!(bytes, [0, 0, 9, 0]);
        assert!(kept.read().is_err() && kept.write().is_err());
    }

    #[test]
    fn leaving_the_scope_waits_for_current_accesses() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static DONE: AtomicBool = AtomicBool::new(false);
        let mut bytes = vec![0u8; 1 << 10];
        borrow_scope(|scope| {
            let mut writer = scope.writable(&mut bytes).write().unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(30));
                writer.fill(7);
                DONE.store(true, Ordering::SeqCst);
            });
        });
        assert!(DONE.load(Ordering::SeqCst));
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
