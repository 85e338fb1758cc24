#![allow(unsafe_code)] // runs kernels directly, as the device's compute lane does
//! Every CUDA kernel in the emulator: canonical kernels equal the reference bit for bit, the others are within the
//! rounding bound.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::entries::entry;
use super::launch::{Bound, BoundLaunch, BoundRange, Use};
use super::memory::Allocation;
use super::processor::Processor;
use crate::error::Error;
use crate::kernel::cuda::{CUDA_KERNELS, Constant, CudaKernel, Layout, Parameter, Variant};
use crate::kernel::order::{SEGMENT, SPAN};
use crate::kernel::scaling::factor_bits;
use crate::kernel::{KernelId, Order, reference, verify};
use crate::matrix::{AlignedBuffer, Csr, CsrView, MultiVector, Scalar, generate};
use crate::work::HeldRows;
use crate::work::pitch_bytes;
use crate::work::spmm::Storage;

fn memory_of<T: bytemuck::Pod>(values: &[T]) -> Arc<Allocation> {
    let memory = Allocation::new(size_of_val(values)).unwrap();
    // SAFETY: as long as the values, and not shared yet.
    unsafe { memory.write(0, bytemuck::cast_slice(values)) };
    Arc::new(memory)
}

pub(super) fn x_for<T: Scalar>(rows: usize, k: usize, leading: usize) -> MultiVector<T> {
    let mut x = MultiVector::zeros_with_leading_dimension(rows, k, leading).unwrap();
    for row in 0..rows {
        for (column, value) in x.view_mut().row_mut(row).iter_mut().enumerate() {
            *value = T::from_f64(((row * 31 + column * 17) % 101) as f64 / 7.0 - 6.0);
        }
    }
    x
}

pub(super) fn every_form<T: Scalar>(
    k: usize,
) -> impl Iterator<Item = (&'static CudaKernel, &'static Variant)> {
    // Of kernels with vector loads only the widest and the narrowest form; the others differ in constants only.
    let ends = |mut forms: Vec<&'static Variant>| {
        forms.dedup_by_key(|variant| variant.bytes * variant.lanes * variant.vectors);
        let narrowest = forms.pop();
        forms.truncate(1);
        forms.into_iter().chain(narrowest)
    };
    let forms = move |kernel: &'static CudaKernel| {
        let all: Vec<&Variant> = kernel.variants_for(T::DTYPE, k as u64).collect();
        if kernel.constants.contains(&Constant::Bytes) { ends(all).collect() } else { all }
    };
    CUDA_KERNELS
        .iter()
        .flat_map(move |kernel| forms(kernel).into_iter().map(move |variant| (kernel, variant)))
}

/// Rows `rows` of Y, computed by one launch; `None` if the kernel's format cannot store them.
pub(super) fn product<T: Scalar>(
    kernel: &CudaKernel,
    variant: &Variant,
    a: CsrView<'_, T>,
    rows: std::ops::Range<usize>,
    x: &MultiVector<T>,
) -> Option<MultiVector<T>> {
    product_with(kernel, variant, a, rows, x, u64::MAX)
}

/// The same with at most `most_heavy` heavy items.
fn product_with<T: Scalar>(
    kernel: &CudaKernel,
    variant: &Variant,
    a: CsrView<'_, T>,
    rows: std::ops::Range<usize>,
    x: &MultiVector<T>,
    most_heavy: u64,
) -> Option<MultiVector<T>> {
    scaled_product((kernel, variant), a, rows, x, most_heavy, (1.0, 0.0, None))
}

