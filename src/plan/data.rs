//! The plan: plain data, saved as JSON.

use serde::{Deserialize, Serialize};

use crate::cost::{Form, HostRates, Load, Profile, SimulatedCluster};
use crate::kernel::cuda::Variant;
use crate::kernel::{KernelId, Processor};
use crate::matrix::Dtype;
pub use crate::work::{XPlan, XRows};

use crate::work::{ChunkRows, Facts, Fingerprint, Output, Size, XOrder, pitch_bytes};

/// The version of saved plans; it increases when their meaning changes.
pub const PLAN_VERSION: u32 = 8;

/// How A gets to the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// A is copied to the devices once; products move X and Y only.
    Resident,
    /// A is copied with each product, overlapped with computing.
    Oneshot,
    /// As `Oneshot`, with A larger than the device's memory: chunks pass through a ring of slots.
    Stream,
}

impl Mode {
    /// The name that `--mode` takes.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Oneshot => "oneshot",
            Self::Stream => "stream",
        }
    }
}

/// The operands that are registered (page-locked) with a device and copied directly; the others are staged through page-locked
/// slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Registered {
    /// The arrays of A.
    pub a: bool,
    /// X.
    pub x: bool,
    /// Y, and the partial sums of split rows.
    pub y: bool,
}

/// The layout of a device's memory and of the host's page-locked memory for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slots {
    /// X on the device, and its page-locked copy on the host.
    pub x_bytes: u64,
    /// All chunks of A that stay on the device.
    pub resident_bytes: u64,
    /// Scratch memory of the kernels.
    pub scratch_bytes: u64,
    /// Slots for A.
    pub a_slots: u32,
    /// Size of each.
    pub a_slot_bytes: u64,
    /// Slots for slices of Y.
    pub y_slots: u32,
    /// Size of each.
    pub y_slot_bytes: u64,
    /// Page-locked slots for copies to the device.
    pub pinned_in_slots: u32,
    /// Size of each.
    pub pinned_in_slot_bytes: u64,
    /// Page-locked slots for copies from the device.
    pub pinned_out_slots: u32,
    /// Size of each.
    pub pinned_out_slot_bytes: u64,
}

impl Slots {
    /// Bytes of the device's memory in use.
    pub fn device_bytes(&self) -> u64 {
        let rings = u64::from(self.a_slots).saturating_mul(self.a_slot_bytes);
        let slices = u64::from(self.y_slots).saturating_mul(self.y_slot_bytes);
        let fixed = self.x_bytes.saturating_add(self.resident_bytes).saturating_add(self.scratch_bytes);
        fixed.saturating_add(rings).saturating_add(slices)
    }
}

/// Predicted seconds of the set-up, which happens once, before the first product.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SetUp {
    /// Starting the driver and opening the devices.
    pub open_s: f64,
    /// Loading kernels that were compiled before.
    pub load_kernels_s: f64,
    /// Registering (page-locking) A, X and Y, packing A, and making the lists of long rows that are copied beside A.
    pub register_s: f64,
    /// Building the layout of A and copying A to the devices where it stays.
    pub bring_a_s: f64,
}

impl SetUp {
    /// All of it.
    pub fn total_s(&self) -> f64 {
        self.open_s + self.load_kernels_s + self.register_s + self.bring_a_s
    }
}

/// A device and its part of the product. The host is always the first, whether it computes or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DevicePlan {
    /// Its name, as in `--devices`; `host` where the CPU only stages and merges.
    pub name: String,
    /// Whether it may compute chunks.
    pub computes: bool,
    /// Its rates.
    pub profile: Profile,
    /// Upper limit of its memory use.
    pub memory_budget_bytes: u64,
    /// The layout of its memory; all zero for the host.
    pub slots: Slots,
    /// The operands that are copied without staging.
    pub registered: Registered,
    /// The part of X that it receives.
    pub x: XPlan,
    /// The ends, in rows of X, of the blocks in which that part is copied, in the order of the copies; empty where it is copied in
    /// one piece.
    pub x_blocks: Vec<u64>,
    /// The reason for that part.
    pub x_reason: String,
    /// Rows of its chunks, without split rows.
    pub rows: u64,
    /// Entries of its chunks.
    #[serde(flatten)]
    pub size: Size,
    /// Number of its chunks.
    pub chunks: u64,
    /// Predicted seconds from the start of a product until its last chunk is finished.
    pub predicted_s: f64,
    /// The reason for its share.
    pub reason: String,
}

