#![allow(unsafe_code)] // The emulator's bridge: kernels compiled from C++ hold plain pointers into this memory.
//! Memory of an emulated device: bytes, and for each of them whether anybody has written it.
//!
//! Nothing but the device's own operations reaches it, and the race_detector lets no two of them run side by side that touch
//! the same bytes, one writing. Bytes that nobody has written are all ones, which reads as NaN in both precisions.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

/// What allocations start at a multiple of, as CUDA's do.
const ALIGNMENT: usize = 256;

/// What a byte holds that nobody has written.
const UNWRITTEN: u8 = 0xff;

/// One piece of memory.
pub struct Allocation {
    start: NonNull<u8>,
    bytes: usize,
    /// One bit a byte.
    written: Box<[AtomicU8]>,
}

// SAFETY: the bytes are owned, and whoever touches them promises not to do so beside a writer.
unsafe impl Send for Allocation {}
// SAFETY: as above; the bits are atomic.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Memory that nobody has written, or nothing where the host has not that much.
    pub fn new(bytes: usize) -> Option<Self> {
        let mut written = Vec::new();
        written.try_reserve_exact(bytes.div_ceil(8)).ok()?;
        written.resize_with(bytes.div_ceil(8), || AtomicU8::new(0));
        // SAFETY: the size is not zero, and it is filled at once.
        let start = unsafe {
            let start = NonNull::new(alloc(Self::layout(bytes)?))?;
            start.write_bytes(UNWRITTEN, bytes.max(1));
            start
        };
        Some(Self { start, bytes, written: written.into_boxed_slice() })
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it starts in the host's address space.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// One bit a byte, set where it was written.
    pub fn written_bits(&self) -> &[AtomicU8] {
        &self.written
    }

    /// The first byte of the range that nobody has written.
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

    /// Says that the range was written, or that it is unwritten again.
    pub fn mark(&self, range: Range<usize>, written: bool) {
        let mut at = range.start;
        while at < range.end {
            let byte = &self.written[at / 8];
            let end = range.end.min((at / 8 + 1) * 8);
            // Eight bytes of the range are nobody else's; fewer share their bits with a neighbour.
            match (bit_mask(at, end - at), written) {
                (u8::MAX, true) => byte.store(u8::MAX, Ordering::Relaxed),
                (u8::MAX, false) => byte.store(0, Ordering::Relaxed),
                (mask, true) => _ = byte.fetch_or(mask, Ordering::Relaxed),
                (mask, false) => _ = byte.fetch_and(!mask, Ordering::Relaxed),
            }
            at = end;
        }
    }

    /// Makes the range unwritten again.
    ///
    /// # Safety
    /// The range lies inside, and nobody else uses its bytes meanwhile.
    pub unsafe fn forget(&self, range: Range<usize>) {
        self.mark(range.clone(), false);
        // SAFETY: inside, and ours alone.
        unsafe { self.start.add(range.start).write_bytes(UNWRITTEN, range.len()) };
    }

    /// Copies `from` to `begin` and on.
    ///
    /// # Safety
    /// As much lies inside, and nobody else uses those bytes meanwhile.
    pub unsafe fn write(&self, begin: usize, from: &[u8]) {
        // SAFETY: inside, and ours alone.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(begin), from.len()) };
        self.mark(begin..begin + from.len(), true);
    }

    /// Copies from `begin` and on to `to`.
    ///
    /// # Safety
    /// As much lies inside, and nobody writes those bytes meanwhile.
    pub unsafe fn read(&self, begin: usize, to: &mut [u8]) {
        // SAFETY: inside, and nobody writes them.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(begin), to.as_mut_ptr(), to.len()) };
    }

    /// Copies `range` of `from` to `begin` and on, with what is known of each byte.
    ///
    /// # Safety
    /// Both lie inside, nobody else uses those of `self` and nobody writes those of `from` meanwhile.
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
        if let Some(layout) = Self::layout(self.bytes) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// The bits of `bytes` bytes from `at` on, which end within the same eight.
pub fn bit_mask(at: usize, bytes: usize) -> u8 {
    (((1u16 << bytes) - 1) << (at % 8)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_unwritten_until_somebody_writes_them() {
        let memory = Allocation::new(100).unwrap();
        assert_eq!(memory.first_unwritten(0..100), Some(0));
        // SAFETY: inside, and nobody else is here.
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
    fn a_copy_carries_what_is_unwritten() {
        let (from, to) = (Allocation::new(64).unwrap(), Allocation::new(64).unwrap());
        // SAFETY: inside, and nobody else is here.
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
