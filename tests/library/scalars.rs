//! Scalars that stay on devices: sums that operations take as factors have the bits of a reference on the host, on any devices.

use rowloom::internal::kernel::vectors::{Sum, sums};
use rowloom::internal::matrix::{Csr, MultiVector, Scalar, generate};
use rowloom::internal::runtime::{Scalars, Vectors};
use rowloom::runtime::{Kernels, RowBlock};
use rowloom::{Error, Product, Runtime};

use crate::ranks::{block, on_ranks};

const DEVICES: [&str; 5] = ["cpu", "emu:0", "cpu,emu:0", "emu:0,emu:1", "cpu,emu:0,emu:1"];

fn matrix(spec: &str) -> Csr<f64> {
    generate::<f64>(spec, 3, u64::MAX).unwrap().matrix
}

fn runtime(devices: &str) -> Runtime {
    Runtime::builder().devices(devices).threads(2).model("none").refine(false).open().unwrap()
}

fn product<'a, T: Kernels>(devices: &str, a: &'a Csr<T>, k: usize) -> Product<'a, T> {
    runtime(devices).product(a).columns(k).uses(10).reproducible(true).build().unwrap()
}

fn values<T: Scalar>(rows: usize, k: usize, seed: usize) -> MultiVector<T> {
    let value = |row: usize, column: usize| {
        let mixed = (row * 31 + column * 17 + seed + 1).wrapping_mul(0x9e37_79b9) % 2011;
        T::from_f64((mixed as f64 - 1005.0) / 37.0)
    };
    MultiVector::from_fn(rows, k, value).unwrap()
}

fn bits<T: Scalar>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.to_f64().to_bits()).collect()
}

fn host<T: Kernels>(vectors: &Vectors<T>) -> MultiVector<T> {
    let mut host = MultiVector::zeros(vectors.rows(), vectors.columns()).unwrap();
    vectors.copy_to(&mut host).unwrap();
    host
}

/// Each step rounded, as the documents say.
fn coefficient<T: Scalar>(number: f64, multiplied: Option<T>, divisor: Option<T>) -> T {
    let mut result = T::from_f64(number);
    if let Some(by) = multiplied {
        result = T::from_f64(result.to_f64() * by.to_f64());
    }
    if let Some(by) = divisor {
        result = T::from_f64(result.to_f64() / by.to_f64());
    }
    result
}

/// `fma(alpha, x, beta * y)` in the precision of the values; all sums and products of `f32` here are rounded once more from `f64`.
fn combined<T: Kernels>(alpha: &[T], x: &MultiVector<T>, beta: &[T], y: &MultiVector<T>) -> MultiVector<T> {
    use rowloom::internal::kernel::vectors::{Factor, rows};
    let mut result = MultiVector::from_fn(y.rows(), y.k(), |row, column| y.row(row)[column]).unwrap();
    rows::axpby(Factor::Columns(alpha), x.view(), Factor::Columns(beta), result.view_mut()).unwrap();
    result
}

