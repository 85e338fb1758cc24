//! Checked products: silent faults of devices are found, named and recovered from; right products are never called wrong.

use rowloom::internal::kernel::check::{Applied, Operator, wrong_rows};
use rowloom::internal::kernel::scaling::scaling;
use rowloom::internal::kernel::{reference, verify};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::Mode;
use rowloom::internal::runtime::{Check, Runtime};
use rowloom::{Error, Result};

fn matrix(words: &str) -> Csr<f64> {
    generate::<f64>(words, 3, u64::MAX).unwrap().matrix
}

fn x_of(a: &Csr<f64>, k: usize) -> MultiVector<f64> {
    MultiVector::random(a.cols(), k, 11).unwrap()
}

fn right(a: &Csr<f64>, x: &MultiVector<f64>) -> MultiVector<f64> {
    let mut y = MultiVector::zeros(a.rows(), x.k()).unwrap();
    reference::csr(a.view(), x.view(), &mut y.view_mut()).unwrap();
    y
}

/// The largest rounding bound of the elements of a row of Y.
fn bound(a: &Csr<f64>, x: &MultiVector<f64>, row: usize) -> f64 {
    let (columns, values) = a.view().row(row);
    let terms = |column: usize| {
        columns.iter().zip(values).map(move |(&c, v)| (v * x.row(c as usize)[column]).abs()).sum::<f64>()
    };
    let size = (0..x.k()).map(terms).fold(0.0, f64::max);
    columns.len() as f64 * f64::EPSILON / 2.0 * size
}

/// Whether the check of `y` names exactly the rows `expected`.
fn assert_wrong(a: &Csr<f64>, x: &MultiVector<f64>, y: &MultiVector<f64>, expected: &[usize]) {
    let applied = Applied { scaling: scaling(1.0, 0.0), x: x.view(), old: None, y: y.view() };
    assert_eq!(wrong_rows(Operator::Sparse(a.view()), applied).unwrap(), expected);
}

#[test]
fn an_error_of_a_thousand_rounding_bounds_of_a_row_is_found() {
    for words in
        ["rmat,scale=8,degree=6", "stencil27,n=6", "hub,rows=400,degree=3,hubs=2", "diagonal,rows=60"]
    {
        let a = matrix(words);
        for k in [1, 7, 32, 33, 130] {
            let x = x_of(&a, k);
            let y = right(&a, &x);
            assert_wrong(&a, &x, &y, &[]);
            for row in (0..a.rows()).step_by(7).filter(|&row| a.view().row_length(row) > 0) {
                let mut y = y.clone_values();
                let column = (row * 13) % k;
                // A single column has elements of X that are much smaller than the others, and bounds that are, too.
                let error = if k == 1 { 30_000.0 } else { 1000.0 } * bound(&a, &x, row);
                y.view_mut().row_mut(row)[column] += if row % 2 == 0 { error } else { -error };
                assert_wrong(&a, &x, &y, &[row]);
            }
        }
    }
}

trait CloneValues {
    fn clone_values(&self) -> Self;
}

impl CloneValues for MultiVector<f64> {
    fn clone_values(&self) -> Self {
        MultiVector::from_fn(self.rows(), self.k(), |row, column| self.row(row)[column]).unwrap()
    }
}

#[test]
fn exchanged_rows_and_columns_missing_values_and_nan_are_found() {
    let a = matrix("rmat,scale=7,degree=6");
    let x = x_of(&a, 9);
    let y = right(&a, &x);
    let rows: Vec<usize> = (0..a.rows()).filter(|&row| a.view().row_length(row) > 2).take(2).collect();
    let mut exchanged = y.clone_values();
    exchanged.view_mut().row_mut(rows[0]).copy_from_slice(y.row(rows[1]));
    exchanged.view_mut().row_mut(rows[1]).copy_from_slice(y.row(rows[0]));
    assert_wrong(&a, &x, &exchanged, &rows);
    let mut columns = y.clone_values();
    columns.view_mut().row_mut(rows[0]).swap(2, 3);
    assert_wrong(&a, &x, &columns, &rows[..1]);
    let mut zero = y.clone_values();
    zero.view_mut().row_mut(rows[1]).fill(0.0);
    assert_wrong(&a, &x, &zero, &rows[1..]);
    let mut nan = y.clone_values();
    nan.view_mut().row_mut(rows[0])[8] = f64::NAN;
    assert_wrong(&a, &x, &nan, &rows[..1]);
}

#[test]
fn values_that_are_not_finite_are_no_error() {
    let a = matrix("stencil5,n=8");
    let mut x = x_of(&a, 40);
    x.view_mut().row_mut(5)[3] = f64::INFINITY;
    x.view_mut().row_mut(17)[39] = f64::NAN;
    x.view_mut().row_mut(20)[0] = f64::MAX;
    let y = right(&a, &x);
    assert_wrong(&a, &x, &y, &[]);
}

/// Products on `devices` with every product checked: right values, and the faults.
fn checked(devices: &str, mode: Mode, k: usize) -> Result<Vec<String>> {
    let a = matrix("rmat,scale=6,degree=5");
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").open()?;
    let builder = runtime.product(&a).columns(k).uses(6).mode(mode).check(Check::Always);
    let mut product = builder.build()?;
    for seed in 0..4 {
        let x = MultiVector::random(a.cols(), k, seed)?;
        let y = product.apply(&x)?;
        let verified = verify(a.view(), x.view(), y.view())?;
        // Smaller errors are below what the check can see.
        assert!(verified.max_bound_ratio < 1000.0, "{devices}: {verified:?}");
    }
    Ok(product
        .faults()
        .iter()
        .map(|fault| format!("{}: {}: {}", fault.device, fault.task, fault.error))
        .collect())
}

