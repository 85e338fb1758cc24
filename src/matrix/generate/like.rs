//! Synthetic stand-ins for matrices of the SuiteSparse collection: the same numbers of rows, columns and stored entries and the
//! same row-length distribution, with random columns near the diagonal. A note marks them as synthetic.
//!
//! The number of entries, the shortest and the longest row and the quartiles are exact. The variance is as close as integer row
//! lengths allow: the lengths interpolate between a sequence of smaller and one of larger variance with the same sum, and the
//! weight is solved for.

use rayon::prelude::*;

use super::build::{Request, Shape, Values, build};
use super::scattered::draw_stratified;
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::random::Sequence;
use crate::matrix::scalar::Scalar;
use crate::suggest::did_you_mean;

/// The published statistics, one matrix per line.
const COLLECTION: &str = include_str!("collection.csv");
/// Consecutive rows with similar lengths, like the unknowns of a mesh node.
const RUN_ROWS: usize = 8;
/// Width of the band that a row's columns are drawn from, as a multiple of its length.
const BAND_LENGTHS: u64 = 8;
/// Rows of one parallel task.
const PART_ROWS: usize = 1 << 12;
/// Iterations that correct the variance for the effect of rounding.
const ROUNDING_CORRECTIONS: u32 = 4;
/// Bisection steps: they reduce an interval of 40 until no row length changes.
const BISECTIONS: u32 = 40;

/// The statistics that the collection publishes for a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    name: &'static str,
    rows: u64,
    cols: u64,
    /// Number of entries that are not zero.
    nonzeros: u64,
    /// Number of entries stored in the collection's file, explicit zeros included; the row lengths count these.
    stored: u64,
    /// Lengths of the shortest row, the quartiles, and the longest row.
    quartiles: [u64; 5],
    variance: f64,
}

fn published() -> impl Iterator<Item = Published> {
    COLLECTION.lines().filter(|line| !line.starts_with('#')).filter_map(parse)
}

fn parse(line: &'static str) -> Option<Published> {
    let (name, numbers) = line.split_once(',')?;
    let (numbers, variance) = numbers.rsplit_once(',')?;
    let numbers: Vec<u64> = numbers.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [rows, cols, nonzeros, stored, quartiles @ ..] = numbers.as_slice() else { return None };
    Some(Published {
        name,
        rows: *rows,
        cols: *cols,
        nonzeros: *nonzeros,
        stored: *stored,
        quartiles: quartiles.try_into().ok()?,
        variance: variance.parse().ok()?,
    })
}

/// The matrix called `name`; a usage error that lists all names if there is none.
pub fn find(name: &str) -> Result<Published> {
    published().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = published().map(|entry| entry.name).collect();
        Error::usage(format!(
            "gen:like: there are no statistics of '{name}'{}; the available matrices are {}",
            did_you_mean(name, names.iter().copied()),
            names.join(", ")
        ))
    })
}

impl Published {
    /// The note that marks the matrix as a stand-in.
    pub fn note(&self) -> String {
        let zeros = match self.stored - self.nonzeros {
            0 => String::new(),
            zeros => format!(
                "; the collection's file stores {} nonzeros and {zeros} explicit zeros, and both count as entries here",
                self.nonzeros
            ),
        };
        format!(
            "synthetic stand-in for {}, not the collection's matrix: only its size, number of entries and \
             distribution of row lengths are the same{zeros}",
            self.name
        )
    }

    /// Generates the stand-in.
    pub fn stand_in<T: Scalar>(&self, request: Request<'_>) -> Result<Csr<T>> {
        let seed = request.seed;
        let shape = Shape {
            rows: self.rows,
            cols: self.cols,
            nonzeros: self.stored,
            values: Values::Random,
            request,
        };
        // Checked here too, since the row lengths are computed before the matrix is built.
        request.check_estimate::<T>(self.rows, self.stored)?;
        let lengths = shuffle_runs(&row_lengths(self), seed);
        build(
            shape,
            |row| lengths.get(row).map_or(0, |&length| length as usize),
            |row, columns| {
                let width = (columns.len() as u64 * BAND_LENGTHS).min(self.cols);
                let diagonal = (row as u128 * u128::from(self.cols) / u128::from(self.rows)) as u64;
                let first = diagonal.saturating_sub(width / 2).min(self.cols - width);
                draw_stratified(&mut Sequence::new(!seed, row as u64), first, width, columns);
            },
        )
    }
}

