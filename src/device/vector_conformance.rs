//! Checks of a device's kernels on multivectors: they equal the CPU bodies bit for bit.
//!
//! A back end runs them by calling [`vectors_conform`] with a function that opens a device.

use std::ops::Range;
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use super::{
    Completion, Device, DeviceFactor, DeviceRows, Fault, Fence, HostTransfer, LaneKind, MemoryRange,
    Operation, PinnedRange, Reports, RowBytes, VectorLaunch,
};
use crate::graph::{Demand, DeviceId};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows::{self, Factor};
use crate::kernel::vectors::sums::{partial_results, sum};
use crate::kernel::vectors::{PartialResults, Sum, WEIGH_BLOCK_ROWS};
use crate::matrix::{Dtype, MultiVector, MultiVectorView, Scalar};

/// A device that runs one operation at a time.
pub(crate) struct Subject<'pool> {
    pub device: Box<dyn Device<'static> + 'pool>,
    completions: Receiver<Completion>,
}

/// The shape of a case: rows, columns of X and Y, and padding of their rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub rows: usize,
    pub columns: (usize, usize),
    pub padding: (usize, usize),
}

/// Runs all checks.
pub(crate) fn vectors_conform<'pool>(open: impl Fn(Reports) -> Box<dyn Device<'static> + 'pool>) {
    let mut subject = Subject::new(open);
    for (rows, columns, padding) in [
        (0, (3, 3), (0, 0)),
        (1, (1, 1), (0, 0)),
        (37, (3, 4), (1, 2)),
        (300, (8, 8), (0, 0)),
        (1030, (5, 2), (0, 1)),
        (129, (32, 32), (0, 4)),
        (70, (40, 33), (1, 3)),
        (4200, (1, 2), (0, 0)),
        (600, (12, 16), (4, 0)),
    ] {
        let case = Case { rows, columns, padding };
        check_case::<f64>(&mut subject, case);
        check_case::<f32>(&mut subject, case);
    }
    check_splits(&mut subject);
}

/// Checks every operation on multivectors of one shape.
pub(crate) fn check_case<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    row_wise_operations_equal_the_cpu::<T>(subject, case);
    listed_rows_are_copied::<T>(subject, case);
    products_with_a_small_matrix_equal_the_cpu::<T>(subject, case);
    partial_results_equal_the_cpu::<T>(subject, case);
    totals_equal_the_cpu::<T>(subject, case);
    weighted_sums_are_as_defined::<T>(subject, case);
}

impl<'pool> Subject<'pool> {
    pub fn new(open: impl Fn(Reports) -> Box<dyn Device<'static> + 'pool>) -> Self {
        let (sender, completions) = unbounded();
        Self { device: open(Reports::new(DeviceId(3), sender)), completions }
    }

    pub fn submit(&mut self, kind: LaneKind, operation: Operation<'static>) -> Result<Fence, Fault> {
        let lane = self.device.describe().lanes.iter().position(|lane| lane.kind == kind).unwrap();
        self.device.submit(lane, operation, Demand::default(), &[])
    }

    /// Runs an operation to its end.
    pub fn run(&mut self, kind: LaneKind, operation: Operation<'static>) -> Result<(), Fault> {
        self.timed(kind, operation).map(drop)
    }

    /// Runs an operation to its end; the seconds that it took.
    pub fn timed(&mut self, kind: LaneKind, operation: Operation<'static>) -> Result<f64, Fault> {
        self.submit(kind, operation)?;
        let completion = self.completions.recv_timeout(Duration::from_secs(120)).expect("no completion");
        self.device.mark_synchronized();
        completion.result.map(|()| (completion.end_ns - completion.start_ns) as f64 * 1e-9)
    }

    pub fn launch(&mut self, launch: crate::error::Result<VectorLaunch>) -> Result<(), Fault> {
        self.run(LaneKind::Compute, Operation::VectorLaunch(launch.unwrap()))
    }

