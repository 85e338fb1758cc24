//! Launches that the calling thread issues itself, in the order of a stream of its own.
//!
//! Neither the owner thread nor a completion thread is involved: to wake them takes longer than a short product. The owner thread is
//! asked once for the function of each launch. Every issue waits for the end of the previous one, on the card, since products share
//! scratch memory. The issues therefore end in their order, and the end of the last one is the end of all.

use std::collections::{HashMap, VecDeque};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Sender, bounded};

use super::actions::{Action, Function};
use super::clock::Epoch;
use super::context::{EventWait, Stream};
use super::driver::{DriverError, fault, message_of};
use super::events::{EventPool, Events};
use super::modules::{FunctionKey, Settled};
use super::owner::Request;
use super::sync::{Instant, sleep, spin_loop};
use super::{CudaDevice, Fault, FaultKind, LaneKind, Operation, StreamHandle};

/// How long the end of a launch is polled without pause before the thread sleeps between two polls.
const SPIN: Duration = Duration::from_millis(2);
/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The launches of calling threads.
pub struct IssuedLaunches {
    /// Functions that stay. Their modules are loaded until the device is closed.
    functions: HashMap<FunctionKey, Settled>,
    event_pool: EventPool,
    /// The events around issues before the last, in their order, that have not been seen to be complete.
    earlier: VecDeque<Arc<Events>>,
    last: Option<LastIssue>,
    /// The reference event of their times.
    epoch: Arc<Epoch>,
}

struct LastIssue {
    events: Arc<Events>,
    issued_ns: u64,
    /// Whether its end has been seen.
    has_ended: bool,
}

impl IssuedLaunches {
    /// No launches yet.
    pub fn new(epoch: Arc<Epoch>) -> Self {
        let (functions, event_pool) = (HashMap::new(), EventPool::default());
        Self { functions, event_pool, earlier: VecDeque::new(), last: None, epoch }
    }

    /// Looks which issues have ended, and returns their events to the pool.
    fn update(&mut self) -> Result<(), DriverError> {
        if let Some(last) = self.last.as_mut().filter(|last| !last.has_ended) {
            last.has_ended = last.events.end.is_complete()?;
        }
        let all = self.last.as_ref().is_none_or(|last| last.has_ended);
        while let Some(events) = self.earlier.front()
            && (all || events.end.is_complete()?)
        {
            self.earlier.pop_front().into_iter().for_each(|events| self.event_pool.release(events));
        }
        Ok(())
    }

    /// Whether an issue may be in flight.
    fn is_running(&self) -> bool {
        self.last.as_ref().is_some_and(|last| !last.has_ended)
    }
}

impl CudaDevice {
    /// Asks the owner thread and waits for its answer.
    pub(super) fn ask<R>(
        &self,
        request: impl FnOnce(Sender<Result<R, Fault>>) -> Request,
    ) -> Result<R, Fault> {
        let (answer, answered) = bounded(1);
        let sent = self.threads.as_ref().is_some_and(|threads| threads.orders.send(request(answer)).is_ok());
        let ended = || Fault::new(FaultKind::Lost, "the thread that issues work has ended");
        if sent { answered.recv().unwrap_or_else(|_| Err(ended())) } else { Err(ended()) }
    }

