//! CSR with a list of work items, which balance the load of lanes for any distribution of row lengths.
//!
//! Arrays: `row_pointers`, `columns` and `values` of CSR, and
//!
//! ```text
//! list       16 bytes per item: u64 with the first nonzero, relative to the chunk's first, in the low 48 bits and the number
//!            of whole rows in the high 16; u32 nonzeros, bit 31 set for a part of a cut row; u32 first row, or index of the cut
//! parts      u32 per item: index of the part within its cut; 0 for whole rows
//! cuts       16 bytes per cut row or span: u32 row, or index of the part within the parent cut; u32 first slot; u32 number of
//!            parts, bit 31 set if they are canonical spans; u32 index of the parent cut + 1, or 0
//! counters   u32 per cut and tile of columns, zero before and after every launch
//! ```
//!
//! `scratch` has one row of Y's pitch, a slot, for each part of a cut. A row that is cut at segments and has more than
//! [`MAX_FLAT_SPANS`] spans has two levels: its cut has the spans as parts, and each span is a cut with its segments as parts.
//!
//! **Runs** are consecutive whole rows with at most `variant.piece` nonzeros in total; rows longer than a canonical segment are
//! cut at every segment. **Pieces** are single rows, cut if they have more than `variant.piece` nonzeros. Heavy pieces come
//! first, sorted by length; the others follow, sorted by length within windows so that the lanes of a warp finish at about the
//! same time.

use rayon::prelude::*;

use super::storage::{Arrays, Storage, cast, padded_entries, write_entries};
use crate::error::{Advice, Error, Result};
use crate::kernel::cuda::{Layout, MAX_TILES, Variant};
use crate::kernel::order::{SEGMENT, SPAN};
use crate::matrix::{CsrView, Scalar};
use crate::work::HeldRows;

/// Flag in the length of an item that is a part of a cut row.
pub const CUT: u32 = 1 << 31;
/// Flag in the number of a cut's parts: the parts are canonical spans.
pub(super) const SPANS: u32 = 1 << 31;
/// Maximal number of spans of a cut row for which one group of lanes adds up all segments. With more spans the additions would
/// be bound by memory latency; with a lower limit, by the synchronization of two levels.
pub(super) const MAX_FLAT_SPANS: u64 = 8;
/// Number of bits for an item's first nonzero.
const BEGIN_BITS: u32 = 48;
/// Rows with more nonzeros than this are heavy: they get a warp each.
const HEAVY_NONZEROS: u64 = 64;
/// Items of a window; items are sorted by length within a window only, to keep accesses to Y local.
const WINDOW: usize = 4096;

/// A work item in device memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Item {
    pub begin_and_rows: u64,
    pub length: u32,
    pub row: u32,
}

/// A cut row, or a span of one, in device memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Cut {
    pub row_or_part: u32,
    pub first_slot: u32,
    pub parts: u32,
    pub above: u32,
}

/// The work items of a launch.
#[derive(Debug, Default)]
pub(super) struct List {
    /// Items, each with the index of its part.
    items: Vec<(Item, u32)>,
    heavy: usize,
    cuts: Vec<Cut>,
    slots: u64,
}

impl List {
    fn of(layout: Layout, variant: &Variant, row_pointers: &[u64]) -> Result<Self> {
        check_limits(max_item_nonzeros(variant), row_pointers)?;
        let mut list = Self::default();
        match layout {
            Layout::Runs => list.add_runs(max_item_nonzeros(variant), row_pointers),
            _ => list.add_pieces(max_item_nonzeros(variant), row_pointers),
        }
        Ok(list)
    }

    /// The segments of rows with more than `longest_whole` nonzeros.
    pub fn of_long_rows(longest_whole: u64, row_pointers: &[u64]) -> Result<Self> {
        let segment = SEGMENT as u64;
        check_limits(segment, row_pointers)?;
        let (mut list, first) = (Self::default(), row_pointers[0]);
        for (row, pair) in row_pointers.windows(2).enumerate() {
            if pair[1] - pair[0] > longest_whole {
                list.cut(row, pair[0] - first, pair[1] - pair[0], segment);
            }
        }
        list.heavy = list.items.len();
        Ok(list)
    }

