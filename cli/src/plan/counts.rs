//! The times of the same products on different numbers of GPUs or nodes, and the number to use.

use crate::console::Console;
use crate::console::table::{Table, seconds};
use rowloom::internal::error::{Counted, Result, Seconds};

/// A smaller number is advised where all products take at most this multiple of the shortest time.
const FAST_ENOUGH: f64 = 1.1;

/// The time on a number of GPUs or nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// Their number.
    pub number: u64,
    /// Seconds of a product.
    pub product_s: f64,
    /// Seconds of the set-up and all products.
    pub total_s: f64,
    /// The part of a product that takes longest, where it is known.
    pub longest: Option<&'static str>,
}

/// The times on all GPUs or nodes, a half, a quarter and so on, as long as they have enough memory.
#[derive(Debug)]
pub struct Counts {
    /// What is counted: `GPU` or `node`.
    pub unit: &'static str,
    /// Products that the totals are of.
    pub products: u64,
    /// The counts, the largest first.
    pub counts: Vec<Count>,
    /// The largest number whose memory is too small, where it is known.
    pub too_few: Option<u64>,
}

impl Counts {
    /// Shows the table of the counts and the number to use, where there is one.
    pub fn show(&self, console: &Console) -> Result<()> {
        let Some(advice) = self.advice() else { return Ok(()) };
        console.text("\n")?;
        console.table(&self.table())?;
        console.text("\n")?;
        console.table(&Table::paragraph(&advice))
    }

    /// The table of the counts.
    fn table(&self) -> Table {
        let (unit, total) = (format!("{}s", self.unit), Counted(self.products, "product").to_string());
        let has_parts = self.counts.iter().any(|count| count.longest.is_some());
        let (numbers, product) = ([0, 1, 2], "per product");
        let mut table = match has_parts {
            true => Table::columns([&unit, product, &total, "largest part of a product"], &numbers),
            false => Table::columns([&unit, product, &total], &numbers),
        };
        let mut row = |number: u64, product: String, total: String, longest: &str| {
            match has_parts {
                true => table.row([number.to_string(), product, total, longest.into()]),
                false => table.row([number.to_string(), product, total]),
            };
        };
        for count in &self.counts {
            let longest = count.longest.unwrap_or_default();
            row(count.number, seconds(count.product_s), seconds(count.total_s), longest);
        }
        if let Some(number) = self.too_few {
            row(number, "-".into(), "-".into(), "too little device memory");
        }
        table
    }

    /// The smallest number on which all products take nearly as little time as on the best one, and the best one.
    pub fn advised(&self) -> Option<(&Count, &Count)> {
        let fastest = self.counts.iter().min_by(|a, b| a.total_s.total_cmp(&b.total_s))?;
        let fast = |count: &&Count| count.total_s <= FAST_ENOUGH * fastest.total_s;
        self.counts.iter().rev().find(fast).map(|advised| (advised, fastest))
    }

    /// The number to use, and why; none without a number to compare with.
    fn advice(&self) -> Option<String> {
        let (advised, fastest) = self.advised()?;
        let all = self.counts.first()?;
        let verb = if self.products == 1 { "takes" } else { "take" };
        let time = format!(
            "{} {verb} {} there with the set-up",
            Counted(self.products, "product"),
            Seconds(advised.total_s)
        );
        let on = |other: &Count| format!("{} on {}", Seconds(other.total_s), other.number);
        let fewer = self.counts.iter().find(|count| count.number < advised.number);
        let why = match (fewer, self.too_few) {
            _ if fastest.number > advised.number => {
                format!("{time}, and {}: more would save less than 10 %", on(fastest))
            }
            _ if all.number > advised.number => format!("{time}, and {}", on(all)),
            (Some(fewer), _) => format!("{time}, and {}", on(fewer)),
            (None, Some(too_few)) => format!("the device memory of {too_few} is too small"),
            (None, None) => return None,
        };
        Some(format!("use {}, because {why}", Counted(advised.number, self.unit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(unit: &'static str, times: &[(u64, f64)], too_few: Option<u64>) -> Counts {
        let of = |&(number, total_s): &(u64, f64)| Count { number, product_s: 0.1, total_s, longest: None };
        Counts { unit, products: 20, counts: times.iter().map(of).collect(), too_few }
    }

    #[test]
    fn the_smallest_number_that_is_nearly_as_fast_as_the_best_is_advised() {
        for (unit, times, too_few, advice) in [
            (
                "GPU",
                &[(8, 4.0), (4, 2.0), (2, 1.5), (1, 1.0)][..],
                None,
                "use 1 GPU, because 20 products take 1.00 s there with the set-up, and 4.00 s on 8",
            ),
            (
                "node",
                &[(4, 1.0), (2, 1.05), (1, 2.0)],
                None,
                "use 2 nodes, because 20 products take 1.05 s there with the set-up, and 1.00 s on 4: more would save less \
                 than 10 %",
            ),
            (
                "GPU",
                &[(2, 1.0), (1, 2.0)],
                None,
                "use 2 GPUs, because 20 products take 1.00 s there with the set-up, and 2.00 s on 1",
            ),
            ("node", &[(4, 1.0)], Some(2), "use 4 nodes, because the device memory of 2 is too small"),
        ] {
            assert_eq!(counts(unit, times, too_few).advice().as_deref(), Some(advice));
        }
        assert_eq!(counts("GPU", &[], None).advice(), None);
        assert_eq!(counts("node", &[(1, 1.0)], None).advice(), None, "there is nothing to compare with");
    }

    #[test]
    fn the_table_has_the_longest_parts_where_they_are_known() {
        let mut known = counts("node", &[(2, 1.0), (1, 2.0)], None);
        assert!(!known.table().render(false).contains("largest part"));
        known.counts.iter_mut().for_each(|count| count.longest = Some("kernels"));
        let table = known.table().render(false);
        assert!(table.contains("largest part") && table.contains("kernels"), "{table}");
    }
}
