//! Bodies for blocks of rows with a common pattern: columns are loaded once per block, and so are rows of X if the columns are
//! identical. Each row has its own canonical chains, one per segment.
//!
//! Rows of a block have at most [`LONGEST_TOGETHER`](crate::LONGEST_TOGETHER) nonzeros, and at most a segment if columns are
//! shifted. Const parameters are those of `chains`.

#![allow(unsafe_code)] // SIMD leaf

// Loops have indices, as in `chains`.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use crate::SEGMENT;
use crate::chains::{RowJob, add_part, finish, load};
use crate::vector::Vector;

/// Rows of a block with shifted columns.
pub const SHIFTED_ROWS: usize = 4;

/// Maximal rows of a block of identical rows with equal values: one row is computed and copied, so that any number would do; the
/// bound keeps blocks local.
const MOST_EQUAL_ROWS: usize = 64;

/// The blocks of rows with identical columns that the body of a slab of `units` registers computes: the maximal number of rows, or
/// none if there is no such body.
///
/// This is the only statement of what exists. [`identical`] is compiled for these sizes, `select` hands out the body with its size,
/// and blocks are formed and checked against it.
pub(super) const fn most_identical_rows(units: usize, uniform: bool) -> Option<usize> {
    match units {
        _ if uniform => Some(MOST_EQUAL_ROWS),
        // With R rows, R times `units` sums must stay in registers.
        0..=6 => Some(4),
        7..=8 => Some(3),
        _ => None,
    }
}

/// Distance in entries at which the entries of later blocks are prefetched.
const PREFETCH_ENTRIES: usize = 256;

/// Prefetches entries that later blocks will read, as many as `rows` rows of `length` have.
///
/// Several rows at a time access the arrays out of order, which the hardware prefetcher does not recognize as a stream.
#[inline(always)]
unsafe fn prefetch_entries<V: Vector, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    position: usize,
    length: usize,
    rows: usize,
) {
    let (count, line) = (length * rows, 64);
    let columns = job.columns.as_ptr().wrapping_add(position + PREFETCH_ENTRIES);
    for offset in (0..count * size_of::<u32>() + line).step_by(line) {
        // SAFETY: a prefetch accepts any address.
        unsafe { V::prefetch(columns.wrapping_byte_add(offset).cast()) };
    }
    if !UNIFORM {
        let values = job.values.as_ptr().wrapping_add(position + PREFETCH_ENTRIES);
        for offset in (0..count * size_of::<V::Element>() + line).step_by(line) {
            // SAFETY: as above.
            unsafe { V::prefetch(values.wrapping_byte_add(offset)) };
        }
    }
}

/// Start of a block's first row in the arrays, and the length of each row.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    length: usize,
}

/// One chain for each of `R` rows with identical columns: the entries `span`, a segment, of every row.
#[inline(always)]
unsafe fn identical_chains<V: Vector, const U: usize, const R: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    extent: Extent,
    span: Range<usize>,
    mask: V::Mask,
) -> [[V; U]; R] {
    let Extent { start, length } = extent;
    // SAFETY: as `identical_rows`.
    unsafe {
        let uniform = if UNIFORM { V::splat(job.values[0]) } else { V::zero() };
        let mut sums = [[V::zero(); U]; R];
        for offset in span {
            let x = job.x_row::<V, U, FIT>(*job.columns.get_unchecked(start + offset));
            let values: [V; R] = std::array::from_fn(|chain| {
                if UNIFORM {
                    uniform
                } else {
                    V::splat(*job.values.get_unchecked(start + chain * length + offset))
                }
            });
            for unit in 0..U {
                let x = load::<V, FIT>(x.add(unit * V::LANES), unit == U - 1, mask);
                for chain in 0..R {
                    sums[chain][unit] = values[chain].multiply_add(x, sums[chain][unit]);
                }
            }
        }
        sums
    }
}

/// The sums of `R` rows with identical columns. Most have one segment; only longer rows need additions of segments.
#[inline(always)]
unsafe fn identical_rows<V: Vector, const U: usize, const R: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    row: usize,
    mask: V::Mask,
) -> [[V; U]; R] {
    let (start, length) = job.extent(row);
    let extent = Extent { start, length };
    // SAFETY: rows `row..row + R` have one length and are contiguous in the arrays, as the creator of the blocks checked; the
    // contract of the job covers the rest.
    unsafe {
        // With equal values a single row is read, in order, so that no prefetch is needed.
        if !UNIFORM {
            prefetch_entries::<V, false>(job, start, length, R);
        }
        let mut sums = identical_chains::<V, U, R, FIT, UNIFORM>(job, extent, 0..length.min(SEGMENT), mask);
        let mut done = SEGMENT;
        while done < length {
            let span = done..length.min(done + SEGMENT);
            let parts = identical_chains::<V, U, R, FIT, UNIFORM>(job, extent, span, mask);
            for chain in 0..R {
                add_part(&mut sums[chain], parts[chain], false);
            }
            done += SEGMENT;
        }
        sums
    }
}

