//! Tests of the memory that products share on a device.

use std::sync::Arc;

use super::device_memory::LayoutKey;
use super::memory_use::{HeldMemory, MemoryUse};
use super::open_device::OpenDevice;
use crate::cost::StoredForm;
use crate::device::{CudaOptions, EmulatedOptions};
use crate::device::{Fault, FaultKind};
use crate::kernel::cuda::Layout;
use crate::matrix::{ContentId, Csr};
use crate::trace::Clock;
use crate::work::{ChunkRows, XPlan};

fn device(memory_bytes: u64) -> Arc<OpenDevice> {
    let options = EmulatedOptions { memory_bytes, ..EmulatedOptions::default() };
    Arc::new(OpenDevice::open("emu:0", options, CudaOptions::default(), Clock::start()).unwrap())
}

fn key(content: Option<ContentId>, rows: usize) -> Option<LayoutKey> {
    let stored = StoredForm { layout: Layout::Csr, piece: 0, rows: 1 };
    let chunks = vec![(ChunkRows::Rows { begin: 0, end: rows }, stored)];
    Some(LayoutKey { content, chunks, x: XPlan::Whole, bytes: 1000 })
}

fn held(memory_use: &MemoryUse, workspace_bytes: u64) -> std::result::Result<HeldMemory, Fault> {
    memory_use.hold(&mut memory_use.device().lock(), workspace_bytes)
}

fn in_use(device: &OpenDevice) -> usize {
    device.lock().device().resources_in_use()
}

#[test]
fn equal_layouts_have_one_memory_which_the_last_product_frees() {
    let device = device(1 << 20);
    let (a, b) = (Csr::<f64>::empty(), Csr::<f64>::empty());
    let content = |of: &Csr<f64>| of.view().content();
    let first = MemoryUse::new(&device, key(content(&a), 9));
    assert!(!held(&first, 100).unwrap().is_filled);
    first.mark_filled();
    let second = MemoryUse::new(&device, key(content(&a), 9));
    let (one, other) = (held(&first, 100).unwrap(), held(&second, 300).unwrap());
    assert_eq!(one.layout, other.layout);
    assert!(other.is_filled && !other.is_unchanged);
    for key in [key(content(&b), 9), key(content(&a), 8), key(None, 9)] {
        let third = MemoryUse::new(&device, key.clone());
        assert_ne!(held(&third, 100).unwrap().layout, one.layout, "{key:?}");
        let fourth = MemoryUse::new(&device, key.clone());
        let same = held(&fourth, 100).unwrap().layout == held(&third, 100).unwrap().layout;
        assert_eq!(same, key.is_some_and(|key| key.content.is_some()));
    }
    drop(first);
    assert!(held(&second, 100).unwrap().is_filled);
    assert_eq!((in_use(&device), device.memory().shared_bytes()), (2, 1300));
    drop(second);
    assert_eq!((in_use(&device), device.memory().shared_bytes()), (0, 0));
}

#[test]
fn the_least_recently_used_layout_makes_room_and_private_memory_stays() {
    let device = device(3000);
    let users: Vec<MemoryUse> = (1..=3).map(|rows| MemoryUse::new(&device, key(None, rows))).collect();
    for memory_use in &users[..2] {
        held(memory_use, 500).unwrap();
        memory_use.mark_filled();
    }
    assert!(!held(&users[0], 500).unwrap().is_unchanged);
    assert!(held(&users[0], 500).unwrap().is_unchanged);
    held(&users[2], 500).unwrap();
    users[2].mark_filled();
    let filled = |users: &[MemoryUse]| users.iter().map(MemoryUse::is_filled).collect::<Vec<_>>();
    assert_eq!(filled(&users), [true, false, true]);
    let vectors = device.memory().allocate_private(&mut device.lock(), 1500).unwrap();
    assert_eq!((filled(&users), device.memory().private_bytes()), (vec![false, false, true], 1500));
    assert_eq!(held(&users[1], 600).unwrap_err().kind, FaultKind::OutOfMemory);
    assert!(!held(&users[1], 400).unwrap().is_filled);
    device.lock().device().free(vectors);
    device.lock().close();
}
