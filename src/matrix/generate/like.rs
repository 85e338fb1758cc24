//! Stand-ins for matrices of the SuiteSparse collection that are not shipped: the same rows, columns, stored entries
//! and row-length distribution, with columns drawn near the diagonal. They are synthetic and say so.
//!
//! The entries, the shortest and the longest row and the quartiles are met exactly. The variance is met as nearly as
//! whole row lengths allow: the lengths are a mix of the least and the most spread-out sequence (or a smooth one in
//! between) that have the same sum, and the mixing share is solved for.

use rayon::prelude::*;

use super::build::{Shape, Values, build, check_memory, csr_bytes};
use super::random::Sequence;
use super::scattered::draw_spread;
use super::spec::did_you_mean;
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::scalar::Scalar;

/// The published numbers, one matrix a line.
const COLLECTION: &str = include_str!("collection.csv");
/// Neighbouring rows that get neighbouring lengths, as the unknowns of one mesh node do.
const EQUAL_ROWS: usize = 8;
/// A row's columns are drawn from so many times its length around the diagonal.
const SPREAD: u64 = 8;
/// Rows of one parallel task.
const PART_ROWS: usize = 1 << 12;
/// How often what rounding adds to the variance is taken off again.
const ROUNDING_CORRECTIONS: u32 = 4;
/// Halvings that bring an interval of 40 below what moves a row length.
const BISECTIONS: u32 = 40;

/// What the collection publishes of one matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    name: &'static str,
    rows: u64,
    cols: u64,
    /// Entries that are not zero.
    nonzeros: u64,
    /// Entries the collection's file stores, explicit zeros included; the distribution counts these.
    stored: u64,
    /// Shortest row, quartiles, longest row.
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

/// The matrix called `name`, or a usage error that lists what is known.
pub fn find(name: &str) -> Result<Published> {
    published().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = published().map(|entry| entry.name).collect();
        Error::Usage(format!(
            "gen:like: no numbers are known for '{name}'{}; there are {}",
            did_you_mean(name, names.iter().copied()),
            names.join(", ")
        ))
    })
}

impl Published {
    /// The sentence that keeps anyone from taking the stand-in for the real matrix.
    pub fn note(&self) -> String {
        let zeros = match self.stored - self.nonzeros {
            0 => String::new(),
            zeros => format!(
                "; the collection counts {} nonzeros and its file stores {zeros} explicit zeros beside them, which \
                 are entries here",
                self.nonzeros
            ),
        };
        format!(
            "synthetic stand-in for {}, not the collection's matrix: only the size, the number of entries and the \
             row lengths' distribution are alike{zeros}",
            self.name
        )
    }

    /// The stand-in.
    pub fn stand_in<T: Scalar>(&self, seed: u64, memory_limit_bytes: u64) -> Result<Csr<T>> {
        let shape = Shape {
            rows: self.rows,
            cols: self.cols,
            nonzeros: self.stored,
            values: Values::Random,
            seed,
            memory_limit_bytes,
        };
        // Lengths are made before the matrix is; a limit that cannot hold it is refused before that too.
        check_memory(csr_bytes::<T>(self.rows, self.stored), memory_limit_bytes)?;
        let lengths = scatter(&row_lengths(self), seed);
        build(
            shape,
            |row| lengths.get(row).map_or(0, |&length| length as usize),
            |row, columns| {
                let width = (columns.len() as u64 * SPREAD).min(self.cols);
                let diagonal = (row as u128 * u128::from(self.cols) / u128::from(self.rows)) as u64;
                let first = diagonal.saturating_sub(width / 2).min(self.cols - width);
                draw_spread(&mut Sequence::new(!seed, row as u64), first, width, columns);
            },
        )
    }
}

