//! Tests of copies between emulated devices: their bytes, their order, and the loss of either device.

use std::time::Duration;

use super::tests::{Fixture, UPLOAD, kind};
use super::*;
use crate::device::PeerCopy;

const BYTES: u64 = 64;

/// A device with `values` in its memory.
fn source(options: &str, values: &[u8]) -> (Fixture, MemoryRange) {
    let mut fixture = Fixture::open(options);
    let memory = fixture.memory(BYTES);
    let written = fixture.upload(values, MemoryRange { end: values.len() as u64, ..memory }, &[]).unwrap();
    assert_eq!(fixture.ends(1)[&written], Ok(()));
    (fixture, memory)
}

fn values() -> Vec<u8> {
    (0..BYTES as u8).map(|value| value * 3 + 1).collect()
}

fn peer(source: &Fixture, memory: MemoryRange) -> PeerMemory {
    Device::peer_memory(&source.device, memory.memory).unwrap()
}

fn copy(from: &PeerMemory, begin: u64, to: MemoryRange) -> Operation<'static> {
    Operation::PeerCopy(PeerCopy { from: from.clone(), begin, to })
}

#[test]
fn a_copy_from_another_device_brings_its_bytes_under_random_delays() {
    for seed in 0..5 {
        let (from, memory) = source("", &values());
        let mut to = Fixture::open(&format!("delay_seed={seed}"));
        let place = to.memory(BYTES);
        let copied = to.submit(UPLOAD, copy(&peer(&from, memory), 16, MemoryRange { end: 40, ..place }), &[]);
        let (_, pinned) = to.download(MemoryRange { end: 40, ..place }, &[copied.unwrap()]).unwrap();
        assert!(to.ends(2).values().all(Result::is_ok));
        assert_eq!(pinned.read().unwrap()[..], values()[16..56]);
    }
}

#[test]
fn later_operations_of_the_receiver_must_wait_for_the_copy() {
    let (from, memory) = source("", &values());
    let mut to = Fixture::open("");
    let place = to.memory(BYTES);
    let copied = to.submit(UPLOAD, copy(&peer(&from, memory), 0, place), &[]).unwrap();
    let fault = to.download(place, &[]).map(drop).unwrap_err();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("peer copy"), "{fault:?}");
    assert!(to.download(place, &[copied]).is_ok());
}

#[test]
fn bytes_that_an_operation_still_writes_cannot_be_copied() {
    let mut from = Fixture::open("hang_at_operation=1");
    let memory = from.memory(BYTES);
    from.upload(&values()[..32], MemoryRange { end: 32, ..memory }, &[]).unwrap();
    let (peer, mut to) = (peer(&from, memory), Fixture::open(""));
    let place = to.memory(BYTES);
    let fault = to.submit(UPLOAD, copy(&peer, 31, MemoryRange { end: 8, ..place }), &[]).unwrap_err();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("used before ready"), "{fault:?}");
    // Other bytes are not written, so the copy is accepted and finds them unwritten.
    let other = to.submit(UPLOAD, copy(&peer, 32, MemoryRange { end: 8, ..place }), &[]).unwrap();
    let ends = to.ends(1);
    assert_eq!(kind(&ends[&other]), Some(FaultKind::Misuse));
    assert!(ends[&other].as_ref().unwrap_err().message.contains("unwritten"), "{ends:?}");
}

#[test]
fn bytes_that_another_device_copies_cannot_be_overwritten_until_the_copy_completes() {
    let (mut from, memory) = source("", &values());
    let mut to = Fixture::open("hang_at_operation=2");
    let place = to.memory(BYTES);
    let half = MemoryRange { end: 32, ..memory };
    let peer = peer(&from, memory);
    let first = to.submit(UPLOAD, copy(&peer, 0, MemoryRange { end: 32, ..place }), &[]).unwrap();
    assert_eq!(to.ends(1)[&first], Ok(()));
    assert!(from.upload(&values()[..32], half, &[]).is_ok(), "the first copy has completed");
    from.ends(1);
    to.submit(UPLOAD, copy(&peer, 0, MemoryRange { end: 32, ..place }), &[first]).unwrap();
    for _ in 0..2 {
        let fault = from.upload(&values()[..32], half, &[]).unwrap_err();
        assert!(fault.kind == FaultKind::Misuse && fault.message.contains("reused too early"), "{fault:?}");
        let rest = MemoryRange { begin: 32, ..memory };
        assert!(from.upload(&values()[32..], rest, &[]).is_ok(), "other bytes are free");
        // A hung copy keeps its bytes after its device was closed, as on a card. The lane must have reached it.
        std::thread::sleep(Duration::from_millis(100));
        Device::close(&mut to.device);
    }
}

#[test]
fn memory_that_is_freed_during_a_copy_stays_until_the_copy_completes() {
    let (mut from, memory) = source("", &values());
    let mut to = Fixture::open("delay_seed=3");
    let place = to.memory(BYTES);
    let copied = to.submit(UPLOAD, copy(&peer(&from, memory), 0, place), &[]).unwrap();
    Device::free(&mut from.device, memory.memory);
    assert_eq!(Device::resources_in_use(&from.device), 0);
    let (_, pinned) = to.download(place, &[copied]).unwrap();
    assert!(to.ends(2).values().all(Result::is_ok));
    assert_eq!(pinned.read().unwrap()[..], values()[..]);
}

#[test]
fn a_copy_from_a_lost_device_fails_and_its_own_device_remains_usable() {
    for closed in [false, true] {
        let (mut from, memory) = source("lost_at_operation=2", &values());
        let peer = peer(&from, memory);
        match closed {
            true => Device::close(&mut from.device),
            false => {
                from.submit(UPLOAD, Operation::Pass, &[]).unwrap();
                from.ends(1);
            }
        }
        let mut to = Fixture::open("");
        let place = to.memory(BYTES);
        let copied = to.submit(UPLOAD, copy(&peer, 0, place), &[]).unwrap();
        assert_eq!(kind(&to.ends(1)[&copied]), Some(FaultKind::PeerLost));
        let next = to.upload(&values(), place, &[copied]).unwrap();
        assert_eq!(to.ends(1)[&next], Ok(()));
    }
}

#[test]
fn a_copy_counts_as_a_copy_for_injected_faults() {
    let (from, memory) = source("", &values());
    let mut to = Fixture::open("fail_copy=1");
    let place = to.memory(BYTES);
    let copied = to.submit(UPLOAD, copy(&peer(&from, memory), 0, place), &[]).unwrap();
    assert_eq!(kind(&to.ends(1)[&copied]), Some(FaultKind::Copy));
}

#[test]
fn copies_outside_an_allocation_and_from_devices_of_another_kind_are_refused() {
    let (from, memory) = source("", &values());
    let mut to = Fixture::open("refuse_peer_copies=2");
    let place = to.memory(BYTES);
    let (emulated, other) = (peer(&from, memory), PeerMemory::new("cuda:0", ()));
    for (peer, begin) in [(&emulated, 1), (&emulated, u64::MAX), (&other, 0)] {
        let fault = to.submit(UPLOAD, copy(peer, begin, place), &[]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Misuse, "{fault:?}");
    }
    assert!(Device::can_copy_from(&mut to.device, &emulated));
    assert!(!Device::can_copy_from(&mut to.device, &emulated), "refused by an option");
    assert!(!Device::can_copy_from(&mut Fixture::open("").device, &other));
}
