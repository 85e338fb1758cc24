//! Writes runs into a trace: tasks as spans on their lanes, graph edges as flows, slots and bytes as counters.

use super::report::{Round, RunReport};
use crate::device::Description;
use crate::exec::Counter;
use crate::graph::{DeviceId, Task, TaskKind};
use crate::plan::{Chunk, Item, Plan};
use crate::runtime::devices::{COMPUTE, DOWNLOAD, OperationRecord, UPLOAD};
use crate::trace::{Arguments, Category, LaneId, Span, SpanId, Trace};

/// Writes the runs of a plan into a trace.
pub struct Timeline<'a> {
    plan: &'a Plan,
    descriptions: &'a [Description],
    /// For each device the trace lanes of its lanes.
    lanes: Vec<Vec<LaneId>>,
}

impl<'a> Timeline<'a> {
    /// Adds a trace process for each device of `plan` and a trace lane for each of its lanes.
    pub fn new(trace: &mut Trace, plan: &'a Plan, descriptions: &'a [Description]) -> Self {
        let lanes = descriptions.iter().map(|device| {
            let process = trace.process(&device.name);
            device.lanes.iter().map(|lane| trace.lane(process, &lane.name)).collect()
        });
        let lanes = lanes.collect();
        Self { plan, descriptions, lanes }
    }

    /// Adds run number `run`.
    pub fn add_run(&self, trace: &mut Trace, report: &RunReport, run: u64) {
        for round in &report.rounds {
            self.add_round(trace, round, Some(run));
        }
        // A product of one chunk on the host has no graph; it becomes one span.
        if let ([], Some(chunk)) = (&report.rounds[..], self.plan.chunks.first()) {
            let demand_us = chunk.predicted_s * 1e6;
            let arguments = Arguments {
                predicted_us: Some(demand_us),
                run: Some(run),
                ..self.chunk_arguments(0, chunk, DeviceId::HOST, report.end_ns - report.start_ns)
            };
            if let Some(lane) = self.lane(DeviceId::HOST, 0) {
                let name = format!("{} 0", TaskKind::CpuCompute.name());
                let (start_ns, end_ns) = (report.start_ns, report.end_ns);
                trace.span(Span { lane, name, category: Category::CpuCompute, start_ns, end_ns, arguments });
            }
        }
    }

    /// Adds a round. `run` is `None` for the set-up before the first run.
    pub fn add_round(&self, trace: &mut Trace, round: &Round, run: Option<u64>) {
        let graph = round.planned.graph();
        let mut spans: Vec<Option<SpanId>> = vec![None; graph.tasks().len()];
        for record in &round.outcome.records {
            let Ok((task, item, device)) = round.planned.task(record.task) else { continue };
            let Some(lane) = self.lane(task.device, record.lane) else { continue };
            let ns = record.end_ns.saturating_sub(record.start_ns);
            let written_bytes =
                graph.writes(record.task).iter().map(|access| access.end - access.begin).sum();
            let arguments = Arguments { run, ..self.arguments(task, item, device, ns, written_bytes) };
            let (category, name) = (category(task.kind), self.span_name(task, item));
            let (start_ns, end_ns) = (record.start_ns, record.end_ns);
            let span = Span { lane, name, category, start_ns, end_ns, arguments };
            spans[record.task.index()] = Some(trace.span(span));
        }
        for (from, to) in graph.edges() {
            if let (Some(from), Some(to)) = (spans[from.index()], spans[to.index()]) {
                trace.flow(from, to);
            }
        }
        for sample in &round.outcome.samples {
            let (device, name) = match sample.counter {
                Counter::Slots(pool) => match graph.pools().get(pool.index()) {
                    Some(pool) => (pool.device, format!("{} slots in use", pool.name)),
                    None => continue,
                },
                Counter::LinkBytes(device) => (device, "bytes in flight".to_string()),
            };
            if let Some(device) = self.descriptions.get(device.index()) {
                let process = trace.process(&device.name);
                trace.counter(process, &name, sample.at_ns, sample.value as f64);
            }
        }
    }

    /// Adds operations on one device that belong to no plan, on the lanes of the device.
    pub fn add_operations(trace: &mut Trace, device: &Description, records: &[OperationRecord]) {
        add_records(trace, device, records);
    }

    fn lane(&self, device: DeviceId, lane: u32) -> Option<LaneId> {
        self.lanes.get(device.index())?.get(lane as usize).copied()
    }

    fn arguments(&self, task: &Task, item: Item, device: DeviceId, ns: u64, written_bytes: u64) -> Arguments {
        let predicted_us = Some(task.demand.alone_ns as f64 / 1e3);
        let computes = matches!(task.kind, TaskKind::Kernel | TaskKind::CpuCompute);
        match item {
            Item::Chunk(index) if computes => match self.plan.chunks.get(index as usize) {
                Some(chunk) => Arguments { predicted_us, ..self.chunk_arguments(index, chunk, device, ns) },
                None => Arguments::default(),
            },
            _ => {
                let bytes = match item {
                    // Rows that are moved within a card, or packed on it, use neither the link nor host memory.
                    Item::Sent(_) | Item::Received(_) => written_bytes,
                    Item::ToRank { .. } | Item::FromRank { .. } => written_bytes.max(task.demand.link_bytes),
                    _ => task.demand.link_bytes.max(task.demand.host_bytes),
                };
                let chunk = match item {
                    Item::Chunk(index) | Item::ChunkPart { chunk: index, .. } => Some(u64::from(index)),
                    _ => None,
                };
                Arguments {
                    chunk,
                    bytes: Some(bytes),
                    gb_per_s: gb_per_s(bytes, ns),
                    predicted_us,
                    ..Arguments::default()
                }
            }
        }
    }

