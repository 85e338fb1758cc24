//! Row groups: consecutive rows stored with the union of their columns, so that each row of X is loaded once per group.
//!
//! Arrays, for groups of R = [`Variant::rows`](crate::kernel::cuda::Variant) rows; the last group may have fewer. A group's
//! columns are stored in octets (8 columns), the last one padded:
//!
//! ```text
//! groups     32 bytes per item: u64 first value; u32 first octet, number of octets, group, cut (0xffffffff for a whole group),
//!            part, rows (bit r: row r takes part, even if it is empty)
//! columns    u32, 8 per octet     the union of the columns of each section, ascending; padding repeats the last column
//! masks      u64 per octet        byte j, bit r: row r of the group has a nonzero in column j; no bit for padding
//! offsets    u32 per octet        index of its first value, relative to the section's first
//! values                          column by column, and within a column by row
//! cuts       16 bytes per cut     u32 first slot; number of parts, bit 31 set if they are canonical spans; index of the parent
//!                                 cut + 1, or 0; index of the part within the parent cut
//! counters   u32 per cut and tile of columns, zero before and after every launch
//! ```
//!
//! A **section** is the unit whose columns are united. If `variant.piece` is 0, section s of a group has the s-th canonical
//! segment of each row, and each section is a work item; a kernel that adds the nonzeros of an item in order, and then the items
//! in order, adds canonically. A row without an s-th segment does not take part in section s, so that adding zero cannot change
//! the sign of a zero. A group with many spans has two levels: its cut has the spans as parts, and each span is a cut with its
//! segments as parts. If `variant.piece` is not 0, a section is the whole group, cut into parts of `variant.piece` columns.
//! `scratch` has R rows of Y's pitch, a slot, for each part of a cut. Columns must ascend strictly within every row of a
//! section; other chunks are refused.

use rayon::prelude::*;

use super::items::{MAX_FLAT_SPANS, SPANS};
use super::storage::{Arrays, Storage, cast};
use crate::error::{Advice, Error, Result};
use crate::kernel::cuda::{Layout, MAX_TILES, Variant};
use crate::kernel::order::{SEGMENT, SPAN};
use crate::matrix::{CsrView, Scalar};
use crate::work::HeldRows;

/// The supported numbers of rows per group.
pub const GROUP_ROWS: [u32; 5] = [2, 3, 4, 6, 8];

/// The largest number of rows per group.
const MAX_ROWS: usize = 8;

/// Columns of an octet.
const OCTET: u64 = 8;

/// Sections per parallel task.
const SECTIONS_PER_TASK: usize = 2048;

/// The cut index of a group that is not cut.
const NO_CUT: u32 = u32::MAX;

/// A work item in device memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
struct Item {
    first_value: u64,
    first_octet: u32,
    octets: u32,
    group: u32,
    cut: u32,
    part: u32,
    rows: u32,
}

/// Segments of a span.
const SPAN_SEGMENTS: u64 = (SPAN / SEGMENT) as u64;

/// A cut group, or a span of one, in device memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
struct Cut {
    first_slot: u32,
    parts: u32,
    above: u32,
    part_above: u32,
}

/// The rows of a group, or one segment of each, whose columns are united.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Section {
    group: u32,
    /// Index of the segment; 0 if the section has whole rows.
    segment: u32,
    /// Bit mask of the rows that take part: those with such a segment, and all rows in the first section.
    rows: u32,
    columns: u32,
    values: u64,
}

impl Section {
    fn octets(&self) -> u64 {
        u64::from(self.columns).div_ceil(OCTET)
    }
}

/// The sizes of a chunk's arrays.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    rows: u64,
    nnz: u64,
    octets: u64,
    items: u64,
    cuts: u64,
    slots: u64,
}

impl Counts {
    /// Adds a group of these sections.
    fn add(&mut self, sections: &[Section], variant: &Variant) {
        let parts: u64 = sections.iter().map(|section| parts_of(section, variant)).sum();
        self.octets += sections.iter().map(Section::octets).sum::<u64>();
        self.items += parts;
        if parts > 1 {
            let cuts = cuts_of(parts, variant);
            let above = if cuts > 1 { cuts } else { 0 };
            self.cuts += cuts + u64::from(cuts > 1);
            self.slots += parts + above;
        }
    }
}

