//! Vectors that stay on devices: every operation equals a serial reference, with the same bits for any division of rows.

use proptest::prelude::*;
use rowloom::internal::kernel::cuda::CudaKernel;
use rowloom::internal::kernel::vectors::{Sum, sums};
use rowloom::internal::kernel::{KindOfWork, Processor, kernels_of};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::runtime::{ProductOptions, Vectors};
use rowloom::{Product, Runtime};

const DEVICES: [&str; 5] = ["cpu", "emu:0", "cpu,emu:0", "emu:0,emu:1", "cpu,emu:0,emu:1"];

fn values(rows: usize, k: usize, seed: u64) -> MultiVector<f64> {
    let value = |row: usize, column: usize| {
        let bits = (row as u64 * 31 + column as u64 * 17 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits >> 40) as f64 / 1e6 - 8.0
    };
    MultiVector::from_fn(rows, k, value).unwrap()
}

fn product<'a>(devices: &str, a: &'a Csr<f64>, k: usize) -> Product<'a, f64> {
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
    runtime.product(a).columns(k).uses(10).reproducible(true).build().unwrap()
}

fn filled(product: &mut Product<'_, f64>, from: &MultiVector<f64>) -> Vectors<f64> {
    let mut vectors = product.vectors().unwrap();
    vectors.copy_from(from).unwrap();
    vectors
}

