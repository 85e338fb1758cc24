//! Canonical chains of multiply-adds, several at a time, and the stores of their sums: what the loops of `rows` and `blocks` call.
//!
//! A single chain is bound by the latency of dependent multiply-adds, so `R` rows (or segments of a long row) are computed at a
//! time: their chains are independent and fill the pipeline. The choice of rows that are computed together does not change a
//! chain, hence not the result. The chains of a row, one per segment, are added first to last.
//!
//! Const parameters: `U` registers hold a row of the slab, `R` chains run concurrently, `FIT` is how the slab fills its registers,
//! `UNIFORM` means that all values are equal and only the first is read, `STRIDED` that a row's entries have a stride.

#![allow(unsafe_code)]
// SIMD leaf

// Loops over constant numbers of chains and registers are written with indices, so that they unroll in the same way for every
// array.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use crate::number::Number;
use crate::scaling::Scaling;
use crate::vector::Vector;
use crate::{FIRST_OF_ROW, SEGMENT, SPAN};

/// Rows to compute, and the arrays that their chains read and write.
///
/// Contract of the creator: rows are inside the layout, every entry is inside `columns` and `values`, every column is inside X,
/// and `y` points to memory for all rows of the job, which no other code accesses during the call.
pub struct RowJob<'a, T> {
    /// Start of each row in `columns` and `values`.
    pub starts: &'a [u64],
    /// Length of each row; if none, a row ends where the next one starts.
    pub lengths: Option<&'a [u32]>,
    /// Column of each entry.
    pub columns: &'a [u32],
    /// Value of each entry.
    pub values: &'a [T],
    /// Distance between consecutive entries of a row; 1 unless the body is compiled for strides.
    pub stride: usize,
    /// First element of the slab in X's first row.
    pub x: *const T,
    /// Leading dimension of X.
    pub x_leading_dimension: usize,
    /// First element of the slab in Y's row `first_row`.
    pub y: *mut T,
    /// Leading dimension of Y.
    pub y_leading_dimension: usize,
    /// The row to which `order`, `blocks` and `y` are relative.
    pub first_row: usize,
    /// Number of rows: those of `order`, or those from `first_row` on.
    pub count: usize,
    /// The rows in the order of computation, relative to `first_row`; if none, ascending.
    pub order: Option<&'a [u32]>,
    /// Blocks of rows with a common pattern, for the bodies `identical` and `shifted`.
    pub blocks: &'a [Block],
    /// Rows longer than this are skipped.
    pub longest: usize,
    /// Number of columns in the last register of the slab.
    pub tail_lanes: usize,
    /// The scaling of rows without `targets`; if none, `y` is the sum. The old `y` must be initialized if it is read.
    pub scaling: Option<Scaling<T>>,
    /// Whether Y is written with non-temporal stores; its rows must then be aligned to a cache line.
    pub stream: bool,
    /// Distance in nonzeros at which rows of X are prefetched; 0 disables prefetching.
    pub prefetch: usize,
    /// Target of each row if rows are segments of longer rows: a row of `y`, with [`FIRST_OF_ROW`] set if the segment is stored
    /// and not added.
    pub targets: Option<&'a [u32]>,
    /// A second place for the rows of Y; without effect on rows with `targets`.
    pub copy: Option<RowCopy<T>>,
}

/// Memory for a copy of rows, which no other code accesses during the call.
#[derive(Debug, Clone, Copy)]
pub struct RowCopy<T> {
    /// First element of the slab in the copy of row `first_row`.
    pub to: *mut T,
    /// The row that `to` points to.
    pub first_row: usize,
    /// Leading dimension of the copy.
    pub leading_dimension: usize,
}

/// Consecutive rows of one length with identical columns, or with columns that differ by a constant per row.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// The first row, relative to the job's first row.
    pub leader: u32,
    /// Number of rows.
    pub count: u32,
}

/// The slab is all of X and its rows are contiguous: the leading dimension is a compile-time constant.
pub(super) const PACKED: u8 = 0;
/// The slab fills its registers; X has any leading dimension.
pub(super) const FULL: u8 = 1;
/// The slab's last register is not full.
pub(super) const MASKED: u8 = 2;

