//! The bodies of the row kernels: canonical chains of multiply-adds, several at a time.
//!
//! One chain alone waits for each multiply-add to finish before the next can start, so rows (or segments of a long
//! row) are taken `R` at a time: their chains are independent and fill the pipeline. Which rows share a batch
//! changes nothing in any chain, hence nothing in the result. The chains of a row, one a segment, are added first
//! to last.
//!
//! Const parameters: `U` registers hold a row of the slab, `R` chains run together, `FIT` says how the slab fills its
//! registers, `UNIFORM` that all values are equal and only the first is read, `STRIDED` that a row's entries are apart.

#![allow(unsafe_code)]
// SIMD leaf

// Loops over constant numbers of chains and registers are written with indices, so that they unroll alike for every
// array they touch.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use crate::number::Number;
use crate::vector::Vector;
use crate::{FIRST_OF_ROW, LONGEST_TOGETHER, SEGMENT, SPAN};

/// Rows to compute, and everything their chains read and write.
///
/// Whoever makes one promises: rows are inside the layout, every entry lies inside `columns` and `values`, every
/// column inside X, and `y` points at memory for all rows named, owned by this job alone.
pub struct RowJob<'a, T> {
    /// Where each row starts in `columns` and `values`.
    pub starts: &'a [u64],
    /// How long each row is; without it a row ends where the next one starts.
    pub lengths: Option<&'a [u32]>,
    /// Column of each entry.
    pub columns: &'a [u32],
    /// Value of each entry.
    pub values: &'a [T],
    /// Distance of a row's entries; one unless the kernel is compiled for strides.
    pub stride: usize,
    /// First element of the slab in X's first row.
    pub x: *const T,
    /// Distance of X's rows.
    pub x_leading_dimension: usize,
    /// First element of the slab in Y's row `first_row`.
    pub y: *mut T,
    /// Distance of Y's rows.
    pub y_leading_dimension: usize,
    /// The row that others are counted from.
    pub first_row: usize,
    /// Rows to take, `order`'s or those from `first_row` on.
    pub count: usize,
    /// The rows in the order they are taken, relative to `first_row`; without it, ascending.
    pub order: Option<&'a [u32]>,
    /// Blocks of rows with one pattern; other bodies than `rows` take these.
    pub blocks: &'a [Block],
    /// Rows longer than this are left to someone else.
    pub longest: usize,
    /// Columns of the slab in the last register.
    pub tail_lanes: usize,
    /// Y goes past the caches; its rows must then be aligned to a cache line.
    pub stream: bool,
    /// How many nonzeros ahead rows of X are fetched; zero for not at all.
    pub prefetch: usize,
    /// Where each row goes when rows are segments of longer ones: a row of Y counted from `first_row`, with
    /// [`FIRST_OF_ROW`] set where it is written and not added.
    pub targets: Option<&'a [u32]>,
}

/// Consecutive rows of one length with the same columns, or with columns moved by a constant from row to row.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// The first row, relative to the job's.
    pub leader: u32,
    /// Number of rows.
    pub count: u32,
}

/// The slab is all of X and its rows follow each other: their distance is known when the kernel is compiled.
pub(super) const PACKED: u8 = 0;
/// The slab fills its registers; rows are any distance apart.
pub(super) const FULL: u8 = 1;
/// The slab's last register is not full.
pub(super) const MASKED: u8 = 2;

impl<T: Number> RowJob<'_, T> {
    /// The slab's part of the row of X that belongs to a column.
    #[inline(always)]
    pub(super) unsafe fn x_row<V: Vector<Element = T>, const U: usize, const FIT: u8>(
        &self,
        column: u32,
    ) -> *const T {
        let distance = if FIT == PACKED { U * V::LANES } else { self.x_leading_dimension };
        // SAFETY: columns lie inside X.
        unsafe { self.x.add(column as usize * distance) }
    }

    /// Where an entry of a row lies.
    #[inline(always)]
    fn entry<const STRIDED: bool>(&self, start: usize, offset: usize) -> usize {
        if STRIDED { start + offset * self.stride } else { start + offset }
    }

    #[inline(always)]
    pub(super) fn extent(&self, row: usize) -> (usize, usize) {
        // SAFETY: the maker of the job promises that `row` is inside the layout.
        unsafe {
            let start = *self.starts.get_unchecked(row);
            let length = match self.lengths {
                Some(lengths) => u64::from(*lengths.get_unchecked(row)),
                None => *self.starts.get_unchecked(row + 1) - start,
            };
            (start as usize, length as usize)
        }
    }
}

/// Narrower slabs gain nothing from fetching ahead: the processor's own window reaches far enough.
const FEWEST_UNITS_PREFETCHED: usize = 3;

