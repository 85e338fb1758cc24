//! The accumulation order that makes results independent of how the work is split.
//!
//! A canonical kernel computes `Y(i, k)` as one chain of fused multiply-adds over the row's nonzeros, in storage
//! order, starting at +0. A row longer than [`SEGMENT`] is cut into segments of that length counted from the row's
//! start (the last one may be shorter); each segment is a chain of its own, and the row is the sum of its segments'
//! chains, added first to last. Nothing else enters: not the device, not the number of threads, not where chunks
//! begin. So all canonical kernels agree bit for bit.

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
