//! Sums of rows over the columns of a product.

use std::sync::atomic::{AtomicU64, Ordering};

use rowloom_cpu::{Isa, MOST_SUMMED_ROWS, RowRounding, RowSum, RowSumKernels, RowsOfProduct};

use crate::draw::{Draw, draws_for_each_isa};
use crate::guarded::{Guarded, Side};
use crate::real::Real;

const X_ROWS: usize = 23;

fn rows_between_guards<T: Real>(draw: &Draw, rows: usize, k: usize, distance: usize) -> Guarded<T> {
    let length = if rows == 0 { 0 } else { (rows - 1) * distance + k };
    let mut data = Guarded::<T>::new(length, Side::End);
    for row in 0..rows {
        data[row * distance..][..k].copy_from_slice(&draw.numbers::<T>(k));
    }
    data
}

fn check<T: Real + RowSumKernels + Into<f64>>(isa: Isa, draw: &Draw) {
    let k = draw.pick(&[1, 2, 7, 8, 9, 16, 31, 32, 33, 40, 64, 65, 1 + draw.below(100)]);
    let count = draw.pick(&[0, 1, 2, 5, draw.below(30), MOST_SUMMED_ROWS]);
    let (x_distance, y_distance) = (k + draw.pick(&[0, 0, 1, 2]), k + draw.pick(&[0, 0, 3]));
    let mut x = rows_between_guards::<T>(draw, X_ROWS, k, x_distance);
    x[3 * x_distance..][..k].fill(T::of(0.0));
    let y = rows_between_guards::<T>(draw, count, k, y_distance);
    let weights: Vec<f64> = (0..k).map(|_| draw.number()).collect();
    let mut row_pointers = vec![draw.below(5) as u64];
    for row in 0..count {
        row_pointers.push(row_pointers[row] + draw.pick(&[0, 1, 3, 4, 5, 8, draw.below(20)]) as u64);
    }
    let nonzeros = row_pointers[count] as usize;
    let columns: Vec<u32> = (0..nonzeros).map(|_| draw.below(X_ROWS) as u32).collect();
    let values = draw.numbers::<T>(nonzeros);
    let sums_of_x: Vec<AtomicU64> = (0..X_ROWS).map(|_| AtomicU64::new(0)).collect();
    // A sum that is known is not formed again.
    sums_of_x[5].store(2.5f64.to_bits(), Ordering::Relaxed);
    let of = RowsOfProduct {
        row_pointers: &row_pointers,
        columns: &columns,
        values: &values,
        x: &x,
        x_distance,
        y: &y,
        y_distance,
        weights: &weights,
        sums_of_x: &sums_of_x,
        rounding: RowRounding { alpha: 1.0, factor: 0.0, per_root: 4.0, constant: 8.0 },
    };
    let bodies = T::row_sum_bodies(isa);
    let mut sums = vec![RowSum { y: 7.0, product: 7.0, size: 7.0 }; count];
    // SAFETY: the processor has the instruction set.
    let unexplained = unsafe { (bodies.unexplained)(of, &mut sums) };
    assert_eq!(unexplained.count_ones() as usize, count, "nothing is explained");
    assert_eq!(unexplained.trailing_ones() as usize, count);

    let near = |found: f64, expected: f64, size: f64| {
        assert!((found - expected).abs() <= 1e-13 * size, "{found} {expected} {k} {}", isa.name());
    };
    let terms = |row: &[T]| -> Vec<f64> {
        row.iter().zip(&weights).map(|(&value, weight)| weight * value.into()).collect()
    };
    let total = |terms: &[f64]| (terms.iter().sum::<f64>(), terms.iter().map(|term| term.abs()).sum::<f64>());
    let of_x = |column: usize| match column {
        5 => 2.5,
        _ => total(&terms(&x[column * x_distance..][..k])).0,
    };
    for (row, found) in sums.iter().enumerate() {
        let y_terms = terms(&y[row * y_distance..][..k]);
        near(found.y, total(&y_terms).0, total(&y_terms).1);
        let entries = row_pointers[row] as usize..row_pointers[row + 1] as usize;
        let products: Vec<f64> =
            entries.map(|at| Into::<f64>::into(values[at]) * of_x(columns[at] as usize)).collect();
        let (sum, size) = total(&products);
        // Sums of X have rounding errors that are small beside its terms, not beside themselves.
        let largest = 16.0 * 16.0 * 16.0 * k as f64 * products.len() as f64;
        near(found.product, sum, largest);
        near(found.size, size, largest);
        let squares: f64 = y_terms.iter().map(|term| term * term).sum();
        let own = &y[row * y_distance..][..k];
        // SAFETY: the processor has the instruction set.
        let (dot, of_squares) = unsafe { ((bodies.dot)(own, &weights), (bodies.squares)(own, &weights)) };
        near(dot, found.y, total(&y_terms).1);
        // Eight rows at a time are added in another order.
        assert!(row < count / 8 * 8 || dot == found.y);
        near(of_squares, squares, squares);
    }
    let rounding = RowRounding {
        alpha: draw.pick(&[1.0, -0.5, 3.0]),
        factor: draw.pick(&[1e-3, 0.02, 0.1, 1e9]),
        ..of.rounding
    };
    let mut again = vec![RowSum::default(); count];
    // SAFETY: the processor has the instruction set.
    let unexplained = unsafe { (bodies.unexplained)(RowsOfProduct { rounding, ..of }, &mut again) };
    for (row, sum) in sums.iter().enumerate() {
        let length = (row_pointers[row + 1] - row_pointers[row]) as f64;
        let bound = rounding.factor * (length + 4.0 * length.sqrt() + 8.0) * sum.size;
        let difference = (sum.y - rounding.alpha * sum.product).abs();
        let is_unexplained = unexplained >> row & 1 == 1;
        assert!(!is_unexplained || again[row] == *sum, "the sums of a row that is not explained are stored");
        // Both ways of rounding are right at the border.
        if bound == 0.0 || (difference / bound - 1.0).abs() > 1e-9 {
            assert_eq!(is_unexplained, bound == 0.0 || difference > bound, "row {row} {}", isa.name());
        }
    }
    for (column, known) in sums_of_x.iter().enumerate() {
        let is_used = columns[row_pointers[0] as usize..].contains(&(column as u32));
        let bits = known.load(Ordering::Relaxed);
        // A sum that is needed is formed with those of its block of eight rows, if X has all of them.
        let block = column / 8 * 8..(column / 8 + 1) * 8;
        let used = &columns[row_pointers[0] as usize..];
        let is_beside_used =
            block.end <= X_ROWS && used.iter().any(|&other| other != 5 && block.contains(&(other as usize)));
        assert_eq!(bits != 0, is_used || is_beside_used || column == 5, "column {column}");
        assert!(column != 5 || bits == 2.5f64.to_bits());
        if column == 3 && is_used {
            assert_eq!(bits, (-0.0f64).to_bits());
        }
    }
}

