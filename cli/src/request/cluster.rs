//! Products on simulated clusters, in words: the network, what crosses it, and the parts of a product's time.

use crate::args::options::Devices;
use crate::console::table::{count, percent};
use rowloom::internal::cost::{Network, SimulatedCluster};
use rowloom::internal::error::{Bytes, Counted, Result, Seconds};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::{SimulatedVectors, TimeParts};
use rowloom::internal::work::Work;

/// Whether the devices are those of a simulated cluster.
pub fn is_asked_for(devices: &Devices, saved: Option<&Plan>) -> bool {
    // The words of `auto` are not asked for, since that would start the CUDA driver.
    match (saved, devices) {
        (Some(plan), _) => plan.cluster.is_some(),
        (None, Devices::Auto) => false,
        (None, Devices::List(words)) => {
            words.iter().any(|word| word.preset().is_some_and(|preset| preset.cluster.is_some()))
        }
    }
}

/// Simulates a product of a plan for a cluster. The plan then predicts the simulated time and has its reasons.
pub fn simulate(plan: &mut Plan, work: &Work<'_>) -> Result<(SimulatedVectors, TimeParts)> {
    let simulated = SimulatedVectors::new(plan.clone(), work)?;
    let parts = simulated.parts(&simulated.run()?)?;
    plan.predicted_s = parts.product_s;
    if let Some(cluster) = &plan.cluster {
        if cluster.has_cpu_ranks() {
            // A rank computes where it has read its rows.
            plan.set_up.bring_a_s = 0.0;
        }
        plan.reasons.retain(|reason| !TOPICS.iter().any(|topic| reason.starts_with(topic)));
        plan.reasons.extend(reasons(cluster, &parts));
    }
    Ok((simulated, parts))
}

/// The topics of the reasons of a cluster. Vectors stay on its devices, so reasons about copies of X and Y are left out.
const TOPICS: [&str; 6] = ["mode: ", "cluster: ", "exchange: ", "parts: ", "X: ", "transfer: "];

/// The parts of the time of a product, which add up to it, with their seconds; those that take no time are left out.
pub fn parts_of_time(cluster: &SimulatedCluster, parts: &TimeParts) -> Vec<(&'static str, f64)> {
    let all = [
        ("kernels", parts.kernels_s),
        ("imbalance", parts.imbalance_s),
        (within(cluster), parts.packing_s),
        ("network bandwidth", parts.bandwidth_s),
        ("network latency", parts.latency_s),
    ];
    all.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect()
}

/// The time of a product in words: parts that add up to it.
pub fn product_words(cluster: &SimulatedCluster, parts: &TimeParts) -> String {
    let words: Vec<String> = parts_of_time(cluster, parts)
        .into_iter()
        .map(|(what, seconds)| format!("{what} {}", Seconds(seconds)))
        .collect();
    if words.is_empty() { "since there are no rows".into() } else { words.join(" + ") }
}

/// What an exchange consists of besides the network.
fn within(cluster: &SimulatedCluster) -> &'static str {
    match cluster.has_cpu_ranks() {
        true => "packing and storing rows",
        false => "packing and copies within nodes",
    }
}

/// The nodes or ranks of a cluster: `64 nodes of 8 GPUs`, `4 ranks`.
pub fn size(cluster: &SimulatedCluster) -> String {
    match cluster.has_cpu_ranks() {
        true => Counted(u64::from(cluster.nodes), "rank").to_string(),
        false => format!(
            "{} of {}",
            Counted(u64::from(cluster.nodes), "node"),
            Counted(u64::from(cluster.gpus_per_node), "GPU")
        ),
    }
}

/// The mode, the network, the exchange and the parts of the time, each as `topic: reason`.
fn reasons(cluster: &SimulatedCluster, parts: &TimeParts) -> Vec<String> {
    let Network { latency_us, message_gb_per_s, injection_gb_per_s, gpu_direct } = cluster.network;
    let path = match (cluster.has_cpu_ranks(), gpu_direct) {
        (true, _) => "between ranks of one host",
        (false, true) => "from GPU memory",
        (false, false) => "through host memory",
    };
    let node = if cluster.has_cpu_ranks() { "rank" } else { "node" };
    let (nodes, within) = (size(cluster), within(cluster));
    let share = |seconds: f64| percent(seconds / parts.product_s.max(f64::MIN_POSITIVE));
    // All ranks of a host are nodes of their own.
    let between_nodes = match cluster.has_cpu_ranks() {
        true => String::new(),
        false => format!(
            ", of which {} in {} between nodes",
            Bytes(parts.network_bytes),
            messages(parts.network_messages)
        ),
    };
    vec![
        "mode: resident: A, X and Y stay on the devices".into(),
        format!(
            "cluster: {nodes}; network: latency {}, {message_gb_per_s} GB/s per message, {injection_gb_per_s} GB/s per {node}, {path}",
            Seconds(latency_us * 1e-6),
        ),
        format!(
            "exchange: {} in {} per product{between_nodes}",
            Bytes(parts.exchanged_bytes),
            messages(parts.messages),
        ),
        format!(
            "parts: kernels {} of the product, imbalance {}, exchange not hidden: {within} {}, network \
             bandwidth {}, network latency {}",
            share(parts.kernels_s),
            share(parts.imbalance_s),
            share(parts.packing_s),
            share(parts.bandwidth_s),
            share(parts.latency_s),
        ),
    ]
}

fn messages(number: u64) -> String {
    if number == 1 { "1 message".into() } else { format!("{} messages", count(number)) }
}