fn host(vectors: &Vectors<f64>) -> MultiVector<f64> {
    let mut host = MultiVector::zeros(vectors.rows(), vectors.columns()).unwrap();
    vectors.copy_to(&mut host).unwrap();
    host
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_product_of_vectors_that_were_only_filled_needs_no_copy_before_it() {
    let a = generate::<f64>("stencil5,n=20", 3, u64::MAX).unwrap().matrix;
    let ones = MultiVector::filled(a.cols(), 4, 1.0).unwrap();
    let want = product("cpu", &a, 4).apply(&ones).unwrap();
    for seed in 0..12 {
        // Delayed copies and kernels show an operation that does not wait for A or for the vectors.
        let mut product = product(&format!("emu:0?delay_seed={seed}"), &a, 4);
        let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        x.fill(1.0).unwrap();
        y.fill(f64::NAN).unwrap();
        product.apply_into(&x, &mut y).unwrap();
        assert_eq!(bits(host(&y).data()), bits(want.data()), "delay seed {seed}");
    }
}

#[test]
fn products_on_vectors_equal_those_on_host_memory_for_any_devices() {
    for spec in ["stencil5,n=40", "rmat,scale=9,degree=6", "arrow,rows=900", "road,n=700", "diagonal,rows=3"]
    {
        let a = generate::<f64>(spec, 3, u64::MAX).unwrap().matrix;
        for k in [1, 4, 7] {
            let x = values(a.cols(), k, 1);
            let want = product("cpu", &a, k).apply(&x).unwrap();
            let twice = product("cpu", &a, k).apply(&want).unwrap();
            for devices in DEVICES {
                let mut product = product(devices, &a, k);
                let (mut x, mut y) = (filled(&mut product, &x), product.vectors().unwrap());
                product.apply_into(&x, &mut y).unwrap();
                assert_eq!(bits(host(&y).data()), bits(want.data()), "{spec}, K = {k} on {devices}");
                product.apply_into(&y, &mut x).unwrap();
                assert_eq!(bits(host(&x).data()), bits(twice.data()), "{spec}, K = {k} on {devices}, twice");
            }
        }
    }
}

#[test]
fn scaled_products_have_the_same_bits_on_host_memory_and_on_vectors() {
    let a = generate::<f64>("rmat,scale=9,degree=6", 3, u64::MAX).unwrap().matrix;
    for (alpha, beta) in [(2.0 / 3.0, 0.0), (-1.0, 1.0), (0.3, -0.7)] {
        let (x, old) = (values(a.cols(), 5, 1), values(a.rows(), 5, 2));
        let mut want = values(a.rows(), 5, 2);
        product("cpu", &a, 5).apply_scaled(alpha, &x, beta, &mut want).unwrap();
        for devices in DEVICES {
            let mut product = product(devices, &a, 5);
            let mut y = values(a.rows(), 5, 2);
            product.apply_scaled(alpha, &x, beta, &mut y).unwrap();
            assert_eq!(bits(y.data()), bits(want.data()), "{alpha}, {beta} on {devices}, host");
            let (x, mut y) = (filled(&mut product, &x), filled(&mut product, &old));
            product.apply_scaled(alpha, &x, beta, &mut y).unwrap();
            assert_eq!(bits(host(&y).data()), bits(want.data()), "{alpha}, {beta} on {devices}, vectors");
        }
    }
}

#[test]
fn a_matrix_that_is_not_square_has_vectors_for_x_and_for_y() {
    let a = generate::<f64>("uniform,rows=500,degree=4,cols=170", 3, u64::MAX).unwrap().matrix;
    let x = values(a.cols(), 3, 1);
    let want = product("cpu", &a, 3).apply(&x).unwrap();
    for devices in DEVICES {
        let mut product = product(devices, &a, 3);
        let (mut on_x, mut y) = (product.x_vectors().unwrap(), product.vectors().unwrap());
        on_x.copy_from(&x).unwrap();
        product.apply_into(&on_x, &mut y).unwrap();
        assert_eq!(bits(host(&y).data()), bits(want.data()), "{devices}");
    }
}

#[test]
fn only_rows_that_another_device_owns_and_this_one_needs_are_exchanged() {
    let a = generate::<f64>("stencil5,n=40", 1, u64::MAX).unwrap().matrix;
    assert_eq!(product("emu:0", &a, 2).exchanged_rows().unwrap(), 0);
    let mut two = product("emu:0,emu:1", &a, 2);
    let boundary = two.vector_plan().unwrap().devices[1].rows as usize;
    // Independent count: columns on the other side of the boundary.
    let mut needed = std::collections::BTreeSet::new();
    for row in 0..a.rows() {
        for &column in a.view().row(row).0 {
            if (row < boundary) != ((column as usize) < boundary) {
                needed.insert(column);
            }
        }
    }
    assert_eq!(two.exchanged_rows().unwrap(), needed.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_equals_a_serial_reference(
        n in 1usize..90, k in 1usize..12, seed in 0u64..1000, devices in 0usize..DEVICES.len(), alpha in -3.0f64..3.0,
    ) {
        let a = generate::<f64>(&format!("stencil5,n={n}"), 1, u64::MAX).unwrap().matrix;
        let rows = a.rows();
        let mut product = product(DEVICES[devices], &a, k);
        let (xs, ys) = (values(rows, k, seed), values(rows, k, seed + 1));
        let (mut x, mut y) = (filled(&mut product, &xs), filled(&mut product, &ys));

        // Sums in the canonical order, and near a plain sum.
        let (dot, gram) = (y.dot(&x).unwrap(), y.gram(&x).unwrap());
        prop_assert_eq!(bits(&dot), bits(&sums::sum(Sum::Dot, ys.view(), xs.view()).unwrap()));
        prop_assert_eq!(bits(gram.data()), bits(&sums::sum(Sum::Gram, ys.view(), xs.view()).unwrap()));
        for (column, found) in dot.iter().enumerate() {
            let plain: f64 = (0..rows).map(|row| xs.row(row)[column] * ys.row(row)[column]).sum();
            let size: f64 = (0..rows).map(|row| (xs.row(row)[column] * ys.row(row)[column]).abs()).sum();
            prop_assert!((found - plain).abs() <= 1e-13 * size + 1e-300);
            prop_assert!((gram.row(column)[column] - plain).abs() <= 1e-13 * size + 1e-300);
        }
        let norms = x.norm().unwrap();
        let square = sums::sum(Sum::Dot, xs.view(), xs.view()).unwrap();
        prop_assert_eq!(bits(&norms), bits(&square.iter().map(|square| square.sqrt()).collect::<Vec<_>>()));

        // Row-wise operations.
        y.axpby(alpha, &x, 0.5).unwrap();
        let sum = MultiVector::from_fn(rows, k, |row, column| alpha.mul_add(xs.row(row)[column], 0.5 * ys.row(row)[column]));
        let sum = sum.unwrap();
        prop_assert_eq!(bits(host(&y).data()), bits(sum.data()));
        let factors: Vec<f64> = (0..k).map(|column| alpha - column as f64).collect();
        y.scale_columns(&factors).unwrap();
        let scaled = MultiVector::from_fn(rows, k, |row, column| sum.row(row)[column] * factors[column]).unwrap();
        prop_assert_eq!(bits(host(&y).data()), bits(scaled.data()));
        let s = values(k, k, seed + 2);
        x.times(&s, &mut y).unwrap();
        let chain = |row: usize, column: usize| (0..k).fold(0.0f64, |sum, i| xs.row(row)[i].mul_add(s.row(i)[column], sum));
        let times = MultiVector::from_fn(rows, k, chain).unwrap();
        prop_assert_eq!(bits(host(&y).data()), bits(times.data()));
        x.fill(alpha).unwrap();
        prop_assert!(host(&x).data().iter().all(|&value| value == alpha));

        // Some rows in and out.
        let (first, count) = (rows / 3, rows / 2);
        let part = values(count, k, seed + 3);
        x.copy_rows_from(first, &part.view()).unwrap();
        let mut back = MultiVector::zeros(count, k).unwrap();
        x.copy_rows_to(first, back.view_mut()).unwrap();
        prop_assert_eq!(bits(back.data()), bits(part.data()));
        // The product sees the new rows.
        let whole = host(&x);
        product.apply_into(&x, &mut y).unwrap();
        let want = self::product("cpu", &a, k).apply(&whole).unwrap();
        prop_assert_eq!(bits(host(&y).data()), bits(want.data()));
    }
}

/// A X, with X and Y on the devices of the product.
fn through_vectors(
    product: &mut Product<'_, f64>,
    x: &MultiVector<f64>,
) -> rowloom::Result<MultiVector<f64>> {
    let (mut on_x, mut y) = (product.vectors()?, product.vectors()?);
    on_x.copy_from(x)?;
    product.apply_into(&on_x, &mut y)?;
    let mut host = MultiVector::zeros(y.rows(), y.columns())?;
    y.copy_to(&mut host)?;
    Ok(host)
}

#[test]
fn a_lost_device_is_an_error_and_never_a_wrong_number() {
    let a = generate::<f64>("stencil5,n=30", 1, u64::MAX).unwrap().matrix;
    let x = values(a.rows(), 2, 1);
    let want = product("cpu", &a, 2).apply(&x).unwrap();
    for operation in 1..40 {
        for list in ["emu:0?lost_at_operation=OP", "cpu,emu:0?fail_launch=OP"] {
            let devices = list.replace("OP", &operation.to_string());
            let computed = || -> rowloom::Result<MultiVector<f64>> {
                let runtime = Runtime::builder().devices(&devices).threads(2).model("none").open()?;
                through_vectors(&mut runtime.product(&a).columns(2).reproducible(true).build()?, &x)
            };
            match computed() {
                Ok(y) => assert_eq!(bits(y.data()), bits(want.data()), "{devices}"),
                Err(error) => assert_eq!(error.exit_code(), 4, "{devices}: {error}"),
            }
        }
    }
}

#[test]
fn a_fault_of_vectors_does_not_end_products_in_host_memory() {
    let a = generate::<f64>("stencil5,n=30", 1, u64::MAX).unwrap().matrix;
    let x = values(a.rows(), 2, 1);
    let want = product("cpu", &a, 2).apply(&x).unwrap();
    let mut failed = 0;
    for operation in 1..12 {
        for list in [
            "emu:0?fail_launch=OP",
            "emu:0?fail_copy=OP",
            "cpu,emu:0?fail_launch=OP",
            "cpu,emu:0?lost_at_operation=OP",
        ] {
            let devices = list.replace("OP", &operation.to_string());
            let runtime = Runtime::builder().devices(&devices).threads(2).model("none").open().unwrap();
            let mut product = runtime.product(&a).columns(2).reproducible(true).build().unwrap();
            if through_vectors(&mut product, &x).is_err() {
                failed += 1;
                let y = product.apply(&x).unwrap_or_else(|error| panic!("{devices}: {error}"));
                assert_eq!(bits(y.data()), bits(want.data()), "{devices}");
                if devices.contains("lost") {
                    continue;
                }
                // New vectors, of this product and of another one, are not affected by the fault.
                let mut other = runtime.product(&a).columns(2).reproducible(true).build().unwrap();
                for product in [&mut product, &mut other] {
                    let applied = through_vectors(product, &x);
                    let y = applied.unwrap_or_else(|error| panic!("{devices}, new vectors: {error}"));
                    assert_eq!(bits(y.data()), bits(want.data()), "{devices}, new vectors");
                }
            }
        }
    }
    assert!(failed > 3, "vectors failed only {failed} times");
}

/// Vectors of an f32 product on a device list, all NaN, and others, all 2.
fn nan_and_two(product: &mut Product<'_, f32>) -> (Vectors<f32>, Vectors<f32>) {
    let (mut nan, mut two) = (product.vectors().unwrap(), product.vectors().unwrap());
    nan.fill(f64::NAN).unwrap();
    two.fill(2.0).unwrap();
    (nan, two)
}

#[test]
fn a_beta_that_rounds_to_zero_lets_the_old_values_have_no_effect() {
    let a = generate::<f32>("diagonal,rows=40", 3, u64::MAX).unwrap().matrix;
    for devices in DEVICES {
        let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
        let mut product = runtime.product(&a).columns(3).uses(10).build().unwrap();
        for beta in [1e-60, -1e-60, -0.0] {
            let (mut y, x) = nan_and_two(&mut product);
            y.axpby(3.0, &x, beta).unwrap();
            let mut host = MultiVector::zeros(a.rows(), 3).unwrap();
            y.copy_to(&mut host).unwrap();
            assert_eq!(host.data(), [6.0f32; 120], "axpby on {devices} with beta {beta}");
            let (mut y, x) = nan_and_two(&mut product);
            product.apply_scaled(3.0, &x, beta, &mut y).unwrap();
            y.copy_to(&mut host).unwrap();
            assert!(host.data().iter().all(|value| value.is_finite()), "{devices} with beta {beta}");
        }
    }
}

#[test]
fn kernels_without_lanes_over_columns_compute_products_of_vectors() {
    let a = generate::<f64>("stencil5,n=12", 3, u64::MAX).unwrap().matrix;
    // Rows of three columns have padding on a device.
    let x = values(a.rows(), 3, 1);
    let want = product("cpu", &a, 3).apply(&x).unwrap();
    let kernels = kernels_of(KindOfWork::Spmm, Processor::Gpu).map(|info| info.id);
    let mut computed = 0;
    for kernel in kernels.filter(|&kernel| CudaKernel::of(kernel).is_ok_and(|cuda| !cuda.has_lanes())) {
        for devices in ["emu:0", "emu:0,emu:1"] {
            let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
            let options = ProductOptions { kernel: Some(kernel), ..ProductOptions::default() };
            let mut product = runtime.product(&a).columns(3).options(options).build().unwrap();
            let (mut on_x, mut y) = match (product.vectors(), product.vectors()) {
                (Ok(x), Ok(y)) => (x, y),
                (result, _) => {
                    let error = result.err().map(|error| (error.exit_code(), error.to_string()));
                    assert_eq!(
                        error.as_ref().map(|(code, _)| *code),
                        Some(2),
                        "{}: {error:?}",
                        kernel.name()
                    );
                    continue;
                }
            };
            on_x.copy_from(&x).unwrap();
            product.apply_into(&on_x, &mut y).unwrap();
            product.apply_scaled(2.0, &on_x, -1.0, &mut y).unwrap();
            on_x.axpby(1.0, &y, 0.0).unwrap();
            let found = host(&on_x);
            for (found, want) in found.data().iter().zip(want.data()) {
                assert!((found - want).abs() < 1e-9 * want.abs().max(1.0), "{} on {devices}", kernel.name());
            }
            computed += 1;
        }
    }
    assert!(computed >= 10, "{computed} products");
}

#[test]
fn wrong_operands_are_usage_errors() {
    let a = generate::<f64>("stencil5,n=10", 1, u64::MAX).unwrap().matrix;
    let (mut one, mut other) = (product("cpu", &a, 2), product("emu:0", &a, 2));
    let (x, mut y) = (one.vectors().unwrap(), one.vectors().unwrap());
    let mut foreign = other.vectors().unwrap();
    assert_eq!(one.apply_into(&x, &mut foreign).unwrap_err().exit_code(), 2);
    assert_eq!(one.apply_into(&x, &mut values(100, 2, 1)).unwrap_err().exit_code(), 2);
    assert_eq!(y.axpby(1.0, &foreign, 1.0).unwrap_err().exit_code(), 2);
    assert_eq!(y.scale_columns(&[1.0]).unwrap_err().exit_code(), 2);
    assert_eq!(y.copy_from(&values(99, 2, 1)).unwrap_err().exit_code(), 2);
    assert_eq!(x.times(&values(3, 2, 1), &mut y).unwrap_err().exit_code(), 2);
}

#[test]
fn products_with_the_transposed_matrix_equal_those_of_its_transpose() {
    let a = generate::<f64>("uniform,rows=300,degree=4,cols=120", 3, u64::MAX).unwrap().matrix;
    let x = values(a.rows(), 3, 1);
    let mut want = MultiVector::<f64>::zeros(a.cols(), 3).unwrap();
    for row in 0..a.rows() {
        let (columns, entries) = a.view().row(row);
        for (&column, entry) in columns.iter().zip(entries) {
            for k in 0..3 {
                let place = column as usize * 3 + k;
                want.data_mut()[place] = entry.mul_add(x.row(row)[k], want.data()[place]);
            }
        }
    }
    for devices in ["cpu", "cpu,emu:0"] {
        let y = product(devices, &a, 3).transposed().unwrap().apply(&x).unwrap();
        assert_eq!(bits(y.data()), bits(want.data()), "{devices}");
    }
}

#[test]
fn a_runtime_is_shared_by_threads_and_products_move_between_them() {
    fn is_sync<T: Send + Sync + Clone>() {}
    fn is_send<T: Send>() {}
    is_sync::<Runtime>();
    is_send::<Product<'static, f64>>();
    is_send::<Vectors<f32>>();
    let runtime = Runtime::builder().devices("cpu,emu:0").threads(2).model("none").open().unwrap();
    let a = std::sync::Arc::new(generate::<f64>("stencil5,n=20", 1, u64::MAX).unwrap().matrix);
    let x = values(a.cols(), 3, 1);
    let want = product("cpu", &a, 3).apply(&x).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (runtime, a, x) = (runtime.clone(), a.clone(), values(x.rows(), 3, 1));
            std::thread::spawn(move || {
                let mut product = runtime.product(a).columns(3).reproducible(true).build().unwrap();
                let mut ys = Vec::new();
                for _ in 0..5 {
                    ys.push(product.apply(&x).unwrap());
                }
                ys
            })
        })
        .collect();
    for thread in threads {
        for y in thread.join().unwrap() {
            assert_eq!(bits(y.data()), bits(want.data()));
        }
    }
}

#[test]
fn a_trace_shows_products_sums_and_the_exchange_of_rows() {
    let a = generate::<f64>("stencil5,n=40", 1, u64::MAX).unwrap().matrix;
    let through_host = ["send rows", "receive rows", "scatter rows"];
    for (devices, exchanged) in
        [("cpu,emu:0", &through_host[..]), ("emu:0,emu:1", &["peer copy rows", "peer_copy"])]
    {
        let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
        runtime.start_recording();
        let mut product = runtime.product(&a).columns(4).build().unwrap();
        let (x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        product.apply_into(&x, &mut y).unwrap();
        y.dot(&x).unwrap();
        let mut trace = rowloom::internal::trace::Trace::default();
        runtime.add_operations(&mut trace);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        trace.write(&path).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        for name in ["gather rows", "dot", "partial sums", "emu:0"].iter().chain(exchanged) {
            assert!(text.contains(name), "the trace on {devices} has no {name}");
        }
        assert!(text.contains("\"kernel "), "the trace on {devices} has no kernel");
    }
}
