//! Sums, and squared deviations from the means, of the columns of a dense matrix: the drawn matrix with all its elements.
//!
//! **Sums** are within `γ_n Σ|x|`. **Squared deviations** D: rounding of the terms gives `γ_(n+16) D`; means with the error
//! `e = γ_(n+8) max|x|` change D by at most `2 e √(4 n D) + 4 n e²`. Both parts are doubled, since D is computed in f64 here.

use rowloom::internal::kernel::KindOfWork;

use crate::dense::DenseOptions;
use crate::grid::Grid;
use crate::judge::{Operands, Outcome, Value, refused};
use crate::lab::{Drawing, Lab};
use crate::reference::{Real, Sum, admits, gamma};
use crate::sparse::Sparse;

#[derive(Debug, Clone)]
pub struct ColmeanRequest {
    dense: DenseOptions,
    deviations: bool,
}

impl ColmeanRequest {
    pub fn draw(drawing: &mut Drawing, lists: &[&'static str]) -> Self {
        let dense = DenseOptions::draw(drawing, KindOfWork::Colmean, lists);
        Self { dense, deviations: drawing.random.one_in(2) }
    }

    pub fn check<T: Value>(&self, operands: &Operands<'_, T>, lab: &mut Lab) -> Result<Outcome, String> {
        let failed = |error: rowloom::Error| format!("error: {error}");
        let full = operands.a.full();
        let a = Grid::<T>::of_columns(&full.values, full.cols, full.rows, 0, full.cols, self.dense.a);
        let runtime = lab.runtime(self.dense.devices, self.dense.threads).map_err(failed)?;
        let builder = runtime.column_sums(a.view().map_err(failed)?).options(self.dense.options());
        let mut sums = match builder.deviations(self.deviations).build() {
            Ok(sums) => sums,
            Err(error) => return refused(error),
        };
        for _ in 0..2 {
            let totals = match sums.apply() {
                Ok(totals) => totals,
                Err(error) => return refused(error),
            };
            if totals.columns().len() != full.cols {
                return Err(format!("{} sums of {} columns", totals.columns().len(), full.cols));
            }
            for (column, found) in totals.columns().iter().enumerate() {
                let found = (found.sum, self.deviations.then_some(found.deviations), found.rows);
                check_column::<T>(&full, column, found)?;
            }
        }
        a.check_guards("A")?;
        Ok(Outcome::Compared(2))
    }

    pub fn simpler(&self) -> Vec<Self> {
        let options = self.dense.simpler().into_iter().map(|dense| Self { dense, ..self.clone() });
        let without = self.deviations.then(|| Self { deviations: false, ..self.clone() });
        options.chain(without).collect()
    }
}

fn check_column<T: Value>(
    a: &Sparse,
    column: usize,
    (found, deviations, rows): (f64, Option<f64>, usize),
) -> Result<(), String> {
    if rows != a.rows {
        return Err(format!("column {column} has the sum of {rows} rows instead of {}", a.rows));
    }
    let (n, mut sum) = (rows as f64, Sum::default());
    let values = || (0..a.rows).map(|row| a.values[row * a.cols + column]);
    values().for_each(|value| sum.add_product::<f64>(value, 1.0));
    // The bound of f32 sums admits any rounding of the total, which is in f64.
    let bound = gamma::<T>(n + 3.0) * sum.size * (1.0 + 1e-9);
    let is_near = sum.special == 0.0 && ((found - sum.high) - sum.low).abs() <= bound;
    if !is_near && !admits::<T>(sum, n, 1.0, None, T::rounded(found)) {
        return Err(format!("the sum of column {column} is {found:?} instead of {:?}", sum.high + sum.low));
    }
    let Some(found) = deviations else { return Ok(()) };
    if sum.special != 0.0 || rows == 0 {
        return Ok(());
    }
    let mean = (sum.high + sum.low) / n;
    let squared: f64 = values().map(|value| (value - mean) * (value - mean)).sum();
    let largest = values().fold(0.0, |largest: f64, value| value.abs().max(largest));
    if largest * largest * n > T::LARGEST / 16.0 {
        return Ok(());
    }
    let error = gamma::<T>(n + 8.0) * largest;
    let from_means = 2.0 * error * (4.0 * n * squared).sqrt() + 4.0 * n * error * error;
    let bound = 2.0 * (gamma::<T>(n + 16.0) * squared + from_means + 2.0 * n * <T as Real>::SMALLEST);
    if (found - squared).abs() <= bound {
        return Ok(());
    }
    Err(format!("the squared deviations of column {column} are {found:?} instead of {squared:?}"))
}
