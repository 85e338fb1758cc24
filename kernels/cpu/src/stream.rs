//! Copies that bypass the caches.

#![allow(unsafe_code)] // SIMD leaf

use crate::isa::Isa;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// A copy with non-temporal stores where the processor has them.
#[derive(Clone, Copy)]
pub struct StreamCopy {
    /// Copies whole cache lines to memory that begins at one.
    copy: unsafe fn(&[u8], &mut [u8]),
}

impl StreamCopy {
    /// The copy for this processor.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        match Isa::detect() {
            Isa::Avx512 => return Self { copy: avx512 },
            Isa::Avx2 => return Self { copy: avx2 },
            Isa::Portable => {}
        }
        let plain: fn(&[u8], &mut [u8]) = |from, to| to.copy_from_slice(from);
        Self { copy: plain }
    }

    /// Copies `from` to `to`, which has the same length. [`crate::fence_streams`] makes the copy visible to other threads.
    pub fn copy(self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        if !(to.as_ptr() as usize).is_multiple_of(LINE_BYTES) {
            return to.copy_from_slice(from);
        }
        let whole = from.len() / LINE_BYTES * LINE_BYTES;
        let ((from, from_tail), (to, to_tail)) = (from.split_at(whole), to.split_at_mut(whole));
        to_tail.copy_from_slice(from_tail);
        // SAFETY: the processor has the instruction set; both have whole lines, and `to` begins at one.
        unsafe { (self.copy)(from, to) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_stream_si512};
    for at in (0..to.len()).step_by(LINE_BYTES) {
        // SAFETY: a line of both is there, as the caller ensures.
        unsafe {
            let line = _mm512_loadu_si512(from.as_ptr().add(at).cast());
            _mm512_stream_si512(to.as_mut_ptr().add(at).cast::<__m512i>(), line);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    for at in (0..to.len()).step_by(LINE_BYTES / 2) {
        // SAFETY: as above, for half a line.
        unsafe {
            let half = _mm256_loadu_si256(from.as_ptr().add(at).cast());
            _mm256_stream_si256(to.as_mut_ptr().add(at).cast::<__m256i>(), half);
        }
    }
}
