//! The part of X that some rows of a sparse matrix need: all rows, a range of rows, or only the rows that their columns refer to.
//!
//! Samples decide whether an exact count is worth its time. The part itself is always counted exactly, since a missing row would
//! give a wrong result.

use super::columns::{column_span, distinct_columns};
use super::{Features, Spmm, features_of};
use crate::error::Bytes;
use crate::work::{ChunkRows, Facts, Kind, MAX_PART, SharedBytes, XChoice, XOrder, XPlan};

/// Renumbering columns must save this many times the bytes that it rewrites.
const MIN_GATHER_GAIN: u64 = 2;

/// The rows of X that a device holds if X stays on the devices: the range that its columns refer to.
pub(super) fn in_place(work: &Spmm<'_>, order: XOrder, pieces: &[ChunkRows]) -> XChoice {
    let span = column_span(work, pieces);
    let (first, end) = (span.start as u64, (span.end as u64).max(span.start as u64 + 1));
    let end = end.min(work.cols() as u64);
    if pieces.is_empty() || end - first.min(end) == work.cols() as u64 {
        return XChoice::whole(work, order, "all of X: its rows use columns over the whole width of A");
    }
    let bytes = work.x_rows_bytes(end - first.min(end), order);
    let reason = format!("rows {first}..{end} of X: its nonzeros use no other rows of X");
    XChoice { x: XPlan::Columns { first, end }, bytes, reason }
}

/// Chooses the part of X for the chunks of one device.
pub(super) fn choose(work: &Spmm<'_>, order: XOrder, pieces: &[ChunkRows], facts: &[Facts]) -> XChoice {
    if pieces.is_empty() {
        return XChoice::nothing();
    }
    if pieces.iter().any(|piece| work.piece_columns(piece).is_none()) {
        return XChoice::whole(work, order, "all of X: the columns of A are not known");
    }
    let (cols, row_bytes) = (work.cols() as u64, work.pitch_bytes());
    let features: Vec<Features> = facts.iter().filter_map(|facts| features_of(facts).ok().copied()).collect();
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
                "{columns} of {cols} rows of X (gathered): its nonzeros use no other rows of X; saves {} per product",
                Bytes((cols - columns.min(cols)) * row_bytes)
            );
            return XChoice { x: XPlan::Gather { columns }, bytes, reason };
        }
    }
    if (width as f64) < MAX_PART * cols as f64 {
        let saved = Bytes((cols - width) * row_bytes);
        let reason = format!(
            "rows {first}..{end} of X: its nonzeros use no other rows of X; saves {saved} per product"
        );
        return XChoice { x: XPlan::Columns { first, end }, bytes: work.x_rows_bytes(width, order), reason };
    }
    XChoice::whole(work, order, "all of X: sending a part would save little")
}

/// From samples of the rows of A: where the columns of each sample are a narrow range, a device that computes neighbouring
/// samples receives the rows of X of its share, and those beyond its ends that its columns reach.
pub(super) fn by_share(work: &Spmm<'_>, samples: &[Facts], devices: usize) -> SharedBytes {
    let all = work.x_bytes();
    let whole = SharedBytes { fixed: all, shared: 0 };
    let features = || samples.iter().filter_map(|facts| features_of(facts).ok());
    let filled = || features().filter(|sample| sample.nnz > 0);
    let count = filled().count();
    if count == 0 || filled().any(|sample| sample.sampled_columns == 0) {
        return whole;
    }
    let widths: u64 = filled().map(|sample| sample.end_column.saturating_sub(sample.first_column)).sum();
    let mean_part = widths as f64 / count as f64 / work.cols().max(1) as f64;
    let beyond = (mean_part - 1.0 / count as f64).max(0.0);
    if beyond + 1.0 / devices.max(1) as f64 > MAX_PART {
        return whole;
    }
    SharedBytes { fixed: (all as f64 * beyond) as u64, shared: all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;

    fn choice(spec: &str, begin: usize, end: usize) -> XPlan {
        let matrix = generate::<f64>(spec, 1, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 8).unwrap();
        let pieces = [ChunkRows::Rows { begin, end: end.min(matrix.rows()) }];
        choose(&work, XOrder::Rows, &pieces, &work.facts(&pieces)).x
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
        let work =
            Spmm::of_pattern(&pointers, Some(&columns), rows as usize, 8, crate::matrix::Dtype::F64).unwrap();
        let pieces = [ChunkRows::Rows { begin: 0, end: 2000 }];
        let choice = choose(&work, XOrder::Rows, &pieces, &work.facts(&pieces));
        match choice.x {
            XPlan::Columns { first, end } => assert_eq!((first, end), (0, u64::from(rows))),
            XPlan::Gather { columns } => assert_eq!(columns, 251),
            XPlan::Whole => {}
            XPlan::Nothing => panic!("it needs some of X"),
        }
    }

    /// The bytes of X for 32 samples of a generated matrix, as shares of X.
    fn shares(spec: &str, devices: usize) -> (f64, f64) {
        let matrix = generate::<f64>(spec, 1, 1 << 30).unwrap().matrix;
        let work = Spmm::new(&matrix.view(), 8).unwrap();
        let pieces = work.split(work.all(), 32);
        let SharedBytes { fixed, shared } = by_share(&work, &work.facts(&pieces), devices);
        (fixed as f64 / work.x_bytes() as f64, shared as f64 / work.x_bytes() as f64)
    }

    #[test]
    fn near_columns_need_x_in_proportion_to_the_share_and_far_columns_all_of_x() {
        let (fixed, shared) = shares("stencil5,n=200", 2);
        // Each sample reaches one line of the grid beyond both of its ends.
        assert!(shared == 1.0 && (fixed - 2.0 / 200.0).abs() < 2e-3, "{fixed}, {shared}");
        assert_eq!(shares("diagonal,rows=4096", 2), (0.0, 1.0));
        assert_eq!(shares("uniform,rows=20000,degree=16", 2), (1.0, 0.0));
        assert_eq!(shares("rmat,scale=14,degree=8", 4), (1.0, 0.0));
    }

    #[test]
    fn columns_that_reach_far_pay_only_with_small_shares() {
        // Each sample reaches a quarter of the grid beyond both of its ends.
        assert_eq!(shares("stencil27,n=4", 2), (1.0, 0.0));
        let (fixed, shared) = shares("stencil27,n=4", 8);
        assert!(shared == 1.0 && fixed > 0.2, "{fixed}");
    }

    #[test]
    fn samples_over_most_of_the_width_decide_without_an_exact_count() {
        let choice = |columns: u32| {
            let pointers = [0, u64::from(columns), 2 * u64::from(columns)];
            let columns: Vec<u32> = (0..columns).chain(0..columns).collect();
            let work = Spmm::of_pattern(&pointers, Some(&columns), 10, 8, crate::matrix::Dtype::F64).unwrap();
            let pieces = [ChunkRows::Rows { begin: 0, end: 2 }];
            let XChoice { x, bytes, reason } = choose(&work, XOrder::Rows, &pieces, &work.facts(&pieces));
            (x, bytes, reason)
        };
        // Rows of X have 64 bytes. A part of four fifths or more is not worth it.
        let whole = "all of X: its rows use columns over the whole width of A";
        for columns in [8, 9, 10] {
            assert_eq!(choice(columns), (XPlan::Whole, 640, whole.into()), "{columns}");
        }
        let (x, bytes, reason) = choice(7);
        assert_eq!((x, bytes), (XPlan::Columns { first: 0, end: 7 }, 448), "{reason}");
    }
}
