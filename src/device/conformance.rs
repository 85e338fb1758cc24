//! The conformance suite that every back end must pass.
//!
//! A back end runs it by calling [`conforms`] with a function that opens a device.

use std::collections::HashMap;
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use super::{
    Argument, Completion, Device, FaultKind, Fence, HostTransfer, LaneKind, Launch, Memory, MemoryRange,
    Operation, PinnedRange, Reports, RowBytes, borrow_scope,
};
use crate::graph::{Demand, DeviceId};
use crate::kernel::KernelId;
use crate::kernel::cuda::Variant;
use crate::matrix::Dtype;

/// The operations that a back end supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supports {
    /// Copies and kernels on real memory.
    Copies,
    /// Host jobs.
    Jobs,
    /// [`Operation::Pass`] in virtual time.
    Time,
}

/// A device under test and its completions.
struct Subject<'pool> {
    device: Box<dyn Device<'static> + 'pool>,
    completions: Receiver<Completion>,
    supports: Supports,
    /// For each operation in flight its lane.
    in_flight: HashMap<Fence, usize>,
    completed: HashMap<Fence, Completion>,
}

const SIZE: u64 = 4096;

/// The suite fails if no completion arrives for this long.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the whole suite. `open` must return a new device at each call.
pub(crate) fn conforms<'pool>(
    supports: Supports,
    open: impl Fn(Reports) -> Box<dyn Device<'static> + 'pool>,
) {
    let fresh = || {
        let (sender, completions) = unbounded();
        let device = open(Reports::new(DeviceId(5), sender));
        Subject { device, completions, supports, in_flight: HashMap::new(), completed: HashMap::new() }
    };
    a_description_stays_the_same(&mut fresh());
    allocations_beyond_the_limit_are_refused(&mut fresh());
    every_operation_completes_once(&mut fresh());
    lanes_run_in_order_and_waits_are_respected(&mut fresh());
    a_bad_operation_does_not_affect_others(&mut fresh());
    unsupported_operations_are_misuse(&mut fresh());
    a_closed_device_refuses_work(&mut fresh());
    match supports {
        Supports::Copies => {
            downloads_return_the_uploaded_bytes(&mut fresh());
            borrowed_memory_is_copied_in_place(&mut fresh());
            bad_ranges_are_faults(&mut fresh());
        }
        Supports::Jobs => failing_jobs_are_faults(&mut fresh()),
        Supports::Time => {}
    }
}

