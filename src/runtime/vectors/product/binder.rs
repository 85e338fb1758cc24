//! Builds the operations of a product on vectors: which rows are packed, copied, stored and computed.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::device::{MemoryRange, Operation};
use crate::error::{Error, Result};
use crate::exec::{Binder, HeldSlots};
use crate::graph::{TaskId, TaskKind};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorViewMut};
use crate::plan::{Item, XPlan};
use crate::runtime::job::Scaling;
use crate::runtime::run::Planned;
use crate::runtime::spmm::{PreparedProduct, VectorOperands};
use crate::runtime::vectors::exchange::{ArrivalMemory, DepartureMemory, ExchangeMemory, OwnedChunk};
use crate::runtime::vectors::{RowsOf, Vectors, lock};

/// The product that the tasks of one run compute.
pub struct ProductRun<'r, 'a, T: Kernels> {
    pub prepared: &'r PreparedProduct<'a, T>,
    pub chunks: &'r [OwnedChunk],
    pub messages: &'r ExchangeMemory,
    pub departures: &'r [DepartureMemory],
    pub arrivals: &'r [ArrivalMemory],
    pub x: &'r Vectors<T>,
    pub y: &'r Vectors<T>,
    pub scaling: Scaling,
}

impl<T: Kernels> ProductRun<'_, '_, T> {
    /// The launch of a chunk of a device. If `interior`, it reads only rows of X that the device owns.
    pub fn launch(&self, chunk: usize, interior: bool) -> Result<Operation<'static>> {
        let owned = self.chunks.get(chunk).ok_or_else(no_chunk)?;
        let part = self.x.distribution.parts.get(owned.owner).ok_or_else(no_chunk)?;
        let columns = self.prepared.plan().devices.get(part.index).map(|device| device.x);
        let first = match columns {
            Some(XPlan::Columns { first, .. }) => first.max(part.held.start),
            _ => part.held.start,
        };
        let own = part.own.start.max(first)..part.own.end.max(first);
        let x_part: Option<MemoryRange> = match interior {
            true => Some(self.x.own_rows(owned.owner, own)?.memory),
            false => None,
        };
        let x = self.x.own_rows(owned.owner, first..part.held.end)?;
        let y = self.y.own_rows(owned.owner, owned.stored.clone())?;
        let Scaling { alpha, beta } = self.scaling;
        self.prepared.chunk_launch(chunk, &VectorOperands { x, x_part, y, alpha, beta })
    }
}

/// The rows of multivectors in host memory, locked for one run.
///
/// The graph orders the tasks that use them, so a task never waits for one of the locks inside.
pub struct HostRows<'r, T: Kernels> {
    /// For each owner that is the host its memory of X.
    x: Vec<Option<RwLock<&'r mut MultiVector<T>>>>,
    /// For each chunk of the host its rows of Y.
    y: Vec<Option<Mutex<MultiVectorViewMut<'r, T>>>>,
}

/// The memory of each owner that is the host, locked.
pub type HostGuards<'r, T> = Vec<Option<MutexGuard<'r, MultiVector<T>>>>;

/// Locks the memory of the owners that are the host.
pub fn lock_host_rows<T: Kernels>(vectors: &Vectors<T>) -> Result<HostGuards<'_, T>> {
    let guard = |index| match vectors.data(index)? {
        RowsOf::Host(data) => Ok(Some(lock(data))),
        RowsOf::Device(_) => Ok(None),
    };
    (0..vectors.distribution.parts.len()).map(guard).collect()
}

impl<'r, T: Kernels> HostRows<'r, T> {
    /// The rows of X and Y, which are divided by `chunks`.
    pub fn new(x: &'r mut HostGuards<'_, T>, y: &'r mut HostGuards<'_, T>, chunks: &[OwnedChunk]) -> Self {
        let x = x.iter_mut().map(|guard| guard.as_deref_mut().map(RwLock::new)).collect();
        let mut of_chunks: Vec<_> = chunks.iter().map(|_| None).collect();
        for (owner, guard) in y.iter_mut().enumerate() {
            let Some(data) = guard.as_deref_mut() else { continue };
            let (mut rest, mut begin) = (data.view_mut(), 0);
            for (index, chunk) in chunks.iter().enumerate().filter(|(_, chunk)| chunk.owner == owner) {
                let (start, end) = (chunk.stored.start as usize, chunk.stored.end as usize);
                let (_, behind) = rest.split_at_row(start - begin);
                let (rows, after) = behind.split_at_row(end - start);
                of_chunks[index] = Some(Mutex::new(rows));
                (rest, begin) = (after, end);
            }
        }
        Self { x, y: of_chunks }
    }

