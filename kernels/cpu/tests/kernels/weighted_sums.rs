//! Weighted sums of rows.

use rowloom_cpu::{Isa, Totals, WeightedRows, WeightedSumKernels};

use crate::draw::{Draw, draws_for_each_isa};
use crate::guarded::{Guarded, Side};
use crate::real::Real;

/// The sum of products in about twice the precision, by exact products and exact sums of two numbers.
fn exact_sum(terms: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0f64);
    for (weight, value) in terms {
        let product = weight * value;
        let product_error = weight.mul_add(value, -product);
        let total = sum + product;
        let added = total - sum;
        rest += ((sum - (total - added)) + (product - added)) + product_error;
        sum = total;
    }
    sum + rest
}

fn check<T: Real + WeightedSumKernels + Into<f64>>(isa: Isa, draw: &Draw) {
    let k = draw.pick(&[1, 1, 2, 7, 8, 9, 16, 31, 32, 33, 40, 64, 65, 1 + draw.below(100)]);
    let count = draw.pick(&[0, 1, 31, 32, 33, 255, 256, 257, draw.below(700)]);
    let leading_dimension = k + draw.pick(&[0, 0, 1, 2]);
    let length = if count == 0 { 0 } else { (count - 1) * leading_dimension + k };
    let mut x = Guarded::<T>::new(length, Side::End);
    for row in 0..count {
        x[row * leading_dimension..][..k].copy_from_slice(&draw.numbers::<T>(k));
    }
    let weights: Vec<f64> = (0..count).map(|_| draw.number()).collect();
    let rows = WeightedRows { x: &x, leading_dimension, k, weights: &weights };
    let bodies = T::weighted_sum_bodies(isa);
    let before = draw.number();
    let mut sums = Guarded::<f64>::new(k, Side::End);
    let mut errors = Guarded::<f64>::new(k, Side::End);
    let mut sizes = Guarded::<f64>::new(k, Side::End);
    sums.fill(before);
    errors.fill(0.0);
    sizes.fill(before);
    // SAFETY: the processor has the instruction set.
    unsafe { (bodies.add)(rows, &mut Totals { sums: &mut sums, errors: &mut errors }) };
    let stride = draw.pick(&[1, 1, 8]);
    // SAFETY: as above.
    unsafe { (bodies.add_squares)(rows, stride, 0.5, &mut sizes) };
    for column in 0..k {
        let value = |row: usize| -> f64 { x[row * leading_dimension + column].into() };
        let terms = (0..count).map(|row| (weights[row], value(row)));
        let size: f64 = terms.clone().map(|(weight, value)| (weight * value).abs()).sum();
        let expected = exact_sum(terms.clone().chain([(1.0, before)]));
        let error = (sums[column] - expected) + errors[column];
        // A chain has 32 rows, eight chains are added, and the rest is without rounding errors.
        let bound = f64::EPSILON * (40.0 * size.min(16.0 * 16.0 * 1.5 * 256.0) + before.abs());
        assert!(error.abs() <= bound.max(f64::EPSILON * size), "{error} {bound} {k} {count} {}", isa.name());
        let squares = terms.step_by(stride).map(|(weight, value)| (0.5 * weight * value).powi(2));
        let expected = before + squares.sum::<f64>();
        assert!((sizes[column] - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{k} {count}");
    }
}

#[test]
fn weighted_sums_are_those_of_all_rows_with_their_rounding_errors() {
    draws_for_each_isa(300, check::<f64>);
    draws_for_each_isa(300, check::<f32>);
}

/// The sum of many blocks would lose a small term without its rounding errors.
fn check_small_terms<T: Real + WeightedSumKernels + Into<f64>>(isa: Isa, draw: &Draw) {
    let (blocks, k) = (64, draw.pick(&[1, 8, 40]));
    // Every block of 256 rows has one large number, of both signs in turn, and the first block a small one too.
    let small = 2f64.powi(-60);
    let x: Vec<T> = (0..blocks * 256 * k)
        .map(|at| {
            let (block, row) = (at / k / 256, at / k % 256);
            let large = if block % 2 == 0 { 1.0 } else { -1.0 };
            T::of(if row == 0 && block > 0 { large } else { 0.0 } + if at < k { small } else { 0.0 })
        })
        .collect();
    let weights = vec![1.0; blocks * 256];
    let (mut sums, mut errors) = (vec![0.0; k], vec![0.0; k]);
    let rows = WeightedRows { x: &x, leading_dimension: k, k, weights: &weights };
    // SAFETY: the processor has the instruction set.
    unsafe { (T::weighted_sum_bodies(isa).add)(rows, &mut Totals { sums: &mut sums, errors: &mut errors }) };
    for (sum, error) in sums.iter().zip(&errors) {
        // 63 blocks: one negative number is left over.
        assert_eq!((sum + 1.0) + error, small, "{}", isa.name());
    }
}

#[test]
fn a_term_below_the_precision_of_the_sum_is_kept() {
    draws_for_each_isa(3, check_small_terms::<f64>);
    draws_for_each_isa(3, check_small_terms::<f32>);
}
