//! Conversions between formats, in parallel and in linear time.
//!
//! Entries are divided into blocks and distributed by a stable bucket sort, without locks, into buckets of consecutive rows:
//! each block writes to its own part of a bucket. One task then builds each bucket. Since the sort is stable, duplicates are
//! summed in list order for any number of threads. [`convert_serial`](super::convert_serial) has serial reference
//! implementations.

use std::cmp::Ordering;
use std::mem::take;

use bytemuck::Pod;
use rayon::prelude::*;

use super::array::{AlignedBuffer, check_memory};
use super::coo::Coo;
use super::csr::{Csr, CsrView};
use super::ell::{EllPadded, EllUnpadded, PADDING};
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// Maximal rows of a bucket, so that its row ends stay in a core's cache while entries are written.
const MAX_BUCKET_ROWS: usize = 1 << 15;
/// Maximal number of buckets, so that the write positions of a block stay in a core's cache while entries are distributed.
const MAX_BUCKETS: usize = 1024;
/// Minimal entries of a block: fewer are not worth a task.
const MIN_BLOCK_ENTRIES: usize = 1 << 12;

impl<T: Scalar> Coo<T> {
    /// The matrix by rows. Entries of one place are added in the order of the list.
    ///
    /// ```
    /// use rowloom::matrix::Coo;
    ///
    /// let a = Coo::try_new(2, 3, vec![1, 0, 1], vec![0, 2, 0], vec![5.0, 4.0, 1.0])?.to_csr()?;
    /// assert_eq!((a.view().row(0), a.view().row(1)), ((&[2][..], &[4.0][..]), (&[0][..], &[6.0][..])));
    /// # Ok::<(), rowloom::Error>(())
    /// ```
    pub fn to_csr(&self) -> Result<Csr<T>> {
        coo_to_csr(self).map(|(matrix, _)| matrix)
    }
}

/// Converts to CSR with ascending columns, duplicates summed in list order; returns the matrix and the number of duplicates.
pub fn coo_to_csr<T: Scalar>(coo: &Coo<T>) -> Result<(Csr<T>, u64)> {
    let grid = Grid::of(coo);
    let counts: Vec<Vec<usize>> = coo
        .row_indices()
        .par_chunks(grid.block_entries)
        .map(|rows| {
            let mut counts = vec![0; grid.buckets];
            rows.iter().for_each(|&row| counts[grid.bucket(row)] += 1);
            counts
        })
        .collect();

    let mut bucket_rows = AlignedBuffer::<u32>::zeroed(coo.len())?;
    let mut bucket_columns = AlignedBuffer::<u32>::zeroed(coo.len())?;
    let mut bucket_values = AlignedBuffer::<T>::zeroed(coo.len())?;
    distribute(coo, &grid, &counts, &mut bucket_rows, &mut bucket_columns, &mut bucket_values);

    let mut row_pointers = AlignedBuffer::<u64>::zeroed(coo.rows().saturating_add(1))?;
    let mut columns = AlignedBuffer::<u32>::zeroed(coo.len())?;
    let mut values = AlignedBuffer::<T>::zeroed(coo.len())?;
    let lengths: Vec<usize> =
        (0..grid.buckets).map(|bucket| counts.iter().map(|block| block[bucket]).sum()).collect();
    let mut tasks = Vec::with_capacity(grid.buckets);
    let (mut rows_left, mut columns_left, mut values_left) =
        (&*bucket_rows, &*bucket_columns, &*bucket_values);
    let (mut to_columns, mut to_values) = (&mut *columns, &mut *values);
    for (bucket, row_ends) in row_pointers[1..].chunks_mut(grid.bucket_rows()).enumerate() {
        tasks.push(Bucket {
            first_row: bucket * grid.bucket_rows(),
            rows: split_front(&mut rows_left, lengths[bucket]),
            columns: split_front(&mut columns_left, lengths[bucket]),
            values: split_front(&mut values_left, lengths[bucket]),
            row_ends,
            to_columns: split_front_mut(&mut to_columns, lengths[bucket]),
            to_values: split_front_mut(&mut to_values, lengths[bucket]),
        });
    }
    let kept: Vec<usize> = tasks.into_par_iter().with_max_len(1).map(Bucket::build).collect();
    drop((bucket_rows, bucket_columns, bucket_values));

    // Row ends are relative to the start of their bucket; add the bucket's offset.
    let mut total = 0;
    let mut parts = Vec::with_capacity(grid.buckets);
    for (&length, &kept) in lengths.iter().zip(&kept) {
        parts.push((total, kept, length));
        total += kept;
    }
    row_pointers[1..]
        .par_chunks_mut(grid.bucket_rows())
        .zip(&parts)
        .for_each(|(ends, &(offset, ..))| ends.iter_mut().for_each(|end| *end += offset as u64));
    let duplicates = (coo.len() - total) as u64;
    if duplicates > 0 {
        columns = close_gaps(&columns, &parts, total)?;
        values = close_gaps(&values, &parts, total)?;
    }
    Ok((Csr::try_new(coo.rows(), coo.cols(), row_pointers, columns, values)?, duplicates))
}

