#![allow(unsafe_code)] // The emulator's bridge: kernels compiled from C++ hold plain pointers into this memory.
//! Memory of an emulated device: bytes, and for each byte whether it was written.
//!
//! Only the device's operations access it, and the race detector prevents conflicting accesses at the same time. Unwritten
//! bytes are 0xff, which reads as NaN in both precisions.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

use super::peer::Accesses;
use crate::device::ForeignMemory;

/// Alignment of allocations, as in CUDA.
const ALIGNMENT: usize = 256;

/// Value of unwritten bytes.
const UNWRITTEN: u8 = 0xff;

/// One allocation.
pub struct Allocation {
    start: NonNull<u8>,
    bytes: usize,
    /// One bit per byte.
    written: Box<[AtomicU8]>,
    accesses: Accesses,
    /// Whether another library has allocated it.
    is_foreign: bool,
}

// SAFETY: the bytes are owned, and callers guarantee that no write conflicts with another access.
unsafe impl Send for Allocation {}
// SAFETY: as above; the bits are atomic.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Unwritten memory; `None` if the host has not enough.
    pub fn new(bytes: usize) -> Option<Self> {
        let mut written = Vec::new();
        written.try_reserve_exact(bytes.div_ceil(8)).ok()?;
        written.resize_with(bytes.div_ceil(8), || AtomicU8::new(0));
        // SAFETY: the size is not zero, and the memory is initialised at once.
        let start = unsafe {
            let start = NonNull::new(alloc(Self::layout(bytes)?))?;
            start.write_bytes(UNWRITTEN, bytes.max(1));
            start
        };
        let (written, accesses) = (written.into_boxed_slice(), Accesses::default());
        Some(Self { start, bytes, written, accesses, is_foreign: false })
    }

    /// Memory of another library, all of it written; `None` if it has no address.
    pub fn foreign(memory: &ForeignMemory) -> Option<Self> {
        let bytes = usize::try_from(memory.bytes()).ok()?;
        let start = NonNull::new(ptr::with_exposed_provenance_mut(usize::try_from(memory.address()).ok()?))?;
        let mut written = Vec::new();
        written.try_reserve_exact(bytes.div_ceil(8)).ok()?;
        written.resize_with(bytes.div_ceil(8), || AtomicU8::new(u8::MAX));
        let (written, accesses) = (written.into_boxed_slice(), Accesses::default());
        Some(Self { start, bytes, written, accesses, is_foreign: true })
    }

    /// Whether another library has allocated it.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The accesses in flight, for copies between devices.
    pub fn accesses(&self) -> &Accesses {
        &self.accesses
    }

    /// Its address in the host's address space.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// One bit per byte, set if the byte was written.
    pub fn written_bits(&self) -> &[AtomicU8] {
        &self.written
    }

    /// The first unwritten byte of the range.
    pub fn first_unwritten(&self, range: Range<usize>) -> Option<usize> {
        let mut at = range.start;
        while at < range.end {
            let bits = self.written[at / 8].load(Ordering::Relaxed);
            if at.is_multiple_of(8) && bits == u8::MAX {
                at += 8;
            } else if bits & (1 << (at % 8)) != 0 {
                at += 1;
            } else {
                return Some(at);
            }
        }
        None
    }

    /// Marks the range as written or unwritten.
    pub fn mark(&self, range: Range<usize>, written: bool) {
        let mut at = range.start;
        while at < range.end {
            let byte = &self.written[at / 8];
            let end = range.end.min((at / 8 + 1) * 8);
            // Eight whole bytes have a bit byte of their own; fewer share it with a neighbouring range.
            match (bit_mask(at, end - at), written) {
                (u8::MAX, true) => byte.store(u8::MAX, Ordering::Relaxed),
                (u8::MAX, false) => byte.store(0, Ordering::Relaxed),
                (mask, true) => _ = byte.fetch_or(mask, Ordering::Relaxed),
                (mask, false) => _ = byte.fetch_and(!mask, Ordering::Relaxed),
            }
            at = end;
        }
    }

    /// Makes the range unwritten.
    ///
    /// # Safety
    /// The range is inside, and no other code accesses its bytes during the call.
    pub unsafe fn forget(&self, range: Range<usize>) {
        self.mark(range.clone(), false);
        // SAFETY: inside, and no other code accesses it.
        unsafe { self.start.add(range.start).write_bytes(UNWRITTEN, range.len()) };
    }

    /// Copies `from` to the bytes from `begin`.
    ///
    /// # Safety
    /// The bytes are inside, and no other code accesses them during the call.
    pub unsafe fn write(&self, begin: usize, from: &[u8]) {
        // SAFETY: inside, and no other code accesses it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(begin), from.len()) };
        self.mark(begin..begin + from.len(), true);
    }

    /// Copies the bytes from `begin` to `to`.
    ///
    /// # Safety
    /// The bytes are inside, and no other code writes them during the call.
    pub unsafe fn read(&self, begin: usize, to: &mut [u8]) {
        // SAFETY: inside, and not written by other code.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(begin), to.as_mut_ptr(), to.len()) };
    }

    /// Copies `range` of `from` to the bytes from `begin`, including whether each byte was written.
    ///
    /// # Safety
    /// Both ranges are inside. During the call no other code accesses that of `self` or writes that of `from`.
    pub unsafe fn copy_from(&self, begin: usize, from: &Self, range: Range<usize>) {
        // SAFETY: two different allocations, both ranges inside.
        unsafe {
            let source = from.start.as_ptr().add(range.start);
            ptr::copy_nonoverlapping(source, self.start.as_ptr().add(begin), range.len());
        }
        let mut at = range.start;
        while at < range.end {
            let unwritten = from.first_unwritten(at..range.end).unwrap_or(range.end);
            self.mark(begin + at - range.start..begin + unwritten - range.start, true);
            let mut end = unwritten;
            while end < range.end && from.first_unwritten(end..end + 1).is_some() {
                end += 1;
            }
            self.mark(begin + unwritten - range.start..begin + end - range.start, false);
            at = end;
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        if let Some(layout) = Self::layout(self.bytes) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// The bit mask of `bytes` bytes from `at`, which must be within one group of eight.
pub fn bit_mask(at: usize, bytes: usize) -> u8 {
    (((1u16 << bytes) - 1) << (at % 8)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_unwritten_until_they_are_written() {
        let memory = Allocation::new(100).unwrap();
        assert_eq!(memory.first_unwritten(0..100), Some(0));
        // SAFETY: inside, and only this thread uses it.
        unsafe { memory.write(3, &[7; 30]) };
        assert_eq!(memory.first_unwritten(3..33), None);
        assert_eq!((memory.first_unwritten(2..10), memory.first_unwritten(10..34)), (Some(2), Some(33)));
        // SAFETY: as above.
        unsafe { memory.forget(10..11) };
        assert_eq!(memory.first_unwritten(3..33), Some(10));
        let mut bytes = [0; 9];
        // SAFETY: as above.
        unsafe { memory.read(2, &mut bytes) };
        assert_eq!(bytes, [0xff, 7, 7, 7, 7, 7, 7, 7, 0xff]);
    }

    #[test]
    fn a_copy_keeps_unwritten_bytes_unwritten() {
        let (from, to) = (Allocation::new(64).unwrap(), Allocation::new(64).unwrap());
        // SAFETY: inside, and only this thread uses it.
        unsafe {
            from.write(5, &[1; 20]);
            from.write(30, &[2; 9]);
            to.write(0, &[9; 64]);
            to.copy_from(1, &from, 3..40);
        }
        let expected = |at: usize| match at {
            1..38 => from.first_unwritten(at + 2..at + 3).is_none(),
            _ => true,
        };
        for at in 0..64 {
            assert_eq!(to.first_unwritten(at..at + 1).is_none(), expected(at), "{at}");
        }
    }
}
