//! Discrete-event simulation: lanes, fences and the event queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::{Fault, FaultKind, Fence, LaneKind, Reports};
use super::sharing::Shared;
use crate::graph::Demand;

/// A simulation event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The uncontended time of an operation has passed.
    Alone(u32),
    /// The link latency of an operation has passed.
    Latency(u32),
    /// A user of the resource finishes, unless the set of users has changed since (then `version` differs).
    Share { resource: u32, version: u64 },
}

/// An operation that was submitted and has not completed.
#[derive(Debug, Default)]
struct Running {
    device: usize,
    lane: usize,
    fence: u64,
    demand: Demand,
    start_ns: u64,
    /// Number of incomplete operations that it waits for.
    waits: u32,
    /// How many of its uncontended time, link bytes and host bytes are unfinished; zero before it starts.
    parts: u32,
    /// Operations that wait for it.
    followers: Vec<u32>,
    abandoned: bool,
}

#[derive(Debug)]
struct Lane {
    kind: LaneKind,
    queue: VecDeque<u32>,
    /// Whether the first operation of the queue has started.
    busy: bool,
    /// When the last operation of a concurrent lane completed.
    last_end_ns: u64,
}

#[derive(Debug)]
struct DeviceState {
    lanes: Vec<Lane>,
    /// Whether operations of one lane run at the same time.
    is_concurrent: bool,
    latency_ns: u64,
    /// The resource of its link to the device; that of the other direction follows.
    link: usize,
    /// The same of its links to other devices.
    peer_link: usize,
    /// The resource of the memory of its host.
    host: usize,
    reports: Reports,
    /// Operations from the first incomplete one on; `first_fence` is the fence of the first.
    live: VecDeque<Option<u32>>,
    first_fence: u64,
}

#[derive(Debug)]
struct Resource {
    shared: Shared,
    version: u64,
    /// The rates of a link and the resource of its other direction; none for host memory.
    link: Option<(LinkRates, usize)>,
}

impl Resource {
    fn new(gb_per_s: f64, link: Option<(LinkRates, usize)>) -> Self {
        Self { shared: Shared::new(gb_per_s), version: 0, link }
    }
}

/// The properties of a device that the clock needs.
#[derive(Debug)]
pub(super) struct ClockedDevice {
    pub lanes: Vec<LaneKind>,
    /// Whether operations of one lane run at the same time.
    pub is_concurrent: bool,
    pub link: LinkRates,
    /// The links to other devices, if peer copies do not use `link`.
    pub peer_link: Option<LinkRates>,
    pub latency_ns: u64,
    /// The node whose host memory it uses.
    pub node: usize,
}

/// The bandwidth of a link in each direction, and how many times lower it is while the other direction is busy too.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkRates {
    pub gb_per_s: f64,
    pub duplex_factor: f64,
}

/// The state of a simulation.
#[derive(Debug)]
pub(super) struct SimulationState {
    now_ns: u64,
    /// Ordered by time, then by the order of scheduling.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    operations: Vec<Running>,
    unused: Vec<u32>,
    device_states: Vec<DeviceState>,
    /// Host memories, and for each device its upload and download link.
    resources: Vec<Resource>,
    /// For each node the resource of its host memory.
    nodes: Vec<usize>,
}

