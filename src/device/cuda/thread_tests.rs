//! Tests of the state that a card's threads share; `device/model` has those of the threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::completion_thread::{HeldMemory, InFlightMemory, predicted_end_in};
use super::shared::Shared;
use super::{FaultKind, Pinned};

#[test]
fn the_first_reason_and_its_kernel_are_kept() {
    let shared = Shared::default();
    assert!(shared.check_alive().is_ok());
    shared.set_running_kernel(Some("csr_vector_f64"));
    let fault = shared.mark_lost("an illegal address");
    assert!(fault.message.contains("csr_vector_f64") && fault.kind == FaultKind::Lost, "{fault:?}");
    shared.set_running_kernel(None);
    assert_eq!(shared.mark_lost("something later"), fault);
    assert_eq!(shared.check_alive(), Err(fault));
}

#[test]
fn a_closing_device_refuses_operations() {
    let shared = Shared::default();
    shared.close();
    assert_eq!(shared.check_alive().unwrap_err().kind, FaultKind::Lost);
}

#[test]
fn memory_of_an_operation_in_flight_is_released_only_on_purpose() {
    let pinned = Pinned::pageable(16).unwrap();
    let in_flight = || InFlightMemory::new(vec![HeldMemory::Read(pinned.read().unwrap())]);
    in_flight().release();
    assert!(pinned.write().is_ok());
    let held = in_flight();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _held = held;
        resume_unwind(Box::new("a completion thread panics"));
    }));
    assert!(panicked.is_err());
    assert!(pinned.write().is_err(), "a panic released memory that the card may still access");
}

#[test]
fn the_end_of_a_download_is_expected_after_its_kernel() {
    let (now_ns, download_ns) = (5_000_000, 8_000);
    let after = |kernel_ns: u64| predicted_end_in(now_ns, now_ns + kernel_ns, download_ns).as_nanos();
    assert_eq!(after(970_000), 978_000);
    assert_eq!(after(0), 8_000);
    assert_eq!(predicted_end_in(now_ns, 0, download_ns).as_nanos(), 8_000, "it waits for no other lane");
    assert_eq!(after(40_000_000), 8_000, "a thread does not poll without pause for long");
}