    /// Writes the list into its arrays. There may be more cuts than it has.
    pub fn write(
        &self,
        items: &mut [u8],
        parts: &mut [u8],
        cuts: &mut [u8],
        counters: &mut [u8],
    ) -> Result<()> {
        let (items, parts, cuts): (&mut [Item], &mut [u32], &mut [Cut]) =
            (cast(items)?, cast(parts)?, cast(cuts)?);
        if self.items.len() != items.len() || self.cuts.len() > cuts.len() {
            return Err(Error::Internal(
                "the number of work items of a chunk has changed since its storage was computed".into(),
            ));
        }
        for ((to, part_to), (item, part)) in items.iter_mut().zip(parts).zip(&self.items) {
            (*to, *part_to) = (*item, *part);
        }
        cuts.fill(bytemuck::Zeroable::zeroed());
        cuts[..self.cuts.len()].copy_from_slice(&self.cuts);
        counters.fill(0);
        Ok(())
    }

    /// Cuts a row into parts of `most` nonzeros, in two levels if the parts are segments and the row has many spans.
    fn cut(&mut self, row: usize, begin: u64, length: u64, most: u64) {
        let parts = length.div_ceil(most);
        let spans = spans_of(length, most);
        let by_spans = spans > 0;
        let (cuts, parts_of_cut) = if by_spans { (spans, (SPAN / SEGMENT) as u64) } else { (1, parts) };
        let mut above = 0;
        if by_spans {
            self.add_cut(row as u32, spans, SPANS, above);
            above = self.cuts.len() as u32;
        }
        for cut in 0..cuts {
            let first = cut * parts_of_cut;
            let own = (parts - first).min(parts_of_cut);
            let row_or_part = if by_spans { cut as u32 } else { row as u32 };
            self.add_cut(row_or_part, own, if most == SPAN as u64 { SPANS } else { 0 }, above);
            let cut = self.cuts.len() as u32 - 1;
            for part in 0..own {
                let offset = (first + part) * most;
                let own = (length - offset).min(most) as u32;
                let item = Item { begin_and_rows: begin + offset, length: own | CUT, row: cut };
                self.items.push((item, part as u32));
            }
        }
    }

    fn add_cut(&mut self, row_or_part: u32, parts: u64, flag: u32, above: u32) {
        self.cuts.push(Cut { row_or_part, first_slot: self.slots as u32, parts: parts as u32 | flag, above });
        self.slots += parts;
    }

    fn add_runs(&mut self, most: u64, row_pointers: &[u64]) {
        let (first, rows) = (row_pointers[0], row_pointers.len() - 1);
        let segment = SEGMENT as u64;
        let most_rows = (most as usize).min(usize::from(u16::MAX));
        let mut row = 0;
        while row < rows {
            let begin = row_pointers[row];
            let length = row_pointers[row + 1] - begin;
            if length > segment {
                self.cut(row, begin - first, length, segment);
                row += 1;
                continue;
            }
            // A row longer than `most` is a run by itself: the next row then never fits.
            let fits = |&end: &usize| row_pointers[end + 1] - begin <= most && end - row < most_rows;
            let end = (row + 1..rows).take_while(fits).last().map_or(row + 1, |last| last + 1);
            let length = (row_pointers[end] - begin) as u32;
            let begin_and_rows = (begin - first) | ((end - row) as u64) << BEGIN_BITS;
            self.items.push((Item { begin_and_rows, length, row: row as u32 }, 0));
            row = end;
        }
    }

    fn add_pieces(&mut self, most: u64, row_pointers: &[u64]) {
        let first = row_pointers[0];
        let mut light = Vec::new();
        for (row, pair) in row_pointers.windows(2).enumerate() {
            let (begin, length) = (pair[0] - first, pair[1] - pair[0]);
            if length > most {
                self.cut(row, begin, length, most);
                continue;
            }
            let item =
                Item { begin_and_rows: begin | 1 << BEGIN_BITS, length: length as u32, row: row as u32 };
            if length > HEAVY_NONZEROS { &mut self.items } else { &mut light }.push((item, 0));
        }
        let descending = |(item, _): &(Item, u32)| std::cmp::Reverse(item.length & !CUT);
        self.items.par_sort_by_key(descending);
        self.heavy = self.items.len();
        light.par_chunks_mut(WINDOW).for_each(|window| window.sort_by_key(descending));
        self.items.append(&mut light);
    }
}

/// The number of spans that are cuts of their own in a row with parts of `most` nonzeros; 0 if the row is the only cut.
pub(super) fn spans_of(length: u64, most: u64) -> u64 {
    let spans = length.div_ceil(SPAN as u64);
    if most == SEGMENT as u64 && spans > MAX_FLAT_SPANS { spans } else { 0 }
}