impl SimulationState {
    pub(super) fn new() -> Self {
        Self {
            now_ns: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            operations: Vec::new(),
            unused: Vec::new(),
            device_states: Vec::new(),
            resources: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Adds a node with the given host memory bandwidth.
    pub(super) fn add_node(&mut self, host_memory_gb_per_s: f64) {
        self.nodes.push(self.resources.len());
        self.resources.push(Resource::new(host_memory_gb_per_s, None));
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Adds a device. Its node must exist; otherwise it is one of the first node.
    pub(super) fn add_device(&mut self, device: ClockedDevice, reports: Reports) -> usize {
        let ClockedDevice { lanes, is_concurrent, link, peer_link, latency_ns, node } = device;
        let lanes =
            lanes.into_iter().map(|kind| Lane { kind, queue: VecDeque::new(), busy: false, last_end_ns: 0 });
        let lanes = lanes.collect();
        let host = self.nodes.get(node).or(self.nodes.first()).copied().unwrap_or(0);
        let link = self.add_link(link);
        let peer_link = peer_link.map_or(link, |rates| self.add_link(rates));
        self.device_states.push(DeviceState {
            lanes,
            is_concurrent,
            latency_ns,
            link,
            peer_link,
            host,
            reports,
            live: VecDeque::new(),
            first_fence: 0,
        });
        self.device_states.len() - 1
    }

    /// Adds both directions of a link. Returns the resource of the first; that of the other follows.
    fn add_link(&mut self, rates: LinkRates) -> usize {
        let link = self.resources.len();
        self.resources.push(Resource::new(rates.gb_per_s, Some((rates, link + 1))));
        self.resources.push(Resource::new(rates.gb_per_s, Some((rates, link))));
        link
    }

    pub(super) fn submit(
        &mut self,
        device: usize,
        lane: usize,
        demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        let device_state = &mut self.device_states[device];
        let fence = device_state.first_fence + device_state.live.len() as u64;
        if lane >= device_state.lanes.len() {
            return Err(Fault::new(FaultKind::Misuse, format!("there is no lane {lane}")));
        }
        if let Some(unknown) = waits.iter().find(|wait| wait.0 >= fence) {
            let message = format!("a wait for operation {}, which was not submitted yet", unknown.0);
            return Err(Fault::new(FaultKind::Misuse, message));
        }
        let number = self.unused.pop().unwrap_or_else(|| {
            self.operations.push(Running::default());
            self.operations.len() as u32 - 1
        });
        let mut waiting = 0;
        for wait in waits {
            let Some(place) = wait.0.checked_sub(device_state.first_fence) else { continue };
            if let Some(&Some(earlier)) = device_state.live.get(place as usize) {
                self.operations[earlier as usize].followers.push(number);
                waiting += 1;
            }
        }
        device_state.live.push_back(Some(number));
        if !device_state.is_concurrent {
            device_state.lanes[lane].queue.push_back(number);
        }
        let operation = &mut self.operations[number as usize];
        // Keeps the capacity of the list.
        operation.followers.clear();
        (operation.device, operation.lane, operation.fence) = (device, lane, fence);
        (operation.demand, operation.waits, operation.abandoned) = (demand, waiting, false);
        operation.parts = 0;
        self.try_start(number);
        Ok(Fence(fence))
    }

    /// Advances time until a completion is reported. Returns `false` if no event is left.
    pub(super) fn advance(&mut self) -> bool {
        let mut reported = false;
        while !reported {
            let Some(Reverse((at_ns, _, event))) = self.events.pop() else { return false };
            match event {
                Event::Alone(number) => {
                    self.now_ns = at_ns;
                    reported |= self.part_done(number);
                }
                Event::Latency(number) => {
                    self.now_ns = at_ns;
                    let operation = &self.operations[number as usize];
                    let (links, bytes) = (self.links_of(operation), operation.demand.link_bytes);
                    links.into_iter().flatten().for_each(|link| self.enter(link, number, bytes));
                }
                Event::Share { resource, version } => {
                    if self.resources[resource as usize].version == version {
                        self.now_ns = at_ns;
                        reported |= self.serve(resource as usize);
                    }
                }
            }
        }
        true
    }

    /// Abandons all operations of a device. Those on shared resources finish without a report.
    pub(super) fn abandon(&mut self, device: usize) {
        let device_state = &mut self.device_states[device];
        for number in device_state.live.drain(..).inspect(|_| device_state.first_fence += 1).flatten() {
            let operation = &mut self.operations[number as usize];
            operation.abandoned = true;
            if operation.parts == 0 {
                self.unused.push(number);
            }
        }
        for lane in &mut device_state.lanes {
            lane.queue.clear();
            lane.busy = false;
        }
    }

    /// The links that an operation uses, in its direction: that of its device, and for a peer copy that of the other device.
    fn links_of(&self, operation: &Running) -> [Option<usize>; 2] {
        let device = &self.device_states[operation.device];
        let peer = operation.demand.peer.and_then(|peer| self.device_states.get(peer.index()));
        if let Some(peer) = peer {
            return [Some(device.peer_link), Some(peer.peer_link + 1)];
        }
        let kind = device.lanes[operation.lane].kind;
        let is_from_device = matches!(kind, LaneKind::Download | LaneKind::Receive);
        [Some(device.link + usize::from(is_from_device)), None]
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at_ns, self.scheduled, event)));
    }

    fn enter(&mut self, resource: usize, number: u32, bytes: u64) {
        let was_idle = self.resources[resource].shared.is_idle();
        self.resources[resource].shared.enter(self.now_ns, number, bytes);
        self.schedule_share(resource);
        if was_idle {
            self.adjust_other_direction(resource);
        }
    }

