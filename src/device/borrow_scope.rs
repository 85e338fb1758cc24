//! Borrow scopes: host memory of the caller (A, X and Y in place) that devices may use until the scope ends.
//!
//! A device holds [`Pinned`] memory for the duration of a copy, which may outlast the caller's borrow. Every borrow is
//! therefore revoked before it ends: when a [`borrow_scope`] is left, new accesses are refused and current ones are
//! waited for.

#![allow(unsafe_code)] // pinned memory: borrowed bytes that device copies use

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::pinned::{HostBytes, Pinned};

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

    /// The same registration without the borrow, for memory that is written while it is registered. The holder must drop
    /// it before the memory is freed. If it is dropped later, the driver refuses to unlock memory that no longer exists.
    pub fn detached(self) -> Registration<'static> {
        Registration { _lock: self._lock, borrowed: PhantomData }
    }

    /// An empty registration, for devices that do not distinguish pageable from page-locked memory.
    pub fn nothing() -> Self {
        Self { _lock: None, borrowed: PhantomData }
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
            self.0.pinned.get_mut().drain(..).for_each(|pinned| pinned.revoke());
        }
    }
    let scope = RevokeOnDrop(BorrowScope { pinned: RefCell::default(), env: PhantomData });
    with(&scope.0)
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
