//! Matrices and multivectors from files and into files.

pub mod cache;
pub mod mapping;
pub mod npy;
pub mod npz;
pub mod write;

/// What a reader may do and must refuse.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Most memory the finished matrix may take; more is refused before it is allocated.
    pub memory_limit_bytes: u64,
    /// Refuse infinities and NaN.
    pub finite: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { memory_limit_bytes: u64::MAX, finite: false }
    }
}