#[test]
fn rounding_explains_no_sum_that_is_not_a_number() {
    for isa in Isa::available() {
        for (value, element, factor) in
            [(f64::NAN, 1.0, 1.0), (1.0, f64::NAN, 1.0), (f64::INFINITY, 1.0, 1.0), (0.0, 0.0, 1.0)]
        {
            let (x, y) = ([1.0f64; 3], [element; 1]);
            let sums_of_x: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
            let of = RowsOfProduct {
                row_pointers: &[0, 3],
                columns: &[0, 1, 2],
                values: &[value; 3],
                x: &x,
                x_distance: 1,
                y: &y,
                y_distance: 1,
                weights: &[1.0],
                sums_of_x: &sums_of_x,
                rounding: RowRounding { alpha: 1.0, factor, per_root: 4.0, constant: 8.0 },
            };
            // SAFETY: the processor has the instruction set.
            let unexplained =
                unsafe { (f64::row_sum_bodies(*isa).unexplained)(of, &mut [RowSum::default()]) };
            assert_eq!(unexplained, 1, "{value} {element} {}", isa.name());
        }
    }
}

#[test]
fn sums_of_rows_are_those_of_y_and_of_the_product() {
    draws_for_each_isa(400, check::<f64>);
    draws_for_each_isa(400, check::<f32>);
}
