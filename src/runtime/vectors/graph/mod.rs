//! The task graph of a product on vectors: an exchange of rows, and the chunks of all owners.
//!
//! A message is packed by its sender (a gather kernel and a download, or a job of the host) and stored by its receiver (an upload and
//! a scatter kernel, or a job). Between two devices that can copy directly, a peer copy takes the place of the download and the upload,
//! and of the scatter kernel too if the rows are consecutive and no other message has the same receiver. One kernel gathers the rows of
//! several messages, or scatters them, where that is predicted to be faster: [`MessageGroups`].
//!
//! Between two nodes of a simulated cluster, a packed message is sent over the network of the sender's node and received over that of the
//! receiver's node at the same time, from device memory or through page-locked memory. The rows are stored when both have ended.
//!
//! Messages between ranks are tasks of the network ([`ranks`]). A chunk waits for the messages that its columns refer to; a chunk of
//! interior rows waits for none.

mod demands;
mod ranks;
mod source;

use crate::cost::SimulatedCluster;
use crate::graph::{
    Access, BufferId, Demand, DeviceId, GraphBuilder, Role, StrandId, Task, TaskId, TaskKind,
};
use crate::plan::{Item, PlannedGraph, XPlan};
use crate::runtime::vectors::exchange::{Groups, Message};
use crate::runtime::vectors::row_distribution::Part;
use demands::network_demand;
pub use source::{CompleteMessages, DirectMessages, GraphSource, Wanted};

/// Tasks wait for a lane in this order: the exchange, chunks of interior rows, other chunks.
const EXCHANGE_TURN: u32 = 0;
const INTERIOR_TURN: u32 = 1;
const BOUNDARY_TURN: u32 = 2;

/// The tasks that use the host's memory of one owner.
#[derive(Default, Clone)]
struct HostTasks {
    /// They read rows that the owner has.
    readers: Vec<TaskId>,
    /// Those of them that pack rows for other ranks.
    packs_for_ranks: Vec<TaskId>,
    /// The last one that stores received rows.
    stored: Option<TaskId>,
}

/// Rows that one kernel stores on their receiver, as far as they have arrived.
#[derive(Default)]
struct Arriving {
    /// The memory of all of them, once the first message has a place in it.
    buffer: Option<BufferId>,
    /// The tasks that the kernel waits for.
    waits: Vec<TaskId>,
    /// The packed rows of each message.
    packed: Vec<Access>,
}

/// A packed message: page-locked memory, or memory of the sender for a peer copy, and the task that writes it last.
struct Sent {
    task: TaskId,
    packed: Access,
    /// The task that sends it over a simulated network, if the receiver is on another node.
    send: Option<TaskId>,
}

struct Builder<'a> {
    source: &'a GraphSource<'a>,
    graph: GraphBuilder,
    items: Vec<Item>,
    /// For each owner its own rows of X.
    own_x: Vec<BufferId>,
    /// For each message the received rows, and the task that stores them.
    received: Vec<(BufferId, Option<TaskId>)>,
    /// For each message from another rank and each of its receivers: the stored rows, and the task that stores them.
    arrived: Vec<Vec<(Access, TaskId)>>,
    host: Vec<HostTasks>,
    /// For each group of messages that are packed together the kernel and the packed rows.
    gathered: Vec<Option<(TaskId, BufferId)>>,
    /// For each group of messages that are stored together the rows that have arrived.
    arriving: Vec<Arriving>,
}

