//! Parsed entries, sorted by bucket. A bucket is a range of consecutive rows.
//!
//! Each bucket of each span of text has its own pieces of memory, in file order. A piece is a separate mapping: pages that
//! are never written cost nothing, and dropping a piece returns its memory to the system at once. The peak therefore stays
//! near the size of the entries while the CSR arrays grow and the pieces are dropped.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;

use crate::error::{Error, Result};
use crate::matrix::scalar::Scalar;

/// Entries gathered for a bucket before they are copied out together.
const STAGED: usize = 32;
/// Fewest and most entries of a piece: at least a page or two, and a bounded maximum.
const SMALLEST_PIECE: usize = 512;
const LARGEST_PIECE: usize = 1 << 20;
/// Set in the key of an entry that the file did not list but that follows by symmetry.
const MIRRORED: u64 = 1 << 63;
/// Rows of a bucket are counted in 31 bits.
const MOST_SHIFT: u32 = 31;

/// The buckets: which rows each holds, and whether entries have values.
#[derive(Debug, Clone, Copy)]
pub struct Buckets {
    /// Bucket of a row: the row shifted right by this.
    pub shift: u32,
    /// Number of buckets.
    pub count: usize,
    /// Whether entries have values of their own.
    pub with_values: bool,
    /// Entries of the first piece of a bucket; each further piece is twice as large.
    pub first_piece: usize,
}

impl Buckets {
    /// Buckets for `rows` rows, about `wanted` of them, where a bucket gets about `expected` entries of each span.
    pub fn new(rows: usize, wanted: usize, with_values: bool, expected: u64) -> Self {
        let last = rows.saturating_sub(1);
        let mut shift = 0;
        while shift < MOST_SHIFT && (last >> shift) >= wanted.max(1) {
            shift += 1;
        }
        let first_piece = expected.clamp(SMALLEST_PIECE as u64, LARGEST_PIECE as u64) as usize;
        Self { shift, count: (last >> shift) + 1, with_values, first_piece }
    }

    /// The rows of a bucket, of `rows` rows in all.
    pub fn rows(&self, bucket: usize, rows: usize) -> std::ops::Range<usize> {
        (bucket << self.shift).min(rows)..((bucket + 1) << self.shift).min(rows)
    }
}

/// The position of an entry: row within its bucket, column, and whether it is a mirror image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    /// Row within the bucket.
    #[inline]
    pub fn row(self) -> usize {
        ((self.0 & !MIRRORED) >> 32) as usize
    }

    /// Column.
    #[inline]
    pub fn column(self) -> u32 {
        self.0 as u32
    }

    /// Whether the file listed the other triangle's entry instead.
    #[inline]
    pub fn mirrored(self) -> bool {
        self.0 & MIRRORED != 0
    }
}

/// Bytes that pieces take, over all threads, against a limit.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    limit_bytes: u64,
}

impl Budget {
    /// A budget of which nothing is used.
    pub fn new(limit_bytes: u64) -> Self {
        Self { used: AtomicU64::new(0), limit_bytes }
    }

    fn take(&self, bytes: u64) -> Result<()> {
        // Relaxed: only the sum matters, no other memory depends on it.
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used <= self.limit_bytes {
            return Ok(());
        }
        Err(Error::DoesNotFit {
            what: "the entries of the matrix".into(),
            needed_bytes: used,
            limit_bytes: self.limit_bytes,
            advice: "use a machine with more memory or raise the limit".into(),
        })
    }
}

/// A run of entries in file order.
pub struct Piece<T> {
    /// Keys from the start, values from `capacity * 8` on.
    memory: MmapMut,
    capacity: usize,
    length: usize,
    with_values: bool,
    value: PhantomData<T>,
}

impl<T: Scalar> Piece<T> {
    fn new(capacity: usize, with_values: bool) -> Result<Self> {
        let bytes = capacity * (8 + if with_values { size_of::<T>() } else { 0 });
        let memory = MmapMut::map_anon(bytes).map_err(|_| Error::DoesNotFit {
            what: "the entries of the matrix".into(),
            needed_bytes: bytes as u64,
            limit_bytes: 0,
            advice: "the system refused the memory; free some or use a smaller matrix".into(),
        })?;
        Ok(Self { memory, capacity, length: 0, with_values, value: PhantomData })
    }

    /// Appends as many entries as fit and returns their number.
    fn extend(&mut self, keys: &[u64], values: &[T]) -> usize {
        let count = keys.len().min(self.capacity - self.length);
        let (key_bytes, value_bytes) = self.memory.split_at_mut(self.capacity * 8);
        let room = self.length..self.length + count;
        bytemuck::cast_slice_mut(key_bytes)[room.clone()].copy_from_slice(&keys[..count]);
        if self.with_values {
            bytemuck::cast_slice_mut(value_bytes)[room].copy_from_slice(&values[..count]);
        }
        self.length += count;
        count
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The keys, in file order.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let keys: &[u64] = bytemuck::cast_slice(&self.memory[..self.capacity * 8]);
        keys[..self.length].iter().map(|key| Key(*key))
    }

    /// The values, in file order; empty if entries have none.
    pub fn values(&self) -> &[T] {
        let values: &[T] = bytemuck::cast_slice(&self.memory[self.capacity * 8..]);
        &values[..if self.with_values { self.length } else { 0 }]
    }
}

/// Sorts the entries of one span of text into buckets.
pub struct Sorter<'a, T> {
    buckets: Buckets,
    budget: &'a Budget,
    staged_keys: Vec<u64>,
    staged_values: Vec<T>,
    staged: Vec<usize>,
    pieces: Vec<Vec<Piece<T>>>,
}

