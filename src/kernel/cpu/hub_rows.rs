//! Hub rows, which are too long for one piece: threads compute their canonical spans, whose sums are then added in order.

use std::ops::Range;

use super::Kernels;
use super::grouping::parts_of;
use super::row_layout::RowLayout;
use super::run::{Run, Stores};
use crate::error::Result;
use crate::kernel::order::SPAN;
use crate::matrix::{AlignedBuffer, MultiVectorViewMut};

/// The spans of all hub rows, and a buffer for the spans' sums.
pub(super) struct HubRows<T> {
    rows: Vec<usize>,
    /// Index of each hub row's first span, followed by the number of spans.
    first_spans: Vec<usize>,
    starts: Vec<u64>,
    lengths: Vec<u32>,
    pieces: Vec<Range<usize>>,
    partial_sums: AlignedBuffer<T>,
}

impl<T: Kernels> HubRows<T> {
    /// The rows longer than `longest`, their spans divided into `pieces` pieces; none if no row is longer.
    pub fn collect(
        layout: RowLayout<'_, T>,
        k: usize,
        longest: usize,
        pieces: usize,
    ) -> Result<Option<Self>> {
        let rows: Vec<usize> = (0..layout.rows()).filter(|&row| layout.length(row) > longest).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let mut first_spans = vec![0];
        let mut starts = Vec::new();
        let mut lengths = Vec::new();
        for &row in &rows {
            for (start, length) in parts_of(layout, row, SPAN) {
                starts.push(start);
                lengths.push(length);
            }
            first_spans.push(starts.len());
        }
        let count = lengths.len();
        let step = count.div_ceil(pieces.max(1));
        let pieces = (0..count).step_by(step).map(|begin| begin..(begin + step).min(count)).collect();
        let partial_sums = AlignedBuffer::zeroed(count * k)?;
        Ok(Some(Self { rows, first_spans, starts, lengths, pieces, partial_sums }))
    }

    /// Indices of the hub rows.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Computes the sums of all spans, and calls `others` in parallel.
    pub fn compute(&mut self, run: &Run<'_, T>, others: impl FnOnce() + Send) -> Result<()> {
        let layout = RowLayout { starts: &self.starts, lengths: Some(&self.lengths), ..run.layout };
        let run = Run { layout, longest: usize::MAX, ..run.unscaled() };
        let k = run.x.k();
        let sums = MultiVectorViewMut::try_new(&mut self.partial_sums, self.lengths.len(), k, k)?;
        rayon::join(|| run.ranges(&self.pieces, sums), others);
        Ok(())
    }

    /// Stores the scaled sum of the spans, first to last, of each hub row in `y`.
    pub fn finish(&mut self, stores: Stores<T>, y: &mut MultiVectorViewMut<'_, T>) {
        let k = y.k();
        for (&row, range) in self.rows.iter().zip(self.first_spans.windows(2)) {
            stores.store_parts(&mut self.partial_sums[range[0] * k..range[1] * k], y.row_mut(row));
        }
    }
}
