//! Counter-based pseudo-random numbers: they depend on their arguments only, so that a generated matrix is the same for any
//! number of threads.

/// The output function of splitmix64: every bit of the result depends on every bit of `value`.
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A sequence of pseudo-random numbers, given by a seed and a counter.
pub struct Sequence(u64);

impl Sequence {
    /// The sequence number `counter` of `seed`.
    pub fn new(seed: u64, counter: u64) -> Self {
        Self(mix(seed ^ mix(counter)))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_bits(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// A number below `bound`, uniform up to a bias of `bound / 2^64`. `bound` must not be zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_bits()) * u128::from(bound)) >> 64) as u64
    }
}

/// A number in [0, 1) from random bits.
#[inline]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Random bits for an unordered pair: the same for (a, b) and (b, a).
#[inline]
pub fn pair_bits(seed: u64, a: u64, b: u64) -> u64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    mix(seed ^ mix(low ^ (high << 32) ^ (high >> 32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixer_is_splitmix64() {
        // First outputs of the published generator for the seed 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let mut counts = [0u32; 7];
        let mut sequence = Sequence::new(1, 2);
        for _ in 0..70_000 {
            counts[sequence.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }

    #[test]
    fn pair_bits_do_not_depend_on_the_order_of_the_pair() {
        assert_eq!(pair_bits(5, 3, 9), pair_bits(5, 9, 3));
        assert_ne!(pair_bits(5, 3, 9), pair_bits(5, 3, 10));
        assert_ne!(pair_bits(5, 3, 9), pair_bits(6, 3, 9));
    }
}