impl<'a, T: Scalar> Sorter<'a, T> {
    /// Nothing sorted yet.
    pub fn new(buckets: Buckets, budget: &'a Budget) -> Self {
        Self {
            buckets,
            budget,
            staged_keys: vec![0; buckets.count * STAGED],
            staged_values: vec![T::ZERO; if buckets.with_values { buckets.count * STAGED } else { 0 }],
            staged: vec![0; buckets.count],
            pieces: (0..buckets.count).map(|_| Vec::new()).collect(),
        }
    }

    /// Takes an entry, whose row and column lie inside the matrix.
    #[inline(always)]
    pub fn push(&mut self, row: u64, column: u32, value: T, mirrored: bool) -> Result<()> {
        let bucket = (row >> self.buckets.shift) as usize;
        let row_in_bucket = row & ((1 << self.buckets.shift) - 1);
        let filled = self.staged[bucket];
        let slot = bucket * STAGED + filled;
        self.staged_keys[slot] =
            row_in_bucket << 32 | u64::from(column) | if mirrored { MIRRORED } else { 0 };
        if self.buckets.with_values {
            self.staged_values[slot] = value;
        }
        self.staged[bucket] = filled + 1;
        if filled + 1 == STAGED { self.flush(bucket) } else { Ok(()) }
    }

    #[inline(never)]
    fn flush(&mut self, bucket: usize) -> Result<()> {
        let range = bucket * STAGED..bucket * STAGED + self.staged[bucket];
        let mut keys = &self.staged_keys[range.clone()];
        let mut values = self.staged_values.get(range).unwrap_or_default();
        let entry_bytes = 8 + if self.buckets.with_values { size_of::<T>() } else { 0 };
        self.budget.take((keys.len() * entry_bytes) as u64)?;
        let pieces = &mut self.pieces[bucket];
        while !keys.is_empty() {
            let taken = pieces.last_mut().map_or(0, |piece| piece.extend(keys, values));
            keys = &keys[taken..];
            values = values.get(taken..).unwrap_or_default();
            if !keys.is_empty() {
                let doublings = pieces.len().min(20);
                let capacity = (self.buckets.first_piece << doublings).min(LARGEST_PIECE);
                pieces.push(Piece::new(capacity, self.buckets.with_values)?);
            }
        }
        self.staged[bucket] = 0;
        Ok(())
    }

    /// The pieces of each bucket.
    pub fn finish(mut self) -> Result<Vec<Vec<Piece<T>>>> {
        for bucket in 0..self.buckets.count {
            self.flush(bucket)?;
        }
        Ok(self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_row_once() {
        for (rows, wanted) in [(0, 4), (1, 4), (7, 1), (100, 7), (1 << 20, 64), (1 << 33, 1)] {
            let buckets = Buckets::new(rows, wanted, true, 0);
            assert!(buckets.count <= wanted || rows > 1 << 31);
            let mut next = 0;
            for bucket in 0..buckets.count {
                let range = buckets.rows(bucket, rows);
                assert_eq!(range.start, next);
                assert!(range.is_empty() || (range.end - 1) >> buckets.shift == bucket);
                next = range.end;
            }
            assert_eq!(next, rows);
        }
    }

    #[test]
    fn entries_come_back_in_file_order() {
        for with_values in [true, false] {
            let budget = Budget::new(u64::MAX);
            let mut sorter = Sorter::<f32>::new(Buckets::new(100, 3, with_values, 0), &budget);
            for entry in 0..5000u64 {
                sorter.push(entry % 100, entry as u32, entry as f32, entry % 3 == 0).unwrap();
            }
            let pieces = sorter.finish().unwrap();
            for (bucket, pieces) in pieces.iter().enumerate() {
                let listed: Vec<_> = pieces.iter().flat_map(Piece::keys).collect();
                let expected: Vec<u64> =
                    (0..5000).filter(|entry| (entry % 100) >> 6 == bucket as u64).collect();
                assert_eq!(listed.iter().map(|key| u64::from(key.column())).collect::<Vec<_>>(), expected);
                for (key, entry) in listed.iter().zip(&expected) {
                    assert_eq!(key.row() as u64, entry % 100 % 64);
                    assert_eq!(key.mirrored(), entry % 3 == 0);
                }
                let values: Vec<f32> = pieces.iter().flat_map(|piece| piece.values().to_vec()).collect();
                let expected: Vec<f32> = expected.iter().map(|entry| *entry as f32).collect();
                assert_eq!(values, if with_values { expected } else { Vec::new() });
            }
        }
    }

    #[test]
    fn the_budget_is_kept() {
        let budget = Budget::new(1000);
        let mut sorter = Sorter::<f64>::new(Buckets::new(1, 1, true, 0), &budget);
        let outcome = (0..1000).try_for_each(|entry| sorter.push(0, entry, 1.0, false));
        assert!(matches!(outcome, Err(Error::DoesNotFit { limit_bytes: 1000, .. })));
    }

    #[test]
    fn an_entry_takes_the_bytes_of_its_key_and_of_its_value_if_it_has_one() {
        let used = |with_values| {
            let budget = Budget::new(u64::MAX);
            let mut sorter = Sorter::<f32>::new(Buckets::new(1, 1, with_values, 0), &budget);
            (0..100).for_each(|entry| sorter.push(0, entry, 1.0, false).unwrap());
            sorter.finish().unwrap();
            budget.used.into_inner()
        };
        assert_eq!((used(true), used(false)), (1200, 800));
    }
}
