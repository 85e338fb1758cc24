//! The owner thread of a card: it owns streams, events and kernels, issues all work and never waits for the card.
//!
//! A wait for a fence becomes a stream wait for an event. If a predecessor could not be issued, the operation is not
//! issued either: a kernel that reads missing data could fault and destroy the whole context.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use super::actions::Action;
use super::built_in::Architecture;
use super::clock::CardClock;
use super::completion_thread::{HeldMemory, InFlightMemory, Issued, Start};
use super::context::{Context, EventWait, Stream};
use super::driver::{fault, message_of};
use super::events::{EventPool, InFlight};
use super::modules::{Modules, Settled};
use super::shared::Shared;
use super::sync::{Receiver, Sender, receive};
use super::{Fault, FaultKind, Fence, Launch, Reports};
use crate::trace::Clock;

/// A checked operation, ready to be issued.
pub struct Command {
    /// Its fence.
    pub fence: Fence,
    /// Its lane, which is the number of its stream.
    pub lane: usize,
    /// The fences that it waits for.
    pub waits: Vec<Fence>,
    /// How the completion thread waits for it.
    pub waiting: EventWait,
    /// Its predicted duration.
    pub predicted_ns: u64,
    /// The action.
    pub action: Action,
    /// Its name in messages.
    pub what: &'static str,
    /// The memory of the host, or of another device, that it holds.
    pub held: Vec<HeldMemory>,
}

/// A request to the owner thread.
pub enum Request {
    /// Issue an operation.
    Issue(Box<Command>),
    /// Compile the kernels of these launches and answer when that is done.
    Prepare(Vec<Launch>, Sender<Result<(), Fault>>),
    /// Answer with the function of a launch, which the calling thread issues itself.
    Function(Box<Launch>, Sender<Result<Settled, Fault>>),
}

/// The state of the owner thread.
pub struct Owner {
    /// State shared by all threads of the device.
    pub shared: Arc<Shared>,
    /// The device's CUDA context.
    pub context: Arc<Context>,
    /// The architecture that kernels are compiled for.
    pub architecture: Architecture,
    /// The major CUDA version of the driver.
    pub driver_major: u32,
    /// The stream of each lane.
    pub streams: Vec<Stream>,
    /// The channel to each lane's completion thread.
    pub completion_threads: Vec<Sender<Issued>>,
    /// Completed operations, from the completion threads.
    pub ended: Receiver<Fence>,
    /// The card's clock.
    pub card_clock: CardClock,
    /// The host's clock.
    pub clock: Clock,
    /// Where operations that could not be issued are reported as faults.
    pub reports: Reports,
    /// Events for reuse.
    pub event_pool: EventPool,
    /// Operations in flight.
    pub in_flight: HashMap<Fence, Arc<InFlight>>,
    /// The last operation of each lane.
    pub last: Vec<Option<Fence>>,
    /// Operations that could not be issued.
    pub failed: HashSet<Fence>,
}

impl Owner {
    /// Serves requests until the channel is closed. After a panic, which is a bug, the device is lost and every request is
    /// refused.
    pub fn work(self, orders: &Receiver<Request>) {
        let (shared, reports, clock) = (self.shared.clone(), self.reports.clone(), self.clock);
        let issuing = Cell::new(None);
        if catch_unwind(AssertUnwindSafe(|| self.serve(orders, &issuing))).is_err() {
            let fault = shared.mark_lost("the thread that issues work has panicked");
            // The completion threads poll while requests are queued.
            shared.set_queued(0);
            let refuse = |fence| reports.send(fence, clock.now_ns(), clock.now_ns(), Err(fault.clone()));
            issuing.get().into_iter().for_each(refuse);
            for order in orders {
                if let Request::Issue(command) = order {
                    let Command { fence, held, .. } = *command;
                    drop(held);
                    refuse(fence);
                }
            }
        }
    }

    fn serve(mut self, orders: &Receiver<Request>, issuing: &Cell<Option<Fence>>) {
        let context = self.context.clone();
        let entered = context.enter();
        if let Err(fault) = &entered {
            self.shared.mark_lost(&fault.message);
        }
        // Kernels are loaded into the context current on this thread and unloaded before it is left.
        let mut modules = Modules::new(self.architecture, self.driver_major);
        while let Some(order) = receive(orders) {
            self.shared.set_queued(orders.len());
            let command = match order {
                Request::Issue(command) => *command,
                Request::Prepare(launches, answer) => {
                    let done = self.shared.check_alive().and_then(|()| modules.prepare(&launches));
                    // The caller may have stopped waiting.
                    let _ = answer.send(done);
                    continue;
                }
                Request::Function(launch, answer) => {
                    let alive = self.shared.check_alive();
                    let _ = answer.send(alive.and_then(|()| modules.settled_function(&launch)));
                    continue;
                }
            };
            let (fence, now_ns) = (command.fence, self.clock.now_ns());
            issuing.set(Some(fence));
            // `issue` has dropped the host memory that the operation held before the fault is reported.
            if let Err(mut fault) = self.issue(command, now_ns, &mut modules) {
                if fault.kind == FaultKind::Lost {
                    fault = self.shared.mark_lost(&fault.message);
                }
                self.failed.insert(fence);
                self.reports.send(fence, now_ns, self.clock.now_ns(), Err(fault));
            }
            // A later panic must not report it again.
            issuing.set(None);
        }
    }

