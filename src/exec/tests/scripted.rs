//! Scripted devices: they complete operations in the order a test chooses and assert that nothing runs too early.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::device::{
    Completion, Description, Device, Fault, FaultKind, Fence, LaneInfo, LaneKind, Memory, Operation, Pinned,
    Registration, StableBytes,
};
use crate::error::{self, Error};
use crate::exec::{Binder, ExecOptions, ExecOutcome, HeldSlots, TaskSchedule, execute};
use crate::graph::{Demand, DeviceId, Graph, StrandId, TaskId};

/// A fault to inject into a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedFault {
    /// Its submission is refused.
    Refused(FaultKind),
    /// It completes with a fault.
    Ends(FaultKind),
    /// It never completes.
    Silent,
    /// The binder returns an error.
    Unbound,
}

/// Chooses which of the operations that can complete does so next; the argument is their number.
pub(super) type Chooser = Box<dyn FnMut(usize) -> usize>;

struct Pending {
    task: TaskId,
    device: usize,
    lane: usize,
    fence: Fence,
    waits: Vec<Fence>,
}

/// State shared by the devices of one run.
pub(super) struct Script {
    graph: Graph,
    choose: Chooser,
    sender: Sender<Completion>,
    injected: HashMap<TaskId, InjectedFault>,
    /// The task bound last, and the slots it may use.
    bound: Option<(TaskId, HeldSlots)>,
    pending: Vec<Pending>,
    ended: HashSet<TaskId>,
    ended_fences: HashSet<(usize, Fence)>,
    fences: HashMap<TaskId, Fence>,
    next_fence: u64,
    now_ns: u64,
    lost: HashSet<usize>,
    /// For each slot its holder and the holder's operations.
    holders: HashMap<(u32, u32), (StrandId, Vec<TaskId>)>,
    pub(super) submitted: Vec<TaskId>,
    /// Called before each completion with the number of completions so far.
    pub(super) on_end: Option<Box<dyn FnMut(usize)>>,
}

impl Script {
    fn over(&self, task: TaskId) -> bool {
        self.ended.contains(&task) || self.excluded(task)
    }

    /// Whether another strand of the task's choice was submitted.
    fn excluded(&self, task: TaskId) -> bool {
        let strand = self.graph.tasks()[task.index()].strand;
        self.graph.strands()[strand.index()].is_some()
            && self.submitted.iter().any(|other| self.rivals(*other, task))
    }

    fn rivals(&self, one: TaskId, other: TaskId) -> bool {
        let strand = |task: TaskId| self.graph.tasks()[task.index()].strand;
        let choice = |task: TaskId| self.graph.strands()[strand(task).index()];
        choice(one).is_some() && choice(one) == choice(other) && strand(one) != strand(other)
    }

    fn submit(&mut self, device: usize, lane: usize, depth: usize, waits: &[Fence]) -> Result<Fence, Fault> {
        let (task, slots) = self.bound.take().expect("an operation that was not bound");
        if self.lost.contains(&device) {
            return Err(Fault::new(FaultKind::Lost, "gone"));
        }
        let at = self.graph.tasks()[task.index()];
        assert!(!self.submitted.contains(&task), "{task:?} is submitted twice");
        assert!(!self.excluded(task), "{task:?} belongs to a strand that was not chosen");
        let on_lane = self.pending.iter().filter(|other| (other.device, other.lane) == (device, lane));
        assert!(on_lane.count() < depth, "lane {lane} exceeds its depth");
        for before in self.graph.predecessors(task) {
            if let Some(fence) = self.fences.get(before)
                && self.graph.tasks()[before.index()].device == at.device
            {
                assert!(waits.contains(fence), "{task:?} does not wait for {before:?}");
            }
        }
        self.watch_slots(task, &slots, waits);
        if let Some(InjectedFault::Refused(kind)) = self.injected.get(&task) {
            if *kind == FaultKind::Lost {
                self.lost.insert(device);
            }
            return Err(Fault::new(*kind, "refused"));
        }
        let fence = Fence(self.next_fence);
        self.next_fence += 1;
        self.fences.insert(task, fence);
        self.submitted.push(task);
        self.pending.push(Pending { task, device, lane, fence, waits: waits.to_vec() });
        Ok(fence)
    }

