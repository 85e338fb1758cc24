//! The memory of messages of rows, and the operations that send and receive them.
//!
//! The sender packs the rows. If both ends are devices and the receiver can copy from the sender, one copy brings the packed rows
//! from the memory of the one to the memory of the other. Otherwise they cross through page-locked memory.

use std::sync::Arc;

use super::groups::{MessageGroups, MessagePlace};
use super::messages::Exchange;
use crate::device::{
    Device, DeviceRows, Fault, HostTransfer, MemoryRange, Operation, PeerCopy, PeerMemory, Pinned,
    PinnedRange, VectorLaunch,
};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};
use crate::runtime::devices::{Allocations, UPLOAD};
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::errors::{misuse, unaligned};
use crate::runtime::vectors::row_distribution::{Part, RowDistribution};

/// The memory of all messages of a product; allocated once.
#[derive(Default)]
pub struct ExchangeMemory {
    messages: Vec<MessageMemory>,
    groups: Arc<MessageGroups>,
    /// For each group of messages that are packed together its memory on the sender, if that is a device.
    packed: Vec<Option<Side>>,
    /// For each group of messages that are stored together its memory on the receiver, if that is a device that stores packed rows.
    stored: Vec<Option<Side>>,
}

/// A message.
pub struct MessageMemory {
    from: usize,
    to: usize,
    /// The rows of X, ascending.
    rows: Vec<u32>,
    route: Route,
    /// The packed rows on the sender, if it is a device.
    sender: Option<DeviceRows>,
    /// The packed rows on the receiver, if it is a device that stores packed rows.
    receiver: Option<DeviceRows>,
}

/// The way of the packed rows to the receiver.
enum Route {
    /// Through page-locked memory.
    Pinned(Pinned),
    /// By a copy from the sender's memory.
    Peer(PeerMemory),
}

/// The memory of packed rows on a device.
pub(crate) struct Side {
    /// The rows: numbers of the sender's own rows, or of the receiver's rows from the first row of the messages on.
    pub list: MemoryRange,
    pub packed: DeviceRows,
    _memory: Allocations,
}

impl ExchangeMemory {
    /// Allocates the memory of the messages of `exchange` for rows with a distance of `pitch` elements, and brings the lists of rows
    /// to the devices.
    pub fn new<T: Kernels>(
        distribution: &RowDistribution,
        exchange: &Exchange,
        groups: Arc<MessageGroups>,
        pitch: u64,
    ) -> Result<Self> {
        let rows_of = |group: &[usize]| -> Vec<u32> {
            group.iter().flat_map(|&message| &exchange.messages[message].rows).copied().collect()
        };
        let side_of = |owner: usize, first: u64, group: &[usize]| {
            side::<T>(&distribution.parts[owner], first, &rows_of(group), pitch)
        };
        let place = |side: &Option<Side>, MessagePlace { first_row, rows, .. }: MessagePlace| {
            side.as_ref().map(|side| side.packed.rows_in(first_row..first_row + rows))
        };
        let mut memory = Self { groups: groups.clone(), ..Self::default() };
        for group in &groups.packed.groups {
            let owner = exchange.messages[group[0]].from;
            memory.packed.push(side_of(owner, distribution.parts[owner].own.start, group)?);
        }
        for (index, message) in exchange.messages.iter().enumerate() {
            let (from, to, rows) = (message.from, message.to, message.rows.clone());
            let at = groups.packed.place(index);
            let sender = place(&memory.packed[at.group], at);
            let bytes = rows.len() as u64 * pitch * size_of::<T>() as u64;
            let route = route([&distribution.parts[from], &distribution.parts[to]], sender, bytes)?;
            memory.messages.push(MessageMemory { from, to, rows, route, sender, receiver: None });
        }
        for group in &groups.stored.groups {
            let first = &exchange.messages[group[0]];
            let is_in_place =
                memory.messages[group[0]].is_peer_copy() && exchange.is_copied_in_place(group[0]);
            let stored = match is_in_place {
                true => None,
                false => side_of(first.to, first.rows.first().copied().unwrap_or(0).into(), group)?,
            };
            for &message in group {
                memory.messages[message].receiver = place(&stored, groups.stored.place(message));
            }
            memory.stored.push(stored);
        }
        Ok(memory)
    }

    /// For each message whether the receiver copies from the sender's memory.
    pub fn peer_copies(&self) -> Vec<bool> {
        self.messages.iter().map(MessageMemory::is_peer_copy).collect()
    }

    /// A message.
    pub fn message(&self, number: u32) -> Result<&MessageMemory> {
        let found = self.messages.get(number as usize);
        found.ok_or_else(|| Error::Internal(format!("the product has no message {number}")))
    }

