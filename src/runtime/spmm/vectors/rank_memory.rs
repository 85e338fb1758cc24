//! The memory of messages between ranks, and the operations that send and receive them. Allocated once, page-locked where a device
//! copies from it or to it. Packed rows have no padding: the network carries the values of the rows and nothing else.

use std::ops::Range;

use super::layout::Layout;
use super::message_memory::{Side, no_side, side};
use super::ranks::{Arrival, Departure};
use super::{Vectors, misuse, unaligned};
use crate::device::{
    MemoryRange, Operation, Pinned, PinnedRange, RankMessage, RowBytes, Transfer, VectorLaunch,
};
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::runtime::shared_device::Allocations;

/// The memory of a message to another rank.
pub struct DepartureMemory {
    departure: Departure,
    packed: Pinned,
    /// On the owner of the rows, if it is a device.
    sender: Option<Side>,
}

/// The memory of a message from another rank.
pub struct ArrivalMemory {
    arrival: Arrival,
    packed: Pinned,
}

/// Memory for packed rows of K columns, page-locked if one of `parts` is a device.
fn allocate<T: Kernels>(layout: &Layout, parts: &[usize], rows: u64, k: usize) -> Result<Pinned> {
    let bytes = rows * k as u64 * size_of::<T>() as u64;
    let mut parts = parts.iter().filter_map(|&part| layout.parts.get(part));
    match parts.find_map(|part| Some((part.device()?, part))) {
        Some((device, part)) => {
            let pinned = Allocations::on(device).allocate_pinned(bytes);
            pinned.map_err(|fault| fault.into_error(&part.name))
        }
        None => Pinned::pageable(bytes as usize),
    }
}

/// A copy between packed rows in host memory and rows on a device.
fn transfer<T: Kernels>(host: PinnedRange, device: MemoryRange, (k, pitch): (usize, u64)) -> Transfer {
    let value = size_of::<T>() as u64;
    let (bytes, pitch_bytes) = (k as u64 * value, pitch * value);
    Transfer { host, device, rows: RowBytes { bytes, pitch_bytes, host_pitch_bytes: bytes } }
}

impl DepartureMemory {
    /// Allocates the memory of a message for rows of `k` columns with a distance of `pitch` elements on devices.
    pub fn new<T: Kernels>(layout: &Layout, departure: &Departure, k: usize, pitch: u64) -> Result<Self> {
        let departure = departure.clone();
        let packed = allocate::<T>(layout, &[departure.from], departure.rows.len() as u64, k)?;
        let sender = match layout.parts.get(departure.from) {
            Some(part) => side::<T>(part, part.own.start, &departure.rows, pitch)?,
            None => None,
        };
        Ok(Self { departure, packed, sender })
    }

    /// The owner of the rows.
    pub fn from(&self) -> usize {
        self.departure.from
    }

    /// The launch that packs the rows of `x` on their owner.
    pub fn gather<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let side = self.sender.as_ref().ok_or_else(no_side)?;
        let own = x.layout.parts.get(self.departure.from).ok_or_else(no_side)?.own.clone();
        let own = x.padded_rows(self.departure.from, own)?;
        Ok(Operation::VectorLaunch(VectorLaunch::gather_rows(side.list, own, side.packed)?))
    }

    /// The copy of the packed rows to host memory.
    pub fn download<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let side = self.sender.as_ref().ok_or_else(no_side)?;
        let host = PinnedRange { begin: 0, end: self.packed.bytes() as u64, pinned: self.packed.clone() };
        Ok(Operation::Download(transfer::<T>(host, side.packed.memory, (x.k, x.pitch))))
    }

    /// Packs rows of the host, in the rayon pool of the caller.
    pub fn pack<T: Kernels>(&self, x: MultiVectorView<'_, T>) -> Result<()> {
        let mut bytes = self.packed.write().map_err(misuse)?;
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
        layout: &Layout,
        arrival: &Arrival,
        receivers: &[usize],
        k: usize,
    ) -> Result<Self> {
        let packed = allocate::<T>(layout, receivers, arrival.rows.end - arrival.rows.start, k)?;
        Ok(Self { arrival: arrival.clone(), packed })
    }

    /// The message.
    pub fn receive(&self) -> Operation<'static> {
        let Arrival { rank, tag, .. } = self.arrival;
        Operation::Receive(RankMessage { rank, tag, bytes: self.packed.clone() })
    }

    /// Takes the place of the memory from before a device was lost. Rows that arrived in it do not arrive again, so they are copied. A
    /// message that is still on its way arrives in it, so it stays in use.
    pub fn replace(&mut self, before: Self) -> Result<()> {
        let Ok(from) = before.packed.read() else {
            *self = before;
            return Ok(());
        };
        let mut to = self.packed.write().map_err(misuse)?;
        if from.len() == to.len() {
            to.copy_from_slice(&from);
        }
        Ok(())
    }

    /// The copy of the rows that an owner has room for to their places in `x`.
    pub fn upload<T: Kernels>(&self, x: &Vectors<T>, to: usize) -> Result<Operation<'static>> {
        let held = &x.layout.parts.get(to).ok_or_else(no_side)?.held;
        let all = &self.arrival.rows;
        let begin = all.start.max(held.start);
        let rows: Range<u64> = begin..all.end.min(held.end).max(begin);
        let row_bytes = x.k as u64 * size_of::<T>() as u64;
        let place = |row: u64| (row - all.start) * row_bytes;
        let host =
            PinnedRange { pinned: self.packed.clone(), begin: place(rows.start), end: place(rows.end) };
        let device = x.padded_rows(to, rows)?.memory;
        Ok(Operation::Upload(vec![transfer::<T>(host, device, (x.k, x.pitch))]))
    }

    /// Stores the rows in memory of the host.
    pub fn unpack<T: Kernels>(&self, x: MultiVectorViewMut<'_, T>) -> Result<()> {
        let bytes = self.packed.read().map_err(misuse)?;
        let values: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        let (begin, end) = (self.arrival.rows.start as usize, self.arrival.rows.end as usize);
        let packed = MultiVectorView::try_new(values, end - begin, x.k(), x.k())?;
        let (_, behind) = x.split_at_row(begin);
        rows::copy(packed, behind.split_at_row(end - begin).0)
    }
}
