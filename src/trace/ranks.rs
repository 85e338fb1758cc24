//! The summary of a merged trace by ranks: the slowest rank, the exchange's share, and the imbalance.

use std::collections::BTreeMap;

use serde::Serialize;

use super::intervals::{TimeSet, seconds, share};
use super::merge::of_rank;
use super::model::{Category, Span, Trace};

/// The ranks in the run that is described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RanksSummary {
    /// Each rank.
    pub ranks: Vec<RankSummary>,
    /// The rank that computed longest.
    pub slowest_rank: usize,
    /// The longest compute time over the mean, minus one.
    pub imbalance: Option<f64>,
    /// The share of the run in which a rank sends or receives, on average.
    pub exchange_share: Option<f64>,
    /// The share of that time in which the rank computes.
    pub hidden_exchange: Option<f64>,
}

/// One rank in the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankSummary {
    /// Its number.
    pub rank: usize,
    /// Time during which one of its devices computed.
    pub compute_s: f64,
    /// Time during which it sent or received rows.
    pub exchange_s: f64,
    /// The part of it during which it computed too.
    pub hidden_exchange_s: f64,
    /// Time from the start of the run on all ranks to its last task.
    pub end_s: f64,
}

impl Trace {
    /// The ranks of the spans with these numbers; `None` if the trace is not one of ranks.
    pub(super) fn rank_summary(&self, in_run: &[u32]) -> Option<RanksSummary> {
        let mut by_rank: BTreeMap<usize, Vec<&Span>> = BTreeMap::new();
        for span in in_run.iter().filter_map(|&index| self.spans.get(index as usize)) {
            let (rank, _) = of_rank(self.process_and_lane(span).0)?;
            by_rank.entry(rank).or_default().push(span);
        }
        let all = || by_rank.values().flatten();
        let start_ns = all().map(|span| span.start_ns).min()?;
        let end_ns = all().map(|span| span.end_ns).max()?;
        let (mut exchange_ns, mut hidden_ns) = (0, 0);
        let mut ranks = Vec::new();
        for (&rank, spans) in &by_rank {
            let of = |wanted: fn(Category) -> bool| {
                TimeSet::of(
                    spans
                        .iter()
                        .filter(|span| wanted(span.category))
                        .map(|span| (span.start_ns, span.end_ns)),
                )
            };
            let (compute, exchange) = (of(Category::is_compute), of(Category::is_network));
            let hidden = exchange.intersection_ns(&compute);
            (exchange_ns, hidden_ns) = (exchange_ns + exchange.length(), hidden_ns + hidden);
            let last_ns = spans.iter().map(|span| span.end_ns).max().unwrap_or(start_ns);
            ranks.push(RankSummary {
                rank,
                compute_s: seconds(compute.length()),
                exchange_s: seconds(exchange.length()),
                hidden_exchange_s: seconds(hidden),
                end_s: seconds(last_ns - start_ns),
            });
        }
        let slowest = ranks.iter().max_by(|a, b| a.compute_s.total_cmp(&b.compute_s))?;
        let mean = ranks.iter().map(|rank| rank.compute_s).sum::<f64>() / ranks.len() as f64;
        Some(RanksSummary {
            slowest_rank: slowest.rank,
            imbalance: (mean > 0.0).then(|| slowest.compute_s / mean - 1.0),
            exchange_share: share(exchange_ns, (end_ns - start_ns).saturating_mul(ranks.len() as u64)),
            hidden_exchange: share(hidden_ns, exchange_ns),
            ranks,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{Arguments, Category, Span, Trace};

    #[test]
    fn the_slowest_rank_the_exchange_and_the_imbalance_are_found() {
        let rank = |compute_us: u64| {
            let mut trace = Trace::default();
            let (cpu, network) = (trace.process("cpu"), trace.process("network"));
            let (pool, receive) = (trace.lane(cpu, "pool"), trace.lane(network, "receive"));
            for (lane, category, start_us, end_us) in
                [(pool, Category::CpuCompute, 0, compute_us), (receive, Category::Receive, 50, 150)]
            {
                let (start_ns, end_ns) = (start_us * 1000, end_us * 1000);
                let arguments = Arguments { run: Some(0), ..Arguments::default() };
                trace.span(Span { lane, name: "task".into(), category, start_ns, end_ns, arguments });
            }
            trace
        };
        assert_eq!(rank(100).summary().ranks, None);
        let mut merged = Trace::default();
        merged.add_rank(0, rank(100), 0);
        merged.add_rank(1, rank(200), 0);
        let ranks = merged.summary().ranks.unwrap();
        assert_eq!(ranks.slowest_rank, 1);
        assert!((ranks.imbalance.unwrap() - 1.0 / 3.0).abs() < 1e-9);
        assert!((ranks.exchange_share.unwrap() - 0.5).abs() < 1e-9);
        assert!((ranks.hidden_exchange.unwrap() - 0.75).abs() < 1e-9);
    }
}
