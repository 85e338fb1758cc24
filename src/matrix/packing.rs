//! What an A takes that is packed to cross a link: columns as offsets of few bits from a base that a block of rows has in common, and
//! values as [`ValueCodes`]. All bits of A can be got back.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::value_bits::ValueBits;
use super::value_codes::ValueCodes;

/// Rows of a block, as in `kernels/packed.cuh`.
pub const BLOCK_ROWS: usize = 16;
/// Entries of a parallel task; a multiple of four.
const TASK_ENTRIES: usize = 1 << 14;
/// Blocks of a parallel task.
const TASK_BLOCKS: usize = 1 << 9;
/// Blocks, and runs of values, of an estimate.
const SAMPLES: usize = 64;
/// Blocks next to each other, or values, of a sample.
const SAMPLE_LENGTH: usize = 16;

/// The smallest column of every block of rows, and the width of its offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnBlocks {
    /// The smallest column; 0 where a block has none.
    bases: Vec<u32>,
    /// Bits of the offsets from it above 16: 0, 4, 8 or 16.
    high_bits: Vec<u8>,
}

/// The base of a block, and its bits above 16.
fn block_of(columns: &[u32]) -> (u32, u8) {
    let range =
        columns.iter().fold((u32::MAX, 0), |(least, most), &column| (column.min(least), column.max(most)));
    match range.1.checked_sub(range.0) {
        None => (0, 0),
        Some(span) if span < 1 << 16 => (range.0, 0),
        Some(span) if span < 1 << 20 => (range.0, 4),
        Some(span) if span < 1 << 24 => (range.0, 8),
        Some(_) => (range.0, 16),
    }
}

/// The columns of the rows of block `block`.
fn columns_of<'a>(row_pointers: &[u64], columns: &'a [u32], block: usize) -> &'a [u32] {
    let last = row_pointers.len().saturating_sub(1);
    let pointer = |row: usize| row_pointers.get(row.min(last)).map_or(0, |&pointer| pointer as usize);
    let (begin, end) = (block * BLOCK_ROWS, block * BLOCK_ROWS + BLOCK_ROWS);
    columns.get(pointer(begin)..pointer(end)).unwrap_or_default()
}

impl ColumnBlocks {
    /// The blocks of these rows, computed in the rayon pool of the caller.
    pub fn of(row_pointers: &[u64], columns: &[u32]) -> Self {
        let blocks = row_pointers.len().saturating_sub(1).div_ceil(BLOCK_ROWS);
        let all = (0..blocks).into_par_iter().with_min_len(TASK_BLOCKS);
        let (bases, high_bits) = all.map(|block| block_of(columns_of(row_pointers, columns, block))).unzip();
        Self { bases, high_bits }
    }

    /// The bases of the blocks that these rows are in.
    pub fn bases(&self, rows: std::ops::Range<usize>) -> &[u32] {
        self.bases.get(rows.start / BLOCK_ROWS..rows.end.div_ceil(BLOCK_ROWS)).unwrap_or_default()
    }

    /// The most bits above 16 of the offsets of these rows. Rows that are in the same blocks count, too.
    pub fn high_bits(&self, rows: std::ops::Range<usize>) -> u8 {
        let blocks = self.high_bits.get(rows.start / BLOCK_ROWS..rows.end.div_ceil(BLOCK_ROWS));
        blocks.unwrap_or_default().iter().copied().max().unwrap_or(0)
    }
}

/// How a matrix is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// Its columns.
    pub columns: Arc<ColumnBlocks>,
    /// Its values.
    pub values: Arc<ValueCodes>,
}

/// The arrays of a matrix, and where it remembers how they are packed.
#[derive(Debug, Clone, Copy)]
pub struct Packable<'a> {
    pub(super) row_pointers: &'a [u64],
    pub(super) columns: &'a [u32],
    pub(super) values: ValueBits<'a>,
    /// `None` where nothing is remembered.
    pub(super) known_blocks: Option<&'a OnceLock<Arc<ColumnBlocks>>>,
}

impl Packable<'_> {
    /// How the matrix is packed. Reads all of it, in the rayon pool of the caller.
    pub fn packing(&self) -> Packing {
        let find = || Arc::new(ColumnBlocks::of(self.row_pointers, self.columns));
        let columns = match self.known_blocks {
            // Not inside the lock: a thread that waits for others may run another task that asks for the same.
            Some(known) => known.get().cloned().unwrap_or_else(|| {
                let found = find();
                known.get_or_init(|| found).clone()
            }),
            None => find(),
        };
        Packing { columns, values: self.values.codes() }
    }

    /// Bytes of a nonzero, with its part of the row pointers, estimated from samples.
    pub fn sampled_entry_bytes(&self) -> f64 {
        let rows = self.row_pointers.len().saturating_sub(1);
        let begin = self.row_pointers.first().copied().unwrap_or(0);
        let entries = self.row_pointers.last().map_or(0, |&end| end - begin);
        let blocks = rows.div_ceil(BLOCK_ROWS);
        let groups = (0..SAMPLES).map(|sample| blocks * sample / SAMPLES);
        let sampled = groups.flat_map(|first| first..(first + SAMPLE_LENGTH).min(blocks));
        let (mut bits, mut count) = (0, 0);
        for block in sampled {
            let columns = columns_of(self.row_pointers, self.columns, block);
            bits += (16 + u64::from(block_of(columns).1)) * columns.len() as u64;
            count += columns.len() as u64;
        }
        let per_row = rows as f64 * (4.0 + 4.0 / BLOCK_ROWS as f64) / entries.max(1) as f64;
        bits as f64 / 8.0 / count.max(1) as f64
            + per_row
            + self.values.sampled_code_bytes(SAMPLES, SAMPLE_LENGTH)
    }
}

