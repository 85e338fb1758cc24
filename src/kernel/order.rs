//! The accumulation order that makes results independent of how the work is split.
//!
//! A canonical kernel computes `Y(i, k)` as one chain of fused multiply-adds over the row's nonzeros, in storage
//! order, starting at +0. A row longer than [`SEGMENT`] is cut into segments of that length counted from the row's
//! start (the last one may be shorter); each segment is a chain of its own, and the row is the sum of its segments'
//! chains, added first to last. Nothing else enters: not the device, not the number of threads, not where chunks
//! begin. So all canonical kernels agree bit for bit.
//!
//! **The segment rule.** A segment is [`SEGMENT`] nonzeros, counted from the row's own beginning. The first segment's sum is
//! what the row starts with; the second's is added to it, then the third's. A row that is cut, between lanes, pieces, chunks
//! or devices, is cut at segments and nowhere else, so every cut gives the same partial sums in the same order. A product
//! is fused with its addition (one rounding), and subnormal numbers are kept. What a row of the matrix is and in which order
//! its nonzeros are stored is part of the input: sorting them may change the last bit.
//!
//! `--reproducible` takes kernels of this order only. Then the bytes of Y depend on A, X, K and the precision alone. Without it
//! a kernel of free order is taken where it is predicted to be faster by more than 3 %.

pub use rowloom_cpu::SEGMENT;

/// How a kernel adds up a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The order this module defines; the same bits everywhere.
    Canonical,
    /// Whatever suits the kernel; correct within the rounding bound.
    Free,
}

/// Number of canonical segments of a row with `length` nonzeros.
pub fn segments(length: usize) -> usize {
    length.div_ceil(SEGMENT)
}
