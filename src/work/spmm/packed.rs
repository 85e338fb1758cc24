//! A packed A, for an A that is copied with each product: all but plain values is packed once, and crosses the link with fewer bytes.
//!
//! Arrays: `list`, `parts`, `cuts` and `counters` as in `cuts.rs`; `table`, `bases`, `row_starts`, `low`, `high` and `codes` as
//! `kernels/packed.cuh` describes them. Columns refer to all of X.

use super::cuts::{LIST_ARRAYS, list_arrays_of};
use super::storage::{Storage, cast, padded_entries};
use super::{Array, Spmm};
use crate::error::{Advice, Error, Result};
use crate::kernel::KernelId;
use crate::kernel::cuda::{Layout, Variant};
use crate::matrix::packing::{BLOCK_ROWS, Offsets};
use crate::matrix::value_codes::Bits;
use crate::matrix::{CsrView, Dtype, Packing, Scalar, ValueCode};
use crate::work::ChunkRows;

/// Rows, and nonzeros, of a chunk: the kernel counts them with 32 bits.
const MOST: u64 = 1 << 31;

/// How a chunk is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedRows {
    packing: Packing,
    /// Its rows, or the segments of a row.
    rows: ChunkRows,
}

impl PackedRows {
    /// Rows before its first row in the first block of rows.
    pub fn first_row(&self) -> u64 {
        match self.rows {
            ChunkRows::Rows { begin, .. } => (begin % BLOCK_ROWS) as u64,
            ChunkRows::Segments { .. } => 0,
        }
    }

    /// Bits of the offsets of columns above 16.
    pub fn high_bits(&self) -> u8 {
        self.packing.columns.high_bits(self.matrix_rows())
    }

    /// How its values are stored.
    pub fn code(&self) -> ValueCode {
        self.packing.values.code
    }

    /// The rows of the matrix that it has a part of.
    fn matrix_rows(&self) -> std::ops::Range<usize> {
        match self.rows {
            ChunkRows::Rows { begin, end } => begin..end,
            ChunkRows::Segments { row, .. } => row..row + 1,
        }
    }

    /// The base of its row, or segment, number `row`.
    fn base_of(&self, row: usize) -> u32 {
        let block = match self.rows {
            ChunkRows::Rows { begin, .. } => (begin % BLOCK_ROWS + row) / BLOCK_ROWS,
            ChunkRows::Segments { .. } => 0,
        };
        self.packing.columns.bases(self.matrix_rows()).get(block).copied().unwrap_or(0)
    }

    /// Its storage; `lengths` are those of its rows.
    pub(super) fn storage(
        self,
        variant: &Variant,
        lengths: impl Iterator<Item = u64>,
        (rows, nnz): (u64, u64),
        value_bytes: u64,
    ) -> Result<Storage> {
        if nnz.max(rows) >= MOST {
            let name = KernelId::CsrPacked.name();
            let reason = format!(
                "kernel {name} computes chunks of fewer than 2^31 rows and nonzeros, and one has {rows} and {nnz}"
            );
            return Err(Error::usage(reason).advise([Advice::SmallerChunks]));
        }
        let (list, counts) = list_arrays_of(lengths);
        let code = self.code();
        let codes = match code {
            ValueCode::Plain => ("codes", nnz, value_bytes),
            code => ("codes", padded_entries(nnz), code.bytes(value_bytes)),
        };
        let own = [
            ("table", self.packing.values.table.len() as u64, value_bytes),
            ("bases", (self.first_row() + rows).div_ceil(BLOCK_ROWS as u64), 4),
            ("row_starts", rows + 1, 4),
            ("low", padded_entries(nnz), 2),
            ("high", padded_entries(nnz) / 4, u64::from(self.high_bits()) / 2),
            codes,
        ];
        let layout = (Layout::Packed, variant);
        let storage = Storage::lay_out(layout, rows, counts.segments + rows, &[&list[..], &own[..]].concat());
        let (heavy, scratch_rows) = (counts.segments, counts.slots);
        Ok(Storage { heavy, scratch_rows, packed: Some(self), ..storage })
    }