impl<T: Number> RowJob<'_, T> {
    /// The slab's part of the row of X for a column of A.
    #[inline(always)]
    pub(super) unsafe fn x_row<V: Vector<Element = T>, const U: usize, const FIT: u8>(
        &self,
        column: u32,
    ) -> *const T {
        let distance = if FIT == PACKED { U * V::LANES } else { self.x_leading_dimension };
        // SAFETY: columns are inside X.
        unsafe { self.x.add(column as usize * distance) }
    }

    /// The index of an entry of a row in the arrays.
    #[inline(always)]
    fn entry<const STRIDED: bool>(&self, start: usize, offset: usize) -> usize {
        if STRIDED { start + offset * self.stride } else { start + offset }
    }

    #[inline(always)]
    pub(super) fn extent(&self, row: usize) -> (usize, usize) {
        // SAFETY: by the contract of the job, `row` is inside the layout.
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

/// Loads a register of the slab, of which only the last may be partly filled.
#[inline(always)]
pub(super) unsafe fn load<V: Vector, const FIT: u8>(
    from: *const V::Element,
    is_last: bool,
    mask: V::Mask,
) -> V {
    // SAFETY: the caller's pointer is valid for the slab's lanes at this register.
    unsafe { if FIT == MASKED && is_last { V::load_masked(from, mask) } else { V::load(from) } }
}

/// Minimal registers of a slab for prefetching: for narrower slabs, out-of-order execution reaches far enough ahead.
const MIN_PREFETCH_UNITS: usize = 3;

/// Prefetches the row of X of a nonzero that comes later.
#[inline(always)]
unsafe fn prefetch_x<V: Vector, const U: usize, const FIT: u8>(job: &RowJob<V::Element>, position: usize) {
    if U >= MIN_PREFETCH_UNITS && job.prefetch > 0 {
        // SAFETY: the nonzero is one of the job.
        unsafe {
            let ahead = (position + job.prefetch).min(job.columns.len() - 1);
            let next = job.x_row::<V, U, FIT>(*job.columns.get_unchecked(ahead));
            for unit in 0..U {
                V::prefetch(next.add(unit * V::LANES));
            }
        }
    }
}

/// One multiply-add of a nonzero with its row of X.
#[inline(always)]
unsafe fn step<V: Vector, const U: usize, const FIT: u8, const UNIFORM: bool>(
    job: &RowJob<V::Element>,
    position: usize,
    uniform: V,
    mask: V::Mask,
    sums: &mut [V; U],
) {
    // SAFETY: `position` is inside a row of the job, so the contract of the job covers every access.
    unsafe {
        let x = job.x_row::<V, U, FIT>(*job.columns.get_unchecked(position));
        prefetch_x::<V, U, FIT>(job, position);
        let value = if UNIFORM { uniform } else { V::splat(*job.values.get_unchecked(position)) };
        for unit in 0..U {
            let x = load::<V, FIT>(x.add(unit * V::LANES), unit == U - 1, mask);
            sums[unit] = value.multiply_add(x, sums[unit]);
        }
    }
}

/// Advances the first `A` chains, interleaved, by the entries `span`.
#[inline(always)]
pub(super) unsafe fn advance<
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

/// The sums of `R` chains with individual starts and lengths, longest first. All chains are interleaved until the shortest ends,
/// then one fewer, and so on, which keeps as many chains as possible in the pipeline.
#[inline(always)]
pub(super) unsafe fn chains<
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
        advance::<V, U, R, 4, FIT, UNIFORM, STRIDED>(job, &starts, 0..end(3), uniform, mask, &mut sums);
        advance::<V, U, R, 3, FIT, UNIFORM, STRIDED>(job, &starts, end(3)..end(2), uniform, mask, &mut sums);
        advance::<V, U, R, 2, FIT, UNIFORM, STRIDED>(job, &starts, end(2)..end(1), uniform, mask, &mut sums);
        advance::<V, U, R, 1, FIT, UNIFORM, STRIDED>(job, &starts, end(1)..end(0), uniform, mask, &mut sums);
        sums
    }
}

/// The sums of `R` rows with individual starts and lengths, longest first. Each is the sum of its segments' chains; an empty row
/// gives zero.
#[inline(always)]
pub(super) unsafe fn rows_together<
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
    // SAFETY: as `chains`; segments are parts of the rows.
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

/// Adds a part to a sum. The first part is copied: added to zero, a negative zero would lose its sign.
#[inline(always)]
pub(super) unsafe fn add_part<V: Vector, const U: usize>(total: &mut [V; U], part: [V; U], is_first: bool) {
    for unit in 0..U {
        // SAFETY: arithmetic only; the caller ensures that the processor has the instruction set of `V`.
        total[unit] = if is_first { part[unit] } else { unsafe { total[unit].add(part[unit]) } };
    }
}

/// The sum of a row that starts at `start`: the sum of its spans, each the sum of its segments' chains, of which `R` are computed
/// at a time.
#[inline(always)]
pub(super) unsafe fn row_sum<
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

/// Stores the scaled sums of a row of the slab, or adds them to its target.
#[inline(always)]
pub(super) unsafe fn finish<V: Vector, const U: usize, const FIT: u8>(
    job: &RowJob<V::Element>,
    row: usize,
    mut sums: [V; U],
    mask: V::Mask,
) {
    // SAFETY: by the contract of the job, this row of Y belongs to it, and rows are aligned if `stream` is set.
    unsafe {
        if let Some(targets) = job.targets {
            let target = *targets.get_unchecked(row);
            let y = job.y.add((target & !FIRST_OF_ROW) as usize * job.y_leading_dimension);
            return add_to::<V, U, FIT>(y, target & FIRST_OF_ROW != 0, sums, mask);
        }
        if let Some(scaling) = job.scaling {
            let y = job.y.add((row - job.first_row) * job.y_leading_dimension);
            for unit in 0..U {
                let old = || load::<V, FIT>(y.add(unit * V::LANES), unit == U - 1, mask);
                sums[unit] = scaling.apply_vector(sums[unit], old);
            }
        }
        store_copy::<V, U, FIT>(job, row, sums, mask);
        store::<V, U, FIT>(job, row, sums, mask);
    }
}

/// Stores the sums of a row of the slab in the copy, if the job has one.
#[inline(always)]
pub(super) unsafe fn store_copy<V: Vector, const U: usize, const FIT: u8>(
    job: &RowJob<V::Element>,
    row: usize,
    sums: [V; U],
    mask: V::Mask,
) {
    if let Some(copy) = job.copy {
        // SAFETY: as `finish`.
        unsafe {
            let to = copy.to.add((row - copy.first_row) * copy.leading_dimension);
            add_to::<V, U, FIT>(to, true, sums, mask);
        }
    }
}

/// Stores the sums of a row of the slab in Y.
#[inline(always)]
pub(super) unsafe fn store<V: Vector, const U: usize, const FIT: u8>(
    job: &RowJob<V::Element>,
    row: usize,
    sums: [V; U],
    mask: V::Mask,
) {
    // SAFETY: as `finish`.
    unsafe {
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

/// Adds a segment's chain to its row of Y, or stores it if it is the first.
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