/// The division of entries into blocks of the list and buckets of consecutive rows.
struct Grid {
    block_entries: usize,
    buckets: usize,
    bucket_shift: u32,
}

impl Grid {
    fn of<T: Scalar>(coo: &Coo<T>) -> Self {
        let threads = rayon::current_num_threads();
        let wanted = (threads * 8).max(coo.rows() / MAX_BUCKET_ROWS).min(MAX_BUCKETS);
        let bucket_shift = coo.rows().div_ceil(wanted).max(1).next_power_of_two().trailing_zeros();
        Self {
            block_entries: coo.len().div_ceil(threads * 4).max(MIN_BLOCK_ENTRIES),
            buckets: coo.rows().div_ceil(1 << bucket_shift),
            bucket_shift,
        }
    }

    fn bucket(&self, row: u32) -> usize {
        row as usize >> self.bucket_shift
    }

    fn bucket_rows(&self) -> usize {
        1 << self.bucket_shift
    }
}

/// The part of a bucket that one block writes.
struct BucketPart<'a, T> {
    rows: &'a mut [u32],
    columns: &'a mut [u32],
    values: &'a mut [T],
    filled: usize,
}

/// Sorts all entries by bucket, in list order within a bucket.
fn distribute<T: Scalar>(
    coo: &Coo<T>,
    grid: &Grid,
    counts: &[Vec<usize>],
    mut rows: &mut [u32],
    mut columns: &mut [u32],
    mut values: &mut [T],
) {
    let mut parts: Vec<Vec<BucketPart<'_, T>>> =
        counts.iter().map(|_| Vec::with_capacity(grid.buckets)).collect();
    for bucket in 0..grid.buckets {
        for (parts, counts) in parts.iter_mut().zip(counts) {
            parts.push(BucketPart {
                rows: split_front_mut(&mut rows, counts[bucket]),
                columns: split_front_mut(&mut columns, counts[bucket]),
                values: split_front_mut(&mut values, counts[bucket]),
                filled: 0,
            });
        }
    }
    parts
        .into_par_iter()
        .zip(coo.row_indices().par_chunks(grid.block_entries))
        .zip(coo.col_indices().par_chunks(grid.block_entries))
        .zip(coo.values().par_chunks(grid.block_entries))
        .for_each(|(((mut parts, rows), columns), values)| {
            for ((&row, &column), &value) in rows.iter().zip(columns).zip(values) {
                let part = &mut parts[grid.bucket(row)];
                part.rows[part.filled] = row;
                part.columns[part.filled] = column;
                part.values[part.filled] = value;
                part.filled += 1;
            }
        });
}

/// The entries of consecutive rows, and the output arrays of these rows.
struct Bucket<'a, T> {
    first_row: usize,
    rows: &'a [u32],
    columns: &'a [u32],
    values: &'a [T],
    row_ends: &'a mut [u64],
    to_columns: &'a mut [u32],
    to_values: &'a mut [T],
}

