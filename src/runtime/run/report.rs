//! The report of a run: its rounds, its faults, and which devices recovered from them.

use std::sync::Arc;

use super::planned::Planned;
use crate::adapt::{DeviceObservation, Observation};
use crate::exec::ExecOutcome;
use crate::graph::{DeviceId, TaskKind};
use crate::plan::Item;

/// A graph that was run, with its outcome. A further round does what the previous one left unfinished.
#[derive(Clone)]
pub struct Round {
    /// The graph.
    pub planned: Arc<Planned>,
    /// Its outcome.
    pub outcome: ExecOutcome,
}

/// A fault from which the run recovered: the result is correct.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FaultReport {
    /// The device.
    pub device: String,
    /// The task that failed.
    pub task: String,
    /// The fault's message.
    pub error: String,
    /// The devices that did the work instead, separated by commas. `None` if no work had to be redone.
    pub recovered_on: Option<String>,
}

/// One computation of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computed {
    /// The chunk.
    pub chunk: usize,
    /// The device.
    pub device: DeviceId,
    /// Nanoseconds of the kernel or of the host job.
    pub ns: u64,
}

/// The report of one run.
#[derive(Clone)]
#[non_exhaustive]
pub struct RunReport {
    /// Start of the run, on the clock of its devices.
    #[doc(hidden)]
    pub start_ns: u64,
    /// When Y was complete; if every product is checked, when it was checked.
    #[doc(hidden)]
    pub end_ns: u64,
    /// Its rounds: one without faults; none if a single chunk on the host ran without a graph.
    #[doc(hidden)]
    pub rounds: Vec<Round>,
    /// Its faults.
    pub faults: Vec<FaultReport>,
    /// Whether it was cancelled before Y was complete.
    pub cancelled: bool,
    /// Seconds of the check of Y after the product; `None` if it was not checked. On the host, sums of the check are formed during the
    /// product, and only their comparison comes after it.
    pub check_s: Option<f64>,
}

impl RunReport {
    /// Of a run of the host without a graph.
    #[doc(hidden)]
    pub fn of_host(start_ns: u64, end_ns: u64) -> Self {
        Self { start_ns, end_ns, rounds: Vec::new(), faults: Vec::new(), cancelled: false, check_s: None }
    }

    /// Duration of the run, in seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// The computations of chunks, in the order of their completions.
    #[doc(hidden)]
    pub fn computed(&self) -> impl Iterator<Item = Computed> + '_ {
        let ns = self.end_ns.saturating_sub(self.start_ns);
        let direct = Computed { chunk: 0, device: DeviceId::HOST, ns };
        let direct = self.rounds.is_empty().then_some(direct);
        direct.into_iter().chain(self.rounds.iter().flat_map(Round::computed))
    }

    /// Seconds from the start of the run to the end of the device's last chunk; zero if it had none.
    #[doc(hidden)]
    pub fn finish_s(&self, device: DeviceId) -> f64 {
        let ends = self.rounds.iter().flat_map(|round| {
            round.outcome.records.iter().filter_map(move |record| match round.planned.task(record.task) {
                Ok((_, Item::Chunk(_), through)) if through == device => Some(record.end_ns),
                _ => None,
            })
        });
        ends.max().map_or(0.0, |end_ns| end_ns.saturating_sub(self.start_ns) as f64 / 1e9)
    }

    /// The measured times by device of a plan of `devices` devices. `steady_state_s` are the seconds of a usual product.
    #[doc(hidden)]
    pub fn observation(&self, devices: usize, steady_state_s: f64) -> Observation {
        let mut seen = vec![DeviceObservation::default(); devices];
        for Computed { chunk, device, ns } in self.computed() {
            if let Some(seen) = seen.get_mut(device.index()) {
                seen.compute_s += ns as f64 * 1e-9;
                seen.chunks.push(chunk);
            }
        }
        for (index, seen) in seen.iter_mut().enumerate() {
            seen.finish_s = self.finish_s(DeviceId(index as u32));
        }
        Observation { product_s: self.seconds(), steady_state_s, devices: seen }
    }

    /// Number of completed tasks.
    #[doc(hidden)]
    pub fn tasks(&self) -> usize {
        self.rounds.iter().map(|round| round.outcome.records.len()).sum::<usize>().max(1)
    }

    /// Bytes copied from one device to another without the host's memory.
    #[doc(hidden)]
    pub fn peer_bytes(&self) -> u64 {
        let written = self.rounds.iter().flat_map(|round| {
            let graph = round.planned.graph();
            let peer_copies = round.outcome.records.iter().filter(move |record| {
                graph.tasks().get(record.task.index()).is_some_and(|task| task.kind == TaskKind::PeerCopy)
            });
            peer_copies.flat_map(|record| graph.writes(record.task))
        });
        written.map(|access| access.end - access.begin).sum()
    }

    /// Bytes copied from the host to devices, and bytes copied back.
    #[doc(hidden)]
    pub fn link_bytes(&self) -> (u64, u64) {
        let (mut up, mut down) = (0, 0);
        for round in &self.rounds {
            for record in &round.outcome.records {
                let Ok((task, _, _)) = round.planned.task(record.task) else { continue };
                match task.kind {
                    TaskKind::Upload => up += task.demand.link_bytes,
                    TaskKind::Download => down += task.demand.link_bytes,
                    _ => {}
                }
            }
        }
        (up, down)
    }
}

impl Round {
    /// The computations of chunks, in the order of their completions.
    pub fn computed(&self) -> impl Iterator<Item = Computed> + '_ {
        self.outcome.records.iter().filter_map(|record| match self.planned.task(record.task) {
            Ok((task, Item::Chunk(chunk), device))
                if matches!(task.kind, TaskKind::Kernel | TaskKind::CpuCompute) =>
            {
                let ns = record.end_ns.saturating_sub(record.start_ns);
                Some(Computed { chunk: chunk as usize, device, ns })
            }
            _ => None,
        })
    }
}
