//! Conversions between formats, in parallel and in time proportional to the entries.
//!
//! Nothing is locked or shared per entry. Entries are cut into blocks and sorted stably into buckets of consecutive
//! rows, every block into slices of its own; then each bucket is built by one task. The stable order is what makes
//! duplicates sum in list order at any thread count. [`convert_serial`](super::convert_serial) says the same in the
//! most obvious way.

use std::cmp::Ordering;
use std::mem::take;

use bytemuck::Pod;
use rayon::prelude::*;

use super::array::AlignedBuffer;
use super::coo::Coo;
use super::csr::{Csr, CsrView};
use super::ell::{EllPadded, EllUnpadded, PADDING};
use super::scalar::Scalar;
use crate::error::{Error, Result};

/// Rows of a bucket at most, so that its row ends stay in a core's cache while entries are placed.
const MOST_BUCKET_ROWS: usize = 1 << 15;
/// Buckets at most, so that a block's open slices stay in a core's cache while entries are spread.
const MOST_BUCKETS: usize = 1024;
/// Entries of a block at least: less is not worth a task.
const LEAST_BLOCK_ENTRIES: usize = 1 << 12;

/// Sums duplicates in list order, sorts each row by column; gives the matrix and how many entries were summed away.
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

    let mut spread_rows = AlignedBuffer::<u32>::zeroed(coo.len())?;
    let mut spread_columns = AlignedBuffer::<u32>::zeroed(coo.len())?;
    let mut spread_values = AlignedBuffer::<T>::zeroed(coo.len())?;
    spread(coo, &grid, &counts, &mut spread_rows, &mut spread_columns, &mut spread_values);

    let mut row_pointers = AlignedBuffer::<u64>::zeroed(coo.rows().saturating_add(1))?;
    let mut columns = AlignedBuffer::<u32>::zeroed(coo.len())?;
    let mut values = AlignedBuffer::<T>::zeroed(coo.len())?;
    let lengths: Vec<usize> =
        (0..grid.buckets).map(|bucket| counts.iter().map(|block| block[bucket]).sum()).collect();
    let mut tasks = Vec::with_capacity(grid.buckets);
    let (mut rows_left, mut columns_left, mut values_left) =
        (&*spread_rows, &*spread_columns, &*spread_values);
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
    drop((spread_rows, spread_columns, spread_values));

    // Row ends count from their bucket's start until here.
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

/// How the entries are cut: blocks of the list, buckets of consecutive rows.
struct Grid {
    block_entries: usize,
    buckets: usize,
    bucket_shift: u32,
}

