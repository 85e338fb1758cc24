//! Clock anchors of a card: an event on a separate stream, bracketed by two readings of the host's clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::result::DriverError;

use super::context::{Context, Event, EventWait, Stream};
use super::driver::fault;
use super::host_time::{Anchor, Bracket, HostTime, intersect};
use crate::device::{Fault, FaultKind};
use crate::trace::Clock;

/// Time between anchors. `cuEventElapsedTime` returns single precision, whose resolution is 60 ns after one second.
const ANCHOR_INTERVAL_NS: u64 = 1_000_000_000;

/// Time until the second anchor, before which the rate of the card's clock is unknown.
const SECOND_ANCHOR_DELAY_NS: u64 = 100_000_000;

/// Events per anchor. Each bounds the clock offset from both sides.
const EVENTS_PER_ANCHOR: usize = 8;

/// The most times that an anchor is set, and an error with which it is good enough: shorter than the operations whose times matter.
const MOST_TRIES: usize = 8;
const SMALL_ERROR_NS: f64 = 50e3;

/// The longest wait for an anchor's event.
const ANCHOR_TIMEOUT: Duration = Duration::from_millis(100);

/// A reference event with a known card time.
#[derive(Debug)]
pub struct Epoch {
    event: Event,
    card_ns: f64,
}

impl Epoch {
    /// The card time of `event`, which must be complete.
    pub fn card_ns(&self, event: &Event) -> Result<f64, DriverError> {
        Ok(self.card_ns + event.ns_since(&self.event)?)
    }
}

/// The mapping from card time to host time, shared by the threads of a device.
#[derive(Debug, Clone)]
pub struct SharedHostTime(Arc<Mutex<HostTime>>);

impl SharedHostTime {
    fn line(&self) -> MutexGuard<'_, HostTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host time of a card time.
    pub fn host_ns(&self, card_ns: f64) -> u64 {
        self.line().host_ns(card_ns)
    }

    /// The largest error of a mapped time.
    pub fn largest_error_ns(&self) -> u64 {
        self.line().largest_error_ns()
    }
}

/// Sets clock anchors. The owner thread owns it.
#[derive(Debug)]
pub struct CardClock {
    clock: Clock,
    context: Arc<Context>,
    stream: Stream,
    host_time: SharedHostTime,
    epoch: Arc<Epoch>,
    due_ns: u64,
}

impl CardClock {
    /// Sets the first anchor.
    pub fn start(context: &Arc<Context>, clock: Clock) -> Result<Self, Fault> {
        let stream = Stream::create(context)?;
        let _entered = context.enter()?;
        // The first records on a stream take much longer than later ones, so one anchor is discarded.
        anchor(context, &stream, clock)?;
        let (event, host_ns, error_ns) = anchor(context, &stream, clock)?;
        let anchor = Anchor { card_ns: 0.0, host_ns, error_ns };
        let host_time = SharedHostTime(Arc::new(Mutex::new(HostTime::new(anchor))));
        let epoch = Arc::new(Epoch { event, card_ns: 0.0 });
        Ok(Self {
            clock,
            context: context.clone(),
            stream,
            host_time,
            epoch,
            due_ns: clock.now_ns() + SECOND_ANCHOR_DELAY_NS,
        })
    }

    /// The mapping from card time to host time.
    pub fn host_time(&self) -> &SharedHostTime {
        &self.host_time
    }

    /// The reference event of the last anchor.
    pub fn last_epoch(&self) -> Arc<Epoch> {
        self.epoch.clone()
    }

    /// The reference event for work that is submitted now. Sets a new anchor if one is due. `idle` says that no work is in
    /// flight.
    pub fn epoch(&mut self, idle: bool) -> Arc<Epoch> {
        if self.clock.now_ns() >= self.due_ns {
            // If the new anchor fails, the old one stays; a fault of the card is reported by its operations.
            if let Ok((event, host_ns, error_ns)) = anchor(&self.context, &self.stream, self.clock)
                && let Ok(passed_ns) = event.ns_since(&self.epoch.event)
            {
                let card_ns = self.epoch.card_ns + passed_ns;
                self.host_time.line().add(Anchor { card_ns, host_ns, error_ns }, idle);
                self.epoch = Arc::new(Epoch { event, card_ns });
            }
            self.due_ns = self.clock.now_ns() + ANCHOR_INTERVAL_NS;
        }
        self.epoch.clone()
    }
}

/// An event, its host time and the error of that time. Tries again if the error is large: another process used the card, or the thread
/// was interrupted.
fn anchor(context: &Arc<Context>, stream: &Stream, clock: Clock) -> Result<(Event, f64, f64), Fault> {
    let mut best = anchor_once(context, stream, clock)?;
    for _ in 1..MOST_TRIES {
        if best.2 <= SMALL_ERROR_NS {
            break;
        }
        match anchor_once(context, stream, clock) {
            Ok(next) if next.2 < best.2 => best = next,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(best)
}

/// Records several events. Returns the last one, its host time and the error of that time.
fn anchor_once(context: &Arc<Context>, stream: &Stream, clock: Clock) -> Result<(Event, f64, f64), Fault> {
    let mut brackets = Vec::with_capacity(EVENTS_PER_ANCHOR);
    let (first, before_ns, after_ns) = bracketed_event(context, stream, clock)?;
    brackets.push(Bracket { card_ns: 0.0, before_ns, after_ns });
    let mut last = Event::create(context, EventWait::Spinning)?;
    for _ in 1..EVENTS_PER_ANCHOR {
        let (event, before_ns, after_ns) = bracketed_event(context, stream, clock)?;
        let card_ns = event.ns_since(&first).map_err(clock_fault)?;
        brackets.push(Bracket { card_ns, before_ns, after_ns });
        last = event;
    }
    let card_ns = last.ns_since(&first).map_err(clock_fault)?;
    let (offset_ns, error_ns) = intersect(&brackets);
    Ok((last, card_ns + offset_ns, error_ns))
}

/// An event with the host times just before it was recorded and just after it was seen complete.
fn bracketed_event(
    context: &Arc<Context>,
    stream: &Stream,
    clock: Clock,
) -> Result<(Event, f64, f64), Fault> {
    let event = Event::create(context, EventWait::Spinning)?;
    let before_ns = clock.now_ns();
    event.record(stream).map_err(clock_fault)?;
    let started = Instant::now();
    while !event.is_complete().map_err(clock_fault)? {
        if started.elapsed() > ANCHOR_TIMEOUT {
            return Err(Fault::new(FaultKind::Lost, "the card's clock did not respond in time"));
        }
        std::hint::spin_loop();
    }
    Ok((event, before_ns as f64, clock.now_ns() as f64))
}

fn clock_fault(error: DriverError) -> Fault {
    fault(FaultKind::Lost, "the card's clock cannot be read", error)
}
