//! The CPU kernel against the serial reference, bit for bit, and both against sums in twice the precision.

use proptest::prelude::*;

use super::reference::{self, Moments};
use super::{Totals, block_rows, partial_sums, verify};
use crate::kernel::cpu::Kernels;
use crate::kernel::gemm::tests::matrix;
use crate::matrix::{MultiVector, Scalar};

/// The partial results of the CPU kernel: for each block, one for each column.
fn partials<T: Kernels>(x: &MultiVector<T>, block_rows: usize) -> (Vec<T>, Vec<T>) {
    let count = x.rows().div_ceil(block_rows) * x.k();
    let (mut sums, mut deviations) = (vec![T::from_f64(f64::NAN); count], vec![T::from_f64(f64::NAN); count]);
    partial_sums(x.view(), block_rows, &mut sums, Some(&mut deviations)).unwrap();
    let mut alone = vec![T::ZERO; count];
    partial_sums(x.view(), block_rows, &mut alone, None).unwrap();
    assert_eq!(bits(&alone), bits(&sums), "the sums are the same without deviations");
    (sums, deviations)
}

fn bits<T: Scalar>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.to_f64().to_bits()).collect()
}

fn agrees_with_the_reference<T: Kernels>(rows: usize, columns: usize, padding: usize, block_rows: usize) {
    let x = matrix::<T>(rows, columns, padding, 7);
    let (sums, deviations) = partials(&x, block_rows);
    let expected = reference::partial_sums(x.view(), block_rows);
    let of = |part: fn(&Moments<T>) -> T| expected.iter().map(part).collect::<Vec<T>>();
    assert_eq!(bits(&sums), bits(&of(|moments| moments.sum)));
    assert_eq!(bits(&deviations), bits(&of(|moments| moments.deviations)));
    let totals = Totals::merge(rows, columns, block_rows, &sums, Some(&deviations)).unwrap();
    let result = verify(x.view(), &totals, true).unwrap();
    assert!(result.passed, "{rows} × {columns} in blocks of {block_rows}: {result:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_cpu_kernel_agrees_with_the_reference_and_the_bound(
        rows in 0usize..600, columns in 0usize..30, padding in 0usize..3, doublings in 0u32..4,
    ) {
        agrees_with_the_reference::<f64>(rows, columns, padding, 64 << doublings);
        agrees_with_the_reference::<f32>(rows, columns, padding, 64 << doublings);
    }

    #[test]
    fn any_split_at_blocks_gives_the_same_bits(rows in 1usize..700, cuts in prop::collection::vec(0usize..11, 0..4)) {
        let x = matrix::<f64>(rows, 5, 1, 3);
        let whole = partials(&x, 64);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| (cut * 64).min(rows)).chain([rows]).collect();
        ends.sort_unstable();
        let (mut sums, mut deviations, mut begin) = (Vec::new(), Vec::new(), 0);
        for end in ends {
            let part = MultiVector::from_fn(end - begin, 5, |row, column| x.row(begin + row)[column]).unwrap();
            let (more_sums, more_deviations) = partials(&part, 64);
            sums.extend(more_sums);
            deviations.extend(more_deviations);
            begin = end;
        }
        prop_assert_eq!(bits(&sums), bits(&whole.0));
        prop_assert_eq!(bits(&deviations), bits(&whole.1));
    }
}

#[test]
fn several_tiles_of_columns_agree_with_the_reference() {
    agrees_with_the_reference::<f64>(70, 1100, 3, 64);
    agrees_with_the_reference::<f32>(130, 2100, 0, 128);
}

