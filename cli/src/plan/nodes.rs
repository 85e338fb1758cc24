//! The same product on fewer nodes of a simulated cluster, and on fewer GPUs of one of its nodes.

use serde::Serialize;

use super::counts::{Count, Counts, Extent};
use crate::request::cluster::parts_of_time;
use rowloom::internal::cost::{HostRates, SimulatedCluster};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::plan::{Plan, PlanRequest, make};
use rowloom::internal::runtime::{SimulatedVectors, TimeParts};

/// The simulated time on a number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NodeCount {
    /// Number of nodes.
    pub nodes: u32,
    /// GPUs that are used of each node.
    pub gpus_per_node: u32,
    /// Seconds of a product, with its exchange.
    pub product_s: f64,
    /// Seconds of the set-up.
    pub set_up_s: f64,
    /// Seconds of the set-up and all products.
    pub total_s: f64,
    /// The part of a product that takes longest.
    pub longest: &'static str,
}

/// The times on all nodes, a half, a quarter and so on, then on a half of the GPUs of one node and so on, as long as they have enough memory.
#[derive(Debug, Default)]
pub struct NodeCounts {
    /// The counts, the largest first.
    pub counts: Vec<NodeCount>,
    /// The largest part of the cluster whose memory is too small.
    pub too_few: Option<Extent>,
}

impl NodeCounts {
    /// Simulates the product of `plan`, which takes `parts`, on fewer nodes. Ranks of one host are not compared: each has a part of
    /// the host's rates, which depends on their number.
    pub fn compare(request: &PlanRequest<'_>, plan: &Plan, parts: &TimeParts) -> Result<Self> {
        let Some(cluster) = request.cluster.as_ref().filter(|cluster| !cluster.has_cpu_ranks()) else {
            return Ok(Self::default());
        };
        let mut compared = Self { counts: vec![count(cluster, plan, parts)], too_few: None };
        let mut fewer = cluster.clone();
        while fewer.devices() > 1 {
            match fewer.nodes {
                0 | 1 => fewer.gpus_per_node /= 2,
                _ => fewer.nodes /= 2,
            }
            let nodes = fewer.nodes;
            let share = f64::from(nodes) / f64::from(cluster.nodes.max(1));
            let host = HostRates {
                cores: request.host.cores / cluster.nodes.max(1) * nodes,
                memory_gb_per_s: request.host.memory_gb_per_s * share,
                copy_gb_per_s: request.host.copy_gb_per_s * share,
            };
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
                    compared.too_few = Some(extent(cluster, nodes, fewer.gpus_per_node));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(compared)
    }

    /// The times of `products` on the nodes of `cluster`.
    pub fn counted(&self, cluster: &SimulatedCluster, products: u64) -> Counts {
        let count = |of: &NodeCount| Count {
            extent: extent(cluster, of.nodes, of.gpus_per_node),
            product_s: of.product_s,
            total_s: of.total_s,
            longest: Some(of.longest),
        };
        Counts { products, counts: self.counts.iter().map(count).collect(), too_few: self.too_few }
    }
}

/// So many nodes of `cluster`, or so many GPUs of its only node.
fn extent(cluster: &SimulatedCluster, nodes: u32, gpus_per_node: u32) -> Extent {
    match gpus_per_node == cluster.gpus_per_node {
        true => Extent::Nodes(nodes.into()),
        false => Extent::GpusOfNode(gpus_per_node.into()),
    }
}

/// The time of a simulated plan.
fn count(cluster: &SimulatedCluster, plan: &Plan, parts: &TimeParts) -> NodeCount {
    let longest = parts_of_time(cluster, parts).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    NodeCount {
        nodes: cluster.nodes,
        gpus_per_node: cluster.gpus_per_node,
        product_s: parts.product_s,
        set_up_s: plan.set_up.total_s(),
        total_s: plan.total_s(),
        longest: longest.map_or("none", |(what, _)| what),
    }
}