impl Subject<'_> {
    /// A valid operation for a lane of that kind.
    fn valid_operation(&mut self, kind: LaneKind) -> Operation<'static> {
        match self.supports {
            Supports::Time => Operation::Pass,
            Supports::Jobs => Operation::Job(Box::new(|| Ok(()))),
            Supports::Copies => {
                let pinned = self.device.allocate_pinned(SIZE).unwrap();
                let from = PinnedRange { pinned, begin: 0, end: SIZE };
                let memory = self.device.allocate(SIZE).unwrap();
                let to = MemoryRange { memory, begin: 0, end: SIZE };
                match kind {
                    // The bytes must be written before they can be downloaded.
                    LaneKind::Download => {
                        let lane = self.lane(LaneKind::Upload);
                        let fence = self.submit(lane, Operation::upload(from.clone(), to), &[]);
                        self.completion_of(fence);
                        self.device.mark_synchronized();
                        Operation::download(to, from)
                    }
                    _ => Operation::upload(from, to),
                }
            }
        }
    }

    fn lane(&self, kind: LaneKind) -> usize {
        self.device.describe().lanes.iter().position(|lane| lane.kind == kind).unwrap()
    }

    /// The lanes that the suite has operations for.
    fn lanes(&self) -> Vec<(usize, LaneKind)> {
        let lanes = self.device.describe().lanes.iter().enumerate();
        let usable = |kind: LaneKind| self.supports != Supports::Copies || kind != LaneKind::Compute;
        lanes.map(|(number, lane)| (number, lane.kind)).filter(|(_, kind)| usable(*kind)).collect()
    }

    /// Submits an operation once the lane is below its depth.
    fn submit(&mut self, lane: usize, operation: Operation<'static>, waits: &[Fence]) -> Fence {
        let depth = self.device.describe().lanes[lane].depth;
        while self.in_flight.values().filter(|on| **on == lane).count() >= depth {
            self.receive_completion();
        }
        let demand = Demand { alone_ns: 1000, link_bytes: SIZE, host_bytes: SIZE, peer: None };
        let fence = self.device.submit(lane, operation, demand, waits).unwrap();
        assert!(!self.completed.contains_key(&fence), "a fence is used again");
        assert!(self.in_flight.insert(fence, lane).is_none(), "a fence is used twice");
        fence
    }

    fn receive_completion(&mut self) {
        let end = loop {
            if let Ok(completion) = self.completions.try_recv() {
                break completion;
            }
            if !self.device.advance() {
                break self
                    .completions
                    .recv_timeout(COMPLETION_TIMEOUT)
                    .expect("no completion within the timeout");
            }
        };
        assert_eq!(end.device, DeviceId(5), "a completion carries another device's number");
        assert!(end.start_ns <= end.end_ns && end.end_ns <= self.device.now_ns(), "{end:?}");
        assert!(self.in_flight.remove(&end.fence).is_some(), "{end:?} was not in flight");
        self.completed.insert(end.fence, end);
    }

    fn completion_of(&mut self, fence: Fence) -> Completion {
        while !self.completed.contains_key(&fence) {
            self.receive_completion();
        }
        self.completed[&fence].clone()
    }

    /// Waits for these operations and asserts that they succeeded. Completions of different lanes may arrive in any order.
    fn expect_success_of<const N: usize>(&mut self, fences: [Fence; N]) {
        for fence in fences {
            assert_eq!(self.completion_of(fence).result, Ok(()));
        }
    }

    /// Waits for all operations and asserts that no further completion arrives.
    fn finish(&mut self) {
        while !self.in_flight.is_empty() {
            self.receive_completion();
        }
        while self.device.advance() {}
        assert!(
            self.completions.try_recv().is_err(),
            "a completion arrived for an operation that was not in flight"
        );
    }

    /// The kind of fault with which submitting or running `operation` fails.
    fn fault_of(&mut self, lane: usize, operation: Operation<'static>) -> FaultKind {
        match self.device.submit(lane, operation, Demand::default(), &[]) {
            Err(fault) => fault.kind,
            Ok(fence) => {
                self.in_flight.insert(fence, lane);
                self.completion_of(fence).result.expect_err("an invalid operation succeeded").kind
            }
        }
    }
}

fn a_description_stays_the_same(subject: &mut Subject<'_>) {
    let before = subject.device.describe().clone();
    assert!(!before.name.is_empty() && !before.lanes.is_empty());
    assert!(before.lanes.iter().all(|lane| lane.depth > 0 && !lane.name.is_empty()));
    for (lane, kind) in subject.lanes() {
        let operation = subject.valid_operation(kind);
        let fence = subject.submit(lane, operation, &[]);
        assert_eq!(subject.completion_of(fence).result, Ok(()));
    }
    assert_eq!(subject.device.describe(), &before);
}

