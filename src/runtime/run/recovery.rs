//! Recovery after faults: which chunks remain, which devices are usable, and which device computed what others left.

use super::planned::Planned;
use super::report::{FaultReport, Round};
use crate::device::{BorrowScope, Fault, FaultKind};
use crate::error::{Error, Result};
use crate::graph::{DeviceId, StrandId};
use crate::plan::{Item, Plan, Remaining};

/// The chunks that a fault left unfinished.
struct UnfinishedChunks {
    /// The first round that may compute them.
    from_round: usize,
    chunks: Vec<usize>,
}

/// The recovery state of one run.
pub struct Recovery<'plan> {
    plan: &'plan Plan,
    /// The remaining chunks and the usable devices.
    pub remaining: Remaining,
    /// For each device whether it has failed once and may not be retried again.
    retried: Vec<bool>,
    faults: Vec<FaultReport>,
    /// For each fault the chunks that it left unfinished.
    unfinished: Vec<UnfinishedChunks>,
}

impl<'plan> Recovery<'plan> {
    /// All chunks remain, for the devices that are `alive`.
    pub fn new(plan: &'plan Plan, alive: &[bool]) -> Self {
        let remaining = Remaining { alive: alive.to_vec(), ..Remaining::all(plan) };
        let retried = vec![false; plan.devices.len()];
        Self { plan, remaining, retried, faults: Vec::new(), unfinished: Vec::new() }
    }

    /// Records the faults and unfinished work of round number `number`. A device that failed is not used again, unless it
    /// is the only one and this was its first fault. Returns an error if no device is left, or if the fault is a bug of
    /// the program.
    pub fn record_round(&mut self, number: usize, round: &Round) -> Result<()> {
        let outcome = &round.outcome;
        self.remaining.chunks.fill(false);
        self.remaining.split_rows.fill(false);
        let undone: Vec<(Item, DeviceId)> =
            outcome.unfinished.iter().filter_map(|&strand| round.planned.strand(strand)).collect();
        for (item, _) in &undone {
            let list = match item {
                Item::Chunk(chunk) | Item::ChunkPart { chunk, .. } => {
                    self.remaining.chunks.get_mut(*chunk as usize)
                }
                Item::SplitRow(row) => self.remaining.split_rows.get_mut(*row as usize),
                Item::X { .. }
                | Item::Sent(_)
                | Item::Received(_)
                | Item::ToRank { .. }
                | Item::FromRank { .. }
                | Item::PartialSums { .. } => None,
            };
            list.into_iter().for_each(|to_do| *to_do = true);
        }
        for fault in &outcome.faults {
            let device = self.name(fault.device);
            let task = round.planned.describe(fault.task);
            if fault.fault.is_bug() {
                return Err(Error::Internal(format!("{device}, {task}: {}", fault.fault.message)));
            }
            self.exclude(fault.device, outcome.dead.contains(&fault.device));
            let chunks = undone.iter().filter_map(|(item, on)| match item {
                Item::Chunk(chunk) if *on == fault.device => Some(*chunk as usize),
                _ => None,
            });
            self.unfinished.push(UnfinishedChunks { from_round: number + 1, chunks: chunks.collect() });
            let error = fault.fault.message.clone();
            self.faults.push(FaultReport { device, task, error, recovered_on: None });
        }
        self.check_devices_left()
    }

    /// Records that `device` has no memory for the chunks of `planned`, the graph of round number `next_round`, or that A cannot be
    /// copied to it. The job does not use the device again.
    pub fn record_refused_memory(
        &mut self,
        next_round: usize,
        planned: &Planned,
        device: DeviceId,
        fault: Fault,
    ) -> Result<()> {
        self.exclude(device, true);
        let strands = (0..planned.graph().strands().len() as u32).map(StrandId);
        let chunks = strands.filter_map(|strand| match planned.strand(strand) {
            Some((Item::Chunk(chunk), on)) if on == device => Some(chunk as usize),
            _ => None,
        });
        self.unfinished.push(UnfinishedChunks { from_round: next_round, chunks: chunks.collect() });
        let task = if fault.kind == FaultKind::OutOfMemory { "allocation" } else { "copy of A" };
        let (device, task) = (self.name(device), task.to_string());
        self.faults.push(FaultReport { device, task, error: fault.message, recovered_on: None });
        self.check_devices_left()
    }

    /// An error if no device is left. The first fault is the cause of the others.
    fn check_devices_left(&self) -> Result<()> {
        match self.faults.first() {
            Some(fault) if !self.plan.computing().any(|device| self.is_alive(device)) => {
                let FaultReport { device, task, error, .. } = fault;
                Err(Error::device(
                    device,
                    format!("{task}: {error}; no device is left to take over its work"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Ends the process if a device of the round hangs and still uses memory that `scope` borrows. The device was closed.
    pub fn end_process_if_hung(&self, round: &Round, scope: &BorrowScope<'_>) {
        let hang = round.outcome.faults.iter().find(|fault| fault.fault.kind == FaultKind::Hang);
        if let Some(hang) = hang {
            let task = round.planned.describe(hang.task);
            let reason = format!("{task}: {}", hang.fault.message);
            scope.end_process_if_in_use(&Error::device(self.name(hang.device), reason));
        }
    }

    /// `error` with the first fault of the run added, which caused it.
    pub fn explain(&self, error: Error) -> Error {
        match (error, self.faults.first()) {
            (Error::Device { device, reason }, Some(fault)) => {
                let words = |words: &str| format!("{}: {}; {words}", fault.task, fault.error);
                Error::device(device, reason.map_words(words))
            }
            (error, _) => error,
        }
    }

    /// The faults, each with the names of the devices that computed the chunks it left unfinished.
    pub fn into_faults(self, rounds: &[Round]) -> Vec<FaultReport> {
        let Self { plan, faults, unfinished, .. } = self;
        let name = |device: DeviceId| plan.devices.get(device.index()).map_or("?", |device| &device.name);
        let with_recovery = |(mut fault, unfinished): (FaultReport, UnfinishedChunks)| {
            let mut names: Vec<&str> = Vec::new();
            for computed in rounds.iter().skip(unfinished.from_round).flat_map(Round::computed) {
                if unfinished.chunks.contains(&computed.chunk) && !names.contains(&name(computed.device)) {
                    names.push(name(computed.device));
                }
            }
            fault.recovered_on = (!names.is_empty()).then(|| names.join(","));
            fault
        };
        faults.into_iter().zip(unfinished).map(with_recovery).collect()
    }

    fn exclude(&mut self, device: DeviceId, dead: bool) {
        let others = self.plan.computing().any(|other| other != device.0 && self.is_alive(other));
        let index = device.index();
        let gone = dead || others || self.retried.get(index).copied().unwrap_or(true);
        if let Some(alive) = self.remaining.alive.get_mut(index).filter(|_| gone) {
            *alive = false;
        }
        if let Some(retried) = self.retried.get_mut(index) {
            *retried = true;
        }
    }

    fn is_alive(&self, device: u32) -> bool {
        self.remaining.alive.get(device as usize).copied().unwrap_or(false)
    }

    fn name(&self, device: DeviceId) -> String {
        self.plan.devices.get(device.index()).map_or_else(|| "?".into(), |device| device.name.clone())
    }
}
