//! CSR with a list of the segments of its long rows, for an A that is copied for each product: A's own arrays are copied unchanged, and
//! the list is short, since most rows are not in it.
//!
//! Arrays: `list`, `parts`, `cuts` and `counters` as in `items.rs`, for the canonical segments of rows of more than
//! [`LONG_ROW`] nonzeros; then `row_pointers`, `columns` and `values` of CSR. The first four are empty if there is no such row.
//!
//! The layout [`Layout::Pattern`] is for a matrix whose values are all equal: `values` has one of them, after `counters`.

use super::items::{Item, List, spans_of};
use super::packed::{self, PackedRows};
use super::storage::{Arrays, Storage, cast, entry_range, write_entries};
use crate::error::{Error, Result};
use crate::kernel::cuda::{Layout, MAX_TILES, Variant};
use crate::kernel::order::SEGMENT;
use crate::matrix::{CsrView, Scalar};
use crate::work::HeldRows;

/// Rows with more nonzeros are cut at every segment, as `kernels/csr_cuts.cu` expects. A group of lanes computes a row of this length
/// in about as much time as a launch takes; the list of longer rows has at most a twentieth of the bytes of their entries.
pub const LONG_ROW: u64 = 2 * SEGMENT as u64;

/// The arrays of a list.
pub(super) const LIST_ARRAYS: usize = 4;

/// The number of the arrays that come before those of A: of the list and, in the pattern's layout, the one value.
const fn list_arrays(layout: Layout) -> usize {
    match layout {
        Layout::Cuts => LIST_ARRAYS,
        Layout::Pattern => LIST_ARRAYS + 1,
        _ => 0,
    }
}

/// The sizes of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub segments: u64,
    cuts: u64,
    pub slots: u64,
}

impl Counts {
    /// The sizes of the list of rows with these lengths.
    fn of(lengths: impl Iterator<Item = u64>) -> Self {
        let mut counts = Self::default();
        for length in lengths.filter(|&length| length > LONG_ROW) {
            let segments = length.div_ceil(SEGMENT as u64);
            let spans = spans_of(length, SEGMENT as u64);
            counts.segments += segments;
            counts.cuts += 1 + spans;
            counts.slots += segments + spans;
        }
        counts
    }
}

