//! Multivectors that stay where a product is computed: their rows are owned by the devices of its plan, as the rows of Y are.
//!
//! Row-wise operations run on the owner of each row. Sums over rows have a canonical order, so the same bits come out of any
//! division of the rows. Operations on devices are queued; a fault is reported by a later call.
//!
//! The rows of a lost device move to host memory if the host has their present values; [`Vectors::keep_host_copy`]. If not, they
//! are lost and every use of them is an error.

mod coefficient;
mod errors;
mod exchange;
mod export;
mod graph;
mod host_copy;
mod operand;
mod operations;
mod owners;
mod product;
mod ranks;
mod row_distribution;
mod scalars;
mod simulated;
mod simulated_machine;
mod simulated_memory;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use coefficient::Coefficient;
pub use export::ExportedRows;
use host_copy::HostCopy;
pub use operand::{Input, InputOperand, Output, OutputOperand, PageLocked};
pub(in crate::internal::runtime) use operand::{host_input, host_output};
pub(in crate::internal::runtime) use product::VectorProduct;
pub use ranks::MessagesOfDevices;
pub(in crate::internal::runtime) use ranks::{RankLists, Span};
use row_distribution::{Part, RowDistribution};
pub use scalars::Scalars;
pub use simulated::{SimulatedVectors, TimeParts};
use simulated_machine::SimulatedMachine;
use simulated_memory::SimulatedMemory;

use crate::device::{Fault, Memory, MemoryRange, Pinned, VectorLaunch};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::Sum;
use crate::matrix::MultiVector;
use crate::runtime::devices::{Allocations, Pool};
use crate::work::pitch_bytes;

/// A multivector whose rows stay on the devices of a product; [`Product::vectors`](crate::runtime::Product::vectors).
pub struct Vectors<T: Kernels> {
    distribution: Arc<RowDistribution>,
    pool: Arc<Pool>,
    k: usize,
    /// Distance between rows on devices, in elements.
    pitch: u64,
    parts: Vec<PartData<T>>,
    /// Whether the rows of other owners are copies of their present values.
    exchanged: AtomicBool,
    /// Whether values that are copied from or to the host are kept there.
    keeps_copy: bool,
    host_copy: Mutex<HostCopy<T>>,
    /// Whether another library may write the rows, unnoticed.
    is_exported: AtomicBool,
    /// The memory of simulated devices, which have no values.
    simulated: Option<SimulatedMemory>,
}

/// The rows of one owner.
enum PartData<T: Kernels> {
    /// All rows of the multivector, of which some are valid.
    Host(Mutex<MultiVector<T>>),
    Device(DevicePart<T>),
}

