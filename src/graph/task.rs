//! Tasks with their slots and accesses, as plain data with numeric ids.

/// The index of a task in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// A strand: the tasks of one piece of work on one device. They share their slots and succeed or fail together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StrandId(pub u32);

/// A pool of equal slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u32);

/// A buffer that tasks read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A choice: strands that do the same work on different devices, of which exactly one runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChoiceId(pub u32);

/// The index of a device in the list the graph was made for. Index 0 is the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// The host.
    pub const HOST: Self = Self(0);

    /// The index in the device list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TaskId {
    /// The index in the task list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl StrandId {
    /// The index in the strand list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PoolId {
    /// The index in the pool list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl BufferId {
    /// The index in the buffer list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ChoiceId {
    /// The index in the choice list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Copies a pageable range into a pinned slot.
    Stage,
    /// Copies pinned memory to the device.
    Upload,
    /// Launches one kernel on one chunk.
    Kernel,
    /// Copies a slice of Y, or carries, from the device to the host.
    Download,
    /// Copies rows of X from the memory of another device to this device.
    PeerCopy,
    /// Computes one chunk on the host's pool.
    CpuCompute,
    /// Copies a slice into Y, or sums the carries of a split row into Y.
    Merge,
    /// Sends packed rows of X to another rank. Runs on a network; see [`TaskKind::is_network`].
    Send,
    /// Receives packed rows of X from another rank.
    Receive,
    /// Adds the partial results of all ranks, in the order of rows, on the host's pool.
    Reduce,
}

impl TaskKind {
    /// The name in traces and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Upload => "upload",
            Self::Kernel => "kernel",
            Self::Download => "download",
            Self::PeerCopy => "peer_copy",
            Self::CpuCompute => "cpu_compute",
            Self::Merge => "merge",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Reduce => "reduce",
        }
    }

    /// Whether the task runs on a network: a device of its own, which has a send lane and a receive lane and runs nothing else.
    /// Another rank takes part in the task, so it may not be run again after a fault.
    pub fn is_network(self) -> bool {
        matches!(self, Self::Send | Self::Receive)
    }
}

/// Bytes `begin..end` of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub begin: u64,
    /// One past the last byte.
    pub end: u64,
}

/// The role of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Complete before the graph starts; no task writes it.
    Input,
    /// Y: every byte is written by exactly one task.
    Output,
    /// Written by a task before another task reads it.
    Scratch,
    /// Complete before the graph starts. Every byte is updated by at most one task, which reads it and overwrites it, such as the Y
    /// of a product with `beta` not zero. That task may not be run again; [`Graph::may_run_again`](super::Graph::may_run_again).
    InOut,
}

/// The resources that a task needs, for priorities and for simulated devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Predicted nanoseconds without contention.
    pub alone_ns: u64,
    /// Bytes copied over the device's link.
    pub link_bytes: u64,
    /// Bytes read from or written to host memory.
    pub host_bytes: u64,
    /// The device from whose memory the link bytes are copied, if it is not the host's memory.
    pub peer: Option<DeviceId>,
}

/// One task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Its kind.
    pub kind: TaskKind,
    /// The device on whose lanes it runs.
    pub device: DeviceId,
    /// Its strand.
    pub strand: StrandId,
    /// The index of the item it works on, such as a chunk, in the planner's item list.
    pub item: u32,
    /// The pool of which it needs a slot to start. The strand holds the slot until a task gives it back.
    pub takes: Option<PoolId>,
    /// The pool whose slot it releases when it completes.
    pub gives: Option<PoolId>,
    /// The resources that it needs.
    pub demand: Demand,
    /// Its place in the order of tasks that wait for the same lane: the lower turn first, then the longer remaining path.
    pub turn: u32,
}
