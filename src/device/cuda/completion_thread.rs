//! The completion thread of a stream: waits for its operations in order and reports each completion with its times.
//!
//! It waits for the end event of each operation:
//!
//! - It polls first, since short operations complete at once. Then it blocks on the event of a long operation. Others it polls at
//!   an interval, and without pause around their predicted end. The prediction includes operations of other lanes that it waits for.
//! - While more operations are queued it polls less often, because every poll takes the driver's lock, which the owner
//!   thread needs to issue the next operation.
//! - With a backlog it queries the event in the middle: if that one is complete, so are all before it.
//! - While the owner thread has a backlog of requests, this thread polls its channel instead of blocking on it, which
//!   saves the owner the cost of waking it.
//!
//! It does not use stream callbacks: they delay the next operation on the stream until they return.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Epoch, SharedHostTime};
use super::context::{Context, DeviceMemory, EventWait};
use super::driver::{DriverError, message_of};
use super::events::{Events, InFlight};
use super::shared::Shared;
use super::sync::{Instant, Receiver, Sender, receive, sleep, spin_loop};
use super::{Fault, Fence, LaneKind, PinnedRead, PinnedWrite, Reports};
use crate::trace::Clock;

/// How long a blocking event is polled before the thread blocks on it. Waking up takes about as long.
const SPIN_BEFORE_SLEEP: Duration = Duration::from_micros(20);

/// How long a spinning event of an operation without a prediction is polled without pause.
const SHORT_OPERATION_SPIN: Duration = Duration::from_micros(200);

/// Operations predicted to be longer are polled without pause only from `EARLY` times to `LATE` times their prediction.
const SHORT_OPERATION: Duration = Duration::from_micros(100);
const EARLY: f64 = 0.8;
const LATE: f64 = 1.5;

/// An operation that starts later, since it waits for those of other lanes, is polled without pause for a short time and at an interval
/// after it, so that no hardware thread is occupied for long.
const LONGEST_SPIN_AHEAD: Duration = Duration::from_millis(2);

/// Pause between two polls, during which the driver's lock is free.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// By how much the kernel may prolong a pause. Its default, 50 µs, is more than the pause.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1000).unwrap();

/// Number of unqueried operations, or of unissued requests, that counts as a backlog.
const BACKLOG: usize = 4;

/// An access to memory of the host, or of another device, that an operation holds until it completes.
#[expect(dead_code, reason = "kept for its drop")]
pub enum HeldMemory {
    /// Memory that it reads.
    Read(PinnedRead),
    /// Memory that it writes.
    Written(PinnedWrite),
    /// Memory that it reads and that nothing else uses.
    Bytes(Vec<u8>),
    /// Memory of another device that it reads; not freed until then.
    Peer(Arc<DeviceMemory>),
}

/// The host memory of an operation that may be in flight. Only [`InFlightMemory::release`] releases it. If it is dropped
/// otherwise, such as by a panic, the memory stays held, because the card may still access it.
pub struct InFlightMemory(ManuallyDrop<Vec<HeldMemory>>);

impl InFlightMemory {
    /// The memory `held` by an operation that is about to be issued.
    pub fn new(held: Vec<HeldMemory>) -> Self {
        Self(ManuallyDrop::new(held))
    }

