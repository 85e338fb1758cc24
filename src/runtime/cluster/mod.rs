//! Jobs of several ranks: distributed input and output, and the end of a job of which a rank fails.

pub mod agreement;
pub mod division;
mod entry_messages;
pub mod halo;
pub mod read;
pub mod watch;
pub mod write;

pub use division::Division;
pub use read::{RankRows, generate_rows, read_rows};
pub use watch::{Actions, End, Watch};
pub use write::{RowsFormat, hash_rows, write_rows};
