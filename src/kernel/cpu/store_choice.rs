//! Whether Y is written with non-temporal stores, decided by the times of the first products.
//!
//! These stores bypass the caches. A Y that the caches would hold anyway may be faster with ordinary ones, and no size of a cache tells
//! from when on: of two processors with third-level caches of 36 and 300 MiB, ordinary stores are faster up to 24 MiB on the
//! first one, and up to 1 MiB on the second. Each product of the trial is a real one, and both kinds of stores give the same bits.

/// How Y is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreRule {
    /// With ordinary stores.
    Ordinary,
    /// With the stores that are faster in the first products.
    Timed,
    /// With non-temporal stores.
    NonTemporal,
}

/// Products of each kind of stores in a round. Only the last one counts: the others leave the caches as these stores do.
const PRODUCTS: usize = 2;
const MOST_ROUNDS: usize = 3;
/// So many rounds decide if the times differ by [`CLEAR_RATIO`]: one interrupted product must not.
const FEWEST_ROUNDS: usize = 2;
/// Times that differ by this factor need no further round.
const CLEAR_RATIO: f64 = 1.2;

/// The choice of a prepared product.
#[derive(Debug)]
pub(super) struct StoreChoice {
    non_temporal: bool,
    /// The products so far and the shortest time with ordinary and non-temporal stores, during the trial.
    trial: Option<(usize, [f64; 2])>,
}

impl StoreChoice {
    pub fn new(rule: StoreRule) -> Self {
        Self {
            non_temporal: rule != StoreRule::Ordinary,
            trial: (rule == StoreRule::Timed).then_some((0, [f64::INFINITY; 2])),
        }
    }

    /// Whether the next product has non-temporal stores.
    pub fn is_non_temporal(&self) -> bool {
        self.non_temporal
    }

    /// Whether the time of the next product has an effect.
    pub fn is_timed(&self) -> bool {
        self.trial.is_some()
    }

    /// Notes that a product took `seconds`.
    pub fn record(&mut self, seconds: f64) {
        let Some((products, shortest)) = &mut self.trial else { return };
        *products += 1;
        if !products.is_multiple_of(PRODUCTS) {
            return;
        }
        let own = &mut shortest[usize::from(self.non_temporal)];
        *own = own.min(seconds);
        self.non_temporal = !self.non_temporal;
        let (rounds, begun) = (*products / (2 * PRODUCTS), *products % (2 * PRODUCTS));
        let [ordinary, non_temporal] = *shortest;
        let is_clear = ordinary.max(non_temporal) > CLEAR_RATIO * ordinary.min(non_temporal);
        if begun == 0 && (is_clear && rounds >= FEWEST_ROUNDS || rounds == MOST_ROUNDS) {
            self.non_temporal = non_temporal < ordinary;
            self.trial = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of products until the decision, how many of them had the stores that were not chosen, and the decision.
    fn decided(mut seconds: impl FnMut(bool, usize) -> f64) -> (usize, usize, bool) {
        let mut choice = StoreChoice::new(StoreRule::Timed);
        let mut kinds = Vec::new();
        while choice.is_timed() {
            kinds.push(choice.is_non_temporal());
            choice.record(seconds(choice.is_non_temporal(), kinds.len()));
        }
        let chosen = choice.is_non_temporal();
        (kinds.len(), kinds.iter().filter(|kind| **kind != chosen).count(), chosen)
    }

    #[test]
    fn the_faster_stores_are_chosen_after_two_rounds_if_the_times_are_clear() {
        assert_eq!(decided(|non_temporal, _| if non_temporal { 1.0 } else { 1.5 }), (8, 4, true));
        assert_eq!(decided(|non_temporal, _| if non_temporal { 1.5 } else { 1.0 }), (8, 4, false));
    }

    #[test]
    fn similar_times_are_compared_over_three_rounds_by_the_shortest() {
        assert_eq!(decided(|non_temporal, _| if non_temporal { 1.05 } else { 1.0 }), (12, 6, false));
        // The first product that counts was interrupted.
        let seconds = |non_temporal, product| match (non_temporal, product) {
            (true, 2) => 9.0,
            (true, _) => 1.0,
            (false, _) => 1.1,
        };
        assert!(decided(seconds).2);
    }

    #[test]
    fn the_first_product_after_a_change_of_stores_does_not_count() {
        // It finds the caches as the other stores left them.
        let seconds = |non_temporal: bool, product: usize| match (non_temporal, product % 2) {
            (true, 1) => 0.1,
            (true, _) => 2.0,
            (false, _) => 1.0,
        };
        assert!(!decided(seconds).2);
    }

    #[test]
    fn a_rule_without_a_trial_never_changes() {
        for (rule, non_temporal) in [(StoreRule::Ordinary, false), (StoreRule::NonTemporal, true)] {
            let mut choice = StoreChoice::new(rule);
            (0..20).for_each(|product| choice.record(f64::from(product % 3)));
            assert_eq!((choice.is_non_temporal(), choice.is_timed()), (non_temporal, false));
        }
    }
}