    /// Adjusts the bandwidth of a link's other direction after this one became busy or idle.
    fn adjust_other_direction(&mut self, resource: usize) {
        let Some((LinkRates { gb_per_s, duplex_factor }, other)) = self.resources[resource].link else {
            return;
        };
        if duplex_factor == 1.0 {
            return;
        }
        let factor = if self.resources[resource].shared.is_idle() { 1.0 } else { duplex_factor };
        self.resources[other].shared.set_bandwidth(self.now_ns, gb_per_s / factor);
        self.schedule_share(other);
    }

    fn schedule_share(&mut self, resource: usize) {
        let of = &mut self.resources[resource];
        of.version += 1;
        let version = of.version;
        if let Some(at_ns) = of.shared.next_ns() {
            self.schedule(at_ns.max(self.now_ns), Event::Share { resource: resource as u32, version });
        }
    }

    fn serve(&mut self, resource: usize) -> bool {
        let mut reported = false;
        while let Some(number) = self.resources[resource].shared.leave(self.now_ns) {
            reported |= self.part_done(number);
        }
        self.schedule_share(resource);
        if self.resources[resource].shared.is_idle() {
            self.adjust_other_direction(resource);
        }
        reported
    }

    /// Starts the operation, or the first one of its lane where a lane runs one at a time, unless it waits.
    fn try_start(&mut self, number: u32) {
        let Running { device, lane, .. } = self.operations[number as usize];
        if self.device_states[device].is_concurrent {
            if self.operations[number as usize].waits == 0 {
                self.start(number);
            }
            return;
        }
        self.start_first(device, lane);
    }

    /// Starts the first operation of a lane that runs one at a time, unless it runs or waits.
    fn start_first(&mut self, device: usize, lane: usize) {
        let of = &mut self.device_states[device].lanes[lane];
        let Some(&first) = of.queue.front() else { return };
        if !of.busy && self.operations[first as usize].waits == 0 {
            of.busy = true;
            self.start(first);
        }
    }

    fn start(&mut self, number: u32) {
        let links = self.links_of(&self.operations[number as usize]).into_iter().flatten().count() as u32;
        let operation = &mut self.operations[number as usize];
        let demand = operation.demand;
        let DeviceState { latency_ns, host, .. } = self.device_states[operation.device];
        operation.start_ns = self.now_ns;
        let links = if demand.link_bytes > 0 { links } else { 0 };
        operation.parts = 1 + links + u32::from(demand.host_bytes > 0);
        self.schedule(self.now_ns.saturating_add(demand.alone_ns), Event::Alone(number));
        if demand.link_bytes > 0 {
            self.schedule(self.now_ns.saturating_add(latency_ns), Event::Latency(number));
        }
        if demand.host_bytes > 0 {
            self.enter(host, number, demand.host_bytes);
        }
    }

    /// Records that one part of an operation finished. Returns whether the operation completed.
    fn part_done(&mut self, number: u32) -> bool {
        let operation = &mut self.operations[number as usize];
        operation.parts -= 1;
        if operation.parts > 0 {
            return false;
        }
        self.unused.push(number);
        if operation.abandoned {
            return false;
        }
        let (device, lane, fence) = (operation.device, operation.lane, operation.fence);
        let mut start_ns = operation.start_ns;
        let mut followers = std::mem::take(&mut operation.followers);
        let device_state = &mut self.device_states[device];
        let of_lane = &mut device_state.lanes[lane];
        if device_state.is_concurrent {
            // As on a real network: the spans of a lane do not overlap in a trace.
            start_ns = start_ns.max(of_lane.last_end_ns);
            of_lane.last_end_ns = self.now_ns;
        } else {
            of_lane.queue.pop_front();
            of_lane.busy = false;
        }
        if let Some(place) = device_state.live.get_mut((fence - device_state.first_fence) as usize) {
            *place = None;
        }
        while let Some(None) = device_state.live.front() {
            device_state.live.pop_front();
            device_state.first_fence += 1;
        }
        device_state.reports.send(Fence(fence), start_ns, self.now_ns, Ok(()));
        self.start_first(device, lane);
        for &follower in &followers {
            self.operations[follower as usize].waits -= 1;
        }
        for &follower in &followers {
            self.try_start(follower);
        }
        followers.clear();
        self.operations[number as usize].followers = followers;
        true
    }
}