    pub fn memory(&mut self, bytes: usize) -> MemoryRange {
        let memory = self.device.allocate(bytes as u64).unwrap();
        MemoryRange { memory, begin: 0, end: bytes as u64 }
    }

    pub fn upload<T: bytemuck::Pod>(&mut self, values: &[T]) -> MemoryRange {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let to = self.memory(bytes.len());
        let pinned = self.device.allocate_pinned(bytes.len() as u64).unwrap();
        pinned.write().unwrap().copy_from_slice(bytes);
        let from = PinnedRange { begin: 0, end: to.end, pinned };
        self.run(LaneKind::Upload, Operation::upload(from, to)).unwrap();
        to
    }

    pub fn rows<T: Scalar>(&mut self, from: &MultiVector<T>) -> DeviceRows {
        DeviceRows { memory: self.upload(from.data()), ..unwritten::<T>(from) }
    }

    /// Memory for a multivector of this shape, not written yet.
    pub fn rows_like<T: Scalar>(&mut self, from: &MultiVector<T>) -> DeviceRows {
        DeviceRows { memory: self.memory(size_of_val(from.data())), ..unwritten::<T>(from) }
    }

    /// The elements of the rows, without padding.
    pub fn download<T: Scalar>(&mut self, from: DeviceRows) -> Vec<T> {
        let size = size_of::<T>() as u64;
        let bytes = from.rows * from.columns * size;
        let mut values = vec![T::ZERO; (from.rows * from.columns) as usize];
        if bytes > 0 {
            let pinned = self.device.allocate_pinned(bytes).unwrap();
            let rows = RowBytes {
                bytes: from.columns * size,
                pitch_bytes: from.leading_dimension * size,
                host_pitch_bytes: from.columns * size,
            };
            let host = PinnedRange { pinned: pinned.clone(), begin: 0, end: bytes };
            let transfer = HostTransfer { host, device: from.memory, rows };
            self.run(LaneKind::Download, Operation::Download(transfer)).unwrap();
            bytemuck::cast_slice_mut(&mut values).copy_from_slice(&pinned.read().unwrap());
        }
        values
    }

    fn check<T: Scalar>(&mut self, what: &str, found: DeviceRows, expected: &MultiVector<T>) {
        let found = self.download::<T>(found);
        let expected: Vec<T> = (0..expected.rows()).flat_map(|row| expected.row(row).to_vec()).collect();
        assert_eq!(bits(&found), bits(&expected), "{what}");
    }
}

fn unwritten<T: Scalar>(like: &MultiVector<T>) -> DeviceRows {
    DeviceRows {
        dtype: T::DTYPE,
        memory: MemoryRange { memory: super::Memory(0), begin: 0, end: 0 },
        rows: like.rows() as u64,
        columns: like.k() as u64,
        leading_dimension: like.leading_dimension() as u64,
    }
}

fn bits<T: Scalar>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.to_f64().to_bits()).collect()
}

/// Reproducible values of both signs and different magnitudes, in the padding too.
pub(crate) fn values<T: Scalar>(rows: usize, k: usize, padding: usize, seed: usize) -> MultiVector<T> {
    let mut result = MultiVector::zeros_with_leading_dimension(rows, k, k + padding).unwrap();
    for (at, value) in result.data_mut().iter_mut().enumerate() {
        let mixed = (at + 1).wrapping_mul(0x9e37_79b9 + seed) % 1009;
        *value = T::from_f64((mixed as f64 - 504.0) / 37.0 * f64::from(1 << (mixed % 7)));
    }
    result
}

