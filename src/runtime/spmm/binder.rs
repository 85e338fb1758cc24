//! Builds the operations of a plan's tasks: which bytes are staged, copied, computed and merged.

use std::sync::{Mutex, PoisonError};

use super::accelerator::Accelerator;
use super::borrowed_inputs::BorrowedInputs;
use super::job::Job;
use super::outputs::Outputs;
use super::settings::{Scaling, Settings};
use crate::device::{Fault, Operation};
use crate::error::{Error, Result};
use crate::exec::{Binder, HeldSlots};
use crate::graph::{DeviceId, PoolId, TaskId, TaskKind};
use crate::kernel::cpu::{Kernels, PreparedKernel};
use crate::kernel::scaling::scaling;
use crate::matrix::MultiVectorView;
use crate::plan::{Item, Registered, XRows};
use crate::runtime::planned::Planned;
use crate::work::{ChunkRows, XOrder};

/// A chunk's product on the host, prepared when it is first needed.
pub type HostProduct<T> = Mutex<Option<PreparedKernel<T>>>;

/// Data shared by the tasks of one run.
pub struct Shared<'job, 'run, 'y, T: Kernels> {
    /// The matrix and its plan.
    pub job: &'run Job<'job, T>,
    /// For each accelerator its memory.
    pub accelerators: &'run [Option<Accelerator>],
    /// For each chunk its product on the host.
    pub products: &'run [HostProduct<T>],
    /// How the host computes products.
    pub settings: &'run Settings,
    /// The factors of A X and Y.
    pub scaling: Scaling,
    /// X.
    pub x: MultiVectorView<'run, T>,
    /// A and X, borrowed for copies in place.
    pub inputs: &'run BorrowedInputs,
    /// The slices of Y.
    pub outputs: &'run Outputs<'y, T>,
}

/// Binds the tasks of one graph.
pub struct SpmmBinder<'scope, 'job, 'run, 'y, 'graph, T: Kernels> {
    /// Data shared by the tasks.
    pub shared: &'scope Shared<'job, 'run, 'y, T>,
    /// Their graph.
    pub planned: &'graph Planned,
}

impl<'scope, T: Kernels> Binder<'scope> for SpmmBinder<'scope, '_, '_, '_, '_, T> {
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
                    accelerator.upload_x_in_place(shared.inputs.x(), shared.x, rows)
                } else {
                    accelerator.upload_x(block, rows)
                }
            }
            (Item::SplitRow(index), _) => {
                Ok(Operation::Job(Box::new(move || shared.merge_split_row(index as usize))))
            }
            (Item::Sent(_) | Item::Received(_), _) => {
                Err(Error::Internal("a product on host memory exchanges no rows".into()))
            }
            (Item::Chunk(chunk), TaskKind::CpuCompute) => {
                Ok(Operation::Job(Box::new(move || shared.compute(chunk as usize))))
            }
            (Item::Chunk(chunk), kind) => self.chunk_operation(chunk as usize, device, kind, slots),
        }
    }
}

