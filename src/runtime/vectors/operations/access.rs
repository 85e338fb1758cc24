//! Access to the rows of a multivector: on which owner they are, and operations on the rows of every owner.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::device::{DeviceRows, Fence, LaunchWithCopies, MemoryRange, Operation, VectorLaunch};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::MultiVector;
use crate::runtime::devices::{COMPUTE, Submission};
use crate::runtime::vectors::errors::{missing_part, rows_lost};
use crate::runtime::vectors::host_copy::HostCopy;
use crate::runtime::vectors::{DevicePart, PartData, RowsOf, Vectors, lock};

/// Numbers that are written to a device's memory before a launch, and their place.
pub(crate) type Numbers = Option<(Vec<u8>, MemoryRange)>;

impl<T: Kernels> Vectors<T> {
    /// Runs an operation on the own rows of every part, which reads and writes `passes` times their bytes: `on_device` queues it,
    /// `on_host` computes it.
    pub(crate) fn for_each_part(
        &mut self,
        passes: u64,
        on_device: impl Fn(&Self, usize, Range<u64>) -> Result<()>,
        on_host: impl Fn(Range<u64>, MutexGuard<'_, MultiVector<T>>) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        self.exchanged.store(false, Ordering::Relaxed);
        if let Some(machine) = self.machine() {
            return machine.row_wise(&self.distribution, passes * self.row_bytes());
        }
        let owners = || self.distribution.parts.iter().enumerate().filter(|(_, part)| !part.own.is_empty());
        let run = || -> Result<()> {
            for (index, part) in owners() {
                if let RowsOf::Device(_) = self.data(index)?
                    && let Err(error) = on_device(self, index, part.own.clone())
                    && !part.close_if_lost()
                {
                    return Err(error);
                }
            }
            for (index, part) in owners() {
                if let RowsOf::Host(data) = self.data(index)? {
                    self.pool.install_spinning(|| on_host(part.own.clone(), lock(data)))?;
                }
            }
            Ok(())
        };
        let result = run();
        *lock(&self.host_copy) = HostCopy::Nothing;
        result
    }

    /// An operation has changed the values on their owners.
    pub(crate) fn changed(&mut self) {
        self.exchanged.store(false, Ordering::Relaxed);
        *lock(&self.host_copy) = HostCopy::Nothing;
    }

    /// The rows of an owner where they are now: those of a lost device in host memory, if the host had a copy of them.
    pub(crate) fn data(&self, index: usize) -> Result<RowsOf<'_, T>> {
        let (Some(data), Some(part)) = (self.parts.get(index), self.distribution.parts.get(index)) else {
            return Err(missing_part());
        };
        match data {
            PartData::Host(data) => Ok(RowsOf::Host(data)),
            PartData::Device(device) if part.device().is_some() => Ok(RowsOf::Device(device)),
            PartData::Device(DevicePart { moved, .. }) => {
                if let Some(data) = moved.get() {
                    return Ok(RowsOf::Host(data));
                }
                if self.is_exported.load(Ordering::Relaxed) {
                    return Err(rows_lost(&part.name));
                }
                let own = part.own.start as usize..part.own.end as usize;
                let shape = (self.distribution.rows as usize, self.k);
                let restored = lock(&self.host_copy).restored(shape, own)?;
                let restored = restored.ok_or_else(|| rows_lost(&part.name))?;
                Ok(RowsOf::Host(moved.get_or_init(|| Mutex::new(restored))))
            }
        }
    }

    /// Prepares an owner whose rows will all be overwritten: those of a lost device are in host memory afterwards.
    pub(crate) fn overwrite(&self, index: usize) -> Result<()> {
        if let (Some(PartData::Device(device)), Some(part)) =
            (self.parts.get(index), self.distribution.parts.get(index))
            && part.device().is_none()
            && device.moved.get().is_none()
        {
            let zeros = MultiVector::zeros(self.distribution.rows as usize, self.k)?;
            device.moved.get_or_init(|| Mutex::new(zeros));
        }
        Ok(())
    }

    /// An error if an operation of the product has failed on the device of a part since its rows were allocated: they may be wrong.
    pub(crate) fn check_faults(&self, index: usize) -> Result<()> {
        let (Some(PartData::Device(held)), Some(part)) =
            (self.parts.get(index), self.distribution.parts.get(index))
        else {
            return Ok(());
        };
        let found = part.operations.check_faults_after(held.faults_before);
        found.map_err(|fault| fault.into_error(&part.name))
    }

