//! Sliced ELLPACK (SELL-C-σ): rows are sorted by length within windows of σ rows and stored in slices of C lanes, each slice
//! padded to its longest lane and stored by columns.
//!
//! A lane is a row or a part of a row: rows longer than a limit are cut, so that no slice is padded to the length of a hub row.
//! The parts of a row keep their order among the lanes of their window.

use rayon::prelude::*;
pub use rowloom_cpu::FIRST_OF_ROW;

use super::array::check_memory;
use super::csr::CsrView;
use super::ell::PADDING;
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// The parameters of sliced ELLPACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slicing {
    /// Lanes of a slice (C).
    pub height: usize,
    /// Rows of a window, within which rows are sorted by length (σ).
    pub window: usize,
    /// Maximal length of a lane; longer rows are cut at multiples of it.
    pub longest: usize,
    /// Rows longer than this are cut at multiples of it instead of `longest`.
    pub span: usize,
}

/// A lane: its entries and the row they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lane {
    length: u32,
    /// The row, relative to the first of its window.
    row: u32,
    /// Index of its first entry in the CSR arrays.
    source: u64,
    is_first_of_row: bool,
}

/// A sparse matrix in sliced ELLPACK.
#[derive(Debug)]
pub struct SlicedEll<T> {
    rows: usize,
    cols: usize,
    slicing: Slicing,
    nnz: usize,
    window_lanes: Vec<usize>,
    lane_starts: Vec<u64>,
    lane_lengths: Vec<u32>,
    lane_rows: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Scalar> SlicedEll<T> {
    /// Converts `matrix`; an error if the slots would need more than `memory_limit_bytes`.
    pub fn from_csr(matrix: CsrView<'_, T>, slicing: Slicing, memory_limit_bytes: u64) -> Result<Self> {
        let Slicing { height, window, longest, span } = slicing;
        if height == 0 || longest == 0 || span == 0 || window == 0 || window >= FIRST_OF_ROW as usize {
            return Err(Error::usage(format!("invalid slicing: {slicing:?}")));
        }
        let window_count = matrix.rows().div_ceil(window);
        let windows: Vec<Vec<Lane>> = (0..window_count)
            .into_par_iter()
            .map(|index| lanes(matrix, index * window..((index + 1) * window).min(matrix.rows()), slicing))
            .collect();

        let slots_of = |lanes: &[Lane]| {
            lanes
                .chunks(height)
                .map(|slice| slice.first().map_or(0, |lane| lane.length as usize) * height)
                .sum()
        };
        let slots: Vec<usize> = windows.iter().map(|lanes| slots_of(lanes)).collect();
        let total: usize = slots.iter().sum();
        let needed = total as u64 * (4 + size_of::<T>() as u64);
        if needed > memory_limit_bytes {
            return Err(Error::DoesNotFit {
                what: format!("sliced ELLPACK with {total} slots"),
                needed_bytes: needed,
                limit_bytes: memory_limit_bytes,
                advice: "use CSR, which stores no padding".into(),
            });
        }

        check_memory("sliced ELLPACK", needed)?;

        let mut result = Self {
            rows: matrix.rows(),
            cols: matrix.cols(),
            slicing,
            nnz: matrix.nnz(),
            window_lanes: vec![0],
            lane_starts: Vec::new(),
            lane_lengths: Vec::new(),
            lane_rows: Vec::new(),
            columns: vec![PADDING; total],
            values: vec![T::ZERO; total],
        };
        let mut base = 0;
        for lanes in &windows {
            for slice in lanes.chunks(height) {
                for (lane, index) in slice.iter().zip(0..) {
                    result.lane_starts.push(base + index);
                    result.lane_lengths.push(lane.length);
                    result.lane_rows.push(lane.row | if lane.is_first_of_row { FIRST_OF_ROW } else { 0 });
                }
                base += (slice[0].length as usize * height) as u64;
            }
            result.window_lanes.push(result.lane_starts.len());
        }

        let mut parts = Vec::with_capacity(windows.len());
        let (mut columns, mut values) = (&mut result.columns[..], &mut result.values[..]);
        for (lanes, &slots) in windows.iter().zip(&slots) {
            let (own_columns, rest_columns) = columns.split_at_mut(slots);
            let (own_values, rest_values) = values.split_at_mut(slots);
            (columns, values) = (rest_columns, rest_values);
            parts.push((lanes, own_columns, own_values));
        }
        parts.into_par_iter().for_each(|(lanes, columns, values)| {
            let mut base = 0;
            for slice in lanes.chunks(height) {
                for (index, lane) in slice.iter().enumerate() {
                    for offset in 0..lane.length as usize {
                        let source = lane.source as usize + offset;
                        columns[base + offset * height + index] = matrix.columns()[source];
                        values[base + offset * height + index] = matrix.values()[source];
                    }
                }
                base += slice[0].length as usize * height;
            }
        });
        Ok(result)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of entries, without padding.
    pub fn nnz(&self) -> usize {
        self.nnz
    }

    /// Its parameters.
    pub fn slicing(&self) -> Slicing {
        self.slicing
    }

    /// Index of each window's first lane, followed by the number of lanes.
    pub fn window_lanes(&self) -> &[usize] {
        &self.window_lanes
    }

    /// Slot of each lane's first entry; the next entries follow at a distance of [`Slicing::height`].
    pub fn lane_starts(&self) -> &[u64] {
        &self.lane_starts
    }

    /// Number of entries of each lane.
    pub fn lane_lengths(&self) -> &[u32] {
        &self.lane_lengths
    }

    /// Row of each lane, relative to the first of its window, with [`FIRST_OF_ROW`] set for the first part of a row.
    pub fn lane_rows(&self) -> &[u32] {
        &self.lane_rows
    }

    /// Columns of all slots.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Values of all slots.
    pub fn values(&self) -> &[T] {
        &self.values
    }
}

/// The lanes of `rows`, longest first; lanes of equal length keep their order.
fn lanes<T: Scalar>(matrix: CsrView<'_, T>, rows: std::ops::Range<usize>, slicing: Slicing) -> Vec<Lane> {
    let mut lanes = Vec::with_capacity(rows.len());
    for (row, index) in rows.zip(0..) {
        let range = matrix.row_range(row);
        let most = if range.len() > slicing.span { slicing.span } else { slicing.longest };
        let mut begin = range.start;
        loop {
            let end = range.end.min(begin + most);
            lanes.push(Lane {
                length: (end - begin) as u32,
                row: index,
                source: begin as u64,
                is_first_of_row: begin == range.start,
            });
            begin = end;
            if begin == range.end {
                break;
            }
        }
    }
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.length));
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;
    use proptest::prelude::*;

