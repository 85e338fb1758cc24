//! Every CPU kernel, with every instruction set of the processor, on every kind of matrix equals the serial reference bit for
//! bit, and is within the rounding bound of the product in twice the precision.

use proptest::prelude::*;
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use rowloom::internal::kernel::order::{SEGMENT, SPAN};
use rowloom::internal::kernel::{KernelId, KindOfWork, Processor, Schedule, kernels_of, reference, verify};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::convert::coo_to_csr;
use rowloom::internal::matrix::{Coo, Csr, MultiVector, Scalar, generate};

fn x_for<T: Scalar>(rows: usize, k: usize) -> MultiVector<T> {
    let mut state = 1u64;
    MultiVector::from_fn(rows, k, |_, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::from_f64((state >> 33) as f64 / f64::from(1 << 30) - 1.0)
    })
    .unwrap()
}

fn bits<T: Scalar>(values: &MultiVector<T>) -> Vec<u64> {
    (0..values.rows()).flat_map(|row| values.row(row).iter().map(|v| v.to_f64().to_bits())).collect()
}

/// Runs `kernel` and compares Y with the reference. Y is filled with NaN first; X and Y have `gap` elements between rows.
fn check<T: Kernels>(
    a: &Csr<T>,
    k: usize,
    kernel: KernelId,
    (isa, threads): (Isa, usize),
    schedule: Schedule,
    gap: usize,
) {
    let x = x_for::<T>(a.cols(), k);
    let mut expected = MultiVector::<T>::zeros(a.rows(), k).unwrap();
    reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
    let mut y = MultiVector::<T>::zeros_with_leading_dimension(a.rows(), k, k + gap).unwrap();
    y.data_mut().fill(T::from_f64(f64::NAN));
    let mut wide_x = MultiVector::<T>::zeros_with_leading_dimension(a.cols(), k, k + gap).unwrap();
    for row in 0..a.cols() {
        wide_x.view_mut().row_mut(row).copy_from_slice(x.row(row));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let settings = CpuSettings { k, threads, isa, schedule };
        let mut product = CpuProduct::prepare(a.view(), kernel, settings, u64::MAX).unwrap();
        product.run(wide_x.view(), y.view_mut()).unwrap();
    });
    assert!(
        bits(&y) == bits(&expected),
        "{} with {} differs at k = {k}, {threads} threads, {}",
        kernel.name(),
        isa.name(),
        T::DTYPE
    );
    for row in 0..a.rows().saturating_sub(1) {
        let between = &y.data()[row * (k + gap) + k..(row + 1) * (k + gap)];
        assert!(between.iter().all(|v| v.to_f64().is_nan()), "{} wrote between rows", kernel.name());
    }
    let verdict = verify(a.view(), x.view(), y.view()).unwrap();
    assert!(verdict.passed, "{} at k = {k}: {verdict:?}", kernel.name());
}

fn check_all_kernels<T: Kernels>(a: &Csr<T>, ks: &[usize]) {
    for info in kernels_of(KindOfWork::Spmm, Processor::Cpu) {
        for &isa in Isa::available() {
            for &k in ks {
                check(a, k, info.id, (isa, 2), Schedule::Balanced, 0);
            }
        }
    }
}

const SPECS: [&str; 10] = [
    "stencil27,n=6",
    "fem3,n=4",
    "rmat,scale=8,degree=8",
    "hub,rows=3000,degree=2,hubs=2",
    "arrow,rows=600",
    "holes,rows=300,degree=3",
    "band,rows=300,width=7",
    "empty,rows=40,cols=30",
    "uniform,rows=3,degree=2000,cols=5000",
    "uniform,rows=61,degree=700,cols=3000",
];

#[test]
fn every_kernel_and_instruction_set_agrees_with_the_reference_on_every_kind_of_matrix() {
    for spec in SPECS {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        check_all_kernels(&a, &[1, 2, 4, 8, 33]);
        check_all_kernels(&a.cast::<f32>().unwrap(), &[1, 2, 5, 16]);
    }
}

#[test]
fn rows_of_one_to_two_segments_are_added_by_segments_for_any_column_pattern() {
    // Few common columns, all columns, and columns that are shifted from row to row.
    for spec in [
        "uniform,rows=41,degree=200,cols=900",
        "uniform,rows=30,degree=180,cols=180",
        "band,rows=500,width=201",
    ] {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        assert!(
            (0..a.rows()).any(|row| (SEGMENT + 1..2 * SEGMENT).contains(&a.view().row_length(row))),
            "{spec}"
        );
        check_all_kernels(&a, &[1, 8, 33]);
        check_all_kernels(&a.cast::<f32>().unwrap(), &[3, 16]);
        let view = a.view();
        let equal = Csr::try_new(
            a.rows(),
            a.cols(),
            view.row_pointers().to_vec(),
            view.columns().to_vec(),
            vec![0.3; a.nnz()],
        );
        check_all_kernels(&equal.unwrap(), &[2, 8]);
    }
}

