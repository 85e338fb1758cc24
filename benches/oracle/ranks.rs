//! Products and sums over ranks, which are threads here.

use std::ops::Range;

use rowloom::internal::device::network::thread_communicators;
use rowloom::internal::matrix::{Csr, MultiVector, Scalar};
use rowloom::internal::runtime::{Check, Cluster, ProductOptions, RowBlock, Vectors};
use rowloom::{Error, Result, Runtime};

use crate::coverage::Coverage;
use crate::grid::{Grid, Placement};
use crate::judge::{Operands, Outcome, Value};
use crate::lab::Drawing;
use crate::operations::compare;
use crate::random::Random;
use crate::reference::Real;
use crate::values::{self, simpler_runs};

const FAMILY: &str = "ranks";
pub const LISTS: [&str; 3] = ["cpu", "cpu,emu:0", "emu:0"];
const RANKS: [&str; 4] = ["1", "2", "3", "4"];

#[derive(Debug, Clone)]
pub struct RanksRequest {
    ranks: usize,
    devices: &'static str,
    /// Seed of the boundaries of the ranks' rows; without it they follow from the speeds of the ranks.
    boundaries: Option<u64>,
    runs: Vec<(f64, f64)>,
}

pub fn expect(coverage: &mut Coverage, lists: &[&'static str]) {
    coverage.expect(FAMILY, "devices", lists.iter().copied());
    coverage.expect(FAMILY, "ranks", RANKS);
    coverage.expect(FAMILY, "boundaries", ["by speed", "drawn"]);
}

/// The results of one rank: the values of Y after each run, and the inner products of the columns of the last Y.
type Part<T> = (Vec<Vec<T>>, Vec<T>);

impl RanksRequest {
    pub fn draw(drawing: &mut Drawing, lists: &[&'static str]) -> Self {
        let random = &mut drawing.random;
        let request = Self {
            ranks: random.within(1, 4),
            devices: random.one(lists),
            boundaries: random.one_in(2).then(|| random.next()),
            runs: (0..random.within(1, 2)).map(|_| values::factors(random)).collect(),
        };
        let coverage = &mut drawing.coverage;
        coverage.count(FAMILY, "devices", request.devices);
        coverage.count(FAMILY, "ranks", RANKS[request.ranks - 1]);
        coverage.count(FAMILY, "boundaries", if request.boundaries.is_some() { "drawn" } else { "by speed" });
        drawing.count_runs(FAMILY, request.runs.iter().copied());
        request
    }

    pub fn check<T: Value>(&self, operands: &Operands<'_, T>) -> Judged<Outcome> {
        let (a, k) = (operands.a, operands.k);
        let x = operands.x_grid(Placement::PACKED).packed().to_vec();
        let parts = std::thread::scope(|scope| {
            let start = |rank| scope.spawn(|| self.run_rank(rank, operands, &x));
            let threads: Vec<_> = thread_communicators(self.ranks).into_iter().map(start).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.collect::<Vec<_>>()
        });
        let mut results = Vec::new();
        for part in parts {
            match part {
                Err(_) => return Err(format!("panic of a rank: {}", crate::panics::last())),
                Ok(Err(error)) => return Err(format!("error: {error}")),
                Ok(Ok(part)) => results.push(part),
            }
        }
        for (run, &factors) in self.runs.iter().enumerate() {
            let y: Vec<T> = results.iter().flat_map(|(ys, _)| ys[run].iter().copied()).collect();
            if y.len() != a.rows * k {
                return Err(format!("all ranks have {} elements of Y instead of {}", y.len(), a.rows * k));
            }
            let grid = Grid::new(a.rows, k, Placement::PACKED, |row, column| y[row * k + column]);
            operands.check_y(&grid, 0..a.rows, factors, true)?;
        }
        let first = &results[0].1;
        results.iter().try_for_each(|(_, dot)| compare("dot on another rank", dot, first))?;
        Ok(Outcome::Compared(self.runs.len() as u64))
    }

    fn run_rank<T: Value>(
        &self,
        rank: std::sync::Arc<dyn rowloom::internal::device::network::Communicator>,
        operands: &Operands<'_, T>,
        x: &[T],
    ) -> Result<Part<T>> {
        let (a, k) = (operands.a, operands.k);
        let builder = Runtime::builder().devices(self.devices).threads(1).model("none").refine(false);
        let cluster = builder.over(rank)?;
        let options = ProductOptions { check: Check::Always, ..ProductOptions::default() };
        let builder = cluster.product(block(operands.csr, self.rows(&cluster, operands)?)?).columns(k);
        let mut product = builder.options(options).build()?;
        let mut on_x = if a.rows == a.cols { product.vectors()? } else { product.x_vectors()? };
        let own = on_x.first_row() as usize * k..(on_x.first_row() as usize + on_x.rows()) * k;
        on_x.copy_from(&x[own])?;
        let (mut ys, mut dot) = (Vec::new(), Vec::new());
        for &factors in &self.runs {
            let mut y = product.vectors()?;
            let first = y.first_row() as usize;
            let old = operands.y_grid(first..first + y.rows(), Placement::PACKED, factors);
            y.copy_from(old.packed())?;
            product.apply_scaled(factors.0, &on_x, factors.1, &mut y)?;
            if let Some(fault) = product.faults().first() {
                return Err(Error::Internal(format!("a fault of a device without faults: {fault:?}")));
            }
            ys.push(host(&y)?);
            dot = y.dot(&y)?;
        }
        Ok((ys, dot))
    }

    fn rows<T: Value>(&self, cluster: &Cluster, operands: &Operands<'_, T>) -> Result<Range<usize>> {
        let (a, rank) = (operands.a, cluster.communicator().rank());
        let bounds = match self.boundaries {
            None => cluster.row_bounds(&a.pointers, operands.k, <T as Scalar>::DTYPE)?,
            Some(seed) => {
                let mut random = Random::new(seed);
                let mut bounds: Vec<u64> = (1..self.ranks).map(|_| random.below(a.rows + 1) as u64).collect();
                bounds.extend([0, a.rows as u64]);
                bounds.sort_unstable();
                bounds
            }
        };
        Ok(bounds[rank] as usize..bounds[rank + 1] as usize)
    }

    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        if self.ranks > 1 {
            simpler.push(Self { ranks: self.ranks - 1, ..self.clone() });
        }
        if self.devices != "cpu" {
            simpler.push(Self { devices: "cpu", ..self.clone() });
        }
        if self.boundaries.is_some() {
            simpler.push(Self { boundaries: None, ..self.clone() });
        }
        simpler.extend(simpler_runs(&self.runs).into_iter().map(|runs| Self { runs, ..self.clone() }));
        simpler
    }
}

/// Results of the oracle: the error is what is wrong.
type Judged<R> = std::result::Result<R, String>;

fn block<T: Value>(a: &Csr<T>, rows: Range<usize>) -> Result<RowBlock<T>> {
    let pointers = &a.view().row_pointers()[rows.start..=rows.end];
    let entries = pointers[0] as usize..pointers[pointers.len() - 1] as usize;
    let own: Vec<u64> = pointers.iter().map(|pointer| pointer - pointers[0]).collect();
    let (columns, values) =
        (a.view().columns()[entries.clone()].to_vec(), a.view().values()[entries].to_vec());
    let matrix = Csr::try_new(rows.len(), a.cols(), own, columns, values)?;
    Ok(RowBlock { first_row: rows.start as u64, total_rows: a.rows() as u64, matrix })
}

fn host<T: Value>(vectors: &Vectors<T>) -> Result<Vec<T>> {
    let mut host = MultiVector::filled(vectors.rows(), vectors.columns(), <T as Real>::UNWRITTEN)?;
    vectors.copy_to(&mut host)?;
    Ok(host.data().to_vec())
}