/// Number of work items of a section.
fn parts_of(section: &Section, variant: &Variant) -> u64 {
    match u64::from(variant.piece).div_ceil(OCTET) {
        0 => 1,
        most => section.octets().div_ceil(most).max(1),
    }
}

/// Number of lowest-level cuts of a group with `parts` parts: one, or one per span if there are many spans.
fn cuts_of(parts: u64, variant: &Variant) -> u64 {
    let spans = parts.div_ceil(SPAN_SEGMENTS);
    if variant.piece == 0 && spans > MAX_FLAT_SPANS { spans } else { 1 }
}

/// The sections, group by group.
fn groups_of(sections: &[Section]) -> impl Iterator<Item = &[Section]> {
    sections.chunk_by(|a, b| a.group == b.group)
}

/// Storage of `rows`; an error if the columns of a row do not ascend, or the chunk is too large.
pub(super) fn storage<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Storage> {
    check(variant)?;
    let mut counts = Counts { rows: rows.rows() as u64, nnz: rows.nnz() as u64, ..Counts::default() };
    for sections in groups_of(&sections(variant, rows)?) {
        counts.add(sections, variant);
    }
    if counts.octets.max(counts.items) >= u64::from(NO_CUT) {
        let reason = "a chunk has too many columns for the 32-bit indices of row groups";
        return Err(Error::usage(reason).advise([Advice::MoreChunks]));
    }
    Ok(lay_out(variant, counts, size_of::<T>() as u64))
}

/// An upper bound on the storage of any chunk with this number of rows and nonzeros and this longest row.
pub(super) fn upper_bound(
    variant: &Variant,
    (rows, nnz, longest): (u64, u64, u64),
    value_bytes: u64,
) -> Result<Storage> {
    check(variant)?;
    let groups = rows.div_ceil(u64::from(variant.rows.max(1)));
    let segment = SEGMENT as u64;
    let (octets, parts) = match u64::from(variant.piece).div_ceil(OCTET) {
        0 if longest <= segment => (nnz / OCTET + groups, 0),
        0 => (nnz / OCTET + groups + nnz / segment, nnz / segment),
        most => (nnz / OCTET + groups, (nnz / OCTET + groups) / most),
    };
    // A group with many spans has at most one span per four parts beyond the first.
    let spans = if variant.piece == 0 && longest > MAX_FLAT_SPANS * SPAN as u64 { parts / 4 } else { 0 };
    let (cuts, slots) = (parts.min(groups) + spans, 2 * parts + spans);
    let counts = Counts { rows, nnz, octets, items: groups + parts, cuts, slots };
    Ok(lay_out(variant, counts, value_bytes))
}

fn check(variant: &Variant) -> Result<()> {
    if !GROUP_ROWS.contains(&variant.rows) {
        return Err(Error::Internal(format!("row groups of {} rows are not supported", variant.rows)));
    }
    Ok(())
}

fn lay_out(variant: &Variant, counts: Counts, value_bytes: u64) -> Storage {
    let arrays = [
        ("groups", counts.items, size_of::<Item>() as u64),
        ("columns", counts.octets * OCTET, 4),
        ("masks", counts.octets, 8),
        ("offsets", counts.octets, 4),
        ("values", counts.nnz, value_bytes),
        // At least one, so that the array has an address.
        ("cuts", counts.cuts.max(1), size_of::<Cut>() as u64),
        ("counters", counts.cuts.max(1) * MAX_TILES, 4),
    ];
    let storage = Storage::lay_out((Layout::RowGroups, variant), counts.rows, counts.items, &arrays);
    Storage { scratch_rows: counts.slots.saturating_mul(u64::from(variant.rows)), ..storage }
}

/// All sections, group by group.
fn sections<T: Scalar>(variant: &Variant, rows: CsrView<'_, T>) -> Result<Vec<Section>> {
    let group_rows = variant.rows as usize;
    let of_group = |group: usize| {
        let first = group * group_rows;
        let longest = (first..rows.rows().min(first + group_rows)).map(|row| rows.row_length(row)).max();
        let segments = if variant.piece == 0 { longest.unwrap_or(0).div_ceil(SEGMENT).max(1) } else { 1 };
        (0..segments).map(move |segment| section(variant, rows, group, segment))
    };
    let groups = rows.rows().div_ceil(group_rows);
    (0..groups).into_par_iter().with_min_len(256).flat_map_iter(of_group).collect()
}