fn row_wise_operations_equal_the_cpu<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    let Case { rows, columns: (k, _), padding } = case;
    let (x, old) = (values::<T>(rows, k, padding.0, 1), values::<T>(rows, k, padding.1, 2));
    let again = || values::<T>(rows, k, padding.1, 2);
    let factors = values::<T>(2, k, 0, 3);
    let (alphas, betas) = (Factor::Columns(factors.row(0)), Factor::Columns(factors.row(1)));
    let (alpha, beta) = (T::from_f64(1.25), T::from_f64(-0.3));
    let numbers: [DeviceFactor; 2] = [alpha.to_f64().into(), beta.to_f64().into()];
    let device_x = subject.rows(&x);
    let arrays = [0, 1].map(|row| subject.upload(factors.row(row)));
    let columns = arrays.map(DeviceFactor::columns);
    // A number, times an array, over another one.
    let quotient = DeviceFactor { number: -2.5, multiplied: Some(arrays[0]), divisors: Some(arrays[1]) };
    let quotients = [quotient, DeviceFactor { number: 1.0, multiplied: None, ..quotient }];
    let rounded = |number: f64| T::from_f64(number).to_f64();
    let of_columns = |number: f64, row: Option<usize>| -> Vec<T> {
        let multiplied = |column: usize| match row {
            Some(row) => rounded(number * factors.row(row)[column].to_f64()),
            None => number,
        };
        (0..k).map(|column| T::from_f64(multiplied(column) / factors.row(1)[column].to_f64())).collect()
    };
    let (alpha_quotients, beta_quotients) = (of_columns(-2.5, Some(0)), of_columns(1.0, None));
    let (alpha_quotients, beta_quotients) =
        (Factor::Columns(&alpha_quotients), Factor::Columns(&beta_quotients));

    let (y, mut expected) = (subject.rows_like(&old), again());
    subject.launch(VectorLaunch::fill(-2.5, y)).unwrap();
    rows::fill(T::from_f64(-2.5), expected.view_mut());
    subject.check(&format!("fill {case:?}"), y, &expected);

    let y = subject.rows_like(&old);
    subject.launch(VectorLaunch::copy(device_x, y)).unwrap();
    rows::copy(x.view(), expected.view_mut()).unwrap();
    subject.check(&format!("copy {case:?}"), y, &expected);

    for ([on_device, _], on_host) in
        [(numbers, Factor::All(alpha)), (columns, alphas), (quotients, alpha_quotients)]
    {
        let y = subject.rows_like(&old);
        subject.launch(VectorLaunch::scaled(on_device, device_x, y)).unwrap();
        rows::scaled(on_host, x.view(), expected.view_mut()).unwrap();
        subject.check(&format!("scaled {case:?}"), y, &expected);

        let (y, mut expected) = (subject.rows(&old), again());
        subject.launch(VectorLaunch::scale(on_device, y)).unwrap();
        rows::scale(on_host, expected.view_mut()).unwrap();
        subject.check(&format!("scale {case:?}"), y, &expected);
    }
    for ([by_x, by_y], alpha, beta) in [
        (numbers, Factor::All(alpha), Factor::All(beta)),
        (columns, alphas, betas),
        (quotients, alpha_quotients, beta_quotients),
    ] {
        let (y, mut expected) = (subject.rows(&old), again());
        subject.launch(VectorLaunch::axpby(by_x, device_x, by_y, y)).unwrap();
        rows::axpby(alpha, x.view(), beta, expected.view_mut()).unwrap();
        subject.check(&format!("axpby {case:?}"), y, &expected);
    }
    // Without a beta, Y need not be written.
    let (y, mut expected) = (subject.rows_like(&old), again());
    subject.launch(VectorLaunch::axpby(alpha.to_f64().into(), device_x, 0.0.into(), y)).unwrap();
    rows::scaled(Factor::All(alpha), x.view(), expected.view_mut()).unwrap();
    subject.check(&format!("axpby with beta 0 {case:?}"), y, &expected);
}

fn listed_rows_are_copied<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    let Case { rows, columns: (k, _), padding } = case;
    let x = values::<T>(rows, k, padding.0, 1);
    let list: Vec<u32> = (0..rows as u32).rev().step_by(3).collect();
    let mut packed = values::<T>(list.len(), k, 0, 4);
    let (device_x, device_list) = (subject.rows(&x), subject.upload(&list));
    let device_packed = subject.rows_like(&packed);
    subject.launch(VectorLaunch::gather_rows(device_list, device_x, device_packed)).unwrap();
    rows::gather_rows(&list, x.view(), packed.view_mut()).unwrap();
    subject.check(&format!("gather {case:?}"), device_packed, &packed);

    let mut y = values::<T>(rows, k, padding.1, 5);
    let device_y = subject.rows(&y);
    subject.launch(VectorLaunch::scatter_rows(device_list, device_packed, device_y)).unwrap();
    rows::scatter_rows(&list, packed.view(), y.view_mut()).unwrap();
    subject.check(&format!("scatter {case:?}"), device_y, &y);
}