/// Ascending row lengths with the published sum, extremes, quartiles and, as nearly as possible, variance.
fn row_lengths(entry: &Published) -> Vec<u64> {
    let bounds = bounds(entry);
    let total = entry.stored as f64;
    let mean = total / entry.rows as f64;
    let wanted = (entry.variance + mean * mean) * entry.rows as f64;
    let smooth = smooth(&bounds, total);
    let (from, to) = match inner_product(&smooth, &smooth) < wanted {
        true => (smooth, steepest(&bounds, total)),
        false => (flattest(&bounds, total), smooth),
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
    // Rounding to whole lengths adds some variance; asking for that much less makes up for it.
    let mut asked = wanted;
    for _ in 0..ROUNDING_CORRECTIONS {
        asked += wanted - squares(&mix(asked));
    }
    mix(asked)
}

fn inner_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// What each of the sorted lengths may be: pinned at the extremes and quartiles, between two of them elsewhere.
fn bounds(entry: &Published) -> Vec<(u64, u64)> {
    let last = entry.rows.saturating_sub(1) as usize;
    // Both neighbours of a quartile that falls between two rows, so that any definition of it gives the same.
    let pins = |quarter: usize| (last * quarter / 4, (last * quarter).div_ceil(4));
    (0..=last)
        .map(|row| {
            let below = (0..5).rev().find(|&quarter| pins(quarter).0 <= row).unwrap_or(0);
            let above = (0..5).find(|&quarter| pins(quarter).1 >= row).unwrap_or(4);
            // A pinned row is the same quarter's from below and from above, or crossed where rows are few.
            (entry.quartiles[below.min(above)], entry.quartiles[below.max(above)])
        })
        .collect()
}

/// All rows as near to one level as they may be: the smallest variance of this sum.
fn flattest(bounds: &[(u64, u64)], total: f64) -> Vec<f64> {
    let longest = bounds.iter().map(|bound| bound.1).max().unwrap_or(0) as f64;
    let at = |level: f64| bounds.iter().map(move |&(low, high)| level.clamp(low as f64, high as f64));
    at(bisect(0.0, longest, |level| at(level).sum::<f64>() < total)).collect()
}

/// Between two quartiles, lengths that rise like a power of the position, the same power everywhere.
fn smooth(bounds: &[(u64, u64)], total: f64) -> Vec<f64> {
    let quarter = (bounds.len() as f64 / 4.0).max(1.0);
    let length = |exponent: f64, row: usize, &(low, high): &(u64, u64)| {
        let position = ((row as f64 + 0.5) / quarter).fract();
        if low == high { low as f64 } else { low as f64 + (high - low) as f64 * position.powf(exponent) }
    };
    // Partial sums of fixed parts, added in order: the same on any number of threads.
    let sum = |exponent: f64| -> f64 {
        let part = |(part, bounds): (usize, &[(u64, u64)])| -> f64 {
            (part * PART_ROWS..).zip(bounds).map(|(row, bound)| length(exponent, row, bound)).sum()
        };
        bounds.par_chunks(PART_ROWS).enumerate().map(part).collect::<Vec<f64>>().iter().sum()
    };
    // A larger exponent gives shorter rows; 2^20 leaves nothing but the longest row above its lower bound.
    let exponent = bisect(-20.0, 20.0, |exponent| sum(exponent.exp2()) > total).exp2();
    bounds.iter().enumerate().map(|(row, bound)| length(exponent, row, bound)).collect()
}

/// The longest rows as long as they may be, all others as short: the largest variance of this sum.
fn steepest(bounds: &[(u64, u64)], total: f64) -> Vec<f64> {
    let mut lengths: Vec<f64> = bounds.iter().map(|bound| bound.0 as f64).collect();
    let mut open = total - lengths.iter().sum::<f64>();
    for (length, &(low, high)) in lengths.iter_mut().zip(bounds).rev() {
        let step = open.min((high - low) as f64).max(0.0);
        *length += step;
        open -= step;
    }
    lengths
}

/// The largest number for which `below` still holds, of a claim that holds up to some point and not beyond.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    low
}

/// Whole numbers inside their bounds that sum to `total`, each within one of what was asked wherever that can be.
fn round(lengths: &[f64], bounds: &[(u64, u64)], total: u64) -> Vec<u64> {
    let mut asked = 0.0;
    let mut given = 0u64;
    let mut rounded: Vec<u64> = lengths
        .iter()
        .zip(bounds)
        .map(|(&length, &(low, high))| {
            asked += length;
            // Rounding the running sum hands each row's fraction on to the next row.
            let next = (asked.round() as u64).saturating_sub(given).clamp(low, high);
            given += next;
            next
        })
        .collect();
    // What clamping lost or added is spread over rows that have room.
    while given != total {
        let before = given;
        for (length, &(low, high)) in rounded.iter_mut().zip(bounds) {
            if given < total && *length < high {
                *length += 1;
                given += 1;
            } else if given > total && *length > low {
                *length -= 1;
                given -= 1;
            }
        }
        if given == before {
            break;
        }
    }
    rounded
}

/// The lengths in another order: runs of similar rows, the runs shuffled.
fn scatter(lengths: &[u64], seed: u64) -> Vec<u64> {
    let mut runs: Vec<&[u64]> = lengths.chunks(EQUAL_ROWS).collect();
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
    fn every_stand_in_meets_the_published_distribution() {
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
    fn all_published_matrices_are_there() {
        assert_eq!(published().count(), 37);
        assert_eq!(published().count(), COLLECTION.lines().count() - 1);
    }

    #[test]
    fn an_unknown_name_lists_what_is_known() {
        let message = find("Cant").unwrap_err().to_string();
        assert!(message.contains("did you mean 'cant'?") && message.contains("webbase-1M"), "{message}");
    }

    #[test]
    fn explicit_zeros_of_the_collection_are_told() {
        assert!(find("pwtk").unwrap().note().contains("109992 explicit zeros"));
        assert!(!find("cant").unwrap().note().contains("explicit"));
    }
}
