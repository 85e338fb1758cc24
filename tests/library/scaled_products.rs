//! Every CPU kernel computes `Y = alpha A X + beta Y` as `rowloom::internal::kernel::scaling` defines it, bit for bit: the definition applied to
//! the unscaled result of the same kernel.

use proptest::prelude::*;
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, KindOfWork, Processor, Schedule, kernels_of};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::convert::coo_to_csr;
use rowloom::internal::matrix::{Coo, Csr, MultiVector, generate};

const FACTORS: [f64; 7] = [0.0, 1.0, -1.0, 0.5, 2.0 / 3.0, -7.3, 1e-60];

/// Values that are neither small integers nor equal, with `gap` elements between rows.
fn values<T: Kernels>(rows: usize, k: usize, gap: usize, seed: usize) -> MultiVector<T> {
    let mut vector = MultiVector::<T>::zeros_with_leading_dimension(rows, k, k + gap).unwrap();
    for (at, value) in vector.data_mut().iter_mut().enumerate() {
        *value = T::from_f64(((at * 7919 + seed * 31) % 2003) as f64 / 7.0 - 143.1);
    }
    vector
}

/// The definition, in the arithmetic of the standard library.
fn scaled<T: Kernels>(alpha: f64, sum: T, beta: f64, old: T) -> T {
    let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
    let product = alpha.times(sum);
    if beta == T::ZERO { product } else { beta.fused_multiply_add(old, product) }
}

/// Runs one prepared product unscaled and with each pair of factors, and compares. The old Y is NaN if beta rounds to zero.
fn check<T: Kernels>(
    a: &Csr<T>,
    kernel: KernelId,
    settings: CpuSettings,
    gap: usize,
    factors: &[(f64, f64)],
) {
    let k = settings.k;
    let x = values::<T>(a.cols(), k, gap, 1);
    let mut product = CpuProduct::prepare(a.view(), kernel, settings, u64::MAX).unwrap();
    let mut sums = MultiVector::<T>::zeros(a.rows(), k).unwrap();
    product.run(x.view(), sums.view_mut()).unwrap();
    for &(alpha, beta) in factors {
        let mut old = values::<T>(a.rows(), k, gap, 2);
        if T::from_f64(beta) == T::ZERO {
            old.data_mut().fill(T::from_f64(f64::NAN));
        }
        let mut y = values::<T>(a.rows(), k, gap, 2);
        y.data_mut().copy_from_slice(old.data());
        product.run_scaled(alpha, x.view(), beta, y.view_mut()).unwrap();
        for row in 0..a.rows() {
            for column in 0..k {
                let expected = scaled(alpha, sums.row(row)[column], beta, old.row(row)[column]);
                let got = y.row(row)[column];
                assert_eq!(
                    got.to_f64().to_bits(),
                    expected.to_f64().to_bits(),
                    "{} {} {}: alpha {alpha}, beta {beta}, k {k}, row {row}: {got} and not {expected}",
                    kernel.name(),
                    settings.isa.name(),
                    T::DTYPE
                );
            }
            let end = ((row + 1) * (k + gap)).min(y.data().len());
            let between = row * (k + gap) + k..end;
            let same = |(new, old): (&T, &T)| new.to_f64().to_bits() == old.to_f64().to_bits();
            let pairs = y.data()[between.clone()].iter().zip(&old.data()[between]);
            assert!({ pairs }.all(same), "{} wrote between rows", kernel.name());
        }
    }
    let mut again = MultiVector::<T>::zeros(a.rows(), k).unwrap();
    product.run(x.view(), again.view_mut()).unwrap();
    let bits = |y: &MultiVector<T>| y.data().iter().map(|v| v.to_f64().to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&again), bits(&sums), "{} after scaled products", kernel.name());
}

fn settings(k: usize, threads: usize, isa: Isa) -> CpuSettings {
    CpuSettings { k, threads, isa, schedule: Schedule::Balanced }
}