fn every_operation_equals_the_host<T: Kernels>(a: &Csr<T>, devices: &str, k: usize) {
    let what = format!("{} rows, K = {k}, {} on {devices}", a.rows(), T::DTYPE);
    let mut product = product(devices, a, k);
    let (xs, mut ys) = (values::<T>(a.rows(), k, 1), values::<T>(a.rows(), k, 2));
    let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
    x.copy_from(&xs).unwrap();
    y.copy_from(&ys).unwrap();
    let (mut xy, mut norms) = (x.scalars().unwrap(), y.scalars().unwrap());
    assert_eq!(bits(&xy.values().unwrap()), vec![0; k], "{what}: new scalars");

    x.dot_into(&y, &mut xy).unwrap();
    x.norm_into(&mut norms).unwrap();
    let dots = sums::sum(Sum::Dot, xs.view(), ys.view()).unwrap();
    let squares = sums::sum(Sum::Dot, xs.view(), xs.view()).unwrap();
    let roots: Vec<T> = squares.iter().map(|square| T::from_f64(square.to_f64().sqrt())).collect();
    assert_eq!(bits(&xy.values().unwrap()), bits(&dots), "{what}: dot");
    assert_eq!(bits(&norms.values().unwrap()), bits(&roots), "{what}: norm");
    assert_eq!(bits(&x.dot(&y).unwrap()), bits(&dots), "{what}: dot to the host");

    let columns = |number: f64, multiplied: Option<&[T]>, divisors: Option<&[T]>| -> Vec<T> {
        let of = |array: Option<&[T]>, column: usize| array.map(|array| array[column]);
        (0..k).map(|column| coefficient(number, of(multiplied, column), of(divisors, column))).collect()
    };
    y.axpby(&xy / &norms, &x, -&norms).unwrap();
    let quotients = columns(1.0, Some(&dots), Some(&roots));
    ys = combined(&quotients, &xs, &columns(-1.0, Some(&roots), None), &ys);
    assert_eq!(bits(host(&y).data()), bits(ys.data()), "{what}: axpby of a quotient");
    y.axpby(-(&xy / &norms), &x, 0.5).unwrap();
    ys = combined(&columns(-1.0, Some(&dots), Some(&roots)), &xs, &columns(0.5, None, None), &ys);
    assert_eq!(bits(host(&y).data()), bits(ys.data()), "{what}: axpby of a negative quotient");
    y.axpby(0.25 * &norms, &x, 1.0 / &xy).unwrap();
    ys = combined(&columns(0.25, Some(&roots), None), &xs, &columns(1.0, None, Some(&dots)), &ys);
    assert_eq!(bits(host(&y).data()), bits(ys.data()), "{what}: axpby of a multiple and a reciprocal");
    x.scale(1.0 / &norms).unwrap();
    let reciprocals = columns(1.0, None, Some(&roots));
    let scaled = MultiVector::from_fn(xs.rows(), k, |row, column| {
        T::from_f64(xs.row(row)[column].to_f64() * reciprocals[column].to_f64())
    });
    let scaled = scaled.unwrap();
    assert_eq!(bits(host(&x).data()), bits(scaled.data()), "{what}: scale by a reciprocal");
    // Without a beta the old values have no effect.
    y.fill(f64::NAN).unwrap();
    y.axpby(&norms, &x, 0.0).unwrap();
    let of_x = MultiVector::from_fn(xs.rows(), k, |row, column| {
        T::from_f64(scaled.row(row)[column].to_f64() * roots[column].to_f64())
    });
    assert_eq!(bits(host(&y).data()), bits(of_x.unwrap().data()), "{what}: axpby without beta");
}

#[test]
fn sums_and_operations_that_take_them_have_the_bits_of_the_host_on_any_devices() {
    for (spec, columns) in
        [("stencil5,n=70", &[1, 3, 8][..]), ("diagonal,rows=3", &[1, 2]), ("stencil5,n=33", &[33])]
    {
        let a = matrix(spec);
        let single = a.cast::<f32>().unwrap();
        for &k in columns {
            for devices in DEVICES {
                every_operation_equals_the_host(&a, devices, k);
                every_operation_equals_the_host(&single, devices, k);
            }
        }
    }
}

#[test]
fn many_columns_are_added_in_the_order_of_blocks() {
    // More columns than a block of threads, and more blocks than it holds in shared memory at once.
    let a = matrix("stencil5,n=110");
    for k in [130, 200] {
        let mut product = product("emu:0", &a, k);
        let values = values::<f64>(a.rows(), k, 5);
        let mut x = product.vectors().unwrap();
        x.copy_from(&values).unwrap();
        let mut squares = x.scalars().unwrap();
        x.dot_into(&x, &mut squares).unwrap();
        let want = sums::sum(Sum::Dot, values.view(), values.view()).unwrap();
        assert_eq!(bits(&squares.values().unwrap()), bits(&want), "K = {k}");
    }
}

#[test]
fn a_division_by_zero_is_infinite_or_not_a_number() {
    let a = matrix("stencil5,n=10");
    for devices in DEVICES {
        let mut product = product(devices, &a, 3);
        let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
        x.copy_from(&MultiVector::from_fn(100, 3, |_, column| [1.0, -1.0, 0.0][column]).unwrap()).unwrap();
        y.fill(1.0).unwrap();
        let zero = y.scalars().unwrap();
        y.axpby(1.0 / &zero, &x, 0.0).unwrap();
        let found = host(&y);
        assert!((0..100).all(|row| found.row(row)[0] == f64::INFINITY), "{devices}");
        assert!((0..100).all(|row| found.row(row)[1] == f64::NEG_INFINITY), "{devices}");
        assert!((0..100).all(|row| found.row(row)[2].is_nan()), "{devices}");
    }
}

