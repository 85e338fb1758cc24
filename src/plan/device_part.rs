//! A device's part of a candidate plan: its chunks, its part of X, the layout of its memory.

use std::cell::OnceCell;
use std::rc::Rc;

use super::choice::ChunkKernels;
use super::data::{Registered, Slots};
use crate::work::{ChunkRows, Facts, Footprint, XChoice};

/// Chunks of a device with which copying and computing overlap well.
pub(super) const CHUNKS_PER_DEVICE: usize = 8;

/// The chunks of one device. They are the same for staged and for registered operands.
pub(super) struct DeviceChunks {
    pub pieces: Vec<ChunkRows>,
    pub features: Vec<Facts>,
    pub kernels: Vec<ChunkKernels>,
    pub footprints: Vec<Footprint>,
    /// The part of X that they need, where A is not registered.
    pub x: OnceCell<XChoice>,
}

/// The chunks of all devices, and the counts that they were requested with.
pub(super) struct KnownChunks {
    pub counts: Vec<usize>,
    /// The pieces of devices with pieces of decreasing size.
    pub decreasing: Vec<Option<Vec<ChunkRows>>>,
    pub for_blocks: bool,
    pub devices: Vec<Rc<DeviceChunks>>,
}

/// The part of one device.
pub(super) struct DevicePart {
    pub chunks: Rc<DeviceChunks>,
    pub x: XChoice,
    pub registered: Registered,
    pub slots: Slots,
}
