//! What a job is: which bytes of A, X and Y each of its chunks needs, and how they lie in a device's memory.

mod columns;
mod storage;

pub use columns::HeldColumns;
pub use storage::Storage;
