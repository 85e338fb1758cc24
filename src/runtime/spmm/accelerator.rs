//! What a product keeps on an accelerator: rows of X, slots for chunks of A and slices of Y, and the pinned memory
//! beside them. Allocated once, when the product is prepared.

use crate::device::{Argument, Device, Fault, Launch, Memory, MemoryRange, Operation, Pinned, PinnedRange};
use crate::error::{Error, Result};
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::plan::{Chunk, Mode, Plan};
use crate::work::{HeldColumns, Storage};

/// Slots of one kind: so many, each so large.
#[derive(Debug)]
struct SlotMemory {
    memory: Memory,
    slot_bytes: u64,
    slots: u32,
}

impl SlotMemory {
    fn allocate(
        device: &mut dyn Device<'_>,
        slots: u32,
        slot_bytes: u64,
    ) -> std::result::Result<Self, Fault> {
        let memory = device.allocate(slot_bytes.saturating_mul(u64::from(slots)))?;
        Ok(Self { memory, slot_bytes, slots })
    }

    /// The first `bytes` bytes of a slot.
    fn range(&self, slot: u32, bytes: u64) -> Result<MemoryRange> {
        if slot >= self.slots || bytes > self.slot_bytes {
            return Err(Error::Internal(format!(
                "{bytes} bytes in slot {slot} of {} slots of {} bytes",
                self.slots, self.slot_bytes
            )));
        }
        let begin = u64::from(slot) * self.slot_bytes;
        Ok(MemoryRange { memory: self.memory, begin, end: begin + bytes })
    }
}

/// One accelerator's share of a product, allocated.
#[derive(Debug)]
pub struct Accelerator {
    /// The rows of X it holds.
    pub held: HeldColumns,
    x: Memory,
    x_bytes: u64,
    x_pinned: Pinned,
    row_bytes: u64,
    a: SlotMemory,
    y: SlotMemory,
    staged: Vec<Pinned>,
    returned: Vec<Pinned>,
    /// For each chunk that stays on the device, where it lies.
    resident: Vec<Option<MemoryRange>>,
}

impl Accelerator {
    /// Allocates on `device`, the one with number `index` in `plan`, all that it needs to hold the rows `held` of X and
    /// its chunks.
    pub fn allocate(
        device: &mut dyn Device<'_>,
        plan: &Plan,
        index: usize,
        held: HeldColumns,
    ) -> std::result::Result<Self, Fault> {
        let row_bytes = plan.row_bytes();
        let slots = plan.devices.get(index).map(|device| device.slots).unwrap_or_default();
        let x_bytes = held.rows() as u64 * row_bytes;
        let x = device.allocate(x_bytes)?;
        let x_pinned = device.allocate_pinned(x_bytes)?;
        let a = SlotMemory::allocate(device, slots.a_slots, slots.a_slot_bytes)?;
        let y = SlotMemory::allocate(device, slots.y_slots, slots.y_slot_bytes)?;
        let mut pinned = |count: u32, bytes: u64| -> std::result::Result<Vec<Pinned>, Fault> {
            (0..count).map(|_| device.allocate_pinned(bytes)).collect()
        };
        let staged = pinned(slots.pinned_in_slots, slots.pinned_in_slot_bytes)?;
        let returned = pinned(slots.pinned_out_slots, slots.pinned_out_slot_bytes)?;
        let resident = if plan.mode == Mode::Resident {
            let memory = device.allocate(slots.resident_bytes)?;
            let mut begin = 0;
            let place = |chunk: &Chunk| {
                (chunk.home as usize == index).then(|| {
                    let range = MemoryRange { memory, begin, end: begin + chunk.staged_bytes };
                    begin = range.end;
                    range
                })
            };
            plan.chunks.iter().map(place).collect()
        } else {
            Vec::new()
        };
        Ok(Self { held, x, x_bytes, x_pinned, row_bytes, a, y, staged, returned, resident })
    }

