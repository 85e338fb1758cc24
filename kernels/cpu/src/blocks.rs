//! Bodies for rows that share a pattern: columns are read once for the block, and so are rows of X where they are
//! the same ones. Each row keeps its own canonical chains, one a segment.
//!
//! Blocks hold no row longer than [`LONGEST_TOGETHER`](crate::LONGEST_TOGETHER), and where columns move along none longer
//! than a segment. Const parameters are those of `chains`.

#![allow(unsafe_code)] // SIMD leaf

// Indices, as in `chains`.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use crate::SEGMENT;
use crate::chains::{MASKED, RowJob, add_part, finish};
use crate::vector::Vector;

/// Rows of a block whose columns move along from row to row.
pub const SHIFTED_ROWS: usize = 4;

/// Most rows of a block with the same columns that a body of `units` registers computes at a time.
pub(super) const fn most_identical_rows(units: usize) -> usize {
    match units {
        0..=6 => 4,
        7..=8 => 3,
        _ => 1,
    }
}

#[inline(always)]
unsafe fn load<V: Vector, const FIT: u8>(from: *const V::Element, is_last: bool, mask: V::Mask) -> V {
    // SAFETY: the caller's pointer is good for the slab's lanes at this register.
    unsafe { if FIT == MASKED && is_last { V::load_masked(from, mask) } else { V::load(from) } }
}

/// How far ahead of a block its successors' entries are fetched.
const ENTRIES_AHEAD: usize = 256;

/// Asks for `count` entries that will be read some blocks from now.
///
/// Several rows at a time read the arrays out of order, which hides the stream from the processor's own prefetcher.
#[inline(always)]
unsafe fn fetch_ahead<V: Vector, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    position: usize,
    count: usize,
) {
    let line = 64;
    let columns = job.columns.as_ptr().wrapping_add(position + ENTRIES_AHEAD);
    for offset in (0..count * size_of::<u32>() + line).step_by(line) {
        // SAFETY: fetching touches nothing, wherever it points.
        unsafe { V::prefetch(columns.wrapping_byte_add(offset).cast()) };
    }
    if !UNIFORM {
        let values = job.values.as_ptr().wrapping_add(position + ENTRIES_AHEAD);
        for offset in (0..count * size_of::<V::Element>() + line).step_by(line) {
            // SAFETY: as above.
            unsafe { V::prefetch(values.wrapping_byte_add(offset)) };
        }
    }
}

/// Where a block's rows begin, and how long each is.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    length: usize,
}

/// One chain each of `R` rows with the same columns: the entries `span`, a segment, of every row.
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

/// `R` rows with the same columns. Most are one segment long: only longer ones pay for adding.
#[inline(always)]
unsafe fn identical_rows<V: Vector, const U: usize, const R: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    row: usize,
    mask: V::Mask,
) -> [[V; U]; R] {
    let (start, length) = job.extent(row);
    let extent = Extent { start, length };
    // SAFETY: rows `row..row + R` are of one length and follow each other in the arrays, as the maker of the blocks
    // checked; beyond that the job's promises.
    unsafe {
        // Of equal values one row is read, and in order.
        if !UNIFORM {
            fetch_ahead::<V, false>(job, start, length * R);
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

/// `R` rows with the same columns, written.
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

/// All blocks of rows with the same columns. With uniform values such rows are equal: one is computed, all written.
#[inline(always)]
pub(super) unsafe fn identical<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
) {
    // Wide slabs have no such blocks; a constant condition keeps their bodies from being compiled.
    if const { most_identical_rows(U) < 2 } {
        return;
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
            } else {
                // A constant condition, so that bodies of more rows than a block can have are not compiled.
                if const { most_identical_rows(U) >= 4 } && count == 4 {
                    identical_block::<V, U, 4, FIT>(job, row, mask);
                } else if count == 3 {
                    identical_block::<V, U, 3, FIT>(job, row, mask);
                } else {
                    identical_block::<V, U, 2, FIT>(job, row, mask);
                }
            }
        }
    }
}

/// All blocks of [`SHIFTED_ROWS`] rows whose columns are the first row's, moved by a constant for each.
#[inline(always)]
pub(super) unsafe fn shifted<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
) {
    // SAFETY: rows of a block are of one length, follow each other in the arrays and have moved columns, as the
    // maker of the blocks checked: so a moved column lies inside X because the row's own column does.
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
            fetch_ahead::<V, UNIFORM>(job, start, length * SHIFTED_ROWS);
            let leader_column = *job.columns.get_unchecked(start);
            let moved: [*const V::Element; SHIFTED_ROWS] = std::array::from_fn(|chain| {
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
                    let x = moved[chain].wrapping_offset(distance);
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