    /// Asserts that a slot passes to another strand only after its last users, and with waits for them.
    fn watch_slots(&mut self, task: TaskId, slots: &HeldSlots, waits: &[Fence]) {
        let at = self.graph.tasks()[task.index()];
        let pools = 0..self.graph.pools().len() as u32;
        for (pool, slot) in
            pools.filter_map(|pool| slots.of(crate::graph::PoolId(pool)).map(|slot| (pool, slot)))
        {
            assert!(slot < self.graph.pools()[pool as usize].slots, "a slot that does not exist");
            let takes = at.takes.is_some_and(|takes| takes.0 == pool);
            let entry = self.holders.entry((pool, slot)).or_insert_with(|| (at.strand, Vec::new()));
            if takes {
                for user in &entry.1 {
                    assert!(self.ended.contains(user), "slot {slot} of pool {pool} is used by {user:?}");
                    if self.graph.tasks()[user.index()].device == at.device {
                        assert!(waits.contains(&self.fences[user]), "{task:?} does not wait for {user:?}");
                    }
                }
                *entry = (at.strand, Vec::new());
            }
            assert_eq!(entry.0, at.strand, "slot {slot} of pool {pool} is held by another strand");
            if !matches!(self.injected.get(&task), Some(InjectedFault::Refused(_))) {
                entry.1.push(task);
            }
        }
    }

    /// Operations that can run now.
    fn running(&self) -> Vec<usize> {
        let mut busy = HashSet::new();
        let mut running = Vec::new();
        for (place, operation) in self.pending.iter().enumerate() {
            let first = busy.insert((operation.device, operation.lane));
            let waited =
                operation.waits.iter().all(|wait| self.ended_fences.contains(&(operation.device, *wait)));
            if first && waited {
                running.push(place);
            }
        }
        running
    }

    fn advance(&mut self) -> bool {
        let running = self.running();
        for &place in &running {
            let task = self.pending[place].task;
            let lost = self.lost.contains(&self.pending[place].device);
            for &before in self.graph.predecessors(task) {
                assert!(lost || self.over(before), "{task:?} runs before {before:?} completed");
            }
        }
        let silent =
            |place: &usize| self.injected.get(&self.pending[*place].task) == Some(&InjectedFault::Silent);
        let able: Vec<usize> = running.iter().copied().filter(|place| !silent(place)).collect();
        if able.is_empty() {
            return false;
        }
        if let Some(on_end) = &mut self.on_end {
            on_end(self.ended.len());
        }
        let place = able[(self.choose)(able.len())];
        let operation = self.pending.remove(place);
        self.ended.insert(operation.task);
        self.ended_fences.insert((operation.device, operation.fence));
        self.now_ns += 10;
        let mut result = Ok(());
        if let Some(InjectedFault::Ends(kind)) = self.injected.get(&operation.task) {
            if *kind == FaultKind::Lost {
                self.lost.insert(operation.device);
            }
            result = Err(Fault::new(*kind, "failed"));
        } else if self.lost.contains(&operation.device) {
            result = Err(Fault::new(FaultKind::Lost, "gone"));
        }
        let device = DeviceId(operation.device as u32);
        let (start_ns, end_ns) = (self.now_ns - 5, self.now_ns);
        let report = Completion { device, fence: operation.fence, start_ns, end_ns, result };
        // Completions of unknown operations must be ignored.
        for fence in [Fence(u64::MAX), Fence(u64::MAX - operation.fence.0)] {
            let _ = self.sender.send(Completion { fence, ..report.clone() });
        }
        let _ = self.sender.send(report.clone());
        // So must duplicate completions.
        let _ = self.sender.send(report);
        true
    }
}

struct ScriptedDevice {
    description: Description,
    number: usize,
    script: Rc<RefCell<Script>>,
}

impl<'run> Device<'run> for ScriptedDevice {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, _bytes: u64) -> Result<Memory, Fault> {
        Err(Fault::new(FaultKind::OutOfMemory, "scripted devices have no memory"))
    }

    fn allocate_pinned(&mut self, _bytes: u64) -> Result<Pinned, Fault> {
        Err(Fault::new(FaultKind::OutOfMemory, "scripted devices have no memory"))
    }

    fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> Result<Registration<'a>, Fault> {
        Ok(Registration::nothing())
    }

    fn submit(
        &mut self,
        lane: usize,
        _operation: Operation<'run>,
        _demand: Demand,
        waits: &[Fence],
    ) -> Result<Fence, Fault> {
        let depth = self.description.lanes[lane].depth;
        self.script.borrow_mut().submit(self.number, lane, depth, waits)
    }

    fn mark_synchronized(&mut self) {}

    fn advance(&mut self) -> bool {
        self.script.borrow_mut().advance()
    }

    fn now_ns(&self) -> u64 {
        self.script.borrow().now_ns
    }

    fn close(&mut self) {}
}

struct ScriptedBinder(Rc<RefCell<Script>>);

impl<'run> Binder<'run> for ScriptedBinder {
    fn operation(&mut self, task: TaskId, slots: &HeldSlots) -> error::Result<Operation<'run>> {
        let mut script = self.0.borrow_mut();
        if script.injected.get(&task) == Some(&InjectedFault::Unbound) {
            return Err(Error::usage(format!("task {} cannot be made", task.0)));
        }
        script.bound = Some((task, slots.clone()));
        Ok(Operation::Pass)
    }
}