impl GraphSource<'_> {
    /// The graph of a product.
    pub fn graph(&self, wanted: &Wanted) -> PlannedGraph {
        let mut graph = GraphBuilder::new();
        let owned = |part: &Part| (part.own.end - part.own.start) * self.row_bytes;
        let own_x = self.x.parts.iter().map(|part| graph.buffer(Role::Input, owned(part))).collect();
        let role = if wanted.exchange { Role::Scratch } else { Role::Input };
        let received = self.exchange.messages.iter().map(|message| {
            let bytes = message.rows.len() as u64 * self.row_bytes;
            (graph.buffer(role, bytes), None)
        });
        let received = received.collect();
        let host = vec![HostTasks::default(); self.x.parts.len()];
        let (items, arrived) = (Vec::new(), Vec::new());
        let gathered = vec![None; self.groups.packed.groups.len()];
        let arriving = self.groups.stored.groups.iter().map(|_| Arriving::default()).collect();
        let mut builder =
            Builder { source: self, graph, items, own_x, received, arrived, host, gathered, arriving };
        let is_interior = |chunk: usize| self.exchange.is_interior(chunk);
        let computed = |chunk: &usize| wanted.chunks.get(*chunk) == Some(&true);
        let all = || (0..self.chunks.len()).filter(computed);
        let sent: Vec<Sent> = match wanted.exchange {
            true => (0..self.exchange.messages.len()).map(|message| builder.send(message)).collect(),
            false => Vec::new(),
        };
        let messages_of_ranks = |list: usize| 0..if wanted.exchange { list } else { 0 };
        messages_of_ranks(self.exchange.departures.len())
            .filter(|&message| wanted.ranks.sent.get(message) != Some(&true))
            .for_each(|message| builder.send_to_rank(message));
        // Before the rows are received, since jobs of the host that store rows wait for those that read the same memory.
        all().filter(|&chunk| is_interior(chunk)).for_each(|chunk| builder.chunk(chunk, wanted.reads_y));
        sent.into_iter().enumerate().for_each(|(message, sent)| builder.receive(message, sent));
        messages_of_ranks(self.exchange.receivers.len()).for_each(|message| {
            builder.receive_from_rank(message, wanted.ranks.received.get(message) == Some(&true))
        });
        all().filter(|&chunk| !is_interior(chunk)).for_each(|chunk| builder.chunk(chunk, wanted.reads_y));
        let (graph, items) = (builder.graph.freeze(), builder.items);
        let x = self.plan.devices.iter().map(|device| device.x).collect::<Vec<XPlan>>();
        PlannedGraph { graph, items, pools: Vec::new(), x }
    }

    /// The device of an owner: the host where it is no device.
    pub(super) fn device(&self, owner: usize) -> DeviceId {
        match self.on_devices.get(owner) {
            Some(true) => DeviceId(self.x.parts[owner].index as u32),
            _ => DeviceId::HOST,
        }
    }

    /// The network: it follows the devices of the plan.
    fn network(&self) -> DeviceId {
        DeviceId(self.plan.devices.len() as u32)
    }

    /// The cluster, if a message crosses from one of its nodes to another.
    fn cluster_of(&self, from: usize, to: usize) -> Option<&SimulatedCluster> {
        let node = |cluster: &SimulatedCluster, owner: usize| cluster.node(self.x.parts[owner].index);
        self.plan.cluster.as_ref().filter(|cluster| node(cluster, from) != node(cluster, to))
    }

    /// The network of an owner's node, which follows the devices of the plan.
    fn network_of(&self, cluster: &SimulatedCluster, owner: usize) -> DeviceId {
        DeviceId((self.plan.devices.len() + cluster.node(self.x.parts[owner].index)) as u32)
    }
}

