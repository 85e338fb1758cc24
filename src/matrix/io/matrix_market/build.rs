//! Builds CSR from buckets of entries, in time and memory proportional to entries and rows.
//!
//! A bucket holds consecutive rows, hence consecutive ranges of all three arrays, and one task builds it independently of
//! the others: it counts, places entries in file order and frees the pieces as it goes. Most files list entries by row or
//! by column, and their rows come out ascending. Other rows are sorted with a stable sort, so that duplicates are summed
//! in file order.

use rayon::prelude::*;

use super::pieces::{Buckets, Key, Piece};
use crate::error::{Error, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::csr::Csr;
use crate::matrix::info::Symmetry;
use crate::matrix::scalar::Scalar;

/// The matrix that is built.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The first row, in the numbering of the whole matrix.
    pub first_row: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Consecutive columns of one listed entry: those of the real and the imaginary part of a complex value.
    pub parts: usize,
    /// The symmetry that the file declares; the pieces hold the mirrored entries too.
    pub symmetry: Symmetry,
    /// Whether the file lists entries of both triangles, so that one position may be listed twice.
    pub both_triangles: bool,
}

/// Why no matrix was built.
#[derive(Debug)]
pub enum BuildFault {
    /// Row and column, counted from one, of an entry whose mirror image was listed too.
    BothListed(u64, u64),
    /// Any other error, such as too little memory.
    Other(Error),
}

impl From<Error> for BuildFault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The work of one bucket: its entries and its ranges of the arrays.
struct Share<'a, T> {
    first_row: usize,
    pieces: Vec<Piece<T>>,
    /// Ends of the rows, which are all of the row pointers but the first.
    ends: &'a mut [u64],
    columns: &'a mut [u32],
    values: &'a mut [T],
}

/// The result of a bucket.
#[derive(Debug, Clone, Copy)]
struct Built {
    /// Entries after duplicates are summed.
    kept: usize,
    /// Entries of the file that were added to an earlier one.
    duplicates: u64,
}

/// Builds the matrix from the pieces of each bucket, in file order, into `row_pointers`, which are zero; also returns
/// the number of listed duplicates.
pub fn build<T: Scalar>(
    shape: Shape,
    buckets: Buckets,
    pieces: Vec<Vec<Piece<T>>>,
    mut row_pointers: AlignedBuffer<u64>,
) -> std::result::Result<(Csr<T>, u64), BuildFault> {
    let sizes: Vec<usize> =
        pieces.iter().map(|pieces| pieces.iter().map(Piece::len).sum::<usize>()).collect();
    let total = sizes.iter().sum();
    let mut columns = AlignedBuffer::<u32>::zeroed(total)?;
    let mut values = AlignedBuffer::<T>::zeroed(total)?;

    let mut shares = Vec::with_capacity(buckets.count);
    let mut rest = (&mut row_pointers[1..], &mut columns[..], &mut values[..]);
    for (bucket, (pieces, size)) in pieces.into_iter().zip(&sizes).enumerate() {
        let rows = buckets.rows(bucket, shape.rows);
        let (ends, rest_ends) = rest.0.split_at_mut(rows.len());
        let (columns, rest_columns) = rest.1.split_at_mut(*size);
        let (values, rest_values) = rest.2.split_at_mut(*size);
        rest = (rest_ends, rest_columns, rest_values);
        shares.push(Share { first_row: shape.first_row + rows.start, pieces, ends, columns, values });
    }
    let built: Vec<Built> = shares
        .into_par_iter()
        .with_max_len(1)
        .map(|share| share.build(shape))
        .collect::<std::result::Result<_, _>>()?;

    let kept: usize = built.iter().map(|bucket| bucket.kept).sum();
    if kept < total {
        (columns, values) = close_gaps(&columns, &values, &sizes, &built, kept)?;
    }
    let mut before = 0;
    for (bucket, built) in built.iter().enumerate() {
        let rows = buckets.rows(bucket, shape.rows);
        if before > 0 {
            row_pointers[1..][rows].par_iter_mut().with_min_len(1 << 16).for_each(|end| *end += before);
        }
        before += built.kept as u64;
    }
    let duplicates = built.iter().map(|bucket| bucket.duplicates).sum();
    Ok((Csr::try_new(shape.rows, shape.cols, row_pointers, columns, values)?, duplicates))
}

