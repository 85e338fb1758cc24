//! Projections of rows, and the comparison of A times projections with those of Y.

use rowloom_cpu::{Comparison, Isa, PROJECTED_COLUMNS, Projected, ProjectedRows, ProjectionKernels, RowsOfA};

use crate::draw::{Draw, draws_for_each_isa};
use crate::guarded::{Guarded, Side};
use crate::real::Real;

/// Weighted sum and size of a row, one group of columns after the other, by plain loops.
fn projection(row: &[f64], weights: &[f64]) -> Vec<(f64, f64)> {
    let groups = row.chunks(PROJECTED_COLUMNS).zip(weights.chunks(PROJECTED_COLUMNS));
    let sum = |values: &[f64], weights: &[f64]| {
        let products = values.iter().zip(weights).map(|(value, weight)| value * weight);
        (products.clone().sum::<f64>(), products.map(f64::abs).sum::<f64>())
    };
    groups.map(|(values, weights)| sum(values, weights)).collect()
}

fn wide<T: Real + Into<f64>>(values: &[T]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

fn projected<T: Real + ProjectionKernels>(
    isa: Isa,
    x: &[T],
    (ldx, rows): (usize, usize),
    weights: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let length = rows * weights.len().div_ceil(PROJECTED_COLUMNS);
    let mut sums = Guarded::<f64>::new(length, Side::End);
    let mut sizes = Guarded::<f64>::new(length, Side::End);
    let mut job = ProjectedRows { x, ldx, weights, sums: &mut sums, sizes: &mut sizes };
    // SAFETY: the processor has the instruction set.
    unsafe { (T::projection_bodies(isa).project)(&mut job) };
    (sums.to_vec(), sizes.to_vec())
}

fn check_projections<T: Real + ProjectionKernels + Into<f64>>(isa: Isa, draw: &Draw) {
    let k = draw.pick(&[1, 2, 7, 8, 9, 16, 31, 32, 33, 40, 64, 65, 1 + draw.below(100)]);
    let (rows, ldx) = (draw.below(6), k + draw.below(3));
    let mut x = Guarded::<T>::new(if rows == 0 { 0 } else { (rows - 1) * ldx + k }, Side::End);
    for row in 0..rows {
        x[row * ldx..][..k].copy_from_slice(&draw.numbers::<T>(k));
    }
    let weights: Vec<f64> = (0..k).map(|_| draw.number()).collect();
    let (sums, sizes) = projected(isa, &x, (ldx, rows), &weights);
    let expected = (0..rows).flat_map(|row| projection(&wide(&x[row * ldx..][..k]), &weights));
    for ((sum, size), expected) in sums.iter().zip(&sizes).zip(expected) {
        assert!((sum - expected.0).abs() <= 1e-14 * expected.1, "{sum} {expected:?} {}", isa.name());
        assert!((size - expected.1).abs() <= 1e-14 * expected.1, "{size} {expected:?} {}", isa.name());
    }
}

/// A sparse or dense A, and the projections of X and of Y = alpha A X + beta old.
struct Case<T> {
    pointers: Vec<u64>,
    columns: Vec<u32>,
    values: Vec<T>,
    cols: usize,
    groups: usize,
    x: Vec<f64>,
    x_sizes: Vec<f64>,
    old: Vec<f64>,
    y: Vec<f64>,
    sizes: Vec<f64>,
    alpha: f64,
    beta: f64,
    is_dense: bool,
}

impl<T: Real + ProjectionKernels + Into<f64>> Case<T> {
    fn draw(draw: &Draw) -> Self {
        let (rows, cols, groups) = (1 + draw.below(9), 1 + draw.below(30), 1 + draw.below(3));
        let is_dense = draw.one_in(3);
        let (mut pointers, mut columns) = (vec![0], Vec::new());
        for _ in 0..rows {
            match is_dense {
                true => columns.extend(0..cols as u32),
                false => columns.extend((0..draw.below(14)).map(|_| draw.below(cols) as u32)),
            }
            pointers.push(columns.len() as u64);
        }
        let values = draw.numbers::<T>(columns.len());
        let x: Vec<f64> = (0..cols * groups).map(|_| draw.number()).collect();
        let x_sizes: Vec<f64> = x.iter().map(|x| 2.0 * x.abs()).collect();
        let old: Vec<f64> = (0..rows * groups).map(|_| draw.number()).collect();
        let (alpha, beta) = (draw.pick(&[1.0, -0.5]), draw.pick(&[0.0, 0.0, 1.5]));
        let (mut y, mut sizes) = (Vec::new(), Vec::new());
        for row in 0..rows {
            for group in 0..groups {
                let entries = pointers[row] as usize..pointers[row + 1] as usize;
                let terms = entries.map(|at| values[at].into() * x[columns[at] as usize * groups + group]);
                let (sum, size) =
                    terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()));
                y.push(alpha * sum + beta * old[row * groups + group]);
                sizes.push(2.0 * f64::abs(alpha) * size + 2.0 * f64::abs(beta * old[row * groups + group]));
            }
        }
        Self { pointers, columns, values, cols, groups, x, x_sizes, old, y, sizes, alpha, beta, is_dense }
    }

    fn suspicious(&self, isa: Isa, unit_roundoff: f64) -> Vec<usize> {
        let old_sizes: Vec<f64> = self.old.iter().map(|old| 2.0 * old.abs()).collect();
        let mut suspicious = Vec::new();
        let a = match self.is_dense {
            true => RowsOfA::Dense { values: &self.values, leading_dimension: self.cols, columns: self.cols },
            false => {
                RowsOfA::Sparse { pointers: &self.pointers, columns: &self.columns, values: &self.values }
            }
        };
        let before = Projected { sums: &self.old, sizes: &old_sizes };
        let mut job = Comparison {
            a,
            groups: self.groups,
            x: Projected { sums: &self.x, sizes: &self.x_sizes },
            y: Projected { sums: &self.y, sizes: &self.sizes },
            before: (self.beta != 0.0).then_some(before),
            alpha: self.alpha,
            beta: self.beta,
            unit_roundoff,
            projection_error: 0.0,
            suspicious: &mut suspicious,
        };
        // SAFETY: the processor has the instruction set.
        unsafe { (T::projection_bodies(isa).compare)(&mut job) };
        suspicious
    }
}

