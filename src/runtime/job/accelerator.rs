//! The memory of a job on an accelerator: rows of X, slots for chunks of A and slices of Y, its layout of A, and pinned host memory
//! for staging.
//!
//! The device memory is shared with other jobs ([`MemoryUse`]): [`Accelerator::hold`] allocates what is missing, and is called after the
//! device was locked and before anything uses the memory.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::{Fault, HostTransfer, Memory, MemoryRange, Operation, Pinned, PinnedRange, RowBytes};
use crate::error::{Error, Result};
use crate::matrix::{MultiVectorView, Scalar};
use crate::plan::{Chunk, Mode, Plan, Slots, XPlan, XRows};
use crate::runtime::devices::{HeldMemory, LockedDevice, MemoryUse};
use crate::work::{HeldRows, XOrder};

/// Alignment of the parts of the workspace, as of allocations.
const ALIGNMENT: u64 = 256;

/// Equal slots in the workspace.
#[derive(Debug, Default)]
struct SlotMemory {
    begin: u64,
    slot_bytes: u64,
    slots: u32,
}

impl SlotMemory {
    /// Slots from `end` on, which becomes the end of the slots.
    fn after(end: &mut u64, slots: u32, slot_bytes: u64) -> Self {
        let begin = *end;
        let bytes = slot_bytes.saturating_mul(u64::from(slots));
        *end = begin.saturating_add(bytes).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        Self { begin, slot_bytes, slots }
    }

    /// The first `bytes` bytes of a slot.
    fn range(&self, memory: Memory, slot: u32, bytes: u64) -> Result<MemoryRange> {
        if slot >= self.slots || bytes > self.slot_bytes {
            return Err(Error::Internal(format!(
                "{bytes} bytes in slot {slot} of {} slots of {} bytes",
                self.slots, self.slot_bytes
            )));
        }
        let begin = self.begin + u64::from(slot) * self.slot_bytes;
        Ok(MemoryRange { memory, begin, end: begin + bytes })
    }
}

/// The memory of a job on one accelerator.
pub struct Accelerator {
    /// The rows of X it holds.
    pub held: HeldRows,
    /// The part of X that they are.
    pub x_plan: XPlan,
    /// For each block of X its staging memory, since each is locked while it is written or read; empty if X is registered and
    /// copied in place.
    x_pinned: Vec<Pinned>,
    row_bytes: u64,
    pitch_bytes: u64,
    k: u64,
    value_bytes: u64,
    x_order: XOrder,
    keeps: Keeps,
    slots: Slots,
    /// The parts of the workspace. X begins at 0.
    scratch: SlotMemory,
    a: SlotMemory,
    y: SlotMemory,
    workspace_bytes: u64,
    /// Staging memory for chunks of A; allocated when the first one is copied.
    staged: OnceLock<Vec<Pinned>>,
    returned: Vec<Pinned>,
    /// For each chunk that stays on the device its range of the layout.
    resident: Vec<Option<Range<u64>>>,
    memory_use: MemoryUse,
    /// The numbers of the layout and of the workspace; written and read while the device is locked.
    layout: AtomicU32,
    workspace: AtomicU32,
}

/// What a job keeps on an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// A, X and Y.
    Operands,
    /// A only: X and Y are in the memory of others.
    A,
}

impl Accelerator {
    /// The memory for the rows `held` of X and for the chunks of device number `index` of `plan`. Allocates the page-locked memory.
    pub fn new(
        memory_use: MemoryUse,
        plan: &Plan,
        index: usize,
        held: HeldRows,
        keeps: Keeps,
    ) -> std::result::Result<Self, Fault> {
        let planned = plan.devices.get(index);
        let slots = planned.map(|device| device.slots).unwrap_or_default();
        let slots = match keeps {
            Keeps::Operands => slots,
            Keeps::A => Slots { a_slots: 0, y_slots: 0, pinned_out_slots: 0, ..slots },
        };
        let registered = planned.map(|device| device.registered).unwrap_or_default();
        let x_plan = planned.map_or(XPlan::Nothing, |device| device.x);
        let (mut x_pinned, mut returned) = (Vec::new(), Vec::new());
        {
            let mut device = memory_use.device().lock();
            let device = device.device();
            if !registered.x && keeps == Keeps::Operands {
                for rows in plan.x_block_rows(index, x_plan) {
                    x_pinned.push(device.allocate_pinned(plan.x_bytes(rows))?);
                }
            }
            for _ in 0..slots.pinned_out_slots {
                returned.push(device.allocate_pinned(slots.pinned_out_slot_bytes)?);
            }
        }
        let mut begin = 0;
        let place = |chunk: &Chunk| {
            (chunk.home as usize == index).then(|| {
                let range = begin..begin + chunk.staged_bytes;
                begin = range.end;
                range
            })
        };
        let is_resident = plan.mode == Mode::Resident;
        let resident = plan.chunks.iter().filter(|_| is_resident).map(place).collect();
        let mut accelerator = Self {
            held,
            x_plan,
            x_pinned,
            row_bytes: plan.row_bytes(),
            pitch_bytes: plan.pitch_bytes(),
            k: plan.k,
            value_bytes: plan.dtype.bytes() as u64,
            x_order: plan.x_order,
            keeps,
            slots,
            scratch: SlotMemory::default(),
            a: SlotMemory::default(),
            y: SlotMemory::default(),
            workspace_bytes: 0,
            staged: OnceLock::new(),
            returned,
            resident,
            memory_use,
            layout: AtomicU32::new(u32::MAX),
            workspace: AtomicU32::new(u32::MAX),
        };
        accelerator.divide_workspace();
        Ok(accelerator)
    }