fn allocations_beyond_the_limit_are_refused(subject: &mut Subject<'_>) {
    let kind = |refused: Result<Memory, super::Fault>| {
        refused.expect_err("an allocation beyond the limit succeeded").kind
    };
    match subject.device.describe().memory_bytes {
        None => assert_eq!(kind(subject.device.allocate(1)), FaultKind::OutOfMemory),
        Some(limit) => {
            assert_eq!(kind(subject.device.allocate(limit + 1)), FaultKind::OutOfMemory);
            assert_eq!(kind(subject.device.allocate(u64::MAX)), FaultKind::OutOfMemory);
            let first = subject.device.allocate(SIZE).unwrap();
            let second = subject.device.allocate(SIZE).unwrap();
            assert_ne!(first, second);
            assert_eq!(kind(subject.device.allocate(limit - SIZE)), FaultKind::OutOfMemory);
            subject.device.free(first);
            subject.device.free(first);
            let third = subject.device.allocate(limit - SIZE).unwrap();
            assert!(third != first && third != second, "the number of freed memory was used again");
            subject.device.free(third);
        }
    }
    let (lane, kind) = subject.lanes()[0];
    let operation = subject.valid_operation(kind);
    let fence = subject.submit(lane, operation, &[]);
    assert_eq!(subject.completion_of(fence).result, Ok(()));
}

fn every_operation_completes_once(subject: &mut Subject<'_>) {
    let mut fences = Vec::new();
    for &(lane, kind) in subject.lanes().iter().cycle().take(24) {
        let operation = subject.valid_operation(kind);
        fences.push(subject.submit(lane, operation, &[]));
    }
    subject.finish();
    assert!(fences.iter().all(|fence| subject.completed[fence].result == Ok(())));
}

fn lanes_run_in_order_and_waits_are_respected(subject: &mut Subject<'_>) {
    let lanes = subject.lanes();
    let operations: Vec<_> =
        lanes.iter().cycle().take(30).map(|&(lane, kind)| (lane, subject.valid_operation(kind))).collect();
    let stream_ordered = subject.device.describe().stream_ordered;
    let mut submitted: Vec<(usize, Fence)> = Vec::new();
    for (lane, operation) in operations {
        // Each operation waits for the previous one, which is on another lane if there are several.
        let waits: Vec<Fence> = submitted.last().iter().map(|(_, fence)| *fence).collect();
        if let (false, Some(&before)) = (stream_ordered, waits.first()) {
            subject.completion_of(before);
        }
        submitted.push((lane, subject.submit(lane, operation, &waits)));
    }
    subject.finish();
    let in_order = |before: Fence, behind: Fence| {
        subject.completed[&before].end_ns <= subject.completed[&behind].start_ns
    };
    assert!(
        submitted.windows(2).all(|pair| in_order(pair[0].1, pair[1].1)),
        "an operation started before the one it waits for completed"
    );

    let (lane, kind) = lanes[0];
    let operations: Vec<_> = (0..10).map(|_| subject.valid_operation(kind)).collect();
    let fences: Vec<Fence> =
        operations.into_iter().map(|operation| subject.submit(lane, operation, &[])).collect();
    subject.finish();
    let in_order = |before: Fence, behind: Fence| {
        subject.completed[&before].end_ns <= subject.completed[&behind].start_ns
    };
    assert!(
        fences.windows(2).all(|pair| in_order(pair[0], pair[1])),
        "a lane did not run its operations in order"
    );
}

fn a_bad_operation_does_not_affect_others(subject: &mut Subject<'_>) {
    let lanes = subject.lanes();
    for &(lane, kind) in lanes.iter().cycle().take(6) {
        let (before, behind) = (subject.valid_operation(kind), subject.valid_operation(kind));
        let before = subject.submit(lane, before, &[]);
        subject.fault_of(lane, unsupported(subject.supports));
        let behind = subject.submit(lane, behind, &[]);
        for fence in [before, behind] {
            assert_eq!(subject.completion_of(fence).result, Ok(()), "a valid operation failed");
        }
    }
    let unknown = subject.device.describe().lanes.len();
    let good = subject.valid_operation(lanes[0].1);
    assert!(
        subject.device.submit(unknown, good, Demand::default(), &[]).is_err(),
        "a lane that does not exist was accepted"
    );
    subject.finish();
}

