//! Tables of many devices and of clusters: groups of equal devices, and kernels, in place of a line for each.

use std::collections::HashSet;

use super::table::{entries, kind, rows_of};
use crate::console::table::{Table, count, percent, seconds, short};
use crate::run::workload::with_own_names;
use rowloom::internal::error::{Bytes, Counted};
use rowloom::internal::plan::{DevicePlan, Plan};

/// Devices that compute and are listed one by one.
const LISTED_DEVICES: usize = 4;
/// Groups of nodes of a cluster.
const GROUPS: usize = 8;
/// Groups of devices of one machine.
const MACHINE_GROUPS: usize = 4;

/// Whether a plan's devices are shown in groups: those of every cluster, and many of one machine.
pub fn are_grouped(plan: &Plan) -> bool {
    plan.cluster.is_some() || plan.computing().count() > LISTED_DEVICES
}

/// The devices that compute, in at most [`GROUPS`] groups of whole nodes on a cluster, and in [`MACHINE_GROUPS`] groups of neighbours on a machine.
pub fn devices(plan: &Plan) -> Table {
    let what = entries(plan);
    let headings = ["devices", "rows", what, "chunks", "memory of each", "done after"];
    let mut table = Table::columns(headings, &[1, 2, 3, 5]).wrapped();
    let all: Vec<usize> = plan.computing().map(|device| device as usize).collect();
    let per_node = plan.cluster.as_ref().map_or(1, |cluster| cluster.gpus_per_node.max(1)) as usize;
    let nodes = all.len().div_ceil(per_node);
    let groups = if plan.cluster.is_some() { GROUPS } else { MACHINE_GROUPS };
    let of_group = nodes.div_ceil(groups).max(1) * per_node;
    let share = |part: f64, of: u64| percent(if of == 0 { 0.0 } else { part / of as f64 });
    for group in all.chunks(of_group) {
        let members: Vec<&DevicePlan> = group.iter().filter_map(|&index| plan.devices.get(index)).collect();
        let rows: f64 = group.iter().map(|&index| rows_of(plan, index)).sum();
        let last_s = members.iter().map(|device| device.predicted_s).fold(0.0, f64::max);
        table.row([
            name(plan, &members, per_node),
            share(rows, plan.matrix.rows),
            share(members.iter().map(|device| device.size.entries).sum::<u64>() as f64, plan.matrix.entries),
            count(members.iter().map(|device| device.chunks).sum()),
            with_own_names(kind(plan), &memory(&members)),
            // Only a simulation has the times of a product with an exchange.
            if plan.cluster.is_some() || last_s == 0.0 { "-".into() } else { seconds(last_s) },
        ]);
    }
    table
}

/// The name of a group: how many devices, the first and the last.
fn name(plan: &Plan, members: &[&DevicePlan], per_node: usize) -> String {
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return String::new() };
    let number = match &plan.cluster {
        Some(cluster) if !cluster.has_cpu_ranks() => format!(
            "{} x {}",
            Counted((members.len() / per_node) as u64, "node"),
            Counted(per_node as u64, "GPU")
        ),
        Some(_) => Counted(members.len() as u64, "rank").to_string(),
        None => Counted(members.len() as u64, "device").to_string(),
    };
    let split = |device: &DevicePlan| {
        let parts = device.name.rsplit_once('/')?;
        Some((parts.0.to_owned(), parts.1.to_owned()))
    };
    match (split(first), split(last)) {
        _ if members.len() == 1 => format!("{number}: {}", first.name),
        // All devices of a cluster have the same machine in their names.
        (Some((_, first)), Some((_, last))) if plan.cluster.is_some() => {
            format!("{number}: {first} to {last}")
        }
        (Some((machine, _)), Some((other, last))) if machine == other => {
            format!("{} to {last}", first.name)
        }
        _ => format!("{number}: {} to {}", first.name, last.name),
    }
}

/// The most memory that the plan takes on one of these devices.
fn memory(members: &[&DevicePlan]) -> String {
    let busy = members.iter().filter(|device| device.chunks > 0);
    match busy.map(|device| device.slots.device_bytes()).max() {
        Some(most) if most > 0 => format!("up to {}", Bytes(most)),
        _ => "-".into(),
    }
}

/// What a kernel computes.
#[derive(Default)]
struct OfKernel<'a> {
    kernel: &'a str,
    devices: HashSet<u32>,
    entries: u64,
    /// The predicted seconds of each chunk.
    seconds: Vec<f64>,
}

/// The kernels, with their chunks and devices.
pub fn kernels(plan: &Plan) -> Table {
    let mut kernels: Vec<OfKernel<'_>> = Vec::new();
    for chunk in &plan.chunks {
        let kernel = plan.kernel_on(chunk, chunk.home).name();
        let at = kernels.iter().position(|known| known.kernel == kernel).unwrap_or_else(|| {
            kernels.push(OfKernel { kernel, ..OfKernel::default() });
            kernels.len() - 1
        });
        kernels[at].devices.insert(chunk.home);
        kernels[at].entries += chunk.size.entries;
        kernels[at].seconds.push(chunk.predicted_s);
    }
    let headings = ["kernel", "chunks", "devices", entries(plan), "per chunk"];
    let mut table = Table::columns(headings, &[1, 2, 3, 4]);
    for OfKernel { kernel, devices, entries, seconds: times } in kernels {
        let least = seconds(times.iter().copied().fold(f64::INFINITY, f64::min));
        let most = seconds(times.iter().copied().fold(0.0, f64::max));
        let each = match plan.cluster {
            // Only a simulation has the times of a product with an exchange.
            Some(_) => "-".into(),
            None if least == most => most,
            None => format!("{least}–{most}"),
        };
        let (chunks, devices) = (times.len() as u64, devices.len() as u64);
        table.row([kernel.into(), count(chunks), count(devices), short(entries), each]);
    }
    table
}
