//! The memory of a job on an accelerator: rows of X, slots for chunks of A and slices of Y, and pinned host memory
//! for staging. It is allocated once, when the devices are opened.

use crate::device::{Fault, Memory, MemoryRange, Operation, Pinned, PinnedRange, RowBytes, Transfer};
use crate::error::{Error, Result};
use crate::matrix::{MultiVectorView, Scalar};
use crate::plan::{Chunk, Mode, Plan, XPlan, XRows};
use crate::runtime::shared_device::Allocations;
use crate::work::{HeldRows, XOrder};

/// Equal slots in one allocation.
#[derive(Debug)]
struct SlotMemory {
    memory: Memory,
    slot_bytes: u64,
    slots: u32,
}

impl SlotMemory {
    fn allocate(memory: &mut Allocations, slots: u32, slot_bytes: u64) -> std::result::Result<Self, Fault> {
        let memory = memory.allocate(slot_bytes.saturating_mul(u64::from(slots)))?;
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

/// The memory of a job on one accelerator.
pub struct Accelerator {
    /// The rows of X it holds.
    pub held: HeldRows,
    /// The part of X that they are.
    pub x_plan: XPlan,
    x: Memory,
    x_bytes: u64,
    /// For each block of X its staging memory, since each is locked while it is written or read; empty if X is registered and
    /// copied in place.
    x_pinned: Vec<Pinned>,
    row_bytes: u64,
    pitch_bytes: u64,
    k: u64,
    value_bytes: u64,
    x_order: XOrder,
    scratch: SlotMemory,
    a: SlotMemory,
    y: SlotMemory,
    staged: Vec<Pinned>,
    returned: Vec<Pinned>,
    /// For each chunk that stays on the device its memory range.
    resident: Vec<Option<MemoryRange>>,
    /// Frees the memory when the accelerator is dropped.
    memory: Allocations,
}

impl Accelerator {
    /// Allocates the memory for the rows `held` of X and for the chunks of device number `index` of `plan`.
    pub fn allocate(
        mut memory: Allocations,
        plan: &Plan,
        index: usize,
        held: HeldRows,
    ) -> std::result::Result<Self, Fault> {
        let (row_bytes, pitch_bytes) = (plan.row_bytes(), plan.pitch_bytes());
        let slots = plan.devices.get(index).map(|device| device.slots).unwrap_or_default();
        let x_bytes = plan.x_bytes(held.rows() as u64);
        let x = memory.allocate(x_bytes)?;
        let registered = plan.devices.get(index).map(|device| device.registered).unwrap_or_default();
        let x_plan = plan.devices.get(index).map_or(XPlan::Nothing, |device| device.x);
        let mut x_pinned = Vec::new();
        if !registered.x {
            for rows in plan.x_block_rows(index, x_plan) {
                x_pinned.push(memory.allocate_pinned(plan.x_bytes(rows))?);
            }
        }
        let scratch = SlotMemory::allocate(&mut memory, 1, slots.scratch_bytes)?;
        let a = SlotMemory::allocate(&mut memory, slots.a_slots, slots.a_slot_bytes)?;
        let y = SlotMemory::allocate(&mut memory, slots.y_slots, slots.y_slot_bytes)?;
        let mut pinned = |count: u32, bytes: u64| -> std::result::Result<Vec<Pinned>, Fault> {
            (0..count).map(|_| memory.allocate_pinned(bytes)).collect()
        };
        let staged = pinned(slots.pinned_in_slots, slots.pinned_in_slot_bytes)?;
        let returned = pinned(slots.pinned_out_slots, slots.pinned_out_slot_bytes)?;
        let resident = if plan.mode == Mode::Resident {
            let all = memory.allocate(slots.resident_bytes)?;
            let mut begin = 0;
            let place = |chunk: &Chunk| {
                (chunk.home as usize == index).then(|| {
                    let range = MemoryRange { memory: all, begin, end: begin + chunk.staged_bytes };
                    begin = range.end;
                    range
                })
            };
            plan.chunks.iter().map(place).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            held,
            x_plan,
            x,
            x_bytes,
            x_pinned,
            row_bytes,
            pitch_bytes,
            k: plan.k,
            value_bytes: plan.dtype.bytes() as u64,
            x_order: plan.x_order,
            scratch,
            a,
            y,
            staged,
            returned,
            resident,
            memory,
        })
    }

    /// Changes the rows of X that the device holds. No resident chunk may have column indices relative to the old rows.
    /// `blocks` are the numbers of rows of the blocks in which they are copied.
    pub fn hold(
        &mut self,
        (held, x_plan): (HeldRows, XPlan),
        blocks: &[u64],
    ) -> std::result::Result<(), Fault> {
        let (order, k, value_bytes) = (self.x_order, self.k, self.value_bytes);
        let bytes = |rows: u64| order.bytes(rows, k, value_bytes);
        let x_bytes = bytes(held.rows() as u64);
        let mut x_pinned = Vec::new();
        if !self.x_pinned.is_empty() {
            for &rows in blocks {
                x_pinned.push(self.memory.allocate_pinned(bytes(rows))?);
            }
        }
        if x_bytes > self.x_bytes {
            self.x = self.memory.allocate(x_bytes)?;
            self.x_bytes = x_bytes;
        }
        (self.held, self.x_plan, self.x_pinned) = (held, x_plan, x_pinned);
        Ok(())
    }

    /// All of X on the device.
    pub fn x_range(&self) -> MemoryRange {
        MemoryRange {
            memory: self.x,
            begin: 0,
            end: self.x_order.bytes(self.held.rows() as u64, self.k, self.value_bytes),
        }
    }

    /// The rows of X on the device: all of them for a block that is not a range of held rows, such as a selection.
    pub fn x_rows(&self, rows: XRows) -> MemoryRange {
        let whole = self.x_range();
        let Some(first) = self.first_row().filter(|_| self.x_order == XOrder::Rows) else { return whole };
        let at = |row: u64| row.saturating_sub(first).saturating_mul(self.pitch_bytes).min(whole.end);
        MemoryRange { begin: at(rows.first), end: at(rows.end), ..whole }
    }

    /// The first row of X of those that it holds; `None` if they are a selection.
    pub fn first_row(&self) -> Option<u64> {
        match self.held {
            HeldRows::Whole { .. } => Some(0),
            HeldRows::Range { first, .. } => Some(u64::from(first)),
            HeldRows::Gather { .. } => None,
        }
    }

    /// The held rows of a block, as they are numbered on the device.
    pub fn local_rows(&self, rows: XRows) -> std::ops::Range<usize> {
        let first = self.first_row().unwrap_or(0);
        let local = |row: u64| (row.saturating_sub(first) as usize).min(self.held.rows());
        local(rows.first)..local(rows.end)
    }

    /// The storage order of X on the device.
    pub fn x_order(&self) -> XOrder {
        self.x_order
    }

    /// Leading dimension of X on the device, in elements.
    pub fn x_pitch(&self) -> u64 {
        self.x_order.pitch_bytes(self.held.rows() as u64, self.k, self.value_bytes) / self.value_bytes
    }

    /// Leading dimension of Y on the device, in elements.
    pub fn y_pitch(&self) -> u64 {
        self.pitch_bytes / self.value_bytes
    }

    /// The staging memory for a block of X.
    pub fn x_pinned(&self, block: u32) -> Result<&Pinned> {
        let none = || Error::Internal(format!("block {block} of X has no staging memory on this device"));
        self.x_pinned.get(block as usize).ok_or_else(none)
    }

    /// The pinned slot that a chunk of A is staged in.
    pub fn staged(&self, slot: u32) -> Result<&Pinned> {
        pinned_slot(&self.staged, slot)
    }

    /// The pinned slot that a slice of Y is downloaded to.
    pub fn returned(&self, slot: u32) -> Result<&Pinned> {
        pinned_slot(&self.returned, slot)
    }

    /// The range of a chunk of `bytes` bytes: in its slot, or where it is resident.
    pub fn chunk_range(&self, chunk: usize, slot: Option<u32>, bytes: u64) -> Result<MemoryRange> {
        match (slot, self.resident.get(chunk).copied().flatten()) {
            (Some(slot), _) => self.a.range(slot, bytes),
            (None, Some(range)) => Ok(MemoryRange { end: range.begin + bytes.min(range.bytes()), ..range }),
            (None, None) => {
                Err(Error::Internal(format!("chunk {chunk} is neither resident on its device nor in a slot")))
            }
        }
    }

    /// The upload of a staged block of X.
    pub fn upload_x(&self, block: u32, rows: XRows) -> Result<Operation<'static>> {
        let to = self.x_rows(rows);
        let from = PinnedRange { pinned: self.x_pinned(block)?.clone(), begin: 0, end: to.bytes() };
        Ok(Operation::upload(from, to))
    }