    /// Every entry as (row, column, value bits), in row order, read lane by lane.
    fn entries(sell: &SlicedEll<f64>) -> Vec<(usize, u32, u64)> {
        let mut entries = Vec::new();
        for (window, lanes) in sell.window_lanes().windows(2).enumerate() {
            for lane in lanes[0]..lanes[1] {
                let row = window * sell.slicing().window + (sell.lane_rows()[lane] & !FIRST_OF_ROW) as usize;
                for offset in 0..sell.lane_lengths()[lane] as usize {
                    let slot = sell.lane_starts()[lane] as usize + offset * sell.slicing().height;
                    entries.push((row, sell.columns()[slot], sell.values()[slot].to_bits()));
                }
            }
        }
        // Stable: entries of a row keep the order of its lanes.
        entries.sort_by_key(|entry| entry.0);
        entries
    }

    proptest! {
        #[test]
        fn slices_store_every_entry_once_and_in_order(
            seed in 0u64..1000, height in 1usize..9, window in 1usize..70, longest in 1usize..40, spans in 1usize..4,
        ) {
            let matrix = generate::<f64>("hub,rows=100,degree=3,hubs=2", seed, u64::MAX).unwrap().matrix;
            let slicing = Slicing { height, window, longest, span: spans * longest };
            let sell = SlicedEll::from_csr(matrix.view(), slicing, u64::MAX).unwrap();
            let view = matrix.view();
            let expected: Vec<_> = (0..100)
                .flat_map(|row| view.row_range(row).map(move |at| (row, at)))
                .map(|(row, at)| (row, view.columns()[at], view.values()[at].to_bits()))
                .collect();
            prop_assert_eq!(entries(&sell), expected);
            prop_assert!(sell.columns.len() >= sell.nnz);
        }
    }

    #[test]
    fn padding_beyond_the_limit_is_refused() {
        let matrix = generate::<f64>("hub,rows=100,degree=3,hubs=2", 1, u64::MAX).unwrap().matrix;
        let slicing = Slicing { height: 8, window: 64, longest: 256, span: 256 };
        let error = SlicedEll::from_csr(matrix.view(), slicing, 1000).unwrap_err();
        assert!(error.to_string().contains("CSR"), "{error}");
    }
}