/// The rows of one owner where they are now.
pub(crate) enum RowsOf<'v, T: Kernels> {
    Host(&'v Mutex<MultiVector<T>>),
    Device(&'v DevicePart<T>),
}

/// Rows in the memory of a device.
pub(crate) struct DevicePart<T: Kernels> {
    rows: Memory,
    /// Room for partial results, factors and small matrices.
    scratch: MemoryRange,
    /// Page-locked memory of the same size.
    pinned: Pinned,
    allocations: Allocations,
    /// The number of faults of the product's operations when the rows were allocated: a later one may have had an effect on them.
    faults_before: usize,
    /// The rows in host memory after the loss of the device.
    moved: OnceLock<Mutex<MultiVector<T>>>,
}

impl<T: Kernels> Vectors<T> {
    /// A multivector of zeros.
    pub(super) fn zeros(distribution: &Arc<RowDistribution>, pool: &Arc<Pool>, k: usize) -> Result<Self> {
        let value_bytes = size_of::<T>() as u64;
        let pitch = pitch_bytes(k as u64 * value_bytes) / value_bytes;
        let part = |part: &Part| -> Result<PartData<T>> {
            let Some(device) = part.device() else {
                return Ok(PartData::Host(Mutex::new(MultiVector::zeros(distribution.rows as usize, k)?)));
            };
            // The faults of operations in flight belong to the multivectors that are there.
            device.lock().drain().map_err(|fault| fault.into_error(&part.name))?;
            let faults_before = part.operations.fault_count();
            let held = part.held.end - part.held.start;
            let scratch_bytes = scratch_bytes::<T>(part, k as u64, pitch);
            let mut allocations = Allocations::on(device);
            let mut allocate = || -> std::result::Result<(Memory, Memory, Pinned), Fault> {
                let rows = allocations.allocate(held * pitch * value_bytes)?;
                let scratch = allocations.allocate(scratch_bytes)?;
                Ok((rows, scratch, allocations.allocate_pinned(scratch_bytes)?))
            };
            let (rows, scratch, pinned) = allocate().map_err(|fault| fault.into_error(&part.name))?;
            let scratch = MemoryRange { memory: scratch, begin: 0, end: scratch_bytes };
            let moved = OnceLock::new();
            Ok(PartData::Device(DevicePart { rows, scratch, pinned, allocations, faults_before, moved }))
        };
        let machine = distribution.machine.as_ref();
        let simulated =
            machine.map(|machine| SimulatedMemory::allocate(machine, distribution, pitch * value_bytes));
        let simulated = simulated.transpose()?;
        let real = distribution.parts.iter().filter(|_| machine.is_none());
        let parts = real.map(part).collect::<Result<Vec<_>>>()?;
        let (distribution, pool) = (distribution.clone(), pool.clone());
        let (exchanged, host_copy) = (AtomicBool::new(false), Mutex::new(HostCopy::Value(T::ZERO)));
        let vectors = Self {
            distribution,
            pool,
            k,
            pitch,
            parts,
            exchanged,
            keeps_copy: false,
            host_copy,
            is_exported: AtomicBool::new(false),
            simulated,
        };
        if let Some(machine) = vectors.machine() {
            machine.row_wise(&vectors.distribution, vectors.row_bytes())?;
        }
        for (index, part) in vectors.distribution.parts.iter().enumerate() {
            if matches!(vectors.parts.get(index), Some(PartData::Device(_))) {
                let all = vectors.padded_rows(index, part.held.clone())?;
                vectors.launch(index, "fill", VectorLaunch::fill(0.0, all)?, all.memory.bytes())?;
            }
        }
        Ok(vectors)
    }

    /// The simulated devices, if the owners are simulated.
    fn machine(&self) -> Option<&SimulatedMachine> {
        self.simulated.as_ref().map(SimulatedMemory::machine)
    }

    /// Bytes from one row to the next on a device.
    fn row_bytes(&self) -> u64 {
        self.pitch * size_of::<T>() as u64
    }

    /// Number of rows. Of a multivector that spans ranks, those of this rank.
    pub fn rows(&self) -> usize {
        let own = self.distribution.own();
        (own.end - own.start) as usize
    }

    /// The number of the first row in the multivector of all ranks; 0 in a job of one process.
    pub fn first_row(&self) -> u64 {
        self.distribution.ranks.as_ref().map_or(0, |ranks| ranks.span.first)
    }

    /// Number of rows of all ranks.
    pub fn total_rows(&self) -> u64 {
        self.distribution.ranks.as_ref().map_or(self.distribution.rows, |ranks| ranks.span.total)
    }

    /// The number of own row `row` among all rows that owners have room for.
    fn place(&self, row: usize) -> usize {
        self.distribution.own().start as usize + row
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.k
    }

    /// Waits until all operations on this multivector's devices have ended; a fault of any of them is an error.
    pub fn synchronize(&self) -> Result<()> {
        for part in &self.distribution.parts {
            if let Some(device) = part.device() {
                device.lock().drain().map_err(|fault| fault.into_error(&part.name))?;
            }
        }
        (0..self.parts.len()).try_for_each(|index| self.check_faults(index))
    }
}

/// Bytes of scratch memory of a part: partial results of `gram`, a small matrix, and a piece of rows for copies.
fn scratch_bytes<T: Kernels>(part: &Part, k: u64, pitch: u64) -> u64 {
    /// Pieces of copies are at least this large.
    const COPY_BYTES: u64 = 4 << 20;
    let rows = part.own.end - part.own.start;
    let value = size_of::<T>() as u64;
    let gram = rows.div_ceil(Sum::Gram.block_rows()) * Sum::Gram.length(k, k);
    let dot = rows.div_ceil(Sum::Dot.block_rows()) * Sum::Dot.length(k, k);
    // A small matrix, or the factors of X and of Y.
    let small = k.max(2) * pitch;
    let copies = COPY_BYTES.min(rows * pitch * value).max(pitch * value);
    (gram.max(dot).max(small) * value).max(copies)
}

fn lock<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}
