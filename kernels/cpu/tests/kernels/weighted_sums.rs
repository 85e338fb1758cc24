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
    let k = draw.pick(&[1, 1, 2, 7, 8, 9, 16, 31, 32, 33, 40, 64, 65, 128, 170, 1 + draw.below(100)]);
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
    // Every block of 256 rows but one has one large number, of both signs in turn. That one has a small number: before the sum is
    // large, while it is, or at the end.
    let small = 2f64.powi(-60);
    let small_block = draw.pick(&[0, 2, 33, 63]);
    let number = |block: usize| match block {
        _ if block == small_block => small,
        _ if block.is_multiple_of(2) => 1.0,
        _ => -1.0,
    };
    let element = |at: usize| if (at / k).is_multiple_of(256) { number(at / k / 256) } else { 0.0 };
    let x: Vec<T> = (0..blocks * 256 * k).map(|at| T::of(element(at))).collect();
    let large: f64 = (0..blocks).filter(|&block| block != small_block).map(number).sum();
    let weights = vec![1.0; blocks * 256];
    let (mut sums, mut errors) = (vec![0.0; k], vec![0.0; k]);
    let rows = WeightedRows { x: &x, leading_dimension: k, k, weights: &weights };
    // SAFETY: the processor has the instruction set.
    unsafe { (T::weighted_sum_bodies(isa).add)(rows, &mut Totals { sums: &mut sums, errors: &mut errors }) };
    for (sum, error) in sums.iter().zip(&errors) {
        assert_eq!((sum - large) + error, small, "block {small_block}, {}", isa.name());
    }
}

#[test]
fn a_term_below_the_precision_of_the_sum_is_kept() {
    draws_for_each_isa(8, check_small_terms::<f64>);
    draws_for_each_isa(8, check_small_terms::<f32>);
}

/// X ends at a page that cannot be read: a body that trusts the number of rows would end the process.
fn check_too_few_elements<T: Real + WeightedSumKernels>(isa: Isa, draw: &Draw) {
    let k = draw.pick(&[1, 8, 9, 32, 40]);
    let count = draw.pick(&[1, 2, 33]);
    let x = Guarded::<T>::new(count * k - 1, Side::End);
    let weights = vec![1.0; count];
    let rows = WeightedRows { x: &x, leading_dimension: k, k, weights: &weights };
    let (mut sums, mut errors) = (vec![0.0; k], vec![0.0; k]);
    let added = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut totals = Totals { sums: &mut sums, errors: &mut errors };
        // SAFETY: the processor has the instruction set.
        unsafe { (T::weighted_sum_bodies(isa).add)(rows, &mut totals) };
    }));
    assert!(added.is_err(), "{count} rows of {k} elements");
}

#[test]
fn rows_that_x_does_not_have_are_refused() {
    draws_for_each_isa(20, check_too_few_elements::<f64>);
    draws_for_each_isa(20, check_too_few_elements::<f32>);
}