/// The entries that each bucket kept, moved together.
fn close_gaps<T: Scalar>(
    columns: &[u32],
    values: &[T],
    sizes: &[usize],
    built: &[Built],
    kept: usize,
) -> Result<(AlignedBuffer<u32>, AlignedBuffer<T>)> {
    let mut close_columns = AlignedBuffer::zeroed(kept)?;
    let mut close_values = AlignedBuffer::zeroed(kept)?;
    let (mut from, mut to) = (0, 0);
    for (size, built) in sizes.iter().zip(built) {
        close_columns[to..to + built.kept].copy_from_slice(&columns[from..from + built.kept]);
        close_values[to..to + built.kept].copy_from_slice(&values[from..from + built.kept]);
        from += size;
        to += built.kept;
    }
    Ok((close_columns, close_values))
}

impl<T: Scalar> Share<'_, T> {
    /// Fills the ranges; ends of rows count from the bucket's first entry.
    fn build(mut self, shape: Shape) -> std::result::Result<Built, BuildFault> {
        if shape.both_triangles {
            self.refuse_listed_mirrors(shape.parts)?;
        }
        for key in self.pieces.iter().flat_map(Piece::keys) {
            self.ends[key.row()] += 1;
        }
        let mut start = 0;
        for end in self.ends.iter_mut() {
            start += std::mem::replace(end, start);
        }
        // Each row's end starts as its start and moves by one for each entry placed.
        let mirrored_one = match shape.symmetry {
            Symmetry::SkewSymmetric => T::from_f64(-1.0),
            _ => T::ONE,
        };
        for piece in std::mem::take(&mut self.pieces) {
            let values = piece.values();
            if values.is_empty() {
                for key in piece.keys() {
                    self.place(key, if key.mirrored() { mirrored_one } else { T::ONE });
                }
            } else {
                for (key, value) in piece.keys().zip(values) {
                    self.place(key, *value);
                }
            }
        }
        self.order_rows(shape.symmetry != Symmetry::General, shape.parts)
    }

    #[inline(always)]
    fn place(&mut self, key: Key, value: T) {
        let end = &mut self.ends[key.row()];
        self.columns[*end as usize] = key.column();
        self.values[*end as usize] = value;
        *end += 1;
    }

    /// Sorts the rows that need it and sums duplicates, closing the gaps they leave.
    fn order_rows(&mut self, symmetric: bool, parts: usize) -> std::result::Result<Built, BuildFault> {
        let mut scratch: Vec<(u32, T)> = Vec::new();
        let (mut start, mut written, mut duplicates) = (0, 0, 0);
        for (row, row_end) in self.ends.iter_mut().enumerate() {
            let end = *row_end as usize;
            let columns = &self.columns[start..end];
            if columns.is_sorted_by(|left, right| left < right) {
                if written < start {
                    self.columns.copy_within(start..end, written);
                    self.values.copy_within(start..end, written);
                }
                written += end - start;
            } else {
                scratch.clear();
                scratch.try_reserve_exact(end - start).map_err(|_| no_scratch::<T>(end - start))?;
                scratch.extend(columns.iter().copied().zip(self.values[start..end].iter().copied()));
                scratch.sort_by_key(|(column, _)| *column);
                let row_start = written;
                for (column, value) in &scratch {
                    if written > row_start && self.columns[written - 1] == *column {
                        self.values[written - 1] = self.values[written - 1].plus(*value);
                        // Of the two triangles that come from one, the lower one is counted.
                        duplicates +=
                            u64::from(!symmetric || *column as usize / parts <= self.first_row + row);
                    } else {
                        self.columns[written] = *column;
                        self.values[written] = *value;
                        written += 1;
                    }
                }
            }
            *row_end = written as u64;
            start = end;
        }
        Ok(Built { kept: written, duplicates })
    }

    /// An entry and a mirror image at the same place mean that the file listed both triangles.
    fn refuse_listed_mirrors(&self, parts: usize) -> std::result::Result<(), BuildFault> {
        let count = self.pieces.iter().map(Piece::len).sum();
        let mut places: Vec<(usize, u32, bool)> = Vec::new();
        places.try_reserve_exact(count).map_err(|_| no_scratch::<T>(count))?;
        places.extend(
            self.pieces.iter().flat_map(Piece::keys).map(|key| (key.row(), key.column(), key.mirrored())),
        );
        places.sort_unstable();
        let clash = places
            .windows(2)
            .find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[0].2 != pair[1].2);
        match clash {
            Some([(row, column, _), ..]) => {
                let column = u64::from(*column) / parts as u64;
                Err(BuildFault::BothListed((self.first_row + row) as u64 + 1, column + 1))
            }
            _ => Ok(()),
        }
    }
}

fn no_scratch<T>(entries: usize) -> Error {
    Error::DoesNotFit {
        what: "sorting a row".into(),
        needed_bytes: (entries * size_of::<(u32, T)>()) as u64,
        limit_bytes: 0,
        advice: "the system refused the memory; free some or use a smaller matrix".into(),
    }
}
