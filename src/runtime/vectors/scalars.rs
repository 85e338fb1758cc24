//! Numbers, one for each column, that stay where a product is computed: sums over rows that later operations take as factors.
//!
//! If one device has all rows, the numbers are in its memory, and neither the sum that writes them nor an operation that takes them
//! waits. Otherwise they are in host memory, and a sum waits for the owners of its rows.

use std::sync::{Arc, Mutex};

use super::errors::{missing_part, misuse, scalars_lost, unaligned};
use super::row_distribution::RowDistribution;
use super::simulated_memory::no_values;
use super::{PartData, Vectors, lock};
use crate::device::{
    Fault, HostTransfer, LaunchWithCopies, Memory, MemoryRange, Operation, Pinned, PinnedRange, VectorLaunch,
};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::runtime::devices::{Allocations, COMPUTE, OpenDevice, Submission};

/// Predicted seconds of a copy of a few numbers.
const COPY_S: f64 = 1e-5;

/// One number for each column of the vectors of a product; [`Vectors::scalars`] makes them.
///
/// [`Vectors::dot_into`] and [`Vectors::norm_into`] write them. [`Vectors::axpby`] and [`Vectors::scale`] take them as factors:
/// `&a`, `-&a`, `2.0 * &a`, `&a / &b`, `1.0 / &a`. A division by zero is infinite or not a number, as in IEEE 754.
pub struct Scalars<T: Kernels> {
    distribution: Arc<RowDistribution>,
    k: usize,
    device: Option<DeviceScalars>,
    present: Mutex<Present<T>>,
}

/// Where the present values are.
enum Present<T> {
    Host(Vec<T>),
    Device,
}

/// Numbers in the memory of the only device of a product.
struct DeviceScalars {
    /// The device, as an index of the owners.
    index: usize,
    /// A number for each element of a padded row.
    numbers: MemoryRange,
    /// The counter of [`VectorLaunch::dot_total`].
    ended: MemoryRange,
    pinned: Pinned,
    allocations: Allocations,
    /// The number of faults of the product's operations when the memory was allocated.
    faults_before: usize,
}

impl<T: Kernels> Scalars<T> {
    /// The numbers, in the order of columns. Waits for the operations that compute them.
    pub fn values(&self) -> Result<Vec<T>> {
        if self.distribution.machine.is_some() {
            return Err(no_values(&self.distribution));
        }
        // Held during the copy, since all readers use the same page-locked memory.
        match &*lock(&self.present) {
            Present::Host(values) => Ok(values.clone()),
            Present::Device => self.download(),
        }
    }

    fn download(&self) -> Result<Vec<T>> {
        let Some(DeviceScalars { index, numbers, pinned, allocations, faults_before, .. }) = &self.device
        else {
            return Err(missing_part());
        };
        let part = self.distribution.parts.get(*index).ok_or_else(missing_part)?;
        if part.device().is_none() {
            return Err(scalars_lost(&part.name));
        }
        let fault = |fault: Fault| fault.into_error(&part.name);
        let bytes = (self.k * size_of::<T>()) as u64;
        let host = PinnedRange { pinned: pinned.clone(), begin: 0, end: bytes };
        let from = MemoryRange { end: numbers.begin + bytes, ..*numbers };
        let download = Some(HostTransfer::whole(host, from));
        let copy = LaunchWithCopies { numbers: None, launch: None, download };
        let copy = Operation::LaunchWithCopies(Box::new(copy));
        let mut device = allocations.device().lock();
        let copied = device
            .submit(Submission::new(&part.operations, "scalars", COMPUTE, COPY_S), copy, &[])
            .map_err(fault)?;
        device.wait(copied).map_err(fault)?;
        drop(device);
        part.operations.check_faults_after(*faults_before).map_err(fault)?;
        let bytes = pinned.read().map_err(misuse)?;
        let numbers: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        Ok(numbers.iter().take(self.k).copied().collect())
    }

    /// An error unless these are the numbers of vectors of the same product and number of columns.
    pub(super) fn check_same(&self, vectors: &Vectors<T>) -> Result<()> {
        let (own, other) = (&self.distribution, &vectors.distribution);
        let owner =
            |distribution: &RowDistribution| distribution.parts.first().map(|part| part.operations.clone());
        // The X and the Y of a product have different owners of rows, whose operations belong to the product.
        let is_same = Arc::ptr_eq(own, other)
            || owner(own).zip(owner(other)).is_some_and(|(own, other)| Arc::ptr_eq(&own, &other));
        if is_same && self.k == vectors.k {
            return Ok(());
        }
        Err(Error::usage(
            "the scalars and the multivector belong to different products or numbers of columns",
        ))
    }

    /// The numbers in the memory of `device`, one for each element of a padded row; `None` if they are elsewhere.
    pub(super) fn on_device(&self, device: &Arc<OpenDevice>) -> Option<MemoryRange> {
        let own = self.device.as_ref()?;
        let is_there =
            Arc::ptr_eq(own.allocations.device(), device) && matches!(*lock(&self.present), Present::Device);
        is_there.then_some(own.numbers)
    }
}

