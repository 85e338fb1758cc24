//! Runs reductions over all ranks.

use std::sync::PoisonError;

use super::reduction::{Reduction, ReductionBinder, Shape};
use super::rows::RankRows;
use crate::device::NetworkDevice;
use crate::device::completion::Timeouts;
use crate::device::network::Call;
use crate::error::{Error, Result};
use crate::graph::DeviceId;
use crate::runtime::run::{PlanDevices, Round};
use crate::runtime::vectors::errors::misuse;

impl RankRows {
    /// Gives all ranks the partial results `own` of this rank and calls `add` with the bytes of every rank, in their order. All ranks
    /// call this, as a part of `call`.
    pub fn reduce(
        &self,
        call: Call,
        shape: Shape,
        own: &[u8],
        add: impl FnOnce(&[&[u8]]) -> Result<()> + Send,
    ) -> Result<()> {
        let reductions = &self.reductions;
        let rank = self.communicator.rank();
        let mut made = reductions.made.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match made.iter().position(|(of, _)| *of == shape) {
            Some(index) => index,
            None => {
                made.push((shape, reductions.make(shape, rank, self.span.total)?));
                made.len() - 1
            }
        };
        let Reduction { planned, partials } = &made[index].1;
        let to = partials.get(rank).filter(|to| to.bytes() == own.len());
        let to =
            to.ok_or_else(|| Error::Internal("partial results have another length than planned".into()))?;
        to.write().map_err(misuse)?.copy_from_slice(own);
        let add = || {
            let all =
                partials.iter().map(|bytes| bytes.read().map_err(misuse)).collect::<Result<Vec<_>>>()?;
            add(&all.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>())
        };
        let mut binder = ReductionBinder { planned, partials, own: rank, add: Some(Box::new(add)) };
        let mut network = reductions.network.lock().unwrap_or_else(PoisonError::into_inner);
        let (devices, pool) = (PlanDevices::new(network.clock(), Vec::new()), reductions.runtime.pool());
        network.begin(call);
        let timeouts = Timeouts { message: Some(network.timeout()), ..Timeouts::default() };
        let options = pool.exec_options(None, timeouts);
        let outcome = devices.lock().run(pool, planned, &mut binder, Some(&mut network), &options);
        let round = match outcome {
            Ok(outcome) => Round { planned: planned.clone(), outcome },
            Err(error) => {
                network.abandon();
                return Err(error);
            }
        };
        if reductions.runtime.is_recording() {
            let (plan, descriptions) = &reductions.traced;
            reductions.runtime.record_round(plan, descriptions, &round);
        }
        match round.outcome.is_complete() {
            true => Ok(()),
            false => Err(self.failure(&mut network, &round)),
        }
    }

    /// The error of a graph that was not completed: of another rank, or of a job.
    fn failure(&self, network: &mut NetworkDevice, round: &Round) -> Error {
        let (error, waits_for) = network.abandon();
        let of_host = round.outcome.faults.iter().find(|fault| fault.device == DeviceId::HOST);
        match (error, of_host, round.outcome.faults.first()) {
            (Some(error), ..) => error,
            (None, Some(fault), _) => {
                let reason = format!("{}: {}", round.planned.describe(fault.task), fault.fault.message);
                Error::device("cpu", reason)
            }
            (None, None, Some(fault)) => {
                let rank = waits_for.first().copied().unwrap_or(self.communicator.rank());
                self.communicator.rank_error(rank, format!("no answer: {}", fault.fault.message))
            }
            _ => Error::Internal("a reduction over ranks was cancelled".into()),
        }
    }
}