impl<T: Scalar> Bucket<'_, T> {
    /// Builds the rows without gaps; returns the number of entries after duplicates are summed.
    fn build(self) -> usize {
        let Self { first_row, rows, columns, values, row_ends, to_columns, to_values } = self;
        for &row in rows {
            row_ends[row as usize - first_row] += 1;
        }
        let mut start = 0;
        for end in row_ends.iter_mut() {
            start += std::mem::replace(end, start);
        }
        // The start of each row advances as its entries are written, and thus becomes its end.
        for ((&row, &column), &value) in rows.iter().zip(columns).zip(values) {
            let next = &mut row_ends[row as usize - first_row];
            to_columns[*next as usize] = column;
            to_values[*next as usize] = value;
            *next += 1;
        }
        let mut scratch = Vec::new();
        let (mut start, mut kept) = (0, 0);
        for end in row_ends.iter_mut() {
            let row = start..*end as usize;
            let length =
                sort_and_sum_row(&mut to_columns[row.clone()], &mut to_values[row.clone()], &mut scratch);
            if kept < row.start {
                to_columns.copy_within(row.start..row.start + length, kept);
                to_values.copy_within(row.start..row.start + length, kept);
            }
            kept += length;
            start = row.end;
            *end = kept as u64;
        }
        kept
    }
}

/// Sorts a row by column and sums duplicates in their order; returns the new length.
fn sort_and_sum_row<T: Scalar>(columns: &mut [u32], values: &mut [T], scratch: &mut Vec<(u32, T)>) -> usize {
    let order = columns.windows(2).map(|pair| pair[0].cmp(&pair[1])).max();
    if order.is_none_or(|order| order == Ordering::Less) {
        return columns.len();
    }
    if order == Some(Ordering::Greater) {
        scratch.clear();
        scratch.extend(columns.iter().copied().zip(values.iter().copied()));
        scratch.sort_by_key(|&(column, _)| column);
        for ((column, value), &sorted) in columns.iter_mut().zip(values.iter_mut()).zip(&*scratch) {
            (*column, *value) = sorted;
        }
    }
    let mut last = 0;
    for next in 1..columns.len() {
        if columns[next] == columns[last] {
            values[last] = values[last].plus(values[next]);
        } else {
            last += 1;
            columns[last] = columns[next];
            values[last] = values[next];
        }
    }
    last + 1
}

/// Copies the used front of each bucket to a contiguous array; `parts` holds (offset, used length, length in `from`).
fn close_gaps<V: Pod + Send + Sync>(
    from: &[V],
    parts: &[(usize, usize, usize)],
    total: usize,
) -> Result<AlignedBuffer<V>> {
    let mut result = AlignedBuffer::zeroed(total)?;
    let (mut from, mut to) = (from, &mut *result);
    let copies: Vec<(&mut [V], &[V])> = parts
        .iter()
        .map(|&(_, kept, length)| (split_front_mut(&mut to, kept), &split_front(&mut from, length)[..kept]))
        .collect();
    copies.into_par_iter().for_each(|(to, from)| to.copy_from_slice(from));
    Ok(result)
}

fn split_front<'a, V>(rest: &mut &'a [V], length: usize) -> &'a [V] {
    let (front, back) = rest.split_at(length);
    *rest = back;
    front
}

fn split_front_mut<'a, V>(rest: &mut &'a mut [V], length: usize) -> &'a mut [V] {
    let (front, back) = take(rest).split_at_mut(length);
    *rest = back;
    front
}

/// Converts to padded ELLPACK, as [`coo_to_csr`] does to CSR; an error if it needs more than `memory_limit_bytes`.
pub fn coo_to_ell_padded<T: Scalar>(coo: &Coo<T>, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    csr_to_ell_padded(&coo_to_csr(coo)?.0.view(), memory_limit_bytes)
}

/// Converts to ELLPACK without padding, as [`coo_to_csr`] does to CSR.
pub fn coo_to_ell_unpadded<T: Scalar>(coo: &Coo<T>) -> Result<EllUnpadded<T>> {
    csr_to_ell_unpadded(&coo_to_csr(coo)?.0.view())
}

/// Converts to padded ELLPACK; an error if it needs more than `memory_limit_bytes`.
pub fn csr_to_ell_padded<T: Scalar>(csr: &CsrView<'_, T>, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    let rows = csr.rows();
    let width = (0..rows).into_par_iter().map(|row| csr.row_length(row)).max().unwrap_or(0);
    let slots = padded_slots::<T>(rows, width, memory_limit_bytes)?;
    let mut columns = zeros::<u32>(slots)?;
    let mut values = zeros::<T>(slots)?;
    // With a width of zero the arrays are empty, but the chunk size must not be zero.
    columns.par_chunks_mut(width.max(1)).zip(values.par_chunks_mut(width.max(1))).enumerate().for_each(
        |(row, (to_columns, to_values))| {
            let (columns, values) = csr.row(row);
            let (front, padding) = to_columns.split_at_mut(columns.len());
            front.copy_from_slice(columns);
            padding.fill(PADDING);
            to_values[..values.len()].copy_from_slice(values);
        },
    );
    EllPadded::try_new(rows, csr.cols(), width, columns, values)
}