fn products_with_a_small_matrix_equal_the_cpu<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    let Case { rows, columns: (k, k2), padding } = case;
    let (x, small) = (values::<T>(rows, k, padding.0, 1), values::<T>(k, k2, padding.1, 2));
    let old = values::<T>(rows, k2, padding.1, 3);
    let (device_x, device_small) = (subject.rows(&x), subject.rows(&small));
    for beta in [None, Some(T::from_f64(0.75))] {
        let y = if beta.is_some() { subject.rows(&old) } else { subject.rows_like(&old) };
        let factor = beta.map_or(0.0, T::to_f64);
        subject.launch(VectorLaunch::times(device_x, device_small, factor, y)).unwrap();
        let mut expected = values::<T>(rows, k2, padding.1, 3);
        rows::times(x.view(), small.view(), beta, expected.view_mut()).unwrap();
        subject.check(&format!("times {case:?}, beta {beta:?}"), y, &expected);
    }
}

fn partial_results_equal_the_cpu<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    let Case { rows, columns: (k, k2), padding } = case;
    let x = values::<T>(rows, k, padding.0, 1);
    for which in [Sum::Dot, Sum::Gram] {
        let y = values::<T>(rows, if which == Sum::Dot { k } else { k2 }, padding.1, 2);
        let (device_x, device_y) = (subject.rows(&x), subject.rows(&y));
        let found = device_partials::<T>(subject, which, device_x, device_y);
        let mut expected = vec![T::ZERO; found.len()];
        partial_results(which, x.view(), y.view(), &mut expected).unwrap();
        assert_eq!(bits(&found), bits(&expected), "{which:?} {case:?}");
    }
}

/// The products of columns and their square roots have the bits of the host's, and the counter is zero afterwards.
fn totals_equal_the_cpu<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    let Case { rows, columns: (k, _), padding } = case;
    if rows == 0 {
        return;
    }
    let (x, y) = (values::<T>(rows, k, padding.0, 1), values::<T>(rows, k, padding.1, 2));
    let (device_x, device_y) = (subject.rows(&x), subject.rows(&y));
    let memory = subject.memory(rows.div_ceil(Sum::Dot.block_rows() as usize) * k * size_of::<T>());
    let (ended, totals) = (subject.upload(&[0u32]), subject.memory(k * size_of::<T>()));
    let found =
        DeviceRows { memory: totals, rows: 1, columns: k as u64, leading_dimension: k as u64, ..device_x };
    let expected = |y: &MultiVector<T>| sum(Sum::Dot, x.view(), y.view()).unwrap();
    subject.launch(VectorLaunch::dot_total(device_x, device_y, memory, (ended, totals), false)).unwrap();
    assert_eq!(bits(&subject.download::<T>(found)), bits(&expected(&y)), "totals {case:?}");
    subject.launch(VectorLaunch::dot_total(device_x, device_x, memory, (ended, totals), true)).unwrap();
    let roots: Vec<T> = expected(&x).iter().map(|square| T::from_f64(square.to_f64().sqrt())).collect();
    assert_eq!(bits(&subject.download::<T>(found)), bits(&roots), "roots {case:?}");
}

