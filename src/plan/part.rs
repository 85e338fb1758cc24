//! A device's part of a draft: what it computes, what it is sent of X, how its memory is cut.

use super::data::{Registered, Slots};
use super::kernels::ChunkKernels;
use super::x::XChoice;
use crate::work::{ChunkRows, Features};

/// Chunks of a device from which on copying and computing overlap well.
pub(super) const CHUNKS_A_DEVICE: usize = 8;

/// A device's part before it is described.
pub(super) struct Part {
    pub pieces: Vec<ChunkRows>,
    pub features: Vec<Features>,
    pub kernels: Vec<ChunkKernels>,
    pub x: XChoice,
    pub registered: Registered,
    pub slots: Slots,
}
