//! The loops over the rows of a job: rows of one length follow each other with few instructions, other short rows are computed several
//! at a time, and long ones one by one. Const parameters are those of `chains`.
//!
//! What short rows need, as `perf annotate` shows for rows of four nonzeros:
//! - Lengths are compared as they are loaded. Compared as arrays, they were stored and loaded again as one vector, and the load waited for
//!   the stores: 40 % of the time.
//! - Between two batches of rows of one length there is one test and no order of lengths: `order` has them sorted within a window. A larger
//!   window has longer runs of one length, but its part of A leaves the L1 cache before all of its lines are used.
//! - Whether sums are scaled, added to targets or copied is one test for a job, not three for a row. A product that is checked copies its rows:
//!   its runs of one length have a test for each batch.

#![allow(unsafe_code)]
// SIMD leaf

// Loops over constant numbers of chains are written with indices, as in `chains`.
#![allow(clippy::needless_range_loop)]

use crate::chains::{RowJob, advance, chains, finish, row_sum, rows_together, store, store_copy};
use crate::vector::Vector;
use crate::{LONGEST_TOGETHER, SEGMENT};

/// Sorts up to four chains by length, longest first. The sort is stable, since the segments of a row must be added in order.
#[inline(always)]
fn longest_first<const R: usize>(rows: &mut [usize; R], starts: &mut [usize; R], lengths: &mut [usize; R]) {
    for (upper, lower) in [(0, 1), (1, 2), (2, 3), (0, 1), (1, 2), (0, 1)] {
        if lower < R && lengths[upper] < lengths[lower] {
            rows.swap(upper, lower);
            starts.swap(upper, lower);
            lengths.swap(upper, lower);
        }
    }
}

/// Computes all rows of the job except those longer than `longest`.
#[inline(always)]
pub(super) unsafe fn rows<
    V: Vector,
    const U: usize,
    const R: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
) {
    // SAFETY: the contract of the job; all rows are from its range.
    unsafe {
        let mask = V::mask(job.tail_lanes);
        let uniform = if UNIFORM { V::splat(job.values[0]) } else { V::zero() };
        let count = job.count;
        let is_unscaled = job.targets.is_none() && job.scaling.is_none();
        let is_plain = is_unscaled && job.copy.is_none();
        let row_at = |index: usize| {
            job.first_row
                + match job.order {
                    Some(order) => *order.get_unchecked(index) as usize,
                    None => index,
                }
        };
        let mut index = 0;
        while index < count {
            if index + R <= count {
                let mut batch: [usize; R] = std::array::from_fn(|chain| row_at(index + chain));
                let mut starts = [0; R];
                let mut lengths = [0; R];
                let (mut longest, mut differing_bits) = (0, 0);
                for chain in 0..R {
                    let (start, length) = job.extent(batch[chain]);
                    (starts[chain], lengths[chain]) = (start, length);
                    longest = longest.max(length);
                    differing_bits |= length ^ lengths[0];
                }
                if longest <= LONGEST_TOGETHER {
                    if differing_bits == 0 && longest <= SEGMENT && is_unscaled {
                        let length = longest;
                        index = rows_of_one_length::<V, U, R, FIT, UNIFORM, STRIDED>(
                            job, row_at, index, length, uniform, mask,
                        );
                        continue;
                    }
                    if differing_bits != 0 {
                        longest_first(&mut batch, &mut starts, &mut lengths);
                    }
                    let sums = if longest <= SEGMENT {
                        chains::<V, U, R, FIT, UNIFORM, STRIDED>(job, starts, lengths, uniform, mask)
                    } else {
                        rows_together::<V, U, R, FIT, UNIFORM, STRIDED>(job, starts, lengths, uniform, mask)
                    };
                    for chain in 0..R {
                        if is_plain {
                            store::<V, U, FIT>(job, batch[chain], sums[chain], mask);
                        } else {
                            finish::<V, U, FIT>(job, batch[chain], sums[chain], mask);
                        }
                    }
                    index += R;
                    continue;
                }
            }
            // The only call, since every call is a copy of the body to compile.
            one_row::<V, U, R, FIT, UNIFORM, STRIDED>(job, row_at(index), uniform, mask);
            index += 1;
        }
    }
}

/// Computes rows from the number `index` on, `R` at a time, as long as they have this length, which is at most a segment. Returns the
/// number of the row after them. Few instructions come between two rows: of a row of four nonzeros they took half of the time.
#[inline(always)]
unsafe fn rows_of_one_length<
    V: Vector,
    const U: usize,
    const R: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
    row_at: impl Fn(usize) -> usize,
    mut index: usize,
    length: usize,
    uniform: V,
    mask: V::Mask,
) -> usize {
    // SAFETY: as `rows`.
    unsafe {
        while index + R <= job.count {
            let batch: [usize; R] = std::array::from_fn(|chain| row_at(index + chain));
            let mut starts = [0; R];
            let mut differing_bits = 0;
            for chain in 0..R {
                let (start, own) = job.extent(batch[chain]);
                starts[chain] = start;
                differing_bits |= own ^ length;
            }
            if differing_bits != 0 {
                break;
            }
            let mut sums = [[V::zero(); U]; R];
            advance::<V, U, R, R, FIT, UNIFORM, STRIDED>(job, &starts, 0..length, uniform, mask, &mut sums);
            if job.copy.is_some() {
                for chain in 0..R {
                    store_copy::<V, U, FIT>(job, batch[chain], sums[chain], mask);
                }
            }
            for chain in 0..R {
                store::<V, U, FIT>(job, batch[chain], sums[chain], mask);
            }
            index += R;
        }
        index
    }
}

/// Computes a single row of any length.
#[inline(always)]
unsafe fn one_row<
    V: Vector,
    const U: usize,
    const R: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
    row: usize,
    uniform: V,
    mask: V::Mask,
) {
    let (start, length) = job.extent(row);
    if length > job.longest {
        return;
    }
    // SAFETY: as `rows`.
    unsafe {
        let sums = row_sum::<V, U, R, FIT, UNIFORM, STRIDED>(job, start, length, uniform, mask);
        finish::<V, U, FIT>(job, row, sums, mask);
    }
}
