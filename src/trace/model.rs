//! The trace as data: what a recorder fills in and every reader finds.
//!
//! Ids are indices into the trace that gave them out. Nothing is checked or ordered while recording, so that adding
//! a span costs one push; [`Trace::check`] and [`Trace::write`] look at the whole.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A process of a trace: a device, or the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub(super) u32);

/// A lane of a process: a stream, a worker or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub(super) u32);

/// A span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub(super) u32);

impl ProcessId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl LaneId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl SpanId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a span was busy with: the six kinds of tasks, and the program around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Pageable memory into a pinned slot.
    Stage,
    /// Host to device.
    Upload,
    /// A launch on a device.
    Kernel,
    /// Device to host.
    Download,
    /// A chunk on the CPU pool.
    CpuCompute,
    /// A slice or carried rows into Y.
    Merge,
    /// Anything the program does around the tasks: reading, planning, preparing, verifying.
    Host,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Stage, Self::Upload, Self::Kernel, Self::Download, Self::CpuCompute, Self::Merge, Self::Host];

    /// The word in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Upload => "upload",
            Self::Kernel => "kernel",
            Self::Download => "download",
            Self::CpuCompute => "cpu_compute",
            Self::Merge => "merge",
            Self::Host => "host",
        }
    }

    /// The category with that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }

    /// Whether a task of the graph did it.
    pub fn is_task(self) -> bool {
        self != Self::Host
    }

    /// Whether it is a transfer between host and device.
    pub fn is_copy(self) -> bool {
        matches!(self, Self::Upload | Self::Download)
    }

    /// Whether it computes the product.
    pub fn is_compute(self) -> bool {
        matches!(self, Self::Kernel | Self::CpuCompute)
    }
}

/// What is known of a span beside its time; numbers that JSON cannot hold (NaN, infinities) are left out of files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    /// The chunk it worked on.
    pub chunk: Option<u64>,
    /// Rows of the chunk.
    pub rows: Option<u64>,
    /// Nonzeros of the chunk.
    pub nnz: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// The kernel's name.
    pub kernel: Option<Cow<'static, str>>,
    /// How long the cost model thought it would take.
    pub predicted_us: Option<f64>,
    /// Speed reached.
    pub gb_per_s: Option<f64>,
    /// Which of the repeated runs it belongs to; none for work outside of them.
    pub run: Option<u64>,
}

/// Something that took time on a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Where.
    pub lane: LaneId,
    /// What the viewers write into it.
    pub name: String,
    /// What kind of work it was.
    pub category: Category,
    /// When it began, on the trace's clock.
    pub start_ns: u64,
    /// When it ended, never before it began.
    pub end_ns: u64,
    /// What else is known.
    pub arguments: Arguments,
}

impl Span {
    /// How long it took.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A lane and the process it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) process: ProcessId,
    pub(super) name: String,
}

/// A counter of a process, known by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) process: ProcessId,
    pub(super) name: String,
}

/// A value that a counter took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) counter: u32,
    pub(super) at_ns: u64,
    pub(super) value: f64,
}

/// What was changed so that the rules of a trace hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustments {
    /// Spans whose beginning or end was moved by more than a nanosecond.
    pub moved_spans: u64,
    /// The most that one was moved.
    pub most_moved_ns: u64,
    /// Arrows left out because their target ended before their source began.
    pub dropped_flows: u64,
}

/// Everything that was recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    pub(super) processes: Vec<String>,
    pub(super) lanes: Vec<Lane>,
    pub(super) spans: Vec<Span>,
    pub(super) flows: Vec<(SpanId, SpanId)>,
    pub(super) counters: Vec<Counter>,
    pub(super) samples: Vec<Sample>,
    pub(super) metadata: Map<String, Value>,
    /// What was changed when the file that this was read from was written.
    pub(super) adjustments: Adjustments,
}

impl Trace {
    /// The process of that name, made where there is none yet.
    pub fn process(&mut self, name: &str) -> ProcessId {
        let known = self.processes.iter().position(|process| process == name);
        ProcessId(known.unwrap_or_else(|| {
            self.processes.push(name.to_owned());
            self.processes.len() - 1
        }) as u32)
    }

    /// The lane of that name in a process, made where there is none yet; viewers show lanes in the order they are made.
    pub fn lane(&mut self, process: ProcessId, name: &str) -> LaneId {
        let known = self.lanes.iter().position(|lane| lane.process == process && lane.name == name);
        LaneId(known.unwrap_or_else(|| {
            self.lanes.push(Lane { process, name: name.to_owned() });
            self.lanes.len() - 1
        }) as u32)
    }

    /// A new lane, with a number behind its name where the process has one of that name already.
    pub(super) fn own_lane(&mut self, process: ProcessId, name: &str) -> LaneId {
        let taken = |name: &str| self.lanes.iter().any(|lane| lane.process == process && lane.name == name);
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name));
        self.lanes.push(Lane { process, name: free.unwrap_or_default() });
        LaneId((self.lanes.len() - 1) as u32)
    }

    /// Adds a span; spans may come in any order.
    pub fn span(&mut self, span: Span) -> SpanId {
        self.spans.push(span);
        SpanId((self.spans.len() - 1) as u32)
    }

    /// Draws an arrow: `to` had to wait for `from`.
    pub fn flow(&mut self, from: SpanId, to: SpanId) {
        self.flows.push((from, to));
    }

    /// Notes the value that a process's counter takes at a time and keeps until its next one.
    pub fn counter(&mut self, process: ProcessId, name: &str, at_ns: u64, value: f64) {
        let known =
            self.counters.iter().position(|counter| counter.process == process && counter.name == name);
        let counter = known.unwrap_or_else(|| {
            self.counters.push(Counter { process, name: name.to_owned() });
            self.counters.len() - 1
        }) as u32;
        self.samples.push(Sample { counter, at_ns, value });
    }

    /// Says something of the whole trace: the configuration, the machine, a clock's error. The last value of a key
    /// stays.
    pub fn metadata(&mut self, key: &str, value: Value) {
        self.metadata.insert(key.to_owned(), value);
    }

    /// What was said of the whole trace under `key`.
    pub fn metadata_value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// All spans, in the order they were added.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// All arrows.
    pub fn flows(&self) -> &[(SpanId, SpanId)] {
        &self.flows
    }

    /// How many values the counters took.
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// Names of all processes.
    pub fn processes(&self) -> impl Iterator<Item = &str> {
        self.processes.iter().map(String::as_str)
    }

    /// All lanes: their process's name and their own.
    pub fn lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lanes.iter().map(|lane| (self.process_name(lane.process), lane.name.as_str()))
    }

    /// What had to be changed for the file this trace was read from.
    pub fn adjustments(&self) -> Adjustments {
        self.adjustments
    }

    pub(super) fn process_name(&self, process: ProcessId) -> &str {
        self.processes.get(process.index()).map_or("", String::as_str)
    }

    /// Names of a span's process and lane.
    pub(super) fn place(&self, span: &Span) -> (&str, &str) {
        let lane = self.lanes.get(span.lane.index());
        lane.map_or(("", ""), |lane| (self.process_name(lane.process), lane.name.as_str()))
    }
}