fn check_all_kernels<T: Kernels>(a: &Csr<T>, ks: &[usize]) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for info in kernels_of(KindOfWork::Spmm, Processor::Cpu) {
        for &isa in Isa::available() {
            for &k in ks {
                let factors = [(-0.3, 0.0), (2.0 / 3.0, -1.7), (1.0, 1.0)];
                pool.install(|| check(a, info.id, settings(k, 2, isa), 0, &factors));
            }
        }
    }
}

#[test]
fn every_kernel_scales_every_kind_of_matrix_as_defined() {
    // Blocks of rows with equal columns, shifted columns, empty rows, many windows, rows of many segments and spans.
    for spec in [
        "fem3,n=4",
        "stencil27,n=6",
        "holes,rows=3000,degree=3",
        "uniform,rows=9,degree=3300,cols=9000",
        "uniform,rows=61,degree=700,cols=3000",
        "empty,rows=40,cols=30",
    ] {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        check_all_kernels(&a, &[1, 3, 8]);
        check_all_kernels(&a.cast::<f32>().unwrap(), &[2, 5]);
        let view = a.view();
        let (pointers, columns) = (view.row_pointers().to_vec(), view.columns().to_vec());
        let equal = Csr::try_new(a.rows(), a.cols(), pointers, columns, vec![0.3; a.nnz()]).unwrap();
        check_all_kernels(&equal, &[2, 17]);
    }
}

#[test]
fn hub_rows_are_scaled_as_defined() {
    let a = generate::<f64>("hub,rows=20000,degree=3,hubs=3", 5, u64::MAX).unwrap().matrix;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for kernel in [KernelId::CpuCsr, KernelId::CpuEllUnpadded] {
        let product = CpuProduct::prepare(a.view(), kernel, settings(3, 4, Isa::detect()), u64::MAX).unwrap();
        assert_eq!(product.hub_rows().len(), 3);
        let factors = [(-0.3, 0.0), (2.0 / 3.0, -1.7)];
        pool.install(|| check(&a, kernel, settings(3, 4, Isa::detect()), 1, &factors));
    }
}

#[test]
fn rows_in_column_order_are_scaled_as_defined() {
    // X is larger than 1 MiB and rows have more than eight segments.
    let a = generate::<f64>("uniform,rows=40,degree=1100,cols=70000", 7, u64::MAX).unwrap().matrix;
    check_all_kernels(&a, &[2]);
}

#[test]
fn a_large_y_is_scaled_as_defined_with_and_without_non_temporal_stores() {
    let a = generate::<f64>("road,n=20000", 5, u64::MAX).unwrap().matrix;
    let factors = [(0.7, 0.0), (0.7, 0.3)];
    check(&a, KernelId::CpuCsr, settings(8, 2, Isa::detect()), 0, &factors);
    check(&a, KernelId::CpuCsr, settings(64, 2, Isa::detect()), 0, &factors);
}

fn matrices() -> impl Strategy<Value = Csr<f64>> {
    (1usize..40, 1usize..40).prop_flat_map(|(rows, cols)| {
        let entry = (0..rows as u32, 0..cols as u32, -4.0..4.0f64);
        prop::collection::vec(entry, 0..=300).prop_map(move |entries| {
            let rows_of = entries.iter().map(|e| e.0).collect();
            let cols_of = entries.iter().map(|e| e.1).collect();
            let values = entries.iter().map(|e| e.2).collect();
            coo_to_csr(&Coo::try_new(rows, cols, rows_of, cols_of, values).unwrap()).unwrap().0
        })
    })
}

fn cpu_kernels() -> Vec<KernelId> {
    kernels_of(KindOfWork::Spmm, Processor::Cpu).map(|info| info.id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn scaled_products_of_random_matrices_are_as_defined(
        a in matrices(), k in 1usize..=40, kernel in prop::sample::select(cpu_kernels()), gap in 0usize..3,
        alpha in prop::sample::select(&FACTORS[..]), beta in prop::sample::select(&FACTORS[..]),
    ) {
        for &isa in Isa::available() {
            check(&a, kernel, settings(k, 2, isa), gap, &[(alpha, beta)]);
        }
        check(&a.cast::<f32>().unwrap(), kernel, settings(k, 1, Isa::detect()), gap, &[(alpha, beta)]);
    }
}
