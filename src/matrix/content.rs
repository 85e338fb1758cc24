//! The identity of the content of a matrix, for copies of it that products share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies the arrays of one matrix. No two matrices of a process have the same number, at any time: memory that is freed and used
/// again for another matrix has the same address and another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentId(u64);

impl ContentId {
    /// A number that no other matrix has.
    pub(super) fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
