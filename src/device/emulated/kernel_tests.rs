#![allow(unsafe_code)] // Runs kernels directly, as the device's compute lane does.
//! Every kernel for CUDA devices, run by the emulator: canonical ones are bit for bit the reference, the others within
//! the rounding bound.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::entries::entry;
use super::launch::{Bound, BoundLaunch, BoundRange, Use};
use super::memory::Allocation;
use super::processor::Processor;
use crate::kernel::cuda::{CUDA_KERNELS, CudaKernel, Parameter, Variant};
use crate::kernel::{Format, KernelId, Order, reference, verify};
use crate::matrix::convert::csr_to_ell_padded;
use crate::matrix::{Csr, CsrView, MultiVector, Scalar, generate};

fn memory_of<T: bytemuck::Pod>(values: &[T]) -> Arc<Allocation> {
    let memory = Allocation::new(size_of_val(values)).unwrap();
    // SAFETY: as long as the values, and nobody else knows it yet.
    unsafe { memory.write(0, bytemuck::cast_slice(values)) };
    Arc::new(memory)
}

fn x_for<T: Scalar>(rows: usize, k: usize, leading: usize) -> MultiVector<T> {
    let mut x = MultiVector::zeros_with_leading_dimension(rows, k, leading).unwrap();
    for row in 0..rows {
        for (column, value) in x.view_mut().row_mut(row).iter_mut().enumerate() {
            *value = T::from_f64(((row * 31 + column * 17) % 101) as f64 / 7.0 - 6.0);
        }
    }
    x
}

fn every_form() -> impl Iterator<Item = (&'static CudaKernel, &'static Variant)> {
    CUDA_KERNELS.iter().flat_map(|kernel| kernel.variants.iter().map(move |variant| (kernel, variant)))
}

/// `rows` of Y, computed by one launch.
fn product<T: Scalar>(
    kernel: &CudaKernel,
    variant: &Variant,
    a: CsrView<'_, T>,
    rows: std::ops::Range<usize>,
    x: &MultiVector<T>,
) -> MultiVector<T> {
    let k = x.k();
    let ldx = x.leading_dimension();
    let pointers = &a.row_pointers()[rows.start..=rows.end];
    let nonzeros = pointers[0] as usize..pointers[rows.len()] as usize;
    let chunk = Csr::try_new(
        rows.len(),
        a.cols(),
        pointers.iter().map(|pointer| pointer - pointers[0]).collect::<Vec<_>>(),
        a.columns()[nonzeros.clone()].to_vec(),
        a.values()[nonzeros.clone()].to_vec(),
    )
    .unwrap();
    let padded = csr_to_ell_padded(&chunk.view(), u64::MAX).unwrap();
    let (columns, values) = match kernel.id.info().format {
        Format::Csr => (memory_of(chunk.view().columns()), memory_of(chunk.view().values())),
        _ => (memory_of(padded.columns()), memory_of(padded.values())),
    };
    let y = Arc::new(Allocation::new(rows.len() * k * size_of::<T>()).unwrap());
    let arguments = kernel
        .parameters
        .iter()
        .map(|parameter| {
            let range = |memory: &Arc<Allocation>, using| {
                let (name, memory, range) = (parameter.name(), memory.clone(), 0..memory.bytes());
                Bound::Range(BoundRange { name, memory, range, using })
            };
            match parameter {
                Parameter::Number("rows") => Bound::Number(rows.len() as u64),
                Parameter::Number("k" | "ldy") => Bound::Number(k as u64),
                Parameter::Number("ldx") => Bound::Number(ldx as u64),
                Parameter::Number("width") => Bound::Number(padded.width() as u64),
                Parameter::Read("row_pointers") => range(&memory_of(pointers), Use::Read),
                Parameter::Read("columns") => range(&columns, Use::Read),
                Parameter::Read("values") => range(&values, Use::Read),
                Parameter::Read("x") => range(&memory_of(x.data()), Use::Read),
                Parameter::Write("y") => range(&y, Use::Write),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let name = kernel.entry(T::DTYPE, variant);
    let shape = kernel.shape(variant, T::DTYPE, rows.len() as u64, k as u64).unwrap();
    let launch = BoundLaunch { name: name.clone(), entry: entry(&name).unwrap(), shape, arguments };
    // SAFETY: the ranges lie inside, this thread alone uses them, and they are what the parameters want.
    unsafe { launch.run(&mut Processor::new().unwrap(), &AtomicBool::new(false)) }.unwrap();
    assert_eq!(y.first_unwritten(0..y.bytes()), None, "{name} leaves a part of Y unwritten");
    let mut result = MultiVector::zeros(rows.len(), k).unwrap();
    // SAFETY: nobody writes it now.
    unsafe { y.read(0, bytemuck::cast_slice_mut(result.data_mut())) };
    result
}

fn check<T: Scalar>(a: &Csr<T>, k: usize, gap: usize, what: &str) {
    let x = x_for::<T>(a.cols(), k, k + gap);
    let mut expected = MultiVector::zeros(a.rows(), k).unwrap();
    reference::csr(a.view(), x.view(), &mut expected.view_mut()).unwrap();
    let longest = (0..a.rows()).map(|row| a.view().row_length(row)).max().unwrap_or(0);
    for (kernel, variant) in every_form() {
        let y = product(kernel, variant, a.view(), 0..a.rows(), &x);
        let name = kernel.entry(T::DTYPE, variant);
        let canonical = kernel.id.info().order == Order::Canonical
            || (kernel.id == KernelId::CsrScalarV1 && longest <= crate::kernel::order::SEGMENT);
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
    for spec in [
        "empty,rows=40,cols=30",
        "empty,rows=0,cols=0",
        "holes,rows=60,degree=3",
        "hub,rows=300,degree=2,hubs=1",
        "uniform,rows=2,degree=700,cols=1000",
        "uniform,rows=3,degree=256,cols=400",
        "rmat,scale=5,degree=6",
    ] {
        let a = generate::<f64>(spec, 7, u64::MAX).unwrap().matrix;
        for k in [1, 2, 3, 5, 8, 32, 33] {
            check(&a, k, k % 3, spec);
            check(&a.cast::<f32>().unwrap(), k, k % 2, spec);
        }
        check(&a, 0, 0, spec);
    }
}

#[test]
fn a_chunk_of_rows_gives_the_same_bits_as_the_whole() {
    let a = generate::<f64>("hub,rows=600,degree=3,hubs=2", 3, u64::MAX).unwrap().matrix;
    let x = x_for::<f64>(a.cols(), 5, 5);
    for (kernel, variant) in every_form() {
        let whole = product(kernel, variant, a.view(), 0..a.rows(), &x);
        let parts: Vec<f64> = [0..1, 1..250, 250..250, 250..600]
            .into_iter()
            .flat_map(|rows| product(kernel, variant, a.view(), rows, &x).data().to_vec())
            .collect();
        assert_eq!(bytemuck::cast_slice::<f64, u64>(whole.data()), bytemuck::cast_slice::<f64, u64>(&parts));
    }
}