impl Grid {
    fn of<T: Scalar>(coo: &Coo<T>) -> Self {
        let threads = rayon::current_num_threads();
        let wanted = (threads * 8).max(coo.rows() / MOST_BUCKET_ROWS).min(MOST_BUCKETS);
        let bucket_shift = coo.rows().div_ceil(wanted).max(1).next_power_of_two().trailing_zeros();
        Self {
            block_entries: coo.len().div_ceil(threads * 4).max(LEAST_BLOCK_ENTRIES),
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

/// Where one block puts its entries of one bucket.
struct Share<'a, T> {
    rows: &'a mut [u32],
    columns: &'a mut [u32],
    values: &'a mut [T],
    filled: usize,
}

/// Sorts all entries by bucket, within a bucket in list order.
fn spread<T: Scalar>(
    coo: &Coo<T>,
    grid: &Grid,
    counts: &[Vec<usize>],
    mut rows: &mut [u32],
    mut columns: &mut [u32],
    mut values: &mut [T],
) {
    let mut shares: Vec<Vec<Share<'_, T>>> =
        counts.iter().map(|_| Vec::with_capacity(grid.buckets)).collect();
    for bucket in 0..grid.buckets {
        for (shares, counts) in shares.iter_mut().zip(counts) {
            shares.push(Share {
                rows: split_front_mut(&mut rows, counts[bucket]),
                columns: split_front_mut(&mut columns, counts[bucket]),
                values: split_front_mut(&mut values, counts[bucket]),
                filled: 0,
            });
        }
    }
    shares
        .into_par_iter()
        .zip(coo.row_indices().par_chunks(grid.block_entries))
        .zip(coo.col_indices().par_chunks(grid.block_entries))
        .zip(coo.values().par_chunks(grid.block_entries))
        .for_each(|(((mut shares, rows), columns), values)| {
            for ((&row, &column), &value) in rows.iter().zip(columns).zip(values) {
                let share = &mut shares[grid.bucket(row)];
                share.rows[share.filled] = row;
                share.columns[share.filled] = column;
                share.values[share.filled] = value;
                share.filled += 1;
            }
        });
}

/// The entries of consecutive rows, and where their finished rows go.
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
    /// Builds the rows, packed; gives how many entries are left once duplicates are summed.
    fn build(self) -> usize {
        let Self { first_row, rows, columns, values, row_ends, to_columns, to_values } = self;
        for &row in rows {
            row_ends[row as usize - first_row] += 1;
        }
        let mut start = 0;
        for end in row_ends.iter_mut() {
            start += std::mem::replace(end, start);
        }
        // Each row's start moves forward as its entries are placed, and so becomes its end.
        for ((&row, &column), &value) in rows.iter().zip(columns).zip(values) {
            let place = &mut row_ends[row as usize - first_row];
            to_columns[*place as usize] = column;
            to_values[*place as usize] = value;
            *place += 1;
        }
        let mut scratch = Vec::new();
        let (mut start, mut kept) = (0, 0);
        for end in row_ends.iter_mut() {
            let row = start..*end as usize;
            let length = tidy_row(&mut to_columns[row.clone()], &mut to_values[row.clone()], &mut scratch);
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

/// Sorts a row by column, sums duplicates in the order they stand; gives the new length.
fn tidy_row<T: Scalar>(columns: &mut [u32], values: &mut [T], scratch: &mut Vec<(u32, T)>) -> usize {
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

/// Copies the front of each part to its place; `parts` holds (place, length to copy, length in `from`).
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

/// Padded ELLPACK of the summed and sorted entries; refused if it needs more than `memory_limit_bytes`.
pub fn coo_to_ell_padded<T: Scalar>(coo: &Coo<T>, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    csr_to_ell_padded(&coo_to_csr(coo)?.0.view(), memory_limit_bytes)
}

/// Unpadded ELLPACK of the summed and sorted entries.
pub fn coo_to_ell_unpadded<T: Scalar>(coo: &Coo<T>) -> Result<EllUnpadded<T>> {
    csr_to_ell_unpadded(&coo_to_csr(coo)?.0.view())
}

/// The entries row by row.
pub fn csr_to_coo<T: Scalar>(csr: &CsrView<'_, T>) -> Result<Coo<T>> {
    let row_indices = expand_pointers(csr.row_pointers())?;
    let (columns, values) = entries(csr);
    Coo::try_new(csr.rows(), csr.cols(), row_indices, copy(columns)?, copy(values)?)
}

/// Padded ELLPACK of the same rows; refused if it needs more than `memory_limit_bytes`.
pub fn csr_to_ell_padded<T: Scalar>(csr: &CsrView<'_, T>, memory_limit_bytes: u64) -> Result<EllPadded<T>> {
    let rows = csr.rows();
    let width = (0..rows).into_par_iter().map(|row| csr.row_length(row)).max().unwrap_or(0);
    let slots = padded_slots::<T>(rows, width, memory_limit_bytes)?;
    let mut columns = zeros::<u32>(slots)?;
    let mut values = zeros::<T>(slots)?;
    // A width of zero leaves nothing to fill, and no chunk may be empty.
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

/// Unpadded ELLPACK of the same rows.
pub fn csr_to_ell_unpadded<T: Scalar>(csr: &CsrView<'_, T>) -> Result<EllUnpadded<T>> {
    let base = csr.row_pointers().first().copied().unwrap_or(0);
    let mut row_starts = zeros::<u64>(csr.rows())?;
    let mut row_lengths = zeros::<u32>(csr.rows())?;
    row_starts.par_iter_mut().zip(&mut row_lengths).zip(csr.row_pointers().par_windows(2)).try_for_each(
        |((start, length), pair)| {
            *start = pair[0] - base;
            *length = u32::try_from(pair[1] - pair[0])
                .map_err(|_| Error::Usage("a row has 2^32 entries or more; ELLPACK cannot hold it".into()))?;
            Ok(())
        },
    )?;
    let (columns, values) = entries(csr);
    EllUnpadded::try_new(csr.cols(), row_starts, row_lengths, copy(columns)?, copy(values)?)
}

/// Slots of a padded ELLPACK, or the refusal with the numbers.
pub(super) fn padded_slots<T: Scalar>(rows: usize, width: usize, memory_limit_bytes: u64) -> Result<usize> {
    let needed_bytes = EllPadded::<T>::bytes_for(rows, width);
    match rows.checked_mul(width) {
        Some(slots) if needed_bytes <= memory_limit_bytes => Ok(slots),
        _ => Err(Error::DoesNotFit {
            what: format!("padded ELL of {rows} rows to {width} each"),
            needed_bytes,
            limit_bytes: memory_limit_bytes,
            advice: "take the unpadded ELL, which stores no padding".into(),
        }),
    }
}

/// The row (or column) each entry belongs to, from the pointers of all.
pub(super) fn expand_pointers(pointers: &[u64]) -> Result<Vec<u32>> {
    let (Some(&first), Some(&last)) = (pointers.first(), pointers.last()) else {
        return Ok(Vec::new());
    };
    let rows = pointers.len() - 1;
    if rows > u32::MAX as usize {
        return Err(Error::Usage(format!("COO cannot hold {rows} rows; its indices are 32 bits")));
    }
    let mut indices = zeros::<u32>((last - first) as usize)?;
    let rows_each = rows.div_ceil(rayon::current_num_threads() * 8).max(1);
    let mut rest = &mut *indices;
    let mut tasks = Vec::new();
    for start in (0..rows).step_by(rows_each) {
        let end = (start + rows_each).min(rows);
        tasks.push((start..end, split_front_mut(&mut rest, (pointers[end] - pointers[start]) as usize)));
    }
    tasks.into_par_iter().for_each(|(rows, mut to)| {
        for row in rows {
            split_front_mut(&mut to, (pointers[row + 1] - pointers[row]) as usize).fill(row as u32);
        }
    });
    Ok(indices)
}

/// Columns and values of a view's rows alone.
pub(super) fn entries<'a, T: Scalar>(csr: &CsrView<'a, T>) -> (&'a [u32], &'a [T]) {
    let start = csr.row_pointers().first().map_or(0, |&pointer| pointer as usize);
    let range = start..start + csr.nnz();
    (&csr.columns()[range.clone()], &csr.values()[range])
}

fn zeros<V: Pod>(length: usize) -> Result<Vec<V>> {
    bytemuck::try_zeroed_vec(length).map_err(|()| Error::DoesNotFit {
        what: "a converted array".into(),
        needed_bytes: (length as u64).saturating_mul(size_of::<V>() as u64),
        limit_bytes: 0,
        advice: "the system refused the memory; free some or take a smaller matrix".into(),
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