impl Builder<'_> {
    fn item(&mut self, item: Item) -> u32 {
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    fn scratch(&mut self, bytes: u64) -> Access {
        Access { buffer: self.graph.buffer(Role::Scratch, bytes), begin: 0, end: bytes }
    }

    fn own_rows(&self, owner: usize) -> Access {
        let own = &self.source.x.parts[owner].own;
        Access { buffer: self.own_x[owner], begin: 0, end: (own.end - own.start) * self.source.row_bytes }
    }

    fn message_bytes(&self, message: usize) -> u64 {
        self.source.exchange.messages[message].rows.len() as u64 * self.source.row_bytes
    }

    fn is_peer_copy(&self, message: usize) -> bool {
        self.source.peer_copies.get(message) == Some(&true)
    }

    /// The place of a message in the memory of its group.
    fn place(&self, groups: &Groups, message: usize, buffer: BufferId) -> Access {
        let (place, row_bytes) = (groups.place(message), self.source.row_bytes);
        let begin = place.first_row * row_bytes;
        Access { buffer, begin, end: begin + place.rows * row_bytes }
    }

    /// The kernel that packs the rows of a message of a device, with those of all messages of its group, and the packed rows.
    fn gathered(&mut self, message: usize) -> (TaskId, Access) {
        let (source, groups) = (self.source, &self.source.groups.packed);
        let group = groups.place(message).group;
        let (task, buffer) = match self.gathered[group] {
            Some(known) => known,
            None => {
                let owner = source.exchange.messages[message].from;
                let (own, packed) =
                    (self.own_rows(owner), self.scratch(groups.rows(group) * source.row_bytes));
                let (item, strand) = (self.item(Item::Sent(message as u32)), self.graph.strand(None));
                let moved = source.move_demand(owner, packed.end);
                let gather = exchange_task(TaskKind::Kernel, source.device(owner), strand, item, moved);
                let gather = self.graph.task(gather, &[], &[own], &[packed]);
                *self.gathered[group].insert((gather, packed.buffer))
            }
        };
        (task, self.place(groups, message, buffer))
    }

    /// The memory of packed rows that arrive on a device in a message.
    fn arrival(&mut self, message: usize) -> Access {
        let groups = &self.source.groups.stored;
        let group = groups.place(message).group;
        let buffer = match self.arriving[group].buffer {
            Some(buffer) => buffer,
            None => {
                let bytes = groups.rows(group) * self.source.row_bytes;
                *self.arriving[group].buffer.insert(self.graph.buffer(Role::Scratch, bytes))
            }
        };
        self.place(groups, message, buffer)
    }

    /// Stores the rows of a message, which are in `packed` when the tasks `waits` have ended, on their receiver. One kernel stores the
    /// rows of all messages of a group, so it is added with the last of them.
    fn scatter(&mut self, message: usize, waits: &[TaskId], packed: Access) {
        let (source, groups) = (self.source, &self.source.groups.stored);
        let group = groups.place(message).group;
        let arriving = &mut self.arriving[group];
        arriving.waits.extend(waits);
        arriving.packed.push(packed);
        let messages = &groups.groups[group];
        if arriving.packed.len() < messages.len() {
            return;
        }
        let Arriving { waits, packed, .. } = std::mem::take(arriving);
        let owner = source.exchange.messages[message].to;
        let (item, strand) = (self.item(Item::Received(messages[0] as u32)), self.graph.strand(None));
        let moved = source.move_demand(owner, groups.rows(group) * source.row_bytes);
        let scatter = exchange_task(TaskKind::Kernel, source.device(owner), strand, item, moved);
        let stored: Vec<Access> = messages.iter().map(|&message| self.stored(message)).collect();
        let scatter = self.graph.task(scatter, &waits, &packed, &stored);
        messages.iter().for_each(|&message| self.received[message].1 = Some(scatter));
    }

    /// The rows of a message in their places on the receiver.
    fn stored(&self, message: usize) -> Access {
        Access { buffer: self.received[message].0, begin: 0, end: self.message_bytes(message) }
    }

    /// Packs the rows of a message: into page-locked memory, or into memory of the sender for a peer copy.
    fn send(&mut self, message: usize) -> Sent {
        let (source, bytes) = (self.source, self.message_bytes(message));
        let owner = source.exchange.messages[message].from;
        let (device, strand) = (source.device(owner), self.graph.strand(None));
        let item = self.item(Item::Sent(message as u32));
        if device == DeviceId::HOST {
            let (own, packed) = (self.own_rows(owner), self.scratch(bytes));
            let pack = exchange_task(TaskKind::Stage, device, strand, item, source.move_demand(owner, bytes));
            let pack = self.graph.task(pack, &[], &[own], &[packed]);
            self.host[owner].readers.push(pack);
            return Sent { task: pack, packed, send: None };
        }
        let (gather, packed) = self.gathered(message);
        if self.is_peer_copy(message) {
            return Sent { task: gather, packed, send: None };
        }
        let cluster = source.cluster_of(owner, source.exchange.messages[message].to);
        if let Some(cluster) = cluster.filter(|cluster| cluster.network.gpu_direct) {
            let send = Some(self.network_send(cluster, message, gather, packed));
            return Sent { task: gather, packed, send };
        }
        let pinned = self.scratch(bytes);
        let copied = source.copy_demand(owner, TaskKind::Download, bytes);
        let download = exchange_task(TaskKind::Download, device, strand, item, copied);
        let download = self.graph.task(download, &[gather], &[packed], &[pinned]);
        let send = cluster.map(|cluster| self.network_send(cluster, message, download, pinned));
        Sent { task: download, packed: pinned, send }
    }

    /// Sends a packed message over the network of the sender's node.
    fn network_send(
        &mut self,
        cluster: &SimulatedCluster,
        message: usize,
        packing: TaskId,
        packed: Access,
    ) -> TaskId {
        let (source, bytes) = (self.source, self.message_bytes(message));
        let device = source.network_of(cluster, source.exchange.messages[message].from);
        let (strand, item) = (self.graph.strand(None), self.item(Item::Sent(message as u32)));
        let send =
            exchange_task(TaskKind::Send, device, strand, item, network_demand(&cluster.network, bytes));
        self.graph.task(send, &[packing], &[packed], &[])
    }

    /// Receives a message over the network of the receiver's node. Returns the task and the memory that it writes.
    fn network_receive(
        &mut self,
        cluster: &SimulatedCluster,
        message: usize,
        packing: TaskId,
    ) -> (TaskId, Access) {
        let (source, bytes) = (self.source, self.message_bytes(message));
        let device = source.network_of(cluster, source.exchange.messages[message].to);
        let (strand, item) = (self.graph.strand(None), self.item(Item::Received(message as u32)));
        let demand = network_demand(&cluster.network, bytes);
        let receive = exchange_task(TaskKind::Receive, device, strand, item, demand);
        let arrived = if cluster.network.gpu_direct { self.arrival(message) } else { self.scratch(bytes) };
        (self.graph.task(receive, &[packing], &[], &[arrived]), arrived)
    }

    /// Brings the rows of a message, which `sent` has packed, to the receiver and stores them there.
    fn receive(&mut self, message: usize, Sent { task: sent, packed, send }: Sent) {
        let (source, bytes) = (self.source, self.message_bytes(message));
        let Message { from, to: owner, .. } = source.exchange.messages[message];
        let (device, strand) = (source.device(owner), self.graph.strand(None));
        let item = self.item(Item::Received(message as u32));
        if let Some((cluster, send)) = source.cluster_of(from, owner).zip(send) {
            let (received, arrived) = self.network_receive(cluster, message, sent);
            if cluster.network.gpu_direct {
                return self.scatter(message, &[received, send], arrived);
            }
            let copied = source.copy_demand(owner, TaskKind::Upload, bytes);
            let upload = exchange_task(TaskKind::Upload, device, strand, item, copied);
            let uploaded = self.arrival(message);
            let upload = self.graph.task(upload, &[received, send], &[arrived], &[uploaded]);
            return self.scatter(message, &[upload], uploaded);
        }
        if device == DeviceId::HOST {
            let moved = source.move_demand(owner, bytes);
            let unpack = exchange_task(TaskKind::Merge, device, strand, item, moved);
            // All rows of the owner are in one allocation, which is locked while rows are stored.
            let HostTasks { readers, stored: before, .. } = &self.host[owner];
            let waits: Vec<TaskId> =
                [sent].into_iter().chain(readers.iter().copied()).chain(*before).collect();
            let unpack = self.graph.task(unpack, &waits, &[packed], &[self.stored(message)]);
            self.host[owner].stored = Some(unpack);
            self.received[message].1 = Some(unpack);
            return;
        }
        let (kind, copied) = match self.is_peer_copy(message) {
            true => (TaskKind::PeerCopy, source.peer_demand(from, owner, bytes)),
            false => (TaskKind::Upload, source.copy_demand(owner, TaskKind::Upload, bytes)),
        };
        // Each receiver begins with another sender, so that not all of them copy from one device at the same time.
        let turn = (from + source.x.parts.len() - owner) % source.x.parts.len();
        let copy = Task { turn: turn as u32, ..exchange_task(kind, device, strand, item, copied) };
        let in_place = kind == TaskKind::PeerCopy && source.exchange.is_copied_in_place(message);
        let arrived = if in_place { self.stored(message) } else { self.arrival(message) };
        let copy = self.graph.task(copy, &[sent], &[packed], &[arrived]);
        if in_place {
            self.received[message].1 = Some(copy);
        } else {
            self.scatter(message, &[copy], arrived);
        }
    }

    /// Computes a chunk on its owner.
    fn chunk(&mut self, index: usize, reads_y: bool) {
        let source = self.source;
        let (owned, planned) = (&source.chunks[index], &source.plan.chunks[index]);
        let needs = source.exchange.needs.get(index).map_or(&[][..], Vec::as_slice);
        let (device, strand) = (source.device(owned.owner), self.graph.strand(None));
        let item = self.item(Item::Chunk(index as u32));
        let bytes = (owned.rows.end - owned.rows.start) * source.row_bytes;
        let role = if reads_y { Role::InOut } else { Role::Output };
        let y = Access { buffer: self.graph.buffer(role, bytes), begin: 0, end: bytes };
        let mut waits: Vec<TaskId> = needs.iter().filter_map(|&message| self.received[message].1).collect();
        // One kernel stores the rows of several messages.
        waits.sort_unstable();
        waits.dedup();
        let mut reads = vec![self.own_rows(owned.owner)];
        let of_ranks = self.arrived_for(index);
        waits.extend(of_ranks.iter().map(|(_, task)| *task));
        reads.extend(of_ranks.iter().map(|(stored, _)| *stored));
        let is_interior = source.exchange.is_interior(index);
        reads.extend(needs.iter().map(|&message| self.stored(message)));
        reads.extend(reads_y.then_some(y));
        let on_host = device == DeviceId::HOST;
        if on_host {
            // A chunk uses all threads. Rows that were packed after it would reach the other rank after its own interior rows.
            waits.extend(&self.host[owned.owner].packs_for_ranks);
        }
        if on_host && !is_interior {
            waits.extend(self.host[owned.owner].stored);
        }
        let kind = if on_host { TaskKind::CpuCompute } else { TaskKind::Kernel };
        let turn = if is_interior { INTERIOR_TURN } else { BOUNDARY_TURN };
        let demand = source.compute_demand(planned, device);
        let task = Task { turn, ..exchange_task(kind, device, strand, item, demand) };
        let task = self.graph.task(task, &waits, &reads, &[y]);
        if on_host && is_interior {
            self.host[owned.owner].readers.push(task);
        }
    }
}

fn exchange_task(kind: TaskKind, device: DeviceId, strand: StrandId, item: u32, demand: Demand) -> Task {
    Task { kind, device, strand, item, takes: None, gives: None, demand, turn: EXCHANGE_TURN }
}