/// Computes and stores `R` rows with identical columns.
#[inline(always)]
unsafe fn identical_block<V: Vector, const U: usize, const R: usize, const FIT: u8>(
    job: &RowJob<V::Element>,
    row: usize,
    mask: V::Mask,
) {
    // SAFETY: as `identical_rows`.
    unsafe {
        let sums = identical_rows::<V, U, R, FIT, false>(job, row, mask);
        for chain in 0..R {
            finish::<V, U, FIT>(job, row + chain, sums[chain], mask);
        }
    }
}

/// Computes all blocks of rows with identical columns. With equal values the rows of a block have equal results: one is
/// computed and stored to all.
///
/// Blocks have at least two and at most [`most_identical_rows`] rows. It panics at any other block: a row without a value would be a
/// wrong result.
#[inline(always)]
pub(super) unsafe fn identical<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
) {
    // `select` has no such body. The constant condition keeps it from being compiled.
    if const { most_identical_rows(U, UNIFORM).is_none() } {
        panic!("no body of {U} registers computes blocks of identical rows");
    }
    // SAFETY: as `identical_rows`.
    unsafe {
        let mask = V::mask(job.tail_lanes);
        for block in job.blocks {
            let row = job.first_row + block.leader as usize;
            let count = block.count as usize;
            if UNIFORM {
                let [sums] = identical_rows::<V, U, 1, FIT, true>(job, row, mask);
                for copy in 0..count {
                    finish::<V, U, FIT>(job, row + copy, sums, mask);
                }
                continue;
            }
            // A constant condition, so that bodies of more rows than a block can have are not compiled.
            if const { has_blocks_of_four(U) } && count == 4 {
                identical_block::<V, U, 4, FIT>(job, row, mask);
            } else if count == 3 {
                identical_block::<V, U, 3, FIT>(job, row, mask);
            } else if count == 2 {
                identical_block::<V, U, 2, FIT>(job, row, mask);
            } else {
                panic!("no body of {U} registers computes a block of {count} identical rows");
            }
        }
    }
}

/// Whether blocks of four rows with general values have a body.
const fn has_blocks_of_four(units: usize) -> bool {
    matches!(most_identical_rows(units, false), Some(4..))
}

/// Computes all blocks of [`SHIFTED_ROWS`] rows whose columns are those of the first row plus a constant per row.
#[inline(always)]
pub(super) unsafe fn shifted<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
) {
    // SAFETY: the rows of a block have one length, are contiguous in the arrays and have shifted columns, as the creator of the
    // blocks checked: a shifted column is a column of its row, and thus inside X.
    unsafe {
        let mask = V::mask(job.tail_lanes);
        let uniform = if UNIFORM { V::splat(job.values[0]) } else { V::zero() };
        for block in job.blocks {
            let row = job.first_row + block.leader as usize;
            let (start, length) = job.extent(row);
            if length == 0 {
                for chain in 0..SHIFTED_ROWS {
                    finish::<V, U, FIT>(job, row + chain, [V::zero(); U], mask);
                }
                continue;
            }
            prefetch_entries::<V, UNIFORM>(job, start, length, SHIFTED_ROWS);
            let leader_column = *job.columns.get_unchecked(start);
            let shifted_x: [*const V::Element; SHIFTED_ROWS] = std::array::from_fn(|chain| {
                let column = *job.columns.get_unchecked(start + chain * length);
                let here = job.x_row::<V, U, FIT>(column);
                let leader = job.x_row::<V, U, FIT>(leader_column);
                job.x.wrapping_offset(here.offset_from(leader))
            });
            let mut sums = [[V::zero(); U]; SHIFTED_ROWS];
            for offset in 0..length {
                let column = *job.columns.get_unchecked(start + offset);
                let distance = job.x_row::<V, U, FIT>(column).offset_from(job.x);
                for chain in 0..SHIFTED_ROWS {
                    let x = shifted_x[chain].wrapping_offset(distance);
                    let value = if UNIFORM {
                        uniform
                    } else {
                        V::splat(*job.values.get_unchecked(start + chain * length + offset))
                    };
                    for unit in 0..U {
                        let x = load::<V, FIT>(x.wrapping_add(unit * V::LANES), unit == U - 1, mask);
                        sums[chain][unit] = value.multiply_add(x, sums[chain][unit]);
                    }
                }
            }
            for chain in 0..SHIFTED_ROWS {
                finish::<V, U, FIT>(job, row + chain, sums[chain], mask);
            }
        }
    }
}
