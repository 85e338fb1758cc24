//! Eigenvalue solvers on vectors: they find known eigenvalues, with the same bits on any devices.

use std::f64::consts::PI;

use rowloom::internal::matrix::{Csr, Scalar, generate};
use rowloom::solver::{
    PowerSettings, SolverReport, SpectrumEnd, SubspaceSettings, power_iteration, start_vectors,
    subspace_iteration,
};
use rowloom::{Product, Runtime};

const DEVICES: [&str; 4] = ["cpu", "emu:0", "cpu,emu:0", "emu:0,emu:1"];

const POWER: PowerSettings = PowerSettings::new(3).tolerance(1e-7).iterations(2000);

const SUBSPACE: SubspaceSettings = subspace(SpectrumEnd::Smallest);

const fn subspace(end: SpectrumEnd) -> SubspaceSettings {
    SubspaceSettings::new(end, 4).degree(12).tolerance(1e-10).iterations(60)
}

/// The five-point Laplacian of an n x n grid.
fn laplacian<T: Scalar>(n: usize) -> Csr<T> {
    let stencil = generate::<T>(&format!("stencil5,n={n}"), 1, u64::MAX).unwrap().matrix;
    let pattern = stencil.view();
    let mut values = Vec::new();
    for row in 0..pattern.rows() {
        let of = |&column: &u32| if column as usize == row { 4.0 } else { -1.0 };
        values.extend(pattern.row(row).0.iter().map(of).map(T::from_f64));
    }
    let (pointers, columns) = (pattern.row_pointers().to_vec(), pattern.columns().to_vec());
    Csr::try_new(pattern.rows(), pattern.cols(), pointers, columns, values).unwrap()
}

/// All eigenvalues of the Laplacian, ascending.
fn eigenvalues(n: usize) -> Vec<f64> {
    let line = |i: usize| 2.0 - 2.0 * (i as f64 * PI / (n + 1) as f64).cos();
    let mut all: Vec<f64> = (0..n * n).map(|place| line(place / n + 1) + line(place % n + 1)).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn product<'a>(devices: &str, a: &'a Csr<f64>, k: usize) -> Product<'a, f64> {
    let runtime = Runtime::builder().devices(devices).threads(2).model("none").open().unwrap();
    runtime.product(a).columns(k).uses(10).reproducible(true).build().unwrap()
}

fn bits(report: &SolverReport) -> Vec<u64> {
    report.eigenvalues.iter().chain(&report.residuals).map(|value| value.to_bits()).collect()
}

fn assert_near(report: &SolverReport, known: impl Iterator<Item = f64>, error: f64) {
    assert!(report.converged, "{report:?}");
    for (found, known) in report.eigenvalues.iter().zip(known) {
        assert!((found - known).abs() < error, "{found}, not {known}");
    }
}

#[test]
fn power_iteration_finds_the_largest_eigenvalues_of_a_laplacian() {
    let a = laplacian(8);
    let mut product = product("cpu", &a, 8);
    let mut x = start_vectors(&mut product).unwrap();
    let report = power_iteration(&mut product, &mut x, &POWER).unwrap();
    assert_near(&report, eigenvalues(8).into_iter().rev(), 1e-11);
    assert_eq!(report.products, report.iterations);
    assert!(report.product_s > 0.0 && report.product_s + report.vector_s <= report.total_s * 1.001);
}

#[test]
fn subspace_iteration_finds_both_ends_of_the_spectrum_of_a_laplacian() {
    let a = laplacian(12);
    let mut product = product("cpu", &a, 8);
    for end in [SpectrumEnd::Smallest, SpectrumEnd::Largest] {
        let mut x = start_vectors(&mut product).unwrap();
        let report = subspace_iteration(&mut product, &mut x, &subspace(end)).unwrap();
        match end {
            SpectrumEnd::Smallest => assert_near(&report, eigenvalues(12).into_iter(), 1e-12),
            SpectrumEnd::Largest => assert_near(&report, eigenvalues(12).into_iter().rev(), 1e-12),
        }
        assert_eq!(report.products, report.iterations * SUBSPACE.degree + 1);
    }
}

#[test]
fn ritz_vectors_are_orthonormal_eigenvectors() {
    let a = laplacian(10);
    let mut product = product("cpu,emu:0", &a, 6);
    let mut x = start_vectors(&mut product).unwrap();
    let report = subspace_iteration(&mut product, &mut x, &SUBSPACE).unwrap();
    let gram = x.gram(&x).unwrap();
    for row in 0..6 {
        for column in 0..6 {
            assert!((gram.row(row)[column] - f64::from(row == column)).abs() < 1e-13);
        }
    }
    let mut y = product.vectors().unwrap();
    product.apply_into(&x, &mut y).unwrap();
    let ritz = x.dot(&y).unwrap();
    for (found, value) in ritz.iter().zip(&report.eigenvalues) {
        assert!((found - value).abs() < 1e-12, "{found}, not {value}");
    }
}

#[test]
fn solvers_have_the_same_bits_on_any_devices() {
    let a = laplacian(9);
    let solve = |devices: &str| {
        let mut product = product(devices, &a, 5);
        let mut x = start_vectors(&mut product).unwrap();
        let settings = PowerSettings::new(5).tolerance(0.0).iterations(12);
        let power = power_iteration(&mut product, &mut x, &settings).unwrap();
        let mut x = start_vectors(&mut product).unwrap();
        let settings = SUBSPACE.tolerance(0.0).iterations(2);
        let subspace = subspace_iteration(&mut product, &mut x, &settings).unwrap();
        assert_eq!((power.iterations, subspace.iterations), (12, 2));
        [bits(&power), bits(&subspace)].concat()
    };
    let want = solve("cpu");
    for devices in DEVICES {
        assert_eq!(solve(devices), want, "{devices}");
    }
}

#[test]
fn single_precision_converges_to_its_accuracy() {
    let a = laplacian::<f32>(10);
    let runtime = Runtime::builder().devices("cpu").threads(2).model("none").open().unwrap();
    let mut product = runtime.product(&a).columns(8).build().unwrap();
    let mut x = start_vectors(&mut product).unwrap();
    let settings = SUBSPACE.tolerance(1e-5);
    let report = subspace_iteration(&mut product, &mut x, &settings).unwrap();
    assert_near(&report, eigenvalues(10).into_iter(), 1e-4);
}

#[test]
fn matrices_without_so_many_eigenvalues_are_usage_errors() {
    let rectangular = generate::<f64>("uniform,rows=30,degree=4,cols=20", 1, u64::MAX).unwrap().matrix;
    let small = laplacian(2);
    for (a, k, wanted) in [(&rectangular, 4, 3), (&small, 5, 3), (&small, 2, 3)] {
        let mut product = product("cpu", a, k);
        let mut x = product.vectors().unwrap();
        let settings = PowerSettings::new(wanted);
        assert_eq!(power_iteration(&mut product, &mut x, &settings).unwrap_err().exit_code(), 2);
    }
    // Start vectors of zeros are dependent.
    let mut product = product("cpu", &small, 2);
    let mut x = product.vectors().unwrap();
    let settings = PowerSettings::new(1);
    assert_eq!(power_iteration(&mut product, &mut x, &settings).unwrap_err().exit_code(), 2);
}
