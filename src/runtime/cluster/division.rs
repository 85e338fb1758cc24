//! The division of rows over ranks: consecutive rows whose cost is in proportion to the speeds of the ranks.

use std::ops::Range;

use super::agreement::share_numbers;
use crate::device::network::Communicator;
use crate::error::Result;

/// Most intervals of rows whose nonzeros are counted where row pointers do not exist yet.
const MOST_INTERVALS: u64 = 1 << 14;

/// How rows are divided over ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Division {
    /// The speed of each rank, in any unit.
    pub speeds: Vec<f64>,
    /// Cost of a row without nonzeros.
    pub row_cost: f64,
    /// Cost of a nonzero.
    pub nonzero_cost: f64,
}

impl Division {
    /// The division for products with `k` columns of `value_bytes` each, with the costs by which a rank divides its rows over devices.
    pub fn for_product(speeds: Vec<f64>, k: usize, value_bytes: usize) -> Self {
        let row_bytes = (k * value_bytes) as f64;
        // A row pointer and a row of Y; a column, a value and half a row of X, since some rows of X are in a cache.
        let (row_cost, nonzero_cost) = (8.0 + row_bytes, (4 + value_bytes) as f64 + row_bytes / 2.0);
        Self { speeds, row_cost, nonzero_cost }
    }

    /// The first row of each rank, and the number of rows. Boundaries are among the rows `row(0)` = 0 to `row(last)`, the number of
    /// rows; `nonzeros(index)` is the number of nonzeros before `row(index)`.
    pub fn boundaries(&self, last: u64, row: impl Fn(u64) -> u64, nonzeros: impl Fn(u64) -> u64) -> Vec<u64> {
        let cost =
            |index: u64| row(index) as f64 * self.row_cost + nonzeros(index) as f64 * self.nonzero_cost;
        let is_valid = |speed: &f64| speed.is_finite() && *speed > 0.0;
        let speeds: Vec<f64> = match self.speeds.iter().all(is_valid) {
            true => self.speeds.clone(),
            false => vec![1.0; self.speeds.len()],
        };
        let (whole, all_speeds) = (cost(last), speeds.iter().sum::<f64>());
        let (mut boundaries, mut before, mut index) = (vec![0], 0.0, 0);
        for speed in speeds.iter().take(speeds.len().saturating_sub(1)) {
            before += speed;
            let target = whole * (before / all_speeds);
            let (mut low, mut high) = (index, last);
            while low < high {
                let middle = low + (high - low) / 2;
                if cost(middle) < target { low = middle + 1 } else { high = middle }
            }
            // Of the rows on both sides of the target the nearer one.
            let is_nearer = low > index && target - cost(low - 1) < cost(low) - target;
            index = if is_nearer { low - 1 } else { low };
            boundaries.push(row(index));
        }
        boundaries.push(row(last));
        boundaries
    }
}

/// Nonzeros counted by intervals of rows of equal width.
#[derive(Debug, Clone)]
pub struct RowCounts {
    rows: u64,
    width: u64,
    counts: Vec<u64>,
}

impl RowCounts {
    /// No nonzeros counted yet.
    pub fn new(rows: u64) -> Self {
        let width = rows.div_ceil(MOST_INTERVALS).max(1);
        Self { rows, width, counts: vec![0; rows.div_ceil(width) as usize] }
    }

    /// Adds nonzeros of a row.
    pub fn add(&mut self, row: u64, nonzeros: u64) {
        if let Some(count) = self.counts.get_mut((row / self.width) as usize) {
            *count += nonzeros;
        }
    }

    /// The intervals that part `part` of `parts` counts, and the rows of each.
    pub fn intervals(&self, part: usize, parts: usize) -> impl Iterator<Item = (usize, Range<u64>)> + use<> {
        let edge = |part: usize| self.counts.len() * part / parts.max(1);
        let (rows, width) = (self.rows, self.width);
        (edge(part)..edge(part + 1)).map(move |interval| {
            let start = interval as u64 * width;
            (interval, start..(start + width).min(rows))
        })
    }

    /// The counts of all ranks together.
    pub fn combined(mut self, ranks: &dyn Communicator) -> Result<Self> {
        let all = share_numbers(ranks, &self.counts)?;
        self.counts.fill(0);
        for counts in &all {
            self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(self)
    }

    /// The first row of each rank, and the number of rows.
    pub fn boundaries(&self, division: &Division) -> Vec<u64> {
        let before: Vec<u64> = [0]
            .into_iter()
            .chain(self.counts.iter().scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            }))
            .collect();
        let row = |index: u64| (index * self.width).min(self.rows);
        division.boundaries(self.counts.len() as u64, row, |index| {
            before.get(index as usize).copied().unwrap_or(0)
        })
    }

    /// Nonzeros of the rows, which begin and end at boundaries of intervals.
    pub fn nonzeros(&self, rows: Range<u64>) -> u64 {
        let interval = |row: u64| (row.div_ceil(self.width) as usize).min(self.counts.len());
        self.counts[interval(rows.start)..interval(rows.end)].iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_rank_has_more_than_its_share_and_the_longest_row(
            lengths in prop::collection::vec(0u64..50, 1..200),
            speeds in prop::collection::vec(0.5f64..4.0, 1..6),
        ) {
            let division = Division { speeds: speeds.clone(), row_cost: 2.0, nonzero_cost: 3.0 };
            let mut counts = RowCounts::new(lengths.len() as u64);
            lengths.iter().enumerate().for_each(|(row, length)| counts.add(row as u64, *length));
            let boundaries = counts.boundaries(&division);
            prop_assert_eq!(boundaries.len(), speeds.len() + 1);
            prop_assert_eq!((boundaries[0], boundaries[speeds.len()]), (0, lengths.len() as u64));
            prop_assert!(boundaries.is_sorted());
            let cost = |rows: Range<u64>| -> f64 {
                lengths[rows.start as usize..rows.end as usize].iter().map(|length| 2.0 + 3.0 * *length as f64).sum()
            };
            let (whole, speed) = (cost(0..lengths.len() as u64), speeds.iter().sum::<f64>());
            let longest = lengths.iter().map(|length| 2.0 + 3.0 * *length as f64).fold(0.0, f64::max);
            for (rank, ends) in boundaries.windows(2).enumerate() {
                prop_assert!(cost(ends[0]..ends[1]) <= whole * speeds[rank] / speed + longest + 1e-9);
                prop_assert_eq!(
                    counts.nonzeros(ends[0]..ends[1]),
                    lengths[ends[0] as usize..ends[1] as usize].iter().sum::<u64>()
                );
            }
        }
    }

    #[test]
    fn invalid_speeds_count_as_equal_and_many_rows_need_few_counts() {
        let division = Division { speeds: vec![0.0, f64::NAN], row_cost: 1.0, nonzero_cost: 0.0 };
        let counts = RowCounts::new(1 << 40);
        assert_eq!(counts.counts.len() as u64, MOST_INTERVALS);
        assert_eq!(counts.boundaries(&division), [0, 1 << 39, 1 << 40]);
        assert_eq!(RowCounts::new(0).boundaries(&division), [0, 0, 0]);
    }
}
