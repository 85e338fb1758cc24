//! Which processors compute the next product: those with the least total time for the products that remain.
//!
//! The number of products is often unknown. Then as many are expected as were computed so far (the ski-rental rule): a change is made
//! once the time that it would have saved so far pays for it. The total is then at most about twice the best that was possible.

use serde::{Deserialize, Serialize};

/// Products of an alternative after which its steady-state time counts as known.
const WANTED_PRODUCTS: usize = 3;
/// The same for the CPU and the GPUs together: their first products wait for each other longer than later ones.
const WANTED_SHARED_PRODUCTS: usize = 6;
/// Seconds after which two products are enough.
const LONG_SECONDS: f64 = 0.15;
/// Most recent products that the steady-state time is taken from.
const KEPT_PRODUCTS: usize = 64;
/// A change to an alternative that must be set up first takes at most this share of the time without it.
const SET_UP_MARGIN: f64 = 0.97;
/// A change to an alternative that is ready takes at most this share of the time without it.
const READY_MARGIN: f64 = 0.99;
/// Sharing must take at most this share of the time of one kind of processors alone: two kinds are more sensitive to other load.
const SHARING_MARGIN: f64 = 0.97;
/// A change to processors that were not timed on this matrix takes at most this share of the time without it: predictions err.
const UNTRIED_MARGIN: f64 = 0.85;
/// The same for untried sharing with GPUs that are not open yet: devices that run together slow each other down by more than predicted.
const UNTRIED_SHARING_MARGIN: f64 = 0.85;
/// The same with open GPUs, where a trial costs little: its set-up is counted [`SHARING_SET_UPS`] times.
const OPEN_SHARING_MARGIN: f64 = 0.97;
/// Multiple of its set-up that untried sharing must save: it is often given up again.
const SHARING_SET_UPS: f64 = 3.0;

/// Seconds of products on the CPU after which their time is known well enough to open GPUs: the first ones run with cold caches.
const CPU_SECONDS: f64 = 0.03;
/// The CPU is not timed first where one product on it is predicted to take this share of opening the GPUs.
const LONG_PRODUCT_RATIO: f64 = 0.5;
/// Devices that are being opened are waited for where a product on the CPU takes this multiple of opening them.
const WAIT_RATIO: f64 = 1.5;

/// The processors that compute a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processors {
    /// The CPU alone.
    Cpu,
    /// The GPUs alone.
    Gpu,
    /// The CPU and the GPUs.
    Both,
}

impl Processors {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "the CPU",
            Self::Gpu => "the GPUs",
            Self::Both => "the CPU and the GPUs",
        }
    }
}

/// One way to compute the products.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The processors.
    pub processors: Processors,
    /// Predicted seconds of a product.
    pub predicted_s: f64,
    /// Predicted seconds until the first product can start.
    pub set_up_s: f64,
    /// Whether it is set up.
    pub is_ready: bool,
    /// Whether it failed and is not to be tried again.
    pub is_refused: bool,
    /// Steady-state seconds that an earlier process measured with the same matrix.
    pub remembered_s: Option<f64>,
    /// Seconds of its last products since the last change to it.
    seconds: Vec<f64>,
    /// Its steady-state time before the last change to it.
    settled_s: Option<f64>,
}

impl Alternative {
    /// An alternative that is not set up.
    pub fn new(processors: Processors, predicted_s: f64, set_up_s: f64, remembered_s: Option<f64>) -> Self {
        let (is_ready, is_refused, seconds, settled_s) = (false, false, Vec::new(), None);
        Self { processors, predicted_s, set_up_s, is_ready, is_refused, remembered_s, seconds, settled_s }
    }

    /// The median of the later half of its products since the last change to it, once there are enough; until then the median before that change.
    pub fn steady_state_s(&self) -> Option<f64> {
        let wanted =
            if self.processors == Processors::Both { WANTED_SHARED_PRODUCTS } else { WANTED_PRODUCTS };
        let enough = self.seconds.len() >= wanted
            || self.seconds.len() >= 2 && self.seconds.iter().sum::<f64>() >= LONG_SECONDS;
        let mut later = match self.seconds.get(self.seconds.len() / 2..).filter(|_| enough) {
            Some(later) => later.to_vec(),
            None => return self.settled_s,
        };
        later.sort_by(f64::total_cmp);
        later.get(later.len().saturating_sub(1) / 2).copied()
    }

