//! The rows that owners send each other before a product: the rows of X that another owner has and this one's columns refer to.

use std::ops::Range;

use super::layout::Layout;
use super::{Vectors, misuse};
use crate::device::{DeviceRows, Fence, MemoryRange, Operation, Pinned, PinnedRange, Transfer, VectorLaunch};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::vectors::rows;
use crate::matrix::MultiVectorView;
use crate::runtime::operation_queue::{COMPUTE, DOWNLOAD, UPLOAD};
use crate::runtime::shared_device::Allocations;
use crate::work::columns::distinct_columns;
use crate::work::{ChunkRows, Work};

/// One message: rows of one owner for another.
struct Message {
    from: usize,
    to: usize,
    /// The rows of X, ascending.
    rows: Vec<u32>,
    /// The packed rows in page-locked memory.
    pinned: Pinned,
    /// The list of rows, relative to the sender's memory, and room for the packed rows.
    sender: Option<Side>,
    /// The same for the receiver's memory.
    receiver: Option<Side>,
}

/// The memory of a message on a device.
struct Side {
    list: MemoryRange,
    packed: DeviceRows,
    _memory: Allocations,
}

/// All messages of a product; made once.
pub struct Exchange {
    messages: Vec<Message>,
}

impl Exchange {
    /// The messages that `layout` needs for the columns of `work`, whose rows are owned as `owned` says.
    pub fn new<T: Kernels>(
        layout: &Layout,
        owned: &[Range<u64>],
        work: &Work<'_>,
        pitch: u64,
    ) -> Result<Self> {
        let mut messages = Vec::new();
        for (to, rows) in owned.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            if layout.parts.len() == 1 {
                break;
            }
            let piece = [ChunkRows::Rows { begin: rows.start as usize, end: rows.end as usize }];
            let mut lists: Vec<Vec<u32>> = vec![Vec::new(); layout.parts.len()];
            for column in distinct_columns(work, &piece) {
                let owner = layout.owner(u64::from(column));
                if owner != to {
                    lists[owner].push(column);
                }
            }
            for (from, rows) in lists.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
                messages.push(Message::new::<T>(layout, from, to, rows, pitch)?);
            }
        }
        Ok(Self { messages })
    }

    /// Number of rows that cross between owners with every product.
    pub fn rows(&self) -> usize {
        self.messages.iter().map(|message| message.rows.len()).sum()
    }

    /// Sends the rows of `x` to the owners that need them. Returns when all receivers have started to store them.
    pub fn run<T: Kernels>(&self, x: &Vectors<T>) -> Result<()> {
        let mut downloads: Vec<Option<Fence>> = Vec::new();
        for message in &self.messages {
            downloads.push(message.send(x)?);
        }
        for (message, download) in self.messages.iter().zip(downloads) {
            if let (Some(fence), Some(device)) = (download, &x.layout.parts[message.from].device) {
                device
                    .lock()
                    .wait(fence)
                    .map_err(|fault| fault.into_error(&x.layout.parts[message.from].name))?;
            }
            message.receive(x)?;
        }
        Ok(())
    }
}

impl Message {
    fn new<T: Kernels>(layout: &Layout, from: usize, to: usize, rows: Vec<u32>, pitch: u64) -> Result<Self> {
        let bytes = rows.len() as u64 * pitch * size_of::<T>() as u64;
        let devices = [&layout.parts[from], &layout.parts[to]];
        let with_device = devices.iter().find_map(|part| Some((part.device.as_ref()?, &part.name)));
        let pinned = match with_device {
            Some((device, name)) => {
                let pinned = Allocations::on(device).allocate_pinned(bytes);
                pinned.map_err(|fault| fault.into_error(name))?
            }
            None => Pinned::pageable(bytes as usize)?,
        };
        let side = |part: usize| -> Result<Option<Side>> {
            let part = &layout.parts[part];
            let Some(device) = &part.device else { return Ok(None) };
            let local: Vec<u32> = rows.iter().map(|&row| row - part.held.start as u32).collect();
            let mut memory = Allocations::on(device);
            let mut make = || -> std::result::Result<(MemoryRange, MemoryRange), crate::device::Fault> {
                let list = memory.allocate(4 * local.len() as u64)?;
                let list = MemoryRange { memory: list, begin: 0, end: 4 * local.len() as u64 };
                let staged = memory.allocate_pinned(list.end)?;
                staged.write()?.copy_from_slice(bytemuck::cast_slice(&local));
                let host = PinnedRange { pinned: staged, begin: 0, end: list.end };
                let mut device = device.lock();
                let upload =
                    device.submit("row numbers", UPLOAD, Operation::upload(host, list), 1e-5, &[])?;
                device.wait(upload)?;
                device.drain()?;
                drop(device);
                let packed = memory.allocate(bytes)?;
                Ok((list, MemoryRange { memory: packed, begin: 0, end: bytes }))
            };
            let (list, packed) = make().map_err(|fault| fault.into_error(&part.name))?;
            let packed = DeviceRows {
                dtype: T::DTYPE,
                memory: packed,
                rows: local.len() as u64,
                columns: pitch,
                leading_dimension: pitch,
            };
            Ok(Some(Side { list, packed, _memory: memory }))
        };
        let (sender, receiver) = (side(from)?, side(to)?);
        Ok(Self { from, to, rows, pinned, sender, receiver })
    }

