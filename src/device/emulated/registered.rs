//! Page-locked ranges of host memory, which all emulated devices of the process share, as all contexts of a card's driver do.
//!
//! The rules are those that driver 580 was measured to have. Two registered ranges may share a page, but no byte. A copy whose host
//! bytes begin in a registered range must end in the same one, even if the next range is registered too.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::page_locks::PageLocks;
use crate::device::{Fault, FaultKind, HostTransfer, StableBytes};

/// The registered ranges.
static RANGES: Mutex<PageLocks<()>> = Mutex::new(PageLocks::new());

fn ranges() -> MutexGuard<'static, PageLocks<()>> {
    RANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registration, which its device counts until it is dropped.
pub struct Registered {
    bytes: Range<usize>,
    count: Arc<AtomicUsize>,
}

impl Registered {
    /// Registers bytes; a fault if another registration has a part of them only.
    pub fn lock(bytes: &StableBytes<'_>, count: &Arc<AtomicUsize>) -> Result<Self, Fault> {
        let begin = bytes.address().as_ptr() as usize;
        let wanted = begin..begin + bytes.bytes();
        let mut ranges = ranges();
        if !wanted.is_empty() && !ranges.share(&wanted) {
            if ranges.overlaps(&wanted) {
                let bytes = bytes.bytes();
                return Err(Fault::new(
                    FaultKind::Copy,
                    format!("{bytes} bytes cannot be page-locked: a part of them is already registered"),
                ));
            }
            ranges.add(&wanted, ());
        }
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Self { bytes: wanted, count: count.clone() })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        ranges().remove(&self.bytes, |_, ()| {}, |_, ()| true);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the byte at an address is registered.
#[cfg(test)]
pub fn is_registered(address: usize) -> bool {
    ranges().range_at(address).is_some()
}

/// A fault if the host bytes of a copy begin in a registered range and end outside of it.
pub fn check_copy(transfer: &HostTransfer) -> Result<(), Fault> {
    let first = transfer.host.pinned.address() + transfer.host.begin as usize;
    let last = transfer.pieces().map(|(_, at, bytes)| (at + bytes) as usize).max().unwrap_or(0);
    match ranges().range_at(first) {
        Some(range) if first + last > range.end => Err(Fault::new(
            FaultKind::Copy,
            format!(
                "a copy of {last} host bytes, of which only the first {} are registered",
                range.end - first
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, MemoryRange, Pinned, PinnedRange, RowBytes};

    fn lock(bytes: &'static [u8], count: &Arc<AtomicUsize>) -> Result<Registered, Fault> {
        Registered::lock(&bytes.into(), count)
    }

    #[test]
    fn ranges_that_share_a_page_are_registered_and_those_that_share_bytes_are_refused() {
        let (all, count): (&'static [u8], _) = (Vec::leak(vec![0; 300]), Arc::default());
        let first = lock(&all[..100], &count).unwrap();
        let second = lock(&all[100..200], &count).unwrap();
        assert!(lock(&all[199..300], &count).is_err() && lock(&all[50..150], &count).is_err());
        assert!(lock(all, &count).is_err());
        // All bytes are registered already.
        drop(lock(&all[20..60], &count).unwrap());
        assert!(lock(&all[..120], &count).is_err());
        let same = lock(&all[..100], &count).unwrap();
        drop(first);
        assert!(is_registered(all.as_ptr() as usize), "another registration of the same bytes has not ended");
        drop(same);
        assert!(!is_registered(all.as_ptr() as usize));
        drop(lock(&all[..100], &count).unwrap());
        drop(second);
        drop(lock(all, &count).unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_copy_that_leaves_the_registered_range_it_begins_in_is_refused() {
        let pinned = Pinned::pageable(300).unwrap();
        let transfer = |begin: u64, end: u64| {
            let device = MemoryRange { memory: Memory(0), begin: 0, end: end - begin };
            let host = PinnedRange { pinned: pinned.clone(), begin, end };
            check_copy(&HostTransfer { host, device, rows: RowBytes::ALL })
        };
        transfer(0, 300).unwrap();
        let address = pinned.address();
        let registered = address + 100..address + 200;
        ranges().add(&registered, ());
        transfer(100, 200).unwrap();
        transfer(0, 150).unwrap();
        transfer(200, 300).unwrap();
        assert!(transfer(100, 201).is_err() && transfer(199, 210).is_err());
        ranges().remove(&registered, |_, ()| {}, |_, ()| true);
    }
}