    fn x(&self, owner: usize) -> Result<&RwLock<&'r mut MultiVector<T>>> {
        self.x.get(owner).and_then(Option::as_ref).ok_or_else(no_chunk)
    }
}

/// Binds the tasks of one graph.
pub struct VectorBinder<'scope, 'r, 'a, T: Kernels> {
    pub run: &'scope ProductRun<'r, 'a, T>,
    pub host: &'scope HostRows<'r, T>,
    /// For each chunk whether it has interior rows only.
    pub interior: &'scope [bool],
    pub planned: &'scope Planned,
}

impl<'scope, T: Kernels> Binder<'scope> for VectorBinder<'scope, '_, '_, T> {
    fn operation(&mut self, task: TaskId, _slots: &HeldSlots) -> Result<Operation<'scope>> {
        let Self { run, host, interior, planned } = *self;
        let (task, item, _) = planned.task(task)?;
        let pitch = run.x.pitch as usize;
        let messages = run.messages;
        match (item, task.kind) {
            (Item::ToRank { message, .. }, kind) => {
                let memory = run.departures.get(message as usize).ok_or_else(no_message)?;
                match kind {
                    TaskKind::Stage => {
                        let x = host.x(memory.from())?;
                        Ok(Operation::Job(Box::new(move || {
                            memory.pack(x.read().unwrap_or_else(PoisonError::into_inner).view())
                        })))
                    }
                    TaskKind::Kernel => memory.gather(run.x),
                    TaskKind::Download => memory.download(run.x),
                    _ => Ok(memory.send()),
                }
            }
            (Item::FromRank { message, to, .. }, kind) => {
                let memory = run.arrivals.get(message as usize).ok_or_else(no_message)?;
                match kind {
                    TaskKind::Merge => {
                        let x = host.x(to as usize)?;
                        Ok(Operation::Job(Box::new(move || {
                            memory.unpack(x.write().unwrap_or_else(PoisonError::into_inner).view_mut())
                        })))
                    }
                    TaskKind::Upload => memory.upload(run.x, to as usize),
                    TaskKind::Kernel => memory.store(run.x),
                    _ => Ok(memory.receive()),
                }
            }
            (Item::Sent(number), TaskKind::Stage) => {
                let memory = messages.message(number)?;
                let x = host.x(memory.from())?;
                Ok(Operation::Job(Box::new(move || {
                    memory.pack(x.read().unwrap_or_else(PoisonError::into_inner).view(), pitch)
                })))
            }
            (Item::Sent(number), TaskKind::Kernel) => messages.gather(number, run.x),
            (Item::Sent(number), _) => messages.message(number)?.download(),
            (Item::Received(number), TaskKind::Merge) => {
                let memory = messages.message(number)?;
                let x = host.x(memory.to())?;
                Ok(Operation::Job(Box::new(move || {
                    memory.unpack(x.write().unwrap_or_else(PoisonError::into_inner).view_mut(), pitch)
                })))
            }
            (Item::Received(number), TaskKind::PeerCopy) => messages.message(number)?.peer_copy(run.x),
            (Item::Received(number), TaskKind::Upload) => messages.message(number)?.upload(),
            (Item::Received(number), _) => messages.scatter(number, run.x),
            (Item::Chunk(chunk), TaskKind::CpuCompute) => {
                let chunk = chunk as usize;
                let owner = run.chunks.get(chunk).ok_or_else(no_chunk)?.owner;
                let x = host.x(owner)?;
                let y = host.y.get(chunk).and_then(Option::as_ref).ok_or_else(no_chunk)?;
                Ok(Operation::Job(Box::new(move || {
                    let x = x.read().unwrap_or_else(PoisonError::into_inner);
                    let mut y = lock(y);
                    run.prepared.compute_on_host(chunk, run.scaling, x.view(), y.reborrow())
                })))
            }
            (Item::Chunk(chunk), _) => {
                let chunk = chunk as usize;
                run.launch(chunk, interior.get(chunk) == Some(&true))
            }
            (Item::X { .. } | Item::SplitRow(_) | Item::ChunkPart { .. } | Item::PartialSums { .. }, _) => {
                Err(Error::Internal("a product on vectors copies no X and divides no row".into()))
            }
        }
    }
}

fn no_message() -> Error {
    Error::Internal("a product has no such message between ranks".into())
}

fn no_chunk() -> Error {
    Error::Internal("a chunk of a product on vectors has no owner".into())
}