/// One multiply-add of a nonzero with its row of X.
#[inline(always)]
unsafe fn step<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    position: usize,
    uniform: V,
    mask: V::Mask,
    sums: &mut [V; U],
) {
    // SAFETY: `position` is inside a row of the job, so the job's promises cover every access here.
    unsafe {
        let x = job.x_row::<V, U, FIT>(*job.columns.get_unchecked(position));
        if U >= FEWEST_UNITS_PREFETCHED && job.prefetch > 0 {
            let ahead = (position + job.prefetch).min(job.columns.len() - 1);
            let next = job.x_row::<V, U, FIT>(*job.columns.get_unchecked(ahead));
            for unit in 0..U {
                V::prefetch(next.add(unit * V::LANES));
            }
        }
        let value = if UNIFORM { uniform } else { V::splat(*job.values.get_unchecked(position)) };
        for unit in 0..U {
            let from = x.add(unit * V::LANES);
            let x = if FIT == MASKED && unit == U - 1 { V::load_masked(from, mask) } else { V::load(from) };
            sums[unit] = value.multiply_add(x, sums[unit]);
        }
    }
}

/// The entries `from..to` of the first `A` chains, side by side.
#[inline(always)]
unsafe fn together<
    V: Vector,
    const U: usize,
    const R: usize,
    const A: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
    starts: &[usize; R],
    span: Range<usize>,
    uniform: V,
    mask: V::Mask,
    sums: &mut [[V; U]; R],
) {
    for offset in span {
        for chain in 0..A.min(R) {
            let position = job.entry::<STRIDED>(starts[chain], offset);
            // SAFETY: the caller's chains reach at least to the end of the span.
            unsafe { step::<V, U, FIT, UNIFORM>(job, position, uniform, mask, &mut sums[chain]) };
        }
    }
}

/// `R` chains of their own starts and lengths, the longest first: all run together until the shortest ends, then one
/// fewer, so that no chain waits alone for longer than it must.
#[inline(always)]
unsafe fn chains<
    V: Vector,
    const U: usize,
    const R: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
    starts: [usize; R],
    lengths: [usize; R],
    uniform: V,
    mask: V::Mask,
) -> [[V; U]; R] {
    // SAFETY: as `step`, for every position of every chain.
    unsafe {
        let mut sums = [[V::zero(); U]; R];
        let end = |chain: usize| if chain < R { lengths[chain] } else { 0 };
        together::<V, U, R, 4, FIT, UNIFORM, STRIDED>(job, &starts, 0..end(3), uniform, mask, &mut sums);
        together::<V, U, R, 3, FIT, UNIFORM, STRIDED>(job, &starts, end(3)..end(2), uniform, mask, &mut sums);
        together::<V, U, R, 2, FIT, UNIFORM, STRIDED>(job, &starts, end(2)..end(1), uniform, mask, &mut sums);
        together::<V, U, R, 1, FIT, UNIFORM, STRIDED>(job, &starts, end(1)..end(0), uniform, mask, &mut sums);
        sums
    }
}

/// `R` rows of their own starts and lengths, the longest first: each is the sum of its segments' chains. A row of length
/// zero gives zero.
#[inline(always)]
unsafe fn rows_together<
    V: Vector,
    const U: usize,
    const R: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
    starts: [usize; R],
    lengths: [usize; R],
    uniform: V,
    mask: V::Mask,
) -> [[V; U]; R] {
    // SAFETY: as `chains`; these are parts of the rows.
    unsafe {
        let mut totals = [[V::zero(); U]; R];
        let mut done = 0;
        while done < lengths[0] {
            let part_starts = starts.map(|start| job.entry::<STRIDED>(start, done));
            let part_lengths = lengths.map(|length| length.saturating_sub(done).min(SEGMENT));
            let parts =
                chains::<V, U, R, FIT, UNIFORM, STRIDED>(job, part_starts, part_lengths, uniform, mask);
            for row in 0..R {
                if done == 0 || part_lengths[row] > 0 {
                    add_part(&mut totals[row], parts[row], done == 0);
                }
            }
            done += SEGMENT;
        }
        totals
    }
}

/// Adds a part to a sum, which begins with the first: added to zero, a negative zero would not stay one.
#[inline(always)]
pub(super) unsafe fn add_part<V: Vector, const U: usize>(total: &mut [V; U], part: [V; U], is_first: bool) {
    for unit in 0..U {
        // SAFETY: only arithmetic; the caller runs where `V` may.
        total[unit] = if is_first { part[unit] } else { unsafe { total[unit].add(part[unit]) } };
    }
}

