//! Sums over row lengths, vectorized to run at memory bandwidth.

#![allow(unsafe_code)] // SIMD leaf: calls code compiled for an instruction set that was detected before

use crate::machine::Isa;
use crate::matrix::statistics::LONG_ROW;

/// Rows per block; small enough that a second pass over a block's pointers hits the L1 cache.
const BLOCK_ROWS: usize = 512;

/// Sums over the lengths of some rows. All are integers, so the division of rows among threads does not change them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lengths {
    /// Length of the longest row.
    pub max: u64,
    /// Rows without nonzeros.
    pub empty_rows: u64,
    /// Nonzeros in rows longer than `LONG_ROW`.
    pub long: u64,
    /// Sum of the squares of the lengths; `u64::MAX` on overflow.
    pub squares: u64,
}

impl Lengths {
    /// The sums over whole rows, given by their row pointers.
    pub fn of_pointers(pointers: &[u64]) -> Self {
        Self::with(Isa::detect(), pointers)
    }

    /// As [`Self::of_pointers`], with the instruction set `isa`, which the processor must have.
    fn with(isa: Isa, pointers: &[u64]) -> Self {
        match isa {
            // SAFETY: the caller checked that the processor has this instruction set.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { of_blocks_avx512(pointers) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { of_blocks_avx2(pointers) },
            _ => of_blocks(pointers),
        }
    }

    /// The sums over an iterator of lengths.
    pub fn of(lengths: impl Iterator<Item = u64>) -> Self {
        let mut sums = Self::default();
        for length in lengths {
            sums.squares = sums.squares.saturating_add(length.saturating_mul(length));
            sums.max = sums.max.max(length);
            sums.empty_rows += u64::from(length == 0);
            sums.long += if length > LONG_ROW { length } else { 0 };
        }
        sums
    }

    /// The sums over the rows of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            max: self.max.max(other.max),
            empty_rows: self.empty_rows + other.empty_rows,
            long: self.long + other.long,
            squares: self.squares.saturating_add(other.squares),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn of_blocks_avx512(pointers: &[u64]) -> Lengths {
    of_blocks(pointers)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn of_blocks_avx2(pointers: &[u64]) -> Lengths {
    of_blocks(pointers)
}

/// The sums over all rows, block by block. Inlined, so that it is compiled for the instruction set of its caller; a closure
/// would not be.
#[inline(always)]
fn of_blocks(pointers: &[u64]) -> Lengths {
    let rows = pointers.len().saturating_sub(1);
    let mut sums = Lengths::default();
    for begin in (0..rows).step_by(BLOCK_ROWS) {
        sums = sums.plus(of_block(pointers.get(begin..=rows.min(begin + BLOCK_ROWS)).unwrap_or(&[])));
    }
    sums
}

/// The sums over one block. The nonzeros of long rows are summed in a second pass, over blocks with long rows only, so that
/// the first pass vectorizes.
#[inline(always)]
fn of_block(pointers: &[u64]) -> Lengths {
    let (before, after) = (pointers, pointers.get(1..).unwrap_or(&[]));
    let one_by_one = || before.iter().zip(after).map(|(before, after)| after - before);
    let nnz = pointers.last().zip(pointers.first()).map_or(0, |(last, first)| last - first);
    if u32::try_from(nnz).is_err() {
        return Lengths::of(one_by_one());
    }
    let (mut max, mut empty_rows, mut squares) = (0i64, 0u64, 0u64);
    for (before, after) in before.iter().zip(after) {
        let length = after.wrapping_sub(*before);
        // Lengths fit 32 bits and the sum of squares 64 bits, since the block's nonzeros fit 32 bits. Signed comparison and
        // 32-bit multiplication are single vector instructions.
        squares = squares.wrapping_add(u64::from(length as u32) * u64::from(length as u32));
        empty_rows += u64::from(length == 0);
        max = max.max(length as i64);
    }
    let max = max as u64;
    let long = if max > LONG_ROW { one_by_one().filter(|&length| length > LONG_ROW).sum() } else { 0 };
    Lengths { max, empty_rows, long, squares }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pointers(first: u64, lengths: &[u64]) -> Vec<u64> {
        let sums = lengths.iter().scan(first, |sum, length| {
            *sum += length;
            Some(*sum)
        });
        std::iter::once(first).chain(sums).collect()
    }

    proptest! {
        #[test]
        fn every_instruction_set_gives_the_same_sums(
            first in 0u64..1 << 40,
            lengths in prop::collection::vec(prop_oneof![6 => 0u64..40, 1 => 500u64..530, 1 => 0u64..1 << 34], 0..1200),
        ) {
            let plain = Lengths {
                max: lengths.iter().copied().max().unwrap_or(0),
                empty_rows: lengths.iter().filter(|&&length| length == 0).count() as u64,
                long: lengths.iter().filter(|&&length| length > LONG_ROW).sum(),
                squares: lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(length.saturating_mul(*length))),
            };
            for &isa in Isa::available() {
                prop_assert_eq!(&Lengths::with(isa, &pointers(first, &lengths)), &plain, "{:?}", isa);
            }
        }
    }

    #[test]
    fn an_overflowing_sum_of_squares_saturates() {
        for &isa in Isa::available() {
            assert_eq!(Lengths::with(isa, &[0, 1 << 40, 1 << 41]).squares, u64::MAX);
            assert_eq!(Lengths::with(isa, &[]), Lengths::default());
            let many = pointers(0, &[u64::from(u32::MAX); 3]);
            assert_eq!(Lengths::with(isa, &many).squares, u64::MAX);
        }
    }
}