fn section<T: Scalar>(
    variant: &Variant,
    rows: CsrView<'_, T>,
    group: usize,
    segment: usize,
) -> Result<Section> {
    let (group, segment) = (group as u32, segment as u32);
    let mut section = Section { group, segment, rows: 0, columns: 0, values: 0 };
    let (mut present, mut columns, mut values) = (0, 0, 0);
    for_each_column(variant, rows, &section, |_, mask, _| {
        columns += 1;
        values += u64::from(mask.count_ones());
        present |= u32::from(mask);
    })?;
    let taking_part = if segment == 0 { u32::from(u8::MAX) } else { present };
    (section.rows, section.columns, section.values) = (taking_part, columns, values);
    Ok(section)
}

/// Calls `visit` for every column of a section with the bit mask of its rows and the index of each row's value.
fn for_each_column<T: Scalar>(
    variant: &Variant,
    rows: CsrView<'_, T>,
    section: &Section,
    mut visit: impl FnMut(u32, u8, &[usize; MAX_ROWS]),
) -> Result<()> {
    let group_rows = variant.rows as usize;
    let first = section.group as usize * group_rows;
    let count = group_rows.min(rows.rows() - first);
    let mut ends = [0; MAX_ROWS];
    let mut at = [0; MAX_ROWS];
    for row in 0..count {
        let range = rows.row_range(first + row);
        (at[row], ends[row]) = (range.start, range.end);
        if variant.piece == 0 {
            at[row] = (range.start + section.segment as usize * SEGMENT).min(range.end);
            ends[row] = (at[row] + SEGMENT).min(range.end);
        }
    }
    let columns = rows.columns();
    let mut before = None;
    loop {
        let unread = (0..count).filter(|&row| at[row] < ends[row]);
        let Some(column) = unread.map(|row| columns[at[row]]).min() else { return Ok(()) };
        if before.is_some_and(|before| column <= before) {
            let reason = "row groups need ascending columns in every row, and a row has others";
            return Err(Error::usage(reason).advise([Advice::OtherKernel]));
        }
        before = Some(column);
        let mut mask = 0;
        for row in 0..count {
            if at[row] < ends[row] && columns[at[row]] == column {
                mask |= 1 << row;
            }
        }
        visit(column, mask, &at);
        (0..count).filter(|row| mask & 1 << row != 0).for_each(|row| at[row] += 1);
    }
}

/// Writes `rows` into the arrays of a slot.
pub(super) fn write<T: Scalar>(
    storage: &Storage,
    rows: CsrView<'_, T>,
    held: &HeldRows,
    arrays: Arrays<'_, 7>,
) -> Result<()> {
    let [items, columns, masks, offsets, values, cuts, counters] = arrays;
    let variant = &storage.variant;
    let sections = sections(variant, rows)?;
    let (items, cuts): (&mut [Item], &mut [Cut]) = (cast(items)?, cast(cuts)?);
    counters.fill(0);
    cuts.fill(bytemuck::Zeroable::zeroed());
    write_items(variant, &sections, items, cuts)?;

    let (mut columns, mut masks, mut offsets): (&mut [u32], &mut [u64], &mut [u32]) =
        (cast(columns)?, cast(masks)?, cast(offsets)?);
    let mut values: &mut [T] = cast(values)?;
    if sections.iter().map(Section::octets).sum::<u64>() != masks.len() as u64 {
        return Err(Error::Internal(
            "the columns of a chunk have changed since its storage was computed".into(),
        ));
    }
    let mut parts = Vec::new();
    for block in sections.chunks(SECTIONS_PER_TASK) {
        let octets = block.iter().map(Section::octets).sum::<u64>() as usize;
        let (own_columns, rest_columns) = columns.split_at_mut(octets * OCTET as usize);
        let (own_masks, rest_masks) = masks.split_at_mut(octets);
        let (own_offsets, rest_offsets) = offsets.split_at_mut(octets);
        let (own_values, rest_values) =
            values.split_at_mut(block.iter().map(|section| section.values).sum::<u64>() as usize);
        (columns, masks, offsets, values) = (rest_columns, rest_masks, rest_offsets, rest_values);
        parts.push((block, own_columns, own_masks, own_offsets, own_values));
    }
    parts.into_par_iter().try_for_each(|(block, columns, masks, offsets, values)| {
        masks.fill(0);
        let (mut octet, mut value_at) = (0, 0);
        for section in block {
            let (mut at, first_value) = (octet * OCTET as usize, value_at);
            for_each_column(variant, rows, section, |column, mask, value_indices| {
                if at % OCTET as usize == 0 {
                    offsets[at / OCTET as usize] = (value_at - first_value) as u32;
                }
                columns[at] = column;
                masks[at / OCTET as usize] |= u64::from(mask) << (8 * (at % OCTET as usize));
                at += 1;
                for row in (0..MAX_ROWS).filter(|row| mask & 1 << row != 0) {
                    values[value_at] = rows.values()[value_indices[row]];
                    value_at += 1;
                }
            })?;
            octet += section.octets() as usize;
            let end = octet * OCTET as usize;
            if at < end {
                let last = columns[at - 1];
                columns[at..end].fill(last);
            }
        }
        columns.iter_mut().try_for_each(|column| {
            *column = held.local_row(*column)?;
            Ok(())
        })
    })
}

