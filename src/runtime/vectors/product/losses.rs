//! A product on vectors that was not completed: rows of lost devices move to host memory, or the product is an error.

use super::vector_product::VectorProduct;
use crate::device::FaultKind;
use crate::error::{Error, Result};
use crate::exec::TaskFault;
use crate::graph::{DeviceId, Task, TaskId, TaskKind};
use crate::kernel::cpu::Kernels;
use crate::plan::Item;
use crate::runtime::run::{FaultReport, Planned, Round};
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::graph::CompleteMessages;
use crate::runtime::vectors::row_distribution::Part;

impl<T: Kernels> VectorProduct<'_, T> {
    /// The error of a product that was not completed because of another rank: that rank ended, aborted the job or does not answer.
    /// `None` if a device of this rank failed.
    pub(crate) fn failure_of_ranks(&self, round: &Round) -> Option<Error> {
        let (ranks, network) = (self.ranks.as_ref()?, DeviceId(self.plan().devices.len() as u32));
        let is_of_ranks =
            |fault: &&TaskFault| fault.device == network && fault.fault.kind != FaultKind::PeerLost;
        let fault = round.outcome.faults.iter().find(is_of_ranks)?;
        let (error, waits_for) = self.network().map_or((None, Vec::new()), |mut network| network.abandon());
        Some(error.unwrap_or_else(|| {
            let rank = waits_for.first().copied().unwrap_or(ranks.communicator.rank());
            ranks.communicator.rank_error(rank, format!("no answer: {}", fault.fault.message))
        }))
    }

    /// Moves the rows of lost devices to host memory and marks the chunks that are left to compute. An error if a device failed that
    /// was not lost, or if the host has no copy of rows that are needed.
    pub(crate) fn move_lost_rows(
        &self,
        round: &Round,
        x: &Vectors<T>,
        y: &Vectors<T>,
        chunks: &mut [bool],
    ) -> Result<Vec<FaultReport>> {
        let (planned, outcome) = (&round.planned, &round.outcome);
        let name = |device: usize| {
            self.plan().devices.get(device).map_or_else(|| "?".into(), |device| device.name.clone())
        };
        let mut reports: Vec<FaultReport> = Vec::new();
        // Devices that did not report their loss themselves: another device, or the network, could not access their memory.
        let mut lost_peers = Vec::new();
        for fault in &outcome.faults {
            if let Some(part) = self.lost_owner(planned, fault).and_then(|owner| self.x.parts.get(owner)) {
                if !outcome.dead.contains(&DeviceId(part.index as u32)) {
                    lost_peers.push(part.index);
                    let (device, task) = (part.name.clone(), planned.describe(fault.task));
                    let (error, recovered_on) = (fault.fault.message.clone(), Some("cpu".into()));
                    reports.push(FaultReport { device, task, error, recovered_on });
                }
                continue;
            }
            let (device, task) = (name(fault.device.index()), planned.describe(fault.task));
            let error = fault.fault.message.clone();
            if fault.fault.is_bug() {
                return Err(Error::Internal(format!("{device}, {task}: {error}")));
            }
            if !outcome.dead.contains(&fault.device) {
                return Err(Error::device(device, format!("{task}: {error}")));
            }
            reports.push(FaultReport { device, task, error, recovered_on: Some("cpu".into()) });
        }
        let lost = |owner: usize| {
            let index = self.x.parts.get(owner).map(|part| part.index);
            let mut all = outcome.dead.iter().map(|device| device.index()).chain(lost_peers.iter().copied());
            all.any(|device| Some(device) == index)
        };
        let mut done = vec![false; chunks.len()];
        for computed in round.computed() {
            done.iter_mut().skip(computed.chunk).take(1).for_each(|done| *done = true);
        }
        for (index, chunk) in self.chunks.iter().enumerate() {
            // The results of a lost device are lost, too.
            chunks[index] = lost(chunk.owner) || chunks[index] && !done[index];
        }
        let explain = |error: Error| match (error, reports.first()) {
            (Error::Device { device, reason }, Some(fault)) => {
                let words = |words: &str| format!("{}: {}; {words}", fault.task, fault.error);
                Error::device(device, reason.map_words(words))
            }
            (error, _) => error,
        };
        for owner in (0..self.x.parts.len()).filter(|&owner| lost(owner)) {
            if let Some(device) = self.x.parts[owner].device() {
                device.lock().close();
            }
            if self.arrivals.iter().any(|message| message.direct_receiver() == Some(owner)) {
                return Err(explain(rows_of_ranks_lost(&self.x.parts[owner])));
            }
            x.data(owner).map_err(explain)?;
            let repeatable = planned.graph().tasks().iter().enumerate().all(|(task, at)| {
                let item = planned.items().get(at.item as usize);
                let of_owner = matches!(item, Some(Item::Chunk(chunk)) if self.owner(*chunk) == Some(owner));
                !of_owner || planned.graph().may_run_again(TaskId(task as u32))
            });
            if repeatable {
                y.overwrite(owner)?;
            }
            y.data(owner).map_err(explain)?;
        }
        Ok(reports)
    }

    /// The owner, as an index of the distribution's parts, whose memory a task could not access because the owner is lost: the sender of rows
    /// that are copied, or the device that has a message between ranks.
    fn lost_owner(&self, planned: &Planned, fault: &TaskFault) -> Option<usize> {
        match planned.task(fault.task) {
            _ if fault.fault.kind != FaultKind::PeerLost => None,
            Ok((_, Item::Received(message), _)) => {
                self.exchange.messages.get(message as usize).map(|message| message.from)
            }
            Ok((_, Item::ToRank { message, .. }, _)) => {
                self.exchange.departures.get(message as usize).map(|departure| departure.from)
            }
            Ok((_, Item::FromRank { message, .. }, _)) => {
                self.arrivals.get(message as usize)?.direct_receiver()
            }
            _ => None,
        }
    }

    fn owner(&self, chunk: u32) -> Option<usize> {
        self.chunks.get(chunk as usize).map(|chunk| chunk.owner)
    }
}

/// The loss of a device to whose memory other ranks send rows. They do not send them again.
fn rows_of_ranks_lost(part: &Part) -> Error {
    let reason = "other ranks send rows directly to its memory, which is lost; with ROWLOOM_CUDA_AWARE_MPI=0 they go through host memory, where they survive";
    Error::Device { device: part.name.clone(), reason: reason.into() }
}

/// Marks the messages between ranks that a round has completed.
pub(crate) fn mark_complete(round: &Round, messages: &mut CompleteMessages) {
    for record in &round.outcome.records {
        let (list, message) = match round.planned.task(record.task) {
            Ok((Task { kind: TaskKind::Send, .. }, Item::ToRank { message, .. }, _)) => {
                (&mut messages.sent, message)
            }
            Ok((Task { kind: TaskKind::Receive, .. }, Item::FromRank { message, .. }, _)) => {
                (&mut messages.received, message)
            }
            _ => continue,
        };
        list.iter_mut().skip(message as usize).take(1).for_each(|is_complete| *is_complete = true);
    }
}
