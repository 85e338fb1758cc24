//! The memory of a device that products share: layouts of A, each stored once, and one workspace.
//!
//! A layout is found by the matrix and by all that its bytes depend on ([`LayoutKey`]); it belongs to all products with an equal key,
//! and is freed with the last of them. The workspace has X, slices of Y and scratch memory of the product that runs. One is enough: a
//! product locks the device while it runs.
//!
//! If an allocation fails, memory of products that do not run is evicted: the workspace, then layouts, the least recently used first.
//! Such a product allocates its memory and copies A again when it runs next. So all products of a device can run, whatever their
//! number, if each of them fits alone beside the vectors that programs keep on the device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::shared_device::{OpenDevice, SharedDevice};
use crate::cost::StoredForm;
use crate::device::{Fault, FaultKind, Memory};
use crate::matrix::ContentId;
use crate::plan::ResidentLayout;
use crate::work::{ChunkRows, XPlan};

/// Smallest workspace. Kernels without scratch memory get an empty range of it.
const MIN_WORKSPACE_BYTES: u64 = 256;

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
struct State {
    layouts: Vec<Entry>,
    workspace: Option<(Memory, u64)>,
    /// The number of the use that had the workspace last.
    user: Option<u64>,
    /// Number of products on the device.
    users: usize,
    /// Bytes of allocations that are not shared.
    private_bytes: u64,
    /// The last number of a layout, of a product's use of the memory, or of a run.
    last_number: u64,
}

/// A layout of A.
struct Entry {
    number: u64,
    key: LayoutKey,
    /// `None` before its first use, and after it was evicted.
    memory: Option<Memory>,
    /// Whether A was copied to it.
    is_filled: bool,
    /// Number of products that use it.
    users: usize,
    last_use: u64,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.layouts.iter_mut().find(|entry| entry.number == number)
    }

    /// Allocates memory. If there is too little, memory of products that do not run is evicted, except the layout numbered `kept`.
    fn allocate(
        &mut self,
        device: &mut OpenDevice,
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
    fn evict_one(&mut self, device: &mut OpenDevice, kept: Option<u64>) -> bool {
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
    fn lock(&self) -> MutexGuard<'_, State> {
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
        device: &mut OpenDevice,
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

/// The use of a device's shared memory by one product.
pub struct MemoryUse {
    device: Arc<SharedDevice>,
    number: u64,
    /// The number of its layout; `None` if it has none.
    layout: Option<u64>,
}

/// The memory of a product, valid while the device is locked.
#[derive(Debug, Clone, Copy)]
pub struct HeldMemory {
    /// Its layout of A.
    pub layout: Option<Memory>,
    /// Whether the layout has A.
    pub is_filled: bool,
    /// The workspace.
    pub workspace: Memory,
    /// Whether the workspace has the bytes of the product's last run.
    pub is_unchanged: bool,
}

impl MemoryUse {
    /// A product on `device` with a layout of A, if it has one there. Nothing is allocated yet.
    pub fn new(device: &Arc<SharedDevice>, layout: Option<LayoutKey>) -> Self {
        let mut state = device.memory().lock();
        let layout = layout.map(|key| {
            let is_same = |entry: &&mut Entry| key.content.is_some() && entry.key == key;
            if let Some(entry) = state.layouts.iter_mut().find(is_same) {
                entry.users += 1;
                return entry.number;
            }
            let number = state.next_number();
            let entry = Entry { number, key, memory: None, is_filled: false, users: 1, last_use: number };
            state.layouts.push(entry);
            number
        });
        state.users += 1;
        let number = state.next_number();
        drop(state);
        Self { device: device.clone(), number, layout }
    }

    /// The device.
    pub fn device(&self) -> &Arc<SharedDevice> {
        &self.device
    }

    /// The number of its layout.
    pub fn layout(&self) -> Option<u64> {
        self.layout
    }

    /// Whether its layout has A now. Does not wait for a product that uses the device.
    pub fn is_filled(&self) -> bool {
        let mut state = self.device.memory().lock();
        self.layout.is_none_or(|number| state.entry(number).is_some_and(|entry| entry.is_filled))
    }

    /// Allocates what is not there. `device` is the locked device.
    pub fn hold(
        &self,
        device: &mut OpenDevice,
        workspace_bytes: u64,
    ) -> std::result::Result<HeldMemory, Fault> {
        let mut state = self.device.memory().lock();
        let state = &mut *state;
        let missing = || Fault::new(FaultKind::Misuse, "a product's layout of A is not known");
        let now = state.next_number();
        let (mut layout, mut is_filled) = (None, true);
        if let Some(number) = self.layout {
            let entry = state.entry(number).ok_or_else(missing)?;
            entry.last_use = now;
            let (memory, bytes) = (entry.memory, entry.key.bytes);
            let memory = match memory {
                Some(memory) => memory,
                None => state.allocate(device, bytes, Some(number))?,
            };
            let entry = state.entry(number).ok_or_else(missing)?;
            entry.memory = Some(memory);
            (layout, is_filled) = (Some(memory), entry.is_filled);
        }
        let needed = workspace_bytes.max(MIN_WORKSPACE_BYTES);
        let (workspace, is_unchanged) = match state.workspace {
            Some((memory, bytes)) if bytes >= needed => (memory, state.user == Some(self.number)),
            old => {
                if let Some((memory, _)) = old.filter(|_| device.is_open()) {
                    state.workspace = None;
                    let freed_bytes = device.free_after_use([(memory, 0)]);
                    state.private_bytes = state.private_bytes.saturating_sub(freed_bytes);
                }
                let memory = state.allocate(device, needed, self.layout)?;
                state.workspace = Some((memory, needed));
                (memory, false)
            }
        };
        state.user = Some(self.number);
        Ok(HeldMemory { layout, is_filled, workspace, is_unchanged })
    }

    /// A was copied to its layout.
    pub fn mark_filled(&self) {
        let mut state = self.device.memory().lock();
        let entry = self.layout.and_then(|number| state.entry(number));
        entry.into_iter().for_each(|entry| entry.is_filled = true);
    }
}

impl Drop for MemoryUse {
    fn drop(&mut self) {
        let mut device = self.device.lock();
        let mut state = self.device.memory().lock();
        let mut freed: Vec<Memory> = Vec::new();
        if let Some(number) = self.layout
            && let Some(place) = state.layouts.iter().position(|entry| entry.number == number)
        {
            state.layouts[place].users -= 1;
            if state.layouts[place].users == 0 {
                freed.extend(state.layouts.swap_remove(place).memory);
            }
        }
        state.users -= 1;
        if state.users == 0 {
            freed.extend(state.workspace.take().map(|(memory, _)| memory));
        }
        // A closed device has freed its memory, or keeps it for an operation that hangs.
        if !freed.is_empty() && device.is_open() {
            let freed_bytes = device.free_after_use(freed.into_iter().map(|memory| (memory, 0)));
            state.private_bytes = state.private_bytes.saturating_sub(freed_bytes);
        }
    }
}
