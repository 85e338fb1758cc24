//! The times of the same products on different numbers of GPUs or nodes, and the number to use.

use std::fmt;

use crate::console::Console;
use crate::console::table::{Table, seconds};
use rowloom::internal::error::{Counted, Result, Seconds};

/// A smaller number is advised where all products take at most this multiple of the shortest time.
const FAST_ENOUGH: f64 = 1.1;

/// Rows of the table of a page: the whole extent, and those around the advised one.
const MOST_ROWS: usize = 7;

/// A number of devices that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// GPUs of a machine.
    Gpus(u64),
    /// Whole nodes of a cluster.
    Nodes(u64),
    /// Some GPUs of one node of a cluster.
    GpusOfNode(u64),
}

impl Extent {
    fn number(self) -> u64 {
        match self {
            Self::Gpus(number) | Self::Nodes(number) | Self::GpusOfNode(number) => number,
        }
    }

    /// Its cell in a table of GPUs or nodes.
    fn cell(self) -> String {
        match self {
            Self::Gpus(number) | Self::Nodes(number) => number.to_string(),
            Self::GpusOfNode(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number();
        match self {
            Self::Gpus(_) => write!(f, "{}", Counted(number, "GPU")),
            Self::Nodes(_) => write!(f, "{}", Counted(number, "node")),
            Self::GpusOfNode(_) => write!(f, "{} of 1 node", Counted(number, "GPU")),
        }
    }
}

/// The time on a number of GPUs or nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// What is used.
    pub extent: Extent,
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
    /// Products that the totals are of.
    pub products: u64,
    /// The counts, the largest first.
    pub counts: Vec<Count>,
    /// The largest extent whose memory is too small, where it is known.
    pub too_few: Option<Extent>,
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
        let of_nodes = self.counts.iter().any(|count| !matches!(count.extent, Extent::Gpus(_)));
        let unit = if of_nodes { "nodes" } else { "GPUs" };
        let total = Counted(self.products, "product").to_string();
        let has_parts = self.counts.iter().any(|count| count.longest.is_some());
        let (numbers, product) = ([0, 1, 2], "per product");
        let mut table = match has_parts {
            true => Table::columns([unit, product, &total, "largest part of a product"], &numbers),
            false => Table::columns([unit, product, &total], &numbers),
        };
        let mut row = |extent: Extent, product: String, total: String, longest: &str| {
            match has_parts {
                true => table.row([extent.cell(), product, total, longest.into()]),
                false => table.row([extent.cell(), product, total]),
            };
        };
        for count in self.shown() {
            let longest = count.longest.unwrap_or_default();
            row(count.extent, seconds(count.product_s), seconds(count.total_s), longest);
        }
        if let Some(extent) = self.too_few {
            row(extent, "-".into(), "-".into(), "too little device memory");
        }
        table
    }

    /// The whole extent and those nearest to the advised one.
    fn shown(&self) -> impl Iterator<Item = &Count> {
        let advised =
            self.advised().and_then(|(advised, _)| self.counts.iter().position(|count| count == advised));
        let last = (advised.unwrap_or(0) + MOST_ROWS / 2).max(MOST_ROWS).min(self.counts.len());
        let first = (last + 1).saturating_sub(MOST_ROWS);
        self.counts
            .iter()
            .enumerate()
            .filter(move |&(at, _)| at == 0 || (first..last).contains(&at))
            .map(|(_, count)| count)
    }

