//! The thread that waits for a stream's operations, in their order, and reports each end with its times.
//!
//! It waits on the event behind each operation: a look or two while it may end at once, then asleep until the card
//! wakes it, or for short ones until the next look. While more operations are queued behind it looks seldom: every look
//! takes the driver's lock, which the owner needs to issue the next one. Where many wait to be looked at, one in the middle
//! tells of all before it. And while the owner has much to issue it need not wake anybody: the thread looks for its next
//! operation by itself. Functions that the driver calls on the stream would hold up the next operation until they return.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};
use cudarc::driver::result::DriverError;

use super::clock::{Epoch, SharedHostTime};
use super::context::{Context, EventWait};
use super::driver::words;
use super::events::{Events, UnderWay};
use super::shared::Shared;
use crate::device::pinned::{PinnedRead, PinnedWrite};
use crate::device::{Fence, LaneKind, Reports};
use crate::trace::Clock;

/// How long an event that can wake the thread is looked at before the thread sleeps. Waking up takes about as long.
const SPIN_BEFORE_SLEEP: Duration = Duration::from_micros(20);

/// How long an event that cannot is looked at all the time.
const SHORT_OPERATION_SPIN: Duration = Duration::from_micros(200);

/// How long the thread leaves the driver alone between two looks while the stream has more to do.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// As many operations that have not been looked at, or orders that have not been issued, are many.
const BACKLOG: usize = 4;

/// Host memory that an operation uses until it has ended.
#[expect(dead_code, reason = "kept for its drop")]
pub enum HeldMemory {
    /// Memory it reads.
    Read(PinnedRead),
    /// Memory it writes.
    Written(PinnedWrite),
}

/// When an operation starts.
pub enum Start {
    /// At the event before it.
    Recorded,
    /// When the one before it on the lane has ended, and these of other lanes.
    AfterPredecessors(Vec<Arc<UnderWay>>),
}

/// An operation on its stream.
pub struct Issued {
    /// The fence it goes by.
    pub fence: Fence,
    /// Its events, and where its end is noted.
    pub under_way: Arc<UnderWay>,
    /// When it starts.
    pub start: Start,
    /// What its times are measured from.
    pub epoch: Arc<Epoch>,
    /// When the driver was first told of it.
    pub issued_ns: u64,
    /// Its name in messages.
    pub what: &'static str,
    /// The host memory it uses.
    pub held: Vec<HeldMemory>,
}

/// Waits for the operations of one lane.
pub struct CompletionThread {
    /// What all threads of the device know.
    pub shared: Arc<Shared>,
    /// Where everything is.
    pub context: Arc<Context>,
    /// What the lane is for.
    pub kind: LaneKind,
    /// The operations, in the order they were issued.
    pub issued: Receiver<Issued>,
    /// Who takes the events back.
    pub ended: Sender<Fence>,
    /// The card's time on the host's clock.
    pub host_time: SharedHostTime,
    /// The host's clock.
    pub clock: Clock,
    /// Where ends are reported.
    pub reports: Reports,
}

impl CompletionThread {
    /// Waits until no more operations can come.
    pub fn work(self) {
        let entered = self.context.enter();
        if let Err(fault) = &entered {
            self.shared.mark_lost(&fault.message);
        }
        let mut lane_end_ns = 0;
        let mut queue =
            Queue { incoming: &self.issued, shared: &self.shared, taken: VecDeque::new(), complete: 0 };
        while let Some((issued, is_complete)) = queue.next() {
            let Issued { fence, under_way, start, epoch, issued_ns, what, held } = issued;
            let computes = self.kind == LaneKind::Compute;
            if computes {
                self.shared.set_running_kernel(Some(what));
            }
            let waited = if is_complete { Ok(()) } else { wait(&under_way.events, || queue.more_follows()) };
            let times = waited.and_then(|()| {
                let seen_ns = self.clock.now_ns();
                let start_ns = match &start {
                    Start::Recorded => self.host_time.host_ns(epoch.card_ns(&under_way.events.start)?),
                    Start::AfterPredecessors(others) => {
                        others.iter().try_fold(lane_end_ns, |latest_ns, other| {
                            other.ended_ns(&epoch, &self.host_time).map(|end_ns| end_ns.max(latest_ns))
                        })?
                    }
                };
                let end_ns = self.host_time.host_ns(epoch.card_ns(&under_way.events.end)?);
                Ok((start_ns, end_ns, seen_ns))
            });
            let (start_ns, end_ns, result) = match times {
                Ok((start_ns, end_ns, seen_ns)) => {
                    // Nothing starts before it was issued or ends after its end was seen.
                    let start_ns = start_ns.max(issued_ns).max(lane_end_ns).min(seen_ns);
                    (start_ns, end_ns.clamp(start_ns, seen_ns), Ok(()))
                }
                Err(error) => {
                    let now_ns = self.clock.now_ns();
                    (issued_ns.max(lane_end_ns), now_ns, Err(self.shared.mark_lost(&words(error))))
                }
            };
            if computes {
                self.shared.set_running_kernel(None);
            }
            lane_end_ns = end_ns;
            // Nobody else notes it.
            let _ = under_way.end_ns.set(end_ns);
            // Whoever hears of the end may use the memory at once, and its fence's events again.
            drop(held);
            let _ = self.ended.send(fence);
            self.reports.send(fence, start_ns, end_ns, result);
        }
    }
}

/// The operations of a lane, in their order.
struct Queue<'a> {
    incoming: &'a Receiver<Issued>,
    shared: &'a Shared,
    taken: VecDeque<Issued>,
    /// How many of those taken, from the first on, are known to have happened.
    complete: usize,
}

impl Queue<'_> {
    /// The next one, and whether it is known to have happened; nothing where no more can come.
    fn next(&mut self) -> Option<(Issued, bool)> {
        if self.taken.is_empty() {
            while self.incoming.is_empty() && self.shared.queued() >= BACKLOG {
                std::thread::sleep(POLL_INTERVAL);
            }
            self.taken.push_back(self.incoming.recv().ok()?);
        }
        self.taken.extend(self.incoming.try_iter());
        if self.complete == 0 && self.taken.len() >= BACKLOG {
            let middle = self.taken.len() / 2;
            // What went wrong shows when the operation itself is waited for.
            if self.taken[middle].under_way.events.end.is_complete().unwrap_or(false) {
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

fn wait(events: &Events, more_follows: impl Fn() -> bool) -> Result<(), DriverError> {
    let started = Instant::now();
    while !events.end.is_complete()? {
        let looked = started.elapsed();
        match events.waiting {
            EventWait::Blocking if looked >= SPIN_BEFORE_SLEEP && !more_follows() => {
                return events.end.wait();
            }
            EventWait::Spinning if looked >= SHORT_OPERATION_SPIN => std::thread::sleep(POLL_INTERVAL),
            _ if more_follows() => std::thread::sleep(POLL_INTERVAL),
            _ => std::hint::spin_loop(),
        }
    }
    Ok(())
}
