//! Events around operations: used again and again, since making one takes the driver longer than recording it.

use std::sync::{Arc, OnceLock};

use cudarc::driver::result::DriverError;

use super::clock::{Epoch, Placed};
use super::context::{Context, Event, Waiting};
use crate::device::Fault;

/// The two events around an operation.
#[derive(Debug)]
pub struct Events {
    /// Before it.
    pub start: Event,
    /// Behind it.
    pub end: Event,
    /// How the end can be waited for.
    pub waiting: Waiting,
}

/// Events that nobody uses.
#[derive(Debug, Default)]
pub struct Spare {
    asleep: Vec<Arc<Events>>,
    awake: Vec<Arc<Events>>,
}

impl Spare {
    /// A pair whose end can be waited for in that way.
    pub fn take(&mut self, context: &Arc<Context>, waiting: Waiting) -> Result<Arc<Events>, Fault> {
        match self.of(waiting).pop() {
            Some(events) => Ok(events),
            None => Ok(Arc::new(Events {
                start: Event::create(context, Waiting::Awake)?,
                end: Event::create(context, waiting)?,
                waiting,
            })),
        }
    }

    /// Takes a pair back.
    pub fn give(&mut self, events: Arc<Events>) {
        self.of(events.waiting).push(events);
    }

    fn of(&mut self, waiting: Waiting) -> &mut Vec<Arc<Events>> {
        match waiting {
            Waiting::Asleep => &mut self.asleep,
            Waiting::Awake => &mut self.awake,
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
    pub fn ended_ns(&self, epoch: &Epoch, placed: &Placed) -> Result<u64, DriverError> {
        if let Some(end_ns) = self.end_ns.get() {
            return Ok(*end_ns);
        }
        let asked = epoch.card_ns(&self.events.end);
        // The event is used again, and tells another time or none, only after the end was noted.
        match self.end_ns.get() {
            Some(end_ns) => Ok(*end_ns),
            None => asked.map(|card_ns| placed.host_ns(card_ns)),
        }
    }
}
