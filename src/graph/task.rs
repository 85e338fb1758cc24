//! Tasks, the slots they hold and the bytes they touch: plain data, numbered instead of pointed at.

/// A task of a graph, by its place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// Tasks that carry one piece of work through one device: they share their slots and stand or fall together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrandId(pub u32);

/// A number of equal slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u32);

/// Something with bytes that tasks read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// Strands that do the same work on different devices; exactly one of them runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChoiceId(pub u32);

/// A device, by its place in the list the graph was made for. The host, with its pool, is always the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// The host and its pool.
    pub const HOST: Self = Self(0);

    /// Its place in the list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TaskId {
    /// Its place in the arena.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl StrandId {
    /// Its place among the strands.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PoolId {
    /// Its place among the pools.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl BufferId {
    /// Its place among the buffers.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ChoiceId {
    /// Its place among the choices.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Copies a pageable range into a pinned slot.
    Stage,
    /// Copies pinned memory to the device.
    Upload,
    /// Launches one kernel on one chunk.
    Kernel,
    /// Copies a slice of Y, or carries, back to the host.
    Download,
    /// Computes one chunk on the host's pool.
    CpuCompute,
    /// Puts a slice, or the carries of a split row, into Y.
    Merge,
}

impl TaskKind {
    /// The name that traces and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Upload => "upload",
            Self::Kernel => "kernel",
            Self::Download => "download",
            Self::CpuCompute => "cpu_compute",
            Self::Merge => "merge",
        }
    }
}

/// Bytes `begin..end` of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub begin: u64,
    /// Byte behind the last.
    pub end: u64,
}

/// What becomes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Complete before the graph starts; nothing writes it.
    Input,
    /// Y: every byte is written by exactly one task.
    Output,
    /// Written by a task before another reads it.
    Scratch,
}

/// What a task asks of the machine, for priorities and for simulated devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Nanoseconds it should take with everything to itself.
    pub alone_ns: u64,
    /// Bytes that cross the device's link.
    pub link_bytes: u64,
    /// Bytes that are read from or written to the host's memory.
    pub host_bytes: u64,
}

/// One task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// Whose lanes it runs on.
    pub device: DeviceId,
    /// What it belongs to.
    pub strand: StrandId,
    /// The builder's own number for what it works on, such as a chunk.
    pub item: u32,
    /// A slot that it needs before it can start; the strand keeps it.
    pub takes: Option<PoolId>,
    /// A slot of its strand that is free again when it is done.
    pub gives: Option<PoolId>,
    /// What it asks of the machine.
    pub demand: Demand,
}