/// An error if rows, nonzeros, or the parts of a row of `most` nonzeros are too many for a list.
fn check_limits(most: u64, row_pointers: &[u64]) -> Result<()> {
    let rows = row_pointers.len() as u64 - 1;
    let longest = row_pointers.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let nnz = row_pointers[row_pointers.len() - 1] - row_pointers[0];
    if rows >= u64::from(CUT) || nnz >> BEGIN_BITS != 0 || longest.div_ceil(most) >= u64::from(CUT) {
        let reason = "a chunk has too many rows or nonzeros for the 32-bit work list of this kernel";
        return Err(Error::usage(reason).advise([Advice::MoreChunks]));
    }
    Ok(())
}

/// Maximal nonzeros of an item.
fn max_item_nonzeros(variant: &Variant) -> u64 {
    u64::from(variant.piece.clamp(1, CUT - 1))
}

/// Storage of `rows`.
pub(super) fn storage<T: Scalar>(layout: Layout, variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    let list = List::of(layout, variant, rows.row_pointers())?;
    let counts = (list.items.len() as u64, list.cuts.len() as u64, list.slots);
    let storage =
        lay_out((layout, variant), counts, (rows.rows() as u64, rows.nnz() as u64), size_of::<T>() as u64);
    Ok(Storage { heavy: list.heavy as u64, ..storage })
}

/// An upper bound on the storage of any chunk with this number of rows and nonzeros and this longest row.
pub(super) fn upper_bound(
    layout: Layout,
    variant: &Variant,
    (rows, nnz, longest): (u64, u64, u64),
    value_bytes: u64,
) -> Storage {
    let most = if layout == Layout::Runs { SEGMENT as u64 } else { max_item_nonzeros(variant) };
    let counts = if longest <= most {
        (rows, 0, 0)
    } else {
        let cuts = rows.min(nnz / (most + 1));
        // Rounding up at most doubles the number of spans of a row with several.
        let has_many = most == SEGMENT as u64 && longest > MAX_FLAT_SPANS * SPAN as u64;
        let spans = if has_many { 2 * (nnz / SPAN as u64) } else { 0 };
        (rows.saturating_add(nnz / most), cuts + spans, nnz / most + cuts + spans)
    };
    lay_out((layout, variant), counts, (rows, nnz), value_bytes)
}

fn lay_out(
    form: (Layout, &Variant),
    (items, cuts, slots): (u64, u64, u64),
    (rows, nnz): (u64, u64),
    value_bytes: u64,
) -> Storage {
    let entries = padded_entries(nnz);
    let arrays = [
        ("list", items, size_of::<Item>() as u64),
        ("parts", items, 4),
        // At least one, so that the array has an address.
        ("cuts", cuts.max(1), size_of::<Cut>() as u64),
        ("counters", cuts.max(1) * MAX_TILES, 4),
        ("row_pointers", rows + 1, 8),
        ("columns", entries, 4),
        ("values", entries, value_bytes),
    ];
    let storage = Storage::lay_out(form, rows, items, &arrays);
    Storage { scratch_rows: slots, ..storage }
}