#[test]
fn scalars_of_other_products_and_shapes_are_refused() {
    let a = matrix("stencil5,n=10");
    for devices in ["cpu", "emu:0", "cpu,emu:0"] {
        let (mut product, mut other) = (product(devices, &a, 2), product::<f64>(devices, &a, 2));
        let (mut x, y) = (product.vectors().unwrap(), other.vectors().unwrap());
        let mut foreign = y.scalars().unwrap();
        let refused = |result: rowloom::Result<()>| {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{devices}: {error}");
            assert!(error.to_string().contains("different products"), "{devices}: {error}");
        };
        refused(x.scale(&foreign));
        refused(x.scale(1.0 / &foreign));
        refused(x.dot_into(&x, &mut foreign));
        refused(x.norm_into(&mut foreign));
        let mut own = x.scalars().unwrap();
        refused(x.dot_into(&y, &mut own));
        let mut wider = self::product(devices, &a, 3);
        refused(x.scale(&wider.vectors().unwrap().scalars().unwrap()));
    }
}

#[test]
fn scalars_of_x_are_factors_of_y_where_the_matrix_is_not_square() {
    let a = matrix("uniform,rows=500,degree=4,cols=170");
    for devices in DEVICES {
        let mut product = product(devices, &a, 2);
        let (mut x, mut y) = (product.x_vectors().unwrap(), product.vectors().unwrap());
        x.fill(2.0).unwrap();
        y.fill(1.0).unwrap();
        let mut squares = x.scalars().unwrap();
        x.dot_into(&x, &mut squares).unwrap();
        y.scale(&squares).unwrap();
        assert!(host(&y).data().iter().all(|&value| value == 680.0), "{devices}");
    }
}

/// Conjugate gradients: the residual's square after some iterations.
fn conjugate_gradients(product: &mut Product<'_, f64>, iterations: usize) -> rowloom::Result<Vec<f64>> {
    let rows = product.matrix().rows();
    let k = product.columns();
    let [mut x, mut r, mut p, mut q] =
        [product.vectors()?, product.vectors()?, product.vectors()?, product.vectors()?];
    r.copy_from(&values::<f64>(rows, k, 3))?;
    p.axpby(1.0, &r, 0.0)?;
    let (mut rr, mut next, mut pq) = (r.scalars()?, r.scalars()?, r.scalars()?);
    r.dot_into(&r, &mut rr)?;
    for _ in 0..iterations {
        product.apply_into(&p, &mut q)?;
        p.dot_into(&q, &mut pq)?;
        x.axpby(&rr / &pq, &p, 1.0)?;
        r.axpby(-(&rr / &pq), &q, 1.0)?;
        r.dot_into(&r, &mut next)?;
        p.axpby(1.0, &r, &next / &rr)?;
        std::mem::swap(&mut rr, &mut next);
    }
    let mut found = rr.values()?;
    found.extend(x.norm()?);
    Ok(found)
}

#[test]
fn a_loop_that_never_waits_has_the_same_bits_on_any_devices() {
    let a = definite(40);
    for k in [1, 8] {
        let want = conjugate_gradients(&mut product("cpu", &a, k), 30).unwrap();
        assert!(want[..k].iter().all(|&square| square < 1e-6), "{want:?}");
        for devices in ["emu:0", "emu:0?delay_seed=7", "cpu,emu:0", "emu:0,emu:1"] {
            let found = conjugate_gradients(&mut product(devices, &a, k), 30).unwrap();
            assert_eq!(bits(&found), bits(&want), "K = {k} on {devices}");
        }
    }
}

/// A symmetric matrix that is diagonally dominant: the pattern of a five-point stencil.
fn definite(n: usize) -> Csr<f64> {
    let pattern = matrix(&format!("stencil5,n={n}"));
    let view = pattern.view();
    let row = |row: usize| {
        view.row(row).0.iter().map(move |&column| if column as usize == row { 6.0 } else { -1.0 })
    };
    let values: Vec<f64> = (0..view.rows()).flat_map(row).collect();
    Csr::try_new(view.rows(), view.cols(), view.row_pointers().to_vec(), view.columns().to_vec(), values)
        .unwrap()
}

