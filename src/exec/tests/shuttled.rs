//! The coordinator with worker threads under a randomised thread scheduler (shuttle).
//!
//! Each lane is a thread. Completions go over a channel of the scheduler and are forwarded, one at a time, when the
//! coordinator advances time. A task may fail, its device may be lost, and the run may be cancelled at any time.

use std::collections::HashSet;

use crossbeam::channel::unbounded;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use super::scripted::check_cover;
use crate::device::{
    Completion, Description, Device, Fault, FaultKind, Fence, LaneInfo, LaneKind, Memory, Operation, Pinned,
    Registration, Reports, StableBytes,
};
use crate::error;
use crate::exec::{Binder, ExecOptions, HeldSlots, TaskSchedule, execute};
use crate::graph::fixture::{Shape, planner_like};
use crate::graph::{Demand, DeviceId, Graph, StrandId, TaskId};

/// The completed tasks and the started strands.
#[derive(Default)]
struct Log {
    ended: HashSet<TaskId>,
    begun: HashSet<StrandId>,
}

struct Job {
    task: TaskId,
    fence: Fence,
}

type End = (DeviceId, Fence, Result<(), Fault>);

struct ThreadedDevice {
    description: Description,
    lanes: Vec<Sender<Job>>,
    ends: Arc<Mutex<Receiver<End>>>,
    sender: crossbeam::channel::Sender<Completion>,
    bound: Arc<Mutex<Option<TaskId>>>,
    in_flight: Arc<Mutex<usize>>,
    next: u64,
}

impl<'run> Device<'run> for ThreadedDevice {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, _bytes: u64) -> Result<Memory, Fault> {
        Err(Fault::new(FaultKind::OutOfMemory, "no memory"))
    }

    fn allocate_pinned(&mut self, _bytes: u64) -> Result<Pinned, Fault> {
        Err(Fault::new(FaultKind::OutOfMemory, "no memory"))
    }

    fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
        Ok(Registration::nothing())
    }

    fn submit(
        &mut self,
        lane: usize,
        _operation: Operation<'run>,
        _demand: Demand,
        _waits: &[Fence],
    ) -> Result<Fence, Fault> {
        let task = self.bound.lock().unwrap().take().unwrap();
        let fence = Fence(self.next);
        self.next += 1;
        *self.in_flight.lock().unwrap() += 1;
        self.lanes[lane].send(Job { task, fence }).unwrap();
        Ok(fence)
    }

    fn mark_synchronized(&mut self) {}

    /// Waits for the next completion of any device, as the coordinator would on its own channel.
    fn advance(&mut self) -> bool {
        {
            let mut in_flight = self.in_flight.lock().unwrap();
            if *in_flight == 0 {
                return false;
            }
            *in_flight -= 1;
        }
        let (device, fence, result) = self.ends.lock().unwrap().recv().unwrap();
        let reports = Reports::new(device, self.sender.clone());
        reports.send(fence, 0, 0, result);
        true
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn close(&mut self) {}
}

struct Names(Arc<Mutex<Option<TaskId>>>);

impl<'run> Binder<'run> for Names {
    fn operation(&mut self, task: TaskId, _slots: &HeldSlots) -> error::Result<Operation<'run>> {
        *self.0.lock().unwrap() = Some(task);
        Ok(Operation::Pass)
    }
}

/// Runs a lane's tasks: asserts that their predecessors completed, and completes them.
fn work(
    graph: &Graph,
    device: DeviceId,
    jobs: &Receiver<Job>,
    ends: &Sender<End>,
    log: &Mutex<Log>,
    faulty: Option<(TaskId, FaultKind)>,
) {
    let mut lost = false;
    while let Ok(Job { task, fence }) = jobs.recv() {
        {
            let mut log = log.lock().unwrap();
            let strand = graph.tasks()[task.index()].strand;
            log.begun.insert(strand);
            let skipped = |before: TaskId| {
                let of = graph.tasks()[before.index()].strand;
                graph.strands()[of.index()].is_some() && !log.begun.contains(&of)
            };
            for &before in graph.predecessors(task) {
                assert!(log.ended.contains(&before) || skipped(before), "{task:?} before {before:?}");
            }
        }
        thread::yield_now();
        let fault = faulty.filter(|(at, _)| *at == task).map(|(_, kind)| kind);
        lost |= fault == Some(FaultKind::Lost);
        let result = match fault.or(lost.then_some(FaultKind::Lost)) {
            Some(kind) => Err(Fault::new(kind, "failed")),
            None => {
                assert!(log.lock().unwrap().ended.insert(task), "{task:?} ran twice");
                Ok(())
            }
        };
        let _ = ends.send((device, fence, result));
    }
}