/// Some rows, or segments of a row, and the device that computes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The rows or segments.
    pub rows: ChunkRows,
    /// Its entries.
    #[serde(flatten)]
    pub size: Size,
    /// The index of its device in the plan.
    pub home: u32,
    /// Devices that compute it instead if they are idle first.
    pub also: Vec<u32>,
    /// The kernel on a CPU.
    pub cpu_kernel: KernelId,
    /// The kernel on a GPU.
    pub gpu_kernel: KernelId,
    /// The variant of that kernel.
    pub gpu_variant: Variant,
    /// Bytes of a slot that holds it in the layout of the GPU kernel.
    pub staged_bytes: u64,
    /// Bytes of scratch memory of the GPU kernel.
    pub scratch_bytes: u64,
    /// Facts about its rows.
    pub features: Facts,
    /// The rows of X that its columns refer to, counted exactly; `None` where no device receives X in blocks.
    pub x_rows: Option<XRows>,
    /// The reason for its device.
    pub reason: String,
    /// The reason for its kernel on that device.
    pub kernel_reason: String,
    /// Predicted seconds from its first copy to its last, on its own device, with the device otherwise idle.
    pub predicted_s: f64,
}

/// A row that is computed in several chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRow {
    /// The row.
    pub row: u64,
    /// Number of its segments, whose partial sums are added in order.
    pub segments: u64,
    /// Its chunks, ordered by segment.
    pub chunks: Vec<u32>,
}

/// All decisions about a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// [`PLAN_VERSION`].
    #[doc(hidden)]
    pub version: u32,
    /// The fingerprint of A.
    #[doc(hidden)]
    pub matrix: Fingerprint,
    /// How Y comes about.
    #[serde(default, skip_serializing_if = "Output::is_default")]
    #[doc(hidden)]
    pub output: Output,
    /// Columns of X and Y.
    pub k: u64,
    /// Value type.
    #[doc(hidden)]
    pub dtype: Dtype,
    /// How A gets to the devices.
    pub mode: Mode,
    /// The storage order of X on the devices.
    #[doc(hidden)]
    pub x_order: XOrder,
    /// Rates of the host's memory.
    #[doc(hidden)]
    pub host: HostRates,
    /// The nodes and the network, where the devices are those of a simulated cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub cluster: Option<SimulatedCluster>,
    /// The devices, the host first.
    #[doc(hidden)]
    pub devices: Vec<DevicePlan>,
    /// The chunks, ordered by row.
    #[doc(hidden)]
    pub chunks: Vec<Chunk>,
    /// Rows that are split into several chunks.
    #[doc(hidden)]
    pub split_rows: Vec<SplitRow>,
    /// Products that the plan was made for.
    #[doc(hidden)]
    pub repeat: u64,
    /// Predicted seconds of the set-up.
    #[doc(hidden)]
    pub set_up: SetUp,
    /// Predicted seconds of a product.
    pub predicted_s: f64,
    /// The decisions in words, each as `topic: reason`.
    pub reasons: Vec<String>,
}

impl Plan {
    /// Bytes of a row of X or Y.
    #[doc(hidden)]
    pub fn row_bytes(&self) -> u64 {
        self.k.saturating_mul(self.dtype.bytes() as u64)
    }

    /// Bytes of the values of A on the host.
    pub(super) fn a_value_bytes(&self) -> u64 {
        self.matrix.entries.saturating_mul(self.dtype.bytes() as u64)
    }

    /// Bytes between the starts of two rows of X or Y on a device.
    #[doc(hidden)]
    pub fn pitch_bytes(&self) -> u64 {
        pitch_bytes(self.row_bytes())
    }

    /// Bytes of some rows of X on a device.
    #[doc(hidden)]
    pub fn x_bytes(&self, rows: u64) -> u64 {
        self.x_order.bytes(rows, self.k, self.dtype.bytes() as u64)
    }

    /// The rows of X that a device holds as consecutive rows; `None` where it holds a selection, columns or nothing.
    #[doc(hidden)]
    pub fn held_rows(&self, x: XPlan) -> Option<XRows> {
        match x {
            XPlan::Whole if self.x_order == XOrder::Rows => Some(XRows { first: 0, end: self.matrix.cols }),
            XPlan::Columns { first, end } if self.x_order == XOrder::Rows => Some(XRows { first, end }),
            _ => None,
        }
    }

