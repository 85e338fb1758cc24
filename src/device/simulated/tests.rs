use crossbeam::channel::{Receiver, unbounded};

use super::*;
use crate::device::Completion;
use crate::graph::DeviceId;

struct Fixture {
    simulation: Simulation,
    sender: crossbeam::channel::Sender<Completion>,
    receiver: Receiver<Completion>,
    devices: u32,
}

impl Fixture {
    fn new(host_gb_per_s: f64) -> Self {
        let (sender, receiver) = unbounded();
        Self { simulation: Simulation::new(host_gb_per_s), sender, receiver, devices: 0 }
    }

    fn accelerator(&mut self, link_gb_per_s: f64, latency_ns: u64) -> SimulatedDevice {
        let reports = Reports::new(DeviceId(self.devices), self.sender.clone());
        self.devices += 1;
        let spec = SimulatedSpec::accelerator("sim", 1 << 30, link_gb_per_s, latency_ns);
        self.simulation.device(&spec, reports)
    }

    /// Device, fence, start and end of all operations, in the order of their completions.
    fn finish(&self, device: &mut SimulatedDevice) -> Vec<(u32, u64, u64, u64)> {
        while Device::advance(device) {}
        let ends = self.receiver.try_iter();
        ends.map(|end| (end.device.0, end.fence.0, end.start_ns, end.end_ns)).collect()
    }
}

fn submit(device: &mut SimulatedDevice, lane: usize, demand: Demand, waits: &[Fence]) -> Fence {
    Device::submit(device, lane, Operation::Pass, demand, waits).unwrap()
}

fn alone(alone_ns: u64) -> Demand {
    Demand { alone_ns, ..Demand::default() }
}

const UPLOAD: usize = 0;
const COMPUTE: usize = 1;
const DOWNLOAD: usize = 2;

fn two_uploads() -> SimulatedSpec {
    let mut spec = SimulatedSpec::accelerator("sim", 1 << 30, 10.0, 0);
    spec.lanes.push(spec.lanes[UPLOAD].clone());
    spec
}

#[test]
fn two_copies_on_one_link_take_twice_as_long() {
    let fixture = Fixture::new(1000.0);
    let mut device =
        fixture.simulation.device(&two_uploads(), Reports::new(DeviceId(0), fixture.sender.clone()));
    let copy = Demand { link_bytes: 10_000, ..Demand::default() };
    submit(&mut device, UPLOAD, copy, &[]);
    assert_eq!(fixture.finish(&mut device), [(0, 0, 0, 1000)]);
    submit(&mut device, UPLOAD, copy, &[]);
    submit(&mut device, 3, copy, &[]);
    assert_eq!(fixture.finish(&mut device), [(0, 1, 1000, 3000), (0, 2, 1000, 3000)]);
}

#[test]
fn copies_slow_each_other_down_while_both_directions_of_a_link_are_busy() {
    let fixture = Fixture::new(1000.0);
    let spec =
        SimulatedSpec { link_duplex_factor: 1.25, ..SimulatedSpec::accelerator("sim", 1 << 30, 10.0, 0) };
    let mut device = fixture.simulation.device(&spec, Reports::new(DeviceId(0), fixture.sender.clone()));
    let copy = |link_bytes| Demand { link_bytes, ..Demand::default() };
    submit(&mut device, UPLOAD, copy(10_000), &[]);
    submit(&mut device, DOWNLOAD, copy(4_000), &[]);
    // The download takes 500 ns instead of 400. The upload then has 6,000 bytes left, which take 600 ns.
    assert_eq!(fixture.finish(&mut device), [(0, 1, 0, 500), (0, 0, 0, 1100)]);
    submit(&mut device, UPLOAD, copy(10_000), &[]);
    assert_eq!(fixture.finish(&mut device), [(0, 2, 1100, 2100)], "alone again");
}

#[test]
fn the_two_directions_of_a_full_duplex_link_are_independent() {
    let mut fixture = Fixture::new(1000.0);
    let mut device = fixture.accelerator(10.0, 5);
    let copy = Demand { link_bytes: 10_000, ..Demand::default() };
    submit(&mut device, UPLOAD, copy, &[]);
    submit(&mut device, DOWNLOAD, copy, &[]);
    assert_eq!(fixture.finish(&mut device), [(0, 0, 0, 1005), (0, 1, 0, 1005)]);
}