/// A graph and the properties of the devices that run it.
pub(super) struct Run {
    pub(super) graph: Graph,
    pub(super) devices: u32,
    pub(super) depth: usize,
    /// Whether accelerators are stream-ordered.
    pub(super) stream_ordered: bool,
    pub(super) injected: HashMap<TaskId, InjectedFault>,
}

impl Run {
    pub(super) fn of(graph: Graph) -> Self {
        let devices = graph.tasks().iter().map(|task| task.device.0 + 1).max().unwrap_or(1);
        Self { graph, devices, depth: 3, stream_ordered: true, injected: HashMap::new() }
    }

    pub(super) fn with(mut self, task: TaskId, injected: InjectedFault) -> Self {
        self.injected.insert(task, injected);
        self
    }

    /// Runs the graph. Returns the outcome and the tasks submitted.
    pub(super) fn go(
        &self,
        choose: Chooser,
        options: &ExecOptions<'_>,
        on_end: Option<Box<dyn FnMut(usize)>>,
    ) -> (error::Result<ExecOutcome>, Vec<TaskId>) {
        let (sender, receiver): (_, Receiver<Completion>) = unbounded();
        // Late completions of an earlier run.
        for fence in 0..3 {
            let (device, fence) = (DeviceId(0), Fence(fence));
            sender.send(Completion { device, fence, start_ns: 0, end_ns: 0, result: Ok(()) }).unwrap();
        }
        let script = Rc::new(RefCell::new(Script {
            graph: self.graph.clone(),
            choose,
            sender,
            injected: self.injected.clone(),
            bound: None,
            pending: Vec::new(),
            ended: HashSet::new(),
            ended_fences: HashSet::new(),
            fences: HashMap::new(),
            next_fence: 0,
            now_ns: 0,
            lost: HashSet::new(),
            holders: HashMap::new(),
            submitted: Vec::new(),
            on_end,
        }));
        let mut devices: Vec<ScriptedDevice> = (0..self.devices as usize)
            .map(|number| ScriptedDevice {
                description: self.describe(number),
                number,
                script: script.clone(),
            })
            .collect();
        let mut borrowed: Vec<&mut dyn Device<'static>> =
            devices.iter_mut().map(|device| device as &mut dyn Device<'static>).collect();
        let schedule = TaskSchedule::new(&self.graph).unwrap();
        let mut binder = ScriptedBinder(script.clone());
        let outcome = execute(&self.graph, &schedule, &mut borrowed, &receiver, &mut binder, options);
        let script = script.borrow();
        let silent = |operation: &Pending| {
            let of_device =
                |task: &TaskId| self.graph.tasks()[task.index()].device.index() == operation.device;
            self.injected.iter().any(|(task, injected)| *injected == InjectedFault::Silent && of_device(task))
        };
        assert!(script.pending.iter().all(silent), "execute returned with operations in flight");
        (outcome, script.submitted.clone())
    }

    fn describe(&self, number: usize) -> Description {
        let lane = |kind| LaneInfo { name: format!("{kind:?}"), kind, depth: self.depth };
        let kinds: &[LaneKind] = match number {
            0 => &[LaneKind::Pool, LaneKind::Copy, LaneKind::Copy],
            _ => &[LaneKind::Upload, LaneKind::Compute, LaneKind::Download],
        };
        Description {
            name: format!("scripted:{number}"),
            memory_bytes: None,
            lanes: kinds.iter().copied().map(lane).collect(),
            stream_ordered: number > 0 && self.stream_ordered,
        }
    }
}

/// A deterministic pseudo-random chooser.
pub(super) fn seeded(seed: u64) -> Chooser {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    Box::new(move |options| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % options as u64) as usize
    })
}

/// Asserts what must hold for every outcome: each strand is done, skipped or listed as unfinished.
pub(super) fn check_cover(graph: &Graph, outcome: &ExecOutcome) {
    let done: HashSet<TaskId> = outcome.records.iter().map(|record| record.task).collect();
    assert_eq!(done.len(), outcome.records.len(), "a task is recorded twice");
    for (number, choice) in graph.strands().iter().enumerate() {
        let strand = StrandId(number as u32);
        let tasks = || {
            (0..graph.tasks().len() as u32)
                .map(TaskId)
                .filter(|id| graph.tasks()[id.index()].strand == strand)
        };
        let unfinished = outcome.unfinished.contains(&strand);
        let chosen = choice.map(|choice| outcome.chosen(choice));
        match chosen {
            Some(Some(other)) if other != strand => {
                assert!(
                    !unfinished && tasks().all(|task| !done.contains(&task)),
                    "a skipped strand did something"
                );
            }
            Some(None) => {
                let first = graph.strands().iter().position(|of| of == choice) == Some(number);
                assert!(unfinished == first && tasks().all(|task| !done.contains(&task)));
            }
            _ => assert!(unfinished || tasks().all(|task| done.contains(&task)), "{strand:?} is lost"),
        }
    }
}