/// An operation that such a back end does not support.
fn unsupported(supports: Supports) -> Operation<'static> {
    match supports {
        Supports::Copies | Supports::Time => Operation::Job(Box::new(|| Ok(()))),
        Supports::Jobs => Operation::Launch(Launch {
            kernel: KernelId::SerialCsr,
            dtype: Dtype::F64,
            variant: Variant::PLAIN,
            items: 1.into(),
            uniform: false,
            only_heavy: false,
            k: 1,
            arguments: vec![Argument::Number(1)],
            batch: None,
        }),
    }
}

fn unsupported_operations_are_misuse(subject: &mut Subject<'_>) {
    for (lane, _) in subject.lanes() {
        assert_eq!(subject.fault_of(lane, unsupported(subject.supports)), FaultKind::Misuse);
    }
}

fn a_closed_device_refuses_work(subject: &mut Subject<'_>) {
    let lanes = subject.lanes();
    let late = subject.valid_operation(lanes[0].1);
    let operations: Vec<_> =
        lanes.iter().map(|&(lane, kind)| (lane, subject.valid_operation(kind))).collect();
    for (lane, operation) in operations {
        subject.submit(lane, operation, &[]);
    }
    subject.device.close();
    subject.device.close();
    let refused = subject.device.submit(lanes[0].0, late, Demand::default(), &[]);
    assert!(refused.is_err(), "a closed device accepted an operation");
    assert!(subject.device.allocate(1).is_err(), "a closed device allocated memory");
    subject.device.mark_synchronized();
    subject.device.describe();
}

fn downloads_return_the_uploaded_bytes(subject: &mut Subject<'_>) {
    let (up, down) = (subject.lane(LaneKind::Upload), subject.lane(LaneKind::Download));
    let memory = subject.device.allocate(SIZE).unwrap();
    let [there, back] = [(); 2].map(|()| subject.device.allocate_pinned(SIZE).unwrap());
    for (begin, end) in [(0, SIZE), (0, 1), (7, 9), (SIZE - 1, SIZE), (1000, 3001)] {
        for (place, byte) in there.write().unwrap().iter_mut().enumerate() {
            *byte = (place as u64 * 31 + begin + 3) as u8;
        }
        let range = |pinned: &super::Pinned| PinnedRange { pinned: pinned.clone(), begin, end };
        let on_device = MemoryRange { memory, begin, end };
        let upload = Operation::upload(range(&there), on_device);
        let first = subject.submit(up, upload, &[]);
        if !subject.device.describe().stream_ordered {
            assert_eq!(subject.completion_of(first).result, Ok(()));
        }
        let download = Operation::download(on_device, range(&back));
        let second = subject.submit(down, download, &[first]);
        subject.expect_success_of([first, second]);
        subject.device.mark_synchronized();
        let bytes = begin as usize..end as usize;
        assert_eq!(there.read().unwrap()[bytes.clone()], back.read().unwrap()[bytes]);
    }
}