/// The same with the factors alpha and beta and, if beta is not zero, the old Y.
pub(super) fn scaled_product<T: Scalar>(
    (kernel, variant): (&CudaKernel, &Variant),
    a: CsrView<'_, T>,
    rows: std::ops::Range<usize>,
    x: &MultiVector<T>,
    most_heavy: u64,
    (alpha, beta, old): (f64, f64, Option<&MultiVector<T>>),
) -> Option<MultiVector<T>> {
    let (k, value_bytes) = (x.k(), size_of::<T>());
    let chunk = a.slice_rows(rows.clone());
    if kernel.layout == Layout::Pattern && a.nnz() > 0 && !a.has_equal_values() {
        return None;
    }
    let held = HeldRows::Whole { cols: a.cols() };
    let row_bytes = k * value_bytes;
    let pitch_bytes = pitch_bytes(row_bytes as u64) as usize;
    let mut storage = match Storage::of(kernel.layout, variant, chunk) {
        Err(Error::Usage(_))
            if matches!(kernel.layout, Layout::RowGroups | Layout::Slices | Layout::Hybrid) =>
        {
            return None;
        }
        storage => storage.unwrap(),
    };
    storage.heavy = storage.heavy.min(most_heavy);
    let mut bytes = AlignedBuffer::<u8>::zeroed(storage.bytes() as usize).unwrap();
    storage.write(chunk, &held, &mut bytes).unwrap();
    let slot = memory_of(&bytes[..]);
    // The leading dimension of X is unaligned if the kernel permits it; vector loads need alignment.
    let with_vectors = kernel.constants.contains(&Constant::Bytes);
    let ldx = match (kernel.transposes_x(), with_vectors) {
        (true, _) => a.cols() + k % 3,
        (false, true) => pitch_bytes / value_bytes,
        (false, false) => x.leading_dimension(),
    };
    let mut values = vec![T::ZERO; ldx * if kernel.transposes_x() { k } else { a.cols() }];
    if kernel.transposes_x() {
        held.copy_columns(x.view(), ldx, &mut values);
    } else {
        held.copy_rows(x.view(), 0..x.rows(), ldx, &mut values);
    }
    let x = memory_of(&values);
    let y = Arc::new(Allocation::new(rows.len() * pitch_bytes).unwrap());
    let set_y = |old: &MultiVector<T>| {
        for row in 0..rows.len() {
            // SAFETY: inside, and only this thread uses it. The padding between rows stays unwritten.
            unsafe { y.write(row * pitch_bytes, bytemuck::cast_slice(old.row(row))) };
        }
    };
    let scratch = Arc::new(Allocation::new(storage.scratch_rows as usize * pitch_bytes).unwrap());
    let arguments = kernel
        .parameters
        .iter()
        .map(|parameter| {
            let name = parameter.name();
            let using = match parameter {
                Parameter::Read(_) => Use::Read,
                Parameter::Result(_) if old.is_some() => Use::Update,
                Parameter::Write(_) | Parameter::Result(_) => Use::Write,
                Parameter::Modify(_) | Parameter::Update(_) => Use::Update,
                Parameter::Number(_) => {
                    return Bound::Number(match name {
                        "rows" => storage.rows,
                        "items" => storage.items,
                        "heavy" => storage.heavy,
                        "longest" => storage.grid_items().longest(),
                        "width" => storage.width,
                        "narrow" => storage.is_narrow().into(),
                        "k" => k as u64,
                        "ldx" => ldx as u64,
                        "ldy" => (pitch_bytes / value_bytes) as u64,
                        "alpha" => factor_bits(T::DTYPE, alpha),
                        "beta" => factor_bits(T::DTYPE, beta),
                        _ => storage.packed_number(name).unwrap_or_else(|| panic!("unknown number {name}")),
                    });
                }
            };
            let (memory, range) = match name {
                "x" | "x_transposed" => (&x, 0..x.bytes()),
                "y" => (&y, 0..y.bytes()),
                "scratch" => (&scratch, 0..scratch.bytes()),
                _ => {
                    let range = storage.array(name).unwrap_or_else(|| panic!("unknown array {name}"));
                    (&slot, range.start as usize..range.end as usize)
                }
            };
            Bound::Range(BoundRange { name, memory: memory.clone(), range, lead_bytes: 0, using })
        })
        .collect();
    let name = kernel.entry(T::DTYPE, variant);
    let shape = kernel.shape(variant, T::DTYPE, storage.grid_items(), k as u64).unwrap();
    let launch = BoundLaunch { name: name.clone(), entry: entry(&name).unwrap(), shape, arguments };
    let mut processor = Processor::new().unwrap();
    for _ in 0..2 {
        old.iter().for_each(|old| set_y(old));
        // SAFETY: the ranges are inside, only this thread uses them, and they match the parameters.
        unsafe { launch.run(&mut processor, &AtomicBool::new(false)) }.unwrap();
    }
    let mut left = vec![0u8; storage.bytes() as usize];
    // SAFETY: no write is in progress.
    unsafe { slot.read(0, &mut left) };
    assert!(left == bytes[..], "{name} changed its chunk of A");
    let mut result = MultiVector::zeros(rows.len(), k).unwrap();
    for row in 0..rows.len() {
        let (begin, end) = (row * pitch_bytes, row * pitch_bytes + row_bytes);
        assert_eq!(y.first_unwritten(begin..end), None, "{name} left a part of Y unwritten");
        let padding = (end..begin + pitch_bytes).all(|at| y.first_unwritten(at..at + 1).is_some());
        assert!(padding || with_vectors, "{name} wrote to the padding between rows of Y");
        // SAFETY: no write is in progress.
        unsafe { y.read(begin, bytemuck::cast_slice_mut(result.view_mut().row_mut(row))) };
    }
    Some(result)
}

