//! The machine: processors, caches, memory, limits and GPUs; and binding threads to processors.
//!
//! Detection never fails and never panics: a property that cannot be read gets its simplest value, and a note says so.

mod affinity;
mod cgroup;
mod files;
mod gpu;
#[cfg(feature = "hwloc")]
mod hwloc;
mod pcie;
mod topology;

use std::collections::BTreeMap;
use std::path::Path;

pub use rowloom_cpu::Isa;
use serde::Serialize;

pub use self::affinity::{affinity, bind_current_thread};
use self::cgroup::Limits;
use self::files::{kilobytes, text, value_of};
pub use self::gpu::{Gpu, GpuList, may_have_nvidia_gpu};
pub use self::pcie::pcie_gb_per_s;
pub use self::topology::{Cache, Cpu, NumaNode, Topology, largest_cache_bytes};

/// The caches of one level and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheLevel {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Size of each.
    pub size_bytes: u64,
    /// Hardware threads that share each.
    pub shared_by: usize,
    /// The number of these caches.
    pub count: usize,
}

/// The machine this process runs on, and the part of it that the process may use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Processor model.
    pub cpu: String,
    /// Name and version of the operating system's kernel.
    pub kernel: String,
    /// The widest instruction set in use.
    pub isa: Isa,
    /// Packages (sockets).
    pub packages: usize,
    /// Physical cores.
    pub cores: usize,
    /// Hardware threads online.
    pub hardware_threads: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Data and unified caches, by level.
    pub caches: Vec<CacheLevel>,
    /// Every processor, cache and NUMA node.
    pub topology: Topology,
    /// The machine's memory.
    pub memory_bytes: Option<u64>,
    /// The smallest memory limit of the process's control groups.
    pub cgroup_memory_bytes: Option<u64>,
    /// The CPU time that the control groups allow, in CPUs.
    pub cgroup_cpus: Option<f64>,
    /// Hardware threads this process may run on.
    pub usable_cpus: Vec<usize>,
    /// Threads to start: one for each usable hardware thread, fewer where the control groups allow less CPU time.
    pub usable_threads: usize,
    /// GPUs.
    pub gpus: Vec<Gpu>,
    /// What is missing, and how to install it.
    pub notes: Vec<String>,
}

impl Machine {
    /// The machine this runs on. Call it before threads are bound: the affinity mask is the calling thread's. The CUDA driver
    /// is not started; see [`Machine::query_driver`].
    pub fn detect() -> Self {
        let _span = tracing::info_span!("detect the machine").entered();
        let root = Path::new("/");
        #[cfg(feature = "hwloc")]
        let topology = Topology::from_hwloc().unwrap_or_else(|| Topology::from_sysfs(root));
        #[cfg(not(feature = "hwloc"))]
        let topology = Topology::from_sysfs(root);
        Self { gpus: gpu::listed(root), ..Self::read(root, topology, &affinity()) }
    }

    /// Replaces the GPUs by those that the CUDA driver lists; a note says if there is no driver. Starting the driver takes about
    /// 0.1 s.
    pub fn query_driver(&mut self) {
        let list = GpuList::detect();
        self.gpus = list.gpus;
        self.notes.extend(list.missing);
    }