/// The arrays of the list of rows with these lengths, and its sizes.
pub(super) fn list_arrays_of(
    lengths: impl Iterator<Item = u64>,
) -> ([(&'static str, u64, u64); LIST_ARRAYS], Counts) {
    let counts = Counts::of(lengths);
    let Counts { segments, cuts, .. } = counts;
    let list = [
        ("list", segments, size_of::<Item>() as u64),
        ("parts", segments, 4),
        ("cuts", cuts, size_of::<super::items::Cut>() as u64),
        ("counters", cuts * MAX_TILES, 4),
    ];
    (list, counts)
}

/// Storage of rows with these lengths, in a layout of this file.
pub(super) fn storage(
    (layout, variant): (Layout, &Variant),
    lengths: impl Iterator<Item = u64>,
    (rows, nnz): (u64, u64),
    value_bytes: u64,
) -> Storage {
    let (list, Counts { segments, slots, .. }) = list_arrays_of(lengths);
    let [pointers, columns] = [("row_pointers", rows + 1, 8), ("columns", nnz, 4)];
    let of_a = match layout {
        Layout::Pattern => [("values", 1, value_bytes), pointers, columns],
        _ => [pointers, columns, ("values", nnz, value_bytes)],
    };
    let storage =
        Storage::lay_out((layout, variant), rows, segments + rows, &[&list[..], &of_a[..]].concat());
    Storage { heavy: segments, scratch_rows: slots, ..storage }
}

/// The bytes of the first value of the matrix; zeros without one, since none is read then.
pub(super) fn first_value<T: Scalar>(rows: CsrView<'_, T>) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (to, &from) in bytes.iter_mut().zip(rows.values().first().map_or(&[][..], bytemuck::bytes_of)) {
        *to = from;
    }
    bytes
}

/// Writes the rows, without their list, into the arrays of a slot.
fn write_rows<T: Scalar>(
    layout: Layout,
    rows: CsrView<'_, T>,
    held: &HeldRows,
    arrays: Arrays<'_, 7>,
) -> Result<()> {
    match (layout, arrays) {
        (Layout::Pattern, [.., pointers, columns]) => {
            cast(pointers)?.copy_from_slice(rows.row_pointers());
            held.local_rows(&rows.columns()[entry_range(rows)], cast(columns)?)
        }
        (_, [.., pointers, columns, values]) => {
            cast(pointers)?.copy_from_slice(rows.row_pointers());
            write_entries(rows, held, cast(columns)?, cast(values)?)
        }
    }
}

impl Storage {
    /// Bytes that are made once and copied with each product, before its first array that is a part of A: those of the list of long rows,
    /// of the value of all nonzeros, or of all that is packed; 0 where there are none.
    pub fn list_bytes(&self) -> u64 {
        if self.layout == Layout::Packed {
            return self.packed_bytes();
        }
        let arrays = list_arrays(self.layout);
        self.arrays.get(arrays).filter(|_| arrays > 0).map_or(0, |array| array.range.start)
    }

    /// The arrays of A that are copied as they are.
    pub fn arrays_of_a(&self) -> impl Iterator<Item = &super::Array> {
        let begin = self.list_bytes();
        self.arrays.iter().filter(move |array| array.range.start >= begin && !array.range.is_empty())
    }

    /// Writes `rows` after a list that was written before.
    pub fn write_after_list<T: Scalar>(
        &self,
        rows: CsrView<'_, T>,
        held: &HeldRows,
        slot: &mut [u8],
    ) -> Result<()> {
        let none = || Error::Internal("a chunk does not fit its slot".into());
        let slot = slot.get_mut(..self.bytes() as usize).ok_or_else(none)?;
        if self.layout == Layout::Packed {
            let values = slot.get_mut(self.packed_bytes() as usize..).unwrap_or_default();
            let own = rows.values().get(entry_range(rows)).unwrap_or_default();
            let values = values.get_mut(..size_of_val(own)).filter(|_| self.packed_bytes() < self.bytes());
            values.into_iter().for_each(|values| values.copy_from_slice(bytemuck::cast_slice(own)));
            return Ok(());
        }
        write_rows(self.layout, rows, held, self.split(slot)?)
    }

    /// Writes these bytes for these rows.
    pub fn write_list<T: Scalar>(&self, rows: CsrView<'_, T>, to: &mut [u8]) -> Result<()> {
        if let Some(packed) = &self.packed {
            return self.write_packed(packed, rows, to);
        }
        let row_pointers = rows.row_pointers();
        let arrays = self.arrays.get(..list_arrays(self.layout)).unwrap_or_default().to_vec();
        if to.len() as u64 != self.list_bytes() || arrays.is_empty() {
            return Err(Error::Internal("a list of long rows has another size than its memory".into()));
        }
        let own = Storage { arrays, ..self.clone() };
        let [items, parts, cuts, counters] = match self.layout {
            Layout::Pattern => {
                let [items, parts, cuts, counters, value] = own.split(to)?;
                let size = value.len();
                value.copy_from_slice(self.one_value.get(..size).unwrap_or_default());
                [items, parts, cuts, counters]
            }
            _ => own.split(to)?,
        };
        List::of_long_rows(LONG_ROW, row_pointers)?.write(items, parts, cuts, counters)
    }

    fn write_packed<T: Scalar>(
        &self,
        packed: &PackedRows,
        rows: CsrView<'_, T>,
        to: &mut [u8],
    ) -> Result<()> {
        if to.len() as u64 != self.list_bytes() {
            return Err(Error::Internal("a packed chunk has another size than its memory".into()));
        }
        let mut own = self.clone();
        if self.packed_bytes() < self.bytes() {
            // Plain values are not among them.
            own.arrays
                .iter_mut()
                .skip(packed::ARRAYS - 1)
                .for_each(|array| array.range.end = array.range.start);
        }
        let arrays: Arrays<'_, { packed::ARRAYS }> = own.split(to)?;
        let [items, parts, cuts, counters, arrays @ ..] = arrays;
        List::of_long_rows(LONG_ROW, rows.row_pointers())?.write(items, parts, cuts, counters)?;
        packed.write(rows, arrays)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::items::{CUT, Cut, MAX_FLAT_SPANS, SPANS};
    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;
    use crate::kernel::order::SPAN;
    use crate::matrix::{AlignedBuffer, Csr};

    fn storage_of(rows: CsrView<'_, f64>) -> Storage {
        Storage::of(Layout::Cuts, &Variant::PLAIN, rows).unwrap()
    }

    proptest! {
        #[test]
        fn the_list_has_every_segment_of_every_long_row_once_and_no_other(
            lengths in proptest::collection::vec(
                prop_oneof![0..9usize, 120..140usize, 250..260usize, 500..1100usize, 7000..10000usize], 0..12),
            skipped in 0..5usize,
        ) {
            let a = random_matrix(&lengths, 10100);
            let rows = a.view().slice_rows(skipped.min(a.rows())..a.rows());
            let storage = storage_of(rows);
            let slot = written(&storage, rows);
            let (items, parts): (Vec<Item>, Vec<u32>) = (part(&slot, &storage, "list"), part(&slot, &storage, "parts"));
            let cuts: Vec<Cut> = part(&slot, &storage, "cuts");
            prop_assert!(part::<u32>(&slot, &storage, "counters").iter().all(|&count| count == 0));
            prop_assert_eq!((storage.heavy, storage.items), (items.len() as u64, items.len() as u64 + rows.rows() as u64));
            let pointers = rows.row_pointers();
            let mut found: Vec<Vec<(u64, u64)>> = vec![Vec::new(); rows.rows()];
            for (item, &part) in items.iter().zip(&parts) {
                let length = u64::from(item.length & !CUT);
                prop_assert!(item.length & CUT != 0 && length <= SEGMENT as u64);
                let mut cut = cuts[item.row as usize];
                prop_assert!(part < cut.parts && cut.parts & SPANS == 0);
                if cut.above > 0 {
                    cut = cuts[cut.above as usize - 1];
                    prop_assert!(cut.above == 0 && cut.parts & SPANS != 0 && u64::from(cut.parts & !SPANS) > MAX_FLAT_SPANS);
                }
                found[cut.row_or_part as usize].push((item.begin_and_rows, length));
            }
            for (row, own) in found.iter().enumerate() {
                let (begin, length) = (pointers[row] - pointers[0], rows.row_length(row) as u64);
                let starts = (0..length).step_by(SEGMENT).filter(|_| length > LONG_ROW);
                let expected = starts.map(|at| (begin + at, (length - at).min(SEGMENT as u64)));
                prop_assert_eq!(own, &expected.collect::<Vec<_>>(), "row {}", row);
            }
            prop_assert_eq!(part::<u64>(&slot, &storage, "row_pointers"), pointers);
            // The list by itself has the same bytes.
            let mut list = AlignedBuffer::<u8>::zeroed(storage.list_bytes() as usize).unwrap();
            list.fill(0xa5);
            storage.write_list(rows, &mut list).unwrap();
            for array in &storage.arrays[..list_arrays(Layout::Cuts)] {
                let range = array.range.start as usize..array.range.end as usize;
                prop_assert_eq!(&list[range.clone()], &slot[range]);
            }
        }
    }

    #[test]
    fn rows_without_a_long_one_have_no_list() {
        let a = random_matrix(&[3, LONG_ROW as usize, 0], 900);
        let storage = storage_of(a.view());
        assert_eq!((storage.list_bytes(), storage.heavy, storage.scratch_rows), (0, 0, 0));
        assert_eq!(storage.bytes(), Storage::csr(3, a.nnz() as u64, 8).bytes());
    }

    #[test]
    fn a_pattern_has_the_arrays_of_csr_cuts_with_one_value() {
        for lengths in [&[3, 700, 0, 260][..], &[9, 2, 0, 5], &[1], &[]] {
            let a = random_matrix(lengths, 900);
            let rows = a.view().slice_rows(lengths.len().min(1)..lengths.len());
            let (cuts, pattern) =
                (storage_of(rows), Storage::of(Layout::Pattern, &Variant::PLAIN, rows).unwrap());
            let (of_cuts, of_pattern) = (written(&cuts, rows), written(&pattern, rows));
            for name in ["list", "parts", "cuts", "counters", "row_pointers", "columns"] {
                let expected: Vec<u8> = part(&of_cuts, &cuts, name);
                assert_eq!(part::<u8>(&of_pattern, &pattern, name), expected, "{name}");
            }
            let first = a.view().values().first().copied().unwrap_or(0.0);
            assert_eq!(part::<f64>(&of_pattern, &pattern, "values"), [first]);
            // Also if the values have become others since they were compared.
            let (pointers, columns) = (a.view().row_pointers().to_vec(), a.view().columns().to_vec());
            let other = Csr::try_new(a.rows(), a.cols(), pointers, columns, vec![7.0; a.nnz()]).unwrap();
            let rows = other.view().slice_rows(lengths.len().min(1)..lengths.len());
            assert_eq!(part::<f64>(&written(&pattern, rows), &pattern, "values"), [first]);
            let numbers = |storage: &Storage| (storage.items, storage.heavy, storage.scratch_rows);
            assert_eq!(numbers(&pattern), numbers(&cuts));
            let least = pattern.array("values").unwrap().end..=pattern.array("row_pointers").unwrap().start;
            assert!(least.contains(&pattern.list_bytes()), "the value is copied with the list");
        }
    }

    #[test]
    fn the_list_of_long_rows_has_at_most_a_twentieth_of_the_bytes_of_their_entries() {
        for length in [LONG_ROW + 1, 400, 1000, 8 * SPAN as u64 + 1, 40_000, 5_000_000] {
            let Counts { segments, cuts, .. } = Counts::of([length].into_iter());
            let bytes = segments * 20 + cuts * (16 + 4 * MAX_TILES);
            assert!(20 * bytes <= length * 12, "{length}: {bytes}");
        }
    }
}
