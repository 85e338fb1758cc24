//! The use of a device's shared memory by one product: its layout of A, and the workspace while it runs.

use std::sync::Arc;

use super::device_memory::{Entry, LayoutKey};
use super::locked_device::LockedDevice;
use super::open_device::OpenDevice;
use crate::device::{Fault, FaultKind, Memory};

/// Smallest workspace. Kernels without scratch memory get an empty range of it.
const MIN_WORKSPACE_BYTES: u64 = 256;

/// The use of a device's shared memory by one product.
pub struct MemoryUse {
    device: Arc<OpenDevice>,
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
    pub fn new(device: &Arc<OpenDevice>, layout: Option<LayoutKey>) -> Self {
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
    pub fn device(&self) -> &Arc<OpenDevice> {
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
        device: &mut LockedDevice,
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
