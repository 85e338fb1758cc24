//! One execution of a prepared product: the arguments common to all pieces, and the only calls of compiled code.

#![allow(unsafe_code)] // calls the SIMD leaves

use std::ops::Range;

use rowloom_cpu::{
    Block, Bodies, Body, RowCopy, RowJob, ScaledStore, Scaling, SlabShape, fence_streams, slab_widths,
};

use super::Kernels;
use super::row_layout::RowLayout;
use crate::error::{Error, Result};
use crate::kernel::scaling::is_plain;
use crate::machine::Isa;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};

/// Consecutive columns of X and Y that a body computes in one pass over A.
pub(super) struct Slab<T> {
    first_column: usize,
    /// For an X whose rows are contiguous.
    packed: Bodies<T>,
    /// For an X with any leading dimension.
    strided_x: Bodies<T>,
}

impl<T: Kernels> Slab<T> {
    /// The slabs that `k` columns are divided into, each of at most `most_units` registers. An error if a slab has no compiled
    /// body.
    pub fn all(isa: Isa, k: usize, most_units: usize, uniform: bool) -> Result<Vec<Self>> {
        let mut first_column = 0;
        slab_widths::<T>(isa, k, most_units)
            .into_iter()
            .map(|width| {
                let bodies = |packed| {
                    T::select(isa, SlabShape { width, packed, uniform }).ok_or_else(|| {
                        Error::Internal(format!("no compiled loop computes {width} columns with {isa:?}"))
                    })
                };
                let slab = Self { first_column, packed: bodies(width == k)?, strided_x: bodies(false)? };
                first_column += width;
                Ok(slab)
            })
            .collect()
    }

    /// Whether there are bodies for blocks of rows with shifted columns.
    pub fn takes_shifted(&self) -> bool {
        self.packed.shifted.is_some() && self.strided_x.shifted.is_some()
    }

    /// Maximal number of rows of a block with identical columns; 1 means that there is no body for such blocks.
    pub fn most_identical_rows(&self) -> usize {
        let most = |bodies: &Bodies<T>| bodies.identical.map_or(1, |identical| identical.most_rows);
        most(&self.packed).min(most(&self.strided_x))
    }
}

/// How the sums of rows become rows of Y.
#[derive(Clone, Copy)]
pub(super) struct Stores<T> {
    scaling: Scaling<T>,
    store: ScaledStore<T>,
}

impl<T: Kernels> Stores<T> {
    /// The stores of one execution; the processor must have the instruction set `isa`.
    pub fn new(isa: Isa, scaling: Scaling<T>) -> Self {
        Self { scaling, store: T::scaled_store(isa) }
    }

    /// Whether the old Y has an effect.
    pub fn reads_old(&self) -> bool {
        self.scaling.reads_old()
    }

    /// Whether Y is the sum of A X itself.
    pub fn is_plain(&self) -> bool {
        is_plain(self.scaling)
    }

    /// Stores scaled sums that were computed to a buffer.
    pub fn store(&self, sums: &[T], y: &mut [T]) {
        // SAFETY: `isa` was detected on this processor, as for the bodies.
        unsafe { (self.store)(self.scaling, sums, y) }
    }

    /// Adds the parts of a row, first to last, and stores their scaled sum in `row`; without parts, `row` is unchanged. `parts`
    /// has the rows of the parts one after the other; its first row is overwritten.
    pub fn store_parts(&self, parts: &mut [T], row: &mut [T]) {
        let Some((sum, others)) = parts.split_at_mut_checked(row.len()) else { return };
        for part in others.chunks_exact(row.len()) {
            sum.iter_mut().zip(part).for_each(|(sum, &value)| *sum = sum.plus(value));
        }
        self.store(sum, row);
    }
}

/// Rows for one call of a body.
#[derive(Clone, Copy)]
pub(super) enum Group<'a> {
    /// All rows of the range, or those of `order`; `targets` maps segments to rows, whose sums are not scaled.
    Rows { order: Option<&'a [u32]>, targets: Option<&'a [u32]> },
    /// Blocks of rows with identical columns.
    Identical(&'a [Block]),
    /// Blocks of rows whose columns differ by a constant shift.
    Shifted(&'a [Block]),
}

impl Group<'_> {
    /// All rows in storage order.
    pub const ALL: Group<'static> = Group::Rows { order: None, targets: None };
}

/// The arguments common to all pieces of one execution.
#[derive(Clone, Copy)]
pub(super) struct Run<'a, T: Kernels> {
    pub layout: RowLayout<'a, T>,
    pub x: MultiVectorView<'a, T>,
    pub slabs: &'a [Slab<T>],
    pub stores: Stores<T>,
    /// Rows longer than this are skipped; hub rows are computed separately.
    pub longest: usize,
    pub stream: bool,
    pub prefetch: usize,
}