#[test]
fn rows_of_several_spans_are_added_by_spans_for_any_number_of_rows() {
    // Hub rows among short rows, long rows only, and descending columns.
    for spec in ["hub,rows=5000,degree=2,hubs=2", "uniform,rows=9,degree=3300,cols=9000", "arrow,rows=2600"] {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        assert!((0..a.rows()).any(|row| a.view().row_length(row) > 2 * SPAN), "{spec}");
        check_all_kernels(&a, &[1, 8, 33]);
        check_all_kernels(&a.cast::<f32>().unwrap(), &[3, 16]);
        let view = a.view();
        let descending = |row: usize| view.row(row).0.iter().rev().copied().collect::<Vec<_>>();
        let columns: Vec<u32> = (0..a.rows()).flat_map(descending).collect();
        let pointers = view.row_pointers().to_vec();
        let reversed = Csr::try_new(a.rows(), a.cols(), pointers, columns, view.values().to_vec());
        check_all_kernels(&reversed.unwrap(), &[1, 8]);
    }
}

#[test]
fn kernels_for_equal_values_give_the_same_bits() {
    for spec in ["fem3,n=4", "stencil27,n=5", "rmat,scale=8,degree=8", "uniform,rows=3,degree=2000,cols=5000"]
    {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        let view = a.view();
        for value in [1.0, -0.3] {
            let ones = vec![value; a.nnz()];
            let a =
                Csr::try_new(a.rows(), a.cols(), view.row_pointers().to_vec(), view.columns().to_vec(), ones);
            check_all_kernels(&a.unwrap(), &[1, 3, 8, 17]);
        }
    }
}

#[test]
fn every_k_up_to_130_and_above_the_widest_slab_agrees_with_the_reference() {
    let a = generate::<f64>("rmat,scale=6,degree=6", 3, u64::MAX).unwrap().matrix;
    let blocks = generate::<f64>("fem3,n=3", 3, u64::MAX).unwrap().matrix;
    for k in (0..=130).chain([200, 257, 300]) {
        for &isa in Isa::available() {
            check(&a, k, KernelId::CpuCsr, (isa, 2), Schedule::Balanced, 0);
            check(&blocks, k, KernelId::CpuCsr, (isa, 1), Schedule::Balanced, 3);
            check(&a, k, KernelId::CpuSell, (isa, 1), Schedule::Balanced, 1);
        }
        check(&blocks.cast::<f32>().unwrap(), k, KernelId::CpuCsr, (Isa::detect(), 2), Schedule::Balanced, 0);
    }
}

#[test]
fn the_number_of_threads_and_the_schedule_do_not_change_a_bit() {
    let hubs = generate::<f64>("hub,rows=20000,degree=3,hubs=3", 5, u64::MAX).unwrap().matrix;
    for threads in [1, 2, 3, 7] {
        for schedule in [Schedule::Balanced, Schedule::EqualRows] {
            for kernel in [KernelId::CpuCsr, KernelId::CpuEllUnpadded, KernelId::CpuSell] {
                check(&hubs, 3, kernel, (Isa::detect(), threads), schedule, 0);
            }
        }
    }
}

#[test]
fn products_of_row_ranges_equal_the_rows_of_the_whole_product() {
    for spec in
        ["rmat,scale=9,degree=8", "hub,rows=9000,degree=3,hubs=2", "fem3,n=5", "holes,rows=300,degree=3"]
    {
        let mut a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        for equal_values in [false, true] {
            if equal_values {
                // All but one are equal, so that the values of some parts are all equal and those of others are not.
                let mut values = vec![0.7; a.nnz()];
                values[a.nnz() / 2] = 0.3;
                let view = a.view();
                let (pointers, columns) = (view.row_pointers().to_vec(), view.columns().to_vec());
                a = Csr::try_new(a.rows(), a.cols(), pointers, columns, values).unwrap();
            }
            let x = x_for::<f64>(a.cols(), 5);
            let mut expected = MultiVector::zeros(a.rows(), 5).unwrap();
            reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
            for info in kernels_of(KindOfWork::Spmm, Processor::Cpu) {
                let mut y = MultiVector::zeros(a.rows(), 5).unwrap();
                let mut rest = y.view_mut();
                let cuts = [0, 1, a.rows() / 3, a.rows() / 2, a.rows()];
                for pair in cuts.windows(2) {
                    let (part, remaining) = rest.split_at_row(pair[1] - pair[0]);
                    let settings =
                        CpuSettings { k: 5, threads: 2, isa: Isa::detect(), schedule: Schedule::Balanced };
                    let rows = a.view().slice_rows(pair[0]..pair[1]);
                    let mut product = CpuProduct::prepare(rows, info.id, settings, u64::MAX).unwrap();
                    product.run(x.view(), part).unwrap();
                    rest = remaining;
                }
                assert!(bits(&y) == bits(&expected), "{} on parts of {spec}", info.name);
            }
        }
    }
}

