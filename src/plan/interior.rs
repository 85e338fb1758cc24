//! Interior rows of vectors that stay on devices: rows that need only rows of X that their own device owns.
//!
//! They can be computed before any row of X arrives from another device. The longest range of them becomes a chunk of its own. The
//! order of each row's sum does not change.

use std::ops::Range;

use crate::work::{ChunkRows, Work};

/// Smallest share of a device's rows that is computed apart: a smaller one hides too little of the exchange.
const MIN_INTERIOR: f64 = 0.25;

/// The chunks of a device that owns the rows of `pieces`, with its interior rows apart. Computed in the rayon pool of the caller.
pub(super) fn interior_apart(work: &Work<'_>, pieces: Vec<ChunkRows>) -> Vec<ChunkRows> {
    let &[ChunkRows::Rows { begin, end }] = &pieces[..] else { return pieces };
    let interior = work.interior(begin..end);
    if (interior.len() as f64) < MIN_INTERIOR * (end - begin) as f64 {
        return pieces;
    }
    let ranges = [begin..interior.start, interior.clone(), interior.end..end];
    let chunk = |rows: &Range<usize>| ChunkRows::Rows { begin: rows.start, end: rows.end };
    ranges.iter().filter(|rows| !rows.is_empty()).map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate;

    #[test]
    fn a_stencil_has_interior_rows_between_its_boundaries() {
        let matrix = generate::<f64>("stencil5,n=30", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), 4).unwrap();
        let cut = |begin, end| interior_apart(&work, vec![ChunkRows::Rows { begin, end }]);
        let rows = |begin, end| ChunkRows::Rows { begin, end };
        assert_eq!(cut(0, 450), [rows(0, 420), rows(420, 450)]);
        assert_eq!(cut(300, 600), [rows(300, 330), rows(330, 570), rows(570, 600)]);
        assert_eq!(cut(0, 900), [rows(0, 900)]);
        assert_eq!(cut(300, 360), [rows(300, 360)], "no row of two lines is interior");
    }
}