    /// Issues kernel launches on the calling thread.
    pub(super) fn issue_launches(
        &mut self,
        stream: StreamHandle,
        operations: Vec<Operation<'_>>,
    ) -> Result<(), Fault> {
        self.check_open()?;
        let mut launches = Vec::with_capacity(operations.len());
        for operation in operations {
            let (mut action, what, _) = self.bind(operation, LaneKind::Compute)?;
            let function = self.function_of(&mut action)?;
            launches.push((action, function, what));
        }
        let Some((_, _, what)) = launches.first() else { return Ok(()) };
        let context = self.context.clone();
        let _entered = context.enter()?;
        let stream = Stream::foreign(&context, stream);
        if stream.is_capturing().map_err(|error| self.refused(what, error))? {
            let message = "the stream is being captured as a graph, which products do not support";
            return Err(Fault::new(FaultKind::Launch, message));
        }
        self.issued.update().map_err(|error| self.refused(what, error))?;
        let events = self.issued.event_pool.take(&context, EventWait::Spinning)?;
        let issued_ns = self.clock.now_ns();
        let before = match &self.issued.last {
            Some(last) if !last.has_ended => stream.wait(&last.events.end),
            _ => Ok(()),
        };
        if let Err(error) = before.and_then(|()| events.start.record(&stream)) {
            // Nothing was launched.
            self.issued.event_pool.release(events);
            return Err(self.refused(what, error));
        }
        let launched = launches.iter().try_for_each(|(action, function, what)| {
            action.enqueue(&stream, *function, 1).map_err(|error| (*what, error))
        });
        let launched = launched.map_err(|(what, error)| self.refused(what, error));
        // Those before a launch that failed may be running.
        if let Err(error) = events.end.record(&stream) {
            return Err(launched.err().unwrap_or_else(|| self.shared.mark_lost(&message_of(error))));
        }
        let last = self.issued.last.replace(LastIssue { events, issued_ns, has_ended: false });
        match last {
            Some(last) if last.has_ended => self.issued.event_pool.release(last.events),
            Some(last) => self.issued.earlier.push_back(last.events),
            None => {}
        }
        launched
    }

    /// The function that an action launches.
    fn function_of(&mut self, action: &mut Action) -> Result<Option<Function>, Fault> {
        let launch = match action {
            Action::Launch { launch, .. } => launch,
            Action::Fault(kernel) => return Ok(Some(Function::Kernel(kernel.load(&self.context)?))),
            _ => return Err(Fault::new(FaultKind::Misuse, "a calling thread issues products only")),
        };
        let key = FunctionKey::of(launch);
        let settled = match self.issued.functions.get(&key) {
            Some(settled) => *settled,
            None => self.ask(|answer| Request::Function(Box::new(launch.clone()), answer))?,
        };
        if settled.is_final {
            self.issued.functions.insert(key, settled);
        }
        action.use_variant(&settled.variant)?;
        Ok(Some(Function::Kernel(ptr::with_exposed_provenance_mut(settled.handle))))
    }

    /// The fault of a call that the driver refused.
    fn refused(&self, what: &str, error: DriverError) -> Fault {
        match fault(FaultKind::Launch, what, error) {
            lost if lost.kind == FaultKind::Lost => self.shared.mark_lost(&lost.message),
            refused => refused,
        }
    }

    /// Waits for all issued launches, at most `timeout`. Returns whether they have ended.
    pub(super) fn wait_for_issued(&mut self, timeout: Duration) -> Result<bool, Fault> {
        if !self.issued.is_running() {
            return Ok(true);
        }
        let context = self.context.clone();
        let _entered = context.enter()?;
        let started = Instant::now();
        loop {
            self.issued.update().map_err(|error| self.refused("product", error))?;
            let waited = started.elapsed();
            if !self.issued.is_running() {
                return Ok(true);
            }
            if waited >= timeout {
                return Ok(false);
            }
            if waited < SPIN { spin_loop() } else { sleep(POLL_INTERVAL) }
        }
    }

    /// When the last issue began and ended; `None` unless its end has been seen.
    pub(super) fn times_of_last_issued(&mut self) -> Result<Option<(u64, u64)>, Fault> {
        let Some(LastIssue { events, issued_ns, has_ended: true }) = &self.issued.last else {
            return Ok(None);
        };
        let _entered = self.context.enter()?;
        let times = self.issued.epoch.card_ns(&events.start).and_then(|start| {
            let start_ns = self.host_time.host_ns(start).clamp(*issued_ns, self.clock.now_ns());
            Ok((start_ns, start_ns + events.end.ns_since(&events.start)? as u64))
        });
        times.map(Some).map_err(|error| self.shared.mark_lost(&message_of(error)))
    }
}
