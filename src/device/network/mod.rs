//! The network of a rank as a device: messages to and from other ranks, as operations on a send lane and a receive lane.
//!
//! A thread of the device starts the messages and polls them until they are complete. It sleeps between polls and waits without
//! polling while there is no message, so it uses little of a core. All calls of the communicator during a graph are made by it.
//!
//! After a fault of another device, the messages that are being received are kept for the graph that continues the work: they may
//! arrive only after this rank has sent what the fault delayed.
//!
//! All messages of a lane are in flight together and complete in any order. The span of a message in a trace begins when it was
//! submitted, or when the message that completed before it on its lane was complete.
//!
//! The messages of a product or of a sum have tags of this call alone ([`Calls`]), so none is received by a later one.
//!
//! A message in the memory of a device that is lost fails alone: the network remains usable.

mod calls;
mod communicator;
#[cfg(test)]
mod tests;
mod thread_ranks;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use calls::{Call, Calls, MESSAGES_PER_CALL, MIN_MAX_TAG};
use communicator::Waiting;
pub use communicator::{Communicator, Members, Pending};
use crossbeam::channel::{Receiver, Sender, TryRecvError, unbounded};
#[cfg(test)]
pub use thread_ranks::on_thread_ranks;
pub use thread_ranks::{
    thread_communicators, thread_communicators_with_device_memory, thread_communicators_with_timeout,
};

use super::{
    Description, Device, Fault, FaultKind, Fence, HeldContext, LaneInfo, LaneKind, Memory, MessageBytes,
    Operation, Pinned, RankMessage, Registration, Reports, StableBytes,
};
use crate::error::{Error, Result};
use crate::graph::{Demand, DeviceId};
use crate::threads;
use crate::trace::Clock;

/// The lane of messages to other ranks.
pub const SEND: usize = 0;
/// The lane of messages from other ranks.
pub const RECEIVE: usize = 1;

/// The network of a rank.
pub struct NetworkDevice {
    description: Description,
    /// Also held by the thread. It is dropped here after the thread has ended, so a communicator never ends on that thread.
    communicator: Arc<dyn Communicator>,
    /// The call whose messages are submitted; `None` before the first.
    call: Option<Call>,
    clock: Clock,
    reports: Reports,
    next_fence: u64,
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Mutex<State>>,
}

/// What the thread tells the device.
#[derive(Default)]
struct State {
    /// The first error of a message.
    error: Option<Error>,
    /// The ranks of the messages that are not complete.
    waits_for: Vec<usize>,
    /// Bytes of the messages that were sent.
    sent_bytes: u64,
}

enum Command {
    Start {
        lane: usize,
        message: RankMessage,
        fence: Fence,
        submitted_ns: u64,
    },
    /// Keeps the messages that are being received, and answers.
    KeepReceives(Sender<()>),
    /// Gives up all messages, and answers.
    Abandon(Sender<()>),
}

impl NetworkDevice {
    /// The name of the device.
    pub const NAME: &str = "network";

    /// The network of a rank. Times are on `clock`.
    pub fn open(communicator: Arc<dyn Communicator>, clock: Clock) -> Result<Self> {
        let (commands, received) = unbounded();
        // Replaced before the first graph.
        let reports = Reports::new(DeviceId(0), unbounded().0);
        let state = Arc::new(Mutex::new(State::default()));
        let poller = Poller {
            communicator: communicator.clone(),
            clock,
            reports: reports.clone(),
            commands: received,
            state: state.clone(),
            pending: Vec::new(),
            kept: Vec::new(),
            _context: None,
            lane_ends_ns: [0; 2],
        };
        let thread = threads::start("network", move || poller.run())?;
        let description = Self::description();
        let (commands, thread) = (Some(commands), Some(thread));
        let (call, next_fence) = (None, 0);
        Ok(Self { description, communicator, call, clock, reports, next_fence, commands, thread, state })
    }

    /// The description of every network.
    pub fn description() -> Description {
        // A message waits for another rank and not for a place in its lane: two ranks that limit their messages could wait for each
        // other.
        let lane = |name: &str, kind| LaneInfo { name: name.into(), kind, depth: 1 << 20 };
        Description {
            name: Self::NAME.into(),
            memory_bytes: None,
            lanes: vec![lane("send", LaneKind::Send), lane("receive", LaneKind::Receive)],
            stream_ordered: false,
        }
    }

