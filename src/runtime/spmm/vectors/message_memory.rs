//! The memory of a message of rows, and the operations that send and receive them.
//!
//! The sender packs the rows. If both ends are devices and the receiver can copy from the sender, one copy brings the packed rows
//! from the memory of the one to the memory of the other. Otherwise they cross through page-locked memory.

use std::sync::Arc;

use super::exchange::Exchange;
use super::layout::{Layout, Part};
use super::{Vectors, misuse, unaligned};
use crate::device::{
    Device, DeviceRows, Fault, MemoryRange, Operation, PeerCopy, PeerMemory, Pinned, PinnedRange, Transfer,
    VectorLaunch,
};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::runtime::operation_queue::UPLOAD;
use crate::runtime::shared_device::Allocations;

/// The memory of a message; allocated once.
pub struct MessageMemory {
    from: usize,
    to: usize,
    /// The rows of X, ascending.
    rows: Vec<u32>,
    route: Route,
    /// On the sender, if it is a device.
    sender: Option<Side>,
    /// On the receiver, if it is a device that stores packed rows.
    receiver: Option<Side>,
}

/// The way of the packed rows to the receiver.
enum Route {
    /// Through page-locked memory.
    Pinned(Pinned),
    /// By a copy from the sender's memory.
    Peer(PeerMemory),
}

/// The memory of a message on a device.
pub(super) struct Side {
    /// The rows: numbers of the sender's own rows, or of the receiver's rows from the first row of the message on.
    pub list: MemoryRange,
    pub packed: DeviceRows,
    _memory: Allocations,
}

impl MessageMemory {
    /// Allocates the memory of message number `index` for rows with a distance of `pitch` elements, and brings the lists of rows to
    /// the devices.
    pub fn new<T: Kernels>(layout: &Layout, exchange: &Exchange, index: usize, pitch: u64) -> Result<Self> {
        let message = &exchange.messages[index];
        let (from, to, rows) = (message.from, message.to, message.rows.clone());
        let bytes = rows.len() as u64 * pitch * size_of::<T>() as u64;
        let ends = [&layout.parts[from], &layout.parts[to]];
        let sender = side::<T>(ends[0], ends[0].own.start, &rows, pitch)?;
        let route =
            match (peer(ends, sender.as_ref()), ends.iter().find_map(|part| Some((part.device()?, part)))) {
                (Some(peer), _) => Route::Peer(peer),
                (None, Some((device, part))) => {
                    let pinned = Allocations::on(device).allocate_pinned(bytes);
                    Route::Pinned(pinned.map_err(|fault| fault.into_error(&part.name))?)
                }
                (None, None) => Route::Pinned(Pinned::pageable(bytes as usize)?),
            };
        let receiver = match matches!(route, Route::Peer(_)) && exchange.is_copied_in_place(index) {
            true => None,
            false => side::<T>(ends[1], rows.first().copied().unwrap_or(0).into(), &rows, pitch)?,
        };
        Ok(Self { from, to, rows, route, sender, receiver })
    }

    /// Whether the receiver copies from the sender's memory.
    pub fn is_peer_copy(&self) -> bool {
        matches!(self.route, Route::Peer(_))
    }

    fn pinned(&self) -> Result<&Pinned> {
        match &self.route {
            Route::Pinned(pinned) => Ok(pinned),
            Route::Peer(_) => {
                Err(Error::Internal("a message between devices has no page-locked memory".into()))
            }
        }
    }

    fn pinned_range(&self) -> Result<PinnedRange> {
        let pinned = self.pinned()?.clone();
        Ok(PinnedRange { begin: 0, end: pinned.bytes() as u64, pinned })
    }

