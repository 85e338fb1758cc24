//! Tests of pinned memory with threads of the operating system; `device/model` has those with modelled threads.

use super::{FaultKind, Pinned};

#[test]
fn reads_are_shared_and_a_write_is_exclusive() {
    let pinned = Pinned::pageable(16).unwrap();
    pinned.write().unwrap()[3] = 7;
    let first = pinned.read().unwrap();
    assert_eq!((first[3], pinned.read().unwrap()[3]), (7, 7));
    assert_eq!(pinned.write().err().unwrap().kind, FaultKind::Misuse);
    drop(first);
    let writer = pinned.write().unwrap();
    assert!(pinned.read().is_err() && pinned.write().is_err());
    drop(writer);
    assert!(pinned.write().is_ok());
}

#[test]
fn an_access_keeps_the_bytes_alive() {
    let pinned = Pinned::pageable(1 << 21).unwrap();
    pinned.write().unwrap().fill(5);
    let reader = pinned.read().unwrap();
    drop(pinned);
    let sum = std::thread::spawn(move || reader.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    assert_eq!(sum.join().unwrap(), 5 << 21);
}

#[test]
fn an_empty_buffer_can_be_read_and_written() {
    let pinned = Pinned::pageable(0).unwrap();
    assert!(pinned.write().unwrap().is_empty());
    assert!(pinned.read().unwrap().is_empty());
}