    /// The machine whose `/proc` and `/sys` are below `root`, for a thread with this affinity mask, without GPUs.
    fn read(root: &Path, mut topology: Topology, mask: &[usize]) -> Self {
        let mut notes = Vec::new();
        if topology.cpus.is_empty() {
            notes.push("/sys describes no processors; every hardware thread is counted as a core".into());
            topology = Topology::from_mask(mask);
        }
        let is_online = |id: &usize| topology.cpus.iter().any(|cpu| cpu.id == *id);
        let online: Vec<usize> = mask.iter().copied().filter(is_online).collect();
        let usable_cpus = if online.is_empty() { mask.to_vec() } else { online };
        let limits = Limits::read(root);
        let quota = limits.cpus.map_or(usize::MAX, |cpus| cpus.ceil() as usize);
        let uname = rustix::system::uname();
        let words = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            host: words(uname.nodename()),
            cpu: cpu_model(&text(&root.join("proc/cpuinfo")).unwrap_or_default()),
            kernel: format!("{} {}", words(uname.sysname()), words(uname.release())),
            isa: Isa::detect(),
            packages: topology.packages(),
            cores: topology.cores(),
            hardware_threads: topology.cpus.len(),
            numa_nodes: topology.numa_nodes.len().max(1),
            caches: cache_levels(&topology.caches),
            topology,
            memory_bytes: total_memory(root),
            cgroup_memory_bytes: limits.memory_bytes,
            cgroup_cpus: limits.cpus,
            usable_threads: usable_cpus.len().min(quota).max(1),
            usable_cpus,
            gpus: Vec::new(),
            notes,
        }
    }

    /// Bytes of the largest cache; zero where none is known.
    pub fn largest_cache_bytes(&self) -> u64 {
        self.topology.caches.iter().map(|cache| cache.size_bytes).max().unwrap_or(0)
    }

    /// Bytes this process may use: the machine's memory or the control groups' limit, whichever is less.
    pub fn memory_limit_bytes(&self) -> u64 {
        smaller(self.memory_bytes, self.cgroup_memory_bytes)
    }

    /// The hardware thread that each of `threads` workers is bound to: first one thread of every core, package by package,
    /// then the cores' other hardware threads. Further workers share hardware threads, from the first one on.
    pub fn placement(&self, threads: usize) -> Vec<usize> {
        let mut workers_of_core: BTreeMap<usize, usize> = BTreeMap::new();
        let mut order: Vec<(usize, usize, usize)> = self
            .usable_cpus
            .iter()
            .map(|&id| {
                let cpu = self.topology.cpus.iter().find(|cpu| cpu.id == id);
                let rank = workers_of_core.entry(cpu.map_or(id, |cpu| cpu.core)).or_default();
                *rank += 1;
                (*rank, cpu.map_or(0, |cpu| cpu.package), id)
            })
            .collect();
        order.sort_unstable();
        order.iter().map(|&(_, _, id)| id).cycle().take(threads).collect()
    }
}

/// Bytes this process may use, without detecting the rest of the machine.
pub fn memory_limit_bytes() -> u64 {
    let root = Path::new("/");
    smaller(total_memory(root), Limits::read(root).memory_bytes)
}

/// The peak resident memory of this process; `None` where the system does not report it.
pub fn peak_rss_bytes() -> Option<u64> {
    kilobytes(&value_of(&text(Path::new("/proc/self/status"))?, "VmHWM")?)
}

fn smaller(memory: Option<u64>, limit: Option<u64>) -> u64 {
    memory.unwrap_or(u64::MAX).min(limit.unwrap_or(u64::MAX))
}

fn total_memory(root: &Path) -> Option<u64> {
    kilobytes(&value_of(&text(&root.join("proc/meminfo"))?, "MemTotal")?)
}

/// The processor's name, whose key differs between x86 and Arm kernels.
fn cpu_model(cpuinfo: &str) -> String {
    let keys = ["model name", "Model", "cpu model", "cpu"];
    let found = keys.iter().find_map(|key| value_of(cpuinfo, key)).filter(|name| !name.is_empty());
    found.unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH))
}

fn cache_levels(caches: &[Cache]) -> Vec<CacheLevel> {
    let mut counts: BTreeMap<(u32, u64, usize), usize> = BTreeMap::new();
    for cache in caches {
        *counts.entry((cache.level, cache.size_bytes, cache.cpus.len())).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|((level, size_bytes, shared_by), count)| CacheLevel { level, size_bytes, shared_by, count })
        .collect()
}

#[cfg(test)]
mod tests;