    /// The smallest extent on which all products take nearly as little time as on the best one, and the best one.
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
        let on = |other: &Count| {
            let place = match (advised.extent, other.extent) {
                (Extent::Gpus(_), Extent::Gpus(number)) | (Extent::Nodes(_), Extent::Nodes(number)) => {
                    number.to_string()
                }
                (_, extent) => extent.to_string(),
            };
            format!("{} on {place}", Seconds(other.total_s))
        };
        let fewer = self.counts.iter().skip_while(|count| *count != advised).nth(1);
        let why = match (fewer, self.too_few) {
            _ if fastest != advised => format!("{time}, and {}: more would save less than 10 %", on(fastest)),
            _ if all != advised => format!("{time}, and {}", on(all)),
            (Some(fewer), _) => format!("{time}, and {}", on(fewer)),
            (None, Some(too_few)) => format!("the device memory of {too_few} is too small"),
            (None, None) => return None,
        };
        Some(format!("use {}, because {why}", advised.extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(times: &[(Extent, f64)], too_few: Option<Extent>) -> Counts {
        let of =
            |&(extent, total_s): &(Extent, f64)| Count { extent, product_s: 0.1, total_s, longest: None };
        Counts { products: 20, counts: times.iter().map(of).collect(), too_few }
    }

    #[test]
    fn the_smallest_number_that_is_nearly_as_fast_as_the_best_is_advised() {
        use Extent::{Gpus, GpusOfNode, Nodes};
        for (times, too_few, advice) in [
            (
                &[(Gpus(8), 4.0), (Gpus(4), 2.0), (Gpus(2), 1.5), (Gpus(1), 1.0)][..],
                None,
                "use 1 GPU, because 20 products take 1.00 s there with the set-up, and 4.00 s on 8",
            ),
            (
                &[(Nodes(4), 1.0), (Nodes(2), 1.05), (Nodes(1), 2.0)],
                None,
                "use 2 nodes, because 20 products take 1.05 s there with the set-up, and 1.00 s on 4: more would save less \
                 than 10 %",
            ),
            (
                &[(Gpus(2), 1.0), (Gpus(1), 2.0)],
                None,
                "use 2 GPUs, because 20 products take 1.00 s there with the set-up, and 2.00 s on 1",
            ),
            (
                &[(Nodes(2), 4.0), (Nodes(1), 3.0), (GpusOfNode(2), 2.0), (GpusOfNode(1), 1.0)],
                None,
                "use 1 GPU of 1 node, because 20 products take 1.00 s there with the set-up, and 4.00 s on 2 nodes",
            ),
            (
                &[(Nodes(1), 1.0), (GpusOfNode(4), 2.0)],
                None,
                "use 1 node, because 20 products take 1.00 s there with the set-up, and 2.00 s on 4 GPUs of 1 node",
            ),
            (
                &[(Nodes(4), 1.0)],
                Some(Nodes(2)),
                "use 4 nodes, because the device memory of 2 nodes is too small",
            ),
            (
                &[(Nodes(1), 1.0)],
                Some(GpusOfNode(4)),
                "use 1 node, because the device memory of 4 GPUs of 1 node is too small",
            ),
        ] {
            assert_eq!(counts(times, too_few).advice().as_deref(), Some(advice));
        }
        assert_eq!(counts(&[], None).advice(), None);
        assert_eq!(counts(&[(Nodes(1), 1.0)], None).advice(), None, "there is nothing to compare with");
    }

    #[test]
    fn the_table_shows_the_whole_extent_and_those_around_the_advised_one() {
        let times = |fastest: i32| {
            (0..12).map(move |at| (Extent::Gpus(1 << (11 - at)), 2f64.powi((at - fastest).abs())))
        };
        for (fastest, shown) in [(0, 0..7), (2, 0..7), (5, 2..8), (11, 6..12)] {
            let counts = counts(&times(fastest).collect::<Vec<_>>(), None);
            let shown: Vec<_> =
                counts.counts.iter().take(1).chain(&counts.counts[shown.start.max(1)..shown.end]).collect();
            assert_eq!(counts.shown().collect::<Vec<_>>(), shown, "{fastest}");
        }
        assert_eq!(counts(&[(Extent::Gpus(2), 1.0), (Extent::Gpus(1), 1.0)], None).shown().count(), 2);
    }

    #[test]
    fn the_table_has_the_longest_parts_where_they_are_known() {
        let mut known = counts(&[(Extent::Nodes(1), 1.0), (Extent::GpusOfNode(4), 2.0)], None);
        let table = known.table().render(false);
        assert!(!table.contains("largest part") && table.contains("4 GPUs of 1 node"), "{table}");
        known.counts.iter_mut().for_each(|count| count.longest = Some("kernels"));
        let table = known.table().render(false);
        assert!(table.contains("largest part") && table.contains("kernels"), "{table}");
    }
}