#[cfg(feature = "emulator")]
#[test]
fn silent_faults_of_an_emulated_device_never_reach_y() {
    let (mut found, mut typed) = (0, 0);
    for fault in ["flip_bit_in_launch", "stale_launch", "flip_bit_in_copy"] {
        for at in [1, 2, 3, 5] {
            for seed in 0..12 {
                for (devices, mode) in [("emu:0", Mode::Resident), ("cpu,emu:0", Mode::Stream)] {
                    let words = format!("{devices}?{fault}={at}&fault_seed={seed}");
                    match checked(&words, mode, 5) {
                        Ok(faults) => found += usize::from(!faults.is_empty()),
                        // A flipped bit of an index is an access outside of an array, which the emulator reports.
                        Err(Error::Device { .. } | Error::Internal(_)) => typed += 1,
                        Err(error) => panic!("{words}: {error}"),
                    }
                }
            }
        }
    }
    assert!(found > 60, "only {found} faults were found");
    assert!(typed < 60, "{typed} typed errors");
}

#[cfg(feature = "emulator")]
#[test]
fn a_wrong_chunk_is_named_with_its_device_and_kernel() {
    let of = |seed| checked(&format!("emu:0?stale_launch=2&fault_seed={seed}"), Mode::Resident, 5).unwrap();
    let faults: Vec<String> = (0..8).flat_map(of).collect();
    assert!(!faults.is_empty());
    for fault in faults {
        assert!(fault.starts_with("emu:0: check of chunk "), "{fault}");
        assert!(
            fault.contains(", computed by csr_")
                && fault.contains("Y differs from A X by more than rounding in "),
            "{fault}"
        );
    }
}

#[cfg(feature = "emulator")]
#[test]
fn silent_faults_in_products_on_vectors_never_reach_y() {
    let a = matrix("stencil5,n=9");
    let (k, mut found) = (35, 0);
    for devices in ["emu:0", "emu:0,emu:1", "cpu,emu:0"] {
        for fault in ["flip_bit_in_launch", "stale_launch"] {
            for at in 1..=8 {
                let words = format!("{devices}?{fault}={at}&fault_seed={at}");
                let runtime =
                    Runtime::builder().devices(words.as_str()).threads(2).model("none").open().unwrap();
                let builder = runtime.product(&a).columns(k).uses(6).check(Check::Always);
                let mut product = builder.build().unwrap();
                let host = x_of(&a, k);
                let (mut x, mut y) = (product.vectors().unwrap(), product.vectors().unwrap());
                x.copy_from(&host).unwrap();
                product.apply_into(&x, &mut y).unwrap();
                // The fault may have hit X before the product.
                let (mut x_now, mut y_now) = (host.clone_values(), host.clone_values());
                x.copy_to(&mut x_now).unwrap();
                y.copy_to(&mut y_now).unwrap();
                let verified = verify(a.view(), x_now.view(), y_now.view()).unwrap();
                assert!(verified.max_bound_ratio < 1000.0, "{words}: {verified:?} {:?}", product.faults());
                found += product.faults().len();
                let old = y_now.clone_values();
                product.apply_scaled(0.5, &x, -1.5, &mut y).unwrap();
                y.copy_to(&mut y_now).unwrap();
                let mut expected = old.clone_values();
                reference::csr_scaled(a.view(), scaling(0.5, -1.5), x_now.view(), &mut expected.view_mut())
                    .unwrap();
                for row in 0..a.rows() {
                    for (y, expected) in y_now.row(row).iter().zip(expected.row(row)) {
                        assert!(
                            (y - expected).abs() <= 1e-12 * (1.0 + expected.abs()),
                            "{words}: {y} {expected}"
                        );
                    }
                }
            }
        }
    }
    assert!(found > 4, "only {found} faults were found");
}

#[cfg(feature = "emulator")]
#[test]
fn the_first_product_of_a_plan_is_checked_and_later_ones_are_not() {
    let a = matrix("stencil5,n=9");
    let x = x_of(&a, 3);
    for (check, checked) in
        [(Check::First, [true, false]), (Check::Always, [true, true]), (Check::Never, [false, false])]
    {
        for devices in ["cpu", "emu:0", "cpu,emu:0"] {
            let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
            let mut product = runtime.product(&a).columns(3).uses(2).check(check).build().unwrap();
            for checked in checked {
                product.apply(&x).unwrap();
                let report = product.last_report().unwrap();
                assert_eq!(report.check_s.is_some(), checked, "{devices} {check:?}");
            }
        }
    }
}

#[cfg(feature = "emulator")]
#[test]
fn a_device_that_is_wrong_twice_is_not_used_again() {
    let a = matrix("stencil5,n=12");
    let mut excluded = 0;
    for seed in 0..24 {
        let devices = format!("cpu,emu:0?flip_bit_in_launch=1&stale_launch=2&fault_seed={seed}");
        let runtime = Runtime::builder().devices(devices.as_str()).threads(2).model("none").open().unwrap();
        let builder = runtime.product(&a).columns(4).uses(9).cpu_share(0.5).mode(Mode::Resident);
        let mut product = builder.check(Check::Always).build().unwrap();
        for seed in 0..4 {
            let x = MultiVector::random(a.cols(), 4, seed).unwrap();
            let y = product.apply(&x).unwrap();
            assert!(verify(a.view(), x.view(), y.view()).unwrap().passed);
        }
        let wrong = product.faults().iter().filter(|fault| fault.task.starts_with("check of")).count();
        let on_device = product.last_report().unwrap().computed().any(|of| of.device.0 != 0);
        assert_eq!(on_device, wrong < 2, "seed {seed}: {:?}", product.faults());
        excluded += usize::from(wrong >= 2);
    }
    assert!(excluded > 0, "no device was wrong twice");
}