fn check<T: Scalar>(a: &Csr<T>, k: usize, gap: usize, what: &str) {
    let x = x_for::<T>(a.cols(), k, k + gap);
    let mut expected = MultiVector::zeros(a.rows(), k).unwrap();
    reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
    let longest = (0..a.rows()).map(|row| a.view().row_length(row)).max().unwrap_or(0);
    for (kernel, variant) in every_form::<T>(k) {
        let Some(y) = product(kernel, variant, a.view(), 0..a.rows(), &x) else { continue };
        let name = kernel.entry(T::DTYPE, variant);
        let canonical = kernel.id.info().order == Order::Canonical
            || (kernel.id == KernelId::CsrScalarV1 && longest <= SEGMENT);
        if canonical {
            let same =
                bytemuck::cast_slice::<T, u8>(y.data()) == bytemuck::cast_slice::<T, u8>(expected.data());
            assert!(same, "{name} on {what}, k = {k}");
        }
        let verdict = verify(a.view(), x.view(), y.view()).unwrap();
        assert!(verdict.passed, "{name} on {what}, k = {k}: {verdict:?}");
    }
}

#[test]
fn every_kernel_computes_every_kind_of_matrix_in_both_precisions() {
    // Large K on the larger matrices would take minutes without testing anything new.
    let (narrow, all) = (&[1, 2, 3, 5, 8][..], &[1, 2, 3, 5, 8, 16, 31, 32, 64, 100][..]);
    for (spec, widths) in [
        ("empty,rows=40,cols=30", narrow),
        ("empty,rows=0,cols=0", all),
        ("holes,rows=24,degree=3", all),
        ("hub,rows=300,degree=2,hubs=1", narrow),
        ("uniform,rows=2,degree=700,cols=1000", all),
        ("uniform,rows=3,degree=128,cols=400", narrow),
        ("uniform,rows=3,degree=256,cols=400", narrow),
        ("uniform,rows=3,degree=2100,cols=5000", &[1, 8]),
        ("rmat,scale=5,degree=6", narrow),
    ] {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        for &k in widths {
            check(&a, k, k % 3, spec);
            check(&a.cast::<f32>().unwrap(), k, k % 2, spec);
        }
        check(&a, 0, 0, spec);
    }
}