    /// Rows of a chunk's slice that are copied to the host.
    #[doc(hidden)]
    pub fn result_rows(&self, chunk: &Chunk) -> u64 {
        self.output.result_rows(&chunk.rows, self.dtype) as u64
    }

    /// Predicted seconds of the set-up and all products.
    pub fn total_s(&self) -> f64 {
        self.set_up.total_s() + self.predicted_s * self.repeat as f64
    }

    /// The kernel that computes a chunk on a device.
    #[doc(hidden)]
    pub fn kernel_on(&self, chunk: &Chunk, device: u32) -> KernelId {
        match self.devices.get(device as usize).map(|device| device.profile.processor) {
            Some(Processor::Gpu) => chunk.gpu_kernel,
            _ => chunk.cpu_kernel,
        }
    }

    /// The indices of the devices that may compute.
    #[doc(hidden)]
    pub fn computing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.devices.len() as u32).filter(|&device| self.devices[device as usize].computes)
    }
}

impl Chunk {
    /// The row of X before which all rows that it needs are.
    pub(super) fn last_row_of_x(&self) -> u64 {
        self.x_rows.map_or(u64::MAX, |rows| rows.end)
    }

    /// Rows of Y, or of partial sums, that it computes.
    pub fn slice_rows(&self) -> u64 {
        self.rows.slice_rows() as u64
    }

    /// Bytes of its slice of Y on a device.
    pub fn slice_bytes(&self, k: u64, dtype: Dtype) -> u64 {
        self.slice_rows().saturating_mul(pitch_bytes(k.saturating_mul(dtype.bytes() as u64)))
    }

    /// Bytes of its result on a device, which are copied to the host.
    pub fn result_bytes(&self, output: Output, k: u64, dtype: Dtype) -> u64 {
        let rows = output.result_rows(&self.rows, dtype) as u64;
        rows.saturating_mul(pitch_bytes(k.saturating_mul(dtype.bytes() as u64)))
    }

    /// The reasons for its device and its kernel.
    pub fn full_reason(&self) -> String {
        format!("{}; {}", self.reason, self.kernel_reason)
    }

    /// The reason for its kernel, followed by what the host decided when it prepared the chunk. A clause that both have is written once.
    pub fn kernel_reason_with(&self, host: Option<&str>) -> String {
        let planned = self.kernel_reason.as_str();
        let added =
            host.into_iter().flat_map(|host| host.split("; ")).filter(|words| !planned.contains(words));
        std::iter::once(planned).chain(added).filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The work of its kernel.
    pub fn load(&self, k: u64, dtype: Dtype) -> Load {
        self.features.load(k, dtype)
    }

    /// Predicted seconds of its kernel on a device, with the device otherwise idle.
    pub fn kernel_s(&self, device: &Profile, k: u64, dtype: Dtype) -> f64 {
        self.features.kernel_s(device, &self.form(device.processor), k, dtype)
    }

    /// The form that computes it on a processor.
    pub fn form(&self, processor: Processor) -> Form {
        match processor {
            Processor::Gpu => Form { kernel: self.gpu_kernel, variant: self.gpu_variant },
            Processor::Cpu => Form::cpu(self.cpu_kernel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::remaining::Remaining;
    use super::super::tests::{matrix, request};
    use super::super::{PlanRequest, make};
    use super::*;
    use crate::graph::Role;
    use crate::work::Work;

    #[test]
    fn the_inputs_of_a_graph_are_the_values_of_a_and_x() {
        let matrix = matrix("band,rows=400,width=3");
        let entries = matrix.nnz() as u64;
        let work = Work::spmm(&matrix.view(), 8).unwrap();
        let request = PlanRequest { mode: Some(Mode::Oneshot), ..request(work, &["emu"]) };
        let plan = make(&request).unwrap();
        let graph = plan.graph(&Remaining::all(&plan)).unwrap().graph;
        let inputs = graph.buffers().iter().filter(|buffer| buffer.role == Role::Input);
        let bytes: Vec<u64> = inputs.map(|buffer| buffer.bytes).collect();
        assert_eq!(bytes, [entries * 8, 400 * 8 * 8]);
    }
}
