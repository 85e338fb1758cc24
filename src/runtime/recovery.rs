//! After a round that did not go as planned: what is left to do, who is left to do it, and who did it in the end.

use super::report::{FaultReport, Round};
use crate::device::FaultKind;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::plan::{Item, Plan, Remaining};

/// Chunks that a fault left undone.
struct UnfinishedChunks {
    /// The round it happened in.
    round: usize,
    chunks: Vec<usize>,
}

/// Keeps the books of one run.
pub struct Recovery<'plan> {
    plan: &'plan Plan,
    /// What is left to do, and who can do it.
    pub remaining: Remaining,
    /// Devices that failed once and were the only ones left.
    retried: Vec<bool>,
    faults: Vec<FaultReport>,
    /// For each fault what it left undone.
    unfinished: Vec<UnfinishedChunks>,
}

impl<'plan> Recovery<'plan> {
    /// Everything is still to be done, by those of `alive`.
    pub fn new(plan: &'plan Plan, alive: &[bool]) -> Self {
        let remaining = Remaining { alive: alive.to_vec(), ..Remaining::all(plan) };
        let retried = vec![false; plan.devices.len()];
        Self { plan, remaining, retried, faults: Vec::new(), unfinished: Vec::new() }
    }

    /// Takes note of what round number `number` left undone. A device that failed is not asked again, unless it is the
    /// only one and this was its first fault. An error where nobody is left, or where the fault is the program's own.
    pub fn record_round(&mut self, number: usize, round: &Round) -> Result<()> {
        let outcome = &round.outcome;
        self.remaining.chunks.fill(false);
        self.remaining.split_rows.fill(false);
        let undone: Vec<(Item, DeviceId)> =
            outcome.unfinished.iter().filter_map(|&strand| round.planned.strand(strand)).collect();
        for (item, _) in &undone {
            let list = match item {
                Item::Chunk(chunk) => self.remaining.chunks.get_mut(*chunk as usize),
                Item::SplitRow(row) => self.remaining.split_rows.get_mut(*row as usize),
                Item::X(_) => None,
            };
            list.into_iter().for_each(|to_do| *to_do = true);
        }
        for fault in &outcome.faults {
            let device = self.name(fault.device);
            let task = round.planned.describe(fault.task);
            if matches!(fault.fault.kind, FaultKind::Misuse | FaultKind::Job) {
                return Err(Error::Internal(format!("{device}, {task}: {}", fault.fault.message)));
            }
            self.exclude(fault.device, outcome.dead.contains(&fault.device));
            let chunks = undone.iter().filter_map(|(item, on)| match item {
                Item::Chunk(chunk) if *on == fault.device => Some(*chunk as usize),
                _ => None,
            });
            self.unfinished.push(UnfinishedChunks { round: number, chunks: chunks.collect() });
            let error = fault.fault.message.clone();
            self.faults.push(FaultReport { device, task, error, recovered_on: None });
        }
        // Others follow from the first.
        match self.faults.first() {
            Some(fault) if !self.plan.computing().any(|device| self.is_alive(device)) => Err(Error::Device {
                device: fault.device.clone(),
                reason: format!("{}: {}; no device is left to take over", fault.task, fault.error),
            }),
            _ => Ok(()),
        }
    }

    /// The same error with the fault that it began with.
    pub fn explain(&self, error: Error) -> Error {
        match (error, self.faults.first()) {
            (Error::Device { device, reason }, Some(fault)) => {
                let reason = format!("{}: {}; {reason}", fault.task, fault.error);
                Error::Device { device, reason }
            }
            (error, _) => error,
        }
    }

    /// The faults, with the names of those who did in the end what they left undone.
    pub fn into_faults(self, rounds: &[Round]) -> Vec<FaultReport> {
        let Self { plan, faults, unfinished, .. } = self;
        let name = |device: DeviceId| plan.devices.get(device.index()).map_or("?", |device| &device.name);
        let rescued = |(mut fault, unfinished): (FaultReport, UnfinishedChunks)| {
            let mut names: Vec<&str> = Vec::new();
            for computed in rounds.iter().skip(unfinished.round + 1).flat_map(Round::computed) {
                if unfinished.chunks.contains(&computed.chunk) && !names.contains(&name(computed.device)) {
                    names.push(name(computed.device));
                }
            }
            fault.recovered_on = (!names.is_empty()).then(|| names.join(","));
            fault
        };
        faults.into_iter().zip(unfinished).map(rescued).collect()
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