    /// Seconds of a product: measured, else remembered, else predicted.
    pub fn product_s(&self) -> f64 {
        self.steady_state_s().or(self.remembered_s).unwrap_or(self.predicted_s)
    }

    fn is_known(&self) -> bool {
        self.steady_state_s().or(self.remembered_s).is_some()
    }
}

/// The ways to compute a product, with their predicted and measured times, and the products so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessorChoice {
    /// Number of products in all; `None` where the caller does not know it.
    uses: Option<u64>,
    done: u64,
    spent_s: f64,
    alternatives: Vec<Alternative>,
    current: Option<Processors>,
    /// Whether the next product is the first one after a change.
    is_first: bool,
}

impl ProcessorChoice {
    /// The choice for `uses` products; `None` for an unknown number.
    pub fn new(uses: Option<u64>) -> Self {
        Self { uses, done: 0, spent_s: 0.0, alternatives: Vec::new(), current: None, is_first: false }
    }

    /// The number of products that are expected to follow.
    pub fn remaining(&self) -> u64 {
        match self.uses {
            Some(uses) if uses > self.done => uses - self.done,
            _ => self.done.max(1),
        }
    }

    /// Products so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Seconds of all products so far.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// The processors that compute now; `None` before the first product.
    pub fn current(&self) -> Option<Processors> {
        self.current
    }

    /// The alternative with these processors.
    pub fn alternative(&self, processors: Processors) -> Option<&Alternative> {
        self.alternatives.iter().find(|alternative| alternative.processors == processors)
    }

    /// Adds an alternative, or replaces the one with the same processors.
    pub fn propose(&mut self, alternative: Alternative) {
        self.alternatives.retain(|known| known.processors != alternative.processors);
        if self.current == Some(alternative.processors) {
            self.current = None;
        }
        self.alternatives.push(alternative);
    }

    /// Whether it is time to decide about opening GPUs, which takes `opening_s`: the time of a product on the CPU is known, or one
    /// takes too long to try.
    pub fn knows_cpu(&self, opening_s: f64) -> bool {
        let Some(cpu) = self.alternative(Processors::Cpu) else { return true };
        let measured = cpu.steady_state_s().is_some() && self.spent_s >= CPU_SECONDS;
        cpu.remembered_s.is_some() || measured || cpu.predicted_s > LONG_PRODUCT_RATIO * opening_s
    }

    /// Whether GPUs pay that take `opening_s` seconds until their first product, and `gpu_s` for each product.
    pub fn may_pay(&self, opening_s: f64, gpu_s: f64) -> bool {
        let Some(cpu) = self.alternative(Processors::Cpu) else { return true };
        let remaining = self.remaining() as f64;
        opening_s + remaining * gpu_s < UNTRIED_MARGIN * remaining * cpu.product_s()
    }

    /// Whether GPUs pay that take `opening_s` seconds until their first product, if they share each product with the CPU and it then
    /// takes `shared_s`.
    pub fn sharing_may_pay(&self, opening_s: f64, shared_s: f64) -> bool {
        let Some(cpu) = self.alternative(Processors::Cpu) else { return true };
        let remaining = self.remaining() as f64;
        opening_s + remaining * shared_s < UNTRIED_SHARING_MARGIN * remaining * cpu.product_s()
    }

    /// Whether to wait for devices that take `opening_s` to open: one product on the CPU takes longer than that.
    pub fn waits(&self, opening_s: f64) -> bool {
        let cpu = self.alternative(Processors::Cpu);
        cpu.is_none_or(|cpu| cpu.product_s() > WAIT_RATIO * opening_s)
    }