    fn divide_workspace(&mut self) {
        let mut end = 0;
        let x_bytes = match self.keeps {
            Keeps::Operands => self.x_bytes(),
            Keeps::A => 0,
        };
        SlotMemory::after(&mut end, 1, x_bytes);
        self.scratch = SlotMemory::after(&mut end, 1, self.slots.scratch_bytes);
        self.a = SlotMemory::after(&mut end, self.slots.a_slots, self.slots.a_slot_bytes);
        self.y = SlotMemory::after(&mut end, self.slots.y_slots, self.slots.y_slot_bytes);
        self.workspace_bytes = end;
    }

    fn x_bytes(&self) -> u64 {
        self.x_order.bytes(self.held.rows() as u64, self.k, self.value_bytes)
    }

    /// Allocates the device memory that is not there. `device` is the device of this accelerator, locked; the memory is valid until it
    /// is unlocked.
    pub fn hold(&self, device: &mut LockedDevice) -> std::result::Result<HeldMemory, Fault> {
        let memory = self.memory_use.hold(device, self.workspace_bytes)?;
        if (!memory.is_filled || self.slots.a_slots > 0) && self.staged.get().is_none() {
            let pinned = (0..self.slots.pinned_in_slots)
                .map(|_| device.device().allocate_pinned(self.slots.pinned_in_slot_bytes));
            let _ = self.staged.set(pinned.collect::<std::result::Result<_, Fault>>()?);
        }
        self.layout.store(memory.layout.map_or(u32::MAX, |memory| memory.0), Ordering::Relaxed);
        self.workspace.store(memory.workspace.0, Ordering::Relaxed);
        Ok(memory)
    }

    /// The use of the memory that the device's jobs share.
    pub fn memory_use(&self) -> &MemoryUse {
        &self.memory_use
    }

    fn workspace(&self) -> Memory {
        Memory(self.workspace.load(Ordering::Relaxed))
    }

    /// Changes the rows of X that the device holds. No resident chunk may have column indices relative to the old rows.
    /// `blocks` are the numbers of rows of the blocks in which they are copied.
    pub fn change_x(
        &mut self,
        (held, x_plan): (HeldRows, XPlan),
        blocks: &[u64],
    ) -> std::result::Result<(), Fault> {
        let mut x_pinned = Vec::new();
        if !self.x_pinned.is_empty() {
            let mut device = self.memory_use.device().lock();
            for &rows in blocks {
                let bytes = self.x_order.bytes(rows, self.k, self.value_bytes);
                x_pinned.push(device.device().allocate_pinned(bytes)?);
            }
        }
        (self.held, self.x_plan, self.x_pinned) = (held, x_plan, x_pinned);
        self.divide_workspace();
        Ok(())
    }

    /// All of X on the device.
    pub fn x_range(&self) -> MemoryRange {
        MemoryRange { memory: self.workspace(), begin: 0, end: self.x_bytes() }
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
        pinned_slot(self.staged.get().map_or(&[], Vec::as_slice), slot)
    }

    /// The pinned slot that a slice of Y is downloaded to.
    pub fn returned(&self, slot: u32) -> Result<&Pinned> {
        pinned_slot(&self.returned, slot)
    }

    /// The range of a chunk of `bytes` bytes: in its slot, or where it is resident.
    pub fn chunk_range(&self, chunk: usize, slot: Option<u32>, bytes: u64) -> Result<MemoryRange> {
        match (slot, self.resident.get(chunk).and_then(Option::as_ref)) {
            (Some(slot), _) => self.a.range(self.workspace(), slot, bytes),
            (None, Some(range)) => {
                let (memory, begin) = (Memory(self.layout.load(Ordering::Relaxed)), range.start);
                Ok(MemoryRange { memory, begin, end: begin + bytes.min(range.end - begin) })
            }
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
        Ok(Operation::Upload(vec![HostTransfer { host, device, rows }]))
    }

    /// The range of a slice of Y with `rows` rows.
    pub fn slice_range(&self, y_slot: u32, rows: u64) -> Result<MemoryRange> {
        self.y.range(self.workspace(), y_slot, rows * self.pitch_bytes)
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
        let from = self.y.range(
            self.workspace(),
            y_slot,
            rows * if packed { self.row_bytes } else { self.pitch_bytes },
        )?;
        let to = PinnedRange { pinned: self.returned(returned_to)?.clone(), begin: 0, end: from.bytes() };
        if packed {
            return Ok(Operation::download(from, to));
        }
        let (bytes, pitch_bytes) = (self.row_bytes, self.pitch_bytes);
        let rows = RowBytes { bytes, pitch_bytes, host_pitch_bytes: pitch_bytes };
        Ok(Operation::Download(HostTransfer { host: to, device: from, rows }))
    }

    /// Columns of X and Y.
    pub fn k(&self) -> u64 {
        self.k
    }

    /// The first `bytes` bytes of the scratch memory.
    pub fn scratch(&self, bytes: u64) -> Result<MemoryRange> {
        self.scratch.range(self.workspace(), 0, bytes)
    }
}

fn pinned_slot(slots: &[Pinned], slot: u32) -> Result<&Pinned> {
    slots.get(slot as usize).ok_or_else(|| Error::Internal(format!("pinned slot {slot} does not exist")))
}
