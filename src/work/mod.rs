//! The description of a product for planning: the cost of its rows, the bytes that a piece reads and writes, the storage formats of
//! its chunks, and what its kernels cost. One folder for each kind of work.

mod pitch;
pub mod spmm;

pub use pitch::{XOrder, pitch_bytes};
pub use spmm::{
    Array, ChunkRows, Features, Fingerprint, Footprint, HeldColumns, Locality, Position, PositionRange,
    Storage, Work, position_at, split,
};