#[test]
fn hub_rows_are_divided_among_threads() {
    let a = generate::<f64>("hub,rows=20000,degree=3,hubs=3", 5, u64::MAX).unwrap().matrix;
    let settings = CpuSettings { k: 4, threads: 4, isa: Isa::detect(), schedule: Schedule::Balanced };
    let product = CpuProduct::prepare(a.view(), KernelId::CpuCsr, settings, u64::MAX).unwrap();
    assert_eq!(product.hub_rows().len(), 3);
    let longest = (0..a.rows()).max_by_key(|&row| a.view().row_length(row)).unwrap();
    assert!(product.hub_rows().contains(&longest));
}

#[test]
fn a_matrix_of_hub_rows_only_equals_the_reference_for_several_slabs_of_columns() {
    // Long rows and an X above 1 MiB, so that segments are computed in column order; hub rows leave none of them.
    let a = generate::<f64>("uniform,rows=3,degree=5000,cols=5000", 5, u64::MAX).unwrap().matrix;
    assert!((0..a.rows()).all(|row| a.view().row_length(row) > 32 * SEGMENT));
    for &isa in Isa::available() {
        check(&a, 130, KernelId::CpuCsr, (isa, 2), Schedule::Balanced, 0);
    }
}

#[test]
fn non_temporal_stores_and_prefetching_do_not_change_a_bit() {
    // Large enough for non-temporal stores to Y and for prefetching of X.
    let a = generate::<f64>("road,n=70000", 5, u64::MAX).unwrap().matrix;
    check(&a, 64, KernelId::CpuCsr, (Isa::detect(), 2), Schedule::Balanced, 0);
    check(&a, 8, KernelId::CpuCsr, (Isa::detect(), 2), Schedule::Balanced, 0);
    check(&a.cast::<f32>().unwrap(), 128, KernelId::CpuCsr, (Isa::detect(), 2), Schedule::Balanced, 0);
}

#[test]
fn every_product_of_the_trial_of_stores_writes_every_row_with_the_same_bits() {
    let a = generate::<f64>("road,n=40000", 5, u64::MAX).unwrap().matrix;
    for k in [8, 24] {
        let x = x_for::<f64>(a.cols(), k);
        let mut expected = MultiVector::zeros(a.rows(), k).unwrap();
        reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
        let settings = CpuSettings { k, threads: 2, isa: Isa::detect(), schedule: Schedule::Balanced };
        let mut product = CpuProduct::prepare(a.view(), KernelId::CpuCsr, settings, u64::MAX).unwrap();
        // The trial ends after at most 12 products.
        for number in 0..16 {
            let mut y = MultiVector::filled(a.rows(), k, f64::NAN).unwrap();
            product.run(x.view(), y.view_mut()).unwrap();
            let is_same = y.data().iter().zip(expected.data()).all(|(y, e)| y.to_bits() == e.to_bits());
            assert!(is_same, "K = {k}, product {number}");
        }
    }
}

#[test]
fn infinities_and_nans_affect_exactly_the_rows_that_read_them() {
    let a = generate::<f64>("stencil5,n=9", 1, u64::MAX).unwrap().matrix;
    let mut x = x_for::<f64>(a.cols(), 3);
    x.data_mut()[3 * 40] = f64::INFINITY;
    x.data_mut()[1] = f64::NAN;
    let mut expected = MultiVector::zeros(a.rows(), 3).unwrap();
    reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
    for info in kernels_of(KindOfWork::Spmm, Processor::Cpu) {
        for &isa in Isa::available() {
            let settings = CpuSettings { k: 3, threads: 2, isa, schedule: Schedule::Balanced };
            let mut product = CpuProduct::prepare(a.view(), info.id, settings, u64::MAX).unwrap();
            let mut y = MultiVector::zeros(a.rows(), 3).unwrap();
            product.run(x.view(), y.view_mut()).unwrap();
            for (got, want) in y.data().iter().zip(expected.data()) {
                assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{}", info.name);
            }
        }
    }
}