    fn span_name(&self, task: &Task, item: Item) -> String {
        let kind = task.kind;
        // A message that uses no host memory.
        let is_direct = task.demand.host_bytes == 0;
        match item {
            Item::X { device, block, .. } if self.has_x_blocks(device) => {
                format!("{} X {block}", kind.name())
            }
            Item::X { .. } => format!("{} X", kind.name()),
            Item::Chunk(chunk) | Item::ChunkPart { chunk, .. } => format!("{} {chunk}", kind.name()),
            Item::SplitRow(row) => format!("{} split row {row}", kind.name()),
            Item::Sent(message) => match kind {
                TaskKind::Kernel | TaskKind::Stage => format!("gather rows {message}"),
                _ => format!("send rows {message}"),
            },
            Item::ToRank { rank, .. } => match kind {
                TaskKind::Kernel | TaskKind::Stage => format!("gather rows for rank {rank}"),
                TaskKind::Send if is_direct => format!("send rows to rank {rank} from device memory"),
                TaskKind::Send => format!("send rows to rank {rank}"),
                _ => format!("download rows for rank {rank}"),
            },
            Item::FromRank { rank, .. } => match kind {
                TaskKind::Receive if is_direct => format!("receive rows from rank {rank} in device memory"),
                TaskKind::Receive => format!("receive rows from rank {rank}"),
                TaskKind::Upload => format!("upload rows of rank {rank}"),
                _ => format!("store rows of rank {rank}"),
            },
            Item::PartialSums { rank } => match kind {
                TaskKind::Send => format!("send partial sums to rank {rank}"),
                TaskKind::Receive => format!("receive partial sums from rank {rank}"),
                _ => "add the partial sums of all ranks".into(),
            },
            Item::Received(message) => match kind {
                TaskKind::PeerCopy => format!("peer copy rows {message}"),
                TaskKind::Upload | TaskKind::Receive => format!("receive rows {message}"),
                _ => format!("scatter rows {message}"),
            },
        }
    }

    fn has_x_blocks(&self, device: u32) -> bool {
        self.plan.devices.get(device as usize).is_some_and(|device| !device.x_blocks.is_empty())
    }

    fn chunk_arguments(&self, index: u32, chunk: &Chunk, device: DeviceId, ns: u64) -> Arguments {
        let bytes = chunk.load(self.plan.k, self.plan.dtype).compulsory_bytes;
        Arguments {
            chunk: Some(u64::from(index)),
            rows: Some(chunk.slice_rows()),
            size: Some(chunk.features.count()),
            bytes: Some(bytes),
            kernel: Some(self.plan.kernel_on(chunk, device.0).name().into()),
            gb_per_s: gb_per_s(bytes, ns),
            ..Arguments::default()
        }
    }
}

/// Adds operations on vectors to a trace, on the lanes of their device.
pub(crate) fn add_records(trace: &mut Trace, device: &Description, records: &[OperationRecord]) {
    let process = trace.process(&device.name);
    let lanes: Vec<LaneId> = device.lanes.iter().map(|lane| trace.lane(process, &lane.name)).collect();
    let mut records: Vec<&OperationRecord> = records.iter().collect();
    records.sort_by_key(|record| (record.end_ns, record.lane));
    let mut arrived: Vec<SpanId> = Vec::new();
    for record in records {
        let Some(&lane) = lanes.get(record.lane) else { continue };
        let category = match record.lane {
            UPLOAD => Category::Upload,
            DOWNLOAD => Category::Download,
            _ => Category::Kernel,
        };
        let OperationRecord { name, start_ns, end_ns, .. } = *record;
        let arguments = Arguments::default();
        let span = trace.span(Span { lane, name: name.into(), category, start_ns, end_ns, arguments });
        match record.lane {
            UPLOAD => arrived.push(span),
            COMPUTE => arrived.drain(..).for_each(|from| trace.flow(from, span)),
            _ => {}
        }
    }
}

fn gb_per_s(bytes: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| bytes as f64 / ns as f64)
}

fn category(kind: TaskKind) -> Category {
    match kind {
        TaskKind::Stage => Category::Stage,
        TaskKind::Upload => Category::Upload,
        TaskKind::Kernel => Category::Kernel,
        TaskKind::Download => Category::Download,
        TaskKind::PeerCopy => Category::PeerCopy,
        TaskKind::CpuCompute => Category::CpuCompute,
        TaskKind::Merge => Category::Merge,
        TaskKind::Send => Category::Send,
        TaskKind::Receive => Category::Receive,
        TaskKind::Reduce => Category::Reduce,
    }
}
