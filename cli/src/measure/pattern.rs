//! A coarse picture of where the nonzeros of a matrix are, small enough for every report.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use rowloom::internal::matrix::{CsrView, Scalar};

/// Maximal number of cells along an axis.
const MAX_CELLS: usize = 32;
/// The level of the cell with the most nonzeros.
const MAX_LEVEL: u32 = 7;

/// The nonzeros of at most 32 by 32 cells, as levels. All cells cover the same number of rows and columns; the last ones may
/// extend beyond the matrix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// Rows of the matrix in a cell.
    pub rows_each: u64,
    /// Columns of the matrix in a cell.
    pub cols_each: u64,
    /// One text for each row of cells, with a digit for each cell: 0 without nonzeros, 7 for the most. Levels are equal steps of
    /// the logarithm of the number of nonzeros.
    pub cells: Vec<String>,
}

impl Pattern {
    /// The pattern of a matrix, computed on the pool that the caller is in.
    pub fn of<T: Scalar>(matrix: CsrView<'_, T>) -> Self {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let rows_each = rows.div_ceil(MAX_CELLS).max(1);
        let cols_each = cols.div_ceil(MAX_CELLS).max(1);
        let across = cols.div_ceil(cols_each);
        let line = |cell: usize| {
            let mut counts = vec![0u64; across];
            for row in cell * rows_each..((cell + 1) * rows_each).min(rows) {
                for &column in matrix.row(row).0 {
                    if let Some(count) = counts.get_mut(column as usize / cols_each) {
                        *count += 1;
                    }
                }
            }
            counts
        };
        let lines: Vec<Vec<u64>> = (0..rows.div_ceil(rows_each)).into_par_iter().map(line).collect();
        let most = lines.iter().flatten().copied().max().unwrap_or(0);
        let digit = |count: &u64| char::from_digit(level(*count, most), 10).unwrap_or('0');
        let cells = lines.iter().map(|counts| counts.iter().map(digit).collect()).collect();
        Self { rows_each: rows_each as u64, cols_each: cols_each as u64, cells }
    }
}

/// The level of a cell with `count` nonzeros where the fullest cell has `most`.
fn level(count: u64, most: u64) -> u32 {
    match count {
        0 => 0,
        _ if most <= 1 => MAX_LEVEL,
        _ => {
            let share = (count as f64).ln() / (most as f64).ln();
            (1 + (share * f64::from(MAX_LEVEL)) as u32).min(MAX_LEVEL)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowloom::internal::matrix::generate;

    fn pattern(spec: &str) -> Pattern {
        Pattern::of(generate::<f64>(spec, 1, 1 << 30).unwrap().matrix.view())
    }

    #[test]
    fn a_small_matrix_has_one_cell_for_each_element() {
        let pattern = pattern("diagonal,rows=3");
        assert_eq!((pattern.rows_each, pattern.cols_each), (1, 1));
        assert_eq!(pattern.cells, ["700", "070", "007"]);
    }

    #[test]
    fn a_pattern_of_any_shape_has_at_most_32_by_32_cells_that_cover_the_matrix() {
        for (spec, rows, cols) in [
            ("empty,rows=0", 0, 0),
            ("empty,rows=5,cols=0", 5, 0),
            ("uniform,rows=231,degree=700,cols=319770", 231, 319_770),
            ("rmat,scale=11,degree=5", 2048, 2048),
        ] {
            let Pattern { rows_each, cols_each, cells } = pattern(spec);
            assert!(cells.len() <= 32 && cells.len() as u64 * rows_each >= rows, "{spec}");
            for line in &cells {
                assert!(line.len() <= 32 && line.len() as u64 * cols_each >= cols, "{spec}");
                assert!(line.bytes().all(|digit| (b'0'..=b'7').contains(&digit)), "{spec}");
            }
        }
    }

    #[test]
    fn levels_are_equal_steps_of_the_logarithm() {
        assert_eq!(
            [0, 1, 10, 99, 1000, 10_000_000].map(|count| level(count, 10_000_000)),
            [0, 1, 2, 2, 4, 7]
        );
        assert_eq!((level(1, 1), level(0, 0)), (7, 0));
    }
}
