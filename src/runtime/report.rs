//! What a run did: its rounds, what went wrong on the way and who made up for it.

use std::sync::Arc;

use super::planned::Planned;
use crate::exec::Outcome;
use crate::graph::{DeviceId, TaskKind};
use crate::plan::Item;

/// A graph that was run and what became of it. A second round makes up for what a first left unfinished.
pub struct Round {
    /// The graph.
    pub planned: Arc<Planned>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Something that went wrong without making the result wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FaultReport {
    /// Where.
    pub device: String,
    /// What was being done.
    pub task: String,
    /// What happened.
    pub error: String,
    /// Who did it in the end; several devices are joined by commas. `None` where nobody had to.
    pub recovered_on: Option<String>,
}

/// One computation of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computed {
    /// The chunk.
    pub chunk: usize,
    /// The device.
    pub device: DeviceId,
    /// How long the kernel, or the host's job, took.
    pub ns: u64,
}

/// What one run did.
pub struct RunReport {
    /// When it began, on the clock of its devices.
    pub start_ns: u64,
    /// When Y was complete.
    pub end_ns: u64,
    /// Its rounds; one where nothing went wrong, none where a single chunk on the host needed no graph.
    pub rounds: Vec<Round>,
    /// What went wrong.
    pub faults: Vec<FaultReport>,
    /// Whether it was asked to stop before Y was complete.
    pub cancelled: bool,
}

impl RunReport {
    /// How long it took.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// Who computed which chunk, in the order it happened.
    pub fn computed(&self) -> impl Iterator<Item = Computed> + '_ {
        let ns = self.end_ns.saturating_sub(self.start_ns);
        let direct = Computed { chunk: 0, device: DeviceId::HOST, ns };
        let direct = self.rounds.is_empty().then_some(direct);
        direct.into_iter().chain(self.rounds.iter().flat_map(Round::computed))
    }

    /// Seconds after which the last chunk that went through a device was done; zero where none did.
    pub fn finish_s(&self, device: DeviceId) -> f64 {
        let ends = self.rounds.iter().flat_map(|round| {
            round.outcome.records.iter().filter_map(move |record| match round.planned.task(record.task) {
                Ok((_, Item::Chunk(_), through)) if through == device => Some(record.end_ns),
                _ => None,
            })
        });
        ends.max().map_or(0.0, |end_ns| end_ns.saturating_sub(self.start_ns) as f64 / 1e9)
    }

    /// Number of tasks that were done.
    pub fn tasks(&self) -> usize {
        self.rounds.iter().map(|round| round.outcome.records.len()).sum::<usize>().max(1)
    }

    /// Bytes that crossed links to the devices, and back.
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
    /// Who computed which chunk, in the order it happened.
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
