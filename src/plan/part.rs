//! A device's part of a candidate plan: its chunks, its part of X, the layout of its memory.

use super::data::{Registered, Slots};
use super::kernels::ChunkKernels;
use super::x::XChoice;
use crate::work::{ChunkRows, Features, Footprint};

/// Chunks of a device with which copying and computing overlap well.
pub(super) const CHUNKS_PER_DEVICE: usize = 8;

/// The part of one device.
pub(super) struct Part {
    pub pieces: Vec<ChunkRows>,
    pub features: Vec<Features>,
    pub kernels: Vec<ChunkKernels>,
    pub footprints: Vec<Footprint>,
    pub x: XChoice,
    pub registered: Registered,
    pub slots: Slots,
}
