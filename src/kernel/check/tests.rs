//! A check reports no right row, and finds errors of many sizes in all kinds of products.

use proptest::prelude::*;

use super::*;
use crate::kernel::reference;
use crate::kernel::scaling::scaling;
use crate::matrix::generate::generate;
use crate::matrix::{Csr, MultiVector};

fn product<T: Kernels>(
    a: &Csr<T>,
    x: &MultiVector<T>,
    (alpha, beta): (f64, f64),
    old: &MultiVector<T>,
) -> MultiVector<T> {
    let mut y = MultiVector::from_fn(a.rows(), x.k(), |row, column| old.row(row)[column]).unwrap();
    reference::csr_scaled(a.view(), scaling(alpha, beta), x.view(), &mut y.view_mut()).unwrap();
    y
}

/// Numbers of both signs.
fn number(row: usize, column: usize) -> f64 {
    let z = ((row * 31 + column * 7 + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    z as f64 / (1u64 << 52) as f64 - 1.0
}

fn multivector<T: Kernels>(rows: usize, k: usize, seed: usize) -> MultiVector<T> {
    MultiVector::from_fn(rows, k, |row, column| T::from_f64(number(row + 1000 * seed, column))).unwrap()
}

const METHODS: [&str; 3] = ["by columns", "by columns in one block", "by rows"];

fn found_by<T: Kernels>(method: &str, a: &Csr<T>, product: Applied<'_, T>) -> Vec<usize> {
    let operator = Operator::Sparse(a.view());
    match method {
        "by columns" => wrong_rows(operator, product).unwrap(),
        "by rows" => wrong_rows_by_rows(a.view(), product).unwrap(),
        _ => Checksums::of_whole(operator).unwrap().wrong_rows(operator, product).unwrap(),
    }
}

/// The wrong rows that all methods find.
fn found<T: Kernels>(a: &Csr<T>, product: Applied<'_, T>) -> Vec<usize> {
    let [columns, block, rows] = METHODS.map(|method| found_by(method, a, product));
    assert_eq!((&columns, &block), (&rows, &rows), "the methods differ");
    rows
}

/// The rounding bounds of an error that a method must find. By columns, the rounding of the old Y hides errors of small rows.
fn clear_bounds(method: &str, reads_old: bool) -> f64 {
    match (method, reads_old) {
        ("by rows", _) => 1000.0,
        (_, false) => 2000.0,
        (_, true) => 20_000.0,
    }
}

fn check<T: Kernels>(form: &str, k: usize, (alpha, beta): (f64, f64)) {
    let a = generate::<T>(form, 3, u64::MAX).unwrap().matrix;
    let (x, old) = (multivector::<T>(a.cols(), k, 1), multivector::<T>(a.rows(), k, 2));
    let mut y = product(&a, &x, (alpha, beta), &old);
    let factors = scaling::<T>(alpha, beta);
    for method in METHODS {
        let wrong = |y: &MultiVector<T>| {
            let old = factors.reads_old().then(|| old.view());
            let product = Applied { scaling: factors, x: x.view(), old, y: y.view() };
            found_by(method, &a, product)
        };
        assert_eq!(wrong(&y), [] as [usize; 0], "{form} {k} {alpha} {beta} {method}");
        let (row, column) = (a.rows() * 2 / 3, k / 2);
        let right = y.row(row)[column];
        let (columns, values) = a.view().row(row);
        let size: f64 = columns
            .iter()
            .zip(values)
            .map(|(&at, value)| (value.to_f64() * x.row(at as usize)[column].to_f64()).abs())
            .sum();
        let bound = T::UNIT_ROUNDOFF * (columns.len() + 3) as f64 * (alpha.abs() * size + beta.abs());
        let error = clear_bounds(method, factors.reads_old()) * bound;
        let changed = T::from_f64(right.to_f64() + error);
        y.view_mut().row_mut(row)[column] = changed;
        assert_eq!(wrong(&y), [row], "{form} {k} {alpha} {beta} {method}: {right} became {changed}");
        y.view_mut().row_mut(row)[column] = T::from_f64(f64::NAN);
        assert_eq!(wrong(&y), [row], "{form} {k}: not a number");
        y.view_mut().row_mut(row)[column] = right;
    }
}

const FORMS: [&str; 6] = [
    "stencil27,n=14",
    "uniform,rows=3000,degree=9",
    "rmat,scale=11,degree=8",
    "hub,rows=4000,degree=5,hubs=3",
    "arrow,rows=5000",
    "band,rows=20000,width=5",
];

#[test]
fn clear_errors_are_found_in_every_kind_of_matrix() {
    for form in FORMS {
        for (k, factors) in [(1, (1.0, 0.0)), (8, (1.0, 0.0)), (33, (-0.7, 0.0)), (12, (1.3, 0.4))] {
            check::<f64>(form, k, factors);
            check::<f32>(form, k, factors);
        }
    }
}

#[test]
fn rows_that_were_exchanged_or_not_written_are_found() {
    let a = generate::<f64>("uniform,rows=500,degree=6", 3, u64::MAX).unwrap().matrix;
    let x = multivector::<f64>(a.cols(), 9, 1);
    let right = product(&a, &x, (1.0, 0.0), &MultiVector::zeros(a.rows(), 9).unwrap());
    let wrong = |y: &MultiVector<f64>| {
        let product = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
        found(&a, product)
    };
    let changed = |of: &dyn Fn(usize) -> usize, factor: f64| {
        MultiVector::from_fn(a.rows(), 9, |row, column| {
            if of(row) == row {
                right.row(row)[column] * if row == 7 { factor } else { 1.0 }
            } else {
                right.row(of(row))[column]
            }
        })
        .unwrap()
    };
    let exchanged = |row: usize| [row, 41, 40][usize::from(row == 40) + 2 * usize::from(row == 41)];
    assert_eq!(wrong(&changed(&exchanged, 1.0)), [40, 41]);
    assert_eq!(wrong(&changed(&|row| row, 0.0)), [7]);
    assert_eq!(wrong(&changed(&|row| row, 1.0)), [] as [usize; 0]);
}

#[test]
fn empty_rows_must_be_zero_whatever_the_size_of_values() {
    for size in [1e-200, 1.0, 1e200] {
        let pointers: Vec<u64> = (0..=100).map(|row| row / 2).collect();
        let a = Csr::try_new(100, 50, pointers, (0..50).collect::<Vec<u32>>(), vec![size; 50]).unwrap();
        let x = multivector::<f64>(50, 3, 1);
        let mut y = product(&a, &x, (1.0, 0.0), &MultiVector::zeros(100, 3).unwrap());
        let wrong = |y: &MultiVector<f64>| {
            let product = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
            found(&a, product)
        };
        assert_eq!(wrong(&y), [] as [usize; 0]);
        y.view_mut().row_mut(50)[1] = size / 8.0;
        assert_eq!(wrong(&y), [50], "{size}");
    }
}

#[test]
fn values_at_the_ends_of_the_range_cause_no_alarm() {
    for (size, x_size) in
        [(f64::MAX / 64.0, 1e-5), (1e-300, 1e-20), (5e-324, 1.0), (1.0, 1e180), (1.0, 1e-200)]
    {
        let a = generate::<f64>("uniform,rows=200,degree=4", 3, u64::MAX).unwrap().matrix;
        let values = vec![size; a.nnz()];
        let a = Csr::try_new(200, 200, a.view().row_pointers().to_vec(), a.view().columns().to_vec(), values)
            .unwrap();
        let x = MultiVector::from_fn(200, 5, |row, column| number(row, column) * x_size).unwrap();
        let y = product(&a, &x, (1.0, 0.0), &MultiVector::zeros(200, 5).unwrap());
        let product = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
        assert_eq!(found(&a, product), [] as [usize; 0], "{size} {x_size}");
    }
}

#[test]
fn rows_whose_columns_do_not_ascend_are_summed() {
    let pointers: Vec<u64> = (0..=3000).map(|row| 3 * row).collect();
    // The first and the last column of a row are not its least and its largest.
    let columns: Vec<u32> = (0..3000).flat_map(|row| [row, (row * 7 + 11) % 3000, row]).collect();
    let values: Vec<f64> = (0..9000).map(|at| number(at, 3)).collect();
    let Ok(a) = Csr::try_new(3000, 3000, pointers, columns, values) else { return };
    let x = multivector::<f64>(3000, 4, 1);
    let mut y = product(&a, &x, (1.0, 0.0), &MultiVector::zeros(3000, 4).unwrap());
    let applied = |y: &MultiVector<f64>| {
        let product = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
        let terms = Checksums::of(Operator::Sparse(a.view())).unwrap();
        terms
            .suspicious(Operator::Sparse(a.view()), product, terms.sums_of_x(x.view()).unwrap())
            .unwrap()
            .len()
    };
    assert_eq!(applied(&y), 0);
    y.data_mut()[4444] += 1e-3;
    assert_eq!(applied(&y), 1);
}

#[test]
fn a_check_by_rows_finds_small_errors_beside_large_rows_and_columns() {
    // The rows of A and the columns of X differ by many orders of magnitude.
    let a = generate::<f64>("uniform,rows=400,degree=6", 3, u64::MAX).unwrap().matrix;
    let pointers = a.view().row_pointers().to_vec();
    let size = |row: usize| 10f64.powi((row * 13 % 200) as i32 - 100);
    let values: Vec<f64> = (0..400)
        .flat_map(|row| a.view().row(row).1.iter().map(move |value| value * size(row)).collect::<Vec<_>>())
        .collect();
    let a = Csr::try_new(400, 400, pointers, a.view().columns().to_vec(), values).unwrap();
    let x =
        MultiVector::from_fn(400, 7, |row, column| number(row, column) * 10f64.powi(9 * column as i32 - 30))
            .unwrap();
    let right = product(&a, &x, (1.0, 0.0), &MultiVector::zeros(400, 7).unwrap());
    let wrong = |y: &MultiVector<f64>| {
        let product = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
        wrong_rows_by_rows(a.view(), product).unwrap()
    };
    assert_eq!(wrong(&right), [] as [usize; 0]);
    for row in 0..400 {
        let column = row % 7;
        let y = MultiVector::from_fn(400, 7, |r, c| {
            right.row(r)[c] * if (r, c) == (row, column) { 1.0 + 1e-10 } else { 1.0 }
        });
        assert_eq!(wrong(&y.unwrap()), [row]);
    }
}

#[test]
fn a_check_by_rows_of_many_wrong_rows_returns_some_of_them() {
    let a = generate::<f64>("band,rows=5000,width=5", 3, u64::MAX).unwrap().matrix;
    let x = multivector::<f64>(a.cols(), 3, 1);
    let y = MultiVector::zeros(a.rows(), 3).unwrap();
    let product = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
    let wrong = wrong_rows_by_rows(a.view(), product).unwrap();
    assert!(!wrong.is_empty() && wrong.is_sorted());
}

proptest! {
    #[test]
    fn right_products_cause_no_alarm(
        rows in 0usize..400, cols in 1usize..300, k in 1usize..40, degree in 0usize..30, seed in 0usize..1000,
        positive in any::<bool>(), beta in prop_oneof![Just(0.0), Just(0.5), Just(-2.0)],
    ) {
        let lengths = (0..rows).map(|row| (degree * ((row * 7 + seed) % 5) / 2).min(cols));
        let mut pointers = vec![0u64];
        lengths.for_each(|length| pointers.push(pointers[pointers.len() - 1] + length as u64));
        let nnz = pointers[rows] as usize;
        let mut columns = Vec::new();
        for row in 0..rows {
            let length = (pointers[row + 1] - pointers[row]) as usize;
            columns.extend((0..length).map(|at| (at * cols / length.max(1)) as u32));
        }
        let sign = |value: f64| if positive { value.abs() } else { value };
        let values: Vec<f32> = (0..nnz).map(|at| sign(number(at, seed)) as f32).collect();
        let a = Csr::try_new(rows, cols, pointers, columns, values).unwrap();
        let x = MultiVector::from_fn(cols, k, |row, column| sign(number(row + seed, column)) as f32).unwrap();
        let old = multivector::<f32>(rows, k, seed);
        let y = product(&a, &x, (1.0, beta), &old);
        let old = (beta != 0.0).then(|| old.view());
        let product = Applied { scaling: scaling(1.0, beta), x: x.view(), old, y: y.view() };
        prop_assert_eq!(found(&a, product), Vec::<usize>::new());
    }
}
