//! Multivectors that stay where a product is computed: their rows are owned by the devices of its plan, as the rows of Y are.
//!
//! Row-wise operations run on the owner of each row. Sums over rows have a canonical order, so the same bits come out of any
//! division of the rows. Operations on devices are queued; a fault is reported by a later call.
//!
//! The rows of a lost device move to host memory if the host has their present values; [`Vectors::keep_host_copy`]. If not, they
//! are lost and every use of them is an error.

mod exchange;
mod export;
mod graph;
mod host_copy;
mod layout;
mod operand;
mod operations;
mod owners;
mod product;
mod ranks;
mod simulated;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use export::ExportedRows;
use host_copy::HostCopy;
use layout::{Layout, Part};
pub use operand::{Input, InputOperand, Output, OutputOperand, PageLocked};
pub(in crate::internal::runtime) use operand::{host_input, host_output};
pub(in crate::internal::runtime) use product::VectorProduct;
pub use ranks::MessagesOfDevices;
pub(in crate::internal::runtime) use ranks::{RankLists, Span};
use simulated::{SimulatedMachine, SimulatedMemory, no_values};
pub use simulated::{SimulatedVectors, TimeParts};

use crate::device::{DeviceFactors, DeviceRows, Fault, Memory, MemoryRange, Pinned, VectorLaunch};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::{Factor, Sum, rows};
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::runtime::devices::{Allocations, Pool};
use crate::work::pitch_bytes;

