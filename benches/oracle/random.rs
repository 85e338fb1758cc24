//! Random numbers that depend on the seed of a case only.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// The finalizer of SplitMix64: a bijection whose output bits depend on all input bits.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that differs for every pair of a seed and an index.
pub fn derived(seed: u64, index: u64) -> u64 {
    mix(mix(seed ^ 0x6a09_e667_f3bc_c908).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 to `end - 1`; 0 for `end = 0`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A number from `first` to `last`.
    pub fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One of the values, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, of: &[(T, usize)]) -> T {
        let mut at = self.below(of.iter().map(|(_, weight)| weight).sum());
        for &(value, weight) in of {
            if at < weight {
                return value;
            }
            at -= weight;
        }
        of[0].0
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of either sign whose magnitude varies by some powers of two.
    pub fn general(&mut self) -> f64 {
        let exponent = self.below(9) as i32 - 4;
        (2.0 * self.unit() - 1.0) * 2f64.powi(exponent)
    }
}