/// Writes `rows` into the arrays of a slot.
pub(super) fn write<T: Scalar>(
    storage: &Storage,
    rows: CsrView<'_, T>,
    held: &HeldRows,
    arrays: Arrays<'_, 7>,
) -> Result<()> {
    let [items, parts, cuts, counters, pointers, columns, values] = arrays;
    let list = List::of(storage.layout, &storage.variant, rows.row_pointers())?;
    list.write(items, parts, cuts, counters)?;
    cast(pointers)?.copy_from_slice(rows.row_pointers());
    write_entries(rows, held, cast(columns)?, cast(values)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::storage::tests::{part, random_matrix, written};
    use super::*;

    fn begin(item: &Item) -> usize {
        (item.begin_and_rows & ((1 << BEGIN_BITS) - 1)) as usize
    }

    proptest! {
        #[test]
        fn items_cover_every_row_once_within_the_storage_bound(
            lengths in proptest::collection::vec(
                prop_oneof![Just(0usize), 0..9usize, 0..80usize, 250..600usize, 1000..2200usize, 7000..10000usize], 0..12),
            piece in prop_oneof![1..70u32, Just(SEGMENT as u32), Just(SPAN as u32)],
            runs: bool,
            skipped in 0..5usize,
        ) {
            let layout = if runs { Layout::Runs } else { Layout::Pieces };
            let a = random_matrix(&lengths, 10100);
            let rows = a.view().slice_rows(skipped.min(a.rows())..a.rows());
            let variant = Variant { piece, ..Variant::PLAIN };
            let storage = storage(layout, &variant, rows).unwrap();
            let slot = written(&storage, rows);
            let items: Vec<Item> = part(&slot, &storage, "list");
            let (parts, cuts): (Vec<u32>, Vec<Cut>) = (part(&slot, &storage, "parts"), part(&slot, &storage, "cuts"));
            prop_assert!(part::<u32>(&slot, &storage, "counters").iter().all(|&count| count == 0));
            let pointers = rows.row_pointers();
            let mut found: Vec<Vec<(usize, u32)>> = vec![Vec::new(); rows.rows()];
            for (item, &part) in items.iter().zip(&parts) {
                let (mut at, length) = (begin(item), (item.length & !CUT) as usize);
                if item.length & CUT != 0 {
                    let most = if runs { SEGMENT } else { piece as usize };
                    prop_assert!(length <= most);
                    let mut cut = cuts[item.row as usize];
                    prop_assert!(part < cut.parts & !SPANS);
                    prop_assert_eq!(cut.parts & SPANS != 0, most == SPAN);
                    if cut.above > 0 {
                        let span = cut.row_or_part;
                        cut = cuts[cut.above as usize - 1];
                        prop_assert!(cut.parts & SPANS != 0 && cut.above == 0);
                        prop_assert!(span < cut.parts & !SPANS && cut.parts & !SPANS > MAX_FLAT_SPANS as u32);
                        // The parts of a span are inside it.
                        let in_row = at + pointers[0] as usize - pointers[cut.row_or_part as usize] as usize;
                        prop_assert_eq!((in_row / SPAN, in_row % SPAN / SEGMENT), (span as usize, part as usize));
                    }
                    found[cut.row_or_part as usize].push((at, length as u32));
                    continue;
                }
                let count = (item.begin_and_rows >> BEGIN_BITS) as usize;
                prop_assert!(count > 0 && (count == 1 || (runs && length <= piece as usize)));
                let first = item.row as usize;
                for (row, found) in found.iter_mut().enumerate().skip(first).take(count) {
                    let own = rows.row_length(row);
                    found.push((at, own as u32));
                    at += own;
                }
                prop_assert_eq!(at, begin(item) + length);
            }
            for (row, mut own) in found.into_iter().enumerate() {
                own.sort_unstable();
                let mut at = (pointers[row] - pointers[0]) as usize;
                for (begin, length) in own {
                    prop_assert_eq!(begin, at);
                    at += length as usize;
                }
                prop_assert_eq!(at as u64, pointers[row + 1] - pointers[0], "row {}", row);
            }
            let is_light = |item: &Item| item.length & CUT == 0 && u64::from(item.length) <= HEAVY_NONZEROS;
            prop_assert!(runs || items[storage.heavy as usize..].iter().all(is_light));
            prop_assert!(!items[..storage.heavy as usize].iter().any(is_light));
            let longest = (0..rows.rows()).map(|row| rows.row_length(row)).max().unwrap_or(0) as u64;
            let bound = upper_bound(layout, &variant, (rows.rows() as u64, rows.nnz() as u64, longest), 8);
            prop_assert!(storage.bytes() <= bound.bytes() && storage.scratch_rows <= bound.scratch_rows);
        }
    }

    #[test]
    fn a_row_is_cut_where_it_has_more_nonzeros_than_a_piece() {
        let variant = Variant { piece: 2, ..Variant::PLAIN };
        // Rows of 5, 2, 3 and 0 nonzeros, after 10 nonzeros of other rows.
        let list = List::of(Layout::Pieces, &variant, &[10, 15, 17, 20, 20]).unwrap();
        let items = list.items.iter().map(|(item, part)| (begin(item), item.length, item.row, *part));
        let parts_of_cuts = [
            (0, 2 | CUT, 0, 0),
            (2, 2 | CUT, 0, 1),
            (7, 2 | CUT, 1, 0),
            (4, 1 | CUT, 0, 2),
            (9, 1 | CUT, 1, 1),
        ];
        let whole_rows = [(5, 2, 1, 0), (10, 0, 3, 0)];
        assert_eq!(items.collect::<Vec<_>>(), [&parts_of_cuts[..], &whole_rows].concat());
        let cut = |row_or_part, first_slot, parts| Cut { row_or_part, first_slot, parts, above: 0 };
        assert_eq!((list.heavy, list.slots), (5, 5));
        assert_eq!(list.cuts, [cut(0, 0, 3), cut(2, 3, 2)]);
    }

    #[test]
    fn the_nonzeros_of_an_item_fit_below_the_flag() {
        let most = |piece| max_item_nonzeros(&Variant { piece, ..Variant::PLAIN });
        assert_eq!([0, 1, 64].map(most), [1, 1, 64]);
        assert_eq!([(1 << 31) - 1, 1 << 31, u32::MAX].map(most), [0x7fff_ffff; 3]);
    }
}