    /// The rows `rows` of a part's device, with the padding of rows as columns.
    pub(crate) fn padded_rows(&self, index: usize, rows: Range<u64>) -> Result<DeviceRows> {
        Ok(DeviceRows { columns: self.pitch, ..self.own_rows(index, rows)? })
    }

    /// The rows `rows` of a part's device.
    pub(crate) fn own_rows(&self, index: usize, rows: Range<u64>) -> Result<DeviceRows> {
        let (Some(PartData::Device(device)), Some(part)) =
            (self.parts.get(index), self.distribution.parts.get(index))
        else {
            return Err(missing_part());
        };
        self.check_faults(index)?;
        let row_bytes = self.pitch * size_of::<T>() as u64;
        let place = |row: u64| (row - part.held.start) * row_bytes;
        let memory = MemoryRange { memory: device.rows, begin: place(rows.start), end: place(rows.end) };
        let (columns, leading_dimension) = (self.k as u64, self.pitch);
        Ok(DeviceRows { dtype: T::DTYPE, memory, rows: rows.end - rows.start, columns, leading_dimension })
    }

    pub(crate) fn launch(
        &self,
        index: usize,
        name: &'static str,
        launch: VectorLaunch,
        bytes: u64,
    ) -> Result<()> {
        self.queue(index, name, Operation::VectorLaunch(launch), bytes).map(drop)
    }

    /// The same, for a kernel that reads `numbers`, which are written before it.
    pub(crate) fn launch_with_numbers(
        &self,
        index: usize,
        name: &'static str,
        numbers: Numbers,
        launch: VectorLaunch,
        bytes: u64,
    ) -> Result<()> {
        if numbers.is_none() {
            return self.launch(index, name, launch, bytes);
        }
        let launch = LaunchWithCopies { numbers, launch: Some(launch), download: None };
        self.queue(index, name, Operation::LaunchWithCopies(Box::new(launch)), bytes).map(drop)
    }

    /// Queues an operation that moves `bytes` bytes of the memory of a part's device.
    pub(crate) fn queue(
        &self,
        index: usize,
        name: &'static str,
        operation: Operation<'static>,
        bytes: u64,
    ) -> Result<Fence> {
        let part = &self.distribution.parts[index];
        let Some(device) = part.device() else { return Err(missing_part()) };
        let mut device = device.lock();
        let queued = device.submit(
            Submission::new(&part.operations, name, COMPUTE, part.predicted_s(bytes)),
            operation,
            &[],
        );
        queued.map_err(|fault| fault.into_error(&part.name))
    }

    /// Numbers that are written to the first bytes of `memory`; `None` without numbers.
    pub(crate) fn numbers_at(&self, memory: MemoryRange, numbers: &[T]) -> Numbers {
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        let to = MemoryRange { end: memory.begin + bytes.len() as u64, ..memory };
        (!bytes.is_empty()).then(|| (bytes.to_vec(), to))
    }

    /// The first bytes of a part's scratch memory, which have room for `count` numbers.
    pub(crate) fn scratch_numbers(&self, index: usize, count: usize) -> Result<MemoryRange> {
        let RowsOf::Device(device) = self.data(index)? else { return Err(missing_part()) };
        Ok(MemoryRange { end: (count * size_of::<T>()) as u64, ..device.scratch })
    }

    pub(crate) fn host_part(&self, index: usize) -> Result<MutexGuard<'_, MultiVector<T>>> {
        match self.data(index)? {
            RowsOf::Host(data) => Ok(lock(data)),
            RowsOf::Device(_) => Err(missing_part()),
        }
    }

    /// The host's part, which owns `rows`.
    pub(crate) fn host_part_of(&self, rows: &Range<u64>) -> Result<MutexGuard<'_, MultiVector<T>>> {
        self.host_part(self.distribution.owner(rows.start))
    }

    pub(crate) fn check_whole(&self, rows: usize) -> Result<()> {
        if rows == self.rows() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{rows} rows are copied whole to or from a multivector of {} rows",
            self.rows()
        )))
    }

    pub(crate) fn check_rows(&self, first: usize, rows: usize, k: usize) -> Result<()> {
        if first.checked_add(rows).is_some_and(|end| end <= self.rows()) && k == self.k {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{rows} rows of {k} columns from row {first} on do not fit in {} rows of {} columns",
            self.rows(),
            self.k
        )))
    }

    pub(crate) fn check_same(&self, other: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.distribution, &other.distribution) && self.k == other.k {
            return Ok(());
        }
        Err(Error::usage("the multivectors belong to different products or have different shapes"))
    }
}
