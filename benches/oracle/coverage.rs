//! Counts what was drawn. A value that is never drawn although its dimension was drawn often is a failure of the oracle.

use std::collections::BTreeMap;

/// Draws of a dimension from which each of its values must have been drawn: the rarest ones have a weight of about 1/150.
const ENOUGH_DRAWS: u64 = 2000;
/// The same for structures, of which the largest matrices are one in 800.
const ENOUGH_STRUCTURES: u64 = 10_000;

/// For each family and dimension the number of draws of each value.
#[derive(Debug, Default)]
pub struct Coverage(BTreeMap<(&'static str, &'static str), Vec<(&'static str, u64)>>);

impl Coverage {
    /// Declares the values of a dimension, so that a value without draws is known.
    pub fn expect(
        &mut self,
        family: &'static str,
        dimension: &'static str,
        values: impl IntoIterator<Item = &'static str>,
    ) {
        let known = self.0.entry((family, dimension)).or_default();
        for value in values {
            if known.iter().all(|(name, _)| *name != value) {
                known.push((value, 0));
            }
        }
    }

    pub fn count(&mut self, family: &'static str, dimension: &'static str, value: &'static str) {
        let values = self.0.entry((family, dimension)).or_default();
        match values.iter_mut().find(|(name, _)| *name == value) {
            Some((_, count)) => *count += 1,
            None => values.push((value, 1)),
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (&key, values) in &other.0 {
            let own = self.0.entry(key).or_default();
            for &(value, count) in values {
                match own.iter_mut().find(|(name, _)| *name == value) {
                    Some((_, sum)) => *sum += count,
                    None => own.push((value, count)),
                }
            }
        }
    }

    /// The table of counts.
    pub fn table(&self) -> String {
        let mut text = String::from("| family | dimension | draws of each value |\n|---|---|---|\n");
        for ((family, dimension), values) in &self.0 {
            let counts: Vec<String> =
                values.iter().map(|(value, count)| format!("{value} {count}")).collect();
            text += &format!("| {family} | {dimension} | {} |\n", counts.join(", "));
        }
        text
    }

    /// The values that were never drawn although their dimension was drawn often enough.
    pub fn never_drawn(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for ((family, dimension), values) in &self.0 {
            let total: u64 = values.iter().map(|(_, count)| count).sum();
            let enough = if *dimension == "structure" { ENOUGH_STRUCTURES } else { ENOUGH_DRAWS };
            let unseen = values.iter().filter(|(_, count)| *count == 0 && total >= enough);
            missing.extend(unseen.map(|(value, _)| format!("{family}: {dimension} {value}")));
        }
        missing
    }
}

/// The buckets of numbers of columns and the last number of each.
const COLUMN_BUCKETS: [(&str, usize); 12] = [
    ("1", 1),
    ("2", 2),
    ("3-4", 4),
    ("5-8", 8),
    ("9-16", 16),
    ("17-32", 32),
    ("33-64", 64),
    ("65-88", 88),
    ("89-128", 128),
    ("129-176", 176),
    ("177-256", 256),
    ("257-600", 600),
];

/// The bucket of a number of columns.
pub fn columns_bucket(k: usize) -> &'static str {
    COLUMN_BUCKETS.iter().find(|(_, last)| k <= *last).map_or("more", |(name, _)| name)
}

/// The buckets of numbers of columns up to `most`.
pub fn column_buckets(most: usize) -> impl Iterator<Item = &'static str> {
    COLUMN_BUCKETS.iter().filter(move |(_, last)| *last <= most).map(|(name, _)| *name)
}

/// The bucket of a factor.
pub fn factor_bucket(factor: f64) -> &'static str {
    match factor {
        0.0 => "0",
        1.0 => "1",
        -1.0 => "-1",
        _ if factor.abs() < 1e-50 => "tiny",
        _ => "general",
    }
}

pub const FACTOR_BUCKETS: [&str; 5] = ["0", "1", "-1", "tiny", "general"];