    /// Packs the rows into page-locked memory. Returns the download that must end first, if a device sends.
    fn send<T: Kernels>(&self, x: &Vectors<T>) -> Result<Option<Fence>> {
        let part = &x.layout.parts[self.from];
        let (Some(side), Some(device)) = (&self.sender, &part.device) else {
            let data = x.host_part(self.from)?;
            let mut bytes = self.pinned.write().map_err(misuse)?;
            let values: &mut [T] = bytemuck::try_cast_slice_mut(&mut bytes).map_err(super::unaligned)?;
            let (pitch, k) = (x.pitch as usize, x.k);
            for (row, to) in self.rows.iter().zip(values.chunks_exact_mut(pitch)) {
                to[..k].copy_from_slice(data.row(*row as usize));
            }
            return Ok(None);
        };
        let gather =
            VectorLaunch::gather_rows(side.list, x.padded_rows(self.from, part.held.clone())?, side.packed)?;
        let bytes = side.packed.memory.end;
        let host = PinnedRange { pinned: self.pinned.clone(), begin: 0, end: bytes };
        let download = Operation::Download(Transfer::whole(host, side.packed.memory));
        let mut device = device.lock();
        let fault = |fault: crate::device::Fault| fault.into_error(&part.name);
        let gather = Operation::VectorLaunch(gather);
        let packed =
            device.submit("gather rows", COMPUTE, gather, part.predicted_s(2 * bytes), &[]).map_err(fault)?;
        let sent =
            device.submit("send rows", DOWNLOAD, download, bytes as f64 * 2e-11, &[packed]).map_err(fault)?;
        Ok(Some(sent))
    }

    /// Stores the packed rows where the receiver's columns refer to them.
    fn receive<T: Kernels>(&self, x: &Vectors<T>) -> Result<()> {
        let part = &x.layout.parts[self.to];
        let (Some(side), Some(device)) = (&self.receiver, &part.device) else {
            let bytes = self.pinned.read().map_err(misuse)?;
            let values: &[T] = bytemuck::try_cast_slice(&bytes).map_err(super::unaligned)?;
            let packed = MultiVectorView::try_new(values, self.rows.len(), x.k, x.pitch as usize)?;
            let mut data = x.host_part(self.to)?;
            return rows::scatter_rows(&self.rows, packed, data.view_mut());
        };
        let bytes = side.packed.memory.end;
        let host = PinnedRange { pinned: self.pinned.clone(), begin: 0, end: bytes };
        let scatter =
            VectorLaunch::scatter_rows(side.list, side.packed, x.padded_rows(self.to, part.held.clone())?)?;
        let mut device = device.lock();
        let fault = |fault: crate::device::Fault| fault.into_error(&part.name);
        // The packed rows of the product before this one were stored by now: its scatter is earlier on the compute lane than the
        // product that the caller has waited for, or it is waited for here.
        device.drain().map_err(fault)?;
        let upload = Operation::upload(host, side.packed.memory);
        let arrived =
            device.submit("receive rows", UPLOAD, upload, bytes as f64 * 2e-11, &[]).map_err(fault)?;
        let scatter = Operation::VectorLaunch(scatter);
        let stored = device
            .submit("scatter rows", COMPUTE, scatter, part.predicted_s(2 * bytes), &[arrived])
            .map_err(fault)?;
        // The page-locked memory is written again by the next exchange.
        device.wait(arrived).map_err(fault)?;
        let _ = stored;
        Ok(())
    }
}

/// A message of rows that no owner has.
pub fn missing_part() -> Error {
    Error::Internal("a multivector has no such part".into())
}
