//! Builds the operations of a plan's tasks: which bytes are staged, copied, computed and merged.

use std::ops::Range;

use rayon::prelude::*;

use super::Job;
use super::accelerator::Accelerator;
use super::outputs::Outputs;
use super::scaling::Scaling;
use crate::device::{Fault, MemoryRange, Operation, Pinned};
use crate::error::{Error, Result};
use crate::exec::{Binder, HeldSlots};
use crate::graph::{DeviceId, PoolId, Task, TaskId, TaskKind};
use crate::kernel::scaling::scaling;
use crate::matrix::MultiVectorView;
use crate::plan::{Item, Plan, Registered, XRows};
use crate::runtime::run::Planned;
use crate::threads::SERIAL_BYTES;
use crate::work::{COPY_BYTES_PER_TASK, ChunkRows, XOrder};

/// Slices of at least this size are copied to Y by all threads.
const MIN_PARALLEL_MERGE_BYTES: usize = 2 << 20;

/// Data shared by the tasks of one run.
pub struct Shared<'run, 'y, J: Job> {
    /// A.
    pub job: &'run J,
    /// The plan of this run: that of the job, or one that copies more operands in place.
    pub plan: &'run Plan,
    /// For each accelerator its memory.
    pub accelerators: &'run [Option<Accelerator>],
    /// The factors of A X and Y.
    pub scaling: Scaling,
    /// X.
    pub x: MultiVectorView<'run, J::Value>,
    /// X, borrowed for copies in place.
    pub x_pinned: &'run Pinned,
    /// A, borrowed for copies in place.
    pub a: &'run J::Borrowed,
    /// The slices of Y.
    pub outputs: &'run Outputs<'y, J::Value>,
}

/// Binds the tasks of one graph.
pub struct JobBinder<'scope, 'run, 'y, 'graph, J: Job> {
    /// Data shared by the tasks.
    pub shared: &'scope Shared<'run, 'y, J>,
    /// Their graph.
    pub planned: &'graph Planned,
}

impl<'scope, J: Job> Binder<'scope> for JobBinder<'scope, '_, '_, '_, J> {
    fn operation(&mut self, task: TaskId, slots: &HeldSlots) -> Result<Operation<'scope>> {
        let shared = self.shared;
        let (task, item, device) = self.planned.task(task)?;
        match (item, task.kind) {
            (Item::X { block, rows, .. }, TaskKind::Stage) => {
                let accelerator = shared.accelerator(device)?;
                Ok(Operation::Job(Box::new(move || shared.stage_x(accelerator, block, rows))))
            }
            (Item::X { block, rows, .. }, _) => {
                let accelerator = shared.accelerator(device)?;
                if shared.registered(device).x {
                    accelerator.upload_x_in_place(shared.x_pinned, shared.x, rows)
                } else {
                    accelerator.upload_x(block, rows)
                }
            }
            (Item::SplitRow(index), _) => Ok(merge_job(task, move || shared.merge_split_row(index as usize))),
            (Item::Sent(_) | Item::Received(_), _)
            | (Item::ToRank { .. } | Item::FromRank { .. } | Item::PartialSums { .. }, _) => {
                Err(Error::Internal("a job on host memory exchanges no rows".into()))
            }
            (Item::Chunk(chunk), TaskKind::CpuCompute) => {
                Ok(Operation::Job(Box::new(move || shared.compute(chunk as usize))))
            }
            (Item::Chunk(chunk), _) => self.chunk_operation(chunk as usize, device, task, slots),
            (Item::ChunkPart { chunk, begin, end }, kind) => {
                self.part_operation(chunk as usize, begin..end, device, kind, slots)
            }
        }
    }
}

