//! Host memory that its owner lends to devices for a while: A, X and Y where they lie.
//!
//! Devices keep [`Pinned`] memory for as long as a copy takes, whoever's borrow ends meanwhile. So what is lent is taken
//! back before the borrow ends: when a scope of [`borrow_scope`] is left, nobody is admitted any more, and those who were are
//! waited for.

#![allow(unsafe_code)] // pinned memory: borrowed bytes that a device's copies use

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::pinned::{HostBytes, Pinned};

/// Memory that a device has locked in its place.
pub struct Registration<'a> {
    _lock: Option<Box<dyn Send + Sync>>,
    borrowed: PhantomData<&'a [u8]>,
}

impl Registration<'_> {
    /// Unlocks by dropping `lock`.
    pub fn new(lock: Box<dyn Send + Sync>) -> Self {
        Self { _lock: Some(lock), borrowed: PhantomData }
    }

    /// The same without the borrow, for memory that is written meanwhile. Whoever holds it drops it before the memory is
    /// freed; later it unlocks what is no longer there, which devices refuse.
    pub fn detached(self) -> Registration<'static> {
        Registration { _lock: self._lock, borrowed: PhantomData }
    }

    /// For devices to which all host memory is alike.
    pub fn nothing() -> Self {
        Self { _lock: None, borrowed: PhantomData }
    }
}

/// A scope in which memory is lent; `'env` is what outlives it.
pub struct BorrowScope<'env> {
    pinned: RefCell<Vec<Pinned>>,
    /// Neither longer nor shorter: what is borrowed must live until the scope is left.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> BorrowScope<'env> {
    /// Bytes to be read. Writing them is refused.
    pub fn read_only(&self, bytes: &'env [u8]) -> Pinned {
        let owner =
            BorrowedBytes { address: NonNull::from(bytes).cast(), bytes: bytes.len(), writable: false };
        self.lend(owner)
    }

    /// Bytes to be read and written.
    pub fn writable(&self, bytes: &'env mut [u8]) -> Pinned {
        let owner =
            BorrowedBytes { address: NonNull::from(&mut *bytes).cast(), bytes: bytes.len(), writable: true };
        self.lend(owner)
    }

    fn lend(&self, owner: BorrowedBytes) -> Pinned {
        // SAFETY: the bytes are borrowed for `'env`, shared where nobody may write them and alone where somebody may, and
        // `borrow_scope` takes the memory back before `'env` can end.
        let pinned = unsafe { Pinned::new(Box::new(owner)) };
        self.pinned.borrow_mut().push(pinned.clone());
        pinned
    }
}

/// Runs `with` and then takes back whatever it lent, also where it panics.
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

/// The borrowed bytes themselves; whoever borrowed them frees them.
struct BorrowedBytes {
    address: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: an address; who may use what lies there is `Pinned`'s to say.
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
    fn what_is_lent_to_be_read_cannot_be_written() {
        let bytes = [1u8, 2, 3];
        borrow_scope(|scope| {
            let pinned = scope.read_only(&bytes);
            assert_eq!(&*pinned.read().unwrap(), &[1, 2, 3]);
            assert_eq!(pinned.write().err().unwrap().kind, FaultKind::Misuse);
        });
    }

    #[test]
    fn what_is_written_while_lent_is_there_afterwards_and_nobody_gets_in_then() {
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
    fn leaving_waits_for_those_who_are_in() {
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
