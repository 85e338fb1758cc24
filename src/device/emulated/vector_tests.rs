//! Kernels on multivectors in the emulator: they equal the CPU bodies, and invalid launches are found.

use proptest::prelude::*;

use super::*;
use crate::device::vector_conformance::{Case, Subject, check_case, values, vectors_conform};
use crate::device::{DeviceFactor, DeviceRows, VectorLaunch};

fn open(reports: Reports) -> Box<dyn Device<'static>> {
    let options = EmulatedOptions::parse("").unwrap();
    Box::new(EmulatedDevice::open("emu:0", options, Clock::start(), reports).unwrap())
}

#[test]
fn kernels_on_multivectors_equal_the_cpu_bit_for_bit() {
    vectors_conform(open);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn any_shape_of_multivectors_gives_the_bits_of_the_cpu(
        rows in 0usize..200, columns in (1usize..=40, 1usize..=40), padding in (0usize..4, 0usize..4),
    ) {
        let mut subject = Subject::new(open);
        let case = Case { rows, columns, padding };
        check_case::<f64>(&mut subject, case);
        check_case::<f32>(&mut subject, case);
    }
}

const TWICE: DeviceFactor = DeviceFactor { number: 2.0, multiplied: None, divisors: None };
const ONCE: DeviceFactor = DeviceFactor { number: 1.0, ..TWICE };

fn misused(result: Result<(), Fault>, words: &str) {
    let fault = result.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Misuse);
    assert!(fault.message.contains(words), "{}", fault.message);
}

#[test]
fn a_listed_row_outside_of_x_is_found() {
    let mut subject = Subject::new(open);
    let x = subject.rows(&values::<f64>(5, 3, 0, 1));
    let y = subject.rows_like(&values::<f64>(2, 3, 0, 1));
    let list = subject.upload(&[4u32, 5]);
    misused(subject.launch(VectorLaunch::gather_rows(list, x, y)), "vectors_gather_rows_f64");
}

#[test]
fn an_update_of_unwritten_elements_is_found() {
    let mut subject = Subject::new(open);
    let host = values::<f32>(5, 3, 1, 1);
    let (x, y) = (subject.rows(&host), subject.rows_like(&host));
    misused(subject.launch(VectorLaunch::axpby(TWICE, x, ONCE, y)), "vectors_axpby_f32");
    let y = subject.rows_like(&host);
    misused(subject.launch(VectorLaunch::scale(TWICE, y)), "vectors_scale_f32");
    let y = subject.rows_like(&host);
    let partials = subject.memory(64);
    misused(subject.launch(VectorLaunch::dot(x, y, partials)), "vectors_dot_f32");
}

#[test]
fn overlapping_operands_are_refused() {
    let mut subject = Subject::new(open);
    let x = subject.rows(&values::<f64>(5, 3, 0, 1));
    misused(subject.launch(VectorLaunch::axpby(TWICE, x, ONCE, x)), "overlaps");
    let x = subject.rows(&values::<f64>(5, 3, 0, 1));
    let (first, last) = (x.rows_in(0..4), x.rows_in(1..5));
    misused(subject.launch(VectorLaunch::copy(first, last)), "overlaps");
}

#[test]
fn a_missing_wait_before_an_update_is_found() {
    let mut subject = Subject::new(open);
    let host = values::<f64>(5, 3, 0, 1);
    let (x, y) = (subject.rows(&host), subject.rows(&host));
    let launch = |launch: crate::error::Result<VectorLaunch>| Operation::VectorLaunch(launch.unwrap());
    subject.submit(LaneKind::Compute, launch(VectorLaunch::axpby(TWICE, x, ONCE, y))).unwrap();
    let pinned = subject.device.allocate_pinned(y.memory.bytes()).unwrap();
    let to = crate::device::PinnedRange { begin: 0, end: y.memory.bytes(), pinned };
    let fault = subject.submit(LaneKind::Download, Operation::download(y.memory, to)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Misuse, "{}", fault.message);
}

#[test]
fn operands_that_do_not_fit_their_memory_are_refused() {
    let mut subject = Subject::new(open);
    let x = subject.rows(&values::<f64>(5, 3, 0, 1));
    let too_long = DeviceRows { rows: 6, ..x };
    assert!(VectorLaunch::fill(0.0, too_long).is_err());
    assert!(VectorLaunch::fill(0.0, DeviceRows { leading_dimension: 2, ..x }).is_err());
    assert!(VectorLaunch::gram(x, x, subject.memory(8 * 8)).is_err(), "9 numbers need 72 bytes");
    let y = subject.rows_like(&values::<f64>(5, 2, 0, 1));
    assert_eq!(VectorLaunch::copy(x, y).unwrap_err().exit_code(), 2);
}
