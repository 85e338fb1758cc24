//! The memory of messages between ranks, and the operations that send and receive them. Allocated once, page-locked where a device
//! copies from it or to it. Packed rows have no padding: the network carries the values of the rows and nothing else.
//!
//! A direct message is in the memory of a device: packed there by a kernel and sent, or received there and stored by a kernel.

use std::ops::Range;

use super::message_memory::{Side, no_side, side};
use crate::device::{
    Device, DeviceRows, DirectRange, HostTransfer, MemoryRange, MessageBytes, Operation, Pinned, PinnedRange,
    RankMessage, RowBytes, VectorLaunch,
};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::runtime::devices::Allocations;
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::errors::{misuse, unaligned};
use crate::runtime::vectors::ranks::{Arrival, Departure};
use crate::runtime::vectors::row_distribution::{Part, RowDistribution};

/// The form of the rows of all messages.
#[derive(Debug, Clone, Copy)]
pub struct RowForm {
    /// Number of columns.
    pub k: usize,
    /// Distance between rows on devices, in elements.
    pub pitch: u64,
    /// Whether messages may be in the memory of devices.
    pub direct: bool,
}

/// The memory of a message to another rank.
pub struct DepartureMemory {
    departure: Departure,
    packed: MessageBytes,
    /// On the owner of the rows, if it is a device.
    sender: Option<Side>,
}

/// The memory of a message from another rank.
pub struct ArrivalMemory {
    arrival: Arrival,
    packed: MessageBytes,
    /// The receiver of a direct message, and the memory there.
    receiver: Option<(usize, Side)>,
}

/// Memory for packed rows of K columns, page-locked if one of `parts` is a device.
fn allocate<T: Kernels>(
    distribution: &RowDistribution,
    parts: &[usize],
    rows: u64,
    k: usize,
) -> Result<MessageBytes> {
    let bytes = rows * k as u64 * size_of::<T>() as u64;
    let mut parts = parts.iter().filter_map(|&part| distribution.parts.get(part));
    let memory = match parts.find_map(|part| Some((part.device()?, part))) {
        Some((device, part)) => {
            let pinned = Allocations::on(device).allocate_pinned(bytes);
            pinned.map_err(|fault| fault.into_error(&part.name))?
        }
        None => Pinned::pageable(bytes as usize)?,
    };
    Ok(MessageBytes::Host(memory))
}

/// Memory for packed rows of K columns on an owner, for a direct message; `None` if the owner is no device whose memory communicators
/// can access. The rows are numbered from `first`.
fn direct_side<T: Kernels>(
    part: &Part,
    first: u64,
    rows: &[u32],
    k: usize,
) -> Result<Option<(Side, MessageBytes)>> {
    let (Some(device), Some(side)) = (part.device(), side::<T>(part, first, rows, k as u64)?) else {
        return Ok(None);
    };
    let MemoryRange { memory, begin, end } = side.packed.memory;
    let memory = Device::direct_memory(&**device.lock().device(), memory);
    Ok(memory.map(|memory| (side, MessageBytes::Device(DirectRange { memory, begin, end }))))
}

/// The host memory of a message that is not direct.
fn host_memory(packed: &MessageBytes) -> Result<&Pinned> {
    match packed {
        MessageBytes::Host(memory) => Ok(memory),
        MessageBytes::Device(_) => Err(Error::Internal("a direct message has no host memory".into())),
    }
}

/// A copy between packed rows in host memory and rows on a device.
fn transfer<T: Kernels>(host: PinnedRange, device: MemoryRange, (k, pitch): (usize, u64)) -> HostTransfer {
    let value = size_of::<T>() as u64;
    let (bytes, pitch_bytes) = (k as u64 * value, pitch * value);
    HostTransfer { host, device, rows: RowBytes { bytes, pitch_bytes, host_pitch_bytes: bytes } }
}

impl DepartureMemory {
    /// Allocates the memory of a message.
    pub fn new<T: Kernels>(
        distribution: &RowDistribution,
        departure: &Departure,
        form: RowForm,
    ) -> Result<Self> {
        let departure = departure.clone();
        let part = distribution.parts.get(departure.from);
        if let (Some(part), true) = (part, form.direct)
            && let Some((side, packed)) = direct_side::<T>(part, part.own.start, &departure.rows, form.k)?
        {
            return Ok(Self { departure, packed, sender: Some(side) });
        }
        let packed = allocate::<T>(distribution, &[departure.from], departure.rows.len() as u64, form.k)?;
        let sender = match part {
            Some(part) => side::<T>(part, part.own.start, &departure.rows, form.pitch)?,
            None => None,
        };
        Ok(Self { departure, packed, sender })
    }

    /// Whether the message is sent from the memory of a device.
    pub fn is_direct(&self) -> bool {
        self.packed.is_direct()
    }

    /// The owner of the rows.
    pub fn from(&self) -> usize {
        self.departure.from
    }

