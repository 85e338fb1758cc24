//! CPU kernels with SIMD: Y = A X by rows, all in Rowloom's canonical order.
//!
//! They are a separate crate because they take minutes to compile: [`Kernels`] returns function pointers, and no generic code
//! leaves this crate, so that changes of its callers do not recompile it.
//!
//! `chains`, `rows` and `blocks` hold the inner loops (bodies), generic over the register types of `vector` and `x86`; `select`
//! instantiates them for each instruction set and width. `multivectors` holds the loops over dense multivectors, `columns` the
//! sums of columns, `weighted_sums` and `row_sums` those that check products.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod blocks;
mod chains;
mod columns;
mod isa;
mod lanes;
mod multivectors;
mod number;
mod row_sums;
mod rows;
mod scaling;
mod select;
mod vector;
mod weighted_sums;
#[cfg(simd)]
mod x86;

pub use blocks::SHIFTED_ROWS;
pub use chains::{Block, RowCopy, RowJob};
pub use columns::{ColumnBodies, ColumnKernels, Merge, MergeWeights, Strand};
pub use isa::Isa;
pub use multivectors::{Accumulation, Combination, Multiplication, MultivectorBodies, MultivectorKernels};
pub use number::Number;
pub use row_sums::{MOST_SUMMED_ROWS, RowRounding, RowSum, RowSumBodies, RowSumKernels, RowsOfProduct};
pub use scaling::{ScaledStore, Scaling};
pub use select::{Bodies, Body, IdenticalBody, Kernels, SlabShape, slab_widths, takes_uniform};
pub use vector::fence_streams;
pub use weighted_sums::{Totals, WeightedRows, WeightedSumBodies, WeightedSumKernels};

/// Whether the kernels are compiled with optimisation. Without it they are many times slower.
pub const OPTIMISED: bool = cfg!(optimised);

/// Nonzeros of one canonical segment.
///
/// Long enough that most rows are one segment and that adding segments costs little compared with the products; short enough
/// that a row of a few hundred nonzeros occupies several lanes.
pub const SEGMENT: usize = 128;

/// Nonzeros of one canonical span, eight segments.
///
/// Spans let several threads add up a row of many thousand nonzeros in parallel.
pub const SPAN: usize = 8 * SEGMENT;

/// Rows of up to this many nonzeros are computed several at a time, segment by segment.
pub const LONGEST_TOGETHER: usize = 2 * SEGMENT;

/// Flag in the target row of a segment that is the first of its row: it is stored, later segments are added.
pub const FIRST_OF_ROW: u32 = 1 << 31;
