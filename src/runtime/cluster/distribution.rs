//! The rows that ranks need of each other, and the matrix of a rank with the columns renumbered.

use std::ops::Range;
use std::sync::Arc;

use super::Cluster;
use super::halo::renumbered_columns;
use super::rank_matrix::RankMatrix;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::{Csr, Scalar};
use crate::runtime::vectors::{RankLists, Span};
use crate::runtime::{Product, ProductOptions};
use crate::work::owned_rows_of_x;

/// Consecutive rows of a matrix that is divided between ranks.
#[derive(Debug)]
pub struct RowBlock<T: Scalar> {
    /// The number of the first row in the whole matrix.
    pub first_row: u64,
    /// Number of rows of the whole matrix.
    pub total_rows: u64,
    /// The rows. Columns have the numbers of the whole matrix, and there are as many as the whole matrix has.
    pub matrix: Csr<T>,
}

impl<T: Scalar> RowBlock<T> {
    /// The rows that rank `rank` has read.
    #[doc(hidden)]
    pub fn read(rows: RankMatrix<T>, rank: usize) -> Self {
        let first_row = rows.boundaries.get(rank).copied().unwrap_or(0);
        Self { first_row, total_rows: rows.rows(), matrix: rows.matrix }
    }
}

/// The rows of every rank, which the ranks tell each other now. An error if together they are not all rows of one matrix.
fn row_bounds<T: Scalar>(cluster: &Cluster, block: &RowBlock<T>) -> Result<Vec<u64>> {
    let own = [block.first_row, block.matrix.rows() as u64, block.total_rows, block.matrix.cols() as u64];
    let ranks = cluster.communicator();
    let mut bounds = vec![0];
    for (rank, bytes) in ranks.all_gather(bytemuck::cast_slice(&own))?.iter().enumerate() {
        let numbers: Vec<u64> = bytemuck::pod_collect_to_vec(bytes);
        let [first, rows, total, cols] = numbers[..] else {
            return Err(Error::Internal("a rank did not tell its rows".into()));
        };
        let next = bounds.last().copied().unwrap_or(0);
        if (first, total, cols) != (next, own[2], own[3]) {
            return Err(Error::usage(format!(
                "rank {rank} has {rows} rows from row {first} on of a {total} x {cols} matrix; they do not continue the rows of the \
                 ranks before it, which end at row {next} of a {} x {} matrix",
                own[2], own[3]
            )));
        }
        bounds.push(first.saturating_add(rows));
    }
    if bounds.last() != Some(&own[2]) {
        return Err(Error::usage(format!("the ranks do not have all of the {} rows", own[2])));
    }
    Ok(bounds)
}

/// A matrix that is divided between ranks, for products with any numbers of columns, which share it.
#[derive(Clone)]
pub struct Distributed<T: Scalar> {
    /// The rows of this rank with the columns renumbered.
    pub(super) matrix: Arc<Csr<T>>,
    /// The rows of X that ranks need of each other.
    pub(super) lists: Arc<RankLists>,
}

impl<T: Scalar> Distributed<T> {
    /// The rows of this rank. Their columns have the numbers of its own rows and ghost rows of X.
    pub fn matrix(&self) -> &Arc<Csr<T>> {
        &self.matrix
    }

    /// The rows of X that this rank owns, and the number of all rows of X.
    pub fn x_rows(&self) -> (Range<u64>, u64) {
        let Span { first, rows, total } = self.lists.x;
        (first..first + rows, total)
    }

    /// The rows of A and Y that this rank owns, and the number of all rows.
    pub fn y_rows(&self) -> (Range<u64>, u64) {
        let Span { first, rows, total } = self.lists.y;
        (first..first + rows, total)
    }
}

impl Cluster {
    /// The matrix of which this rank has the rows `block`, for products with several numbers of columns. All ranks call this.
    #[doc(hidden)]
    pub fn distribute<T: Kernels>(&self, block: RowBlock<T>) -> Result<Distributed<T>> {
        let ranks = self.communicator();
        let (rank, size) = (ranks.rank(), ranks.size());
        let (total, cols) = (block.total_rows, block.matrix.cols() as u64);
        let y_bounds = row_bounds(self, &block)?;
        let is_square = total == cols;
        let scaled = |bound: u64| owned_rows_of_x(0..bound, total, cols).end;
        let x_bounds: Vec<u64> =
            if is_square { y_bounds.clone() } else { y_bounds.iter().map(|&bound| scaled(bound)).collect() };
        let own = x_bounds[rank]..x_bounds[rank + 1];
        let pool = self.runtime().pool();
        let (mut used, renumbered) = pool.install(|| renumbered_columns(&block.matrix, own.clone()))?;
        let columns = used.len();
        let outside = |column: &u32| !own.contains(&u64::from(*column));
        used.retain(outside);
        // For each rank the rows that this rank needs, counted from the first row of that rank.
        let of_rank = |other: usize| {
            let bounds = x_bounds[other]..x_bounds[other + 1];
            let place = |bound: u64| used.partition_point(|&row| u64::from(row) < bound);
            let list = if other == rank { &[][..] } else { &used[place(bounds.start)..place(bounds.end)] };
            list.iter().map(|&row| row - bounds.start as u32).collect::<Vec<u32>>()
        };
        let wanted: Vec<Vec<u32>> = (0..size).map(of_rank).collect();
        let sizes = wanted.iter().map(|list| list.len() as u64).collect();
        let parts = wanted.iter().map(|list| bytemuck::cast_slice(list).to_vec()).collect();
        let needed: Vec<Vec<u32>> =
            ranks.all_to_all(parts)?.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
        for (other, list) in needed.iter().enumerate() {
            if list.iter().any(|&row| u64::from(row) >= own.end - own.start) {
                return Err(ranks.rank_error(other, "it needs rows that this rank does not have".into()));
            }
        }
        let matrix = block.matrix.with_columns(columns, renumbered)?;
        let span = |bounds: &[u64], total| Span {
            first: bounds[rank],
            rows: bounds[rank + 1] - bounds[rank],
            total,
        };
        let lists = RankLists {
            communicator: ranks.clone(),
            runtime: self.runtime().clone(),
            network: self.network.clone(),
            direct: self.direct,
            x: span(&x_bounds, cols),
            y: span(&y_bounds, total),
            is_square,
            ghosts: sizes,
            needed,
        };
        Ok(Distributed { matrix: Arc::new(matrix), lists: Arc::new(lists) })
    }

    /// A product with `k` columns, on [`Vectors`](crate::runtime::Vectors) only. Kernels are canonical whatever the options say. All
    /// ranks call this.
    #[doc(hidden)]
    pub fn product_of<T: Kernels>(
        &self,
        matrix: &Distributed<T>,
        k: usize,
        options: ProductOptions,
    ) -> Result<Product<'static, T>> {
        let options = ProductOptions { reproducible: true, ..options };
        let builder = self.runtime.product(matrix.matrix.clone()).columns(k).options(options);
        let mut product = builder.ranks(matrix.lists.clone()).build()?;
        product.vector_plan()?;
        Ok(product)
    }
}
