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
    let (columns, renumbered) = renumbered_columns(rows, owned)?;
    let view = rows.view();
    let (row_pointers, values) =
        (AlignedBuffer::copied_from(view.row_pointers())?, AlignedBuffer::copied_from(view.values())?);
    let matrix = Csr::try_new(view.rows(), columns.len(), row_pointers, renumbered, values)?;
    Ok(LocalColumns { matrix, columns })
}

/// The columns that `rows` use and all of `owned`, ascending, and the new number of the column of each entry. Computed in the rayon
/// pool of the caller.
pub(super) fn renumbered_columns<T: Scalar>(
    rows: &Csr<T>,
    owned: Range<u64>,
) -> Result<(Vec<u32>, AlignedBuffer<u32>)> {
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
    Ok((columns, renumbered))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::generate::generate;

    proptest! {
        #[test]
        fn renumbered_columns_have_no_gaps_and_keep_their_order(
            used in prop::collection::vec(0u32..200, 0..300), begin in 0u64..200, length in 0u64..200,
        ) {
            let (pointers, values) = (vec![0, used.len() as u64], vec![1.0; used.len()]);
            let rows = Csr::try_new(1, 200, pointers, used.clone(), values).unwrap();
            let owned = begin..(begin + length).min(200);
            let (columns, renumbered) = renumbered_columns(&rows, owned.clone()).unwrap();
            let mut want: Vec<u32> = used.iter().copied().chain(owned.start as u32..owned.end as u32).collect();
            want.sort_unstable();
            want.dedup();
            prop_assert_eq!(&columns, &want);
            let named: Vec<u32> = renumbered.iter().map(|&column| columns[column as usize]).collect();
            prop_assert_eq!(named, used);
        }
    }

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
