//! The data of a trace.
//!
//! Ids are indices into the trace that made them. Recording neither checks nor sorts, so that adding a span costs one push;
//! [`Trace::check`] and [`Trace::write`] check the whole trace.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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

/// The kind of work of a span: ten kinds of tasks, and steps of the program outside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// A copy from pageable memory to a page-locked slot.
    Stage,
    /// A transfer from host to device.
    Upload,
    /// A kernel on a device.
    Kernel,
    /// A transfer from device to host.
    Download,
    /// A transfer from another device.
    PeerCopy,
    /// A kernel on the CPU's threads.
    CpuCompute,
    /// A merge of a slice of Y, or of the carries of a split row, into Y.
    Merge,
    /// A message to another rank.
    Send,
    /// A message from another rank, from the start of the wait for it.
    Receive,
    /// The sum of the partial results of all ranks.
    Reduce,
    /// A step of the program outside the tasks: reading, planning, preparing, verifying.
    Host,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 11] = [
        Self::Stage,
        Self::Upload,
        Self::Kernel,
        Self::Download,
        Self::PeerCopy,
        Self::CpuCompute,
        Self::Merge,
        Self::Send,
        Self::Receive,
        Self::Reduce,
        Self::Host,
    ];

    /// Its name in files and reports.
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
            Self::Host => "host",
        }
    }

    /// The category with that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }

    /// Whether it is a task of the graph.
    pub fn is_task(self) -> bool {
        self != Self::Host
    }

    /// Whether it is a transfer to or from a device.
    pub fn is_copy(self) -> bool {
        matches!(self, Self::Upload | Self::Download | Self::PeerCopy)
    }

    /// Whether it is a message to or from another rank.
    pub fn is_network(self) -> bool {
        matches!(self, Self::Send | Self::Receive)
    }

    /// Whether it computes the product.
    pub fn is_compute(self) -> bool {
        matches!(self, Self::Kernel | Self::CpuCompute)
    }
}

/// Arguments of a span; numbers that JSON cannot represent (NaN, infinities) are not written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    /// Its chunk.
    pub chunk: Option<u64>,
    /// Rows of the chunk.
    pub rows: Option<u64>,
    /// A size of the chunk under the name that its kind of work has for it, such as the number of its entries.
    pub size: Option<(Cow<'static, str>, u64)>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// The kernel's name.
    pub kernel: Option<Cow<'static, str>>,
    /// The duration that the cost model predicted.
    pub predicted_us: Option<f64>,
    /// The rate of the copy.
    pub gb_per_s: Option<f64>,
    /// The number of its run; `None` for work outside the runs.
    pub run: Option<u64>,
}

/// An interval of work on a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its lane.
    pub lane: LaneId,
    /// Its name in viewers.
    pub name: String,
    /// Its kind of work.
    pub category: Category,
    /// Its start on the trace's clock.
    pub start_ns: u64,
    /// Its end, not before its start.
    pub end_ns: u64,
    /// Its arguments.
    pub arguments: Arguments,
}

impl Span {
    /// Its duration.
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

/// A counter of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) process: ProcessId,
    pub(super) name: String,
}

/// A value of a counter at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) counter: u32,
    pub(super) at_ns: u64,
    pub(super) value: f64,
}

/// Corrections that were necessary for the rules of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustments {
    /// Spans whose start or end was moved by more than a nanosecond.
    pub moved_spans: u64,
    /// The largest correction.
    pub most_moved_ns: u64,
    /// Arrows left out because their target ended before their source began.
    pub dropped_flows: u64,
}

/// A trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    pub(super) processes: Vec<String>,
    pub(super) lanes: Vec<Lane>,
    pub(super) spans: Vec<Span>,
    pub(super) flows: Vec<(SpanId, SpanId)>,
    pub(super) counters: Vec<Counter>,
    pub(super) samples: Vec<Sample>,
    pub(super) metadata: Map<String, Value>,
    /// Corrections in the file that the trace was read from.
    pub(super) adjustments: Adjustments,
}