/// Ascending row lengths with the published sum, extremes and quartiles, and a variance as close as possible.
fn row_lengths(entry: &Published) -> Vec<u64> {
    let bounds = bounds(entry);
    let total = entry.stored as f64;
    let mean = total / entry.rows as f64;
    let wanted = (entry.variance + mean * mean) * entry.rows as f64;
    let power_law = power_law_lengths(&bounds, total);
    let (from, to) = match inner_product(&power_law, &power_law) < wanted {
        true => (power_law, max_variance_lengths(&bounds, total)),
        false => (min_variance_lengths(&bounds, total), power_law),
    };
    let difference: Vec<f64> = from.iter().zip(&to).map(|(from, to)| to - from).collect();
    // The sum of squares of `from + share * difference` is a quadratic in the share.
    let constant = inner_product(&from, &from);
    let linear = 2.0 * inner_product(&from, &difference);
    let quadratic = inner_product(&difference, &difference);
    let mix = |squares: f64| {
        let share = bisect(0.0, 1.0, |share| constant + share * (linear + share * quadratic) < squares);
        let mixed: Vec<f64> = from.iter().zip(&difference).map(|(from, step)| from + share * step).collect();
        round(&mixed, &bounds, entry.stored)
    };
    let squares = |lengths: &[u64]| lengths.iter().map(|&length| (length * length) as f64).sum::<f64>();
    // Rounding to integers adds variance; the target is reduced by as much.
    let mut target = wanted;
    for _ in 0..ROUNDING_CORRECTIONS {
        target += wanted - squares(&mix(target));
    }
    mix(target)
}

fn inner_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The bounds of each sorted length: fixed at the extremes and quartiles, between two of them elsewhere.
fn bounds(entry: &Published) -> Vec<(u64, u64)> {
    let last = entry.rows.saturating_sub(1) as usize;
    // If a quartile is between two rows, both are fixed, so that every definition of a quartile gives the same value.
    let pins = |quarter: usize| (last * quarter / 4, (last * quarter).div_ceil(4));
    (0..=last)
        .map(|row| {
            let below = (0..5).rev().find(|&quarter| pins(quarter).0 <= row).unwrap_or(0);
            let above = (0..5).find(|&quarter| pins(quarter).1 >= row).unwrap_or(4);
            // For a fixed row, both are the same quartile; with few rows they may be in reverse order.
            (entry.quartiles[below.min(above)], entry.quartiles[below.max(above)])
        })
        .collect()
}

/// The lengths of minimal variance with this sum: all rows as close to one level as their bounds allow.
fn min_variance_lengths(bounds: &[(u64, u64)], total: f64) -> Vec<f64> {
    let longest = bounds.iter().map(|bound| bound.1).max().unwrap_or(0) as f64;
    let at = |level: f64| bounds.iter().map(move |&(low, high)| level.clamp(low as f64, high as f64));
    at(bisect(0.0, longest, |level| at(level).sum::<f64>() < total)).collect()
}

/// Lengths with this sum that increase as a power of the position between two quartiles, with one exponent for all.
fn power_law_lengths(bounds: &[(u64, u64)], total: f64) -> Vec<f64> {
    let quarter = (bounds.len() as f64 / 4.0).max(1.0);
    let length = |exponent: f64, row: usize, &(low, high): &(u64, u64)| {
        let position = ((row as f64 + 0.5) / quarter).fract();
        if low == high { low as f64 } else { low as f64 + (high - low) as f64 * position.powf(exponent) }
    };
    // Partial sums of fixed parts, added in order, do not depend on the number of threads.
    let sum = |exponent: f64| -> f64 {
        let part = |(part, bounds): (usize, &[(u64, u64)])| -> f64 {
            (part * PART_ROWS..).zip(bounds).map(|(row, bound)| length(exponent, row, bound)).sum()
        };
        bounds.par_chunks(PART_ROWS).enumerate().map(part).collect::<Vec<f64>>().iter().sum()
    };
    // A larger exponent gives shorter rows; at 2^20 only the longest row is above its lower bound.
    let exponent = bisect(-20.0, 20.0, |exponent| sum(exponent.exp2()) > total).exp2();
    bounds.iter().enumerate().map(|(row, bound)| length(exponent, row, bound)).collect()
}

