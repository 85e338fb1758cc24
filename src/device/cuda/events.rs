//! Events around operations: used again and again, since making one takes the driver longer than recording it.

use std::sync::{Arc, OnceLock};

use cudarc::driver::result::DriverError;

use super::clock::{Epoch, SharedHostTime};
use super::context::{Context, Event, EventWait};
use crate::device::Fault;

/// The two events around an operation.
#[derive(Debug)]
pub struct Events {
    /// Before it.
    pub start: Event,
    /// Behind it.
    pub end: Event,
    /// How the end can be waited for.
    pub waiting: EventWait,
}

/// Events that nobody uses.
#[derive(Debug, Default)]
pub struct EventPool {
    blocking: Vec<Arc<Events>>,
    spinning: Vec<Arc<Events>>,
}

impl EventPool {
    /// A pair whose end can be waited for in that way.
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

    /// Takes a pair back.
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

/// An operation on its stream, for others that wait for it.
#[derive(Debug)]
pub struct UnderWay {
    /// Its lane.
    pub lane: usize,
    /// The events around it, until its end was seen.
    pub events: Arc<Events>,
    /// When it ended on the host's clock, once its waiter has seen that.
    pub end_ns: OnceLock<u64>,
}

impl UnderWay {
    /// When it ended on the host's clock; it has.
    pub fn ended_ns(&self, epoch: &Epoch, host_time: &SharedHostTime) -> Result<u64, DriverError> {
        if let Some(end_ns) = self.end_ns.get() {
            return Ok(*end_ns);
        }
        let asked = epoch.card_ns(&self.events.end);
        // The event is used again, and tells another time or none, only after the end was noted.
        match self.end_ns.get() {
            Some(end_ns) => Ok(*end_ns),
            None => asked.map(|card_ns| host_time.host_ns(card_ns)),
        }
    }
}