    fn issue(&mut self, command: Command, issued_ns: u64, modules: &mut Modules) -> Result<(), Fault> {
        self.shared.check_alive()?;
        if command.waits.iter().any(|wait| self.failed.contains(wait)) {
            let message =
                format!("the {} was not issued because an operation that it waits for failed", command.what);
            return Err(Fault::new(FaultKind::Launch, message));
        }
        while let Ok(ended) = self.ended.try_recv() {
            if let Some(in_flight) = self.in_flight.remove(&ended) {
                self.event_pool.release(in_flight.events.clone());
            }
        }
        let Command { fence, lane, waits, waiting, predicted_ns, mut action, what, held } = command;
        let function = action.function(&self.context, modules)?;
        let epoch = self.card_clock.epoch(self.in_flight.is_empty());
        let events = self.event_pool.take(&self.context, waiting)?;
        let kind = if function.is_some() { FaultKind::Launch } else { FaultKind::Copy };
        let missing = || Fault::new(FaultKind::Misuse, format!("there is no lane {lane}"));
        let stream = self.streams.get(lane).ok_or_else(missing)?;
        let completion_thread = self.completion_threads.get(lane).ok_or_else(missing)?;
        let last = self.last.get_mut(lane).ok_or_else(missing)?;
        let mut predecessors = Vec::new();
        for wait in &waits {
            if let Some(before) = self.in_flight.get(wait)
                && before.lane != lane
            {
                stream.wait(&before.events.end).map_err(|error| fault(kind, what, error))?;
                predecessors.push(before.clone());
            }
        }
        let other_lanes_end_ns = predecessors.iter().map(|before| before.predicted_end_ns).max().unwrap_or(0);
        let batch = action.batch();
        // Recording a start event costs the driver as much as a launch, so it is omitted where the start time is known
        // anyway: on a busy lane without other waits it is the end of the previous operation, and for a download it is
        // the end of its kernel.
        let lane_is_busy = last.is_some_and(|last| self.in_flight.contains_key(&last));
        let start_is_implied = if action.is_download() {
            lane_is_busy || !predecessors.is_empty()
        } else {
            lane_is_busy && predecessors.is_empty() && batch.is_none()
        };
        let start = if start_is_implied { Start::AfterPredecessors(predecessors) } else { Start::Recorded };
        let ahead = if batch.is_some() { action.enqueue(stream, function, 1) } else { Ok(()) };
        let started =
            ahead.and_then(|()| if start_is_implied { Ok(()) } else { events.start.record(stream) });
        // From here on the card may access the host memory, until the end event is complete.
        let held = InFlightMemory::new(held);
        let given = started.and_then(|()| action.enqueue(stream, function, batch.unwrap_or(1)));
        // The first of several copies may be in flight if a later one fails. The completion thread then waits for the end
        // event before it releases the memory and reports the fault.
        let failure = given.err().map(|error| match fault(kind, what, error) {
            lost if lost.kind == FaultKind::Lost => self.shared.mark_lost(&lost.message),
            refused => refused,
        });
        if failure.is_some() {
            self.failed.insert(fence);
        }
        if let Err(error) = events.end.record(stream) {
            // The card has stopped all work of a lost context. Otherwise the host memory stays held: without an end event
            // the end of the operation is unknown.
            if fault(kind, what, error).kind == FaultKind::Lost {
                held.release();
            }
            return Err(self.shared.mark_lost(&message_of(error)));
        }
        let lane_end_ns = last.and_then(|last| self.in_flight.get(&last)).map(|last| last.predicted_end_ns);
        let predicted_start_ns = issued_ns.max(other_lanes_end_ns).max(lane_end_ns.unwrap_or(0));
        let predicted_end_ns = predicted_start_ns.saturating_add(predicted_ns);
        *last = Some(fence);
        let in_flight = Arc::new(InFlight { lane, events, predicted_end_ns, end_ns: OnceLock::new() });
        self.in_flight.insert(fence, in_flight.clone());
        let issued = Issued {
            fence,
            in_flight,
            start,
            epoch,
            issued_ns,
            other_lanes_end_ns,
            predicted_ns,
            what,
            held,
            failure,
        };
        completion_thread
            .send(issued)
            .map_err(|_| Fault::new(FaultKind::Lost, "the lane's completion thread has ended"))
    }
}
