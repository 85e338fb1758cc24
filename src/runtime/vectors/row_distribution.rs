//! Which processor owns which rows of a multivector.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::ranks::RankRows;
use super::simulated_machine::SimulatedMachine;
use crate::device::completion::OperationOwner;
use crate::graph::DeviceId;
use crate::runtime::devices::OpenDevice;
use crate::work::owned_rows_of_x;

/// One owner of rows.
#[derive(Clone)]
pub struct Part {
    /// The device that was planned; `None` for the host.
    pub planned: Option<Arc<OpenDevice>>,
    /// Its index in the plan.
    pub index: usize,
    /// The rows that it owns.
    pub own: Range<u64>,
    /// The rows that its memory has room for: its own, and those of other owners that its columns refer to.
    pub held: Range<u64>,
    /// Device name.
    pub name: String,
    /// Bandwidth of its memory, for predicted times.
    pub stream_gb_per_s: f64,
    /// Time to start an operation.
    pub launch_s: f64,
    /// The product, as the owner of the operations that it queues for these rows.
    pub operations: Arc<OperationOwner>,
}

impl Part {
    /// The device; `None` for the host, which also has the rows of a lost device.
    pub fn device(&self) -> Option<&Arc<OpenDevice>> {
        self.planned.as_ref().filter(|device| device.is_open())
    }

    /// Rows that the host owns, of a product that computes nothing.
    fn on_host(own: Range<u64>) -> Self {
        let (held, name) = (own.clone(), "cpu".to_string());
        Self {
            planned: None,
            index: DeviceId::HOST.index(),
            own,
            held,
            name,
            stream_gb_per_s: 1.0,
            launch_s: 0.0,
            operations: Arc::default(),
        }
    }

    /// Closes the device if a queued operation found it lost. Returns whether it was closed now.
    pub fn close_if_lost(&self) -> bool {
        let Some(device) = self.device() else { return false };
        let mut device = device.lock();
        let is_lost = device.is_open() && device.is_lost();
        if is_lost {
            device.close();
        }
        is_lost
    }

    /// The name of its card: `cuda:0` for the logical devices `cuda:0` and `cuda:0#2`.
    pub fn card(&self) -> &str {
        self.name.split_once('#').map_or(&self.name, |(card, _)| card)
    }

    /// Predicted seconds of an operation that moves `bytes` bytes of its memory.
    pub fn predicted_s(&self, bytes: u64) -> f64 {
        self.launch_s + bytes as f64 * 1e-9 / self.stream_gb_per_s.max(1e-3)
    }
}

/// The owners of all rows, in the order of rows.
#[derive(Clone)]
pub struct RowDistribution {
    /// Number of rows, copies of the rows of other ranks included.
    pub rows: u64,
    /// The owners; together they own every row of this rank once.
    pub parts: Vec<Part>,
    /// The place of the rows among those of all ranks; `None` in a job of one process.
    pub ranks: Option<Arc<RankRows>>,
    /// The simulated devices, if the owners are simulated.
    pub machine: Option<Arc<SimulatedMachine>>,
    /// Held by an operation that reads multivectors through their page-locked memory: several threads may share them.
    pub reading: Arc<Mutex<()>>,
}

/// Where a row of X comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An owner of this rank, as an index of `parts`.
    Part(usize),
    /// A message from another rank, as an index of its arrivals.
    Rank(usize),
}

impl RowDistribution {
    /// The rows that this rank owns.
    pub fn own(&self) -> Range<u64> {
        self.ranks.as_ref().map_or(0..self.rows, |ranks| ranks.own.clone())
    }

    /// Where a row comes from.
    pub fn source(&self, row: u64) -> Source {
        match &self.ranks {
            Some(ranks) if !ranks.own.contains(&row) => {
                Source::Rank(ranks.arrivals.partition_point(|arrival| arrival.rows.end <= row))
            }
            _ => Source::Part(self.owner(row)),
        }
    }

    /// The owner of a row of this rank, as an index of `parts`.
    pub fn owner(&self, row: u64) -> usize {
        self.parts.partition_point(|part| part.own.end <= row).min(self.parts.len().saturating_sub(1))
    }

    /// Closes the devices that a queued operation found lost. Returns whether there was one.
    pub fn close_lost(&self) -> bool {
        self.parts.iter().filter(|part| part.close_if_lost()).count() > 0
    }

    /// For each owner whether it is a device that is in use.
    pub fn on_devices(&self) -> Vec<bool> {
        let is_device = |part: &Part| match &self.machine {
            Some(_) => part.index != DeviceId::HOST.index(),
            None => part.device().is_some(),
        };
        self.parts.iter().map(is_device).collect()
    }

    /// The same owners, with the rows of X divided in the proportions of the rows of Y.
    pub fn scaled_to(&self, rows: u64) -> Self {
        let part = |part: &Part| {
            let own = owned_rows_of_x(part.own.clone(), self.rows, rows);
            Part { held: own.clone(), own, ..part.clone() }
        };
        let (mut parts, machine): (Vec<Part>, _) =
            (self.parts.iter().map(part).collect(), self.machine.clone());
        if parts.is_empty() && machine.is_none() {
            // A matrix without rows has no chunks, and its X an owner all the same.
            parts.push(Part::on_host(0..rows));
        }
        Self { rows, parts, ranks: None, machine, reading: Arc::default() }
    }
}