    /// The launch that packs the rows of `x` on the sender.
    pub fn gather<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let side = self.sender.as_ref().ok_or_else(no_side)?;
        // Only its own rows: a copy may write received rows meanwhile.
        let own = x.padded_rows(self.from, x.layout.parts[self.from].own.clone())?;
        Ok(Operation::VectorLaunch(VectorLaunch::gather_rows(side.list, own, side.packed)?))
    }

    /// The copy of the packed rows to page-locked memory.
    pub fn download(&self) -> Result<Operation<'static>> {
        let side = self.sender.as_ref().ok_or_else(no_side)?;
        Ok(Operation::Download(Transfer::whole(self.pinned_range()?, side.packed.memory)))
    }

    /// The copy of the packed rows to the receiver.
    pub fn upload(&self) -> Result<Operation<'static>> {
        let side = self.receiver.as_ref().ok_or_else(no_side)?;
        Ok(Operation::upload(self.pinned_range()?, side.packed.memory))
    }

    /// The copy of the sender's packed rows to the receiver: to their places in `x` if no packed rows are stored.
    pub fn peer_copy<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let Route::Peer(from) = &self.route else { return Err(no_side()) };
        let to = match (&self.receiver, self.rows.first(), self.rows.last()) {
            (Some(side), ..) => side.packed.memory,
            (None, Some(&first), Some(&last)) => {
                x.padded_rows(self.to, u64::from(first)..u64::from(last) + 1)?.memory
            }
            (None, ..) => return Err(no_side()),
        };
        Ok(Operation::PeerCopy(PeerCopy { from: from.clone(), begin: 0, to }))
    }

    /// The launch that stores the rows of `x` where the receiver's columns refer to them.
    pub fn scatter<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let side = self.receiver.as_ref().ok_or_else(no_side)?;
        let (Some(&first), Some(&last)) = (self.rows.first(), self.rows.last()) else {
            return Err(no_side());
        };
        // Only the rows of the sender: a copy may write rows of another rank meanwhile.
        let of_sender = x.padded_rows(self.to, first.into()..u64::from(last) + 1)?;
        Ok(Operation::VectorLaunch(VectorLaunch::scatter_rows(side.list, side.packed, of_sender)?))
    }

    /// Packs rows of the host, in the rayon pool of the caller.
    pub fn pack<T: Kernels>(&self, x: MultiVectorView<'_, T>, pitch: usize) -> Result<()> {
        let mut bytes = self.pinned()?.write().map_err(misuse)?;
        let values: &mut [T] = bytemuck::try_cast_slice_mut(&mut bytes).map_err(unaligned)?;
        let packed = MultiVectorViewMut::try_new(values, self.rows.len(), x.k(), pitch)?;
        rows::gather_rows(&self.rows, x, packed)
    }

    /// Stores the packed rows in memory of the host.
    pub fn unpack<T: Kernels>(&self, x: MultiVectorViewMut<'_, T>, pitch: usize) -> Result<()> {
        let bytes = self.pinned()?.read().map_err(misuse)?;
        let values: &[T] = bytemuck::try_cast_slice(&bytes).map_err(unaligned)?;
        let packed = MultiVectorView::try_new(values, self.rows.len(), x.k(), pitch)?;
        rows::scatter_rows(&self.rows, packed, x)
    }
}

/// The sender's packed rows for a copy by the receiver; `None` if an end is the host, or if the receiver cannot copy from the sender.
fn peer([from, to]: [&Part; 2], sender: Option<&Side>) -> Option<PeerMemory> {
    let (source, target) = (from.device()?, to.device()?);
    if Arc::ptr_eq(source, target) {
        return None;
    }
    let peer = Device::peer_memory(&**source.lock().device(), sender?.packed.memory.memory)?;
    Device::can_copy_from(&mut **target.lock().device(), &peer).then_some(peer)
}

/// The memory of a message on one owner, whose rows are numbered from `first`; `None` for the host.
pub(super) fn side<T: Kernels>(part: &Part, first: u64, rows: &[u32], pitch: u64) -> Result<Option<Side>> {
    let Some(device) = part.device() else { return Ok(None) };
    let local: Vec<u32> = rows.iter().map(|&row| row - first as u32).collect();
    let (list_bytes, bytes) = (4 * local.len() as u64, local.len() as u64 * pitch * size_of::<T>() as u64);
    let mut memory = Allocations::on(device);
    let mut make = || -> std::result::Result<(MemoryRange, MemoryRange), Fault> {
        let list = MemoryRange { memory: memory.allocate(list_bytes)?, begin: 0, end: list_bytes };
        let staged = memory.allocate_pinned(list_bytes)?;
        staged.write()?.copy_from_slice(bytemuck::cast_slice(&local));
        let host = PinnedRange { pinned: staged, begin: 0, end: list_bytes };
        {
            let mut device = device.lock();
            device.submit("row numbers", UPLOAD, Operation::upload(host, list), 1e-5, &[])?;
            device.drain()?;
        }
        Ok((list, MemoryRange { memory: memory.allocate(bytes)?, begin: 0, end: bytes }))
    };
    let (list, packed) = make().map_err(|fault| fault.into_error(&part.name))?;
    let (rows, columns, leading_dimension) = (local.len() as u64, pitch, pitch);
    let packed = DeviceRows { dtype: T::DTYPE, memory: packed, rows, columns, leading_dimension };
    Ok(Some(Side { list, packed, _memory: memory }))
}

pub(super) fn no_side() -> Error {
    Error::Internal("a message of rows has no memory on a device".into())
}
