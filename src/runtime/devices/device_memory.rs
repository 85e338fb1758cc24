//! The memory of a device that products share: layouts of A, each stored once, and one workspace.
//!
//! A layout is found by the matrix and by all that its bytes depend on ([`LayoutKey`]); it belongs to all products with an equal key,
//! and is freed with the last of them. The workspace has X, slices of Y and scratch memory of the product that runs. One is enough: a
//! product locks the device while it runs.
//!
//! If an allocation fails, memory of products that do not run is evicted: the workspace, then layouts, the least recently used first.
//! Such a product allocates its memory and copies A again when it runs next. So all products of a device can run, whatever their
//! number, if each of them fits alone beside the vectors that programs keep on the device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::locked_device::LockedDevice;
use crate::cost::StoredForm;
use crate::device::{Fault, FaultKind, Memory};
use crate::matrix::ContentId;
use crate::plan::ResidentLayout;
use crate::work::{ChunkRows, XPlan};

/// What the bytes of a layout of A depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutKey {
    /// The matrix; `None` if the layout is not shared.
    pub content: Option<ContentId>,
    /// Its chunks, and how each is stored.
    pub chunks: Vec<(ChunkRows, StoredForm)>,
    /// The part of X that the column numbers refer to.
    pub x: XPlan,
    /// Bytes of all chunks.
    pub bytes: u64,
}

/// The shared memory of one device. All methods that change it need the device, which is locked then.
#[derive(Default)]
pub struct DeviceMemory {
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) layouts: Vec<Entry>,
    pub(super) workspace: Option<(Memory, u64)>,
    /// The number of the use that had the workspace last.
    pub(super) user: Option<u64>,
    /// Number of products on the device.
    pub(super) users: usize,
    /// Bytes of allocations that are not shared.
    pub(super) private_bytes: u64,
    /// The last number of a layout, of a product's use of the memory, or of a run.
    pub(super) last_number: u64,
}

/// A layout of A.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) key: LayoutKey,
    /// `None` before its first use, and after it was evicted.
    pub(super) memory: Option<Memory>,
    /// Whether A was copied to it.
    pub(super) is_filled: bool,
    /// Number of products that use it.
    pub(super) users: usize,
    pub(super) last_use: u64,
}

impl State {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.layouts.iter_mut().find(|entry| entry.number == number)
    }

    /// Allocates memory. If there is too little, memory of products that do not run is evicted, except the layout numbered `kept`.
    pub(super) fn allocate(
        &mut self,
        device: &mut LockedDevice,
        bytes: u64,
        kept: Option<u64>,
    ) -> std::result::Result<Memory, Fault> {
        loop {
            match device.device().allocate(bytes) {
                Err(fault) if fault.kind == FaultKind::OutOfMemory => {
                    if !self.evict_one(device, kept) {
                        return Err(fault);
                    }
                }
                allocated => return allocated,
            }
        }
    }

    /// Frees the workspace, or else the least recently used layout. Returns whether there was one.
    fn evict_one(&mut self, device: &mut LockedDevice, kept: Option<u64>) -> bool {
        if !device.ends_operations() {
            return false;
        }
        if let Some((memory, _)) = self.workspace.take() {
            device.device().free(memory);
            return true;
        }
        let idle = self.layouts.iter_mut().filter(|entry| Some(entry.number) != kept);
        let stored = idle.filter(|entry| entry.memory.is_some());
        let Some(entry) = stored.min_by_key(|entry| entry.last_use) else { return false };
        entry.is_filled = false;
        entry.memory.take().into_iter().for_each(|memory| device.device().free(memory));
        true
    }
}

impl DeviceMemory {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before a call that may panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layouts of a matrix, the most recently used first. `own` has the number of a layout once for each product whose use does
    /// not count.
    pub fn layouts_of(&self, content: ContentId, device: &str, own: &[u64]) -> Vec<ResidentLayout> {
        let state = self.lock();
        let of_matrix = state.layouts.iter().filter(|entry| entry.key.content == Some(content));
        let mut found: Vec<&Entry> = of_matrix.collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.last_use));
        let layout = |entry: &Entry| {
            let own = own.iter().filter(|number| **number == entry.number).count();
            ResidentLayout {
                device: device.into(),
                bytes: entry.key.bytes,
                chunks: entry.key.chunks.clone(),
                x: entry.key.x,
                is_in_use: entry.memory.is_some() && entry.users > own,
            }
        };
        found.into_iter().map(layout).collect()
    }

    /// Bytes of layouts and of the workspace, which other products may use.
    pub fn shared_bytes(&self) -> u64 {
        let state = self.lock();
        let layouts = state.layouts.iter().filter(|entry| entry.memory.is_some());
        layouts.map(|entry| entry.key.bytes).sum::<u64>() + state.workspace.map_or(0, |(_, bytes)| bytes)
    }

    /// Bytes of vectors and of other memory that is not shared.
    pub fn private_bytes(&self) -> u64 {
        self.lock().private_bytes
    }

    /// Allocates memory that is not shared.
    pub fn allocate_private(
        &self,
        device: &mut LockedDevice,
        bytes: u64,
    ) -> std::result::Result<Memory, Fault> {
        let mut state = self.lock();
        let memory = state.allocate(device, bytes, None)?;
        state.private_bytes += bytes;
        Ok(memory)
    }

    /// Memory that is not shared was freed.
    pub fn freed_private(&self, bytes: u64) {
        let mut state = self.lock();
        state.private_bytes = state.private_bytes.saturating_sub(bytes);
    }
}
