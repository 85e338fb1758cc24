//! The trait that every kind of work implements.

use std::fmt::Debug;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::facts::Facts;
use super::fingerprint::Fingerprint;
use super::operands::{Output, SharedBytes, XChoice};
use super::pitch::{XOrder, pitch_bytes};
use super::rows::{ChunkRows, Position, PositionRange};
use crate::cost::{Candidate, Choice, Form, Profile};
use crate::error::{Advice, Result};
use crate::kernel::cuda::Variant;
use crate::kernel::{Format, KernelId, Processor};
use crate::matrix::Dtype;

/// A job of some kind of work.
#[derive(Debug, Clone)]
pub struct Work<'a>(Arc<dyn Kind + 'a>);

impl<'a> Work<'a> {
    /// The job.
    pub fn new(kind: impl Kind + 'a) -> Self {
        Self(Arc::new(kind))
    }
}

impl<'a> Deref for Work<'a> {
    type Target = dyn Kind + 'a;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Device memory of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of the slot.
    pub slot_bytes: u64,
    /// Bytes of scratch memory while a kernel runs.
    pub scratch_bytes: u64,
}

/// The layouts of A on GPUs that are allowed, where no kernel is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layouts {
    /// The arrays of the host, unchanged.
    Unchanged,
    /// The same without its values, where all are equal: one of them is copied.
    Pattern,
    /// The same rows with columns and values in fewer bytes, packed once.
    Packed,
    /// Any layout.
    Any,
}

/// What a request says about kernels, and the devices that they must run on.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRequest {
    /// The requested kernel.
    pub kernel: Option<KernelId>,
    /// The requested variant of that kernel.
    pub variant: Option<Variant>,
    /// The requested format.
    pub format: Option<Format>,
    /// Canonical kernels only.
    pub reproducible: bool,
    /// Whether there is a CPU among the devices.
    pub has_cpu: bool,
    /// Whether there is a GPU among the devices.
    pub has_gpu: bool,
    /// Whether A stays on the GPUs.
    pub a_stays: bool,
    /// Whether the devices are those of a cluster, to which none can be added.
    pub is_cluster: bool,
    /// Whether every GPU can compile kernels.
    pub compiles: bool,
    /// Whether every GPU has the vendor's library for dense products.
    pub cublas: bool,
}

/// The forms that a plan chooses among.
#[derive(Debug, Clone, PartialEq)]
pub struct Forms {
    /// On CPUs.
    pub cpu: Vec<Candidate>,
    /// On GPUs.
    pub gpu: Vec<Candidate>,
    /// The storage order of X that the GPU kernels read.
    pub x_order: XOrder,
    /// Whether one kernel was requested.
    pub is_requested: bool,
}

impl Forms {
    /// Whether the GPU kernels read the host's own arrays of A.
    pub fn read_a_unchanged(&self) -> bool {
        self.gpu.iter().all(|gpu| gpu.form.reads_a_unchanged())
    }

    /// Those of a processor.
    pub fn of(&self, processor: Processor) -> &[Candidate] {
        match processor {
            Processor::Cpu => &self.cpu,
            Processor::Gpu => &self.gpu,
        }
    }
}

/// A job as a planner sees it. Nothing here reads values of A, except to find out whether all are equal.
///
/// Methods that look at all of A run in the rayon pool of the caller.
pub trait Kind: Debug + Send + Sync {
    /// Number of rows of Y.
    fn rows(&self) -> usize;

    /// Number of rows of X; 0 where there is no X.
    fn x_rows(&self) -> usize;

    /// Number of columns of X and Y.
    fn k(&self) -> usize;

    /// Value type.
    fn dtype(&self) -> Dtype;

    /// How Y comes about.
    fn output(&self) -> Output;

    /// A device with a smaller share of the rows hardly makes the job faster.
    fn helpful_share(&self) -> f64 {
        1.0 / 64.0
    }

    /// The share of a device that was named and would hardly make the job faster; 0 if it gets nothing.
    fn smallest_share(&self, _processor: Processor) -> f64 {
        self.helpful_share()
    }

    /// Whether plans for the CPU and GPUs say what sharing is worth. They plan the job twice more then.
    fn compares_sharing(&self) -> bool {
        false
    }

    /// What makes X and Y smaller, where device memory is too small.
    fn smaller_vectors(&self) -> Advice;

    /// What identifies the job.
    fn fingerprint(&self) -> Fingerprint;

    /// The same job, which computes what several candidates of a planner ask for once.
    fn remembering(&self) -> Work<'_>;

    // Rows and their weights.

    /// Number of segments of row `row`, between which it may be divided; partial sums of segments are added first to last.
    fn row_segments(&self, row: usize) -> usize;

    /// Weight of all rows and segments before a position, in bytes accessed.
    fn weight_before(&self, position: Position) -> u128;

    /// The position with a weight of about `weight` before it. It is inside a row only if that row weighs more than `grain`.
    fn position_at(&self, weight: u128, grain: u128) -> Position;

