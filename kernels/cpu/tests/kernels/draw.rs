//! Random cases from fixed seeds.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;

use rowloom_cpu::Isa;

use crate::real::Real;

/// A generator of random numbers (SplitMix64).
pub struct Draw(Cell<u64>);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn next(&self) -> u64 {
        let mut z = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(z);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number smaller than `end`, which is not 0.
    pub fn below(&self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True in one of `n` cases.
    pub fn one_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<I: Copy>(&self, items: &[I]) -> I {
        items[self.below(items.len())]
    }

    /// A random permutation.
    pub fn shuffle<I>(&self, items: &mut [I]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }

    /// A number of both signs with a full mantissa, between 1/16 and 16 in magnitude.
    pub fn number(&self) -> f64 {
        let mantissa = 1.0 + (self.next() >> 12) as f64 / (1u64 << 52) as f64;
        let sign = if self.one_in(2) { -1.0 } else { 1.0 };
        sign * mantissa * 2f64.powi(self.below(8) as i32 - 4)
    }

    pub fn numbers<T: Real>(&self, count: usize) -> Vec<T> {
        (0..count).map(|_| T::of(self.number())).collect()
    }
}

/// A number from the environment, or `default`.
fn setting<N: FromStr>(name: &str, default: N) -> N {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `check` with `count` generators of different seeds. A failure names its seed.
pub fn draws(count: u64, mut check: impl FnMut(&Draw)) {
    let factor: u64 = setting("ROWLOOM_TEST_DRAWS", 1);
    let first: u64 = setting("ROWLOOM_TEST_SEED", 1u64) << 32;
    for seed in first..first + count * factor {
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&Draw::new(seed))));
        if let Err(panic) = outcome {
            eprintln!("with the generator {seed}");
            resume_unwind(panic);
        }
    }
}

/// The instruction sets to test: those of the processor, or the one that `ROWLOOM_TEST_ISA` names.
pub fn instruction_sets() -> Vec<Isa> {
    let wanted = std::env::var("ROWLOOM_TEST_ISA").ok();
    let all = Isa::available().iter().copied();
    all.filter(|isa| wanted.as_deref().is_none_or(|wanted| wanted == isa.name())).collect()
}

/// As [`draws`], for every instruction set.
pub fn draws_for_each_isa(count: u64, mut check: impl FnMut(Isa, &Draw)) {
    for isa in instruction_sets() {
        draws(count, |draw| {
            let outcome = catch_unwind(AssertUnwindSafe(|| check(isa, draw)));
            outcome.unwrap_or_else(|panic| {
                eprintln!("with {}", isa.name());
                resume_unwind(panic)
            });
        });
    }
}
