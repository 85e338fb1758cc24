//! Draws the values of matrices, of X and of the old Y, and the factors and numbers of columns of products.

use crate::random::Random;
use crate::reference::Real;

/// How the values of a matrix are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    Equal,
    AlmostEqual,
    PlusMinusOne,
    FewDistinct,
    General,
    StoredZeros,
    NegativeZeros,
    Subnormal,
    Infinite,
    NotANumber,
}

/// For A. Inf and NaN are rare, since they hide other errors.
pub const OF_MATRICES: [(Values, usize); 10] = [
    (Values::Equal, 14),
    (Values::AlmostEqual, 3),
    (Values::PlusMinusOne, 4),
    (Values::FewDistinct, 4),
    (Values::General, 14),
    (Values::StoredZeros, 3),
    (Values::NegativeZeros, 2),
    (Values::Subnormal, 2),
    (Values::Infinite, 2),
    (Values::NotANumber, 2),
];

/// For X.
pub const OF_X: [(Values, usize); 7] = [
    (Values::General, 20),
    (Values::Equal, 2),
    (Values::PlusMinusOne, 2),
    (Values::NegativeZeros, 2),
    (Values::Subnormal, 2),
    (Values::Infinite, 2),
    (Values::NotANumber, 2),
];

impl Values {
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::AlmostEqual => "almost equal",
            Self::PlusMinusOne => "+1 and -1",
            Self::FewDistinct => "few distinct",
            Self::General => "general",
            Self::StoredZeros => "stored zeros",
            Self::NegativeZeros => "negative zeros",
            Self::Subnormal => "subnormal",
            Self::Infinite => "with Inf",
            Self::NotANumber => "with NaN",
        }
    }

    /// `count` values that are exact in `T`.
    pub fn draw<T: Real>(self, random: &mut Random, count: usize) -> Vec<f64> {
        let equal = random.one(&[1.0, 1.0, -0.3, 0.7, 2.0, 0.0]);
        let few = [random.general(), random.general(), 1.0];
        let odd = random.below(count.max(1));
        let mut value = |at: usize| match self {
            Self::Equal => equal,
            Self::AlmostEqual => {
                if at == odd {
                    equal + 1.0
                } else {
                    equal
                }
            }
            Self::PlusMinusOne => random.one(&[1.0, -1.0]),
            Self::FewDistinct => random.one(&few),
            Self::General => random.general(),
            Self::StoredZeros => {
                if random.one_in(2) {
                    0.0
                } else {
                    random.general()
                }
            }
            Self::NegativeZeros => {
                if random.one_in(2) {
                    -0.0
                } else {
                    random.general()
                }
            }
            Self::Subnormal => match random.one_in(3) {
                true => random.general(),
                false => T::SMALLEST * (1 + random.below(5000)) as f64 * random.one(&[1.0, -1.0]),
            },
            Self::Infinite => match random.one_in(30) {
                true => random.one(&[f64::INFINITY, f64::NEG_INFINITY]),
                false => random.general(),
            },
            Self::NotANumber => {
                if random.one_in(30) {
                    f64::NAN
                } else {
                    random.general()
                }
            }
        };
        (0..count).map(|at| T::rounded(value(at)).wide()).collect()
    }
}

/// Fewer runs, or runs without factors.
pub fn simpler_runs(runs: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let mut simpler = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        if runs.len() > 1 {
            simpler.push(vec![*run]);
        }
        if *run != (1.0, 0.0) {
            let mut plain = runs.to_vec();
            plain[at] = (1.0, 0.0);
            simpler.push(plain);
        }
    }
    simpler
}

/// The factors alpha and beta. The old Y must not be read if beta is 0, or rounds to 0.
pub fn factors(random: &mut Random) -> (f64, f64) {
    if random.below(3) > 0 {
        return (1.0, 0.0);
    }
    let factor = |random: &mut Random| match random.below(12) {
        0..=2 => 0.0,
        3..=5 => 1.0,
        6..=7 => -1.0,
        8 => 1e-60,
        _ => random.one(&[0.5, 2.0 / 3.0, -7.3, 1e-3]),
    };
    (factor(random), factor(random))
}

/// A number of columns up to `most`: small ones, edges of vector registers and slabs, and any.
pub fn columns(random: &mut Random, most: usize) -> usize {
    let most = most.clamp(1, 600);
    let drawn = match random.below(8) {
        0 => 1,
        1 | 2 => random.within(1, 20),
        3 => random.within(1, 600),
        _ => {
            let lanes = random.one(&[1, 2, 4, 8, 8, 16, 16, 32]);
            let edge = lanes * random.within(1, 17);
            (edge + random.below(3)).saturating_sub(1)
        }
    };
    if drawn == 0 || drawn > most { random.within(1, most) } else { drawn }
}
