//! Kernels for the CPU's vector units: Y = A X by rows, all in Rowloom's canonical order.
//!
//! They are a crate of their own because they take minutes to compile, and so are compiled once and not again with
//! everything that calls them: [`Kernels`] hands out finished function pointers, and nothing generic leaves this crate.
//!
//! `chains` and `blocks` hold the bodies, written once over the register types of `vector` and `x86`; `select`
//! compiles them for each instruction set and width.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod blocks;
mod chains;
mod isa;
mod number;
mod select;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use blocks::SHIFTED_ROWS;
pub use chains::{Block, RowJob};
pub use isa::Isa;
pub use number::Number;
pub use select::{Bodies, Body, Kernels, SlabShape, slab_widths, takes_uniform};
pub use vector::fence_streams;

/// Nonzeros of one canonical segment.
///
/// Long enough that adding segments costs little beside the products and that most rows are one, short enough that a
/// row of some hundred nonzeros can feed many lanes at once.
pub const SEGMENT: usize = 128;

/// Nonzeros of one canonical span, eight segments.
///
/// Rows of many thousand nonzeros are added up by many at once, each of whom has a span.
pub const SPAN: usize = 8 * SEGMENT;

/// Rows up to this length are taken several at a time, segment by segment.
pub const LONGEST_TOGETHER: usize = 2 * SEGMENT;

/// Set in a segment's row where the segment is the first of its row: it is written there, later ones are added.
pub const FIRST_OF_ROW: u32 = 1 << 31;