    /// The upload of a block of the held rows of X from `pinned`, the caller's own memory of `x`.
    pub fn upload_x_in_place<T: Scalar>(
        &self,
        pinned: &Pinned,
        x: MultiVectorView<'_, T>,
        rows: XRows,
    ) -> Result<Operation<'static>> {
        if self.first_row().is_none() {
            return Err(Error::Internal(
                "gathered rows of X must be staged; they cannot be copied in place".into(),
            ));
        }
        let first = rows.first;
        let device = self.x_rows(rows);
        let host_pitch_bytes = (x.leading_dimension() * size_of::<T>()) as u64;
        let strided = host_pitch_bytes != self.row_bytes && rows.end - rows.first > 1;
        let rows = match strided {
            true => RowBytes { bytes: self.row_bytes, pitch_bytes: self.pitch_bytes, host_pitch_bytes },
            false => RowBytes::ALL,
        };
        let begin = first * host_pitch_bytes;
        let end = if strided { pinned.bytes() as u64 } else { begin + device.bytes() };
        let host = PinnedRange { pinned: pinned.clone(), begin, end };
        Ok(Operation::Upload(vec![Transfer { host, device, rows }]))
    }

    /// The range of a slice of Y with `rows` rows.
    pub fn slice_range(&self, y_slot: u32, rows: u64) -> Result<MemoryRange> {
        self.y.range(y_slot, rows * self.pitch_bytes)
    }

    /// The upload of a staged chunk.
    pub fn upload_chunk(&self, staged_in: u32, to: MemoryRange) -> Result<Operation<'static>> {
        let from = PinnedRange { pinned: self.staged(staged_in)?.clone(), begin: 0, end: to.bytes() };
        Ok(Operation::upload(from, to))
    }

    /// The download of a slice of Y with `rows` rows, which kernels write without padding between them if they are `packed`.
    pub fn download(
        &self,
        y_slot: u32,
        returned_to: u32,
        rows: u64,
        packed: bool,
    ) -> Result<Operation<'static>> {
        let from = self.y.range(y_slot, rows * if packed { self.row_bytes } else { self.pitch_bytes })?;
        let to = PinnedRange { pinned: self.returned(returned_to)?.clone(), begin: 0, end: from.bytes() };
        if packed {
            return Ok(Operation::download(from, to));
        }
        let (bytes, pitch_bytes) = (self.row_bytes, self.pitch_bytes);
        let rows = RowBytes { bytes, pitch_bytes, host_pitch_bytes: pitch_bytes };
        Ok(Operation::Download(Transfer { host: to, device: from, rows }))
    }

    /// Columns of X and Y.
    pub fn k(&self) -> u64 {
        self.k
    }

    /// The first `bytes` bytes of the scratch memory.
    pub fn scratch(&self, bytes: u64) -> Result<MemoryRange> {
        self.scratch.range(0, bytes)
    }
}

fn pinned_slot(slots: &[Pinned], slot: u32) -> Result<&Pinned> {
    slots.get(slot as usize).ok_or_else(|| Error::Internal(format!("pinned slot {slot} does not exist")))
}