impl<'scope, J: Job> JobBinder<'scope, '_, '_, '_, J> {
    /// One step of a chunk on an accelerator.
    fn chunk_operation(
        &self,
        chunk: usize,
        device: DeviceId,
        task: &Task,
        slots: &HeldSlots,
    ) -> Result<Operation<'scope>> {
        let (shared, kind) = (self.shared, task.kind);
        let accelerator = shared.accelerator(device)?;
        let pools = self.planned.pools().get(device.index());
        let pools = pools.ok_or_else(|| Error::Internal(format!("device {} has no slots", device.0)))?;
        let of = |pool: Option<PoolId>| pool.and_then(|pool| slots.of(pool));
        let held = |pool| {
            of(pool).ok_or_else(|| {
                Error::Internal(format!("chunk {chunk} holds no slot for its {} task", kind.name()))
            })
        };
        let job = shared.job;
        let rows = job.chunk(chunk)?.slice_rows();
        match kind {
            TaskKind::Stage => {
                let slot = held(pools.pinned_in)?;
                Ok(Operation::Job(Box::new(move || {
                    let mut bytes = accelerator.staged(slot)?.write().map_err(misuse)?;
                    job.stage(chunk, &accelerator.held, &mut bytes)
                })))
            }
            TaskKind::Upload => {
                let to = accelerator.chunk_range(chunk, of(pools.a), job.chunk_bytes(chunk)?)?;
                if shared.registered(device).a {
                    return Ok(Operation::Upload(job.copies_in_place(chunk, shared.a, to)?));
                }
                accelerator.upload_chunk(held(pools.pinned_in)?, to)
            }
            TaskKind::Kernel => {
                let a = accelerator.chunk_range(chunk, of(pools.a), job.chunk_bytes(chunk)?)?;
                let y = accelerator.slice_range(held(pools.y)?, rows)?;
                job.launch(chunk, accelerator, a, y, shared.chunk_scaling(chunk)?.alpha)
            }
            TaskKind::Download if shared.registered(device).y => {
                let from = accelerator.slice_range(held(pools.y)?, rows)?;
                Ok(shared.outputs.slice(chunk)?.download::<J::Value>(from))
            }
            TaskKind::Download => {
                let rows = shared.plan.result_rows(job.chunk(chunk)?);
                accelerator.download(held(pools.y)?, held(pools.pinned_out)?, rows, job.packs_slices())
            }
            TaskKind::Merge | TaskKind::CpuCompute => {
                let slot = held(pools.pinned_out)?;
                Ok(merge_job(task, move || shared.merge_slice(accelerator, slot, chunk)))
            }
            TaskKind::PeerCopy | TaskKind::Send | TaskKind::Receive | TaskKind::Reduce => {
                Err(Error::Internal("a job on host memory copies nothing between devices or ranks".into()))
            }
        }
    }
}

impl<'scope, J: Job> JobBinder<'scope, '_, '_, '_, J> {
    /// One step of a part of a chunk that stays on an accelerator.
    fn part_operation(
        &self,
        chunk: usize,
        part: Range<u64>,
        device: DeviceId,
        kind: TaskKind,
        slots: &HeldSlots,
    ) -> Result<Operation<'scope>> {
        let (job, accelerator) = (self.shared.job, self.shared.accelerator(device)?);
        let pool = self.planned.pools().get(device.index()).and_then(|pools| pools.pinned_in);
        let slot = pool.and_then(|pool| slots.of(pool));
        let slot = slot.ok_or_else(|| Error::Internal(format!("a part of chunk {chunk} holds no slot")))?;
        if kind == TaskKind::Stage {
            return Ok(Operation::Job(Box::new(move || {
                let mut bytes = accelerator.staged(slot)?.write().map_err(misuse)?;
                job.stage_part(chunk, part, &mut bytes)
            })));
        }
        let all = accelerator.chunk_range(chunk, None, job.chunk_bytes(chunk)?)?;
        let to =
            MemoryRange { begin: all.begin + part.start, end: all.begin + part.end.min(all.bytes()), ..all };
        accelerator.upload_chunk(slot, to)
    }
}