    /// The launch that packs the rows of `x` on their owner.
    pub fn gather<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let side = self.sender.as_ref().ok_or_else(no_side)?;
        let own = x.distribution.parts.get(self.departure.from).ok_or_else(no_side)?.own.clone();
        // The rows of a direct message have no padding.
        let own = DeviceRows { columns: side.packed.columns, ..x.own_rows(self.departure.from, own)? };
        Ok(Operation::VectorLaunch(VectorLaunch::gather_rows(side.list, own, side.packed)?))
    }

    /// The copy of the packed rows to host memory.
    pub fn download<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let side = self.sender.as_ref().ok_or_else(no_side)?;
        let pinned = host_memory(&self.packed)?.clone();
        let host = PinnedRange { begin: 0, end: pinned.bytes() as u64, pinned };
        Ok(Operation::Download(transfer::<T>(host, side.packed.memory, (x.k, x.pitch))))
    }

    /// Packs rows of the host, in the rayon pool of the caller.
    pub fn pack<T: Kernels>(&self, x: MultiVectorView<'_, T>) -> Result<()> {
        let mut bytes = host_memory(&self.packed)?.write().map_err(misuse)?;
        let values: &mut [T] = bytemuck::try_cast_slice_mut(&mut bytes).map_err(unaligned)?;
        let packed = MultiVectorViewMut::try_new(values, self.departure.rows.len(), x.k(), x.k())?;
        rows::gather_rows(&self.departure.rows, x, packed)
    }

    /// The message.
    pub fn send(&self) -> Operation<'static> {
        let Departure { rank, tag, .. } = self.departure;
        Operation::Send(RankMessage { rank, tag, bytes: self.packed.clone() })
    }
}

impl ArrivalMemory {
    /// Allocates the memory of a message for the owners `receivers`.
    pub fn new<T: Kernels>(
        distribution: &RowDistribution,
        arrival: &Arrival,
        receivers: &[usize],
        form: RowForm,
    ) -> Result<Self> {
        let arrival = arrival.clone();
        let rows = &arrival.rows;
        // Rows that several owners need are received once and stored by each of them.
        if let (&[owner], true) = (receivers, form.direct)
            && let Some(part) = distribution.parts.get(owner)
        {
            let numbers: Vec<u32> = rows.clone().map(|row| row as u32).collect();
            if let Some((side, packed)) = direct_side::<T>(part, rows.start, &numbers, form.k)? {
                return Ok(Self { arrival, packed, receiver: Some((owner, side)) });
            }
        }
        let packed = allocate::<T>(distribution, receivers, rows.end - rows.start, form.k)?;
        Ok(Self { arrival, packed, receiver: None })
    }

    /// The receiver of a direct message.
    pub fn direct_receiver(&self) -> Option<usize> {
        self.receiver.as_ref().map(|(owner, _)| *owner)
    }

    /// The message.
    pub fn receive(&self) -> Operation<'static> {
        let Arrival { rank, tag, .. } = self.arrival;
        Operation::Receive(RankMessage { rank, tag, bytes: self.packed.clone() })
    }

    /// Takes the place of the memory from before a device was lost. Rows that arrived in it do not arrive again, so they are copied. A
    /// message that is still on its way arrives in it, so it stays in use. What arrived in the memory of a lost device is lost.
    pub fn replace(&mut self, before: Self) -> Result<()> {
        let (MessageBytes::Host(from), MessageBytes::Host(to)) = (&before.packed, &self.packed) else {
            return Ok(());
        };
        let Ok(from) = from.read() else {
            *self = before;
            return Ok(());
        };
        let mut to = to.write().map_err(misuse)?;
        if from.len() == to.len() {
            to.copy_from_slice(&from);
        }
        Ok(())
    }

    /// The rows of the message that an owner of `x` has room for.
    fn rows_for<T: Kernels>(&self, x: &Vectors<T>, to: usize) -> Result<Range<u64>> {
        let held = &x.distribution.parts.get(to).ok_or_else(no_side)?.held;
        let all = &self.arrival.rows;
        let begin = all.start.max(held.start);
        Ok(begin..all.end.min(held.end).max(begin))
    }

    /// The launch that stores the rows of a direct message in their places in `x`.
    pub fn store<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let (to, side) = self.receiver.as_ref().ok_or_else(no_side)?;
        let rows = self.rows_for(x, *to)?;
        let first = self.arrival.rows.start;
        let packed = side.packed.rows_in(rows.start - first..rows.end - first);
        // The rows follow one another, so the list of the first ones is that of any.
        let list = MemoryRange { end: side.list.begin + 4 * packed.rows, ..side.list };
        let places = x.own_rows(*to, rows)?;
        Ok(Operation::VectorLaunch(VectorLaunch::scatter_rows(list, packed, places)?))
    }

    /// The copy of the rows that an owner has room for to their places in `x`.
    pub fn upload<T: Kernels>(&self, x: &Vectors<T>, to: usize) -> Result<Operation<'static>> {
        let (rows, first) = (self.rows_for(x, to)?, self.arrival.rows.start);
        let row_bytes = x.k as u64 * size_of::<T>() as u64;
        let place = |row: u64| (row - first) * row_bytes;
        let pinned = host_memory(&self.packed)?.clone();
        let host = PinnedRange { pinned, begin: place(rows.start), end: place(rows.end) };
        let device = x.padded_rows(to, rows)?.memory;
        Ok(Operation::Upload(vec![transfer::<T>(host, device, (x.k, x.pitch))]))
    }

    /// Stores the rows in memory of the host.
    pub fn unpack<T: Kernels>(&self, x: MultiVectorViewMut<'_, T>) -> Result<()> {
        let bytes = host_memory(&self.packed)?.read().map_err(misuse)?;
        let values: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        let (begin, end) = (self.arrival.rows.start as usize, self.arrival.rows.end as usize);
        let packed = MultiVectorView::try_new(values, end - begin, x.k(), x.k())?;
        let (_, behind) = x.split_at_row(begin);
        rows::copy(packed, behind.split_at_row(end - begin).0)
    }
}
