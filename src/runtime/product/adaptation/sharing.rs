//! The CPU and the GPUs share a product: proposes it once one of them was measured, and adjusts the shares by measured times.

use super::{Adaptation, BestShares, MAX_ROUNDS, Processors};
use crate::adapt::{
    Alternative, ResolvedDevices, corrected_by, is_shared, moved_share, raise_memory_bandwidth, scale_times,
};
use crate::error::{Counted, Result};
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;
use crate::plan::Plan;
use crate::runtime::run::RunReport;
use crate::work::spmm::cost::eligible;

/// Processors whose times differ by more than this factor do not share a product: the gain is smaller than the noise.
const MAX_SPEED_RATIO: f64 = 6.0;
/// Shares are adjusted only if at least this share of the nonzeros moves.
const MIN_MOVED_SHARE: f64 = 0.02;
/// Largest predicted time of a product with adjusted shares, divided by the measured time with the current shares.
const REPLAN_MARGIN: f64 = 0.97;
/// The time that adjusted shares save must be at least this multiple of the time to prepare them.
const PREPARE_MARGIN: f64 = 1.5;

impl<'a, T: Kernels> Adaptation<'a, T> {
    /// Proposes that the CPU and the GPUs share the product, once one of them was measured.
    pub(super) fn propose_sharing(&mut self) {
        if self.considered_sharing || self.cpu_rates.is_none() {
            return;
        }
        let Some(rates) = self.rates.clone() else { return };
        let of = |processors| self.choice.alternative(processors).cloned();
        let (Some(cpu), Some(gpu)) = (of(Processors::Cpu), of(Processors::Gpu)) else { return };
        let current = self.choice.current().and_then(of);
        if current.is_none_or(|current| current.steady_state_s().is_none()) {
            return;
        }
        self.considered_sharing = true;
        let ratio = cpu.product_s() / gpu.product_s().max(1e-12);
        if !(1.0 / MAX_SPEED_RATIO..=MAX_SPEED_RATIO).contains(&ratio) {
            return;
        }
        match self.plan_shared(rates, &cpu, Some(&gpu)) {
            Ok(Some((corrected, plan))) => {
                self.shared_rates = Some(corrected);
                self.propose(Processors::Both, plan);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "a shared product could not be planned"),
        }
    }

    /// The shared plan with rates corrected by the known times of each kind of processors alone, if sharing is predicted to be faster.
    pub(super) fn plan_shared(
        &self,
        rates: ResolvedDevices,
        cpu: &Alternative,
        gpu: Option<&Alternative>,
    ) -> Result<Option<(ResolvedDevices, Plan)>> {
        let mut corrected = rates;
        for device in &mut corrected.devices {
            let alone = if device.profile.processor == Processor::Cpu { Some(cpu) } else { gpu };
            let ratio = alone.map_or(1.0, |alone| alone.product_s() / alone.predicted_s.max(1e-12));
            scale_times(&mut device.profile, eligible(Processor::Cpu), ratio);
        }
        for alone in gpu.into_iter().chain([cpu]) {
            if let Some(plan) = self.plan_of(alone.processors) {
                raise_memory_bandwidth(&mut corrected.host, plan, alone.product_s());
            }
        }
        let plan = self.plan_with(&corrected, None)?;
        Ok(is_shared(&plan).then_some((corrected, plan)))
    }

    /// Adjusts the shares by the measured times of a shared product.
    pub(super) fn adjust_shares(&mut self, report: &RunReport, seconds: f64) {
        self.rounds += 1;
        let Some(rates) = self.shared_rates.clone().or_else(|| self.rates.clone()) else { return };
        if let Some(best) = self.best_shares.as_ref().filter(|best| best.seconds < 0.98 * seconds) {
            // The last adjustment made it slower: back to the best shares, which are not adjusted again.
            let (best_rates, best_s) = (best.rates.clone(), best.seconds);
            self.rounds = MAX_ROUNDS;
            if let Ok(plan) = self.plan_with(&best_rates, None) {
                self.replace_shared(best_rates, plan, Some(best_s));
            }
            return;
        }
        let Some(plan) = self.current().map(|prepared| prepared.plan().clone()) else { return };
        let (adjusted, words) = {
            let view = self.matrix.view();
            let Ok(request) = self.request(&view, &rates, None) else { return };
            let observed = report.observation(plan.devices.len(), seconds);
            let (corrected, words) = corrected_by(&request, &plan, &observed);
            (ResolvedDevices { devices: corrected.devices, host: corrected.host, ..rates.clone() }, words)
        };
        let Ok(better) = self.plan_with(&adjusted, None) else { return };
        let saved_s = (seconds - better.predicted_s) * self.choice.remaining() as f64;
        let prepare_s = self.set_up_ratio * (better.set_up.total_s() - better.set_up.open_s);
        let pays = saved_s > PREPARE_MARGIN * prepare_s && better.predicted_s < REPLAN_MARGIN * seconds;
        if !pays || moved_share(&plan, &better) < MIN_MOVED_SHARE {
            self.rounds = MAX_ROUNDS;
            self.best_shares = Some(BestShares { rates, seconds });
            return;
        }
        self.notes.push(format!(
            "planned again after {} with measured speeds: {}",
            Counted(self.choice.done(), "product"),
            words.join("; ")
        ));
        self.best_shares = Some(BestShares { rates, seconds });
        self.replace_shared(adjusted, better, None);
    }

    /// Replaces the shared plan. It is prepared with the next product.
    fn replace_shared(&mut self, rates: ResolvedDevices, plan: Plan, known_s: Option<f64>) {
        self.shared_rates = Some(rates);
        let faults = &mut self.past_faults;
        self.prepared.retain(|(processors, prepared)| {
            let keeps = *processors != Processors::Both;
            if !keeps {
                faults.extend_from_slice(prepared.faults());
            }
            keeps
        });
        self.propose(Processors::Both, plan);
        if let Some(mut one) = self.choice.alternative(Processors::Both).cloned() {
            one.remembered_s = known_s;
            self.choice.propose(one);
        }
    }
}
