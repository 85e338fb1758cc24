//! Whether all values of a matrix are equal. The comparison ends at the first other value, so that a general matrix costs nothing; a
//! [`Csr`](super::Csr) remembers its result.

use std::sync::OnceLock;

use rayon::prelude::*;

/// Bytes of a parallel task; a multiple of the size of every value.
const TASK_BYTES: usize = 1 << 16;
/// Bytes that are compared first, without other threads.
const FIRST_BYTES: usize = 1 << 9;

/// The bits of the values of a matrix.
#[derive(Debug, Clone, Copy)]
pub struct ValueBits<'a> {
    bytes: &'a [u8],
    /// Bytes of a value.
    size: usize,
    /// Where the matrix remembers the result.
    known: Option<&'a OnceLock<bool>>,
}

impl<'a> ValueBits<'a> {
    pub(super) fn new<T: bytemuck::Pod>(values: &'a [T], known: Option<&'a OnceLock<bool>>) -> Self {
        Self { bytes: bytemuck::cast_slice(values), size: size_of::<T>(), known }
    }

    /// Whether there is at least one value and all are equal bit for bit. Runs in the rayon pool of the caller.
    pub fn are_equal(&self) -> bool {
        if let Some(&known) = self.known.and_then(OnceLock::get) {
            return known;
        }
        // Not inside the lock: a thread that waits for others may run another task that asks for the same.
        let equal = self.compare();
        self.known.map_or(equal, |known| *known.get_or_init(|| equal))
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
            let equal = |values: &[f32]| ValueBits::new(values, None).are_equal();
            prop_assert!(equal(&values));
            values[at.index(count)] = f32::from_bits(bits ^ 1 << bit);
            prop_assert_eq!(equal(&values), count == 1);
        }
    }

    #[test]
    fn the_result_is_remembered_and_no_values_are_not_equal_ones() {
        let known = OnceLock::new();
        assert!(!ValueBits::new::<f64>(&[], Some(&known)).are_equal());
        assert_eq!(known.get(), Some(&false));
        assert!(!ValueBits::new(&[2.0, 2.0], Some(&known)).are_equal(), "not compared again");
    }
}