    /// The launch that packs the rows of `x` on the sender of a message: those of all messages that are packed with it.
    pub fn gather<T: Kernels>(&self, number: u32, x: &Vectors<T>) -> Result<Operation<'static>> {
        let from = self.message(number)?.from;
        let group = self.groups.packed.place(number as usize).group;
        let side = self.packed.get(group).and_then(Option::as_ref).ok_or_else(no_side)?;
        // Only its own rows: a copy may write received rows meanwhile.
        let own = x.padded_rows(from, x.distribution.parts[from].own.clone())?;
        Ok(Operation::VectorLaunch(VectorLaunch::gather_rows(side.list, own, side.packed)?))
    }

    /// The launch that stores rows of `x` where the receiver's columns refer to them: those of all messages that are stored with one.
    pub fn scatter<T: Kernels>(&self, number: u32, x: &Vectors<T>) -> Result<Operation<'static>> {
        let to = self.message(number)?.to;
        let group = self.groups.stored.place(number as usize).group;
        let side = self.stored.get(group).and_then(Option::as_ref).ok_or_else(no_side)?;
        let messages = self.groups.stored.groups.get(group).map_or(&[][..], Vec::as_slice);
        let rows = |at: Option<&usize>| Some(&self.messages.get(*at?)?.rows);
        let first = rows(messages.first()).and_then(|rows| rows.first());
        let last = rows(messages.last()).and_then(|rows| rows.last());
        let (Some(&first), Some(&last)) = (first, last) else { return Err(no_side()) };
        // From the first to the last row of the messages: a copy may write rows of another rank meanwhile.
        let places = x.padded_rows(to, first.into()..u64::from(last) + 1)?;
        Ok(Operation::VectorLaunch(VectorLaunch::scatter_rows(side.list, side.packed, places)?))
    }
}

/// The way of packed rows of `bytes` bytes between two owners.
fn route(ends: [&Part; 2], sender: Option<DeviceRows>, bytes: u64) -> Result<Route> {
    if let Some(peer) = peer(ends, sender) {
        return Ok(Route::Peer(peer));
    }
    match ends.iter().find_map(|part| Some((part.device()?, part))) {
        Some((device, part)) => {
            let pinned = Allocations::on(device).allocate_pinned(bytes);
            Ok(Route::Pinned(pinned.map_err(|fault| fault.into_error(&part.name))?))
        }
        None => Ok(Route::Pinned(Pinned::pageable(bytes as usize)?)),
    }
}

impl MessageMemory {
    /// The sender, as an index of the distribution's parts.
    pub fn from(&self) -> usize {
        self.from
    }

    /// The receiver.
    pub fn to(&self) -> usize {
        self.to
    }

    /// Whether the receiver copies from the sender's memory.
    fn is_peer_copy(&self) -> bool {
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

    /// The copy of the packed rows to page-locked memory.
    pub fn download(&self) -> Result<Operation<'static>> {
        let packed = self.sender.ok_or_else(no_side)?;
        Ok(Operation::Download(HostTransfer::whole(self.pinned_range()?, packed.memory)))
    }

    /// The copy of the packed rows to the receiver.
    pub fn upload(&self) -> Result<Operation<'static>> {
        let packed = self.receiver.ok_or_else(no_side)?;
        Ok(Operation::upload(self.pinned_range()?, packed.memory))
    }

    /// The copy of the sender's packed rows to the receiver: to their places in `x` if no packed rows are stored.
    pub fn peer_copy<T: Kernels>(&self, x: &Vectors<T>) -> Result<Operation<'static>> {
        let (Route::Peer(from), Some(packed)) = (&self.route, self.sender) else { return Err(no_side()) };
        let to = match (self.receiver, self.rows.first(), self.rows.last()) {
            (Some(packed), ..) => packed.memory,
            (None, Some(&first), Some(&last)) => {
                x.padded_rows(self.to, u64::from(first)..u64::from(last) + 1)?.memory
            }
            (None, ..) => return Err(no_side()),
        };
        Ok(Operation::PeerCopy(PeerCopy { from: from.clone(), begin: packed.memory.begin, to }))
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
fn peer([from, to]: [&Part; 2], sender: Option<DeviceRows>) -> Option<PeerMemory> {
    let (source, target) = (from.device()?, to.device()?);
    if Arc::ptr_eq(source, target) {
        return None;
    }
    let peer = Device::peer_memory(&**source.lock().device(), sender?.memory.memory)?;
    Device::can_copy_from(&mut **target.lock().device(), &peer).then_some(peer)
}

/// The memory of packed rows on one owner, whose rows are numbered from `first`; `None` for the host.
pub(crate) fn side<T: Kernels>(part: &Part, first: u64, rows: &[u32], pitch: u64) -> Result<Option<Side>> {
    let Some(device) = part.device() else { return Ok(None) };
    let local: Vec<u32> = rows.iter().map(|&row| row - first as u32).collect();
    let (list_bytes, bytes) = (4 * local.len() as u64, local.len() as u64 * pitch * size_of::<T>() as u64);
    let mut memory = Allocations::on(device);
    let mut make = || -> std::result::Result<(MemoryRange, MemoryRange), Fault> {
        let list = MemoryRange { memory: memory.allocate(list_bytes)?, begin: 0, end: list_bytes };
        let staged = memory.allocate_pinned(list_bytes)?;
        staged.write()?.copy_from_slice(bytemuck::cast_slice(&local));
        let host = PinnedRange { pinned: staged, begin: 0, end: list_bytes };
        let upload = (Operation::upload(host, list), 1e-5);
        device.lock().run(part.operations.timeouts(), "row numbers", UPLOAD, [upload])?;
        Ok((list, MemoryRange { memory: memory.allocate(bytes)?, begin: 0, end: bytes }))
    };
    let (list, packed) = make().map_err(|fault| fault.into_error(&part.name))?;
    let (rows, columns, leading_dimension) = (local.len() as u64, pitch, pitch);
    let packed = DeviceRows { dtype: T::DTYPE, memory: packed, rows, columns, leading_dimension };
    Ok(Some(Side { list, packed, _memory: memory }))
}

pub(crate) fn no_side() -> Error {
    Error::Internal("a message of rows has no memory on a device".into())
}