    /// Divides a range into about `pieces` pieces of about equal weight: exactly `pieces` if there are enough rows and none weighs more
    /// than a piece, more if rows must be divided.
    fn split(&self, span: PositionRange, pieces: usize) -> Vec<ChunkRows>;

    /// The smallest number of rows whose tiles occupy all multiprocessors of a GPU until they are done. A piece of another number of rows
    /// leaves some of them idle at its end. `None` where a block of threads computes few rows.
    fn wave_rows(&self) -> Option<usize> {
        None
    }

    /// Facts about pieces.
    fn facts(&self, pieces: &[ChunkRows]) -> Vec<Facts>;

    /// Facts about all rows.
    fn all_facts(&self) -> Facts;

    // A.

    /// Number of entries of a piece.
    fn piece_entries(&self, piece: &ChunkRows) -> u64;

    /// Bytes of A on the host.
    fn a_bytes(&self) -> u64;

    /// Bytes that are divided into chunks of limited size: those of A, unless slices of Y are larger.
    fn divided_bytes(&self) -> u64 {
        self.a_bytes()
    }

    /// Whether any bytes of a piece can be staged apart from the others, so that a large piece needs no page-locked memory of its size.
    fn stages_in_parts(&self) -> bool {
        false
    }

    /// Whether A has values and all are equal, so that a kernel needs only one.
    fn has_equal_values(&self) -> bool {
        false
    }

    /// Bytes of A packed, estimated from samples; `None` where it cannot be packed.
    fn sampled_packed_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes of a piece of A as the host stores it.
    fn piece_bytes(&self, piece: &ChunkRows) -> u64;

    // X.

    /// The part of X that a device with these pieces receives.
    fn x_part(&self, order: XOrder, pieces: &[ChunkRows], facts: &[Facts]) -> XChoice;

    /// The part of X that a device with these pieces holds if X stays on the devices: a range of rows.
    fn x_in_place(&self, order: XOrder, pieces: &[ChunkRows]) -> XChoice;

    /// Bytes of X that one of `devices` devices receives, estimated from facts about samples of the rows.
    fn x_by_share(&self, samples: &[Facts], devices: usize) -> SharedBytes;

    /// For each piece the smallest range of rows of X that contains all that it needs; empty if it needs none.
    fn x_spans(&self, pieces: &[ChunkRows]) -> Vec<Range<usize>>;

    /// The rows of X that pieces need, ascending, each once.
    fn x_list(&self, pieces: &[ChunkRows]) -> Vec<u32>;

    /// The longest range of `rows` that need only rows of X whose owner also has `rows` of Y: [`super::owned_rows_of_x`].
    fn interior(&self, rows: Range<usize>) -> Range<usize>;

    /// Whether some rows of X are those of other ranks.
    fn needs_other_ranks(&self) -> bool {
        false
    }

    // Kernels and their costs.

    /// The kernels that a planner chooses among.
    fn kernels(&self, processor: Processor) -> &'static [KernelId];

    /// Whether a layout other than the host's may pay although it is built with every product.
    fn gains_from_layouts(&self) -> bool;

    /// The forms to choose among; an error where the requested kernel, format, order and devices contradict each other.
    fn forms(&self, request: &KernelRequest, layouts: Layouts) -> Result<Forms>;

    /// The form of `forms` for a piece on a device.
    fn choose(&self, device: &Profile, piece: &ChunkRows, facts: &Facts, forms: &Forms) -> Result<Choice>;

    /// An upper bound on the device memory of a piece; an error if the form cannot compute such rows.
    fn footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint>;

    /// The same for facts that come from a file; an error also if the footprint would be another one with the piece's own facts.
    fn checked_footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint>;

    // What follows from these.

    /// All rows.
    fn all(&self) -> PositionRange {
        PositionRange { begin: Position::of_row(0), end: Position::of_row(self.rows()) }
    }

    /// Weight of a range.
    fn weight(&self, span: PositionRange) -> u128 {
        self.weight_before(span.end).saturating_sub(self.weight_before(span.begin))
    }

    /// Bytes of a row of X or Y.
    fn row_bytes(&self) -> u64 {
        (self.k() * self.dtype().bytes()) as u64
    }

    /// Pitch of X and Y on a device: bytes from one row to the next.
    fn pitch_bytes(&self) -> u64 {
        pitch_bytes(self.row_bytes())
    }

    /// Bytes of a piece's result on a device.
    fn slice_bytes(&self, piece: &ChunkRows) -> u64 {
        piece.slice_rows() as u64 * self.pitch_bytes()
    }

    /// Bytes of all of X on a device, stored by rows.
    fn x_bytes(&self) -> u64 {
        self.x_rows_bytes(self.x_rows() as u64, XOrder::Rows)
    }

    /// Bytes of `rows` rows of X on a device.
    fn x_rows_bytes(&self, rows: u64, order: XOrder) -> u64 {
        order.bytes(rows, self.k() as u64, self.dtype().bytes() as u64)
    }

    /// Bytes of Y on a device.
    fn y_bytes(&self) -> u64 {
        self.rows() as u64 * self.pitch_bytes()
    }
}