/// Right projections are not suspicious; an error of one of them is, from three times the bound on, and below a third of it is not.
fn check_comparison<T: Real + ProjectionKernels + Into<f64>>(isa: Isa, draw: &Draw) {
    const ROUNDOFF: f64 = 1e-10;
    let mut case = Case::<T>::draw(draw);
    assert_eq!(case.suspicious(isa, ROUNDOFF), [] as [usize; 0], "{}", isa.name());
    let row = draw.below(case.pointers.len() - 1);
    let at = row * case.groups + draw.below(case.groups);
    let length = (case.pointers[row + 1] - case.pointers[row]) as f64;
    let bound = ROUNDOFF * (4.0 + 2.0 * length.sqrt()) * case.sizes[at];
    let right = case.y[at];
    case.y[at] = right + draw.pick(&[-3.0, 3.0]) * bound.max(1e-300);
    assert_eq!(case.suspicious(isa, ROUNDOFF), [row], "{}", isa.name());
    case.y[at] = right + draw.pick(&[-0.3, 0.3]) * bound;
    assert_eq!(case.suspicious(isa, ROUNDOFF), [] as [usize; 0], "{}", isa.name());
    case.y[at] = draw.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(case.suspicious(isa, ROUNDOFF), [row], "{}", isa.name());
}

#[test]
fn projections_are_weighted_sums_of_groups_of_columns() {
    draws_for_each_isa(200, check_projections::<f64>);
    draws_for_each_isa(200, check_projections::<f32>);
}

#[test]
fn rows_are_suspicious_beyond_the_usual_rounding_and_where_they_are_not_finite() {
    draws_for_each_isa(300, check_comparison::<f64>);
    draws_for_each_isa(300, check_comparison::<f32>);
}