/// Small integers, whose sums are exact in any order.
fn weighted_sums_are_as_defined<T: Kernels>(subject: &mut Subject<'_>, case: Case) {
    let Case { rows, columns: (_, k), padding } = case;
    if rows == 0 {
        return;
    }
    let mut y = values::<T>(rows, k, padding.1, 2);
    let element = |row: usize, column: usize| ((7 * row + 13 * column) % 41) as f64 - 20.0;
    for row in 0..rows {
        let of_row = y.row_mut(row).iter_mut().enumerate();
        of_row.for_each(|(column, value)| *value = T::from_f64(element(row, column)));
    }
    let weights = |row: usize| [(5 * row % 17) as f64 - 8.0, (1 + row % 3) as f64];
    let uploaded = subject.upload(&(0..rows).flat_map(weights).collect::<Vec<f64>>());
    let (blocks, columns) = (rows.div_ceil(WEIGH_BLOCK_ROWS), 2 * k);
    let memory = subject.memory(blocks * columns * size_of::<f64>());
    let device_y = subject.rows(&y);
    subject.launch(VectorLaunch::weigh(uploaded, device_y, memory)).unwrap();
    let (dtype, leading_dimension) = (Dtype::F64, columns as u64);
    let partials =
        DeviceRows { dtype, memory, rows: blocks as u64, columns: leading_dimension, leading_dimension };
    let mut expected = vec![0.0; blocks * columns];
    for (row, column) in (0..rows).flat_map(|row| (0..k).map(move |column| (row, column))) {
        let ([weight, of_square], value) = (weights(row), element(row, column));
        let block = &mut expected[row / WEIGH_BLOCK_ROWS * columns..][..columns];
        block[column] += weight * value;
        block[k + column] += (of_square * value) * (of_square * value);
    }
    assert_eq!(subject.download::<f64>(partials), expected, "weighted sums {case:?}");
}

fn device_partials<T: Kernels>(
    subject: &mut Subject<'_>,
    which: Sum,
    x: DeviceRows,
    y: DeviceRows,
) -> Vec<T> {
    let length = which.length(x.columns, y.columns);
    let blocks = x.rows.div_ceil(which.block_rows());
    let memory = subject.memory((blocks * length) as usize * size_of::<T>());
    let launch = match which {
        Sum::Dot => VectorLaunch::dot(x, y, memory),
        Sum::Gram => VectorLaunch::gram(x, y, memory),
    };
    subject.launch(launch).unwrap();
    let partials = DeviceRows { memory, rows: blocks, columns: length, leading_dimension: length, ..x };
    subject.download(partials)
}

fn part<'a>(of: &'a MultiVector<f64>, rows: &Range<u64>) -> MultiVectorView<'a, f64> {
    of.view().rows_in(rows.start as usize..rows.end as usize)
}

/// Any split of the rows over devices gives the bits of the sum on the host.
fn check_splits(subject: &mut Subject<'_>) {
    let rows = 9000;
    let (x, y) = (values::<f64>(rows, 3, 1, 1), values::<f64>(rows, 3, 0, 2));
    let (device_x, device_y) = (subject.rows(&x), subject.rows(&y));
    for which in [Sum::Dot, Sum::Gram] {
        let whole = sum(which, x.view(), y.view()).unwrap();
        for cuts in [&[][..], &[4096], &[100, 5000], &[1024, 1030, 8192]] {
            let mut results = PartialResults::new(which, rows, (3, 3));
            let begins = std::iter::once(0).chain(cuts.iter().copied());
            let ends = cuts.iter().copied().chain(std::iter::once(rows as u64));
            for (begin, end) in begins.zip(ends) {
                let owned = which.owned(begin..end, rows as u64);
                results.add_rows(part(&x, &owned.head), part(&y, &owned.head)).unwrap();
                let (device_x, device_y) =
                    (device_x.rows_in(owned.rows.clone()), device_y.rows_in(owned.rows.clone()));
                let partials = device_partials::<f64>(subject, which, device_x, device_y);
                results.add_blocks((owned.rows.end - owned.rows.start) as usize, &partials).unwrap();
                results.add_rows(part(&x, &owned.tail), part(&y, &owned.tail)).unwrap();
            }
            assert_eq!(bits(&results.finish().unwrap()), bits(&whole), "{which:?} {cuts:?}");
        }
    }
}