#[test]
fn copies_on_different_links_share_the_hosts_memory() {
    let mut fixture = Fixture::new(12.0);
    let (mut first, mut second) = (fixture.accelerator(10.0, 0), fixture.accelerator(10.0, 0));
    let copy = Demand { link_bytes: 12_000, host_bytes: 12_000, ..Demand::default() };
    submit(&mut first, UPLOAD, copy, &[]);
    submit(&mut second, UPLOAD, copy, &[]);
    // Each link alone would need 1200 ns; the memory serves each copy at 6 bytes per nanosecond.
    assert_eq!(fixture.finish(&mut first), [(0, 0, 0, 2000), (1, 0, 0, 2000)]);
}

#[test]
fn a_later_user_slows_a_running_one() {
    let mut fixture = Fixture::new(10.0);
    let (mut first, mut second) = (fixture.accelerator(0.0, 0), fixture.accelerator(0.0, 0));
    let from_memory = |host_bytes| Demand { host_bytes, ..Demand::default() };
    submit(&mut first, COMPUTE, from_memory(10_000), &[]);
    let delay = submit(&mut second, UPLOAD, alone(400), &[]);
    submit(&mut second, COMPUTE, from_memory(10_000), &[delay]);
    // 4000 bytes at full bandwidth, then 6000 at half until 1600; then the other has 4000 left at full bandwidth.
    assert_eq!(fixture.finish(&mut first), [(1, 0, 0, 400), (0, 0, 0, 1600), (1, 1, 400, 2000)]);
}

#[test]
fn a_chain_takes_the_sum_of_its_parts() {
    let mut fixture = Fixture::new(100.0);
    let mut device = fixture.accelerator(10.0, 7);
    let up = submit(
        &mut device,
        UPLOAD,
        Demand { alone_ns: 50, link_bytes: 1000, host_bytes: 1000, peer: None },
        &[],
    );
    let kernel = submit(&mut device, COMPUTE, alone(500), &[up]);
    submit(&mut device, DOWNLOAD, Demand { link_bytes: 100, ..Demand::default() }, &[kernel, up]);
    assert_eq!(fixture.finish(&mut device), [(0, 0, 0, 107), (0, 1, 107, 607), (0, 2, 607, 624)]);
    assert_eq!(fixture.simulation.now_ns(), 624);
}

#[test]
fn a_lane_is_first_in_first_out_even_when_the_first_waits() {
    let mut fixture = Fixture::new(100.0);
    let mut device = fixture.accelerator(10.0, 0);
    let slow = submit(&mut device, UPLOAD, alone(100), &[]);
    submit(&mut device, COMPUTE, alone(10), &[slow]);
    submit(&mut device, COMPUTE, alone(10), &[]);
    assert_eq!(fixture.finish(&mut device), [(0, 0, 0, 100), (0, 1, 100, 110), (0, 2, 110, 120)]);
}

#[test]
fn the_same_submissions_give_the_same_times() {
    let run = || {
        let mut fixture = Fixture::new(37.0);
        let mut devices =
            [fixture.accelerator(13.0, 11), fixture.accelerator(17.0, 3), fixture.accelerator(0.5, 0)];
        let mut fences = [Vec::new(), Vec::new(), Vec::new()];
        for at in 0..3000u64 {
            let number = (at * 7 % 3) as usize;
            let demand = Demand {
                alone_ns: at * 31 % 101,
                link_bytes: at * 17 % 997,
                host_bytes: at * 13 % 499,
                peer: None,
            };
            let waits: Vec<Fence> = fences[number].iter().rev().step_by(5).take(3).copied().collect();
            let fence = submit(&mut devices[number], (at % 3) as usize, demand, &waits);
            fences[number].push(fence);
        }
        fixture.finish(&mut devices[0])
    };
    let first = run();
    assert_eq!(first.len(), 3000);
    assert_eq!(first, run());
}

#[test]
fn memory_is_counted_and_refused_with_numbers() {
    let mut fixture = Fixture::new(1.0);
    let mut device = fixture.accelerator(1.0, 0);
    let mut ask = |bytes| Device::allocate(&mut device, bytes);
    assert!(ask(1 << 29).is_ok());
    let refused = ask((1 << 29) + 1).unwrap_err();
    assert_eq!(refused.kind, FaultKind::OutOfMemory);
    assert!(refused.message.contains("536870912 of 1073741824 bytes free"), "{}", refused.message);
    assert!(ask(1 << 29).is_ok());
}

