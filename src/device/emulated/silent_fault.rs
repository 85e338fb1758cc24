#![allow(unsafe_code)] // The emulator's bridge: accesses device memory in the order that the race detector has checked.
//! Silent faults: an operation reports success, but the bytes that it wrote are wrong. Only a check of the result can find them.

use super::lane::{DeviceBytes, mixed};

/// What is wrong with the bytes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silent {
    /// One bit is flipped.
    FlippedBit,
    /// Some consecutive bytes are those from before the operation: of a dropped tile, row or launch.
    StaleBytes,
}

/// A silent fault of one operation.
pub struct SilentFault {
    pub kind: Silent,
    /// Chooses the bytes.
    pub seed: u64,
    /// The bytes that the operation writes; for a download, those that it reads.
    pub places: Vec<DeviceBytes>,
    /// Whether the fault comes before the operation, which then copies it.
    pub is_first: bool,
    before: Vec<Vec<u8>>,
}

impl SilentFault {
    pub fn new(kind: Silent, seed: u64, places: Vec<DeviceBytes>, is_first: bool) -> Self {
        Self { kind, seed, places, is_first, before: Vec::new() }
    }

    /// Before the operation.
    ///
    /// # Safety
    /// The race detector excludes other accesses to the places.
    pub unsafe fn begin(&mut self) {
        if self.kind == Silent::StaleBytes {
            let bytes = |place: &DeviceBytes| {
                let mut bytes = vec![0; place.range.len()];
                // SAFETY: inside, as checked at submission; the caller excludes writes.
                unsafe { place.memory.read(place.range.start, &mut bytes) };
                bytes
            };
            self.before = self.places.iter().map(bytes).collect();
        }
        if self.is_first {
            // SAFETY: the caller excludes other accesses.
            unsafe { self.disturb() };
        }
    }

    /// After the operation.
    ///
    /// # Safety
    /// As [`Self::begin`].
    pub unsafe fn end(&mut self) {
        if !self.is_first {
            // SAFETY: the caller excludes other accesses.
            unsafe { self.disturb() };
        }
    }

    unsafe fn disturb(&self) {
        let is_written = |place: &DeviceBytes, at: usize| place.memory.first_unwritten(at..at + 1).is_none();
        let total: usize = self.places.iter().map(|place| place.range.len()).sum();
        if total == 0 {
            return;
        }
        let mut skipped = mixed(self.seed) as usize % total;
        let Some(index) = self.places.iter().position(|place| {
            let here = skipped < place.range.len();
            skipped -= if here { 0 } else { place.range.len() };
            here
        }) else {
            return;
        };
        let place = &self.places[index];
        match self.kind {
            Silent::FlippedBit => {
                // Padding has no values: the first byte behind it, or of all bytes.
                let from = (skipped..place.range.len()).chain(0..skipped).map(|at| place.range.start + at);
                let Some(at) = from.into_iter().find(|&at| is_written(place, at)) else { return };
                let mut byte = [0];
                // SAFETY: inside, and the caller excludes other accesses.
                unsafe {
                    place.memory.read(at, &mut byte);
                    byte[0] ^= 1 << (mixed(self.seed ^ 0x55) % 8);
                    place.memory.write(at, &byte);
                }
            }
            Silent::StaleBytes => {
                let length = 1 + mixed(self.seed ^ 0xaa) as usize % (place.range.len() - skipped);
                let old = self.before.get(index).and_then(|old| old.get(skipped..skipped + length));
                for (offset, old) in old.unwrap_or_default().iter().enumerate() {
                    let at = place.range.start + skipped + offset;
                    if is_written(place, at) {
                        // SAFETY: inside, and the caller excludes other accesses.
                        unsafe { place.memory.write(at, &[*old]) };
                    }
                }
            }
        }
    }
}