/// Row lengths around the lane and segment sizes, in groups of four with large differences.
#[rustfmt::skip]
const AWKWARD_LENGTHS: [usize; 30] = [
    0, 1, 300, 2, 513, 255, 256, 257, 0, 0, 3, 0, 4, 5, 7, 8, 9, 15, 16, 17, 33, 512, 0, 770, 1, 260,
    SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT - 1,
];

/// Row lengths around the span size.
#[rustfmt::skip]
const SPAN_LENGTHS: [usize; 9] = [
    SPAN - SEGMENT, SPAN - 1, 3, SPAN, SPAN + 1, SPAN + SEGMENT, 0, 2 * SPAN, 2 * SPAN + SEGMENT + 3,
];

/// A number whose square underflows to zero, and a subnormal number.
const OF_F64: (f64, f64) = (1e-200, 3e-310);
const OF_F32: (f64, f64) = (1e-30, 3e-40);

/// A matrix with these row lengths and partly shared columns. Its values differ widely in size and include zeros of both
/// signs and subnormal numbers. All products of every fifth row underflow to negative zero.
fn awkward<T: Scalar>(lengths: &[usize], tiny: f64, subnormal: f64) -> Csr<T> {
    let (mut pointers, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for (row, &length) in lengths.iter().enumerate() {
        for at in 0..length {
            columns.push((at + row % 3 + at / 5) as u32);
            let value = match (row * 7 + at) % 11 {
                _ if row % 5 == 4 => -tiny,
                0 => 0.0,
                1 => -0.0,
                2 => subnormal,
                3 => -tiny,
                other => (other as f64 - 6.3) / 3.0,
            };
            values.push(T::from_f64(value));
        }
        pointers.push(values.len() as u64);
    }
    let cols = lengths.iter().max().map_or(0, |longest| longest + longest / 5 + 3);
    Csr::try_new(lengths.len(), cols, pointers, columns, values).unwrap()
}

/// The matrix for a kernel: with equal values where it reads only one.
pub(super) fn readable_by<T: Scalar>(kernel: &CudaKernel, a: &Csr<T>, value: f64) -> Csr<T> {
    if kernel.layout != Layout::Pattern {
        return a.clone();
    }
    let view = a.view();
    let values = vec![T::from_f64(value); a.nnz()];
    Csr::try_new(a.rows(), a.cols(), view.row_pointers().to_vec(), view.columns().to_vec(), values).unwrap()
}

fn check_awkward<T: Scalar>(lengths: &[usize], k: usize, (tiny, subnormal): (f64, f64)) {
    let a = awkward::<T>(lengths, tiny, subnormal);
    let x = MultiVector::from_fn(a.cols(), k, |row, k| {
        T::from_f64(match (row + k) % 7 {
            _ if k % 3 == 0 => tiny,
            0 => -0.0,
            1 => subnormal,
            other => (other as f64 - 3.4) / 1.7,
        })
    })
    .unwrap();
    let mut expected = MultiVector::zeros(a.rows(), k).unwrap();
    reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
    let minus_zero = |value: &T| value.to_f64() == 0.0 && value.to_f64().is_sign_negative();
    assert!(expected.data().iter().any(minus_zero), "k = {k}");
    for kernel in CUDA_KERNELS {
        let cuts_rows = [
            KernelId::CsrSegments,
            KernelId::CsrRuns,
            KernelId::CsrCuts,
            KernelId::CsrPattern,
            KernelId::CsrPacked,
            KernelId::RowGroups,
        ];
        if !cuts_rows.contains(&kernel.id) {
            continue;
        }
        let a = readable_by(kernel, &a, [1.0, -tiny, 2.3, subnormal, -0.0][k % 5]);
        let mut expected = MultiVector::zeros(a.rows(), k).unwrap();
        reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
        // Segments of split rows with and without a warp of their own, and warps without work.
        let heavy: &[u64] = if kernel.id == KernelId::CsrSegments { &[u64::MAX, 3, 0] } else { &[u64::MAX] };
        let forms = kernel.variants_for(T::DTYPE, k as u64);
        for (variant, &heavy) in forms.flat_map(|form| heavy.iter().map(move |heavy| (form, heavy))) {
            let y = product_with(kernel, variant, a.view(), 0..a.rows(), &x, heavy).unwrap();
            for row in 0..a.rows() {
                let (have, want) = (y.row(row), expected.row(row));
                let same = bytemuck::cast_slice::<T, u8>(have) == bytemuck::cast_slice::<T, u8>(want);
                let name = kernel.entry(T::DTYPE, variant);
                assert!(same, "{name}, k = {k}, row {row}: {have:?} for {want:?}");
            }
        }
    }
}

#[test]
fn canonical_kernels_equal_the_reference_for_rows_of_any_length_in_every_form() {
    for k in [1, 2, 3, 5, 8, 16, 31, 32, 64, 100, 128] {
        check_awkward::<f64>(&AWKWARD_LENGTHS, k, OF_F64);
        check_awkward::<f32>(&AWKWARD_LENGTHS, k, OF_F32);
    }
}

#[test]
fn canonical_kernels_equal_the_reference_for_rows_with_more_segments_than_a_warp_loads_at_once() {
    for k in [1, 8, 100] {
        check_awkward::<f64>(&SPAN_LENGTHS, k, OF_F64);
        check_awkward::<f32>(&SPAN_LENGTHS, k, OF_F32);
    }
    // Segment counts just below and above the limits between few and many spans.
    for (k, segments) in [(1, 70), (8, 64), (8, 20), (31, 65), (31, 10), (128, 6)] {
        let lengths = [SEGMENT * segments + 7, 0, 65, 64, SEGMENT * segments + 1];
        check_awkward::<f64>(&lengths, k, OF_F64);
        check_awkward::<f32>(&lengths, k, OF_F32);
    }
}

/// Rows for groups of lanes, and rows for the whole block in one round and in several.
const LONG_LENGTHS: [usize; 9] = [3, 9000, 0, 2048, 2049, 1, 5000, 17, 2600];

fn check_long<T: Scalar>(k: usize) {
    let entries = |length: usize| (0..length).map(|at| (at as u32, T::from_f64((at % 13) as f64 - 5.7)));
    let (columns, values): (Vec<u32>, Vec<T>) = LONG_LENGTHS.into_iter().flat_map(entries).unzip();
    let mut pointers = vec![0];
    pointers.extend(LONG_LENGTHS.iter().scan(0, |sum, &length| {
        *sum += length as u64;
        Some(*sum)
    }));
    let a = Csr::try_new(LONG_LENGTHS.len(), 9000, pointers, columns, values).unwrap();
    let x = x_for::<T>(a.cols(), k, k);
    let kernel = CudaKernel::of(KernelId::CsrWays).unwrap();
    for variant in kernel.variants_for(T::DTYPE, k as u64) {
        for rows in [0..a.rows(), 1..5] {
            let y = product(kernel, variant, a.view(), rows.clone(), &x).unwrap();
            let verdict = verify(a.view().slice_rows(rows.clone()), x.view(), y.view()).unwrap();
            assert!(verdict.passed, "{}, k = {k}, rows {rows:?}: {verdict:?}", kernel.variant_name(variant));
        }
    }
}

#[test]
fn rows_computed_by_a_whole_block_and_by_groups_of_lanes_are_both_correct() {
    for k in [1, 5, 33] {
        check_long::<f64>(k);
        check_long::<f32>(k);
    }
}

/// Short rows and some longer ones along the diagonal. One in `far_every` rows has a column far from the diagonal.
pub(super) fn short_rows<T: Scalar>(rows: usize, cols: usize, far_every: usize) -> Csr<T> {
    let (mut pointers, mut columns) = (vec![0], Vec::new());
    for row in 0..rows {
        let length = [2, 4, 0, 3, 1, 4, 4, 7][(row * 5 + row / 8) % 8];
        let mut own: Vec<u32> = (0..length).map(|at| (cols - 2 * rows + row + at * at / 2) as u32).collect();
        if let Some(last) = own.last_mut().filter(|_| row % far_every == 1) {
            *last = (row * 977 % cols) as u32;
        }
        own.sort_unstable();
        own.dedup();
        columns.extend(own);
        pointers.push(columns.len() as u64);
    }
    let values: Vec<T> = (0..columns.len()).map(|at| T::from_f64((at % 17) as f64 / 3.0 - 2.6)).collect();
    Csr::try_new(rows, cols, pointers, columns, values).unwrap()
}

fn check_short_rows<T: Scalar>(a: &Csr<T>, k: usize, narrow: bool) {
    let x = x_for::<T>(a.cols(), k, k);
    let kernel = CudaKernel::of(KernelId::Hybrid).unwrap();
    for variant in kernel.variants_for(T::DTYPE, k as u64) {
        for rows in [0..a.rows(), 37..a.rows() - 1] {
            let chunk = a.view().slice_rows(rows.clone());
            assert_eq!(Storage::of(kernel.layout, variant, chunk).unwrap().is_narrow(), narrow);
            let mut expected = MultiVector::zeros(rows.len(), k).unwrap();
            reference::csr(chunk, x.view(), &mut expected.view_mut()).unwrap();
            let y = product(kernel, variant, a.view(), rows.clone(), &x).unwrap();
            let same =
                bytemuck::cast_slice::<T, u8>(y.data()) == bytemuck::cast_slice::<T, u8>(expected.data());
            assert!(same, "{}, k = {k}, rows {rows:?}", kernel.entry(T::DTYPE, variant));
        }
    }
}

#[test]
fn short_rows_equal_the_reference_in_every_form_with_16_bit_and_32_bit_columns() {
    // 16-bit offsets reach all columns of the first matrix, most of the second, and too few of the third.
    for (cols, far_every, narrow, widths) in [
        (900, 1000, true, &[1, 2, 3, 5, 8, 16, 31, 32, 64, 100, 128, 300][..]),
        (140_000, 64, true, &[1, 4, 9]),
        (140_000, 3, false, &[1, 4, 9]),
    ] {
        for &k in widths {
            check_short_rows(&short_rows::<f64>(300, cols, far_every), k, narrow);
            check_short_rows(&short_rows::<f32>(300, cols, far_every), k, narrow);
        }
    }
}

#[test]
fn a_chunk_of_rows_gives_the_same_bits_as_the_whole_matrix() {
    let a = generate::<f64>("hub,rows=600,degree=3,hubs=2", 3, u64::MAX).unwrap().matrix;
    let x = x_for::<f64>(a.cols(), 5, 5);
    for (kernel, variant) in every_form::<f64>(5) {
        let a = readable_by(kernel, &a, -0.7);
        let Some(whole) = product(kernel, variant, a.view(), 0..a.rows(), &x) else { continue };
        let parts: Vec<f64> = [0..1, 1..250, 250..250, 250..600]
            .into_iter()
            .flat_map(|rows| product(kernel, variant, a.view(), rows, &x).unwrap().data().to_vec())
            .collect();
        let same = bytemuck::cast_slice::<f64, u64>(whole.data()) == bytemuck::cast_slice::<f64, u64>(&parts);
        // Not bit-identical: row blocks are formed per chunk and determine the summation order; ways group entries in fours
        // counted from the chunk's start.
        let name = kernel.variant_name(variant);
        let by_place = kernel.id.info().order == Order::Free && kernel.constants.contains(&Constant::Bytes);
        assert!(same || kernel.layout == Layout::RowBlocks || by_place, "{name}");
        let parts = MultiVector::from_fn(a.rows(), 5, |row, k| parts[row * 5 + k]).unwrap();
        assert!(verify(a.view(), x.view(), parts.view()).unwrap().passed, "{name}");
    }
}
