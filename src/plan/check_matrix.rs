//! Validation of a loaded plan against its matrix. What follows from the matrix is computed again and compared, and every count and
//! size is bounded by it: a plan that passes gives the right Y or an error with a type.

use super::data::{Chunk, DevicePlan, Mode, Plan, Slots, XPlan};
use super::memory::{MAX_SLICES, RING_SLOTS};
use super::tail::split_rows;
use crate::error::{Advice, Error, Place, Result};
use crate::kernel::Processor;
use crate::kernel::cuda::Layout;
use crate::work::{ChunkRows, Work, XOrder};

/// The largest sizes of some chunks on a GPU.
#[derive(Debug, Clone, Copy, Default)]
struct Largest {
    staged: u64,
    scratch: u64,
    slice: u64,
}

type Checked = std::result::Result<(), String>;

impl Plan {
    /// The name of a plan in messages whose file is not known.
    #[doc(hidden)]
    pub const PLACE: &'static str = "the plan";

    /// Checks the plan against the matrix it is for: see [`Plan::check_fits`]. Computed in the rayon pool of the caller.
    #[doc(hidden)]
    pub fn check_matrix(&self, work: &Work<'_>) -> Result<()> {
        self.check_fits(&work.fingerprint(), work.k() as u64, work.dtype())?;
        self.check().and_then(|()| self.compare(work)).map_err(|what| {
            let place = Place { source: Self::PLACE.into(), line: None, column: None };
            Error::input(place, what).advise([Advice::NewPlan])
        })
    }

    fn compare(&self, work: &Work<'_>) -> Checked {
        if self.output != work.output() {
            return Err("the plan writes its output otherwise than the job".into());
        }
        if self.split_rows != split_rows(work, &self.chunks) {
            return Err("the split rows have other segments than the matrix".into());
        }
        let pieces: Vec<ChunkRows> = self.chunks.iter().map(|chunk| chunk.rows).collect();
        let spans = work.x_spans(&pieces);
        for (index, (chunk, span)) in self.chunks.iter().zip(&spans).enumerate() {
            self.compare_chunk(work, chunk, span.start as u64..span.end as u64)
                .map_err(|what| format!("chunk {index} {what}"))?;
        }
        let on_gpus = self.chunks.iter().filter(|chunk| self.gpus_of(chunk).next().is_some());
        let largest = self.largest(on_gpus);
        for (index, device) in self.devices.iter().enumerate() {
            self.compare_device(work, index as u32, device, largest)
                .map_err(|what| format!("{what} of {} do not fit the matrix", device.name))?;
        }
        Ok(())
    }

    /// The GPUs that may compute a chunk.
    fn gpus_of<'a>(&'a self, chunk: &'a Chunk) -> impl Iterator<Item = &'a DevicePlan> {
        let named = chunk.also.iter().chain([&chunk.home]);
        let devices = named.filter_map(|&device| self.devices.get(device as usize));
        devices.filter(|on| on.profile.processor == Processor::Gpu)
    }