/// The lengths of maximal variance with this sum: the longest rows at their upper bounds, the others at their lower bounds.
fn max_variance_lengths(bounds: &[(u64, u64)], total: f64) -> Vec<f64> {
    let mut lengths: Vec<f64> = bounds.iter().map(|bound| bound.0 as f64).collect();
    let mut remaining = total - lengths.iter().sum::<f64>();
    for (length, &(low, high)) in lengths.iter_mut().zip(bounds).rev() {
        let step = remaining.min((high - low) as f64).max(0.0);
        *length += step;
        remaining -= step;
    }
    lengths
}

/// The largest number in the interval for which `below` holds; `below` must hold up to some point and not after it.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    low
}

/// Integers within `bounds` whose sum is `total`, each within 1 of its length if possible.
fn round(lengths: &[f64], bounds: &[(u64, u64)], total: u64) -> Vec<u64> {
    let mut exact_sum = 0.0;
    let mut rounded_sum = 0u64;
    let mut rounded: Vec<u64> = lengths
        .iter()
        .zip(bounds)
        .map(|(&length, &(low, high))| {
            exact_sum += length;
            // Rounding the running sum carries each row's rounding error to the next row.
            let next = (exact_sum.round() as u64).saturating_sub(rounded_sum).clamp(low, high);
            rounded_sum += next;
            next
        })
        .collect();
    // The error of clamping is distributed over rows that are not at a bound.
    while rounded_sum != total {
        let before = rounded_sum;
        for (length, &(low, high)) in rounded.iter_mut().zip(bounds) {
            if rounded_sum < total && *length < high {
                *length += 1;
                rounded_sum += 1;
            } else if rounded_sum > total && *length > low {
                *length -= 1;
                rounded_sum -= 1;
            }
        }
        if rounded_sum == before {
            break;
        }
    }
    rounded
}

/// The lengths in random order of runs of `RUN_ROWS` rows.
fn shuffle_runs(lengths: &[u64], seed: u64) -> Vec<u64> {
    let mut runs: Vec<&[u64]> = lengths.chunks(RUN_ROWS).collect();
    let mut sequence = Sequence::new(!seed, u64::MAX);
    for last in (1..runs.len()).rev() {
        runs.swap(last, sequence.below(last as u64 + 1) as usize);
    }
    runs.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stand_in_has_the_published_distribution() {
        for entry in published() {
            let lengths = row_lengths(&entry);
            let mut sorted = lengths.clone();
            sorted.sort_unstable();
            assert_eq!(sorted.len() as u64, entry.rows, "{}", entry.name);
            assert_eq!(sorted.iter().sum::<u64>(), entry.stored, "{}", entry.name);
            let last = sorted.len() - 1;
            let quartiles = [0, 1, 2, 3, 4].map(|quarter| {
                // Linear interpolation between neighbours, as NumPy's percentile does.
                let (down, up) = (last * quarter / 4, (last * quarter).div_ceil(4));
                let share = (last * quarter % 4) as f64 / 4.0;
                sorted[down] as f64 * (1.0 - share) + sorted[up] as f64 * share
            });
            assert_eq!(quartiles, entry.quartiles.map(|quartile| quartile as f64), "{}", entry.name);
            let mean = entry.stored as f64 / entry.rows as f64;
            let variance =
                sorted.iter().map(|&length| (length as f64 - mean).powi(2)).sum::<f64>() / entry.rows as f64;
            let close = (variance - entry.variance).abs() <= 0.01 * entry.variance;
            println!("{:16} variance {variance:.3} published {:.3}", entry.name, entry.variance);
            assert!(close, "{}: variance {variance}, published {}", entry.name, entry.variance);
        }
    }

    #[test]
    fn every_line_of_the_collection_is_read() {
        assert_eq!(published().count(), 37);
        assert_eq!(published().count(), COLLECTION.lines().count() - 1);
    }

    #[test]
    fn an_unknown_name_lists_the_available_ones() {
        let message = find("Cant").unwrap_err().to_string();
        assert!(message.contains("did you mean 'cant'?") && message.contains("webbase-1M"), "{message}");
    }

    #[test]
    fn the_note_tells_explicit_zeros_of_the_collection() {
        assert!(find("pwtk").unwrap().note().contains("109992 explicit zeros"));
        assert!(!find("cant").unwrap().note().contains("explicit"));
    }
}