impl<'run, J: Job> Shared<'run, '_, J> {
    fn accelerator(&self, device: DeviceId) -> Result<&'run Accelerator> {
        let accelerator = self.accelerators.get(device.index()).and_then(Option::as_ref);
        accelerator.ok_or_else(|| Error::Internal(format!("device {} of the plan is not open", device.0)))
    }

    /// Which of A, X and Y are registered and copied in place for the device.
    fn registered(&self, device: DeviceId) -> Registered {
        self.plan.devices.get(device.index()).map(|device| device.registered).unwrap_or_default()
    }

    fn stage_x(&self, accelerator: &Accelerator, block: u32, rows: XRows) -> Result<()> {
        let mut bytes = accelerator.x_pinned(block)?.write().map_err(misuse)?;
        let values = bytemuck::try_cast_slice_mut(&mut bytes).map_err(unaligned)?;
        let pitch = accelerator.x_pitch() as usize;
        match accelerator.x_order() {
            XOrder::Rows => {
                let rows = accelerator.local_rows(rows);
                accelerator.held.copy_rows(self.x, rows, pitch, values);
            }
            XOrder::Columns => accelerator.held.copy_columns(self.x, pitch, values),
        }
        Ok(())
    }

    /// Copies a slice from page-locked memory to Y, or adds the old Y. All threads copy a large slice where the CPU computes no chunk:
    /// a thread that waits for the others may take another job, which would delay the slice if this were the job of a chunk.
    fn merge_slice(&self, accelerator: &Accelerator, slot: u32, chunk: usize) -> Result<()> {
        let bytes = accelerator.returned(slot)?.read().map_err(misuse)?;
        let values: &[J::Value] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        let mut slice = self.outputs.chunk(chunk)?;
        let slice = slice.view()?;
        let rows = slice.rows().min(self.plan.result_rows(self.job.chunk(chunk)?) as usize);
        let (k, leading_dimension) = (slice.k(), slice.leading_dimension());
        let pitch = if self.job.packs_slices() { k } else { accelerator.y_pitch() as usize };
        if rows == 0 || k == 0 {
            return Ok(());
        }
        // The device has computed alpha A X.
        let added = self.chunk_scaling(chunk)?.reads_y().then(|| scaling::<J::Value>(1.0, self.scaling.beta));
        let is_packed = k == pitch && k == leading_dimension;
        let merge = |(y, computed): (&mut [J::Value], &[J::Value])| {
            if added.is_none() && is_packed {
                y.copy_from_slice(&computed[..y.len()]);
                return;
            }
            for (y, computed) in y.chunks_mut(leading_dimension).zip(computed.chunks(pitch)) {
                let (y, computed) = (&mut y[..k], &computed[..k]);
                match &added {
                    Some(scaling) => {
                        y.iter_mut().zip(computed).for_each(|(y, &sum)| *y = scaling.apply(sum, *y))
                    }
                    None => y.copy_from_slice(computed),
                }
            }
        };
        let y = &mut slice.into_data()[..(rows - 1) * leading_dimension + k];
        let computed = &values[..(rows - 1) * pitch + k];
        let host_computes = self.plan.devices.first().is_none_or(|host| host.chunks > 0);
        if host_computes || size_of_val(computed) < MIN_PARALLEL_MERGE_BYTES {
            merge((y, computed));
        } else {
            let rows_per_task = (COPY_BYTES_PER_TASK / (pitch * size_of::<J::Value>())).max(1);
            let y = y.par_chunks_mut(rows_per_task * leading_dimension);
            y.zip(computed.par_chunks(rows_per_task * pitch)).for_each(merge);
        }
        Ok(())
    }

    fn merge_split_row(&self, index: usize) -> Result<()> {
        let split = self.plan.split_rows.get(index);
        let split = split.ok_or_else(|| Error::Internal(format!("the plan has no split row {index}")))?;
        self.job.merge_split_row(index, split, self.outputs, self.scaling)
    }

    /// The factors of a chunk: the segments of a divided row are scaled when they are added.
    fn chunk_scaling(&self, chunk: usize) -> Result<Scaling> {
        Ok(match self.job.chunk(chunk)?.rows {
            ChunkRows::Rows { .. } => self.scaling,
            ChunkRows::Segments { .. } => Scaling::NONE,
        })
    }

    /// Computes a chunk on the current rayon pool.
    fn compute(&self, chunk: usize) -> Result<()> {
        let mut slice = self.outputs.chunk(chunk)?;
        self.job.compute(chunk, self.chunk_scaling(chunk)?, self.x, slice.view()?)
    }
}

/// The job of a merge task. A small merge uses one thread.
fn merge_job<'scope>(task: &Task, merge: impl FnOnce() -> Result<()> + Send + 'scope) -> Operation<'scope> {
    if task.demand.host_bytes <= SERIAL_BYTES {
        Operation::ShortJob(Box::new(merge))
    } else {
        Operation::Job(Box::new(merge))
    }
}

fn misuse(fault: Fault) -> Error {
    Error::Internal(fault.message)
}

fn unaligned(error: bytemuck::PodCastError) -> Error {
    Error::Internal(format!("pinned memory is not aligned for its values: {error}"))
}
