//! For `auto`: opens GPUs where the products that remain pay for it.

use super::{Adaptation, ExpectedGpu, FIRST_USE_SECONDS, OPENING_SECONDS};
use crate::adapt::Processors;
use crate::error::Result;
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;

/// Bandwidth that no link between host and GPU exceeds by much, in each direction.
const FASTEST_LINK_GB_PER_S: f64 = 64.0;

impl<T: Kernels> Adaptation<'_, T> {
    /// For `auto`: opens cards where the products that remain pay for it, and proposes them once they are open.
    pub(super) fn probe_cards(&mut self) {
        if self.runtime.probe_result().is_none() {
            if !self.runtime.is_probing() && self.opening_pays() {
                self.runtime.start_probe();
            }
            if self.runtime.is_probing() && self.choice.waits(OPENING_SECONDS) {
                self.runtime.wait_for_probe();
            }
        }
        match self.runtime.probe_result() {
            None => return,
            Some(Err(reason)) => {
                self.notes.push(format!("no GPU can be used; the CPU computes everything ({reason})"));
                self.rates = self.cpu_rates.clone();
                return;
            }
            Some(Ok(())) => {}
        }
        let resolved = self.runtime.resolve(&self.options);
        let planned = resolved.and_then(|rates| {
            let plan = self.plan_with(&rates, Some(Processor::Gpu))?;
            Ok((rates, plan))
        });
        match planned {
            Ok((rates, plan)) => {
                self.rates = Some(rates);
                self.propose(Processors::Gpu, plan);
            }
            Err(error) => {
                self.notes.push(format!("the GPUs are not used: {}", error.message()));
                self.rates = self.cpu_rates.clone();
            }
        }
    }

    /// Whether the GPUs that the system lists are predicted to pay for opening them. The driver is not started for the answer.
    fn opening_pays(&mut self) -> bool {
        if !self.choice.knows_cpu(OPENING_SECONDS) {
            return false;
        }
        let with_gpu = |processors| self.times.as_ref().and_then(|times| times.seconds(processors));
        let remembered_s = match (with_gpu(Processors::Gpu), with_gpu(Processors::Both)) {
            (Some(one), Some(other)) => Some(f64::min(one, other)),
            (one, other) => one.or(other),
        };
        // The link bounds the product from below, which saves planning for GPUs that cannot pay.
        let view = self.matrix.view();
        let rows = view.rows().max(view.cols()) as f64;
        let copy_s = rows * (self.k * size_of::<T>()) as f64 * 1e-9 / FASTEST_LINK_GB_PER_S;
        let opening_s = OPENING_SECONDS + FIRST_USE_SECONDS;
        let Some(cpu) = self.choice.alternative(Processors::Cpu) else { return true };
        let may_pay = self.choice.may_pay(opening_s, copy_s);
        let bound_s = ideal_shared_s(cpu.product_s(), copy_s);
        if !may_pay && !self.choice.sharing_may_pay(opening_s, bound_s) {
            return false;
        }
        if self.expected_gpu.is_none() {
            // GPUs that cannot be planned for are opened only if the CPU takes far longer than that.
            let unknown = ExpectedGpu { product_s: 0.0, shared_s: None, set_up_s: 1.0 };
            self.expected_gpu = Some(self.expect_listed().unwrap_or(unknown));
        }
        let Some(expected) = &self.expected_gpu else { return false };
        let opening_s = OPENING_SECONDS + expected.set_up_s;
        self.choice.may_pay(opening_s, remembered_s.unwrap_or(expected.product_s))
            || expected.shared_s.is_some_and(|shared_s| self.choice.sharing_may_pay(opening_s, shared_s))
    }

    /// Predicts products on the GPUs that the system lists, alone and together with the CPU.
    fn expect_listed(&self) -> Result<ExpectedGpu> {
        let rates = self.runtime.resolve_listed(&self.options)?;
        let plan = self.plan_with(&rates, Some(Processor::Gpu))?;
        let set_up_s = plan.set_up.total_s() - plan.set_up.open_s + FIRST_USE_SECONDS;
        let mut expected = ExpectedGpu { product_s: plan.predicted_s, shared_s: None, set_up_s };
        let Some(cpu) = self.choice.alternative(Processors::Cpu) else { return Ok(expected) };
        let ideal_s = ideal_shared_s(cpu.product_s(), expected.product_s);
        let alone_pays = self.choice.may_pay(OPENING_SECONDS + set_up_s, expected.product_s);
        if alone_pays || !self.choice.sharing_may_pay(OPENING_SECONDS + set_up_s, ideal_s) {
            return Ok(expected);
        }
        let shared = self.plan_shared(rates, cpu, None)?;
        expected.shared_s = shared.map(|(_, plan)| plan.predicted_s);
        Ok(expected)
    }
}

/// Seconds of a product that two processors share, if sharing costs nothing.
fn ideal_shared_s(cpu_s: f64, gpu_s: f64) -> f64 {
    cpu_s * gpu_s / (cpu_s + gpu_s).max(f64::MIN_POSITIVE)
}