impl<'scope, T: Kernels> SpmmBinder<'scope, '_, '_, '_, '_, T> {
    /// One step of a chunk on an accelerator.
    fn chunk_operation(
        &self,
        chunk: usize,
        device: DeviceId,
        kind: TaskKind,
        slots: &HeldSlots,
    ) -> Result<Operation<'scope>> {
        let shared = self.shared;
        let accelerator = shared.accelerator(device)?;
        let pools = self.planned.planned.pools.get(device.index());
        let pools = pools.ok_or_else(|| Error::Internal(format!("device {} has no slots", device.0)))?;
        let of = |pool: Option<PoolId>| pool.and_then(|pool| slots.of(pool));
        let held = |pool| {
            of(pool).ok_or_else(|| {
                Error::Internal(format!("chunk {chunk} holds no slot for its {} task", kind.name()))
            })
        };
        let storage = shared.job.storage(chunk)?;
        match kind {
            TaskKind::Stage => {
                let slot = held(pools.pinned_in)?;
                Ok(Operation::Job(Box::new(move || {
                    let mut bytes = accelerator.staged(slot)?.write().map_err(misuse)?;
                    storage.write(shared.job.rows(chunk)?, &accelerator.held, &mut bytes)
                })))
            }
            TaskKind::Upload => {
                let to = accelerator.chunk_range(chunk, of(pools.a), storage.bytes())?;
                if shared.registered(device).a {
                    return accelerator
                        .upload_arrays(storage, to, |name| shared.inputs.array(shared.job, chunk, name));
                }
                accelerator.upload_chunk(held(pools.pinned_in)?, to)
            }
            TaskKind::Kernel => {
                let at = accelerator.chunk_range(chunk, of(pools.a), storage.bytes())?;
                let alpha = shared.chunk_scaling(chunk)?.alpha;
                let (chunk, uniform) = (shared.job.chunk(chunk)?, shared.job.is_uniform());
                accelerator.launch(chunk, T::DTYPE, storage, at, held(pools.y)?, uniform, alpha)
            }
            TaskKind::Download if shared.registered(device).y => {
                let from = accelerator.slice_range(held(pools.y)?, storage.rows)?;
                Ok(shared.outputs.slice(chunk)?.download::<T>(from))
            }
            TaskKind::Download => accelerator.download(held(pools.y)?, held(pools.pinned_out)?, storage.rows),
            TaskKind::Merge | TaskKind::CpuCompute => {
                let slot = held(pools.pinned_out)?;
                Ok(Operation::Job(Box::new(move || shared.merge_slice(accelerator, slot, chunk))))
            }
            TaskKind::PeerCopy => {
                Err(Error::Internal("a product on host memory copies nothing between devices".into()))
            }
        }
    }
}

impl<'run, T: Kernels> Shared<'_, 'run, '_, T> {
    fn accelerator(&self, device: DeviceId) -> Result<&'run Accelerator> {
        let accelerator = self.accelerators.get(device.index()).and_then(Option::as_ref);
        accelerator.ok_or_else(|| Error::Internal(format!("device {} of the plan is not open", device.0)))
    }

    /// Which of A, X and Y are registered and copied in place for the device.
    fn registered(&self, device: DeviceId) -> Registered {
        self.job.plan().devices.get(device.index()).map(|device| device.registered).unwrap_or_default()
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

    fn merge_slice(&self, accelerator: &Accelerator, slot: u32, chunk: usize) -> Result<()> {
        let bytes = accelerator.returned(slot)?.read().map_err(misuse)?;
        let values: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        let mut slice = self.outputs.chunk(chunk)?;
        let mut slice = slice.view()?;
        let (k, pitch) = (slice.k(), accelerator.y_pitch() as usize);
        for row in 0..slice.rows() {
            let (row, computed) = (slice.row_mut(row), &values[row * pitch..row * pitch + k]);
            match self.chunk_scaling(chunk)?.reads_y() {
                // The device has computed alpha A X.
                true => {
                    let scaling = scaling::<T>(1.0, self.scaling.beta);
                    row.iter_mut().zip(computed).for_each(|(y, &sum)| *y = scaling.apply(sum, *y));
                }
                false => row.copy_from_slice(computed),
            }
        }
        Ok(())
    }

    fn merge_split_row(&self, index: usize) -> Result<()> {
        let split = self.job.plan().split_rows.get(index);
        let split = split.ok_or_else(|| Error::Internal(format!("the plan has no split row {index}")))?;
        self.outputs.merge_split_row(index, split, self.scaling)
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
        let none = || Error::Internal(format!("chunk {chunk} has no product on the host"));
        let mut product =
            self.products.get(chunk).ok_or_else(none)?.lock().unwrap_or_else(PoisonError::into_inner);
        if product.is_none() {
            // The chunk was planned for another device.
            *product = Some(self.job.host_product(chunk, self.settings)?);
        }
        let product = product.as_mut().ok_or_else(none)?;
        let Scaling { alpha, beta } = self.chunk_scaling(chunk)?;
        let mut slice = self.outputs.chunk(chunk)?;
        product.run_scaled(self.job.rows(chunk)?, alpha, self.x, beta, slice.view()?)
    }
}

fn misuse(fault: Fault) -> Error {
    Error::Internal(fault.message)
}

fn unaligned(error: bytemuck::PodCastError) -> Error {
    Error::Internal(format!("pinned memory is not aligned for its values: {error}"))
}
