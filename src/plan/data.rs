//! The plan itself: plain data that is saved as it is.

use serde::{Deserialize, Serialize};

use crate::cost::{Form, HostRates, Load, Profile};
use crate::kernel::cuda::Variant;
use crate::kernel::{KernelId, Processor};
use crate::matrix::Dtype;
use crate::work::{ChunkRows, Features, Fingerprint, XOrder, pitch_bytes};

/// Rises when the meaning of a saved plan changes.
pub const PLAN_VERSION: u32 = 6;

/// How A gets to the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A is brought once and stays; products move X and Y only.
    Resident,
    /// A crosses with each product, overlapped with computing.
    Oneshot,
    /// The same where A is larger than the device: a ring of slots.
    Stream,
}

impl Mode {
    /// The name that `--mode` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Oneshot => "oneshot",
            Self::Stream => "stream",
        }
    }
}

/// What a device is sent of X.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XPlan {
    /// Nothing: it computes nothing.
    Nothing,
    /// All rows.
    Whole,
    /// The rows `first..end`; columns of A that it is sent count from `first`.
    Columns {
        /// First row of X.
        first: u64,
        /// Row behind the last.
        end: u64,
    },
    /// The rows that its chunks name and no others, close together in rising order; columns of A are renumbered.
    Gather {
        /// How many there are.
        columns: u64,
    },
}

/// What crosses a device's link from and to where it lies, registered with the device; the rest is copied into and out of
/// pinned memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Registered {
    /// The arrays of A.
    pub a: bool,
    /// X.
    pub x: bool,
    /// Y, and the carries of cut rows.
    pub y: bool,
}

/// Memory of a device and of the host's pinned memory for it, cut once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slots {
    /// X on the device, and pinned on the host.
    pub x_bytes: u64,
    /// All chunks of A that stay on the device.
    pub resident_bytes: u64,
    /// What a kernel may need beside its chunk.
    pub scratch_bytes: u64,
    /// Slots for A.
    pub a_slots: u32,
    /// Size of each.
    pub a_slot_bytes: u64,
    /// Slots for slices of Y.
    pub y_slots: u32,
    /// Size of each.
    pub y_slot_bytes: u64,
    /// Pinned slots on the way to the device.
    pub pinned_in_slots: u32,
    /// Size of each.
    pub pinned_in_slot_bytes: u64,
    /// Pinned slots on the way back.
    pub pinned_out_slots: u32,
    /// Size of each.
    pub pinned_out_slot_bytes: u64,
}

impl Slots {
    /// Bytes of the device's memory.
    pub fn device_bytes(&self) -> u64 {
        let rings = u64::from(self.a_slots).saturating_mul(self.a_slot_bytes);
        let slices = u64::from(self.y_slots).saturating_mul(self.y_slot_bytes);
        let fixed = self.x_bytes.saturating_add(self.resident_bytes).saturating_add(self.scratch_bytes);
        fixed.saturating_add(rings).saturating_add(slices)
    }
}

/// A device and its part. The host is always the first, whether it computes or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DevicePlan {
    /// Its name, as `--devices` takes it; `host` where the host only stages and merges.
    pub name: String,
    /// Whether chunks may be computed there.
    pub computes: bool,
    /// Its rates.
    pub profile: Profile,
    /// Most memory that it may use.
    pub memory_budget_bytes: u64,
    /// How its memory is cut; nothing for the host.
    pub slots: Slots,
    /// What crosses its link from where it lies.
    pub registered: Registered,
    /// What it is sent of X.
    pub x: XPlan,
    /// Why so.
    pub x_reason: String,
    /// Rows of its chunks, cut rows not counted.
    pub rows: u64,
    /// Nonzeros of its chunks.
    pub nnz: u64,
    /// Number of its chunks.
    pub chunks: u64,
    /// When it should be done with them.
    pub predicted_s: f64,
    /// Why it has this part.
    pub reason: String,
}