    /// Holds other rows of X from now on. No chunk may stay on the device whose columns count from the old ones.
    pub fn hold(&mut self, device: &mut dyn Device<'_>, held: HeldColumns) -> std::result::Result<(), Fault> {
        let bytes = held.rows() as u64 * self.row_bytes;
        if bytes > self.x_bytes {
            self.x = device.allocate(bytes)?;
            self.x_pinned = device.allocate_pinned(bytes)?;
            self.x_bytes = bytes;
        }
        self.held = held;
        Ok(())
    }

    fn x_range(&self) -> MemoryRange {
        MemoryRange { memory: self.x, begin: 0, end: self.held.rows() as u64 * self.row_bytes }
    }

    /// Pinned memory for X.
    pub fn x_pinned(&self) -> &Pinned {
        &self.x_pinned
    }

    /// The pinned slot that a chunk of A is staged in.
    pub fn staged(&self, slot: u32) -> Result<&Pinned> {
        pinned_slot(&self.staged, slot)
    }

    /// The pinned slot that a slice of Y comes back to.
    pub fn returned(&self, slot: u32) -> Result<&Pinned> {
        pinned_slot(&self.returned, slot)
    }

    /// Where a chunk of `bytes` bytes lies: in its slot, or where it stays.
    pub fn chunk_range(&self, chunk: usize, slot: Option<u32>, bytes: u64) -> Result<MemoryRange> {
        match (slot, self.resident.get(chunk).copied().flatten()) {
            (Some(slot), _) => self.a.range(slot, bytes),
            (None, Some(range)) => Ok(range),
            (None, None) => Err(Error::Internal(format!("chunk {chunk} is nowhere on its device"))),
        }
    }

    /// The copy of X to the device.
    pub fn upload_x(&self) -> Operation<'static> {
        let to = self.x_range();
        let from = PinnedRange { pinned: self.x_pinned.clone(), begin: 0, end: to.bytes() };
        Operation::Upload { from, to }
    }

    /// The copy of a staged chunk to the device.
    pub fn upload_chunk(&self, staged_in: u32, to: MemoryRange) -> Result<Operation<'static>> {
        let from = PinnedRange { pinned: self.staged(staged_in)?.clone(), begin: 0, end: to.bytes() };
        Ok(Operation::Upload { from, to })
    }

    /// The copy of a slice of Y, `rows` rows of it, to the host.
    pub fn download(&self, y_slot: u32, returned_to: u32, rows: u64) -> Result<Operation<'static>> {
        let from = self.y.range(y_slot, rows * self.row_bytes)?;
        let to = PinnedRange { pinned: self.returned(returned_to)?.clone(), begin: 0, end: from.bytes() };
        Ok(Operation::Download { from, to })
    }

    /// The launch of `kernel` on the chunk at `chunk`, its slice of Y in `y_slot`.
    pub fn launch(
        &self,
        kernel: KernelId,
        dtype: Dtype,
        storage: &Storage,
        chunk: MemoryRange,
        y_slot: u32,
    ) -> Result<Operation<'static>> {
        let k = self.row_bytes / dtype.bytes() as u64;
        let within = |range: &std::ops::Range<u64>| {
            Argument::Read(MemoryRange {
                memory: chunk.memory,
                begin: chunk.begin + range.start,
                end: chunk.begin + range.end,
            })
        };
        let rows = storage.rows;
        // The order of `kernel::cuda`'s two parameter lists, which differ in their third place only.
        let arguments = vec![
            Argument::Number(rows),
            Argument::Number(k),
            storage.width.map_or_else(|| within(&storage.row_pointers), Argument::Number),
            within(&storage.columns),
            within(&storage.values),
            Argument::Read(self.x_range()),
            Argument::Number(k),
            Argument::Write(self.y.range(y_slot, rows * self.row_bytes)?),
            Argument::Number(k),
        ];
        Ok(Operation::Launch(Launch { kernel, dtype, rows, k, arguments }))
    }
}

fn pinned_slot(slots: &[Pinned], slot: u32) -> Result<&Pinned> {
    slots.get(slot as usize).ok_or_else(|| Error::Internal(format!("there is no pinned slot {slot}")))
}