/// Offsets of columns: 16 bits each in `low`, and `high_bits` more in `high`.
pub struct Offsets<'a> {
    /// The lowest 16 bits.
    pub low: &'a mut [u16],
    /// The others, without a gap between them.
    pub high: &'a mut [u8],
    /// Their number: 0, 4, 8 or 16.
    pub high_bits: u8,
}

impl Offsets<'_> {
    /// Writes the offsets of the entries of some rows, in the rayon pool of the caller. `base_of` has the base of a row. What is behind
    /// the last entry becomes zero.
    pub fn write(self, row_pointers: &[u64], columns: &[u32], base_of: impl Fn(usize) -> u32 + Sync) {
        let Self { low, high, high_bits } = self;
        let (Some(&first), Some(&last)) = (row_pointers.first(), row_pointers.last()) else { return };
        let tasks = low.len().div_ceil(TASK_ENTRIES);
        let bytes = TASK_ENTRIES * usize::from(high_bits) / 8;
        let highs: Vec<&mut [u8]> = if bytes == 0 {
            (0..tasks).map(|_| &mut [][..]).collect()
        } else {
            high.chunks_mut(bytes).collect()
        };
        let parts = low.par_chunks_mut(TASK_ENTRIES).zip(highs.into_par_iter()).enumerate();
        parts.for_each(|(task, (low, high))| {
            high.fill(0);
            let begin = first + (task * TASK_ENTRIES) as u64;
            let end = last.min(begin + low.len() as u64);
            let mut row = row_pointers.partition_point(|&pointer| pointer <= begin).saturating_sub(1);
            let mut at = begin;
            while at < end {
                let row_end = row_pointers.get(row + 1).map_or(end, |&pointer| pointer.min(end));
                let base = base_of(row);
                let own = columns.get(at as usize..row_end as usize).unwrap_or_default();
                let place = (at - begin) as usize;
                for (place, column) in (place..).zip(own) {
                    let offset = column.wrapping_sub(base);
                    low[place] = offset as u16;
                    let above = (offset >> 16) as u16;
                    match high_bits {
                        4 => high[place / 2] |= (above as u8 & 15) << (place % 2 * 4),
                        8 => high[place] = above as u8,
                        16 => high[2 * place..2 * place + 2].copy_from_slice(&above.to_ne_bytes()),
                        _ => {}
                    }
                }
                at = row_end.max(at);
                row += 1;
            }
            let written = (end.saturating_sub(begin) as usize).min(low.len());
            low[written..].fill(0);
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::Csr;

    /// The columns of written offsets.
    fn unpacked(low: &[u16], high: &[u8], high_bits: u8, at: usize, base: u32) -> u32 {
        let above = match high_bits {
            4 => u32::from(high[at / 2] >> (at % 2 * 4) & 15),
            8 => u32::from(high[at]),
            16 => u32::from(u16::from_ne_bytes([high[2 * at], high[2 * at + 1]])),
            _ => 0,
        };
        base + (above << 16 | u32::from(low[at]))
    }

    proptest! {
        #[test]
        fn columns_are_their_bases_plus_their_offsets(
            lengths in proptest::collection::vec(prop_oneof![8 => 0..7usize, 1 => 0..3000usize], 0..120),
            span in prop_oneof![Just(1u32), Just(65_535), Just(65_536), Just((1 << 20) - 1), Just(1 << 20), Just(1 << 24)],
            skipped in 0..40usize,
            seed: u32,
        ) {
            let (mut pointers, mut columns) = (vec![0u64], Vec::new());
            for (row, &length) in lengths.iter().enumerate() {
                let own = |at: usize| (seed % 77) + (at as u32).wrapping_mul(2_654_435_761).wrapping_add(row as u32) % (span + 1);
                columns.extend((0..length).map(own));
                pointers.push(columns.len() as u64);
            }
            let values = vec![1.0; columns.len()];
            let a = Csr::try_new(lengths.len(), span as usize + 78, pointers, columns, values).unwrap();
            let rows = skipped.min(a.rows())..a.rows();
            let blocks = a.view().packable().packing().columns;
            let part = a.view().slice_rows(rows.clone());
            let (padded, high_bits) = (part.nnz().next_multiple_of(4), blocks.high_bits(rows.clone()));
            let (mut low, mut high) = (vec![0xa5a5; padded], vec![0xa5; padded * usize::from(high_bits) / 8]);
            let bases = blocks.bases(rows.clone());
            let base_of = |row: usize| bases[(rows.start % BLOCK_ROWS + row) / BLOCK_ROWS];
            Offsets { low: &mut low, high: &mut high, high_bits }.write(part.row_pointers(), part.columns(), base_of);
            let first = part.row_pointers()[0] as usize;
            for row in 0..part.rows() {
                for at in part.row_range(row) {
                    let found = unpacked(&low, &high, high_bits, at - first, base_of(row));
                    prop_assert_eq!(found, part.columns()[at], "row {}", row);
                }
            }
            prop_assert!(low[part.nnz()..].iter().all(|&bits| bits == 0));
        }
    }
}
