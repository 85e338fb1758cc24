//! Memory regions that a kernel may access: its arguments and shared variables.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::fault::{AccessKind, FaultCause};
use super::memory::{Allocation, bit_mask};

/// A range of bytes that a kernel may access.
pub struct Region<'a> {
    /// The name in the kernel's source.
    pub name: &'a str,
    memory: &'a Allocation,
    address: usize,
    bytes: usize,
    writable: bool,
}

impl<'a> Region<'a> {
    /// The region of `range`, which must be inside `memory`.
    pub fn new(name: &'a str, memory: &'a Allocation, range: Range<usize>, writable: bool) -> Self {
        Self { name, memory, address: memory.address() + range.start, bytes: range.len(), writable }
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Whether an access is entirely inside.
    #[inline]
    pub fn contains(&self, address: usize, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.address);
        offset < self.bytes && bytes <= self.bytes - offset
    }

    /// Fast check of an access inside the region. `false` means that `check` must decide.
    #[inline]
    pub fn allows(&self, access: AccessKind, address: usize, bytes: usize) -> bool {
        let at = address - self.memory.address();
        let mask = bit_mask(at, bytes.min(8));
        let bits = self.memory.written_bits().get(at / 8).map_or(0, |bits| bits.load(Ordering::Relaxed));
        at % 8 + bytes <= 8 && bits & mask == mask && (self.writable || access == AccessKind::Read)
    }

    /// Full check of an access inside the region. A write marks its bytes as written.
    #[cold]
    pub fn check(&self, access: AccessKind, address: usize, bytes: usize) -> Result<(), FaultCause> {
        let at = address - self.memory.address();
        let (region, offset) = (|| self.name.to_owned(), address - self.address);
        match access {
            AccessKind::Write if !self.writable => {
                Err(FaultCause::ReadOnly { bytes, region: region(), offset })
            }
            AccessKind::Write => {
                self.memory.mark(at..at + bytes, true);
                Ok(())
            }
            AccessKind::Read if self.memory.first_unwritten(at..at + bytes).is_some() => {
                Err(FaultCause::Unwritten { bytes, region: region(), offset })
            }
            AccessKind::Read => Ok(()),
        }
    }
}

/// The fault of an access outside all regions, relative to the nearest one.
#[cold]
pub fn outside(regions: &[Region<'_>], access: AccessKind, address: usize, bytes: usize) -> FaultCause {
    let distance = |region: &Region<'_>| {
        let start = region.address();
        if address < start { start - address } else { (address + bytes).saturating_sub(start + region.bytes) }
    };
    match regions.iter().min_by_key(|region| distance(region)) {
        Some(region) => FaultCause::OutOfBounds {
            access,
            bytes,
            region: region.name.into(),
            offset: address.wrapping_sub(region.address()) as i64,
            region_bytes: region.bytes,
        },
        None => FaultCause::OutOfBounds {
            access,
            bytes,
            region: "no region".into(),
            offset: address as i64,
            region_bytes: 0,
        },
    }
}
