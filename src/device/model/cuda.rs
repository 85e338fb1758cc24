//! The threads of a card, with the modules that they use taken from the modelled card.

#[path = "../cuda/completion_thread.rs"]
pub mod completion_thread;
#[path = "../cuda/events.rs"]
pub mod events;
#[path = "../cuda/owner.rs"]
pub mod owner;
#[path = "../cuda/shared.rs"]
pub mod shared;

pub mod actions {
    pub use super::super::card::Action;
}
pub mod clock {
    pub use super::super::card::{CardClock, Epoch, SharedHostTime};
}
pub mod context {
    pub use super::super::card::{Context, DeviceMemory, Event, EventWait, Stream};
}
pub mod driver {
    pub use super::super::card::{DriverError, fault, message_of};
}
pub mod built_in {
    pub use super::super::card::Architecture;
}
pub mod modules {
    pub use super::super::card::{Modules, Settled};
}

use super::pinned::{PinnedRead, PinnedWrite};
use super::{Fault, FaultKind, Fence, LaneKind, Launch, Reports, sync};
