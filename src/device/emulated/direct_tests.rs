//! Tests of messages in the memory of an emulated device: their bytes, their order, and the loss of the device.

use super::tests::{Fixture, kind};
use super::*;
use crate::device::{DirectRange, MessageBytes};

const BYTES: u64 = 64;

fn values() -> Vec<u8> {
    (0..BYTES as u8).map(|value| value * 3 + 1).collect()
}

fn message(fixture: &Fixture, range: MemoryRange) -> MessageBytes {
    let MemoryRange { memory, begin, end } = range;
    let memory = Device::direct_memory(&fixture.device, memory).unwrap();
    MessageBytes::Device(DirectRange { memory, begin, end })
}

#[test]
fn a_message_brings_the_bytes_of_one_device_to_another() {
    let (mut from, mut to) = (Fixture::open(""), Fixture::open(""));
    let (source, place) = (from.memory(BYTES), to.memory(BYTES));
    let written = from.upload(&values(), source, &[]).unwrap();
    assert_eq!(from.ends(1)[&written], Ok(()));
    let sent = message(&from, MemoryRange { begin: 8, end: 40, ..source });
    let received = message(&to, MemoryRange { begin: 16, end: 48, ..place });
    assert_eq!((sent.bytes(), received.bytes()), (32, 32));
    let bytes = sent.read().unwrap().to_vec().unwrap();
    received.write().unwrap().write(&bytes).unwrap();
    let (_, pinned) = to.download(MemoryRange { begin: 16, end: 48, ..place }, &[]).unwrap();
    assert!(to.ends(1).values().all(Result::is_ok));
    assert_eq!(pinned.read().unwrap()[..], values()[8..40]);
    // Bytes beside the message stay unwritten, and unwritten bytes are not sent.
    assert!(message(&to, place).read().is_err());
}

#[test]
fn bytes_that_another_library_received_count_as_written_once_it_says_so() {
    let mut fixture = Fixture::open("");
    let message = {
        let range = fixture.memory(BYTES);
        message(&fixture, range)
    };
    drop(message.write().unwrap());
    assert_eq!(message.read().err().map(|fault| fault.kind), Some(FaultKind::Misuse), "it was cancelled");
    message.write().unwrap().written();
    assert!(message.read().is_ok());
}

#[test]
fn a_message_is_refused_while_an_operation_uses_its_bytes() {
    let mut fixture = Fixture::open("hang_at_operation=1");
    let memory = fixture.memory(BYTES);
    let half = MemoryRange { end: 32, ..memory };
    fixture.upload(&values()[..32], half, &[]).unwrap();
    let fault = message(&fixture, half).read().err().unwrap();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("used before ready"), "{fault:?}");
    let fault = message(&fixture, half).write().err().unwrap();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("reused too early"), "{fault:?}");
    assert!(message(&fixture, MemoryRange { begin: 32, ..memory }).write().is_ok(), "other bytes are free");
    let mut fixture = Fixture::open("hang_at_operation=2");
    let memory = fixture.memory(BYTES);
    let written = fixture.upload(&values(), memory, &[]).unwrap();
    fixture.ends(1);
    fixture.download(memory, &[written]).unwrap();
    assert!(message(&fixture, memory).read().is_ok(), "both read");
    assert!(message(&fixture, memory).write().is_err(), "the download reads the bytes");
}

#[test]
fn an_operation_is_refused_while_a_message_has_its_bytes() {
    let mut fixture = Fixture::open("");
    let memory = fixture.memory(BYTES);
    let written = fixture.upload(&values(), memory, &[]).unwrap();
    fixture.ends(1);
    let sent = message(&fixture, memory).read().unwrap();
    let fault = fixture.upload(&values(), memory, &[written]).unwrap_err();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("reused too early"), "{fault:?}");
    let (downloaded, _) = fixture.download(memory, &[written]).expect("both read");
    fixture.ends(1);
    drop(sent);
    let received = message(&fixture, memory).write().unwrap();
    assert!(message(&fixture, memory).write().is_err() && message(&fixture, memory).read().is_err());
    let fault = fixture.download(memory, &[written]).map(drop).unwrap_err();
    assert!(fault.kind == FaultKind::Misuse && fault.message.contains("used before ready"), "{fault:?}");
    let fault = fixture.upload(&values(), memory, &[downloaded]).unwrap_err();
    assert!(fault.message.contains("a message uses"), "{fault:?}");
    drop(received);
    let again = fixture.upload(&values(), memory, &[downloaded]).unwrap();
    assert_eq!(fixture.ends(1)[&again], Ok(()));
}

#[test]
fn a_message_of_a_lost_or_closed_device_is_refused_and_keeps_its_memory() {
    for closed in [false, true] {
        let mut fixture = Fixture::open("lost_at_operation=1");
        let memory = fixture.memory(BYTES);
        let message = message(&fixture, memory);
        let mut received = message.write().unwrap();
        match closed {
            true => Device::close(&mut fixture.device),
            false => {
                let lost = fixture.submit(0, Operation::Pass, &[]).unwrap();
                assert_eq!(kind(&fixture.ends(1)[&lost]), Some(FaultKind::Lost));
            }
        }
        assert_eq!(message.read().err().map(|fault| fault.kind), Some(FaultKind::PeerLost));
        assert_eq!(message.write().err().map(|fault| fault.kind), Some(FaultKind::PeerLost));
        received.write(&values()).unwrap();
    }
}

#[test]
fn a_message_outside_an_allocation_or_of_another_length_is_refused() {
    let mut fixture = Fixture::open("");
    let memory = fixture.memory(BYTES);
    for (begin, end) in [(0, BYTES + 1), (8, 4), (u64::MAX, u64::MAX)] {
        assert!(message(&fixture, MemoryRange { begin, end, ..memory }).write().is_err(), "{begin}..{end}");
    }
    let mut received = message(&fixture, memory).write().unwrap();
    assert!(received.write(&values()[1..]).is_err());
}
