//! Applies a product on vectors: queues kernels, or runs its graph to the end, and again what a lost device left.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::binder::{HostRows, ProductRun, VectorBinder, lock_host_rows};
use super::losses::mark_complete;
use super::vector_product::{Backing, VectorProduct};
use crate::error::{Error, Result};
use crate::exec::ExecOutcome;
use crate::graph::DeviceId;
use crate::kernel::cpu::Kernels;
use crate::runtime::devices::{COMPUTE, Submission};
use crate::runtime::job::Scaling;
use crate::runtime::run::{FaultReport, Planned, Round, RunReport};
use crate::runtime::vectors::Vectors;
use crate::runtime::vectors::errors::missing_part;
use crate::runtime::vectors::graph::Wanted;
use crate::runtime::vectors::host_copy::view_rows_mut;

impl<'a, T: Kernels> VectorProduct<'a, T> {
    /// Y = alpha A X + beta Y. With one owner of all rows the kernels are queued, and there is no report. The faults are those from
    /// which the product recovered.
    pub fn apply(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &mut Vectors<T>,
    ) -> Result<(Option<RunReport>, Vec<FaultReport>)> {
        self.begin_call()?;
        self.apply_call(scaling, x, y).inspect_err(|_| {
            self.ranks.iter().for_each(|ranks| ranks.communicator.members().calls.give_up());
        })
    }

    fn apply_call(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &mut Vectors<T>,
    ) -> Result<(Option<RunReport>, Vec<FaultReport>)> {
        if !Arc::ptr_eq(&x.distribution, &self.x) || !Arc::ptr_eq(&y.distribution, &self.y) {
            return Err(Error::usage("X or Y belongs to another product; use the vectors of this product"));
        }
        match self.checks.is_due() {
            true => self.apply_checked(scaling, x, y),
            false => self.apply_unchecked(scaling, x, y),
        }
    }

    /// Counts the product as a call of all ranks, also on a rank that sends and receives no rows with it.
    fn begin_call(&self) -> Result<()> {
        if let (Some(ranks), Some(mut network)) = (&self.ranks, self.network()) {
            network.begin(ranks.communicator.members().calls.begin()?);
        }
        Ok(())
    }

    pub(crate) fn apply_unchecked(
        &mut self,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &mut Vectors<T>,
    ) -> Result<(Option<RunReport>, Vec<FaultReport>)> {
        let applied = match self.x.parts.len() {
            _ if self.x.machine.is_some() => {
                self.simulate(scaling, x).map(|report| (Some(report), Vec::new()))
            }
            0 | 1 if !self.has_rank_messages() => {
                self.apply_alone(scaling, x, y).map(|fault| (None, fault.into_iter().collect()))
            }
            _ => {
                let applied = self.apply_together(scaling, x, y).map(|report| {
                    let faults = report.faults.clone();
                    (Some(report), faults)
                });
                if applied.is_err() {
                    self.network().into_iter().for_each(|mut network| drop(network.abandon()));
                }
                applied
            }
        };
        y.changed();
        applied
    }

    /// Whether Y is updated in place.
    pub(crate) fn reads_y(scaling: Scaling) -> bool {
        scaling.reads_y()
    }

    /// The product in virtual time.
    fn simulate(&mut self, scaling: Scaling, x: &Vectors<T>) -> Result<RunReport> {
        let Backing::Simulated(_, machine) = &self.backing else {
            return Err(Error::Internal("a product on real devices is not simulated".into()));
        };
        let machine = machine.clone();
        let exchange = !x.exchanged.swap(true, Ordering::Relaxed);
        let chunks = vec![true; self.chunks.len()];
        let (reads_y, ranks) = (Self::reads_y(scaling), self.no_messages());
        let planned = self.planned(&Wanted { exchange, reads_y, chunks, ranks })?;
        let start_ns = machine.now_ns();
        let outcome = machine.run(&planned)?;
        let round = Round { planned, outcome };
        self.record(&round);
        let (rounds, faults) = (vec![round], Vec::new());
        Ok(RunReport { start_ns, end_ns: machine.now_ns(), rounds, faults, cancelled: false, check_s: None })
    }