#[test]
fn a_million_operations_complete() {
    let mut fixture = Fixture::new(100.0);
    let mut device = fixture.accelerator(10.0, 1);
    let demand = Demand { alone_ns: 5, link_bytes: 10, host_bytes: 20, peer: None };
    let mut last = Fence(0);
    for _ in 0..100 {
        for _ in 0..3333 {
            let up = submit(&mut device, UPLOAD, demand, &[]);
            let kernel = submit(&mut device, COMPUTE, alone(3), &[up]);
            last = submit(&mut device, DOWNLOAD, demand, &[kernel]);
        }
        while Device::advance(&mut device) {}
    }
    assert_eq!(last.0 + 1, 999_900);
    assert_eq!(fixture.receiver.try_iter().count(), 999_900);
}

#[test]
fn a_closed_device_leaves_the_others_running() {
    let mut fixture = Fixture::new(10.0);
    let (mut first, mut second) = (fixture.accelerator(10.0, 0), fixture.accelerator(10.0, 0));
    let copy = Demand { alone_ns: 5, link_bytes: 100, host_bytes: 100, peer: None };
    for _ in 0..3 {
        let up = submit(&mut first, UPLOAD, copy, &[]);
        submit(&mut first, COMPUTE, copy, &[up]);
        submit(&mut second, UPLOAD, copy, &[]);
    }
    Device::close(&mut first);
    let ends = fixture.finish(&mut second);
    assert_eq!(ends.iter().map(|end| (end.0, end.1)).collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 2)]);
}

/// The networks of `nodes` nodes that send and receive 10 bytes per nanosecond.
fn networks(fixture: &Fixture, nodes: u32) -> Vec<SimulatedDevice> {
    let network = |node: u32| {
        let reports = Reports::new(DeviceId(node), fixture.sender.clone());
        fixture.simulation.device(&SimulatedSpec::network("network", node as usize, 10.0, 0), reports)
    };
    (0..nodes).map(network).collect()
}

const SEND: usize = 0;
const RECEIVE: usize = 1;

#[test]
fn messages_of_a_node_share_its_injection_limit_and_run_at_the_same_time() {
    let fixture = Fixture::new(1000.0);
    let mut nodes = networks(&fixture, 2);
    let message = |link_bytes| Demand { alone_ns: link_bytes / 5, link_bytes, host_bytes: 0, peer: None };
    // Each of four messages could be sent in 200 ns; the node needs 400 ns for all of them.
    for _ in 0..4 {
        submit(&mut nodes[0], SEND, message(1000), &[]);
    }
    submit(&mut nodes[1], SEND, message(1000), &[]);
    let ends = fixture.finish(&mut nodes[0]);
    let ends: Vec<(u32, u64, u64)> = ends.iter().map(|end| (end.0, end.1, end.3)).collect();
    assert_eq!(ends, [(1, 0, 200), (0, 0, 400), (0, 1, 400), (0, 2, 400), (0, 3, 400)]);
}

#[test]
fn a_short_message_does_not_wait_for_a_long_one_before_it() {
    let fixture = Fixture::new(1000.0);
    let mut nodes = networks(&fixture, 1);
    let message = |link_bytes| Demand { alone_ns: 0, link_bytes, host_bytes: 0, peer: None };
    submit(&mut nodes[0], RECEIVE, message(100_000), &[]);
    submit(&mut nodes[0], RECEIVE, message(10), &[]);
    submit(&mut nodes[0], SEND, message(1000), &[]);
    let ends = fixture.finish(&mut nodes[0]);
    assert_eq!(ends, [(0, 1, 0, 2), (0, 2, 0, 100), (0, 0, 2, 10_001)], "spans of a lane do not overlap");
}

#[test]
fn the_devices_of_two_nodes_do_not_share_host_memory() {
    let mut fixture = Fixture::new(0.0);
    fixture.simulation = Simulation::of_nodes(2, 12.0);
    let device = |node: usize| {
        let reports = Reports::new(DeviceId(node as u32), fixture.sender.clone());
        let spec = SimulatedSpec { node, ..SimulatedSpec::accelerator("sim", 1 << 30, 10.0, 0) };
        fixture.simulation.device(&spec, reports)
    };
    let (mut first, mut second) = (device(0), device(1));
    let copy = Demand { link_bytes: 12_000, host_bytes: 12_000, ..Demand::default() };
    submit(&mut first, UPLOAD, copy, &[]);
    submit(&mut second, UPLOAD, copy, &[]);
    assert_eq!(fixture.finish(&mut first), [(0, 0, 0, 1200), (1, 0, 0, 1200)]);
}

