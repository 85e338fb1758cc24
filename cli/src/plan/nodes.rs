//! The same product on fewer nodes of a simulated cluster, and the number of nodes to use.

use serde::Serialize;

use crate::console::table::{Table, seconds};
use crate::request::cluster::parts_of_time;
use rowloom::internal::cost::{HostRates, SimulatedCluster};
use rowloom::internal::error::{Counted, Error, Result, Seconds};
use rowloom::internal::plan::{Plan, PlanRequest, make};
use rowloom::internal::runtime::{SimulatedVectors, TimeParts};

/// Fewer nodes are advised where a product takes at most this multiple of the shortest time.
const FAST_ENOUGH: f64 = 1.1;

/// The simulated time on a number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NodeCount {
    /// Number of nodes.
    pub nodes: u32,
    /// Seconds of a product, with its exchange.
    pub product_s: f64,
    /// Seconds of the set-up.
    pub set_up_s: f64,
    /// Seconds of the set-up and all products.
    pub total_s: f64,
    /// The part of a product that takes longest.
    pub longest: &'static str,
}

/// The times on all nodes, a half, a quarter and so on, as long as they have enough memory.
#[derive(Debug, Default)]
pub struct NodeCounts {
    /// The counts, the largest first.
    pub counts: Vec<NodeCount>,
    /// The largest number of nodes whose memory is too small.
    pub too_few: Option<u32>,
}

impl NodeCounts {
    /// Simulates the product of `plan`, which takes `parts`, on fewer nodes. Ranks of one host are not compared: each has a part of
    /// the host's rates, which depends on their number.
    pub fn compare(request: &PlanRequest<'_>, plan: &Plan, parts: &TimeParts) -> Result<Self> {
        let Some(cluster) = request.cluster.as_ref().filter(|cluster| !cluster.has_cpu_ranks()) else {
            return Ok(Self::default());
        };
        let mut compared = Self { counts: vec![count(cluster, plan, parts)], too_few: None };
        let mut nodes = cluster.nodes / 2;
        while nodes > 0 {
            let share = f64::from(nodes) / f64::from(cluster.nodes.max(1));
            let host = HostRates {
                cores: request.host.cores / cluster.nodes.max(1) * nodes,
                memory_gb_per_s: request.host.memory_gb_per_s * share,
                copy_gb_per_s: request.host.copy_gb_per_s * share,
            };
            let fewer = SimulatedCluster { nodes, ..cluster.clone() };
            let devices = request.devices.iter().take(fewer.devices() as usize).cloned().collect();
            let smaller = PlanRequest { devices, host, cluster: Some(fewer.clone()), ..request.clone() };
            let simulated = || -> Result<NodeCount> {
                let mut plan = make(&smaller)?;
                let vectors = SimulatedVectors::new(plan.clone(), &request.work)?;
                let parts = vectors.parts(&vectors.run()?)?;
                plan.predicted_s = parts.product_s;
                Ok(count(&fewer, &plan, &parts))
            };
            match simulated() {
                Ok(count) => compared.counts.push(count),
                Err(Error::DoesNotFit { .. }) => {
                    compared.too_few = Some(nodes);
                    break;
                }
                Err(error) => return Err(error),
            }
            nodes /= 2;
        }
        Ok(compared)
    }

    /// The table of the counts, with the time of `repeat` products.
    pub fn table(&self, repeat: u64) -> Table {
        let total = Counted(repeat, "product").to_string();
        let mut table =
            Table::columns(["nodes", "per product", &total, "largest part of a product"], &[0, 1, 2]);
        for count in &self.counts {
            table.row([
                count.nodes.to_string(),
                seconds(count.product_s),
                seconds(count.total_s),
                count.longest.into(),
            ]);
        }
        if let Some(nodes) = self.too_few {
            table.row([nodes.to_string(), "-".into(), "-".into(), "too little device memory".into()]);
        }
        table
    }

    /// The fewest nodes on which a product is nearly as fast as on the best number.
    pub fn advised(&self) -> Option<(&NodeCount, &NodeCount)> {
        let fastest = self.counts.iter().min_by(|a, b| a.product_s.total_cmp(&b.product_s))?;
        let fast = |count: &&NodeCount| count.product_s <= FAST_ENOUGH * fastest.product_s;
        self.counts.iter().rev().find(fast).map(|advised| (advised, fastest))
    }

    /// The number of nodes to use, and why.
    pub fn advice(&self) -> Option<String> {
        let (advised, fastest) = self.advised()?;
        let nodes = Counted(u64::from(advised.nodes), "node");
        let time = Seconds(advised.product_s);
        let larger = self.counts.first().filter(|most| most.nodes > advised.nodes);
        let smaller = self.counts.iter().find(|count| count.nodes < advised.nodes);
        let why = match (larger, smaller, self.too_few) {
            (Some(_), ..) if fastest.nodes > advised.nodes => format!(
                "a product takes {time} there, and at best {} on more ({})",
                Seconds(fastest.product_s),
                fastest.nodes
            ),
            (Some(most), ..) => {
                format!("a product takes {time} there, and {} on {}", Seconds(most.product_s), most.nodes)
            }
            (None, Some(fewer), _) => {
                format!("a product takes {time} there, and {} on {}", Seconds(fewer.product_s), fewer.nodes)
            }
            (None, None, Some(too_few)) => format!("the device memory of {too_few} is too small"),
            (None, None, None) => {
                format!("a product takes {time} there; plan for more nodes to compare them")
            }
        };
        Some(format!("use {nodes}, because {why}"))
    }
}

/// The time of a simulated plan.
fn count(cluster: &SimulatedCluster, plan: &Plan, parts: &TimeParts) -> NodeCount {
    let longest = parts_of_time(cluster, parts).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    NodeCount {
        nodes: cluster.nodes,
        product_s: parts.product_s,
        set_up_s: plan.set_up.total_s(),
        total_s: plan.total_s(),
        longest: longest.map_or("none", |(what, _)| what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(times: &[(u32, f64)], too_few: Option<u32>) -> NodeCounts {
        let of = |&(nodes, product_s): &(u32, f64)| NodeCount {
            nodes,
            product_s,
            set_up_s: 0.5,
            total_s: 0.5 + product_s,
            longest: "kernels",
        };
        NodeCounts { counts: times.iter().map(of).collect(), too_few }
    }

    #[test]
    fn the_fewest_nodes_that_are_nearly_as_fast_as_the_best_are_advised() {
        for (times, too_few, advice) in [
            (
                &[(4, 1.0), (2, 1.5), (1, 2.0)][..],
                None,
                "use 4 nodes, because a product takes 1.00 s there, and 1.50 s on 2",
            ),
            (
                &[(4, 2.0), (2, 1.5), (1, 1.0)],
                None,
                "use 1 node, because a product takes 1.00 s there, and 2.00 s on 4",
            ),
            (
                &[(4, 1.0), (2, 1.05), (1, 2.0)],
                None,
                "use 2 nodes, because a product takes 1.05 s there, and at best 1.00 s on more (4)",
            ),
            (&[(4, 1.0)], Some(2), "use 4 nodes, because the device memory of 2 is too small"),
            (
                &[(1, 1.0)],
                None,
                "use 1 node, because a product takes 1.00 s there; plan for more nodes to compare them",
            ),
        ] {
            assert_eq!(counts(times, too_few).advice().as_deref(), Some(advice));
        }
        assert_eq!(counts(&[], None).advice(), None);
    }
}