/// Converts to ELLPACK without padding.
pub fn csr_to_ell_unpadded<T: Scalar>(csr: &CsrView<'_, T>) -> Result<EllUnpadded<T>> {
    let base = csr.row_pointers().first().copied().unwrap_or(0);
    let mut row_starts = zeros::<u64>(csr.rows())?;
    let mut row_lengths = zeros::<u32>(csr.rows())?;
    row_starts.par_iter_mut().zip(&mut row_lengths).zip(csr.row_pointers().par_windows(2)).try_for_each(
        |((start, length), pair)| {
            *start = pair[0] - base;
            *length = u32::try_from(pair[1] - pair[0]).map_err(|_| {
                Error::usage("a row has 2^32 entries or more, which ELLPACK does not support")
            })?;
            Ok(())
        },
    )?;
    let (columns, values) = entries(csr);
    EllUnpadded::try_new(csr.cols(), row_starts, row_lengths, copy(columns)?, copy(values)?)
}

/// The number of slots of padded ELLPACK; an error with the sizes if they exceed the limit.
pub(super) fn padded_slots<T: Scalar>(rows: usize, width: usize, memory_limit_bytes: u64) -> Result<usize> {
    let needed_bytes = EllPadded::<T>::bytes_for(rows, width);
    match rows.checked_mul(width) {
        Some(slots) if needed_bytes <= memory_limit_bytes => Ok(slots),
        _ => Err(Error::DoesNotFit {
            what: format!("padded ELLPACK with {rows} rows of {width} entries"),
            needed_bytes,
            limit_bytes: memory_limit_bytes,
            advice: "use ELLPACK without padding (ell_unpadded)".into(),
        }),
    }
}

/// The row of each entry, from the row pointers (or the column, from column pointers).
pub(super) fn expand_pointers(pointers: &[u64]) -> Result<Vec<u32>> {
    let (Some(&first), Some(&last)) = (pointers.first(), pointers.last()) else {
        return Ok(Vec::new());
    };
    let rows = pointers.len() - 1;
    if rows > u32::MAX as usize {
        return Err(Error::usage(format!("COO has 32-bit indices and does not support {rows} rows")));
    }
    let mut indices = zeros::<u32>((last - first) as usize)?;
    let task_rows = rows.div_ceil(rayon::current_num_threads() * 8).max(1);
    let mut rest = &mut *indices;
    let mut tasks = Vec::new();
    for start in (0..rows).step_by(task_rows) {
        let end = (start + task_rows).min(rows);
        tasks.push((start..end, split_front_mut(&mut rest, (pointers[end] - pointers[start]) as usize)));
    }
    tasks.into_par_iter().for_each(|(rows, mut to)| {
        for row in rows {
            split_front_mut(&mut to, (pointers[row + 1] - pointers[row]) as usize).fill(row as u32);
        }
    });
    Ok(indices)
}

/// Columns and values of the view's rows only.
pub(super) fn entries<'a, T: Scalar>(csr: &CsrView<'a, T>) -> (&'a [u32], &'a [T]) {
    let start = csr.row_pointers().first().map_or(0, |&pointer| pointer as usize);
    let range = start..start + csr.nnz();
    (&csr.columns()[range.clone()], &csr.values()[range])
}

fn zeros<V: Pod>(length: usize) -> Result<Vec<V>> {
    check_memory("a converted array", (length as u64).saturating_mul(size_of::<V>() as u64))?;
    bytemuck::try_zeroed_vec(length).map_err(|()| Error::DoesNotFit {
        what: "a converted array".into(),
        needed_bytes: (length as u64).saturating_mul(size_of::<V>() as u64),
        limit_bytes: 0,
        advice: "the system refused the memory; free some or choose a smaller matrix".into(),
    })
}

fn copy<V: Pod + Send + Sync>(from: &[V]) -> Result<Vec<V>> {
    let mut result = zeros(from.len())?;
    result
        .par_chunks_mut(1 << 16)
        .zip(from.par_chunks(1 << 16))
        .for_each(|(to, from)| to.copy_from_slice(from));
    Ok(result)
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
