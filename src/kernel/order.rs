//! The canonical accumulation order, which makes Y independent of how the work is split.
//!
//! A canonical kernel computes `Y(i, k)` as one chain of fused multiply-adds over the row's nonzeros, in storage
//! order, starting at +0. A row longer than [`SEGMENT`] is cut into segments of that length counted from the row's
//! start (the last one may be shorter); each segment is a chain of its own, and the row is the sum of its segments'
//! chains, added first to last. A row longer than [`SPAN`], eight segments, is cut into spans in the same way: each span is the
//! sum of its segments, and the row the sum of its spans. Nothing else enters: not the device, not the number of threads, not
//! where chunks begin. All canonical kernels therefore agree bit for bit.
//!
//! **The segment rule.** A segment has [`SEGMENT`] nonzeros and a span [`SPAN`], counted from the start of the row. A span's sum
//! starts as the sum of its first segment; the sums of its other segments are added in order. The row's sum starts as the sum of
//! its first span; the sums of its other spans are added in order. A row that is divided between lanes, pieces, chunks or devices
//! is cut at segment boundaries only, so every division gives the same partial sums in the same order. Spans let several threads
//! add up a long row in parallel. Each multiplication is fused with its addition (one rounding), and subnormal numbers are kept.
//! The storage order of a row's nonzeros is part of the input: sorting them may change the last bit of Y.
//!
//! `--reproducible` restricts the choice to kernels of this order. The bytes of Y then depend on A, X, K and the precision alone.
//! Without it, a kernel of free order is chosen if its predicted time is more than 3 % shorter.

use super::scaling::scaling;
use crate::matrix::Scalar;

pub use rowloom_cpu::{SEGMENT, SPAN};

/// The order in which a kernel accumulates the nonzeros of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The order defined in this module: the same bits on every device.
    Canonical,
    /// An order that the kernel chooses: correct within the rounding bound.
    Free,
}

/// Number of canonical segments of a row with `length` nonzeros.
pub fn segments(length: usize) -> usize {
    length.div_ceil(SEGMENT)
}

/// Accumulates the sums of a row's segments, first to last, by the segment rule.
pub struct SegmentSums<'a, T> {
    row: &'a mut [T],
    total: Vec<T>,
    span: Vec<T>,
    segments: usize,
}

impl<'a, T: Scalar> SegmentSums<'a, T> {
    /// An empty accumulator; [`Self::finish`] leaves the row's sum in `row`, one element per column of X.
    pub fn new(row: &'a mut [T]) -> Self {
        let (total, span) = (vec![T::ZERO; row.len()], vec![T::ZERO; row.len()]);
        Self { row, total, span, segments: 0 }
    }

    /// Adds the sums of the next segment.
    pub fn add(&mut self, sums: &[T]) {
        if self.segments.is_multiple_of(SPAN / SEGMENT) {
            self.end_span();
            self.span.copy_from_slice(sums);
        } else {
            add(&mut self.span, sums);
        }
        self.segments += 1;
    }

    /// Adds the last span and stores the sum of all segments in `row`, which is unchanged if there are none.
    pub fn finish(self) {
        self.finish_scaled(1.0, 0.0);
    }

    /// As [`Self::finish`], for `row = alpha * sum + beta * row` as [`scaling`](super::scaling) defines it.
    pub fn finish_scaled(mut self, alpha: f64, beta: f64) {
        self.end_span();
        if self.segments > 0 {
            let scaling = scaling::<T>(alpha, beta);
            self.row.iter_mut().zip(&self.total).for_each(|(y, &sum)| *y = scaling.apply(sum, *y));
        }
    }

    fn end_span(&mut self) {
        match self.segments.div_ceil(SPAN / SEGMENT) {
            0 => {}
            1 => self.total.copy_from_slice(&self.span),
            _ => add(&mut self.total, &self.span),
        }
    }
}

fn add<T: Scalar>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = to.plus(*from));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::reference;
    use crate::matrix::{Csr, MultiVector};

    proptest! {
        #[test]
        fn segment_sums_add_up_to_the_reference_product(length in 1..5000usize, seed in 0..1000usize) {
            let value = |at: usize| ((at * 37 + seed) % 1009) as f64 / 7.0 - 60.3;
            let values: Vec<f64> = (0..length).map(value).collect();
            let columns: Vec<u32> = (0..length as u32).collect();
            let x = MultiVector::from_fn(length, 2, |row, k| (row % 17) as f64 - 8.9 + k as f64).unwrap();
            let whole = Csr::try_new(1, length, vec![0, length as u64], columns.clone(), values.clone()).unwrap();
            let mut expected = MultiVector::zeros(1, 2).unwrap();
            reference::csr(whole.view(), x.view(), &mut expected.view_mut()).unwrap();
            // The same nonzeros as a matrix with one row per segment.
            let pointers: Vec<u64> = (0..length as u64).step_by(SEGMENT).chain([length as u64]).collect();
            let cut = Csr::try_new(segments(length), length, pointers, columns, values).unwrap();
            let mut parts = MultiVector::zeros(segments(length), 2).unwrap();
            reference::csr(cut.view(), x.view(), &mut parts.view_mut()).unwrap();
            let mut row = [0.0; 2];
            let mut sums = SegmentSums::new(&mut row);
            (0..segments(length)).for_each(|segment| sums.add(parts.row(segment)));
            sums.finish();
            prop_assert_eq!(&row[..], expected.row(0));
            let mut row = [7.5, -0.3];
            let mut sums = SegmentSums::new(&mut row);
            (0..segments(length)).for_each(|segment| sums.add(parts.row(segment)));
            sums.finish_scaled(-0.7, 1.0 / 3.0);
            let scaling = scaling::<f64>(-0.7, 1.0 / 3.0);
            let scaled = [scaling.apply(expected.row(0)[0], 7.5), scaling.apply(expected.row(0)[1], -0.3)];
            prop_assert_eq!(row, scaled);
        }
    }

    #[test]
    fn a_sum_of_negative_zeros_is_negative_zero() {
        let mut row = [1.0f64];
        let mut sums = SegmentSums::new(&mut row);
        (0..20).for_each(|_| sums.add(&[-0.0]));
        sums.finish();
        assert_eq!(row[0].to_bits(), (-0.0f64).to_bits());
    }
}