    /// Releases the memory of an operation that is complete.
    pub fn release(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}

/// How the start time of an operation is determined.
pub enum Start {
    /// By the event recorded before it.
    Recorded,
    /// By the latest end of its predecessor on the lane and of these operations of other lanes.
    AfterPredecessors(Vec<Arc<InFlight>>),
}

/// An operation that was issued to its stream.
pub struct Issued {
    /// Its fence.
    pub fence: Fence,
    /// Its events and, later, its end time.
    pub in_flight: Arc<InFlight>,
    /// How its start time is determined.
    pub start: Start,
    /// The reference event of its times.
    pub epoch: Arc<Epoch>,
    /// When it was issued to the driver, on the host's clock.
    pub issued_ns: u64,
    /// When the operations of other lanes that it waits for are predicted to end, on the host's clock; 0 if there are none.
    pub other_lanes_end_ns: u64,
    /// Its predicted duration.
    pub predicted_ns: u64,
    /// The operation's name in messages.
    pub what: &'static str,
    /// The host memory that it holds.
    pub held: InFlightMemory,
    /// Why only a part of it could be issued; `None` if all of it was.
    pub failure: Option<Fault>,
}

/// Predicted time until the end of an operation that takes `predicted_ns`, for a thread that starts to wait at `now_ns`, when all earlier
/// operations of the lane have ended. A download is issued long before its kernel ends: without the kernel's time, its end would be
/// expected far too early.
pub fn predicted_end_in(now_ns: u64, other_lanes_end_ns: u64, predicted_ns: u64) -> Duration {
    let until_start = Duration::from_nanos(other_lanes_end_ns.saturating_sub(now_ns));
    let predicted = Duration::from_nanos(predicted_ns);
    if until_start <= LONGEST_SPIN_AHEAD { until_start + predicted } else { predicted }
}

/// The completion thread of one lane.
pub struct CompletionThread {
    /// State shared by all threads of the device.
    pub shared: Arc<Shared>,
    /// The device's CUDA context.
    pub context: Arc<Context>,
    /// The lane's kind.
    pub kind: LaneKind,
    /// The operations, in the order they were issued.
    pub issued: Receiver<Issued>,
    /// Tells the owner thread that an operation's events can be reused.
    pub ended: Sender<Fence>,
    /// Maps the card's time to the host's clock.
    pub host_time: SharedHostTime,
    /// The host's clock.
    pub clock: Clock,
    /// Where completions are reported.
    pub reports: Reports,
}

impl CompletionThread {
    /// Runs until the owner thread has ended and all issued operations are reported. After a panic, which is a bug, the
    /// device is lost and every operation is reported as failed. The operations keep their host memory, since the card may
    /// still access it.
    pub fn work(self) {
        let mut queue =
            Queue { incoming: &self.issued, shared: &self.shared, taken: VecDeque::new(), complete: 0 };
        let waiting_for = Cell::new(None);
        if catch_unwind(AssertUnwindSafe(|| self.serve(&mut queue, &waiting_for))).is_err() {
            let fault = self.shared.mark_lost("the thread that waits for operations has panicked");
            let unreported = queue.taken.drain(..).chain(&self.issued).map(|issued| issued.fence);
            for fence in waiting_for.get().into_iter().chain(unreported) {
                let now_ns = self.clock.now_ns();
                self.reports.send(fence, now_ns, now_ns, Err(fault.clone()));
            }
        }
    }

