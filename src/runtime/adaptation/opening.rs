//! For `auto`: opens GPUs where the products that remain pay for it.

use super::{Adaptation, FIRST_USE_SECONDS, OPENING_SECONDS};
use crate::adapt::Processors;
use crate::kernel::Processor;
use crate::kernel::cpu::Kernels;

/// Bandwidth that no link between host and GPU exceeds by much, in each direction.
const FASTEST_LINK_GB_PER_S: f64 = 64.0;

impl<T: Kernels> Adaptation<'_, T> {
    /// For `auto`: opens cards where the products that remain pay for it, and proposes them once they are open.
    pub(super) fn look_for_cards(&mut self) {
        if self.runtime.looked().is_none() {
            if !self.runtime.is_looking() && self.opening_pays() {
                self.runtime.look();
            }
            if self.runtime.is_looking() && self.course.waits(OPENING_SECONDS) {
                self.runtime.wait_for_look();
            }
        }
        match self.runtime.looked() {
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
                self.notes.push(format!("the GPUs are not used: {error}"));
                self.rates = self.cpu_rates.clone();
            }
        }
    }

    /// Whether the GPUs that the system lists are predicted to pay for opening them. The driver is not started for the answer.
    fn opening_pays(&mut self) -> bool {
        if !self.course.knows_cpu(OPENING_SECONDS) {
            return false;
        }
        let with_gpu = |processors| self.learned.as_ref().and_then(|learned| learned.seconds(processors));
        let remembered_s = match (with_gpu(Processors::Gpu), with_gpu(Processors::Both)) {
            (Some(one), Some(other)) => Some(f64::min(one, other)),
            (one, other) => one.or(other),
        };
        // The driver's link bounds the product from below, which saves planning for GPUs that cannot pay.
        let view = self.matrix.view();
        let rows = view.rows().max(view.cols()) as f64;
        let copy_s = rows * (self.k * size_of::<T>()) as f64 * 1e-9 / FASTEST_LINK_GB_PER_S;
        if !self.course.may_pay(OPENING_SECONDS + FIRST_USE_SECONDS, copy_s) {
            return false;
        }
        if self.expected_gpu.is_none() {
            let listed = self.runtime.resolve_listed(&self.options);
            let planned = listed.and_then(|rates| self.plan_with(&rates, Some(Processor::Gpu)));
            // GPUs that cannot be planned for are opened only if the CPU takes far longer than that.
            self.expected_gpu = Some(planned.map_or((0.0, 1.0), |plan| {
                (plan.predicted_s, plan.set_up.total_s() - plan.set_up.open_s + FIRST_USE_SECONDS)
            }));
        }
        let (predicted_s, set_up_s) = self.expected_gpu.unwrap_or_default();
        self.course.may_pay(OPENING_SECONDS + set_up_s, remembered_s.unwrap_or(predicted_s))
    }
}
