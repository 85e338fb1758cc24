//! The parallel conversions against the serial reference implementations, for several numbers of threads.

use proptest::prelude::*;

use super::*;
use crate::matrix::convert_serial as serial;

fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// The values' bits, so that −0 and 0 differ and NaN equals itself.
fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn agrees_with_serial(coo: &Coo<f64>, threads: usize) {
    let (expected, expected_duplicates) = serial::coo_to_csr(coo).unwrap();
    with_threads(threads, || {
        let (csr, duplicates) = coo_to_csr(coo).unwrap();
        assert_eq!(duplicates, expected_duplicates);
        let (got, want) = (csr.view(), expected.view());
        assert_eq!((got.rows(), got.cols()), (want.rows(), want.cols()));
        assert_eq!(got.row_pointers(), want.row_pointers());
        assert_eq!(got.columns(), want.columns());
        assert_eq!(bits(got.values()), bits(want.values()));

        assert_eq!(
            coo_to_ell_padded(coo, u64::MAX).unwrap(),
            serial::coo_to_ell_padded(coo, u64::MAX).unwrap()
        );
        assert_eq!(coo_to_ell_unpadded(coo).unwrap(), serial::coo_to_ell_unpadded(coo).unwrap());

        // All rows, and a range from the middle, whose row pointers do not start at zero.
        let rows = got.rows();
        for view in [got, got.slice_rows(rows / 3..rows - rows / 4)] {
            let padded = csr_to_ell_padded(&view, u64::MAX).unwrap();
            assert_eq!(padded, serial::csr_to_ell_padded(&view, u64::MAX).unwrap());
            let unpadded = csr_to_ell_unpadded(&view).unwrap();
            assert_eq!(unpadded, serial::csr_to_ell_unpadded(&view).unwrap());
        }
    });
}

/// Entries in random order with duplicates, and values whose sum depends on the order; `hub` gives one row many entries.
fn random_coo(rows: usize, cols: usize, length: usize, hub: bool, seed: u64) -> Coo<f64> {
    let mut state = seed | 1;
    let mut next = move |bound: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % bound
    };
    let length = if rows == 0 || cols == 0 { 0 } else { length };
    let (mut row_indices, mut col_indices, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..length {
        row_indices.push(if hub && next(2) == 0 { rows / 2 } else { next(rows) } as u32);
        col_indices.push(next(cols) as u32);
        values.push(match next(8) {
            0 => -0.0,
            1 => 1e16,
            2 => -1e16,
            other => other as f64 / 3.0,
        });
    }
    Coo::try_new(rows, cols, row_indices, col_indices, values).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn parallel_conversions_equal_the_serial_ones(
        rows in 0usize..200, cols in 0usize..60, length in 0usize..2000, hub: bool, seed: u64, threads in 1usize..6,
    ) {
        agrees_with_serial(&random_coo(rows, cols, length, hub, seed), threads);
    }
}

#[test]
fn a_list_of_many_blocks_and_buckets_converts_like_the_serial_one() {
    for (threads, rows, cols) in [(1, 40_000, 500), (3, 70_000, 90_000), (4, 9, 30_000)] {
        agrees_with_serial(&random_coo(rows, cols, 60_000, rows == 40_000, 7), threads);
    }
}

#[test]
fn thin_and_empty_shapes_convert() {
    for (rows, cols) in [(0, 0), (0, 5), (5, 0), (1, 1), (1, 300), (300, 1), (70_000, 1)] {
        for length in [0, 1, 500] {
            agrees_with_serial(&random_coo(rows, cols, length, false, 3), 2);
        }
    }
}

#[test]
fn duplicates_sum_in_list_order() {
    // (1e16 - 1e16) + 1 is 1; backwards it is 0.
    let coo = Coo::try_new(1, 2, vec![0; 4], vec![1, 0, 1, 1], vec![1e16, 4.0, -1e16, 1.0]).unwrap();
    let (csr, duplicates) = coo_to_csr(&coo).unwrap();
    assert_eq!((csr.view().row(0), duplicates), ((&[0, 1][..], &[4.0, 1.0][..]), 2));
}

#[test]
fn padded_ellpack_above_the_limit_is_refused_with_the_sizes() {
    let coo = random_coo(100, 50, 400, true, 1);
    let needed = coo_to_ell_padded(&coo, u64::MAX).unwrap().bytes();
    assert!(coo_to_ell_padded(&coo, needed).is_ok());
    for refused in [coo_to_ell_padded(&coo, needed - 1), serial::coo_to_ell_padded(&coo, needed - 1)] {
        match refused {
            Err(Error::DoesNotFit { needed_bytes, limit_bytes, advice, .. }) => {
                assert_eq!((needed_bytes, limit_bytes), (needed, needed - 1));
                assert!(advice.words().contains("ell_unpadded"), "{advice}");
            }
            other => panic!("{other:?}"),
        }
    }
}