    /// The product with one owner of all rows. Returns the loss of its device, after which the host has computed it.
    fn apply_alone(&self, scaling: Scaling, x: &Vectors<T>, y: &Vectors<T>) -> Result<Option<FaultReport>> {
        let mut lost = None;
        let (prepared, run) = (self.prepared()?, self.product_run(scaling, x, y)?);
        if let Some(part) = self.y.parts.first()
            && part.device().is_some()
        {
            let queue = || -> Result<()> {
                let mut locked = prepared.lock_with_a()?;
                let device = locked.device(DeviceId(part.index as u32)).ok_or_else(missing_part)?;
                for (index, chunk) in prepared.plan().chunks.iter().enumerate() {
                    let operation = run.launch(index, false)?;
                    let predicted_s = chunk.predicted_s;
                    let queued = device.submit(
                        Submission::new(&part.operations, "product", COMPUTE, predicted_s),
                        operation,
                        &[],
                    );
                    queued.map_err(|fault| fault.into_error(&part.name))?;
                }
                Ok(())
            };
            match queue() {
                Err(error) if part.close_if_lost() || part.device().is_none() => {
                    if !Self::reads_y(scaling) {
                        y.overwrite(0)?;
                    }
                    let (device, recovered_on) = (part.name.clone(), Some("cpu".into()));
                    let (task, error) = ("product".into(), error.message());
                    lost = Some(FaultReport { device, task, error, recovered_on });
                }
                result => return result.map(|()| None),
            }
        }
        for (index, chunk) in self.chunks.iter().enumerate() {
            let (x, mut y) = (x.host_part(chunk.owner)?, y.host_part(chunk.owner)?);
            let rows = view_rows_mut(&mut y, chunk.stored.start as usize..chunk.stored.end as usize);
            prepared.run_on_host(index, scaling, x.view(), rows)?;
        }
        Ok(lost)
    }

    /// The product of X and Y, for its operations.
    pub(crate) fn product_run<'r>(
        &'r self,
        scaling: Scaling,
        x: &'r Vectors<T>,
        y: &'r Vectors<T>,
    ) -> Result<ProductRun<'r, 'a, T>> {
        let (chunks, messages, prepared) = (&self.chunks[..], &self.messages, self.prepared()?);
        let (departures, arrivals) = (&self.departures[..], &self.arrivals[..]);
        Ok(ProductRun { prepared, chunks, messages, departures, arrivals, x, y, scaling })
    }

    /// The product with several owners of rows: runs the graph, and again what a lost device left. Other ranks wait meanwhile for the
    /// messages that it did not send, or have lost a device themselves.
    fn apply_together(&mut self, scaling: Scaling, x: &Vectors<T>, y: &Vectors<T>) -> Result<RunReport> {
        let clock = self.prepared()?.clock();
        let start_ns = clock.now_ns();
        let (mut rounds, mut faults) = (Vec::new(), Vec::new());
        let (mut chunks, mut ranks) = (vec![true; self.chunks.len()], self.no_messages());
        loop {
            self.update_owners()?;
            // Ranks do not know of each other whether X has changed.
            let exchange = self.has_rank_messages() || !x.exchanged.load(Ordering::Relaxed);
            let reads_y = Self::reads_y(scaling);
            let wanted = Wanted { exchange, reads_y, chunks: chunks.clone(), ranks: ranks.clone() };
            let planned = self.planned(&wanted)?;
            let outcome = self.run_round(&planned, scaling, x, y)?;
            let round = Round { planned, outcome };
            self.record(&round);
            let complete = round.outcome.is_complete();
            if !complete {
                if let Some(error) = self.failure_of_ranks(&round) {
                    return Err(error);
                }
                faults.extend(self.move_lost_rows(&round, x, y, &mut chunks)?);
                mark_complete(&round, &mut ranks);
            }
            // A lost device had received rows that its successor has not.
            x.exchanged.store(complete, Ordering::Relaxed);
            rounds.push(round);
            if complete {
                return Ok(RunReport {
                    start_ns,
                    end_ns: clock.now_ns(),
                    rounds,
                    faults,
                    cancelled: false,
                    check_s: None,
                });
            }
        }
    }

    fn run_round(
        &self,
        planned: &Planned,
        scaling: Scaling,
        x: &Vectors<T>,
        y: &Vectors<T>,
    ) -> Result<ExecOutcome> {
        let (mut x_guards, mut y_guards) = (lock_host_rows(x)?, lock_host_rows(y)?);
        let host = HostRows::new(&mut x_guards, &mut y_guards, &self.chunks);
        let (prepared, run) = (self.prepared()?, self.product_run(scaling, x, y)?);
        let interior: Vec<bool> =
            (0..self.chunks.len()).map(|chunk| self.exchange.is_interior(chunk)).collect();
        let mut binder = VectorBinder { run: &run, host: &host, interior: &interior, planned };
        prepared.run_tasks(planned, &mut binder, self.network().as_deref_mut())
    }

    /// Keeps a round for a trace, if the runtime records.
    fn record(&mut self, round: &Round) {
        if !self.runtime.is_recording() {
            return;
        }
        if self.traced.is_none() {
            self.traced = Some((Arc::new(self.plan().clone()), self.descriptions().into()));
        }
        let Some((plan, descriptions)) = &self.traced else { return };
        self.runtime.record_round(plan, descriptions, round);
    }
}
