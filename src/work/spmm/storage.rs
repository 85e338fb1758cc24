//! The storage of a chunk of A in a slot of device memory: named arrays, one after the other.

use std::ops::Range;

use super::packed::PackedRows;
use crate::error::{Error, Result};
use crate::kernel::cuda::{Items, Layout, Variant};
use crate::matrix::{CsrView, Scalar};
use crate::work::Footprint;
use crate::work::HeldRows;

/// The bytes of each array of a chunk, in storage order.
pub(super) type Arrays<'a, const N: usize> = [&'a mut [u8]; N];

/// Alignment in bytes of every array and of the end of the last one; it suits the widest load of any device.
const ALIGNMENT: u64 = 256;

/// An array of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Its name, which is that of the kernel parameter. Columns are local rows of the device's part of X; `row_pointers` are
    /// those of the whole matrix.
    pub name: &'static str,
    /// Its bytes, relative to the start of the slot.
    pub range: Range<u64>,
}

/// The arrays of a chunk in its slot, and the numbers that a launch needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    pub(super) layout: Layout,
    pub(super) variant: Variant,
    /// Rows, or segments, of the chunk.
    pub rows: u64,
    /// Number of work items of a launch: rows, pieces of rows, or groups of rows.
    pub items: u64,
    /// Number of heavy items, which come first; see [`Items::heavy`].
    pub heavy: u64,
    /// Entries per row in padded ELLPACK; 0 in other layouts.
    pub width: u64,
    /// The arrays, in storage order.
    pub arrays: Vec<Array>,
    /// Rows of Y's pitch that a launch needs as scratch memory. Launches of a device do not overlap, so they share one scratch
    /// memory.
    pub scratch_rows: u64,
    /// The bytes of the value of all nonzeros, in layouts that store one: that of the moment when the values were compared.
    pub(super) one_value: [u8; 8],
    /// How a packed chunk is packed.
    pub packed: Option<PackedRows>,
}

impl Storage {
    /// CSR with `rows` rows and `nnz` nonzeros.
    pub fn csr(rows: u64, nnz: u64, value_bytes: u64) -> Self {
        let arrays = [("row_pointers", rows + 1, 8), ("columns", nnz, 4), ("values", nnz, value_bytes)];
        Self::lay_out((Layout::Csr, &Variant::PLAIN), rows, rows, &arrays)
    }

    /// ELLPACK with `rows` rows padded to `width` entries.
    pub fn ell(rows: u64, width: u64, value_bytes: u64) -> Self {
        let entries = rows.saturating_mul(width);
        let arrays = [("columns", entries, 4), ("values", entries, value_bytes)];
        Self { width, ..Self::lay_out((Layout::Ellpack, &Variant::PLAIN), rows, rows, &arrays) }
    }

    /// Storage with these arrays, each given by name, number of elements and bytes per element.
    pub(super) fn lay_out(
        (layout, variant): (Layout, &Variant),
        rows: u64,
        items: u64,
        arrays: &[(&'static str, u64, u64)],
    ) -> Self {
        let mut begin = 0;
        let array = |&(name, count, size): &(&'static str, u64, u64)| {
            let range = begin..u64::saturating_add(begin, count.saturating_mul(size));
            begin = aligned(range.end);
            Array { name, range }
        };
        let arrays = arrays.iter().map(array).collect();
        let variant = *variant;
        let (heavy, width, scratch_rows, one_value, packed) = (0, 0, 0, [0; 8], None);
        Self { layout, variant, rows, items, heavy, width, arrays, scratch_rows, one_value, packed }
    }

    /// The bytes of the array called `name`; none if there is no such array.
    pub fn array(&self, name: &str) -> Option<&Range<u64>> {
        self.arrays.iter().find(|array| array.name == name).map(|array| &array.range)
    }

    /// Whether columns are 16-bit distances from bases.
    pub fn is_narrow(&self) -> bool {
        self.array("bases").is_some_and(|range| !range.is_empty())
    }

    /// The number of this name that a launch needs of a packed chunk.
    pub fn packed_number(&self, name: &str) -> Option<u64> {
        let packed = self.packed.as_ref()?;
        match name {
            "first_row" => Some(packed.first_row()),
            "high_bits" => Some(packed.high_bits().into()),
            "value_code" => Some(packed.code() as u64),
            _ => None,
        }
    }

    /// Bytes of all arrays, alignment padding included.
    pub fn bytes(&self) -> u64 {
        self.arrays.last().map_or(0, |array| aligned(array.range.end))
    }

    /// The numbers of work items of a launch.
    pub fn grid_items(&self) -> Items {
        Items { count: self.items, heavy: self.heavy }
    }

    /// The device memory of the chunk if Y has a pitch of `pitch_bytes`.
    pub fn footprint(&self, pitch_bytes: u64) -> Footprint {
        let scratch_bytes = self.scratch_rows.saturating_mul(pitch_bytes);
        Footprint { slot_bytes: self.bytes(), scratch_bytes }
    }

    /// Splits a slot into the bytes of each array, in storage order.
    pub(super) fn split<'a, const N: usize>(&self, slot: &'a mut [u8]) -> Result<Arrays<'a, N>> {
        let mut rest = slot;
        let mut at = 0;
        let mut parts = Vec::with_capacity(N);
        for Array { range, .. } in &self.arrays {
            let (_, behind) = rest.split_at_mut((range.start - at) as usize);
            let (part, behind) = behind.split_at_mut((range.end - range.start) as usize);
            (rest, at) = (behind, range.end);
            parts.push(part);
        }
        parts
            .try_into()
            .map_err(|_| Error::Internal("the number of arrays of a chunk does not match its layout".into()))
    }
}