    /// The processors to compute the next product; `None` without a usable alternative.
    pub fn next(&self) -> Option<Processors> {
        if let ([only], Some(_)) = (&self.alternatives[..], self.current) {
            return (!only.is_refused).then_some(only.processors);
        }
        let remaining = self.remaining() as f64;
        let total_s = |one: &Alternative| {
            let is_trial = one.processors == Processors::Both && !one.is_known();
            let set_ups = if is_trial { SHARING_SET_UPS } else { 1.0 };
            let set_up_s = if one.is_ready { 0.0 } else { set_ups * one.set_up_s };
            set_up_s + remaining * one.product_s()
        };
        let usable = || self.alternatives.iter().filter(|one| !one.is_refused);
        let best = usable().min_by(|a, b| total_s(a).total_cmp(&total_s(b)))?;
        let Some(current) = self.current.and_then(|current| usable().find(|one| one.processors == current))
        else {
            return Some(best.processors);
        };
        let mut margin = if best.is_ready { READY_MARGIN } else { SET_UP_MARGIN };
        match (best.processors, best.is_known()) {
            (Processors::Both, false) => margin = margin.min(OPEN_SHARING_MARGIN),
            (Processors::Both, true) => margin = margin.min(SHARING_MARGIN),
            (_, false) => margin = margin.min(UNTRIED_MARGIN),
            _ => {}
        }
        let pays = total_s(best) < margin * total_s(current);
        // Sharing that hardly gains is given up for one kind of processors.
        let alone =
            usable().filter(|one| one.is_ready && one.is_known() && one.processors != Processors::Both);
        let alone = alone.min_by(|a, b| a.product_s().total_cmp(&b.product_s()));
        match alone {
            Some(alone)
                if current.processors == Processors::Both
                    && current.is_known()
                    && SHARING_MARGIN * alone.product_s() < current.product_s() =>
            {
                Some(alone.processors)
            }
            _ if pays => Some(best.processors),
            _ => Some(current.processors),
        }
    }

    /// The alternative with these processors is set up and computes from now on. The next product is not timed unless it is
    /// the very first: caches are cold, and threads sleep.
    pub fn change_to(&mut self, processors: Processors) {
        self.is_first = self.done > 0;
        self.current = Some(processors);
        for one in self.alternatives.iter_mut().filter(|one| one.processors == processors) {
            one.is_ready = true;
            one.settled_s = one.steady_state_s();
            one.seconds.clear();
        }
    }

    /// The alternative with these processors cannot be used.
    pub fn refuse(&mut self, processors: Processors) {
        for one in self.alternatives.iter_mut().filter(|one| one.processors == processors) {
            (one.is_refused, one.is_ready) = (true, false);
        }
        self.current = self.current.filter(|current| *current != processors);
    }

    /// The alternative with these processors may be tried again.
    pub fn readmit(&mut self, processors: Processors) {
        for one in self.alternatives.iter_mut().filter(|one| one.processors == processors) {
            one.is_refused = false;
        }
    }

    /// The alternative with these processors is no longer set up.
    pub fn release(&mut self, processors: Processors) {
        for one in self.alternatives.iter_mut().filter(|one| one.processors == processors) {
            one.is_ready = false;
        }
    }

    /// Records a product whose time says nothing about later ones, such as one on the CPU while GPUs are opened.
    pub fn record_untimed(&mut self, seconds: f64) {
        self.done += 1;
        self.spent_s += seconds;
    }

