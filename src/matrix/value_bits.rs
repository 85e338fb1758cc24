//! Whether all values of a matrix are equal, and codes of few bytes for them. The comparison ends at the first other value, so that a
//! general matrix costs nothing; a [`Csr`](super::Csr) remembers its result.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::value_codes::{ValueCode, ValueCodes};

/// Bytes of a parallel task; a multiple of the size of every value.
const TASK_BYTES: usize = 1 << 16;
/// Bytes that are compared first, without other threads.
const FIRST_BYTES: usize = 1 << 9;

/// What a matrix remembers about its values, set by the first who asks.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownValues {
    pub(super) are_equal: OnceLock<bool>,
    pub(super) codes: OnceLock<Arc<ValueCodes>>,
}

/// The bits of the values of a matrix.
#[derive(Debug, Clone, Copy)]
pub struct ValueBits<'a> {
    bytes: &'a [u8],
    /// Bytes of a value.
    size: usize,
    /// Where the matrix remembers the results.
    known: Option<&'a KnownValues>,
    /// Whether the program may change them without a check that finds it, so that no copies of them are kept.
    may_change: bool,
}

impl<'a> ValueBits<'a> {
    pub(super) fn new<T: bytemuck::Pod>(
        values: &'a [T],
        known: Option<&'a KnownValues>,
        may_change: bool,
    ) -> Self {
        Self { bytes: bytemuck::cast_slice(values), size: size_of::<T>(), known, may_change }
    }

    /// Their codes. Values that may change are coded only where all are equal, as in a pattern.
    pub fn codes(&self) -> Arc<ValueCodes> {
        if let Some(known) = self.known.and_then(|known| known.codes.get()) {
            return known.clone();
        }
        let bytes = match self.may_change {
            true if self.are_equal() => self.bytes.get(..self.size).unwrap_or_default(),
            true => &[],
            false => self.bytes,
        };
        let codes = Arc::new(ValueCodes::of(bytes, self.size));
        self.known.map_or(codes.clone(), |known| known.codes.get_or_init(|| codes).clone())
    }

    /// Bytes of a code, estimated from so many samples.
    pub(super) fn sampled_code_bytes(&self, samples: usize, length: usize) -> f64 {
        if let Some(known) = self.known.and_then(|known| known.codes.get()) {
            return known.code.bytes(self.size as u64) as f64;
        }
        let count = self.bytes.len() / self.size.max(1);
        let values = |sample: usize| {
            let begin = count * sample / samples * self.size;
            self.bytes.get(begin..self.bytes.len().min(begin + length * self.size)).unwrap_or_default()
        };
        let all = (0..samples).flat_map(|sample| values(sample).chunks_exact(self.size.max(1)));
        let distinct: HashSet<&[u8]> = all.collect();
        let code = match distinct.len() {
            _ if self.may_change && !self.are_equal() => ValueCode::Plain,
            0 | 1 => ValueCode::One,
            few if few < samples * length / 4 => ValueCode::Byte,
            _ if self.size == 8 && distinct.iter().all(|bytes| ValueCodes::is_single(bytes)) => {
                ValueCode::Single
            }
            _ => ValueCode::Plain,
        };
        code.bytes(self.size as u64) as f64
    }

    /// Whether there is at least one value and all are equal bit for bit. Runs in the rayon pool of the caller.
    pub fn are_equal(&self) -> bool {
        if let Some(&known) = self.known.and_then(|known| known.are_equal.get()) {
            return known;
        }
        // Not inside the lock: a thread that waits for others may run another task that asks for the same.
        let equal = self.compare();
        self.known.map_or(equal, |known| *known.are_equal.get_or_init(|| equal))
    }

    fn compare(&self) -> bool {
        let Some(first) = self.bytes.get(..self.size) else { return false };
        // Equal to itself moved by one value: a comparison at the speed of the memory.
        let has_one_value = |part: &[u8]| {
            part.get(..self.size) == Some(first)
                && part.get(self.size..) == part.get(..part.len().saturating_sub(self.size))
        };
        let start = self.bytes.get(..FIRST_BYTES).unwrap_or(self.bytes);
        has_one_value(start) && self.bytes.par_chunks(TASK_BYTES).all(has_one_value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_equal_unless_one_has_another_bit(
            count in prop_oneof![1..200usize, 8_100..8_300usize, 16_000..40_000usize],
            at in any::<prop::sample::Index>(),
            bit in 0..32u32,
            bits: u32,
        ) {
            let mut values = vec![f32::from_bits(bits); count];
            let equal = |values: &[f32]| ValueBits::new(values, None, false).are_equal();
            prop_assert!(equal(&values));
            values[at.index(count)] = f32::from_bits(bits ^ 1 << bit);
            prop_assert_eq!(equal(&values), count == 1);
        }
    }

    #[test]
    fn the_result_is_remembered_and_no_values_are_not_equal_ones() {
        let known = KnownValues::default();
        assert!(!ValueBits::new::<f64>(&[], Some(&known), false).are_equal());
        assert_eq!(known.are_equal.get(), Some(&false));
        assert!(!ValueBits::new(&[2.0, 2.0], Some(&known), false).are_equal(), "not compared again");
    }
}
