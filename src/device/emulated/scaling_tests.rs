//! Every CUDA kernel in the emulator computes `Y = alpha A X + beta Y` as [`scaling`](crate::kernel::scaling) defines it, bit for
//! bit: the definition applied to the unscaled result of the same kernel.

use proptest::prelude::*;

use super::kernel_tests::{every_form, product, readable_by, scaled_product, short_rows, x_for};
use crate::kernel::cuda::{CUDA_KERNELS, CudaKernel, Variant};
use crate::kernel::order::{SEGMENT, SPAN};
use crate::matrix::convert::coo_to_csr;
use crate::matrix::{Coo, Csr, MultiVector, Scalar, generate};

const FACTORS: [f64; 7] = [0.0, 1.0, -1.0, 0.5, 2.0 / 3.0, -7.3, 1e-60];

/// Checks one form. If beta rounds to zero, Y is unwritten, which the emulator lets no kernel read.
fn check_form<T: Scalar>(
    kernel: &CudaKernel,
    variant: &Variant,
    a: &Csr<T>,
    k: usize,
    (alpha, beta): (f64, f64),
) {
    let a = &readable_by(kernel, a, 2.0 / 3.0);
    let x = x_for::<T>(a.cols(), k, k);
    let Some(sums) = product(kernel, variant, a.view(), 0..a.rows(), &x) else { return };
    let old = MultiVector::from_fn(a.rows(), k, |row, k| {
        T::from_f64(((row * 7919 + k * 31) % 2003) as f64 / 7.0 - 143.1)
    })
    .unwrap();
    let (rounded_alpha, rounded_beta) = (T::from_f64(alpha), T::from_f64(beta));
    let is_read = rounded_beta != T::ZERO;
    let factors = (alpha, beta, is_read.then_some(&old));
    let y = scaled_product((kernel, variant), a.view(), 0..a.rows(), &x, u64::MAX, factors).unwrap();
    for row in 0..a.rows() {
        for column in 0..k {
            let scaled = rounded_alpha.times(sums.row(row)[column]);
            let old = old.row(row)[column];
            let expected = if is_read { rounded_beta.fused_multiply_add(old, scaled) } else { scaled };
            let got = y.row(row)[column];
            assert!(
                got.to_f64().to_bits() == expected.to_f64().to_bits(),
                "{}: alpha {alpha}, beta {beta}, k {k}, row {row}, column {column}: {got} and not {expected}",
                kernel.entry(T::DTYPE, variant),
            );
        }
    }
}

/// Checks all forms of all kernels whose format can hold `a`.
fn check_all<T: Scalar>(a: &Csr<T>, ks: &[usize], factors: (f64, f64)) {
    for &k in ks {
        for kernel in CUDA_KERNELS {
            for variant in kernel.variants_for(T::DTYPE, k as u64) {
                check_form(kernel, variant, a, k, factors);
            }
        }
    }
}

/// A matrix with rows of these lengths.
fn with_lengths<T: Scalar>(lengths: &[usize]) -> Csr<T> {
    let (mut pointers, mut columns) = (vec![0], Vec::new());
    for &length in lengths {
        columns.extend(0..length as u32);
        pointers.push(columns.len() as u64);
    }
    let values: Vec<T> = (0..columns.len()).map(|at| T::from_f64((at % 13) as f64 - 5.7)).collect();
    let cols = lengths.iter().copied().max().unwrap_or(0);
    Csr::try_new(lengths.len(), cols, pointers, columns, values).unwrap()
}

#[test]
fn every_form_scales_short_rows_as_defined() {
    check_all(&short_rows::<f64>(40, 200, 100), &[1, 3, 8, 37], (2.0 / 3.0, -1.7));
    check_all(&short_rows::<f32>(40, 200, 100), &[1, 2, 5, 16], (2.0 / 3.0, -1.7));
    check_all(&short_rows::<f32>(40, 200, 100), &[5], (-0.3, 1e-60));
}

#[test]
fn every_form_scales_cut_rows_exactly_once() {
    let lengths = [3, 2 * SPAN + SEGMENT + 3, 0, SEGMENT + 1, SPAN + 1];
    check_all(&with_lengths::<f64>(&lengths), &[3], (-0.3, 1.0 / 3.0));
    check_all(&with_lengths::<f32>(&lengths), &[2], (-0.3, 1.0 / 3.0));
}

#[test]
fn empty_rows_keep_beta_times_the_old_y() {
    let a = generate::<f64>("empty,rows=40,cols=30", 7, u64::MAX).unwrap().matrix;
    check_all(&a, &[1, 3], (2.0, -0.5));
}

fn matrices() -> impl Strategy<Value = Csr<f64>> {
    (1usize..30, 1usize..30).prop_flat_map(|(rows, cols)| {
        let entry = (0..rows as u32, 0..cols as u32, -4.0..4.0f64);
        prop::collection::vec(entry, 0..=150).prop_map(move |entries| {
            let rows_of = entries.iter().map(|e| e.0).collect();
            let cols_of = entries.iter().map(|e| e.1).collect();
            let values = entries.iter().map(|e| e.2).collect();
            coo_to_csr(&Coo::try_new(rows, cols, rows_of, cols_of, values).unwrap()).unwrap().0
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn scaled_products_of_random_matrices_are_as_defined(
        a in matrices(), k in 1usize..=40,
        alpha in prop::sample::select(&FACTORS[..]), beta in prop::sample::select(&FACTORS[..]),
    ) {
        for (kernel, variant) in every_form::<f64>(k) {
            check_form(kernel, variant, &a, k, (alpha, beta));
        }
        let a = a.cast::<f32>().unwrap();
        for (kernel, variant) in every_form::<f32>(k) {
            check_form(kernel, variant, &a, k, (alpha, beta));
        }
    }
}
