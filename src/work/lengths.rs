//! Sums over the lengths of rows, as fast as row pointers can be read.

#![allow(unsafe_code)] // SIMD leaf: calls code compiled for instructions that were found to be there

use crate::machine::Isa;
use crate::matrix::statistics::LONG_ROW;

/// Rows looked at in one go; few enough that their pointers are still near where some of them are long.
const BLOCK_ROWS: usize = 512;

/// What the lengths of some rows add up to. All of it is integers, so rows can be shared out in any way.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lengths {
    /// The longest.
    pub max: u64,
    /// Rows without nonzeros.
    pub empty_rows: u64,
    /// Nonzeros of long rows.
    pub long: u64,
    /// Squares of the lengths; `u64::MAX` where they cannot be counted.
    pub squares: u64,
}

impl Lengths {
    /// Of whole rows, from their pointers.
    pub fn of_pointers(pointers: &[u64]) -> Self {
        Self::with(Isa::detect(), pointers)
    }

    /// The same with instructions of `isa`, which must be one that this processor has.
    fn with(isa: Isa, pointers: &[u64]) -> Self {
        match isa {
            // SAFETY: the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { of_blocks_avx512(pointers) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { of_blocks_avx2(pointers) },
            _ => of_blocks(pointers),
        }
    }

    /// Of lengths one by one.
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

    /// Of the rows of both.
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

/// Inlined, so that it is compiled with the instructions of the one that calls it; closures would not be.
#[inline(always)]
fn of_blocks(pointers: &[u64]) -> Lengths {
    let rows = pointers.len().saturating_sub(1);
    let mut sums = Lengths::default();
    for begin in (0..rows).step_by(BLOCK_ROWS) {
        sums = sums.plus(of_block(pointers.get(begin..=rows.min(begin + BLOCK_ROWS)).unwrap_or(&[])));
    }
    sums
}

/// Of one block. What few rows need is left to a second look at those blocks that have some, so that vectors take the rest.
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
        // Lengths and the sum of their squares fit, as the block's nonzeros do. Signed comparison and multiplication of
        // halves are single instructions.
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
        fn every_instruction_set_counts_what_one_by_one_counts(
            first in 0u64..1 << 40,
            lengths in prop::collection::vec(prop_oneof![6 => 0u64..40, 1 => 500u64..530, 1 => 0u64..1 << 34], 0..1200),
        ) {
            let plain = Lengths {
                max: lengths.iter().copied().max().unwrap_or(0),
                empty_rows: lengths.iter().filter(|&&length| length == 0).count() as u64,
                long: lengths.iter().filter(|&&length| length > LONG_ROW).sum(),
                squares: lengths.iter().fold(0, |sum: u64, length| sum.saturating_add(length.saturating_mul(*length))),
            };
            for &isa in Isa::all_here() {
                prop_assert_eq!(&Lengths::with(isa, &pointers(first, &lengths)), &plain, "{:?}", isa);
            }
        }
    }

    #[test]
    fn what_cannot_be_counted_does_not_wrap_around() {
        for &isa in Isa::all_here() {
            assert_eq!(Lengths::with(isa, &[0, 1 << 40, 1 << 41]).squares, u64::MAX);
            assert_eq!(Lengths::with(isa, &[]), Lengths::default());
            let many = pointers(0, &[u64::from(u32::MAX); 3]);
            assert_eq!(Lengths::with(isa, &many).squares, u64::MAX);
        }
    }
}