fn run_threaded(shape: Shape, faulty: bool, cancelled: bool) {
    let graph = Arc::new(planner_like(shape).graph());
    let kinds = [FaultKind::Launch, FaultKind::Lost];
    let faulty = faulty.then(|| {
        (TaskId(thread_rng().gen_range(0..graph.tasks().len() as u32)), kinds[thread_rng().gen_range(0..2)])
    });
    let (sender, completions) = unbounded::<Completion>();
    let (ends, received) = channel();
    let received = Arc::new(Mutex::new(received));
    let (log, bound) = (Arc::new(Mutex::new(Log::default())), Arc::new(Mutex::new(None)));
    let in_flight = Arc::new(Mutex::new(0));
    let mut workers = Vec::new();
    let mut devices = Vec::new();
    for number in 0..=shape.accelerators {
        let device = DeviceId(number);
        let kinds: &[LaneKind] = match number {
            0 => &[LaneKind::Pool, LaneKind::Copy],
            _ => &[LaneKind::Upload, LaneKind::Compute, LaneKind::Download],
        };
        let mut lanes = Vec::new();
        for _ in kinds {
            let (lane, jobs) = channel();
            lanes.push(lane);
            let (graph, ends, log) = (graph.clone(), ends.clone(), log.clone());
            workers.push(thread::spawn(move || work(&graph, device, &jobs, &ends, &log, faulty)));
        }
        let lane = |&kind| LaneInfo { name: format!("{kind:?}"), kind, depth: 2 };
        devices.push(ThreadedDevice {
            description: Description {
                name: format!("threaded:{number}"),
                memory_bytes: None,
                lanes: kinds.iter().map(lane).collect(),
                stream_ordered: false,
            },
            lanes,
            ends: received.clone(),
            sender: sender.clone(),
            bound: bound.clone(),
            in_flight: in_flight.clone(),
            next: 0,
        });
    }
    drop(ends);
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    if cancelled {
        let flag = flag.clone();
        workers.push(thread::spawn(move || {
            for _ in 0..thread_rng().gen_range(0..40) {
                thread::yield_now();
            }
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }));
    }
    let outcome = {
        let mut devices: Vec<&mut dyn Device<'static>> =
            devices.iter_mut().map(|device| device as &mut dyn Device<'static>).collect();
        let schedule = TaskSchedule::new(&graph).unwrap();
        let options = ExecOptions { cancel: Some(&flag), ..ExecOptions::default() };
        execute(&graph, &schedule, &mut devices, &completions, &mut Names(bound), &options).unwrap()
    };
    check_cover(&graph, &outcome);
    assert!(!outcome.faults.is_empty() || outcome.cancelled || outcome.is_complete());
    assert_eq!(*in_flight.lock().unwrap(), 0, "an operation is still in flight");
    drop(devices);
    for worker in workers {
        worker.join().unwrap();
    }
}

const SHAPE: Shape = Shape { accelerators: 2, chunks: 2, host_chunks: 1, choices: 2, split: true, slots: 1 };

#[test]
fn no_thread_schedule_loses_a_task() {
    shuttle::check_random(|| run_threaded(SHAPE, false, false), 150);
}

#[test]
fn no_thread_schedule_loses_a_task_when_one_fails() {
    shuttle::check_random(|| run_threaded(SHAPE, true, false), 150);
}

#[test]
fn in_every_thread_schedule_a_cancelled_run_returns_with_nothing_in_flight() {
    shuttle::check_random(|| run_threaded(SHAPE, false, true), 150);
}

#[test]
fn no_rare_thread_schedule_loses_a_task_when_one_fails() {
    shuttle::check_pct(|| run_threaded(SHAPE, true, false), 100, 3);
}
