//! The part of X that a device receives: all rows, a range of rows, or only the rows that its chunks use.
//!
//! Samples decide whether an exact count is worth its time. The part itself is always counted exactly, since a missing row would
//! give a wrong result.

use super::data::XPlan;
use crate::error::Bytes;
use crate::work::spmm::columns::{column_span, distinct_columns};
use crate::work::{ChunkRows, Features, Work, XOrder};

/// A part of X is sent only if it is smaller than this share of X.
pub(super) const MAX_PART: f64 = 0.8;
/// Renumbering columns must save this many times the bytes that it rewrites.
const MIN_GATHER_GAIN: u64 = 2;

/// The part of X, its bytes, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct XChoice {
    pub x: XPlan,
    pub bytes: u64,
    pub reason: String,
}

impl XChoice {
    /// All of X.
    pub fn whole(work: &Work<'_>, order: XOrder, reason: impl Into<String>) -> Self {
        let bytes = work.x_rows_bytes(work.cols() as u64, order);
        Self { x: XPlan::Whole, bytes, reason: reason.into() }
    }

    /// Nothing of X.
    pub fn nothing() -> Self {
        Self { x: XPlan::Nothing, bytes: 0, reason: "nothing of X: it computes nothing".into() }
    }
}

/// The rows of X that a device holds if X stays on the devices: the range that its columns refer to.
pub(super) fn in_place(work: &Work<'_>, order: XOrder, pieces: &[ChunkRows]) -> XChoice {
    let span = column_span(work, pieces);
    let (first, end) = (span.start as u64, (span.end as u64).max(span.start as u64 + 1));
    let end = end.min(work.cols() as u64);
    if pieces.is_empty() || end - first.min(end) == work.cols() as u64 {
        return XChoice::whole(work, order, "all of X: its rows use columns over the whole width of A");
    }
    let bytes = work.x_rows_bytes(end - first.min(end), order);
    let reason = format!("rows {first}..{end} of X: its nonzeros use no others");
    XChoice { x: XPlan::Columns { first, end }, bytes, reason }
}

/// Chooses the part of X for the chunks of one device.
pub(super) fn choose(work: &Work<'_>, order: XOrder, pieces: &[ChunkRows], features: &[Features]) -> XChoice {
    if pieces.is_empty() {
        return XChoice::nothing();
    }
    if pieces.iter().any(|piece| work.piece_columns(piece).is_none()) {
        return XChoice::whole(work, order, "all of X: the columns of A are not known");
    }
    let (cols, row_bytes) = (work.cols() as u64, work.pitch_bytes());
    let nnz: u64 = features.iter().map(|chunk| chunk.nnz).sum();
    let sampled = || features.iter().filter(|chunk| chunk.sampled_columns > 0);
    let first = sampled().map(|chunk| chunk.first_column).min().unwrap_or(0);
    let end = sampled().map(|chunk| chunk.end_column).max().unwrap_or(0);
    let may_be_narrow = ((end - first.min(end)) as f64) < MAX_PART * cols as f64;
    // With this many nonzeros per column, hardly any column is unused.
    let may_be_sparse = nnz < cols;
    if !may_be_narrow && !may_be_sparse {
        return XChoice::whole(work, order, "all of X: its rows use columns over the whole width of A");
    }
    let span = column_span(work, pieces);
    let (first, end) = (span.start as u64, (span.end as u64).max(span.start as u64 + 1).min(cols));
    let width = end - first.min(end);
    if may_be_sparse && (width as f64) > nnz as f64 {
        let columns = distinct_columns(work, pieces).len() as u64;
        let saved = (width - columns.min(width)) * row_bytes;
        let is_small_enough = (columns as f64) < MAX_PART * width as f64;
        if columns > 0 && is_small_enough && saved > MIN_GATHER_GAIN * 4 * nnz {
            let bytes = work.x_rows_bytes(columns, order);
            let reason = format!(
                "{columns} of {cols} rows of X (gathered): its nonzeros use no others; saves {} per product",
                Bytes((cols - columns.min(cols)) * row_bytes)
            );
            return XChoice { x: XPlan::Gather { columns }, bytes, reason };
        }
    }
    if (width as f64) < MAX_PART * cols as f64 {
        let saved = Bytes((cols - width) * row_bytes);
        let reason =
            format!("rows {first}..{end} of X: its nonzeros use no others; saves {saved} per product");
        return XChoice { x: XPlan::Columns { first, end }, bytes: work.x_rows_bytes(width, order), reason };
    }
    XChoice::whole(work, order, "all of X: sending a part would save little")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;
    use crate::work::spmm::features::features;

    fn choice(spec: &str, begin: usize, end: usize) -> XPlan {
        let matrix = generate::<f64>(spec, 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let pieces = [ChunkRows::Rows { begin, end: end.min(matrix.rows()) }];
        choose(&work, XOrder::Rows, &pieces, &features(&work, &pieces)).x
    }

    #[test]
    fn a_part_of_a_band_needs_a_part_of_x() {
        assert_eq!(choice("stencil5,n=30", 0, 300), XPlan::Columns { first: 0, end: 330 });
        assert_eq!(choice("stencil5,n=30", 0, 900), XPlan::Whole);
        assert_eq!(choice("diagonal,rows=1000", 100, 200), XPlan::Columns { first: 100, end: 200 });
    }

    #[test]
    fn scattered_rows_need_all_of_x_unless_they_are_few() {
        assert_eq!(choice("uniform,rows=2000,degree=16", 0, 1000), XPlan::Whole);
        let XPlan::Gather { columns } = choice("uniform,rows=2000,degree=4", 0, 20) else {
            panic!("few scattered rows are gathered")
        };
        assert!(columns <= 80);
    }

    #[test]
    fn a_hub_that_no_sample_saw_still_counts() {
        // Every row names its own column, one row in the middle all of them.
        let rows = 4000u32;
        let mut columns = Vec::new();
        let mut pointers = vec![0u64];
        for row in 0..rows {
            if row == 1237 {
                columns.extend([5, rows - 1]);
            } else {
                columns.push(row / 8);
            }
            pointers.push(columns.len() as u64);
        }
        let work = Work::spmm_pattern(&pointers, Some(&columns), rows as usize, 8, crate::matrix::Dtype::F64)
            .unwrap();
        let pieces = [ChunkRows::Rows { begin: 0, end: 2000 }];
        let choice = choose(&work, XOrder::Rows, &pieces, &features(&work, &pieces));
        match choice.x {
            XPlan::Columns { first, end } => assert_eq!((first, end), (0, u64::from(rows))),
            XPlan::Gather { columns } => assert_eq!(columns, 251),
            XPlan::Whole => {}
            XPlan::Nothing => panic!("it needs some of X"),
        }
    }
}
