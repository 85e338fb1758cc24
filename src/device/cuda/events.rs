//! Pairs of events around operations. They are reused, since creating an event costs more than recording it.

use std::sync::{Arc, OnceLock};

use super::Fault;
use super::clock::{Epoch, SharedHostTime};
use super::context::{Context, Event, EventWait};
use super::driver::DriverError;

/// The two events around an operation.
#[derive(Debug)]
pub struct Events {
    /// Recorded before it.
    pub start: Event,
    /// Recorded after it.
    pub end: Event,
    /// How a thread waits for `end`.
    pub waiting: EventWait,
}

/// Unused event pairs.
#[derive(Debug, Default)]
pub struct EventPool {
    blocking: Vec<Arc<Events>>,
    spinning: Vec<Arc<Events>>,
}

impl EventPool {
    /// A pair whose end is waited for in the way of `waiting`.
    pub fn take(&mut self, context: &Arc<Context>, waiting: EventWait) -> Result<Arc<Events>, Fault> {
        match self.of(waiting).pop() {
            Some(events) => Ok(events),
            None => Ok(Arc::new(Events {
                start: Event::create(context, EventWait::Spinning)?,
                end: Event::create(context, waiting)?,
                waiting,
            })),
        }
    }

    /// Returns a pair to the pool.
    pub fn release(&mut self, events: Arc<Events>) {
        self.of(events.waiting).push(events);
    }

    fn of(&mut self, waiting: EventWait) -> &mut Vec<Arc<Events>> {
        match waiting {
            EventWait::Blocking => &mut self.blocking,
            EventWait::Spinning => &mut self.spinning,
        }
    }
}

/// An operation in flight, as seen by operations that wait for it.
#[derive(Debug)]
pub struct InFlight {
    /// Its lane.
    pub lane: usize,
    /// The events around it. They are reused after its completion was observed.
    pub events: Arc<Events>,
    /// When it is predicted to end on the host's clock, after all operations that it waits for.
    pub predicted_end_ns: u64,
    /// When it ended on the host's clock; set by its completion thread.
    pub end_ns: OnceLock<u64>,
}

impl InFlight {
    /// When it ended on the host's clock. It must be complete.
    pub fn ended_ns(&self, epoch: &Epoch, host_time: &SharedHostTime) -> Result<u64, DriverError> {
        if let Some(end_ns) = self.end_ns.get() {
            return Ok(*end_ns);
        }
        let card_ns = epoch.card_ns(&self.events.end);
        // The event is reused only after `end_ns` was set. So if it is still unset, the time just read is this operation's.
        match self.end_ns.get() {
            Some(end_ns) => Ok(*end_ns),
            None => card_ns.map(|card_ns| host_time.host_ns(card_ns)),
        }
    }
}