#[test]
fn integer_sums_below_two_to_the_53_are_exact() {
    let a = generate::<f64>("rmat,scale=10,degree=16", 3, u64::MAX).unwrap().matrix;
    let view = a.view();
    let values: Vec<f64> = (0..a.nnz()).map(|i| ((i * 7919) % 2001) as f64 - 1000.0).collect();
    let a = Csr::try_new(a.rows(), a.cols(), view.row_pointers().to_vec(), view.columns().to_vec(), values)
        .unwrap();
    let x = MultiVector::from_fn(a.cols(), 5, |row, k| ((row * 31 + k * 17) % 4001) as f64 - 2000.0).unwrap();
    let mut y = MultiVector::zeros(a.rows(), 5).unwrap();
    let settings = CpuSettings { k: 5, threads: 2, isa: Isa::detect(), schedule: Schedule::Balanced };
    CpuProduct::prepare(a.view(), KernelId::CpuCsr, settings, u64::MAX)
        .unwrap()
        .run(x.view(), y.view_mut())
        .unwrap();
    for row in 0..a.rows() {
        let (columns, values) = a.view().row(row);
        for k in 0..5 {
            let exact: i64 =
                columns.iter().zip(values).map(|(&c, &v)| v as i64 * x.row(c as usize)[k] as i64).sum();
            assert_eq!(y.row(row)[k], exact as f64);
        }
    }
}

#[test]
fn gpu_kernels_are_refused_with_advice_on_devices() {
    let a = generate::<f64>("diagonal,rows=5", 1, u64::MAX).unwrap().matrix;
    let settings = CpuSettings { k: 2, threads: 1, isa: Isa::detect(), schedule: Schedule::Balanced };
    for info in kernels_of(KindOfWork::Spmm, Processor::Gpu) {
        let error = CpuProduct::prepare(a.view(), info.id, settings, u64::MAX).err().unwrap();
        assert_eq!(error.exit_code(), 2);
        let message = error.to_string();
        assert!(message.contains(info.name) && message.contains("emu:0"), "{message}");
    }
}

#[test]
fn wrong_shapes_are_refused() {
    let a = generate::<f64>("diagonal,rows=5", 1, u64::MAX).unwrap().matrix;
    for info in kernels_of(KindOfWork::Spmm, Processor::Cpu) {
        let settings = CpuSettings { k: 2, threads: 1, isa: Isa::detect(), schedule: Schedule::Balanced };
        let mut product = CpuProduct::prepare(a.view(), info.id, settings, u64::MAX).unwrap();
        let mut y = MultiVector::<f64>::zeros(5, 2).unwrap();
        let mut run = |x_rows, k| {
            let x = MultiVector::<f64>::zeros(x_rows, k).unwrap();
            product.run(x.view(), y.view_mut())
        };
        assert!(run(5, 2).is_ok() && run(4, 2).is_err() && run(5, 3).is_err(), "{}", info.name);
    }
}

fn cpu_kernels() -> Vec<KernelId> {
    kernels_of(KindOfWork::Spmm, Processor::Cpu).map(|info| info.id).collect()
}

fn matrices() -> impl Strategy<Value = Csr<f64>> {
    (0usize..40, 0usize..40).prop_flat_map(|(rows, cols)| {
        let most = if rows * cols == 0 { 0 } else { 300 };
        let entry = (0..rows.max(1) as u32, 0..cols.max(1) as u32, -4.0..4.0f64);
        (prop::collection::vec(entry, 0..=most), any::<bool>()).prop_map(move |(mut entries, dense_row)| {
            if dense_row && rows > 0 {
                entries.extend((0..cols as u32).map(|col| (0, col, 0.5)));
            }
            let rows_of = entries.iter().map(|e| e.0).collect();
            let cols_of = entries.iter().map(|e| e.1).collect();
            let values = entries.iter().map(|e| e.2).collect();
            coo_to_csr(&Coo::try_new(rows, cols, rows_of, cols_of, values).unwrap()).unwrap().0
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn kernels_agree_on_random_matrices_at_any_k_and_number_of_threads(
        a in matrices(), k in 0usize..=130, threads in 1usize..5, kernel in prop::sample::select(cpu_kernels()), gap in 0usize..3,
    ) {
        for &isa in Isa::available() {
            check(&a, k, kernel, (isa, threads), Schedule::Balanced, gap);
        }
        check(&a.cast::<f32>().unwrap(), k, kernel, (Isa::detect(), threads), Schedule::EqualRows, gap);
    }
}

/// Equal values, identical rows and a wide X together: such rows once had no value in Y from K = 89 on.
#[test]
fn identical_rows_with_equal_values_have_a_value_at_every_width() {
    fn check_type<T: Kernels>() {
        let rows_of = (0..7u32).flat_map(|row| [row, row]).collect();
        let cols_of = (0..7u32).flat_map(|_| [1, 4]).collect();
        let coo = Coo::try_new(7, 5, rows_of, cols_of, vec![T::from_f64(1.0); 14]).unwrap();
        let a = coo_to_csr(&coo).unwrap().0;
        for k in (1..=300).chain([383, 384, 385, 511, 512, 513, 600]) {
            for &isa in Isa::available() {
                check(&a, k, KernelId::CpuCsr, (isa, 1), Schedule::Balanced, k % 3);
            }
        }
    }
    check_type::<f64>();
    check_type::<f32>();
}
