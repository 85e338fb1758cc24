//! Kernels on dense matrices in the emulator: they equal the references, and invalid launches are found.

use super::*;
use crate::device::dense_conformance::{dense_kernels_conform, with_entry_points};
use crate::device::vector_conformance::{Subject, values};
use crate::device::{DeviceRows, EntryLaunch};
use crate::kernel::{KernelId, KindOfWork};

fn open(reports: Reports) -> Box<dyn Device<'static>> {
    let options = EmulatedOptions::parse("").unwrap();
    Box::new(EmulatedDevice::open("emu:0", options, Clock::start(), reports).unwrap())
}

#[test]
fn dense_kernels_equal_the_references_bit_for_bit() {
    dense_kernels_conform(open);
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let mut subject = Subject::new(open);
    let a = subject.rows(&values::<f64>(5, 3, 0, 1));
    let b = subject.rows(&values::<f64>(3, 4, 0, 1));
    let c = subject.rows_like(&values::<f64>(5, 4, 0, 1));
    let gemm = |kernel, a, c| EntryLaunch::gemm(kernel, (1.0, 0.0), a, b, c);
    assert!(gemm(KernelId::GemmNaive, a, c).is_ok());
    assert!(gemm(KernelId::GemmNaive, b, c).is_err());
    assert!(gemm(KernelId::GemmNaive, a, DeviceRows { leading_dimension: 3, ..c }).is_err());
    assert!(gemm(KernelId::GemmNaive, a, DeviceRows { rows: 6, ..c }).is_err());
    assert_eq!(gemm(KernelId::CpuGemm, a, c).unwrap_err().exit_code(), 2);
    let sums = subject.memory(3 * 8);
    let launch = |x, deviations| EntryLaunch::column_sums(KernelId::ColmeanLoop, x, 64, sums, deviations);
    assert!(launch(a, None).is_ok());
    assert!(launch(a, Some(MemoryRange { end: 8, ..sums })).is_err());
    assert!(launch(b, None).is_err(), "4 sums need 32 bytes");
}

#[test]
fn a_product_that_reads_an_unwritten_c_is_found() {
    let mut subject = Subject::new(open);
    let a = subject.rows(&values::<f32>(5, 3, 0, 1));
    let b = subject.rows(&values::<f32>(3, 4, 0, 1));
    for info in with_entry_points(KindOfWork::Gemm) {
        let c = subject.rows_like(&values::<f32>(5, 4, 0, 1));
        let launch = EntryLaunch::gemm(info.id, (1.0, 1.0), a, b, c).unwrap();
        let fault = subject.run(LaneKind::Compute, Operation::launch(launch)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Misuse, "{}", fault.message);
        let launch = EntryLaunch::gemm(info.id, (1.0, 1e-60), a, b, c).unwrap();
        subject.run(LaneKind::Compute, Operation::launch(launch)).unwrap();
    }
}