#[test]
fn a_fault_in_a_queued_operation_is_an_error_of_the_next_one_that_waits() {
    let a = definite(12);
    let mut later = 0;
    for launch in 1..60 {
        for devices in
            [format!("emu:0?fail_launch={launch}"), format!("emu:0?delay_seed=3&fail_launch={launch}")]
        {
            let mut product = product(&devices, &a, 2);
            let Ok(mut x) = product.vectors() else { continue };
            let Ok(mut squares) = x.scalars() else { continue };
            let queued = || -> rowloom::Result<()> {
                x.fill(3.0)?;
                x.scale(2.0)?;
                x.scale_columns(&[0.5, 0.25])?;
                x.dot_into(&x, &mut squares)?;
                x.scale(1.0 / &squares)
            };
            let mut queued = queued;
            if queued().is_err() {
                continue;
            }
            match x.dot(&x) {
                Ok(found) => {
                    let square = 144.0 * 9.0;
                    let want = [(3.0f64 / square).powi(2) * 144.0, (1.5f64 / (square / 4.0)).powi(2) * 144.0];
                    assert!(
                        found.iter().zip(want).all(|(found, want)| (found / want - 1.0).abs() < 1e-12),
                        "{devices}"
                    );
                }
                Err(Error::Device { .. }) => {
                    assert!(x.synchronize().is_err() && squares.values().is_err(), "{devices}");
                    later += 1;
                }
                Err(error) => panic!("{devices}: {error}"),
            }
        }
    }
    assert!(later > 3, "only {later} faults were found later");
}

#[test]
fn scalars_of_a_lost_device_are_an_error_and_never_a_wrong_number() {
    let a = definite(12);
    let want = conjugate_gradients(&mut product("cpu", &a, 2), 3).unwrap();
    let mut lost = 0;
    for operation in 1..45 {
        for devices in ["emu:0?lost_at_operation=OP", "cpu,emu:0?lost_at_operation=OP"] {
            let devices = devices.replace("OP", &operation.to_string());
            match runtime(&devices).product(&a).columns(2).reproducible(true).build() {
                Ok(mut product) => match conjugate_gradients(&mut product, 3) {
                    Ok(found) => assert_eq!(bits(&found), bits(&want), "{devices}"),
                    Err(error) => {
                        assert!(matches!(error, Error::Device { .. }), "{devices}: {error}");
                        lost += 1;
                    }
                },
                Err(error) => assert!(matches!(error, Error::Device { .. }), "{devices}: {error}"),
            }
        }
    }
    assert!(lost > 10, "only {lost} losses");
}

#[test]
fn scalars_of_ranks_have_the_bits_of_one_process() {
    let a = definite(60);
    let whole = values::<f64>(a.rows(), 3, 4);
    let want = sums::sum(Sum::Dot, whole.view(), whole.view()).unwrap();
    for (ranks, devices) in [(1, "emu:0"), (2, "cpu"), (3, "cpu,emu:0"), (2, "emu:0")] {
        let results = on_ranks(ranks, devices, |cluster| {
            let rows: RowBlock<f64> = block(cluster, &a, 3);
            let mut product = cluster.product(rows).columns(3).build().unwrap();
            let mut x = product.vectors().unwrap();
            let first = x.first_row() as usize;
            let own =
                MultiVector::from_fn(x.rows(), 3, |row, column| whole.row(first + row)[column]).unwrap();
            x.copy_from(&own).unwrap();
            let mut squares: Scalars<f64> = x.scalars().unwrap();
            x.dot_into(&x, &mut squares).unwrap();
            x.scale(1.0 / &squares).unwrap();
            (squares.values().unwrap(), first, host(&x))
        });
        for (squares, first, found) in results {
            assert_eq!(bits(&squares), bits(&want), "{ranks} ranks of {devices}");
            for row in 0..found.rows() {
                let scaled: Vec<f64> = whole
                    .row(first + row)
                    .iter()
                    .zip(&want)
                    .map(|(value, square)| value * (1.0 / square))
                    .collect();
                assert_eq!(bits(found.row(row)), bits(&scaled), "{ranks} ranks of {devices}");
            }
        }
    }
}

#[test]
fn loops_with_scalars_advance_the_clock_of_simulated_devices_and_have_no_values() {
    let a = definite(30);
    let runtime = runtime("sim:h200x2");
    let mut product = runtime.product(&a).columns(2).build().unwrap();
    let (mut x, y) = (product.vectors().unwrap(), product.vectors().unwrap());
    let mut sums = x.scalars().unwrap();
    let before = product.simulated_seconds().unwrap();
    x.dot_into(&y, &mut sums).unwrap();
    x.axpby(1.0 / &sums, &y, &sums).unwrap();
    assert!(product.simulated_seconds().unwrap() > before);
    let error = sums.values().unwrap_err();
    assert!(error.to_string().contains("simulated"), "{error}");
}
