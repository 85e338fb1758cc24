//! Checks of a device's kernels on dense matrices: products and sums of columns equal the serial references bit for bit, and are within
//! the rounding bound of results in twice the precision.
//!
//! A back end runs them by calling [`dense_kernels_conform`] with a function that opens a device.

use super::vector_conformance::Subject;
use super::{Device, DeviceRows, EntryLaunch, LaneKind, MemoryRange, Operation, Reports};
use crate::kernel::colmean::reference::{self as column_reference, Moments};
use crate::kernel::colmean::{Totals, verify as verify_columns};
use crate::kernel::gemm::tests::{bits, matrix};
use crate::kernel::gemm::{reference, verify};
use crate::kernel::scaling::scaling;
use crate::kernel::{KernelId, KernelInfo, KindOfWork, colmean, gemm, kernels_for};
use crate::matrix::{MultiVector, Scalar};

/// Rows, columns and depth of a product, and the padding of A, B and C.
type Shape = ([usize; 3], [usize; 3]);

/// The kernels of a kind of work that devices launch by their entry points.
pub(crate) fn with_entry_points(work: KindOfWork) -> impl Iterator<Item = &'static KernelInfo> {
    let has_one = |info: &&KernelInfo| {
        gemm::entry_point(info.id).is_ok() || colmean::entry_point(info.id, false).is_ok()
    };
    kernels_for(work).filter(has_one)
}

/// Products with sizes of zero and one, and around those of tiles, with their factors.
fn products() -> impl Iterator<Item = (Shape, (f64, f64))> {
    let shapes: [Shape; 10] = [
        ([0, 3, 3], [0, 0, 0]),
        ([3, 0, 3], [0, 0, 0]),
        ([3, 3, 0], [0, 0, 0]),
        ([1, 1, 1], [0, 0, 0]),
        ([31, 32, 33], [0, 0, 0]),
        ([33, 31, 32], [1, 1, 1]),
        ([32, 33, 31], [3, 0, 3]),
        ([130, 5, 9], [3, 3, 1]),
        ([2, 140, 17], [1, 4, 0]),
        ([100, 70, 30], [2, 2, 2]),
    ];
    let factors = [(1.0, 1.0), (1.0, 0.0), (-0.7, 1.3)].into_iter().cycle();
    shapes.into_iter().zip(factors)
}

/// Checks the products of the vendor's library against products in twice the precision.
pub(crate) fn library_products_conform<'pool>(open: impl Fn(Reports) -> Box<dyn Device<'static> + 'pool>) {
    let mut subject = Subject::new(open);
    for (shape, factors) in products() {
        check_library::<f64>(&mut subject, shape, factors);
        check_library::<f32>(&mut subject, shape, factors);
    }
}

fn check_library<T: Scalar>(subject: &mut Subject<'_>, (shape, padding): Shape, (alpha, beta): (f64, f64)) {
    let [rows, columns, depth] = shape;
    let scaling = scaling::<T>(alpha, beta);
    let a = matrix::<T>(rows, depth, padding[0], 1);
    let b = matrix::<T>(depth, columns, padding[1], 2);
    let old = matrix::<T>(rows, columns, padding[2], 3);
    let (device_a, device_b) = (subject.rows(&a), subject.rows(&b));
    let c = if scaling.reads_old() { subject.rows(&old) } else { subject.rows_like(&old) };
    let product = Operation::gemm(KernelId::Cublas, (alpha, beta), device_a, device_b, c).unwrap();
    subject.run(LaneKind::Compute, product).unwrap();
    let found = subject.download::<T>(c);
    let found = MultiVector::from_fn(rows, columns, |row, column| found[row * columns + column]).unwrap();
    let all: Vec<usize> = (0..rows).collect();
    let result = verify(scaling, a.view(), b.view(), Some(old.view()), found.view(), &all).unwrap();
    assert!(result.passed, "{} {shape:?} {padding:?}: {result:?}", T::DTYPE);
}

