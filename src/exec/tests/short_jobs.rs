//! Short jobs and short waits: which thread runs a job, and that no completion is missed.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crossbeam::channel::unbounded;

use crate::device::{
    Cpu, Description, Device, Fault, Fence, LaneInfo, LaneKind, Memory, Operation, Pinned, Registration,
    Reports, StableBytes,
};
use crate::error::Result;
use crate::exec::{Binder, ExecOptions, HeldSlots, TaskSchedule, execute};
use crate::graph::{Access, Demand, DeviceId, GraphBuilder, Role, Task, TaskId, TaskKind};
use crate::trace::Clock;

fn task(kind: TaskKind, device: DeviceId, graph: &mut GraphBuilder, alone_ns: u64) -> Task {
    let demand = Demand { alone_ns, ..Demand::default() };
    Task { kind, device, strand: graph.strand(None), item: 0, takes: None, gives: None, demand, turn: 0 }
}

/// Short jobs that note the thread that runs them.
#[derive(Default)]
struct Noting(Arc<Mutex<Vec<(TaskId, ThreadId)>>>);

impl<'run> Binder<'run> for Noting {
    fn operation(&mut self, task: TaskId, _slots: &HeldSlots) -> Result<Operation<'run>> {
        let noted = self.0.clone();
        Ok(Operation::ShortJob(Box::new(move || {
            noted.lock().unwrap().push((task, thread::current().id()));
            Ok(())
        })))
    }
}

#[test]
fn the_caller_runs_a_short_job_while_nothing_else_is_in_flight() {
    let mut graph = GraphBuilder::new();
    let y = graph.buffer(Role::Output, 3);
    let byte = |begin: u64| Access { buffer: y, begin, end: begin + 1 };
    let merge = task(TaskKind::Merge, DeviceId::HOST, &mut graph, 0);
    let first = graph.task(merge, &[], &[], &[byte(0)]);
    let [second, third] = [1, 2].map(|begin| {
        let merge = task(TaskKind::Merge, DeviceId::HOST, &mut graph, 0);
        graph.task(merge, &[first], &[], &[byte(begin)])
    });
    let graph = graph.freeze();
    let mut binder = Noting::default();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (sender, completions) = unbounded();
    let outcome = pool.in_place_scope(|scope| {
        let mut host = Cpu::new(scope, Clock::start(), Reports::new(DeviceId::HOST, sender));
        let mut devices: [&mut dyn Device<'_>; 1] = [&mut host];
        let schedule = TaskSchedule::new(&graph).unwrap();
        execute(&graph, &schedule, &mut devices, &completions, &mut binder, &ExecOptions::default())
    });
    assert!(outcome.unwrap().is_complete());
    let noted = binder.0.lock().unwrap().clone();
    let by_caller =
        |of: TaskId| noted.iter().any(|(task, thread)| *task == of && *thread == thread::current().id());
    assert_eq!(noted.len(), 3);
    assert!(by_caller(first));
    assert!(by_caller(second) != by_caller(third), "one of two that are ready goes to a worker");
}

/// A device whose operations take the given time, each on a thread of its own.
struct Delayed {
    description: Description,
    reports: Reports,
    clock: Clock,
    delay: Duration,
    fences: u64,
}

impl<'run> Device<'run> for Delayed {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, _bytes: u64) -> std::result::Result<Memory, Fault> {
        Ok(Memory(0))
    }

    fn allocate_pinned(&mut self, bytes: u64) -> std::result::Result<Pinned, Fault> {
        Ok(Pinned::pageable(bytes as usize).unwrap())
    }

    fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> std::result::Result<Registration<'a>, Fault> {
        Ok(Registration::nothing())
    }

    fn submit(
        &mut self,
        _lane: usize,
        _operation: Operation<'run>,
        _demand: Demand,
        _waits: &[Fence],
    ) -> std::result::Result<Fence, Fault> {
        let (fence, reports, clock, delay) =
            (Fence(self.fences), self.reports.clone(), self.clock, self.delay);
        self.fences += 1;
        thread::spawn(move || {
            let start_ns = clock.now_ns();
            thread::sleep(delay);
            reports.send(fence, start_ns, clock.now_ns(), Ok(()));
        });
        Ok(fence)
    }

    fn mark_synchronized(&mut self) {}

    fn advance(&mut self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn close(&mut self) {}
}

struct Pass;

impl<'run> Binder<'run> for Pass {
    fn operation(&mut self, _task: TaskId, _slots: &HeldSlots) -> Result<Operation<'run>> {
        Ok(Operation::Pass)
    }
}

#[test]
fn operations_of_any_length_complete_while_the_caller_polls() {
    for delay_us in [0, 300, 1000, 6000] {
        let mut graph = GraphBuilder::new();
        let y = graph.buffer(Role::Output, 3);
        for begin in 0..3 {
            let kernel = task(TaskKind::Kernel, DeviceId(1), &mut graph, 300_000);
            graph.task(kernel, &[], &[], &[Access { buffer: y, begin, end: begin + 1 }]);
        }
        let graph = graph.freeze();
        let (sender, completions) = unbounded();
        let clock = Clock::start();
        let device = |number: u32, kinds: &[LaneKind]| Delayed {
            description: Description {
                name: format!("delayed {number}"),
                memory_bytes: None,
                lanes: kinds.iter().map(|&kind| LaneInfo { name: "lane".into(), kind, depth: 2 }).collect(),
                stream_ordered: true,
            },
            reports: Reports::new(DeviceId(number), sender.clone()),
            clock,
            delay: Duration::from_micros(delay_us),
            fences: 0,
        };
        let (mut host, mut card) = (device(0, &[LaneKind::Pool]), device(1, &[LaneKind::Compute]));
        let mut devices: [&mut dyn Device<'_>; 2] = [&mut host, &mut card];
        let options = ExecOptions { may_poll: true, ..ExecOptions::default() };
        let schedule = TaskSchedule::new(&graph).unwrap();
        let outcome = execute(&graph, &schedule, &mut devices, &completions, &mut Pass, &options).unwrap();
        assert!(outcome.is_complete() && outcome.records.len() == 3, "{delay_us} µs: {outcome:?}");
    }
}