    /// The clock of all reported times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The messages that are submitted from now on belong to `call`.
    pub fn begin(&mut self, call: Call) {
        self.call = Some(call);
    }

    /// How long a message may take while nothing else happens.
    pub fn timeout(&self) -> Duration {
        self.communicator.timeout()
    }

    /// Reports later completions to `sender` with the number `device`.
    pub fn report_to(&self, device: DeviceId, sender: &Sender<super::Completion>) {
        self.reports.redirect(device, sender);
    }

    /// Gives up all messages in flight and returns the error of the first message that failed, and the ranks whose messages were not
    /// complete.
    pub fn abandon(&mut self) -> (Option<Error>, Vec<usize>) {
        let (error, ranks) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.error.take(), std::mem::take(&mut state.waits_for))
        };
        self.communicator.members().calls.give_up();
        // The thread makes no call of the communicator after this returns, so the calls of the program are alone.
        self.ask(Command::Abandon);
        (error, ranks)
    }

    /// Gives the thread a command and waits for its answer. Returns whether it answered.
    fn ask(&self, command: impl FnOnce(Sender<()>) -> Command) -> bool {
        let (answer, answered) = unbounded();
        let is_asked = self.commands.as_ref().is_some_and(|commands| commands.send(command(answer)).is_ok());
        is_asked && answered.recv().is_ok()
    }

    /// Bytes of all messages that this rank has sent through the network.
    pub fn sent_bytes(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sent_bytes
    }
}

impl Drop for NetworkDevice {
    fn drop(&mut self) {
        Device::close(self);
    }
}