/// A multivector whose rows stay on the devices of a product; [`Product::vectors`](crate::runtime::product::Product::vectors).
pub struct Vectors<T: Kernels> {
    layout: Arc<Layout>,
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
    pub(super) fn zeros(layout: &Arc<Layout>, pool: &Arc<Pool>, k: usize) -> Result<Self> {
        let value_bytes = size_of::<T>() as u64;
        let pitch = pitch_bytes(k as u64 * value_bytes) / value_bytes;
        let part = |part: &Part| -> Result<PartData<T>> {
            let Some(device) = part.device() else {
                return Ok(PartData::Host(Mutex::new(MultiVector::zeros(layout.rows as usize, k)?)));
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
        let machine = layout.machine.as_ref();
        let simulated =
            machine.map(|machine| SimulatedMemory::allocate(machine, layout, pitch * value_bytes));
        let simulated = simulated.transpose()?;
        let real = layout.parts.iter().filter(|_| machine.is_none());
        let parts = real.map(part).collect::<Result<Vec<_>>>()?;
        let (layout, pool) = (layout.clone(), pool.clone());
        let (exchanged, host_copy) = (AtomicBool::new(false), Mutex::new(HostCopy::Value(T::ZERO)));
        let vectors = Self {
            layout,
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
            machine.row_wise(&vectors.layout, vectors.row_bytes())?;
        }
        for (index, part) in vectors.layout.parts.iter().enumerate() {
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
        let own = self.layout.own();
        (own.end - own.start) as usize
    }

    /// The number of the first row in the multivector of all ranks; 0 in a job of one process.
    pub fn first_row(&self) -> u64 {
        self.layout.ranks.as_ref().map_or(0, |ranks| ranks.span.first)
    }

    /// Number of rows of all ranks.
    pub fn total_rows(&self) -> u64 {
        self.layout.ranks.as_ref().map_or(self.layout.rows, |ranks| ranks.span.total)
    }

    /// The number of own row `row` among all rows that owners have room for.
    fn place(&self, row: usize) -> usize {
        self.layout.own().start as usize + row
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.k
    }

    /// Keeps a copy in host memory of the values that [`Self::copy_from`] and [`Self::copy_to`] copy, until an operation changes
    /// them. With it, or while all elements are equal, this multivector survives the loss of a device.
    pub fn keep_host_copy(&mut self) {
        self.keeps_copy = true;
    }

    /// Sets all elements.
    pub fn fill(&mut self, value: f64) -> Result<()> {
        // The old values have no effect.
        *lock(&self.host_copy) = HostCopy::Value(T::from_f64(value));
        self.for_each_part(
            1,
            |vectors, index, rows| {
                let rows = vectors.padded_rows(index, rows)?;
                vectors.launch(index, "fill", VectorLaunch::fill(value, rows)?, rows.memory.bytes())
            },
            |rows, mut data| {
                let range = rows.start as usize..rows.end as usize;
                rows::fill(T::from_f64(value), view_rows_mut(&mut data, range));
                Ok(())
            },
        )?;
        *lock(&self.host_copy) = HostCopy::Value(T::from_f64(value));
        Ok(())
    }

    /// Copies all rows of this rank from host memory.
    pub fn copy_from(&mut self, x: &(impl Input<T> + ?Sized)) -> Result<()> {
        let x = host_input(x, self.rows(), self.k)?;
        self.check_whole(x.rows())?;
        self.copy_rows_from(0, &x)
    }

    /// Copies rows from host memory to the rows from `first` on.
    pub fn copy_rows_from(&mut self, first: usize, x: &MultiVectorView<'_, T>) -> Result<()> {
        self.check_rows(first, x.rows(), x.k())?;
        self.exchanged.store(false, Ordering::Relaxed);
        if let Some(machine) = self.machine() {
            let rows = self.place(first) as u64..self.place(first + x.rows()) as u64;
            return machine.copy_in(&self.layout, rows, self.row_bytes());
        }
        {
            // Before the copies to devices, so that the rows of a device that is lost meanwhile are there.
            let copy = &mut *lock(&self.host_copy);
            match self.keeps_copy {
                true => self.pool.install(|| copy.store(&self.layout, self.place(first), *x))?,
                false => *copy = HostCopy::Nothing,
            }
        }
        self.surviving(|| self.copy_rows_in(first, x))
    }

    fn copy_rows_in(&self, first: usize, x: &MultiVectorView<'_, T>) -> Result<()> {
        let first = self.place(first);
        for (index, part) in self.layout.parts.iter().enumerate() {
            let rows = common(&part.own, first, x.rows());
            if rows.is_empty() {
                continue;
            }
            let from = x.rows_in(rows.start as usize - first..rows.end as usize - first);
            if rows == part.own {
                self.overwrite(index)?;
            }
            match self.data(index)? {
                RowsOf::Host(data) => {
                    let mut data = lock(data);
                    let to = view_rows_mut(&mut data, rows.start as usize..rows.end as usize);
                    self.pool.install(|| rows::copy(from, to))?;
                }
                RowsOf::Device(device) => self.upload(index, device, from, rows)?,
            }
        }
        Ok(())
    }

    /// Copies all rows of this rank to host memory.
    pub fn copy_to(&self, y: &mut (impl Output<T> + ?Sized)) -> Result<()> {
        let (rows, k) = (self.rows(), self.k);
        let y = host_output(y, rows, k)?;
        self.check_whole(y.rows())?;
        self.copy_rows_to(0, y)
    }

    /// Copies the rows from `first` on to host memory.
    pub fn copy_rows_to(&self, first: usize, mut y: MultiVectorViewMut<'_, T>) -> Result<()> {
        self.check_rows(first, y.rows(), y.k())?;
        if self.machine().is_some() {
            return Err(no_values(&self.layout));
        }
        let _reading = self.reading();
        self.surviving(|| self.copy_rows_out(first, y.reborrow()))?;
        if self.keeps_copy && y.rows() == self.rows() {
            let copy = &mut *lock(&self.host_copy);
            let (rows, leading_dimension) = (y.rows(), y.leading_dimension());
            let values = MultiVectorView::try_new(y.data_mut(), rows, self.k, leading_dimension)?;
            self.pool.install(|| copy.store(&self.layout, self.place(first), values))?;
        }
        Ok(())
    }

    fn copy_rows_out(&self, first: usize, mut y: MultiVectorViewMut<'_, T>) -> Result<()> {
        let first = self.place(first);
        for (index, part) in self.layout.parts.iter().enumerate() {
            let rows = common(&part.own, first, y.rows());
            if rows.is_empty() {
                continue;
            }
            let (_, behind) = y.reborrow().split_at_row(rows.start as usize - first);
            let (to, _) = behind.split_at_row((rows.end - rows.start) as usize);
            match self.data(index)? {
                RowsOf::Host(data) => {
                    let data = lock(data);
                    let from = data.view().rows_in(rows.start as usize..rows.end as usize);
                    self.pool.install(|| rows::copy(from, to))?;
                }
                RowsOf::Device(device) => self.download(index, device, rows, to)?,
            }
        }
        Ok(())
    }

    /// Waits until no other thread reads a multivector of this product to host memory.
    fn reading(&self) -> MutexGuard<'_, ()> {
        lock(&self.layout.reading)
    }

    /// Runs an operation that may be run again, once more for each device that was lost during it.
    fn surviving<R>(&self, mut operation: impl FnMut() -> Result<R>) -> Result<R> {
        loop {
            match operation() {
                Err(_) if self.layout.close_lost() => {}
                result => return result,
            }
        }
    }

    /// Self = alpha X + beta Self. The old values have no effect if beta rounds to zero.
    pub fn axpby(&mut self, alpha: f64, x: &Self, beta: f64) -> Result<()> {
        self.check_same(x)?;
        self.for_each_part(
            3,
            |y, index, rows| {
                let (x, y_rows) = (x.padded_rows(index, rows.clone())?, y.padded_rows(index, rows)?);
                let factors = DeviceFactors::Numbers { alpha, beta };
                let launch = VectorLaunch::axpby(factors, x, y_rows)?;
                y.launch(index, "axpby", launch, 3 * y_rows.memory.bytes())
            },
            |rows, mut y| {
                let (x, range) = (x.host_part_of(&rows)?, rows.start as usize..rows.end as usize);
                let (x, y) = (x.view().rows_in(range.clone()), view_rows_mut(&mut y, range));
                let (alpha, scaled_by) = (Factor::All(T::from_f64(alpha)), T::from_f64(beta));
                match scaled_by == T::ZERO {
                    true => rows::scaled(alpha, x, y),
                    false => rows::axpby(alpha, x, Factor::All(scaled_by), y),
                }
            },
        )
    }

    /// Multiplies all elements by `alpha`.
    pub fn scale(&mut self, alpha: f64) -> Result<()> {
        self.scale_columns(&vec![T::from_f64(alpha); self.k])
    }

    /// Multiplies each column by its own factor.
    pub fn scale_columns(&mut self, factors: &[T]) -> Result<()> {
        if factors.len() != self.k {
            return Err(Error::usage(format!("{} factors were given for {} columns", factors.len(), self.k)));
        }
        let mut padded = vec![T::ZERO; self.pitch as usize];
        padded[..self.k].copy_from_slice(factors);
        self.for_each_part(
            2,
            |y, index, rows| {
                let y_rows = y.padded_rows(index, rows)?;
                let memory = y.upload_numbers(index, &padded)?;
                let launch = VectorLaunch::scale(DeviceFactors::Columns(memory), y_rows)?;
                y.launch(index, "scale", launch, 2 * y_rows.memory.bytes())
            },
            |rows, mut y| {
                let range = rows.start as usize..rows.end as usize;
                rows::scale(Factor::Columns(factors), view_rows_mut(&mut y, range))
            },
        )
    }

    /// For each column the sum of the products of the elements of both multivectors.
    pub fn dot(&self, other: &Self) -> Result<Vec<T>> {
        self.sum(Sum::Dot, other)
    }

    /// The Euclidean norm of each column.
    pub fn norm(&self) -> Result<Vec<T>> {
        let squares = self.dot(self)?;
        Ok(squares.into_iter().map(|square| T::from_f64(square.to_f64().sqrt())).collect())
    }

    /// The products of all pairs of columns, Selfᵀ Other: a K × K matrix, by rows.
    pub fn gram(&self, other: &Self) -> Result<MultiVector<T>> {
        let values = self.sum(Sum::Gram, other)?;
        MultiVector::from_fn(self.k, self.k, |row, column| values[row * self.k + column])
    }

    /// Y = Self S, with a K × K matrix S.
    pub fn times(&self, s: &MultiVector<T>, y: &mut Self) -> Result<()> {
        y.check_same(self)?;
        if s.rows() != self.k || s.k() != self.k {
            return Err(Error::usage(format!(
                "a multivector of {} columns is multiplied by a {} x {} matrix",
                self.k,
                s.rows(),
                s.k()
            )));
        }
        // With the padding of rows as columns of S, the padding of Y is written too.
        let pitch = self.pitch as usize;
        let mut padded = vec![T::ZERO; self.k * pitch];
        for (row, to) in padded.chunks_exact_mut(pitch).enumerate() {
            to[..self.k].copy_from_slice(s.row(row));
        }
        y.for_each_part(
            2,
            |y, index, rows| {
                let (x, y_rows) = (self.own_rows(index, rows.clone())?, y.padded_rows(index, rows)?);
                let memory = y.upload_numbers(index, &padded)?;
                let (columns, leading_dimension) = (y.pitch, y.pitch);
                let (dtype, rows) = (T::DTYPE, y.k as u64);
                let small = DeviceRows { dtype, memory, rows, columns, leading_dimension };
                let launch = VectorLaunch::times(x, small, 0.0, y_rows)?;
                y.launch(index, "times", launch, 2 * y_rows.memory.bytes())
            },
            |rows, mut y| {
                let range = rows.start as usize..rows.end as usize;
                let x = self.host_part_of(&rows)?;
                rows::times(x.view().rows_in(range.clone()), s.view(), None, view_rows_mut(&mut y, range))
            },
        )
    }

    /// Waits until all operations on this multivector's devices have ended; a fault of any of them is an error.
    pub fn synchronize(&self) -> Result<()> {
        for part in &self.layout.parts {
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
    let small = k * pitch;
    let copies = COPY_BYTES.min(rows * pitch * value).max(pitch * value);
    (gram.max(dot).max(small) * value).max(copies)
}

/// The rows from `first` on, `count` of them, that are in `own`.
fn common(own: &Range<u64>, first: usize, count: usize) -> Range<u64> {
    let (first, end) = (first as u64, (first + count) as u64);
    let begin = own.start.max(first);
    begin..own.end.min(end).max(begin)
}

fn view_rows_mut<T: Kernels>(data: &mut MultiVector<T>, rows: Range<usize>) -> MultiVectorViewMut<'_, T> {
    let (_, behind) = data.view_mut().split_at_row(rows.start);
    behind.split_at_row(rows.len()).0
}

fn lock<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part that does not exist, or that is elsewhere.
fn missing_part() -> Error {
    Error::Internal("a multivector has no such part".into())
}

/// The rows of a device that was lost together with them.
fn rows_lost(part: &Part) -> Error {
    let reason = "the device was lost, and the host has no copy of its rows of a multivector; keep_host_copy makes one";
    Error::Device { device: part.name.clone(), reason: reason.into() }
}

fn misuse(fault: Fault) -> Error {
    Error::Internal(fault.message)
}

fn unaligned(error: bytemuck::PodCastError) -> Error {
    Error::Internal(format!("pinned memory is not aligned for its values: {error}"))
}