/// Runs all checks.
pub(crate) fn dense_kernels_conform<'pool>(open: impl Fn(Reports) -> Box<dyn Device<'static> + 'pool>) {
    let mut subject = Subject::new(open);
    for (shape, factors) in products() {
        check_products::<f64>(&mut subject, shape, factors);
        check_products::<f32>(&mut subject, shape, factors);
    }
    check_negative_zero::<f64>(&mut subject);
    check_negative_zero::<f32>(&mut subject);
    check_factors_without_library::<f64>(&mut subject);
    check_factors_without_library::<f32>(&mut subject);
    for (rows, columns, padding, block_rows) in [
        (0, 3, 0, 64),
        (3, 0, 0, 64),
        (1, 1, 0, 64),
        (31, 33, 1, 64),
        (33, 31, 0, 64),
        (358, 5, 3, 64),
        (358, 328, 0, 64),
        (70, 130, 2, 64),
        (300, 9, 1, 256),
        (1000, 3, 0, 512),
    ] {
        check_sums::<f64>(&mut subject, (rows, columns, padding), block_rows);
        check_sums::<f32>(&mut subject, (rows, columns, padding), block_rows);
    }
}

/// An infinity times an alpha of zero is a NaN, also where cuBLAS was chosen, which reads nothing then.
fn check_factors_without_library<T: Scalar>(subject: &mut Subject<'_>) {
    let number = |value: f64| MultiVector::from_fn(1, 1, |_, _| T::from_f64(value)).unwrap();
    let (a, b) = (subject.rows(&number(1.0)), subject.rows(&number(f64::INFINITY)));
    for alpha in [0.0, -0.0, T::SMALLEST / 1e10, f64::NAN] {
        let c = subject.rows_like(&number(1.0));
        let product = Operation::gemm(KernelId::Cublas, (alpha, 0.0), a, b, c).unwrap();
        subject.run(LaneKind::Compute, product).unwrap();
        let found = subject.download::<T>(c)[0].to_f64();
        assert!(found.is_nan(), "{alpha}: {found}");
    }
}

/// A product that underflows to -0 is the whole sum: products of padding would make it +0.
fn check_negative_zero<T: Scalar>(subject: &mut Subject<'_>) {
    let number = |value: f64| MultiVector::from_fn(1, 1, |_, _| T::from_f64(value)).unwrap();
    let tiny = T::SMALLEST.sqrt() / 2.0;
    let (a, b) = (subject.rows(&number(-tiny)), subject.rows(&number(tiny)));
    for info in with_entry_points(KindOfWork::Gemm) {
        let c = subject.rows_like(&number(0.0));
        let launch = EntryLaunch::gemm(info.id, (1.0, 0.0), a, b, c).unwrap();
        subject.run(LaneKind::Compute, Operation::launch(launch)).unwrap();
        let found = subject.download::<T>(c)[0].to_f64();
        assert_eq!(found.to_bits(), (-0.0f64).to_bits(), "{} {}", info.name, T::DTYPE);
    }
}

fn check_products<T: Scalar>(subject: &mut Subject<'_>, (shape, padding): Shape, (alpha, beta): (f64, f64)) {
    let [rows, columns, depth] = shape;
    let scaling = scaling::<T>(alpha, beta);
    let a = matrix::<T>(rows, depth, padding[0], 1);
    let b = matrix::<T>(depth, columns, padding[1], 2);
    let old = matrix::<T>(rows, columns, padding[2], 3);
    let mut expected = matrix::<T>(rows, columns, padding[2], 3);
    reference::multiply(scaling, a.view(), b.view(), expected.view_mut()).unwrap();
    let (device_a, device_b) = (subject.rows(&a), subject.rows(&b));
    for info in with_entry_points(KindOfWork::Gemm) {
        let c = if scaling.reads_old() { subject.rows(&old) } else { subject.rows_like(&old) };
        let launch = EntryLaunch::gemm(info.id, (alpha, beta), device_a, device_b, c).unwrap();
        subject.run(LaneKind::Compute, Operation::launch(launch)).unwrap();
        let found = subject.download::<T>(c);
        let found = MultiVector::from_fn(rows, columns, |row, column| found[row * columns + column]).unwrap();
        assert_eq!(bits(&found), bits(&expected), "{} {} {shape:?} {padding:?}", info.name, T::DTYPE);
    }
    // All kernels have these bits.
    let all: Vec<usize> = (0..rows).collect();
    let result = verify(scaling, a.view(), b.view(), Some(old.view()), expected.view(), &all).unwrap();
    assert!(result.passed, "{shape:?}: {result:?}");
}