fn borrowed_memory_is_copied_in_place(subject: &mut Subject<'_>) {
    let (up, down) = (subject.lane(LaneKind::Upload), subject.lane(LaneKind::Download));
    let memory = subject.device.allocate(SIZE).unwrap();
    let head: &'static [u8] = (0..100).collect::<Vec<u8>>().leak();
    let tail: Vec<u8> = (100..=255).rev().collect();
    let mut back = vec![7u8; 600];
    let registration = subject.device.register(head.into()).unwrap();
    borrow_scope(|scope| {
        let (head, tail, back) = (scope.read_only(head), scope.read_only(&tail), scope.writable(&mut back));
        let device = |begin, end| MemoryRange { memory, begin, end };
        let host = |pinned: &super::Pinned, begin, end| PinnedRange { pinned: pinned.clone(), begin, end };
        let copies = vec![
            HostTransfer::whole(host(&head, 10, 100), device(0, 90)),
            HostTransfer::whole(host(&tail, 0, 150), device(90, 240)),
        ];
        let first = subject.submit(up, Operation::Upload(copies), &[]);
        if !subject.device.describe().stream_ordered {
            assert_eq!(subject.completion_of(first).result, Ok(()));
        }
        // Rows of 40 bytes with a pitch of 60 on the device and 100 in host memory.
        let rows = RowBytes { bytes: 40, pitch_bytes: 60, host_pitch_bytes: 100 };
        let transfer = HostTransfer { host: host(&back, 200, 600), device: device(0, 240), rows };
        let second = subject.submit(down, Operation::Download(transfer), &[first]);
        subject.expect_success_of([first, second]);
        subject.device.mark_synchronized();
    });
    drop(registration);
    let all: Vec<u8> = head[10..].iter().chain(&tail[..150]).copied().collect();
    for (at, &byte) in back.iter().enumerate() {
        let (row, column) = ((at.max(200) - 200) / 100, (at.max(200) - 200) % 100);
        let copied = at >= 200 && column < 40;
        assert_eq!(byte, if copied { all[row * 60 + column] } else { 7 }, "byte {at}");
    }
}

fn bad_ranges_are_faults(subject: &mut Subject<'_>) {
    let lane = subject.lane(LaneKind::Upload);
    let memory = subject.device.allocate(SIZE).unwrap();
    let pinned = subject.device.allocate_pinned(SIZE).unwrap();
    let mut attempt = |memory: Memory, (begin, end): (u64, u64), (from, to): (u64, u64)| {
        let from = PinnedRange { pinned: pinned.clone(), begin: from, end: to };
        let upload = Operation::upload(from, MemoryRange { memory, begin, end });
        assert_eq!(subject.fault_of(lane, upload), FaultKind::Misuse);
    };
    attempt(memory, (0, SIZE + 1), (0, SIZE + 1));
    attempt(memory, (1, SIZE + 1), (0, SIZE));
    attempt(memory, (0, SIZE), (1, SIZE + 1));
    attempt(memory, (0, SIZE), (0, SIZE - 1));
    attempt(memory, (10, 5), (10, 5));
    attempt(memory, (u64::MAX - 1, u64::MAX), (0, 1));
    attempt(Memory(u32::MAX), (0, 1), (0, 1));
}

fn failing_jobs_are_faults(subject: &mut Subject<'_>) {
    let (lane, _) = subject.lanes()[0];
    let failing = Operation::Job(Box::new(|| Err(crate::error::Error::Internal("on purpose".into()))));
    assert_eq!(subject.fault_of(lane, failing), FaultKind::Job);
    let panicking = Operation::Job(Box::new(|| panic!("on purpose")));
    assert_eq!(subject.fault_of(lane, panicking), FaultKind::Job);
    let operation = subject.valid_operation(LaneKind::Pool);
    let fence = subject.submit(lane, operation, &[]);
    assert_eq!(subject.completion_of(fence).result, Ok(()), "a job after one that panicked");
}

#[cfg(test)]
mod tests {
    use super::super::cpu::Cpu;
    use super::super::simulated::{SimulatedSpec, Simulation};
    use super::*;
    use crate::trace::Clock;

    #[test]
    fn the_host_conforms() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.in_place_scope(|scope| {
            conforms(Supports::Jobs, |reports| Box::new(Cpu::new(scope, Clock::start(), reports)));
        });
    }

    #[test]
    fn simulated_accelerators_conform() {
        let spec = SimulatedSpec::accelerator("sim:0", 1 << 20, 10.0, 100);
        conforms(Supports::Time, |reports| Box::new(Simulation::new(50.0).device(&spec, reports)));
    }

    #[test]
    fn simulated_hosts_conform() {
        let spec = SimulatedSpec::host("cpu", 2, 1);
        conforms(Supports::Time, |reports| Box::new(Simulation::new(50.0).device(&spec, reports)));
    }
}