impl Trace {
    /// The process of that name; adds it if it is new.
    #[doc(hidden)]
    pub fn process(&mut self, name: &str) -> ProcessId {
        let known = self.processes.iter().position(|process| process == name);
        ProcessId(known.unwrap_or_else(|| {
            self.processes.push(name.to_owned());
            self.processes.len() - 1
        }) as u32)
    }

    /// The lane of that name in a process; adds it if it is new. Viewers show lanes in the order in which they were added.
    #[doc(hidden)]
    pub fn lane(&mut self, process: ProcessId, name: &str) -> LaneId {
        let known = self.lanes.iter().position(|lane| lane.process == process && lane.name == name);
        LaneId(known.unwrap_or_else(|| {
            self.lanes.push(Lane { process, name: name.to_owned() });
            self.lanes.len() - 1
        }) as u32)
    }

    /// A new lane; its name gets a number if the process has a lane of that name.
    #[doc(hidden)]
    pub fn new_lane(&mut self, process: ProcessId, name: &str) -> LaneId {
        let taken = |name: &str| self.lanes.iter().any(|lane| lane.process == process && lane.name == name);
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name));
        self.lanes.push(Lane { process, name: free.unwrap_or_default() });
        LaneId((self.lanes.len() - 1) as u32)
    }

    /// Adds a span; spans may come in any order.
    #[doc(hidden)]
    pub fn span(&mut self, span: Span) -> SpanId {
        self.spans.push(span);
        SpanId((self.spans.len() - 1) as u32)
    }

    /// Adds an arrow: `to` depends on `from`.
    #[doc(hidden)]
    pub fn flow(&mut self, from: SpanId, to: SpanId) {
        self.flows.push((from, to));
    }

    /// Adds a value of a counter; it holds until the next one.
    #[doc(hidden)]
    pub fn counter(&mut self, process: ProcessId, name: &str, at_ns: u64, value: f64) {
        let known =
            self.counters.iter().position(|counter| counter.process == process && counter.name == name);
        let counter = known.unwrap_or_else(|| {
            self.counters.push(Counter { process, name: name.to_owned() });
            self.counters.len() - 1
        }) as u32;
        self.samples.push(Sample { counter, at_ns, value });
    }

    /// Records the error of a clock's alignment with the trace's clock, as `clock_alignment` in the metadata.
    #[doc(hidden)]
    pub fn clock_error(&mut self, clock: &str, error_ns: u64) {
        let alignment = self.metadata.entry("clock_alignment").or_insert_with(|| json!({}));
        if let Value::Object(clocks) = alignment {
            clocks.insert(clock.to_owned(), json!({ "error_ns": error_ns }));
        }
    }

    /// Sets a metadata value of the trace: the configuration, the machine, a clock's error. A later value replaces an earlier one.
    #[doc(hidden)]
    pub fn metadata(&mut self, key: &str, value: Value) {
        self.metadata.insert(key.to_owned(), value);
    }

    /// The metadata value of `key`.
    #[doc(hidden)]
    pub fn metadata_value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// All spans, in the order they were added.
    #[doc(hidden)]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// All arrows.
    #[doc(hidden)]
    pub fn flows(&self) -> &[(SpanId, SpanId)] {
        &self.flows
    }

    /// The number of counter values.
    #[doc(hidden)]
    pub fn sample_count(&self) -> usize {
        self.samples.len()
    }

    /// Names of all processes.
    #[doc(hidden)]
    pub fn processes(&self) -> impl Iterator<Item = &str> {
        self.processes.iter().map(String::as_str)
    }

    /// All lanes, as names of process and lane.
    #[doc(hidden)]
    pub fn lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lanes.iter().map(|lane| (self.process_name(lane.process), lane.name.as_str()))
    }

    /// Corrections in the file that this trace was read from.
    #[doc(hidden)]
    pub fn adjustments(&self) -> Adjustments {
        self.adjustments
    }

    pub(super) fn process_name(&self, process: ProcessId) -> &str {
        self.processes.get(process.index()).map_or("", String::as_str)
    }

    /// Names of a span's process and lane.
    pub(super) fn process_and_lane(&self, span: &Span) -> (&str, &str) {
        let lane = self.lanes.get(span.lane.index());
        lane.map_or(("", ""), |lane| (self.process_name(lane.process), lane.name.as_str()))
    }
}