/// Writes the work items and their cuts.
fn write_items(variant: &Variant, sections: &[Section], items: &mut [Item], cuts: &mut [Cut]) -> Result<()> {
    let mismatch =
        || Error::Internal("the row groups of a chunk have changed since its storage was computed".into());
    let most = u64::from(variant.piece).div_ceil(OCTET);
    let (mut at, mut octet, mut first_value) = (0, 0, 0);
    let mut list = Cuts { cuts, count: 0, slots: 0 };
    for sections in groups_of(sections) {
        let parts = sections.iter().map(|section| parts_of(section, variant)).sum::<u64>();
        let cuts = cuts_of(parts, variant);
        let first_cut = list.add(parts, cuts).ok_or_else(mismatch)?;
        let parts_of_cut = if cuts > 1 { SPAN_SEGMENTS } else { parts };
        let mut part = 0;
        for section in sections {
            let octets = section.octets();
            for own in 0..parts_of(section, variant) {
                let begin = own * most;
                *items.get_mut(at).ok_or_else(mismatch)? = Item {
                    first_value,
                    first_octet: octet + begin as u32,
                    octets: if most > 0 { (octets - begin).min(most) } else { octets } as u32,
                    group: section.group,
                    cut: if parts > 1 { first_cut + (part / parts_of_cut) as u32 } else { NO_CUT },
                    part: (part % parts_of_cut) as u32,
                    rows: section.rows,
                };
                at += 1;
                part += 1;
            }
            octet += octets as u32;
            first_value += section.values;
        }
    }
    Ok(())
}

/// The cuts written so far.
struct Cuts<'a> {
    cuts: &'a mut [Cut],
    count: u32,
    slots: u32,
}

impl Cuts<'_> {
    /// Adds the cuts of a group and returns the index of the one with its first parts; none if the array is full.
    fn add(&mut self, parts: u64, cuts: u64) -> Option<u32> {
        if parts == 1 {
            return Some(0);
        }
        if cuts == 1 {
            self.push(parts, 0, 0, 0)?;
            return Some(self.count - 1);
        }
        self.push(cuts, SPANS, 0, 0)?;
        let (above, first) = (self.count, self.count);
        for span in 0..cuts {
            let own = (parts - span * SPAN_SEGMENTS).min(SPAN_SEGMENTS);
            self.push(own, 0, above, span as u32)?;
        }
        Some(first)
    }

    fn push(&mut self, parts: u64, flag: u32, above: u32, part_above: u32) -> Option<()> {
        *self.cuts.get_mut(self.count as usize)? =
            Cut { first_slot: self.slots, parts: parts as u32 | flag, above, part_above };
        self.count += 1;
        self.slots += parts as u32;
        Some(())
    }
}

#[cfg(test)]
#[path = "row_groups_tests.rs"]
mod tests;