    /// Writes all arrays but those of the list, and plain values.
    pub(super) fn write<T: Scalar>(&self, rows: CsrView<'_, T>, arrays: [&mut [u8]; 6]) -> Result<()> {
        let [table, bases, row_starts, low, high, codes] = arrays;
        let values = &self.packing.values;
        values.write_table(size_of::<T>(), table);
        let pointers = rows.row_pointers();
        let (first, last) = (pointers.first().copied().unwrap_or(0), pointers.last().copied().unwrap_or(0));
        for (block, base) in cast::<u32>(bases)?.iter_mut().enumerate() {
            *base = self.base_of(block * BLOCK_ROWS);
        }
        for (to, &pointer) in cast::<u32>(row_starts)?.iter_mut().zip(pointers) {
            *to = (pointer - first) as u32;
        }
        let offsets = Offsets { low: cast(low)?, high, high_bits: self.high_bits() };
        offsets.write(pointers, rows.columns(), |row| self.base_of(row));
        let own = rows.values().get(first as usize..last as usize).unwrap_or_default();
        match (self.code(), T::DTYPE) {
            (ValueCode::Plain, _) => Ok(()),
            (_, Dtype::F32) => values.write(bits_of::<T, u32>(own)?, codes),
            (_, Dtype::F64) => values.write(bits_of::<T, u64>(own)?, codes),
        }
    }
}

fn bits_of<T: Scalar, B: Bits>(values: &[T]) -> Result<&[B]> {
    bytemuck::try_cast_slice(values).map_err(|error| {
        Error::Internal(format!("the values of A have another size than their bits: {error}"))
    })
}

impl Storage {
    /// Bytes of a packed chunk before its plain values; all where its values are coded.
    pub(super) fn packed_bytes(&self) -> u64 {
        let is_plain = self.packed.as_ref().is_some_and(|packed| packed.code() == ValueCode::Plain);
        let values = self.arrays.last().filter(|_| is_plain);
        values.map_or(self.bytes(), |values: &Array| values.range.start)
    }

    /// The storage of rows of a matrix that is packed like this; `chunk` says which they are.
    pub fn of_packed<T: Scalar>(
        variant: &Variant,
        rows: CsrView<'_, T>,
        packing: Packing,
        chunk: ChunkRows,
    ) -> Result<Self> {
        let lengths = rows.row_pointers().windows(2).map(|pair| pair[1] - pair[0]);
        let size = (rows.rows() as u64, rows.nnz() as u64);
        PackedRows { packing, rows: chunk }.storage(variant, lengths, size, size_of::<T>() as u64)
    }
}

impl Spmm<'_> {
    /// How A is packed; a usage error where its columns are not known.
    pub(super) fn packing(&self) -> Result<Packing> {
        if let Some(known) = self.packing.get() {
            return Ok(known.clone());
        }
        let name = KernelId::CsrPacked.name();
        let none = || {
            Error::usage(format!("kernel {name} reads packed columns, and the columns of A are not known"))
                .advise([Advice::AutomaticKernel])
        };
        let packing = self.packable.ok_or_else(none)?.packing();
        Ok(self.packing.get_or_init(|| packing).clone())
    }

    /// The storage of a piece, packed.
    pub(super) fn packed_storage(&self, piece: &ChunkRows, variant: &Variant) -> Result<Storage> {
        let packed = PackedRows { packing: self.packing()?, rows: *piece };
        let size = (piece.slice_rows() as u64, self.piece_nnz(piece));
        packed.storage(variant, self.lengths(piece), size, self.dtype().bytes() as u64)
    }
}

/// The arrays of a packed chunk.
pub(super) const ARRAYS: usize = LIST_ARRAYS + 6;