#[test]
fn a_mean_much_larger_than_the_deviations_keeps_the_variance() {
    // The variance of 0, 1, 2, 3 repeated is 1.25; a difference of two sums of squares would lose all its digits.
    let x =
        MultiVector::from_fn(4096, 2, |row, column| 1e9 * (1 + column) as f64 + (row % 4) as f64).unwrap();
    let block_rows = block_rows(4096, 2) as usize;
    let (sums, deviations) = partials(&x, block_rows);
    let totals = Totals::merge(4096, 2, block_rows, &sums, Some(&deviations)).unwrap();
    assert_eq!(totals.means(), [1e9 + 1.5, 2e9 + 1.5]);
    for variance in totals.variances(0) {
        assert!((variance - 1.25).abs() < 1e-9, "{variance}");
    }
    assert!((totals.variances(1)[0] - 1.25 * 4096.0 / 4095.0).abs() < 1e-9);
}

#[test]
fn an_error_above_the_bound_fails() {
    let x = matrix::<f32>(100, 3, 0, 1);
    let (mut sums, deviations) = partials(&x, 64);
    let check = |sums: &[f32], deviations: &[f32]| {
        let totals = Totals::merge(100, 3, 64, sums, Some(deviations)).unwrap();
        verify(x.view(), &totals, true).unwrap()
    };
    assert!(check(&sums, &deviations).passed);
    let mut changed = deviations.clone();
    changed[2] *= 1.001;
    assert_eq!(check(&sums, &changed).worst, Some((1, 2)));
    sums[1] += 0.01 + sums[1].abs();
    assert!(!check(&sums, &deviations).passed);
}

#[test]
fn infinities_and_nan_propagate() {
    let x = MultiVector::from_fn(70, 3, |row, column| match (row, column) {
        (9, 0) => f64::INFINITY,
        (9, 1) => f64::NAN,
        _ => 1.0,
    });
    let x = x.unwrap();
    let (sums, deviations) = partials(&x, 64);
    let totals = Totals::merge(70, 3, 64, &sums, Some(&deviations)).unwrap();
    assert_eq!(totals.means()[0], f64::INFINITY);
    assert!(totals.means()[1].is_nan() && totals.variances(0)[0].is_nan());
    assert_eq!((totals.means()[2], totals.variances(0)[2]), (1.0, 0.0));
    assert!(verify(x.view(), &totals, true).unwrap().passed);
}

fn stored_totals_are_the_same<T: Scalar>(totals: &Totals) {
    for deviations in [false, true] {
        let mut numbers = vec![T::ZERO; 3 * totals.columns().len() * size_of::<f64>() / size_of::<T>()];
        totals.store(deviations, &mut numbers).unwrap();
        let found = Totals::load(70, totals.columns().len(), deviations, &numbers).unwrap();
        for (found, expected) in found.columns().iter().zip(totals.columns()) {
            assert_eq!(found.sum.to_bits(), expected.sum.to_bits());
            let expected = if deviations { expected.deviations } else { 0.0 };
            assert_eq!((found.deviations.to_bits(), found.rows), (expected.to_bits(), 70));
        }
        assert!(totals.store(deviations, &mut numbers[..2]).is_err());
        assert!(Totals::load(70, totals.columns().len(), deviations, &numbers[..2]).is_err());
    }
}

#[test]
fn totals_keep_their_bits_in_numbers_of_both_precisions() {
    let sums = [1.0 / 3.0, f64::NAN, -0.0, f64::MAX, f64::NEG_INFINITY, 5e-324];
    let totals = Totals::merge(1, 6, 64, &sums, Some(&[0.1, 0.0, f64::NAN, 1e300, 7.0, 2.0 / 3.0])).unwrap();
    stored_totals_are_the_same::<f64>(&totals);
    stored_totals_are_the_same::<f32>(&totals);
}

#[test]
fn a_matrix_without_rows_has_sums_of_zero_and_no_mean() {
    let totals = Totals::merge::<f64>(0, 2, 64, &[], Some(&[])).unwrap();
    assert_eq!(totals.sums(), [0.0, 0.0]);
    assert!(totals.means()[0].is_nan() && totals.variances(1)[0].is_nan());
    assert!(Totals::merge(65, 2, 64, &[0.0; 3], None).is_err(), "a partial sum is missing");
    assert!(partial_sums(MultiVector::<f64>::zeros(3, 1).unwrap().view(), 60, &mut [0.0], None).is_err());
}