    fn serve(&self, queue: &mut Queue<'_>, waiting_for: &Cell<Option<Fence>>) {
        // Without it, pauses are longer.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let entered = self.context.enter();
        if let Err(fault) = &entered {
            self.shared.mark_lost(&fault.message);
        }
        let mut lane_end_ns = 0;
        while let Some((issued, is_complete)) = queue.next() {
            let Issued {
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
            } = issued;
            let predicted = predicted_end_in(self.clock.now_ns(), other_lanes_end_ns, predicted_ns);
            waiting_for.set(Some(fence));
            let computes = self.kind == LaneKind::Compute;
            if computes {
                self.shared.set_running_kernel(Some(what));
            }
            let more_follows = || queue.more_follows();
            let waited = if is_complete { Ok(()) } else { wait(&in_flight.events, predicted, more_follows) };
            let times = waited.and_then(|()| {
                let seen_ns = self.clock.now_ns();
                let start_ns = match &start {
                    Start::Recorded => self.host_time.host_ns(epoch.card_ns(&in_flight.events.start)?),
                    Start::AfterPredecessors(others) => {
                        others.iter().try_fold(lane_end_ns, |latest_ns, other| {
                            other.ended_ns(&epoch, &self.host_time).map(|end_ns| end_ns.max(latest_ns))
                        })?
                    }
                };
                let end_ns = self.host_time.host_ns(epoch.card_ns(&in_flight.events.end)?);
                Ok((start_ns, end_ns, seen_ns))
            });
            let (start_ns, end_ns, result) = match times {
                Ok((start_ns, end_ns, seen_ns)) => {
                    // An operation cannot start before it was issued or end after its completion was observed.
                    let start_ns = start_ns.max(issued_ns).max(lane_end_ns).min(seen_ns);
                    (start_ns, end_ns.clamp(start_ns, seen_ns), failure.map_or(Ok(()), Err))
                }
                Err(error) => {
                    let now_ns = self.clock.now_ns();
                    (issued_ns.max(lane_end_ns), now_ns, Err(self.shared.mark_lost(&message_of(error))))
                }
            };
            if computes {
                self.shared.set_running_kernel(None);
            }
            lane_end_ns = end_ns;
            // Only this thread sets it, once.
            let _ = in_flight.end_ns.set(end_ns);
            // Released before the report: the receiver may reuse the memory and the events at once. The context of a failed
            // operation is lost, and the card has stopped all of its work.
            held.release();
            let _ = self.ended.send(fence);
            self.reports.send(fence, start_ns, end_ns, result);
            // A later panic must not report it again.
            waiting_for.set(None);
        }
    }
}

/// The operations of a lane, in their order.
struct Queue<'a> {
    incoming: &'a Receiver<Issued>,
    shared: &'a Shared,
    taken: VecDeque<Issued>,
    /// How many of `taken`, counted from the first, are known to be complete.
    complete: usize,
}

impl Queue<'_> {
    /// The next operation and whether it is known to be complete; `None` once the channel is closed.
    fn next(&mut self) -> Option<(Issued, bool)> {
        if self.taken.is_empty() {
            while self.incoming.is_empty() && self.shared.queued() >= BACKLOG {
                sleep(POLL_INTERVAL);
            }
            self.taken.push_back(receive(self.incoming)?);
        }
        self.taken.extend(self.incoming.try_iter());
        if self.complete == 0 && self.taken.len() >= BACKLOG {
            let middle = self.taken.len() / 2;
            // An error is reported when the operation itself is waited for.
            if self.taken[middle].in_flight.events.end.is_complete().unwrap_or(false) {
                self.complete = middle + 1;
            }
        }
        let known = self.complete > 0;
        self.complete = self.complete.saturating_sub(1);
        self.taken.pop_front().map(|issued| (issued, known))
    }

    fn more_follows(&self) -> bool {
        !self.taken.is_empty() || !self.incoming.is_empty()
    }
}

/// Waits for the end of an operation that is predicted to end in `predicted`. Around that time a spinning event is polled
/// without pause, so that its end is seen at once.
fn wait(events: &Events, predicted: Duration, more_follows: impl Fn() -> bool) -> Result<(), DriverError> {
    let early = if predicted > SHORT_OPERATION { predicted.mul_f64(EARLY) } else { Duration::ZERO };
    let late = predicted.mul_f64(LATE) + SHORT_OPERATION_SPIN;
    let started = Instant::now();
    while !events.end.is_complete()? {
        let polled = started.elapsed();
        match events.waiting {
            EventWait::Blocking if polled >= SPIN_BEFORE_SLEEP && !more_follows() => {
                return events.end.wait();
            }
            EventWait::Spinning if (SPIN_BEFORE_SLEEP..early).contains(&polled) => sleep(POLL_INTERVAL),
            EventWait::Spinning if polled >= late => sleep(POLL_INTERVAL),
            _ if more_follows() => sleep(POLL_INTERVAL),
            _ => spin_loop(),
        }
    }
    Ok(())
}
