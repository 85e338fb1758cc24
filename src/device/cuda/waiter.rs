//! The thread that waits for a stream's operations, in their order, and reports each end with its times.
//!
//! It waits on the event behind each operation: a look or two while it may end at once, then asleep until the card
//! wakes it. While more operations are queued behind it looks seldom: every look takes the driver's lock, which the owner
//! needs to issue the next one. And where many wait to be looked at, one in the middle tells of all before it. Functions that the driver calls on the stream would hold up the next operation until they
//! return.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};
use cudarc::driver::result::DriverError;

use super::clock::{Epoch, Placed};
use super::context::{Context, Event};
use super::driver::words;
use super::shared::Shared;
use crate::device::pinned::{PinnedRead, PinnedWrite};
use crate::device::{Fence, LaneKind, Reports};
use crate::trace::Clock;

/// How long an event is looked at before the thread sleeps. Waking up takes about as long.
const LOOKING: Duration = Duration::from_micros(20);

/// How long the thread leaves the driver alone between two looks while the stream has more to do.
const LEAVING_ALONE: Duration = Duration::from_micros(20);

/// As many operations that have not been looked at are many.
const MANY: usize = 4;

/// Host memory that an operation uses until it has ended.
#[expect(dead_code, reason = "kept for its drop")]
pub enum Held {
    /// Memory it reads.
    Read(PinnedRead),
    /// Memory it writes.
    Written(PinnedWrite),
}

/// The two events around an operation.
#[derive(Debug)]
pub struct Events {
    /// Before it.
    pub start: Event,
    /// Behind it.
    pub end: Event,
}

/// An operation on its stream.
pub struct Issued {
    /// The fence it goes by.
    pub fence: Fence,
    /// The events around it.
    pub events: Arc<Events>,
    /// Whether the one before it was recorded; else it starts when the one before it on the lane ends.
    pub has_start: bool,
    /// What its times are measured from.
    pub epoch: Arc<Epoch>,
    /// When the driver was first told of it.
    pub issued_ns: u64,
    /// Its name in messages.
    pub what: &'static str,
    /// The host memory it uses.
    pub held: Vec<Held>,
}

/// Waits for the operations of one lane.
pub struct Waiter {
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
    pub placed: Placed,
    /// The host's clock.
    pub clock: Clock,
    /// Where ends are reported.
    pub reports: Reports,
}

impl Waiter {
    /// Waits until no more operations can come.
    pub fn work(self) {
        let entered = self.context.enter();
        if let Err(fault) = &entered {
            self.shared.lose(&fault.message);
        }
        let mut lane_end_ns = 0;
        let mut queue = Queue { coming: &self.issued, taken: VecDeque::new(), happened: 0 };
        while let Some((issued, has_happened)) = queue.next() {
            let Issued { fence, events, has_start, epoch, issued_ns, what, held } = issued;
            let computes = self.kind == LaneKind::Compute;
            if computes {
                self.shared.set_computing(Some(what));
            }
            let waited = if has_happened { Ok(()) } else { wait(&events.end, || queue.more_follows()) };
            let times = waited.and_then(|()| {
                let seen_ns = self.clock.now_ns();
                let start_ns = if has_start { Some(epoch.card_ns(&events.start)?) } else { None };
                Ok((start_ns, epoch.card_ns(&events.end)?, seen_ns))
            });
            let (start_ns, end_ns, result) = match times {
                Ok((start_ns, end_ns, seen_ns)) => {
                    let start_ns = start_ns.map_or(lane_end_ns, |start_ns| self.placed.host_ns(start_ns));
                    let end_ns = self.placed.host_ns(end_ns);
                    // Nothing starts before it was issued or ends after its end was seen.
                    let start_ns = start_ns.max(issued_ns).max(lane_end_ns).min(seen_ns);
                    (start_ns, end_ns.clamp(start_ns, seen_ns), Ok(()))
                }
                Err(error) => {
                    let now_ns = self.clock.now_ns();
                    (issued_ns.max(lane_end_ns), now_ns, Err(self.shared.lose(&words(error))))
                }
            };
            if computes {
                self.shared.set_computing(None);
            }
            lane_end_ns = end_ns;
            // Whoever hears of the end may use the memory at once, and its fence's events again.
            drop(held);
            let _ = self.ended.send(fence);
            self.reports.send(fence, start_ns, end_ns, result);
        }
    }
}

/// The operations of a lane, in their order.
struct Queue<'a> {
    coming: &'a Receiver<Issued>,
    taken: VecDeque<Issued>,
    /// How many of those taken, from the first on, are known to have happened.
    happened: usize,
}

impl Queue<'_> {
    /// The next one, and whether it is known to have happened; nothing where no more can come.
    fn next(&mut self) -> Option<(Issued, bool)> {
        if self.taken.is_empty() {
            self.taken.push_back(self.coming.recv().ok()?);
        }
        self.taken.extend(self.coming.try_iter());
        if self.happened == 0 && self.taken.len() >= MANY {
            let middle = self.taken.len() / 2;
            // What went wrong shows when the operation itself is waited for.
            if self.taken[middle].events.end.has_happened().unwrap_or(false) {
                self.happened = middle + 1;
            }
        }
        let known = self.happened > 0;
        self.happened = self.happened.saturating_sub(1);
        self.taken.pop_front().map(|issued| (issued, known))
    }

    fn more_follows(&self) -> bool {
        !self.taken.is_empty() || !self.coming.is_empty()
    }
}

fn wait(event: &Event, more_follows: impl Fn() -> bool) -> Result<(), DriverError> {
    let started = Instant::now();
    while !event.has_happened()? {
        if more_follows() {
            std::thread::sleep(LEAVING_ALONE);
        } else if started.elapsed() >= LOOKING {
            return event.wait();
        } else {
            std::hint::spin_loop();
        }
    }
    Ok(())
}
