//! Processors, cores, packages, caches and NUMA nodes as plain data, read from sysfs.
//!
//! The reader takes the root of the file system, so that it can be tested on a fabricated machine. It never fails: a
//! missing or damaged file leaves the default, the simplest possible machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;

use super::files::{cpu_list, kilobytes, number, numbered, text, value_of};

/// One hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The system's number for it, as affinity masks use it.
    pub id: usize,
    /// Its core: the smallest number among the hardware threads that share it.
    pub core: usize,
    /// Its package (socket).
    pub package: usize,
    /// Its NUMA node.
    pub numa_node: usize,
}

/// One data or unified cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Its size.
    pub size_bytes: u64,
    /// The hardware threads that share it.
    pub cpus: Vec<usize>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// The system's number for it.
    pub id: usize,
    /// The hardware threads of the node.
    pub cpus: Vec<usize>,
    /// Its memory, where known.
    pub memory_bytes: Option<u64>,
}

/// The processors, caches and NUMA nodes of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The source: `sysfs`, `hwloc` or `affinity mask`.
    pub source: &'static str,
    /// Hardware threads that are online, by number.
    pub cpus: Vec<Cpu>,
    /// Caches, by level.
    pub caches: Vec<Cache>,
    /// NUMA nodes, by number.
    pub numa_nodes: Vec<NumaNode>,
}

impl Topology {
    /// Reads sysfs below `root`, which is `/` except in tests.
    pub fn from_sysfs(root: &Path) -> Self {
        let cpu_folder = root.join("sys/devices/system/cpu");
        let online = text(&cpu_folder.join("online")).and_then(|list| cpu_list(&list));
        let ids = match online {
            Some(ids) if !ids.is_empty() => ids,
            _ => numbered(&cpu_folder, "cpu"),
        };
        let numa_nodes = numa_nodes(root);
        let cpu = |id: usize| {
            let folder = cpu_folder.join(format!("cpu{id}/topology"));
            // Newer kernels use the first name.
            let siblings = ["core_cpus_list", "thread_siblings_list"]
                .iter()
                .find_map(|name| cpu_list(&text(&folder.join(name))?).filter(|list| list.contains(&id)));
            let node = numa_nodes.iter().find(|node| node.cpus.contains(&id));
            Cpu {
                id,
                core: siblings.and_then(|list| list.first().copied()).unwrap_or(id),
                // Some virtual machines report −1.
                package: number(&folder.join("physical_package_id")).unwrap_or(0) as usize,
                numa_node: node.map_or(0, |node| node.id),
            }
        };
        let cpus: Vec<Cpu> = ids.iter().map(|&id| cpu(id)).collect();
        let caches: BTreeSet<Cache> =
            ids.iter().flat_map(|id| caches(&cpu_folder.join(format!("cpu{id}/cache")))).collect();
        Self { source: "sysfs", cpus, caches: caches.into_iter().collect(), numa_nodes }
    }

    /// The topology where only the affinity mask is known: each hardware thread is a core.
    pub fn from_mask(mask: &[usize]) -> Self {
        let cpu = |&id: &usize| Cpu { id, core: id, package: 0, numa_node: 0 };
        Self { source: "affinity mask", cpus: mask.iter().map(cpu).collect(), ..Self::default() }
    }

    /// Number of packages.
    pub fn packages(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.package).collect::<BTreeSet<_>>().len()
    }

    /// Number of physical cores.
    pub fn cores(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.core).collect::<BTreeSet<_>>().len()
    }
}

/// The NUMA nodes that sysfs lists below `root`.
pub fn numa_nodes(root: &Path) -> Vec<NumaNode> {
    let folder = root.join("sys/devices/system/node");
    let node = |id: usize| {
        let folder = folder.join(format!("node{id}"));
        let memory = text(&folder.join("meminfo"))
            .and_then(|text| value_of(&text, &format!("Node {id} MemTotal")))
            .and_then(|value| kilobytes(&value));
        let cpus = text(&folder.join("cpulist")).and_then(|list| cpu_list(&list)).unwrap_or_default();
        NumaNode { id, cpus, memory_bytes: memory }
    };
    numbered(&folder, "node").into_iter().map(node).collect()
}

/// Bytes of the largest cache of the first hardware thread; zero where none is known.
pub fn largest_cache_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    let read = || caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
    *BYTES.get_or_init(|| read().iter().map(|cache| cache.size_bytes).max().unwrap_or(0))
}

fn caches(folder: &Path) -> Vec<Cache> {
    let cache = |index: usize| {
        let folder = folder.join(format!("index{index}"));
        if text(&folder.join("type"))? == "Instruction" {
            return None;
        }
        Some(Cache {
            level: u32::try_from(number(&folder.join("level"))?).ok()?,
            size_bytes: size(&text(&folder.join("size"))?)?,
            cpus: cpu_list(&text(&folder.join("shared_cpu_list"))?)?,
        })
    };
    numbered(folder, "index").into_iter().filter_map(cache).collect()
}

/// Bytes of a size like `48K` or `300M`.
fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