    /// Records a product of the current alternative.
    pub fn record(&mut self, seconds: f64) {
        self.record_untimed(seconds);
        if std::mem::take(&mut self.is_first) {
            return;
        }
        let current = self.current;
        for one in self.alternatives.iter_mut().filter(|one| Some(one.processors) == current) {
            if one.seconds.len() == KEPT_PRODUCTS {
                one.seconds.remove(0);
            }
            one.seconds.push(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU_S: f64 = 0.010;
    const GPU_S: f64 = 0.001;

    /// Runs `count` products in simulated time, with a GPU that is proposed once `opening_s` have passed. Returns the total time.
    fn total_s(uses: Option<u64>, count: u64, cpu_s: f64, gpu_s: f64, opening_s: f64, set_up_s: f64) -> f64 {
        let mut choice = ProcessorChoice::new(uses);
        choice.propose(Alternative::new(Processors::Cpu, cpu_s, 0.0, None));
        let (mut now_s, mut opened_at) = (0.0, None);
        for _ in 0..count {
            let pays = || choice.knows_cpu(opening_s) && choice.may_pay(opening_s + set_up_s, gpu_s);
            if opened_at.is_none() && pays() {
                opened_at = Some(now_s + opening_s);
            }
            if let Some(at) = opened_at.filter(|_| choice.waits(opening_s)) {
                now_s = f64::max(now_s, at);
            }
            if opened_at.is_some_and(|at| now_s >= at) && choice.alternative(Processors::Gpu).is_none() {
                choice.propose(Alternative::new(Processors::Gpu, gpu_s, set_up_s, None));
            }
            let next = choice.next().unwrap();
            if choice.current() != Some(next) {
                now_s += choice.alternative(next).filter(|one| !one.is_ready).map_or(0.0, |one| one.set_up_s);
                choice.change_to(next);
            }
            let seconds = if next == Processors::Cpu { cpu_s } else { gpu_s };
            match opened_at.is_some_and(|at| now_s < at) {
                true => choice.record_untimed(seconds),
                false => choice.record(seconds),
            }
            now_s += seconds;
        }
        now_s
    }

    #[test]
    fn the_total_is_near_the_better_processor_for_any_known_number_of_products() {
        let (opening_s, set_up_s) = (0.3, 0.1);
        for uses in [1, 5, 10, 30, 41, 50, 100, 1000, 100_000] {
            for (cpu_s, gpu_s) in [(CPU_S, GPU_S), (CPU_S, 0.009), (GPU_S, CPU_S), (0.5, 0.01)] {
                let total_s = total_s(Some(uses), uses, cpu_s, gpu_s, opening_s, set_up_s);
                let cpu = uses as f64 * cpu_s;
                let gpu = opening_s + set_up_s + uses as f64 * gpu_s;
                // Predictions that differ by less than their error do not change anything.
                let bound = if (cpu / gpu - 1.0).abs() < 0.25 { 1.25 } else { 1.05 };
                assert!(total_s <= bound * cpu.min(gpu), "{uses} products of {cpu_s} s: {total_s} s");
            }
        }
    }

    #[test]
    fn an_unknown_number_of_products_costs_at_most_about_twice_the_best() {
        let (opening_s, set_up_s) = (0.3, 0.1);
        for count in [1, 10, 30, 60, 90, 200, 1000, 10_000] {
            let total_s = total_s(None, count, CPU_S, GPU_S, opening_s, set_up_s);
            let best_s = (count as f64 * CPU_S).min(opening_s + set_up_s + count as f64 * GPU_S);
            assert!(total_s <= 2.3 * best_s, "{count} products: {total_s} s, best {best_s} s");
        }
        let many_s = total_s(None, 10_000, CPU_S, GPU_S, opening_s, set_up_s);
        assert!(many_s <= 1.1 * 10.4, "{many_s}");
    }

    #[test]
    fn few_or_small_products_open_no_card() {
        let cpu = || Alternative::new(Processors::Cpu, CPU_S, 0.0, None);
        let mut choice = ProcessorChoice::new(Some(20));
        choice.propose(cpu());
        assert!(!choice.may_pay(0.3, GPU_S));
        let mut choice = ProcessorChoice::new(Some(80));
        choice.propose(cpu());
        assert!(choice.may_pay(0.3, GPU_S) && !choice.knows_cpu(0.3), "the CPU was not measured yet");
        assert!(!choice.may_pay(0.3, 0.9 * CPU_S));
        choice.change_to(Processors::Cpu);
        (0..4).for_each(|_| choice.record(CPU_S / 4.0));
        assert!(!choice.knows_cpu(0.3));
        (0..20).for_each(|_| choice.record(CPU_S / 4.0));
        assert!(choice.knows_cpu(0.3) && !choice.may_pay(0.3, GPU_S), "the CPU is faster than predicted");
        let mut long = ProcessorChoice::new(Some(5));
        long.propose(Alternative::new(Processors::Cpu, 0.2, 0.0, None));
        assert!(long.knows_cpu(0.3), "a product takes too long to try");
        let mut unknown = ProcessorChoice::new(None);
        unknown.propose(cpu());
        assert!(!unknown.may_pay(0.3, GPU_S));
        unknown.change_to(Processors::Cpu);
        (0..50).for_each(|_| unknown.record(CPU_S));
        assert!(unknown.may_pay(0.3, GPU_S), "the products so far took longer than opening the card");
    }

    #[test]
    fn a_gpu_that_is_slower_than_the_cpu_is_opened_if_sharing_pays() {
        let mut choice = ProcessorChoice::new(Some(1000));
        choice.propose(Alternative::new(Processors::Cpu, CPU_S, 0.0, None));
        let slower_s = 1.5 * CPU_S;
        assert!(!choice.may_pay(0.3, slower_s));
        assert!(choice.sharing_may_pay(0.3, 0.6 * CPU_S));
        assert!(
            !choice.sharing_may_pay(0.3, 0.9 * CPU_S),
            "the gain is smaller than the error of predictions"
        );
        let mut few = ProcessorChoice::new(Some(20));
        few.propose(Alternative::new(Processors::Cpu, CPU_S, 0.0, None));
        assert!(!few.sharing_may_pay(0.3, 0.1 * CPU_S), "20 products do not pay for opening");
    }

    #[test]
    fn sharing_that_measures_slower_or_hardly_faster_is_given_up() {
        for (shared_s, kept) in [(0.0008, true), (0.00099, false), (0.0015, false)] {
            let mut choice = ProcessorChoice::new(Some(1000));
            choice.propose(Alternative::new(Processors::Gpu, GPU_S, 0.1, None));
            choice.change_to(Processors::Gpu);
            (0..5).for_each(|_| choice.record(GPU_S));
            choice.propose(Alternative::new(Processors::Both, 0.0005, 0.05, None));
            assert_eq!(choice.next(), Some(Processors::Both));
            choice.change_to(Processors::Both);
            choice.record(10.0 * GPU_S);
            (0..6).for_each(|_| choice.record(shared_s));
            assert_eq!(choice.next() == Some(Processors::Both), kept, "{shared_s}");
        }
    }

    #[test]
    fn slow_first_products_after_a_change_back_do_not_change_the_plan_again() {
        let mut choice = ProcessorChoice::new(Some(1000));
        choice.propose(Alternative::new(Processors::Cpu, CPU_S, 0.0, None));
        choice.change_to(Processors::Cpu);
        (0..8).for_each(|_| choice.record(CPU_S));
        choice.propose(Alternative::new(Processors::Gpu, 1.3 * CPU_S, 0.1, None));
        choice.propose(Alternative::new(Processors::Both, 0.6 * CPU_S, 0.1, None));
        assert_eq!(choice.next(), Some(Processors::Both));
        choice.change_to(Processors::Both);
        (0..7).for_each(|_| choice.record(1.1 * CPU_S));
        assert_eq!(choice.next(), Some(Processors::Cpu));
        choice.change_to(Processors::Cpu);
        for seconds in [2.0 * CPU_S, 1.5 * CPU_S, 1.5 * CPU_S] {
            choice.record(seconds);
            assert_eq!(choice.next(), Some(Processors::Cpu));
        }
    }

    #[test]
    fn a_change_that_the_remaining_products_do_not_pay_for_is_not_made() {
        let mut choice = ProcessorChoice::new(Some(12));
        choice.propose(Alternative::new(Processors::Gpu, GPU_S, 0.1, None));
        choice.change_to(Processors::Gpu);
        (0..5).for_each(|_| choice.record(GPU_S));
        choice.propose(Alternative::new(Processors::Both, 0.0005, 0.1, None));
        assert_eq!(choice.next(), Some(Processors::Gpu));
    }

    #[test]
    fn a_refused_alternative_is_not_chosen_again() {
        let mut choice = ProcessorChoice::new(Some(1000));
        choice.propose(Alternative::new(Processors::Cpu, CPU_S, 0.0, None));
        choice.propose(Alternative::new(Processors::Gpu, GPU_S, 0.1, None));
        assert_eq!(choice.next(), Some(Processors::Gpu));
        choice.refuse(Processors::Gpu);
        assert_eq!(choice.next(), Some(Processors::Cpu));
    }
}