/// A row that starts at `start`: the sum of its spans, each the sum of its segments' chains, `R` of which are computed at a
/// time.
#[inline(always)]
unsafe fn row_sum<
    V: Vector,
    const U: usize,
    const R: usize,
    const FIT: u8,
    const UNIFORM: bool,
    const STRIDED: bool,
>(
    job: &RowJob<V::Element>,
    start: usize,
    length: usize,
    uniform: V,
    mask: V::Mask,
) -> [V; U] {
    // SAFETY: as `chains`; segments are parts of the row.
    unsafe {
        let (mut total, mut span) = ([V::zero(); U], [V::zero(); U]);
        let mut done = 0;
        while done < length {
            let starts = std::array::from_fn(|segment| job.entry::<STRIDED>(start, done + segment * SEGMENT));
            let lengths: [usize; R] =
                std::array::from_fn(|segment| length.saturating_sub(done + segment * SEGMENT).min(SEGMENT));
            let parts = chains::<V, U, R, FIT, UNIFORM, STRIDED>(job, starts, lengths, uniform, mask);
            for segment in 0..R {
                if lengths[segment] > 0 {
                    let at = done + segment * SEGMENT;
                    let begins_span = at.is_multiple_of(SPAN);
                    if begins_span && at > 0 {
                        add_part(&mut total, span, at == SPAN);
                    }
                    add_part(&mut span, parts[segment], begins_span);
                }
            }
            done += R * SEGMENT;
        }
        if length <= SPAN {
            return span;
        }
        add_part(&mut total, span, false);
        total
    }
}

/// Writes a finished row of the slab.
#[inline(always)]
pub(super) unsafe fn finish<V: Vector, const U: usize, const FIT: u8>(
    job: &RowJob<V::Element>,
    row: usize,
    sums: [V; U],
    mask: V::Mask,
) {
    // SAFETY: the job owns this row of Y; it asks for streaming only where rows are aligned.
    unsafe {
        if let Some(targets) = job.targets {
            let target = *targets.get_unchecked(row);
            let y = job.y.add((target & !FIRST_OF_ROW) as usize * job.y_leading_dimension);
            return add_to::<V, U, FIT>(y, target & FIRST_OF_ROW != 0, sums, mask);
        }
        let y = job.y.add((row - job.first_row) * job.y_leading_dimension);
        for unit in 0..U {
            let to = y.add(unit * V::LANES);
            if FIT == MASKED && unit == U - 1 {
                sums[unit].store_masked(to, mask);
            } else if job.stream {
                sums[unit].stream(to);
            } else {
                sums[unit].store(to);
            }
        }
    }
}

/// Adds a segment's chain to its row of Y, or starts the row with it.
#[inline(always)]
unsafe fn add_to<V: Vector, const U: usize, const FIT: u8>(
    y: *mut V::Element,
    is_first: bool,
    sums: [V; U],
    mask: V::Mask,
) {
    // SAFETY: as `finish`.
    unsafe {
        for unit in 0..U {
            let to = y.add(unit * V::LANES);
            if FIT == MASKED && unit == U - 1 {
                let sum = if is_first { sums[unit] } else { V::load_masked(to, mask).add(sums[unit]) };
                sum.store_masked(to, mask);
            } else {
                let sum = if is_first { sums[unit] } else { V::load(to).add(sums[unit]) };
                sum.store(to);
            }
        }
    }
}

/// Sorts up to four chains by length. Only neighbours change places, so chains of one length keep their order: the
/// segments of a row must be added in it.
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

/// All rows of the job but those left out for their length.
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
    // SAFETY: the job's promises; rows are taken from its range only.
    unsafe {
        let mask = V::mask(job.tail_lanes);
        let uniform = if UNIFORM { V::splat(job.values[0]) } else { V::zero() };
        let count = job.count;
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
                let mut taken: [usize; R] = std::array::from_fn(|chain| row_at(index + chain));
                let mut starts = [0; R];
                let mut lengths = [0; R];
                let mut longest = 0;
                for chain in 0..R {
                    (starts[chain], lengths[chain]) = job.extent(taken[chain]);
                    longest = longest.max(lengths[chain]);
                }
                if longest <= LONGEST_TOGETHER {
                    longest_first(&mut taken, &mut starts, &mut lengths);
                    let sums = if longest <= SEGMENT {
                        chains::<V, U, R, FIT, UNIFORM, STRIDED>(job, starts, lengths, uniform, mask)
                    } else {
                        rows_together::<V, U, R, FIT, UNIFORM, STRIDED>(job, starts, lengths, uniform, mask)
                    };
                    for chain in 0..R {
                        finish::<V, U, FIT>(job, taken[chain], sums[chain], mask);
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

/// One row by itself, of any length.
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