#[test]
fn peer_copies_share_the_links_of_the_device_that_they_copy_from() {
    let fixture = Fixture::new(1000.0);
    let device = |number: u32, peer_gb_per_s| {
        let spec = SimulatedSpec { peer_gb_per_s, ..SimulatedSpec::accelerator("sim", 1 << 30, 10.0, 0) };
        fixture.simulation.device(&spec, Reports::new(DeviceId(number), fixture.sender.clone()))
    };
    let copy = |from| Demand { link_bytes: 10_000, peer: Some(DeviceId(from)), ..Demand::default() };
    // Over links between devices at 100 GB/s, and over links to the host at 10 GB/s.
    for (first, rate, alone_ns) in [(0, Some(100.0), 100), (3, None, 1000)] {
        let mut devices: Vec<SimulatedDevice> =
            (first..first + 3).map(|number| device(number, rate)).collect();
        let begin_ns = fixture.simulation.now_ns();
        submit(&mut devices[0], UPLOAD, copy(first + 1), &[]);
        submit(&mut devices[1], UPLOAD, copy(first + 2), &[]);
        submit(&mut devices[2], UPLOAD, copy(first), &[]);
        let ends = fixture.finish(&mut devices[0]);
        assert!(ends.iter().all(|end| end.3 - begin_ns == alone_ns), "other senders: {ends:?}");
        let begin_ns = fixture.simulation.now_ns();
        submit(&mut devices[0], UPLOAD, copy(first + 2), &[]);
        submit(&mut devices[1], UPLOAD, copy(first + 2), &[]);
        let ends = fixture.finish(&mut devices[0]);
        assert!(ends.iter().all(|end| end.3 - begin_ns == 2 * alone_ns), "one sender: {ends:?}");
        // A copy from the host does not slow down a copy over links between devices.
        let begin_ns = fixture.simulation.now_ns();
        submit(&mut devices[2], DOWNLOAD, Demand { peer: None, ..copy(0) }, &[]);
        submit(&mut devices[0], UPLOAD, copy(first + 2), &[]);
        let ends = fixture.finish(&mut devices[0]);
        let peer_copy = ends.iter().find(|end| end.0 == first).unwrap();
        let expected_ns = if rate.is_some() { alone_ns } else { 2 * alone_ns };
        assert_eq!(peer_copy.3 - begin_ns, expected_ns);
    }
}

#[test]
fn a_closed_network_leaves_the_others_running() {
    let fixture = Fixture::new(10.0);
    let mut nodes = networks(&fixture, 2);
    let message = Demand { alone_ns: 5, link_bytes: 100, host_bytes: 0, peer: None };
    for _ in 0..3 {
        let sent = submit(&mut nodes[0], SEND, message, &[]);
        submit(&mut nodes[0], RECEIVE, message, &[sent]);
        submit(&mut nodes[1], SEND, message, &[]);
    }
    Device::close(&mut nodes[0]);
    let ends = fixture.finish(&mut nodes[1]);
    assert_eq!(ends.iter().map(|end| (end.0, end.1)).collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 2)]);
    assert!(Device::submit(&mut nodes[0], SEND, Operation::Pass, message, &[]).is_err());
}

proptest::proptest! {
    #[test]
    fn no_node_sends_faster_than_its_injection_limit_and_no_message_faster_than_alone(
        messages in proptest::collection::vec((0usize..4, 0usize..2, 0u64..2000, 1u64..100_000), 1..40),
    ) {
        let fixture = Fixture::new(1000.0);
        let mut nodes = networks(&fixture, 4);
        let mut bytes = [[0u64; 2]; 4];
        let mut alone = [const { Vec::new() }; 4];
        for (node, lane, alone_ns, link_bytes) in messages {
            bytes[node][lane] += link_bytes;
            alone[node].push(alone_ns.max(link_bytes / 10));
            submit(&mut nodes[node], lane, Demand { alone_ns, link_bytes, host_bytes: 0, peer: None }, &[]);
        }
        let ends = fixture.finish(&mut nodes[0]);
        for node in 0..4 {
            let of_node = || ends.iter().filter(|end| end.0 == node as u32);
            let last = of_node().map(|end| end.3).max().unwrap_or(0);
            proptest::prop_assert!(last + 1 >= bytes[node][SEND].max(bytes[node][RECEIVE]) / 10);
            for &(_, fence, _, end) in of_node() {
                proptest::prop_assert!(end >= alone[node][fence as usize]);
            }
        }
    }
}
