//! What a job is, for every kind of work. A planner knows this vocabulary and no kind by name:
//!
//! - **A** is the operand whose rows are divided among the devices. Rows weigh differently, and a row may be divided into segments.
//! - **X** is the operand that a range of rows needs whole, in part or not at all ([`XPlan`]).
//! - **Y** is the output: written or updated, and its parts are concatenated or added ([`Output`]).
//! - Kernels store A in their own layouts ([`Footprint`]), and take predicted times on rows with given [`Facts`].
//!
//! [`Kind`] is what a kind of work says about one job, [`Work`] is a job of any kind. One folder for each kind: [`spmm`], [`gemm`],
//! [`colmean`].

pub mod colmean;
mod dense;
mod facts;
mod fingerprint;
pub mod gemm;
mod held_rows;
mod kind;
mod operands;
mod pitch;
mod rows;
pub mod spmm;
mod uniform;

pub use facts::{Count, Facts, Size};
pub use fingerprint::Fingerprint;
pub use held_rows::{COPY_BYTES_PER_TASK, HeldRows};
pub use kind::{Footprint, Forms, KernelRequest, Kind, Layouts, Work};
pub use operands::{Combine, MAX_PART, Output, SharedBytes, XChoice, XPlan, XRows, owned_rows_of_x};
pub use pitch::{XOrder, pitch_bytes};
pub use rows::{ChunkRows, Position, PositionRange};
pub use uniform::UniformRows;
