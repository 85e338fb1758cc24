//! The products of one prepared plan. Preparing costs more than a small product, so a plan serves several: each with its own factors,
//! X, old Y and place of Y.

use crate::grid::Placement;
use crate::judge::{Operands, Value};
use crate::random::Random;
use crate::values::factors;

/// One product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Alpha and beta.
    pub factors: (f64, f64),
    /// The first column of X and of the old Y, counted from that of the request, in a circle over all columns of the case. The reference
    /// has all of them.
    pub shift: usize,
    /// Where the elements of Y are.
    pub y: Placement,
}

impl Run {
    /// Y = A X in packed arrays.
    const PLAIN: Self = Self { factors: (1.0, 0.0), shift: 0, y: Placement::PACKED };

    /// `count` products of a case with `all` columns. Every third one has the X of the one before.
    pub fn draw(random: &mut Random, count: usize, all: usize) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::with_capacity(count);
        for _ in 0..count {
            let shift = match runs.last() {
                Some(before) if random.one_in(3) => before.shift,
                None => 0,
                _ => random.below(all),
            };
            runs.push(Self { factors: factors(random), shift, y: Placement::draw(random) });
        }
        runs
    }

    /// The operands of the product.
    pub fn operands<'a, T: Value>(&self, of: &Operands<'a, T>) -> Operands<'a, T> {
        Operands { first: (of.first + self.shift) % of.all.max(1), ..*of }
    }
}

/// Fewer runs, or simpler ones.
pub fn simpler(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut simpler = Vec::new();
    if runs.len() > 1 {
        // One product; then one half, and all but one, where several are needed.
        simpler.extend(runs.iter().map(|run| vec![*run]));
        let (first, second) = runs.split_at(runs.len() / 2);
        simpler.extend([first.to_vec(), second.to_vec()]);
        simpler.extend((0..runs.len()).map(|at| [&runs[..at], &runs[at + 1..]].concat()));
    }
    for (at, run) in runs.iter().enumerate() {
        let mut ways =
            vec![Run::PLAIN, Run { factors: Run::PLAIN.factors, ..*run }, Run { shift: 0, ..*run }];
        ways.extend(run.y.simpler().into_iter().map(|y| Run { y, ..*run }));
        for way in ways.into_iter().filter(|way| way != run) {
            let mut changed = runs.to_vec();
            changed[at] = way;
            simpler.push(changed);
        }
    }
    simpler
}