impl<'run> Device<'run> for NetworkDevice {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&mut self, _bytes: u64) -> std::result::Result<Memory, Fault> {
        Err(Fault::new(FaultKind::OutOfMemory, "a network has no memory of its own"))
    }

    fn allocate_pinned(&mut self, bytes: u64) -> std::result::Result<Pinned, Fault> {
        Pinned::pageable(bytes as usize).map_err(|error| Fault::new(FaultKind::OutOfMemory, error.message()))
    }

    fn register<'a>(&mut self, _bytes: StableBytes<'a>) -> std::result::Result<Registration<'a>, Fault> {
        Ok(Registration::nothing())
    }

    fn submit(
        &mut self,
        lane: usize,
        operation: Operation<'run>,
        _demand: Demand,
        _waits: &[Fence],
    ) -> std::result::Result<Fence, Fault> {
        let mut message = match (operation, lane) {
            (Operation::Send(message), SEND) | (Operation::Receive(message), RECEIVE) => message,
            _ => return Err(Fault::new(FaultKind::Misuse, "a network sends and receives messages only")),
        };
        let call = self.call.filter(|_| message.tag < MESSAGES_PER_CALL);
        let no_call =
            || Fault::new(FaultKind::Misuse, "a message belongs to no call, or its number is too large");
        message.tag = call.ok_or_else(no_call)?.tag(message.tag);
        let fence = Fence(self.next_fence);
        let start = Command::Start { lane, message, fence, submitted_ns: self.clock.now_ns() };
        let accepted = self.commands.as_ref().is_some_and(|commands| commands.send(start).is_ok());
        if !accepted {
            return Err(Fault::new(FaultKind::Lost, "the network is closed"));
        }
        self.next_fence += 1;
        Ok(fence)
    }

    fn keep_receives(&mut self) -> bool {
        self.ask(Command::KeepReceives)
    }

    fn mark_synchronized(&mut self) {}

    fn advance(&mut self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn close(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// A message in flight.
struct InFlight {
    lane: usize,
    rank: usize,
    tag: u32,
    fence: Fence,
    submitted_ns: u64,
    bytes: usize,
    message: Box<dyn Pending>,
}

/// Why a message failed.
enum Failure {
    /// The device is lost in whose memory it is.
    Memory(Fault),
    /// The communicator failed, or the memory is in use.
    Message(Error),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::PeerLost => Self::Memory(fault),
            _ => Self::Message(Error::Internal(fault.message)),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Message(error)
    }
}

/// The thread of a network.
struct Poller {
    communicator: Arc<dyn Communicator>,
    clock: Clock,
    reports: Reports,
    commands: Receiver<Command>,
    state: Arc<Mutex<State>>,
    pending: Vec<InFlight>,
    /// Messages from other ranks that are not reported until they are submitted again.
    kept: Vec<InFlight>,
    /// The context of the device of the last message in device memory. It stays current on this thread, since a communicator may let
    /// any message make progress in any call.
    _context: Option<HeldContext>,
    /// For each lane the end of its last message.
    lane_ends_ns: [u64; 2],
}

impl Poller {
    fn run(mut self) {
        let mut waiting = Waiting::new();
        loop {
            let command = match self.pending.is_empty() {
                true => self.commands.recv().map_err(|_| TryRecvError::Disconnected),
                false => self.commands.try_recv(),
            };
            match command {
                Ok(command) => {
                    self.obey(command);
                    waiting = Waiting::new();
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            if self.poll() {
                waiting = Waiting::new();
            } else {
                waiting.pause();
            }
        }
    }

    fn obey(&mut self, command: Command) {
        let (lane, message, fence, submitted_ns) = match command {
            Command::KeepReceives(answer) => {
                self.kept.extend(self.pending.extract_if(.., |in_flight| in_flight.lane == RECEIVE));
                self.tell_pending();
                // The device waits for the answer unless it was dropped.
                let _ = answer.send(());
                return;
            }
            Command::Abandon(answer) => {
                self.kept.clear();
                self.pending.clear();
                let _ = answer.send(());
                return;
            }
            Command::Start { lane, message, fence, submitted_ns } => (lane, message, fence, submitted_ns),
        };
        let RankMessage { rank, tag, bytes } = message;
        let is_kept = |kept: &InFlight| lane == RECEIVE && (kept.rank, kept.tag) == (rank, tag);
        if let Some(index) = self.kept.iter().position(is_kept) {
            let kept = self.kept.swap_remove(index);
            self.pending.push(InFlight { fence, submitted_ns, ..kept });
            return self.tell_pending();
        }
        let length = bytes.bytes();
        match self.start(lane, rank, tag, &bytes) {
            Ok(message) => {
                self.pending.push(InFlight { lane, rank, tag, fence, submitted_ns, bytes: length, message });
                if !self.poll() {
                    self.tell_pending();
                }
            }
            Err(error) => self.report(lane, fence, submitted_ns, Err(error)),
        }
    }

    fn start(
        &mut self,
        lane: usize,
        rank: usize,
        tag: u32,
        bytes: &MessageBytes,
    ) -> std::result::Result<Box<dyn Pending>, Failure> {
        if let MessageBytes::Device(range) = bytes {
            self._context = Some(range.memory.make_current()?);
        }
        Ok(match lane {
            SEND => self.communicator.send(rank, tag, bytes.read()?)?,
            _ => self.communicator.receive(rank, tag, bytes.write()?)?,
        })
    }

    /// Tests all messages in flight. Returns whether one of them was complete.
    fn poll(&mut self) -> bool {
        let mut ended = Vec::new();
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain_mut(|in_flight| match in_flight.message.test() {
            Ok(false) => true,
            result => {
                let sent = if in_flight.lane == SEND { in_flight.bytes as u64 } else { 0 };
                let &mut InFlight { lane, fence, submitted_ns, .. } = in_flight;
                ended.push((lane, fence, submitted_ns, result.map(|_| sent).map_err(Failure::Message)));
                false
            }
        });
        self.pending = pending;
        let progressed = !ended.is_empty();
        if progressed {
            self.tell_pending();
        }
        for (lane, fence, submitted_ns, result) in ended {
            self.report(lane, fence, submitted_ns, result);
        }
        progressed
    }

    /// Tells the device which ranks are waited for.
    fn tell_pending(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waits_for = self.pending.iter().map(|in_flight| in_flight.rank).collect();
    }

    /// Reports the end of a message: the bytes that it sent, or its failure.
    fn report(
        &mut self,
        lane: usize,
        fence: Fence,
        submitted_ns: u64,
        result: std::result::Result<u64, Failure>,
    ) {
        let end_ns = self.clock.now_ns();
        let start_ns = self.lane_ends_ns[lane].max(submitted_ns).min(end_ns);
        self.lane_ends_ns[lane] = end_ns;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match result {
            Ok(sent_bytes) => {
                state.sent_bytes += sent_bytes;
                Ok(())
            }
            Err(Failure::Memory(fault)) => Err(fault),
            Err(Failure::Message(error)) => {
                let fault = Fault::new(FaultKind::Lost, error.message());
                state.error.get_or_insert(error);
                Err(fault)
            }
        };
        drop(state);
        self.reports.send(fence, start_ns, end_ns, result);
    }
}