    fn largest<'a>(&self, chunks: impl Iterator<Item = &'a Chunk>) -> Largest {
        chunks.fold(Largest::default(), |largest, chunk| Largest {
            staged: largest.staged.max(chunk.staged_bytes),
            scratch: largest.scratch.max(chunk.scratch_bytes),
            slice: largest.slice.max(chunk.slice_bytes(self.k, self.dtype)),
        })
    }

    /// Compares a chunk with its rows, whose columns are in `columns`.
    fn compare_chunk(
        &self,
        work: &Work<'_>,
        chunk: &Chunk,
        columns: std::ops::Range<u64>,
    ) -> std::result::Result<(), &'static str> {
        if chunk.size.entries != work.piece_entries(&chunk.rows) {
            return Err("has another number of entries than its rows");
        }
        if let Some(rows) = chunk.x_rows
            && !columns.is_empty()
            && (rows.first > columns.start || rows.end < columns.end)
        {
            return Err("has columns outside the rows of X that it waits for");
        }
        if self.gpus_of(chunk).next().is_none() {
            return Ok(());
        }
        let form = chunk.form(Processor::Gpu);
        if form.processor() != Processor::Gpu {
            return Err("has no GPU kernel");
        }
        if form.transposes_x() != (self.x_order == XOrder::Columns) {
            return Err("has a kernel that reads X in another order");
        }
        let footprint = work.checked_footprint(&chunk.rows, &form, &chunk.features);
        let is_exact = footprint.is_ok_and(|footprint| {
            (footprint.slot_bytes, footprint.scratch_bytes) == (chunk.staged_bytes, chunk.scratch_bytes)
        });
        if !is_exact {
            return Err("has another size than its rows");
        }
        for device in self.gpus_of(chunk) {
            let covers = match device.x {
                XPlan::Nothing => self.matrix.cols == 0,
                XPlan::Columns { first, end } => {
                    columns.is_empty() || (first <= columns.start && columns.end <= end)
                }
                XPlan::Whole | XPlan::Gather { .. } => true,
            };
            if !covers {
                return Err("uses rows of X that its device does not receive");
            }
            if form.layout() == Layout::Packed && (device.x != XPlan::Whole || self.mode == Mode::Resident) {
                return Err("is packed, with columns that refer to all of X");
            }
            // A registered A has its own column numbers, which count from the first row of X.
            if device.registered.a && (!form.reads_a_unchanged() || device.x != XPlan::Whole) {
                return Err("cannot be copied from registered arrays");
            }
        }
        Ok(())
    }

    /// Checks the memory and the registered operands of a device; the error names the part that is wrong.
    fn compare_device(
        &self,
        work: &Work<'_>,
        index: u32,
        device: &DevicePlan,
        largest: Largest,
    ) -> std::result::Result<(), &'static str> {
        let chunks = || {
            let runs_here = move |chunk: &&Chunk| chunk.home == index || chunk.also.contains(&index);
            self.chunks.iter().filter(runs_here)
        };
        let slots = &device.slots;
        if device.profile.link.is_none() || chunks().next().is_none() {
            return if *slots == Slots::default() { Ok(()) } else { Err("the slots") };
        }
        let rows = match device.x {
            XPlan::Nothing => 0,
            XPlan::Whole => self.matrix.cols,
            XPlan::Columns { first, end } => end.saturating_sub(first),
            XPlan::Gather { columns } => {
                let pieces: Vec<ChunkRows> = chunks().map(|chunk| chunk.rows).collect();
                if columns != work.x_list(&pieces).len() as u64 {
                    return Err("the gathered rows of X");
                }
                columns
            }
        };
        if slots.x_bytes != self.x_bytes(rows) {
            return Err("the bytes of X");
        }
        let packed = self.row_bytes() == self.pitch_bytes();
        let x_unchanged = packed && self.x_order == XOrder::Rows && !matches!(device.x, XPlan::Gather { .. });
        if (device.registered.x && !x_unchanged)
            || (device.registered.y && (!packed || self.output.is_staged()))
        {
            return Err("the registered operands");
        }
        let own = self.largest(chunks());
        let resident = self.mode == Mode::Resident;
        let kept = chunks().filter(|chunk| resident && chunk.home == index);
        let resident_bytes = kept.fold(0u64, |sum, chunk| sum.saturating_add(chunk.staged_bytes));
        let copied = self.largest(chunks().filter(|chunk| !resident || chunk.home != index));
        let is_copied = chunks().any(|chunk| !resident || chunk.home != index);
        let holds = |count: u32, bytes: u64, most: u64, (least_bytes, most_bytes): (u64, u64)| {
            (1..=most).contains(&u64::from(count)) && (least_bytes..=most_bytes).contains(&bytes)
        };
        let none_or = |needed: bool, count: u32, bytes: u64, holds: bool| {
            holds || (!needed && count == 0 && bytes <= largest.staged.max(largest.slice))
        };
        let ring = u64::from(RING_SLOTS);
        let in_parts = work.stages_in_parts() && resident && slots.a_slots == 0;
        let staged = (if in_parts { 1 } else { own.staged }, largest.staged);
        let slice = (own.slice, largest.slice);
        let a = holds(slots.a_slots, slots.a_slot_bytes, ring, (copied.staged, largest.staged));
        let pinned_in = holds(slots.pinned_in_slots, slots.pinned_in_slot_bytes, ring, staged);
        let pinned_out = holds(slots.pinned_out_slots, slots.pinned_out_slot_bytes, MAX_SLICES, slice);
        let (registered, of_a) = (device.registered, (slots.a_slots, slots.a_slot_bytes));
        let fits = slots.resident_bytes == resident_bytes
            && (own.scratch..=largest.scratch).contains(&slots.scratch_bytes)
            && holds(slots.y_slots, slots.y_slot_bytes, MAX_SLICES, slice)
            && none_or(is_copied, of_a.0, of_a.1, a)
            && none_or(!registered.a, slots.pinned_in_slots, slots.pinned_in_slot_bytes, pinned_in)
            && none_or(!registered.y, slots.pinned_out_slots, slots.pinned_out_slot_bytes, pinned_out);
        if !fits {
            return Err("the slots");
        }
        Ok(())
    }
}

/// Whether a device of a plan is the host, a GPU or, if `is_rank`, the share of a rank of a CPU, and not a mixture.
pub(super) fn is_consistent(number: usize, device: &DevicePlan, is_rank: bool) -> bool {
    let (is_host, has_link) = (number == 0, device.profile.link.is_some());
    let runs_on = if is_host || is_rank { Processor::Cpu } else { Processor::Gpu };
    is_host != has_link && device.profile.processor == runs_on
}
