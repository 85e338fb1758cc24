//! The CPU kernels against the serial reference: bit for bit in canonical order, within the rounding bound otherwise.

use proptest::prelude::*;

use super::{multiply_packed, multiply_rows, reference, verify};
use crate::kernel::scaling::{Scaling, scaling};
use crate::matrix::{MultiVector, Scalar};

/// A matrix of reproducible values of both signs and different magnitudes; the padding is NaN.
pub(crate) fn matrix<T: Scalar>(rows: usize, columns: usize, padding: usize, seed: u64) -> MultiVector<T> {
    let mut result = MultiVector::zeros_with_leading_dimension(rows, columns, columns + padding).unwrap();
    result.data_mut().fill(T::from_f64(f64::NAN));
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for row in 0..rows {
        for value in result.view_mut().row_mut(row) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let magnitude = ((state >> 61) as f64 - 4.0).exp2();
            *value = T::from_f64(((state >> 32) as f64 / 2f64.powi(31) - 1.0) * magnitude);
        }
    }
    result
}

pub(crate) fn bits<T: Scalar>(of: &MultiVector<T>) -> Vec<u64> {
    (0..of.rows()).flat_map(|row| of.row(row).iter().map(|value| value.to_f64().to_bits())).collect()
}

type Shape = (usize, usize, usize);

fn kernels_agree<T: crate::kernel::cpu::Kernels + super::PackedProduct>(
    (rows, columns, depth): Shape,
    padding: (usize, usize, usize),
    factors: (f64, f64),
) {
    let scaling: Scaling<T> = scaling(factors.0, factors.1);
    let (a, b) = (matrix::<T>(rows, depth, padding.0, 1), matrix::<T>(depth, columns, padding.1, 2));
    let old = matrix::<T>(rows, columns, padding.2, 3);
    let start = || {
        let mut c = matrix::<T>(rows, columns, padding.2, 3);
        if !scaling.reads_old() {
            c.data_mut().fill(T::from_f64(f64::NAN));
        }
        c
    };
    let (mut expected, mut by_rows, mut packed) = (start(), start(), start());
    reference::multiply(scaling, a.view(), b.view(), expected.view_mut()).unwrap();
    multiply_rows(scaling, a.view(), b.view(), by_rows.view_mut()).unwrap();
    assert_eq!(bits(&by_rows), bits(&expected));
    multiply_packed(scaling, a.view(), b.view(), packed.view_mut()).unwrap();
    let all: Vec<usize> = (0..rows).collect();
    for c in [&expected, &packed] {
        let result = verify(scaling, a.view(), b.view(), Some(old.view()), c.view(), &all).unwrap();
        assert!(result.passed, "{result:?}");
        let padding =
            |row: usize| &c.data()[row * c.leading_dimension() + columns..(row + 1) * c.leading_dimension()];
        assert!((0..rows).all(|row| padding(row).iter().all(|value| value.to_f64().is_nan())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn cpu_kernels_agree_with_the_reference_and_the_bound(
        shape in (0usize..70, 0usize..80, 0usize..90), padding in (0usize..4, 0usize..4, 0usize..4),
        alpha in -2.0..2.0f64, beta in prop_oneof![Just(0.0), Just(1.0), -2.0..2.0f64],
    ) {
        kernels_agree::<f64>(shape, padding, (alpha, beta));
        kernels_agree::<f32>(shape, padding, (alpha, beta));
    }
}

#[test]
fn panels_of_b_do_not_change_the_sums() {
    // More than one panel in depth and columns, more than one task.
    kernels_agree::<f64>((70, 70, 530), (0, 1, 0), (1.0, 1.0));
    kernels_agree::<f32>((70, 70, 530), (1, 0, 2), (1.0, 0.0));
    // Few rows: tasks divide the columns. Many: they divide the rows.
    kernels_agree::<f64>((3, 1500, 300), (0, 1, 2), (-0.5, 1.0));
    kernels_agree::<f32>((1500, 70, 20), (1, 0, 1), (2.0, 0.0));
}

#[test]
fn a_split_by_rows_gives_the_same_bits() {
    let (a, b) = (matrix::<f64>(30, 40, 0, 1), matrix::<f64>(40, 20, 0, 2));
    let mut whole = MultiVector::zeros(30, 20).unwrap();
    multiply_rows(scaling(1.0, 0.0), a.view(), b.view(), whole.view_mut()).unwrap();
    let mut split = MultiVector::zeros(30, 20).unwrap();
    let (top, bottom) = split.view_mut().split_at_row(11);
    multiply_rows(scaling(1.0, 0.0), a.view().rows_in(0..11), b.view(), top).unwrap();
    reference::multiply(scaling(1.0, 0.0), a.view().rows_in(11..30), b.view(), bottom).unwrap();
    assert_eq!(bits(&split), bits(&whole));
}

#[test]
fn zero_times_infinity_is_nan_and_beta_zero_ignores_the_old_matrix() {
    let a = MultiVector::from_fn(1, 2, |_, column| [0.0, 1.0][column]).unwrap();
    let b =
        MultiVector::from_fn(2, 2, |row, column| if (row, column) == (0, 0) { f64::INFINITY } else { 1.0 })
            .unwrap();
    for product in [multiply_rows::<f64>, multiply_packed::<f64>] {
        let mut c = MultiVector::filled(1, 2, f64::NAN).unwrap();
        product(scaling(1.0, 0.0), a.view(), b.view(), c.view_mut()).unwrap();
        assert!(c.row(0)[0].is_nan());
        assert_eq!(c.row(0)[1], 1.0);
        let result = verify(scaling(1.0, 0.0), a.view(), b.view(), None, c.view(), &[0]).unwrap();
        assert!(result.passed, "{result:?}");
    }
}

#[test]
fn an_error_above_the_bound_fails() {
    let (a, b) = (matrix::<f64>(3, 50, 0, 1), matrix::<f64>(50, 4, 0, 2));
    let mut c = MultiVector::zeros(3, 4).unwrap();
    reference::multiply(scaling(0.5, 0.0), a.view(), b.view(), c.view_mut()).unwrap();
    c.view_mut().row_mut(2)[1] *= 1.0 + 1e-12;
    let check = |rows: &[usize]| verify(scaling(0.5, 0.0), a.view(), b.view(), None, c.view(), rows).unwrap();
    assert!(check(&[0, 1]).passed);
    assert_eq!(check(&[0, 1, 2]).worst, Some((2, 1)));
    assert!(!check(&[2]).passed);
}

#[test]
fn operands_of_other_shapes_are_refused() {
    let (a, b) = (matrix::<f64>(3, 5, 0, 1), matrix::<f64>(4, 2, 0, 2));
    let mut c = matrix::<f64>(3, 2, 0, 3);
    for product in [multiply_rows::<f64>, multiply_packed::<f64>, reference::multiply::<f64>] {
        let error = product(scaling(1.0, 0.0), a.view(), b.view(), c.view_mut()).unwrap_err();
        assert_eq!(error.to_string(), "the product of 3 × 5 and 4 × 2 is not a matrix of 3 × 2");
    }
    assert!(verify(scaling(1.0, 0.0), a.view(), b.view(), None, c.view(), &[0]).is_err());
}
