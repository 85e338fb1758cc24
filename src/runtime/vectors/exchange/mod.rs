//! The exchange of rows before a product on vectors: its messages, and their memory.

mod groups;
mod message_memory;
mod messages;
mod rank_memory;
mod rank_messages;

pub use groups::{Groups, MessageGroups};
pub use message_memory::ExchangeMemory;
pub use messages::{Exchange, Message, OwnedChunk};
pub use rank_memory::{ArrivalMemory, DepartureMemory, RowForm};
pub use rank_messages::{arrivals, departures, owners_of_ranks};