/// Some rows, or segments of a row, and who computes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// What it computes.
    pub rows: ChunkRows,
    /// Nonzeros.
    pub nnz: u64,
    /// The device it belongs to, by its place in the plan.
    pub home: u32,
    /// Devices that may take it instead if they are free first.
    pub also: Vec<u32>,
    /// The kernel where a CPU computes it.
    pub cpu_kernel: KernelId,
    /// The kernel where a GPU computes it.
    pub gpu_kernel: KernelId,
    /// Which form of that kernel.
    pub gpu_variant: Variant,
    /// Bytes of a slot that holds it in the GPU kernel's format.
    pub staged_bytes: u64,
    /// Bytes that the GPU kernel needs beside it.
    pub scratch_bytes: u64,
    /// What its rows look like.
    pub features: Features,
    /// Why it is where it is.
    pub reason: String,
    /// Seconds from its first copy to its last, on its own device with nothing else going on.
    pub predicted_s: f64,
}

/// A row that is computed in several chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRow {
    /// The row.
    pub row: u64,
    /// Number of its segments: rows of carries to be added, first to last.
    pub segments: u64,
    /// Its chunks, in the order of their segments.
    pub chunks: Vec<u32>,
}

/// Everything decided about a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// The matrix it was made for.
    pub matrix: Fingerprint,
    /// Columns of X and Y.
    pub k: u64,
    /// Value type.
    pub dtype: Dtype,
    /// How A gets to the devices.
    pub mode: Mode,
    /// How X lies on the devices.
    pub x_order: XOrder,
    /// The host's memory.
    pub host: HostRates,
    /// The devices, the host first.
    pub devices: Vec<DevicePlan>,
    /// The chunks, in the order of their rows.
    pub chunks: Vec<Chunk>,
    /// Rows that are cut.
    pub split_rows: Vec<SplitRow>,
    /// Seconds that a product should take.
    pub predicted_s: f64,
    /// The decisions in words.
    pub reasons: Vec<String>,
}

impl Plan {
    /// Bytes of a row of X or Y.
    pub fn row_bytes(&self) -> u64 {
        self.k.saturating_mul(self.dtype.bytes() as u64)
    }

    /// Bytes from one row of X or Y to the next on a device.
    pub fn pitch_bytes(&self) -> u64 {
        pitch_bytes(self.row_bytes())
    }

    /// Bytes of some rows of X on a device.
    pub fn x_bytes(&self, rows: u64) -> u64 {
        self.x_order.bytes(rows, self.k, self.dtype.bytes() as u64)
    }

    /// The kernel that computes a chunk on a device.
    pub fn kernel_on(&self, chunk: &Chunk, device: u32) -> KernelId {
        match self.devices.get(device as usize).map(|device| device.profile.processor) {
            Some(Processor::Gpu) => chunk.gpu_kernel,
            _ => chunk.cpu_kernel,
        }
    }

    /// The computing devices' numbers.
    pub fn computing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.devices.len() as u32).filter(|&device| self.devices[device as usize].computes)
    }
}

impl Chunk {
    /// Rows of Y, or of carries, that it computes.
    pub fn slice_rows(&self) -> u64 {
        match self.rows {
            ChunkRows::Rows { begin, end } => end.saturating_sub(begin) as u64,
            ChunkRows::Segments { begin, end, .. } => end.saturating_sub(begin) as u64,
        }
    }

    /// Bytes of its slice of Y on a device.
    pub fn slice_bytes(&self, k: u64, dtype: Dtype) -> u64 {
        self.slice_rows().saturating_mul(pitch_bytes(k.saturating_mul(dtype.bytes() as u64)))
    }

    /// What a kernel has to do for it.
    pub fn load(&self, k: u64, dtype: Dtype) -> Load {
        Load::of(&self.features, k, dtype)
    }

    /// The kernel that computes it on such a processor.
    pub fn form(&self, processor: Processor) -> Form {
        match processor {
            Processor::Gpu => Form { kernel: self.gpu_kernel, variant: self.gpu_variant },
            Processor::Cpu => Form::cpu(self.cpu_kernel),
        }
    }
}