/// The size of an array of `nnz` entries that kernels read four at a time.
pub(super) fn padded_entries(nnz: u64) -> u64 {
    nnz.checked_next_multiple_of(4).unwrap_or(u64::MAX)
}

/// The range of the entries of `rows` in the arrays of the matrix.
pub(super) fn entry_range<T: Scalar>(rows: CsrView<'_, T>) -> Range<usize> {
    let pointers = rows.row_pointers();
    pointers[0] as usize..pointers[pointers.len() - 1] as usize
}

/// Writes the columns, as local rows of X, and the values of `rows`; the rest of both arrays becomes zero.
pub(super) fn write_entries<T: Scalar>(
    rows: CsrView<'_, T>,
    held: &HeldRows,
    columns: &mut [u32],
    values: &mut [T],
) -> Result<()> {
    let range = entry_range(rows);
    let (values, no_values) = values.split_at_mut(range.len());
    let (columns, no_columns) = columns.split_at_mut(range.len());
    no_values.fill(T::ZERO);
    no_columns.fill(0);
    values.copy_from_slice(&rows.values()[range.clone()]);
    held.local_rows(&rows.columns()[range], columns)
}

/// `bytes` rounded up to the alignment.
fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

pub(super) fn cast<T: bytemuck::Pod>(bytes: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(bytes)
        .map_err(|error| Error::Internal(format!("a slot is not aligned for its arrays: {error}")))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::matrix::ell::PADDING;
    use crate::matrix::{AlignedBuffer, Csr};

    fn matrix() -> Csr<f64> {
        Csr::try_new(3, 9, vec![0, 2, 2, 5], vec![2, 7, 3, 4, 5], vec![1.0, 2.0, 3.0, 4.0, 5.0]).unwrap()
    }

    /// A matrix with rows of about these lengths and ascending columns.
    pub(in crate::internal::work) fn random_matrix(lengths: &[usize], cols: usize) -> Csr<f64> {
        let (mut pointers, mut columns) = (vec![0u64], Vec::new());
        for (row, &length) in lengths.iter().enumerate() {
            let mut own: Vec<u32> = (0..length).map(|at| ((at * 7 + row * 13) % cols) as u32).collect();
            own.sort_unstable();
            own.dedup();
            columns.extend(own);
            pointers.push(columns.len() as u64);
        }
        let values: Vec<f64> = (0..columns.len()).map(|at| at as f64 + 0.5).collect();
        Csr::try_new(lengths.len(), cols, pointers, columns, values).unwrap()
    }

    /// A slot after `rows` are written to it.
    pub(in crate::internal::work) fn written(storage: &Storage, rows: CsrView<'_, f64>) -> AlignedBuffer<u8> {
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        slot.fill(0xa5);
        storage.write(rows, &HeldRows::Whole { cols: rows.cols() }, &mut slot).unwrap();
        slot
    }

    /// The array called `name` of a slot.
    pub(in crate::internal::work) fn part<T: bytemuck::Pod>(
        slot: &[u8],
        storage: &Storage,
        name: &str,
    ) -> Vec<T> {
        let range = storage.array(name).unwrap();
        let size = size_of::<T>();
        slot[range.start as usize..range.end as usize]
            .chunks_exact(size)
            .map(bytemuck::pod_read_unaligned)
            .collect()
    }

    #[test]
    fn csr_keeps_its_entries_and_translates_its_columns() {
        let a = matrix();
        let rows = a.view().slice_rows(1..3);
        let storage = Storage::of(Layout::Csr, &Variant::PLAIN, rows).unwrap();
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        storage.write(rows, &HeldRows::Range { first: 3, end: 6 }, &mut slot).unwrap();
        assert_eq!(part::<u64>(&slot, &storage, "row_pointers"), [2, 2, 5]);
        assert_eq!(part::<u32>(&slot, &storage, "columns"), [0, 1, 2]);
        assert_eq!(part::<f64>(&slot, &storage, "values"), [3.0, 4.0, 5.0]);
    }

    #[test]
    fn ell_pads_every_row_to_the_longest() {
        let a = matrix();
        let storage = Storage::of(Layout::Ellpack, &Variant::PLAIN, a.view()).unwrap();
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
        storage.write(a.view(), &HeldRows::Whole { cols: 9 }, &mut slot).unwrap();
        let p = PADDING;
        assert_eq!(storage.width, 3);
        assert_eq!(part::<u32>(&slot, &storage, "columns"), [2, 7, p, p, p, p, 3, 4, 5]);
        assert_eq!(part::<f64>(&slot, &storage, "values"), [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn a_slot_that_is_too_small_is_an_error() {
        let a = matrix();
        let storage = Storage::of(Layout::Csr, &Variant::PLAIN, a.view()).unwrap();
        let mut slot = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize - 1).unwrap();
        assert!(storage.write(a.view(), &HeldRows::Whole { cols: 9 }, &mut slot).is_err());
    }

    #[test]
    fn overflowing_sizes_saturate() {
        assert_eq!(Storage::ell(1 << 40, 1 << 40, 8).bytes(), u64::MAX);
    }
}
