//! The columns of a rank: its rows of A with columns numbered from zero, and the rows of X that they name.
//!
//! Columns that the rows use, and the rows of X that the rank owns, are numbered in ascending order. The order within a row stays, and
//! therefore every bit of Y.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::{Csr, Scalar};

/// Rows of a matrix with the columns that they use.
#[derive(Debug)]
pub struct LocalColumns<T: Scalar> {
    /// The rows, with local columns.
    pub matrix: Csr<T>,
    /// The column of the whole matrix of each local column, ascending.
    pub columns: Vec<u32>,
}

/// Renumbers the columns of `rows`: those that are used, and all of `owned`.
pub fn local_columns<T: Scalar>(rows: &Csr<T>, owned: Range<u64>) -> Result<LocalColumns<T>> {
    let view = rows.view();
    let mut columns: Vec<u32> = Vec::new();
    let owned = owned.start.min(rows.cols() as u64) as u32..owned.end.min(rows.cols() as u64) as u32;
    let outside = view.columns().iter().filter(|column| !owned.contains(column));
    let refused = |_| Error::DoesNotFit {
        what: "the columns of a rank".into(),
        needed_bytes: (view.nnz() + owned.len()) as u64 * 4,
        limit_bytes: 0,
        advice: "the system refused the memory; use more ranks".into(),
    };
    columns.try_reserve(outside.clone().count() + owned.len()).map_err(refused)?;
    columns.extend(outside);
    columns.par_sort_unstable();
    columns.dedup();
    let below = columns.partition_point(|column| *column < owned.start);
    columns.splice(below..below, owned.clone());
    let above = below + owned.len();
    let local = |column: u32| match owned.contains(&column) {
        true => below as u32 + (column - owned.start),
        false if column < owned.start => columns[..below].partition_point(|other| *other < column) as u32,
        false => (above + columns[above..].partition_point(|other| *other < column)) as u32,
    };
    let mut renumbered = AlignedBuffer::<u32>::zeroed(view.nnz())?;
    renumbered
        .par_chunks_mut(1 << 14)
        .zip(view.columns().par_chunks(1 << 14))
        .for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, from)| *to = local(*from)));
    let (row_pointers, values) =
        (AlignedBuffer::copied_from(view.row_pointers())?, AlignedBuffer::copied_from(view.values())?);
    let matrix = Csr::try_new(view.rows(), columns.len(), row_pointers, renumbered, values)?;
    Ok(LocalColumns { matrix, columns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::generate::generate;

    #[test]
    fn local_columns_name_the_same_columns_in_the_same_order() {
        for (spec, owned) in [
            ("uniform,rows=40,degree=7,cols=90", 20..45),
            ("hub,rows=50,degree=2,hubs=3", 0..0),
            ("empty,rows=4", 1..3),
        ] {
            let rows = generate::<f64>(spec, 3, 1 << 20).unwrap().matrix;
            let local = local_columns(&rows, owned.clone()).unwrap();
            assert!(local.columns.is_sorted_by(|a, b| a < b));
            assert!((owned.start..owned.end).all(|column| local.columns.contains(&(column as u32))));
            let used =
                |column: &u32| owned.contains(&u64::from(*column)) || rows.view().columns().contains(column);
            assert!(local.columns.iter().all(used));
            for row in 0..rows.rows() {
                let (columns, values) = local.matrix.view().row(row);
                let named: Vec<u32> = columns.iter().map(|column| local.columns[*column as usize]).collect();
                assert_eq!((&named[..], values), rows.view().row(row));
            }
        }
    }
}