impl<T: Kernels> Vectors<T> {
    /// A zero for each column, where the rows are. Waits for all operations of the product.
    pub fn scalars(&self) -> Result<Scalars<T>> {
        let device = self.only_owner().map(|index| self.device_scalars(index)).transpose()?;
        let present = match device {
            Some(_) => Present::Device,
            None => Present::Host(vec![T::ZERO; self.k]),
        };
        Ok(Scalars {
            distribution: self.distribution.clone(),
            k: self.k,
            device,
            present: Mutex::new(present),
        })
    }

    /// Writes the sums of [`Self::dot`] to `sums`. If one device has all rows, this does not wait.
    pub fn dot_into(&self, other: &Self, sums: &mut Scalars<T>) -> Result<()> {
        self.sum_into(other, sums, false)
    }

    /// Writes the norms of [`Self::norm`] to `norms`. If one device has all rows, this does not wait.
    pub fn norm_into(&self, norms: &mut Scalars<T>) -> Result<()> {
        self.sum_into(self, norms, true)
    }

    /// [`Self::dot_into`], or [`Self::norm_into`] with `roots`, for callers that share the scalars.
    #[doc(hidden)]
    pub fn sum_into(&self, other: &Self, to: &Scalars<T>, roots: bool) -> Result<()> {
        self.check_same(other)?;
        to.check_same(self)?;
        if let Some(machine) = self.machine() {
            return machine.row_wise(&self.distribution, 2 * self.row_bytes());
        }
        if let (Some(index), Some(device)) = (self.only_owner(), &to.device) {
            match self.queue_total(index, other, device, roots) {
                Ok(()) => {
                    *lock(&to.present) = Present::Device;
                    return Ok(());
                }
                // The host may have the rows of a lost device.
                Err(_) if self.distribution.close_lost() => {}
                Err(error) => return Err(error),
            }
        }
        let sums = if roots { self.norm() } else { self.dot(other) };
        *lock(&to.present) = Present::Host(sums?);
        Ok(())
    }

    /// The device that has all rows of all ranks, as an index of the owners.
    pub(super) fn only_owner(&self) -> Option<usize> {
        let ranks = self.distribution.ranks.as_ref();
        let spans_ranks = ranks.is_some_and(|ranks| ranks.communicator.size() > 1);
        let mut owners = self.distribution.parts.iter().enumerate().filter(|(_, part)| !part.own.is_empty());
        let (index, part) = owners.next()?;
        let is_device = matches!(self.parts.get(index), Some(PartData::Device(_))) && part.device().is_some();
        (is_device && !spans_ranks && owners.next().is_none()).then_some(index)
    }

    fn device_scalars(&self, index: usize) -> Result<DeviceScalars> {
        let part = self.distribution.parts.get(index).ok_or_else(missing_part)?;
        let device = part.device().ok_or_else(missing_part)?;
        let fault = |fault: Fault| fault.into_error(&part.name);
        // The faults of operations in flight belong to the multivectors that are there.
        device.lock().drain().map_err(fault)?;
        let faults_before = part.operations.fault_count();
        // A division by the padding gives a number. The counter follows the numbers.
        let mut first = vec![T::ZERO; self.pitch as usize];
        first.iter_mut().skip(self.k).for_each(|padding| *padding = T::ONE);
        let mut bytes: Vec<u8> = bytemuck::cast_slice(&first).to_vec();
        let end = bytes.len() as u64;
        bytes.extend([0; size_of::<u64>()]);
        let all = bytes.len() as u64;
        let mut allocations = Allocations::on(device);
        let memory: Memory = allocations.allocate(all).map_err(fault)?;
        let pinned = allocations.allocate_pinned(end).map_err(fault)?;
        let numbers = MemoryRange { memory, begin: 0, end };
        let ended = MemoryRange { memory, begin: end, end: end + size_of::<u32>() as u64 };
        let to = MemoryRange { memory, begin: 0, end: all };
        let copy = LaunchWithCopies { numbers: Some((bytes, to)), launch: None, download: None };
        self.queue(index, "scalars", Operation::LaunchWithCopies(Box::new(copy)), all)?;
        Ok(DeviceScalars { index, numbers, ended, pinned, allocations, faults_before })
    }

    fn queue_total(&self, index: usize, other: &Self, to: &DeviceScalars, roots: bool) -> Result<()> {
        let part = self.distribution.parts.get(index).ok_or_else(missing_part)?;
        let Some(PartData::Device(device)) = self.parts.get(index) else { return Err(missing_part()) };
        let (x, y) = (self.own_rows(index, part.own.clone())?, other.own_rows(index, part.own.clone())?);
        let totals = MemoryRange { end: to.numbers.begin + (self.k * size_of::<T>()) as u64, ..to.numbers };
        let launch = VectorLaunch::dot_total(x, y, device.scratch, (to.ended, totals), roots)?;
        self.launch(index, if roots { "norm" } else { "dot" }, launch, 2 * x.memory.bytes())
    }
}