impl<'a, T: Kernels> Run<'a, T> {
    /// An error unless X and Y have the shapes that the product was prepared for.
    pub fn check_shapes(
        rows: usize,
        cols: usize,
        k: usize,
        x: &MultiVectorView<'_, T>,
        y: &MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        if x.rows() == cols && y.rows() == rows && x.k() == k && y.k() == k {
            return Ok(());
        }
        Err(Error::usage(format!(
            "the product is prepared for a {rows} x {cols} matrix and k = {k}, but X is {} x {} and Y is {} x {}",
            x.rows(),
            x.k(),
            y.rows(),
            y.k()
        )))
    }

    /// Whether every slab of every row of `y` starts at a cache line, which non-temporal stores require.
    pub fn can_stream(slabs: &[Slab<T>], y: &mut MultiVectorViewMut<'_, T>) -> bool {
        let on_line = |elements: usize| (elements * size_of::<T>()).is_multiple_of(64);
        on_line(y.leading_dimension())
            && (y.data_mut().as_ptr() as usize).is_multiple_of(64)
            && slabs.iter().all(|slab| on_line(slab.first_column))
    }

    /// The same run with unscaled sums and plain stores, for buffers of partial sums.
    pub fn unscaled(self) -> Self {
        let scaling = Scaling { alpha: T::ONE, beta: T::ZERO };
        Self { stores: Stores { scaling, ..self.stores }, stream: false, ..self }
    }

    /// Computes `ranges` by parallel recursive halving; `y` holds exactly their rows.
    pub fn ranges(&self, ranges: &[Range<usize>], mut y: MultiVectorViewMut<'_, T>) {
        match ranges {
            [] => {}
            [range] => {
                for slab in self.slabs {
                    self.compute(slab, range.clone(), Group::ALL, &mut y);
                }
            }
            _ => {
                let (left, right) = ranges.split_at(ranges.len() / 2);
                let (top, bottom) = y.split_at_row(right[0].start - left[0].start);
                rayon::join(|| self.ranges(left, top), || self.ranges(right, bottom));
            }
        }
    }

    /// Computes one slab of one group of rows; `y` starts at the first of `rows`, or at the origin of the targets.
    pub fn compute(
        &self,
        slab: &Slab<T>,
        rows: Range<usize>,
        group: Group<'_>,
        y: &mut MultiVectorViewMut<'_, T>,
    ) {
        self.compute_and_copy(slab, rows, group, y, None);
    }

    /// The same, with a copy of the rows in `copy`, which starts at the row of its number. The group must have no other rows than `copy`.
    pub fn compute_and_copy(
        &self,
        slab: &Slab<T>,
        rows: Range<usize>,
        group: Group<'_>,
        y: &mut MultiVectorViewMut<'_, T>,
        copy: Option<(usize, &mut MultiVectorViewMut<'_, T>)>,
    ) {
        let packed = self.x.leading_dimension() == self.x.k();
        let bodies = if packed { &slab.packed } else { &slab.strided_x };
        let body_of = |body: Option<Body<T>>| body.expect("`Grouping::check` found a body for every block");
        let (body, blocks, order, targets): (Body<T>, &[Block], _, _) = match group {
            // Y may have no rows, and then no element at the first column of the slab: all rows are hub rows.
            Group::Identical([]) | Group::Shifted([]) => return,
            Group::Rows { .. } if y.rows() == 0 => return,
            Group::Identical(blocks) => {
                (body_of(bodies.identical.map(|identical| identical.body)), blocks, None, None)
            }
            Group::Shifted(blocks) => (body_of(bodies.shifted), blocks, None, None),
            Group::Rows { order, targets } if self.layout.stride == 1 => (bodies.rows, &[], order, targets),
            Group::Rows { order, targets } => (bodies.strided, &[], order, targets),
        };
        let x = self.x.data();
        let job = RowJob {
            starts: self.layout.starts,
            lengths: self.layout.lengths,
            columns: self.layout.columns,
            values: self.layout.values,
            stride: self.layout.stride,
            x: x[slab.first_column.min(x.len())..].as_ptr(),
            x_leading_dimension: self.x.leading_dimension(),
            y_leading_dimension: y.leading_dimension(),
            y: y.data_mut()[slab.first_column..].as_mut_ptr(),
            first_row: rows.start,
            count: order.map_or(rows.len(), <[u32]>::len),
            order,
            blocks,
            longest: self.longest,
            tail_lanes: bodies.tail_lanes,
            scaling: (!self.stores.is_plain()).then_some(self.stores.scaling),
            stream: self.stream,
            prefetch: self.prefetch,
            targets,
            copy: copy.map(|(first_row, copy)| RowCopy {
                leading_dimension: copy.leading_dimension(),
                to: copy.data_mut()[slab.first_column..].as_mut_ptr(),
                first_row,
            }),
        };
        // SAFETY: formats are checked when they are built (entries inside their arrays, columns inside the matrix);
        // `check_shapes` passed, so X has a row for every column, and X and Y have the `k` columns that slabs divide; `y`
        // is borrowed for these rows alone. `isa` was detected on this processor before the body was selected.
        unsafe { body(&job) }
        if self.stream {
            fence_streams();
        }
    }
}
