//! Messages between ranks as tasks of the graph of a product.
//!
//! Rows for another rank are packed by their owner and sent by a task of the network. A task of the network receives the rows of another
//! rank; they are then stored in the memory of each owner that needs some of them. The rows of a device cross through host memory: a
//! download before they are sent, an upload after they are received.
//!
//! A direct message is in the memory of a device. The network sends the rows from where a kernel has packed them, or receives them where
//! a kernel reads them to store them. A message from another rank is direct if one device alone needs its rows.

use super::{Builder, HostTasks, exchange_task};
use crate::graph::{Access, DeviceId, Role, TaskId, TaskKind};
use crate::plan::Item;

impl Builder<'_> {
    /// Packs the rows of a message to another rank, in host memory unless the message is direct, and sends them.
    pub(crate) fn send_to_rank(&mut self, index: usize) {
        let source = self.source;
        let departure = &source.exchange.departures[index];
        let (owner, rows) = (departure.from, departure.rows.len() as u64);
        let (device_bytes, bytes) = (rows * source.row_bytes, rows * source.packed_row_bytes);
        let (device, strand) = (source.device(owner), self.graph.strand(None));
        let item = self.item(Item::ToRank { rank: departure.rank as u32, message: index as u32 });
        let (own, packed) = (self.own_rows(owner), self.scratch(bytes));
        let moved = source.move_demand(owner, device_bytes);
        let is_direct = source.direct.sent.get(index) == Some(&true);
        let last = if device == DeviceId::HOST {
            let pack = exchange_task(TaskKind::Stage, device, strand, item, moved);
            let pack = self.graph.task(pack, &[], &[own], &[packed]);
            self.host[owner].readers.push(pack);
            self.host[owner].packs_for_ranks.push(pack);
            pack
        } else if is_direct {
            let gather = exchange_task(TaskKind::Kernel, device, strand, item, moved);
            self.graph.task(gather, &[], &[own], &[packed])
        } else {
            let gathered = self.scratch(device_bytes);
            let gather = exchange_task(TaskKind::Kernel, device, strand, item, moved);
            let gather = self.graph.task(gather, &[], &[own], &[gathered]);
            let copied = source.copy_demand(owner, TaskKind::Download, bytes);
            let download = exchange_task(TaskKind::Download, device, strand, item, copied);
            self.graph.task(download, &[gather], &[gathered], &[packed])
        };
        let (network, strand) = (source.network(), self.graph.strand(None));
        let send =
            exchange_task(TaskKind::Send, network, strand, item, source.message_demand(bytes, is_direct));
        self.graph.task(send, &[last], &[packed], &[]);
    }

    /// Receives a message from another rank, unless it `is_here`, and stores its rows on every owner that needs some of them.
    pub(crate) fn receive_from_rank(&mut self, index: usize, is_here: bool) {
        let source = self.source;
        let Some(arrival) = source.x.ranks.as_ref().and_then(|ranks| ranks.arrivals.get(index)) else {
            return;
        };
        let rows = arrival.rows.end - arrival.rows.start;
        let (device_bytes, bytes) = (rows * source.row_bytes, rows * source.packed_row_bytes);
        let from_rank =
            |to: usize| Item::FromRank { rank: arrival.rank as u32, message: index as u32, to: to as u32 };
        let role = if is_here { Role::Input } else { Role::Scratch };
        let packed = Access { buffer: self.graph.buffer(role, bytes), begin: 0, end: bytes };
        let is_direct = source.direct.received.get(index) == Some(&true);
        let mut receive = None;
        if !is_here {
            let (network, strand) = (source.network(), self.graph.strand(None));
            let item = self.item(from_rank(0));
            let demand = source.message_demand(bytes, is_direct);
            let task = exchange_task(TaskKind::Receive, network, strand, item, demand);
            receive = Some(self.graph.task(task, &[], &[], &[packed]));
        }
        let mut arrived = Vec::new();
        for &owner in &source.exchange.receivers[index] {
            let (device, strand) = (source.device(owner), self.graph.strand(None));
            let (item, stored) = (self.item(from_rank(owner)), self.scratch(device_bytes));
            let task = if device == DeviceId::HOST {
                let moved = source.move_demand(owner, device_bytes);
                let unpack = exchange_task(TaskKind::Merge, device, strand, item, moved);
                let HostTasks { readers, stored: before, .. } = &self.host[owner];
                let waits: Vec<TaskId> =
                    receive.into_iter().chain(readers.iter().copied()).chain(*before).collect();
                let unpack = self.graph.task(unpack, &waits, &[packed], &[stored]);
                self.host[owner].stored = Some(unpack);
                unpack
            } else if is_direct {
                let moved = source.move_demand(owner, device_bytes);
                let store = exchange_task(TaskKind::Kernel, device, strand, item, moved);
                self.graph.task(store, receive.as_slice(), &[packed], &[stored])
            } else {
                let copied = source.copy_demand(owner, TaskKind::Upload, bytes);
                let upload = exchange_task(TaskKind::Upload, device, strand, item, copied);
                self.graph.task(upload, receive.as_slice(), &[packed], &[stored])
            };
            arrived.push((stored, task));
        }
        self.arrived.push(arrived);
    }

    /// The stored rows of other ranks that a chunk waits for. The kernels of a device name all rows that it has room for, so they wait
    /// for all messages to this device.
    pub(crate) fn arrived_for(&self, chunk: usize) -> Vec<(Access, TaskId)> {
        let (source, mut all) = (self.source, Vec::new());
        let owner = source.chunks[chunk].owner;
        let on_device = source.device(owner) != DeviceId::HOST && !source.exchange.is_interior(chunk);
        let needs = source.exchange.needs_of_ranks.get(chunk).map_or(&[][..], Vec::as_slice);
        for (arrival, arrived) in self.arrived.iter().enumerate() {
            let receivers = source.exchange.receivers[arrival].iter();
            let of_owner = receivers.zip(arrived).filter(|(receiver, _)| **receiver == owner);
            let is_needed = on_device || needs.contains(&arrival);
            all.extend(of_owner.filter(|_| is_needed).map(|(_, arrived)| *arrived));
        }
        all
    }
}