fn check_sums<T: Scalar>(
    subject: &mut Subject<'_>,
    (rows, columns, padding): (usize, usize, usize),
    block_rows: usize,
) {
    let x = matrix::<T>(rows, columns, padding, 5);
    let device_x = subject.rows(&x);
    let expected = column_reference::partial_sums(x.view(), block_rows);
    let of = |part: fn(&Moments<T>) -> T| -> Vec<u64> {
        expected.iter().map(|moments| part(moments).to_f64().to_bits()).collect()
    };
    let (expected_sums, expected_deviations) = (of(|moments| moments.sum), of(|moments| moments.deviations));
    for info in with_entry_points(KindOfWork::Colmean) {
        let bytes = expected.len() * size_of::<T>();
        let (sums, deviations) = (subject.memory(bytes), subject.memory(bytes));
        let mut downloaded = Vec::new();
        for wanted in [None, Some(deviations)] {
            let launch =
                EntryLaunch::column_sums(info.id, device_x, block_rows as u64, sums, wanted).unwrap();
            subject.run(LaneKind::Compute, Operation::launch(launch)).unwrap();
            for memory in [Some(sums), wanted].into_iter().flatten() {
                let count = expected.len() as u64;
                let numbers =
                    DeviceRows { memory, rows: 1, columns: count, leading_dimension: count, ..device_x };
                downloaded.push(subject.download::<T>(numbers));
            }
        }
        let what = format!("{} {} {rows} × {columns} in blocks of {block_rows}", info.name, T::DTYPE);
        let bits = |values: &[T]| values.iter().map(|value| value.to_f64().to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(&downloaded[0]), expected_sums, "{what}");
        assert_eq!(bits(&downloaded[1]), expected_sums, "{what} with deviations");
        assert_eq!(bits(&downloaded[2]), expected_deviations, "{what}, deviations");
    }
    let (sums, deviations): (Vec<T>, Vec<T>) =
        expected.iter().map(|moments| (moments.sum, moments.deviations)).unzip();
    let totals = Totals::merge(rows, columns, block_rows, &sums, Some(&deviations)).unwrap();
    let result = verify_columns(x.view(), &totals, true).unwrap();
    assert!(result.passed, "{rows} × {columns}: {result:?}");
    if rows > block_rows {
        let of_sums = Totals::merge(rows, columns, block_rows, &sums, None).unwrap();
        check_totals::<T>(subject, device_x, block_rows, (&of_sums, false));
        check_totals::<T>(subject, device_x, block_rows, (&totals, true));
    }
}

/// Adds up the partial results on the device and compares them with the host's, bit for bit.
fn check_totals<T: Scalar>(
    subject: &mut Subject<'_>,
    x: DeviceRows,
    block_rows: usize,
    (expected, deviations): (&Totals, bool),
) {
    let (rows, columns, block_rows) = (x.rows as usize, x.columns as usize, block_rows as u64);
    let part = x.rows.div_ceil(block_rows) * x.columns * size_of::<T>() as u64;
    let partials = subject.memory(part as usize * if deviations { 2 } else { 1 });
    let sums = MemoryRange { end: partials.begin + part, ..partials };
    let after = deviations.then_some(MemoryRange { begin: sums.end, ..partials });
    let launches = vec![
        EntryLaunch::column_sums(KernelId::ColmeanReduce, x, block_rows, sums, after).unwrap(),
        EntryLaunch::column_totals(T::DTYPE, (x.rows, x.columns), block_rows, deviations, partials).unwrap(),
    ];
    subject.run(LaneKind::Compute, Operation::EntryLaunches(launches)).unwrap();
    let count = partials.bytes() / size_of::<T>() as u64;
    let numbers = DeviceRows { memory: partials, rows: 1, columns: count, leading_dimension: count, ..x };
    let found = Totals::load(rows, columns, deviations, &subject.download::<T>(numbers)).unwrap();
    let bits = |totals: &Totals| -> Vec<[u64; 2]> {
        totals.columns().iter().map(|column| [column.sum.to_bits(), column.deviations.to_bits()]).collect()
    };
    assert_eq!(bits(&found), bits(expected), "{} {rows} × {columns} in blocks of {block_rows}", T::DTYPE);
}
