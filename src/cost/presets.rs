//! Descriptions of machines, parsed from compiled-in TOML files.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::network::{DEFAULT_NETWORK, NETWORK_OF_A_HOST, Network, SimulatedCluster};
use super::profile::{HostRates, Link, Profile};
use crate::error::{Error, Result};
use crate::kernel::Processor;
use crate::suggest::nearest;

/// Name and description of every machine that can be simulated.
const MACHINES: [(&str, &str); 5] = [
    ("h200", include_str!("../../configs/machines/h200.toml")),
    ("h100", include_str!("../../configs/machines/h100.toml")),
    ("a100", include_str!("../../configs/machines/a100.toml")),
    ("node8", include_str!("../../configs/machines/node8.toml")),
    ("h200node8", include_str!("../../configs/machines/h200node8.toml")),
];
const CPU: &str = include_str!("../../configs/machines/cpu.toml");
/// Weights by kernel shape: of a CPU, and of GPUs by the name that a machine description gives.
const CPU_WEIGHTS: &str = include_str!("../../configs/kernels/cpu.toml");
const GPU_WEIGHTS: [(&str, &str); 1] = [("h200", include_str!("../../configs/kernels/h200.toml"))];
const EMULATED: &str = include_str!("../../configs/machines/emulated.toml");

/// Cores of the machine whose memory bandwidth `cpu.toml` gives; it is scaled up for machines with more.
const CORES_OF_MEMORY: f64 = 16.0;

/// Largest number of GPUs in a name.
const MAX_GPUS: u32 = 64;
/// Largest number of nodes in a name.
const MAX_NODES: u32 = 128;

/// A machine to simulate: its host and its GPUs; or a cluster of equal nodes, with the hosts of all nodes added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Its name, as in `sim:NAME`.
    pub name: String,
    /// Rates of the host's memory.
    pub host: HostRates,
    /// The CPU.
    pub cpu: Profile,
    /// The GPUs, all of one kind.
    pub gpus: Vec<Profile>,
    /// The nodes and their network, if it is a cluster.
    pub cluster: Option<SimulatedCluster>,
}

/// The content of a machine description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    gpus: u32,
    /// The name of the weights and cases that its GPUs use.
    weights: String,
    host: HostFile,
    gpu: Profile,
}

/// The host of a description. Where the machine has one GPU, these are the figures per GPU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    cores: u32,
    memory_bytes: u64,
    memory_gb_per_s: f64,
    copy_gb_per_s: f64,
}

/// Rates of one core, and of the resources that all cores share.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuFile {
    core_stream_gb_per_s: f64,
    core_copy_gb_per_s: f64,
    core_gather_gb_per_s: f64,
    core_far_gather_gb_per_s: f64,
    core_cache_bytes: u64,
    /// Read bandwidth of 16 cores.
    memory_gb_per_s: f64,
    /// Bandwidth of 16 cores and a copying card together.
    shared_gb_per_s: f64,
    copy_gb_per_s: f64,
    /// Gather bandwidth as a multiple of the memory bandwidth: some rows of X hit in a cache.
    far_gather_of_memory: f64,
    launch_us: f64,
    row_ns: f64,
    core_f64_gflop_per_s: f64,
    core_f32_gflop_per_s: f64,
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text)
        .map_err(|error| Error::Internal(format!("a compiled-in machine description is invalid: {error}")))
}

/// The names that [`preset`] knows.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, _)| *name)
}

/// The machine of that name: `h200`, `h200x4` (four GPUs in one machine), `node8`, `node8x64` (64 nodes).
pub fn preset(name: &str) -> Result<Preset> {
    preset_on(name, None)
}

/// Before the number of ranks that share the CPU of a host: `cpux4`.
const RANKS: &str = "cpux";

/// How many times longer kernels take where ranks take turns on cores. Measured with four ranks on two cores and a band matrix, whose
/// ranks exchange almost nothing: 11 to 24 % longer than with a core for each rank.
const OVERSUBSCRIBED: f64 = 1.17;

/// The number of ranks in `cpux4`; `None` for other machines.
pub fn rank_count(name: &str) -> Option<Result<u32>> {
    let count = name.strip_prefix(RANKS)?;
    Some(match count.parse() {
        Ok(ranks) if (1..=MAX_NODES).contains(&ranks) && count.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(ranks)
        }
        _ => Err(Error::usage(format!(
            "{name}: from 1 to {MAX_NODES} ranks can share a host; write cpux4 for four ranks"
        ))),
    })
}

/// `ranks` ranks that share a host: each has an equal share of the CPU's rates, of the memory and of its bandwidth. Where there are more
/// ranks than cores, they take turns, which costs time.
pub fn ranks_of_host(
    name: &str,
    ranks: u32,
    cpu: &Profile,
    host: &HostRates,
    network: Option<&str>,
) -> Result<Preset> {
    let slowdown = if ranks > host.cores { OVERSUBSCRIBED } else { 1.0 };
    let shares = f64::from(ranks) * slowdown;
    let of_rank = HostRates {
        cores: (host.cores / ranks).max(1),
        memory_gb_per_s: host.memory_gb_per_s / shares,
        copy_gb_per_s: host.copy_gb_per_s / shares,
    };
    // Rows are exchanged by messages, so no copy crosses this link.
    let link = Link {
        latency_us: 0.0,
        to_device_gb_per_s: of_rank.copy_gb_per_s,
        from_device_gb_per_s: of_rank.copy_gb_per_s,
        both_gb_per_s: of_rank.copy_gb_per_s,
        peer_gb_per_s: None,
        register_s_per_gb: None,
    };
    let rank = Profile {
        memory_bytes: cpu.memory_bytes / u64::from(ranks),
        cache_bytes: cpu.cache_bytes / u64::from(ranks),
        launch_us: cpu.launch_us,
        link: Some(link),
        // Fitted to whole matrices, whose parts they would predict faster than the whole.
        weights: BTreeMap::new(),
        factors: BTreeMap::new(),
        ..cpu.scaled(shares)
    };
    let network = Network::named(network.unwrap_or(NETWORK_OF_A_HOST))?;
    let cluster = SimulatedCluster { nodes: ranks, gpus_per_node: 0, host: of_rank, network };
    Ok(Preset {
        name: name.into(),
        host: host.clone(),
        cpu: cpu.clone(),
        gpus: vec![rank; ranks as usize],
        cluster: Some(cluster),
    })
}

/// As [`preset`], with the network of a cluster by its name or as the path of a TOML file. Ranks of a CPU get default rates, with a core
/// for each rank; [`ranks_of_host`] has those of a measured host.
pub fn preset_on(name: &str, network: Option<&str>) -> Result<Preset> {
    if let Some(ranks) = rank_count(name) {
        let ranks = ranks?;
        let (cpu, host) = (cpu_profile(ranks as usize, 1 << 36)?, host_rates(ranks as usize)?);
        return ranks_of_host(name, ranks, &cpu, &host, network);
    }
    let text = |wanted: &str| MACHINES.iter().find(|(known, _)| *known == wanted).map(|(_, text)| *text);
    let (file, count) = match text(name) {
        Some(text) => (parse::<MachineFile>(text)?, None),
        None => {
            let (base, count) = name.rsplit_once('x').ok_or_else(|| unknown(name))?;
            let file = parse::<MachineFile>(text(base).ok_or_else(|| unknown(name))?)?;
            let most = if file.gpus == 1 { MAX_GPUS } else { MAX_NODES };
            match count.parse() {
                Ok(count) if (1..=most).contains(&count) => (file, Some(count)),
                Err(_) if !count.bytes().all(|byte| byte.is_ascii_digit()) || count.is_empty() => {
                    return Err(unknown(name));
                }
                _ if file.gpus == 1 => {
                    return Err(Error::usage(format!(
                        "{name}: a machine has from 1 to {MAX_GPUS} GPUs of kind {base}, not {count}; write {base}x4 for four of \
                         them"
                    )));
                }
                _ => {
                    return Err(Error::usage(format!(
                        "{name}: a cluster has from 1 to {MAX_NODES} nodes, not {count}; write {base}x4 for four nodes of {base}"
                    )));
                }
            }
        }
    };
    let is_cluster = file.gpus > 1 && count.is_some();
    let count = count.unwrap_or(1);
    let node = HostRates {
        cores: file.host.cores,
        memory_gb_per_s: file.host.memory_gb_per_s,
        copy_gb_per_s: file.host.copy_gb_per_s,
    };
    let cluster = match (is_cluster, network) {
        (true, network) => Some(SimulatedCluster {
            nodes: count,
            gpus_per_node: file.gpus,
            host: node.clone(),
            network: Network::named(network.unwrap_or(DEFAULT_NETWORK))?,
        }),
        (false, None) => None,
        (false, Some(_)) => {
            return Err(Error::usage(format!(
                "{name} is one machine and has no network; a cluster is a number of nodes, such as node8x4"
            )));
        }
    };
    // The host grows with the number of GPUs, and those of all nodes are added up.
    let host = HostRates {
        cores: node.cores * count,
        memory_gb_per_s: node.memory_gb_per_s * f64::from(count),
        copy_gb_per_s: node.copy_gb_per_s * f64::from(count),
    };
    let memory_bytes = file.host.memory_bytes.saturating_mul(u64::from(count));
    let cpu = cpu_with_memory(host.cores as usize, memory_bytes, host.memory_gb_per_s)?;
    let weights = GPU_WEIGHTS.iter().find(|(known, _)| *known == file.weights).map_or("", |(_, text)| *text);
    let weights = parse::<BTreeMap<String, Vec<f64>>>(weights)?;
    let gpu = Profile { weights, cases: Some(file.weights), ..file.gpu };
    Ok(Preset { name: name.into(), host, cpu, gpus: vec![gpu; (file.gpus * count) as usize], cluster })
}

fn unknown(name: &str) -> Error {
    let names: Vec<&str> = preset_names().collect();
    let (base, count) = match name.rsplit_once('x') {
        Some((base, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => (base, count),
        _ => (name, ""),
    };
    let nearest = match nearest(base, names.iter().copied()) {
        Some(machine) if machine == base => String::new(),
        Some(machine) if count.is_empty() => format!(" (did you mean 'sim:{machine}'?)"),
        Some(machine) => format!(" (did you mean 'sim:{machine}x{count}'?)"),
        None => String::new(),
    };
    Error::usage(format!(
        "unknown machine '{name}'{nearest}; the machines are {}; a count of up to {MAX_GPUS} GPUs may follow, as in h200x4, \
         or of up to {MAX_NODES} nodes, as in node8x4; cpux4 stands for four ranks that share a host",
        names.join(", ")
    ))
}

/// The default profile of a CPU with `threads` threads.
pub fn cpu_profile(threads: usize, memory_bytes: u64) -> Result<Profile> {
    cpu_with_memory(threads, memory_bytes, host_rates(threads)?.memory_gb_per_s)
}

fn cpu_with_memory(threads: usize, memory_bytes: u64, memory_gb_per_s: f64) -> Result<Profile> {
    let file: CpuFile = parse(CPU)?;
    let cores = threads.max(1) as f64;
    let all_cores = file.memory_gb_per_s * (cores / CORES_OF_MEMORY).max(1.0);
    let memory_gb_per_s = memory_gb_per_s.min(all_cores).min(file.core_stream_gb_per_s * cores);
    Ok(Profile {
        name: "cpu".into(),
        processor: Processor::Cpu,
        memory_bytes,
        stream_gb_per_s: memory_gb_per_s,
        gather_gb_per_s: file.core_gather_gb_per_s * cores,
        far_gather_gb_per_s: (file.core_far_gather_gb_per_s * cores)
            .min(file.far_gather_of_memory * memory_gb_per_s),
        cache_bytes: file.core_cache_bytes.saturating_mul(threads.max(1) as u64),
        launch_us: file.launch_us,
        row_ns: file.row_ns / cores,
        product_ns: 0.0,
        f64_gflop_per_s: file.core_f64_gflop_per_s * cores,
        f32_gflop_per_s: file.core_f32_gflop_per_s * cores,
        cublas: false,
        compiles: false,
        driver_start_s: 0.0,
        open_s: 0.0,
        load_kernel_s: 0.0,
        first_compile_s: 0.0,
        link: None,
        weights: parse(CPU_WEIGHTS)?,
        cases: None,
        factors: BTreeMap::new(),
        corrections: Vec::new(),
    })
}

/// The default rates of the memory of a host with `threads` threads.
pub fn host_rates(threads: usize) -> Result<HostRates> {
    let file: CpuFile = parse(CPU)?;
    let cores = threads.max(1) as f64;
    Ok(HostRates {
        cores: threads.max(1) as u32,
        memory_gb_per_s: (file.core_stream_gb_per_s * cores).min(file.shared_gb_per_s),
        copy_gb_per_s: (file.core_copy_gb_per_s * cores).min(file.copy_gb_per_s),
    })
}

/// The profile of the emulated GPU.
pub fn emulated_profile() -> Result<Profile> {
    parse(EMULATED)
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::super::shapes::{SHAPES, are_valid};
    use super::*;

    #[test]
    fn every_description_is_valid() {
        for name in preset_names() {
            let machine = preset(name).unwrap();
            assert!(!machine.gpus.is_empty(), "{name}");
            for profile in machine.gpus.iter().chain([&machine.cpu]) {
                assert!(profile.stream_gb_per_s > 0.0 && profile.gather_gb_per_s > 0.0, "{name}");
                assert!(profile.far_gather_gb_per_s > 0.0 && profile.memory_bytes > 1 << 30, "{name}");
            }
            for profile in machine.gpus.iter().chain([&machine.cpu]) {
                for (shape, weights) in &profile.weights {
                    assert!(SHAPES.contains(&shape.as_str()) && are_valid(weights), "{name}: {shape}");
                }
            }
            assert!(machine.gpus[0].weights.contains_key("csr_runs_64"), "{name}");
            let link = machine.gpus[0].link.as_ref().expect("a GPU has a link");
            assert!(machine.gpus[0].open_s > 0.0 && machine.gpus[0].load_kernel_s > 0.0, "{name}");
            assert!(link.both_gb_per_s <= link.to_device_gb_per_s + link.from_device_gb_per_s, "{name}");
            assert!(machine.host.copy_gb_per_s < machine.host.memory_gb_per_s, "{name}");
        }
        assert!(emulated_profile().unwrap().product_ns > 1.0);
    }

    #[test]
    fn a_gpu_count_may_follow_the_name() {
        assert_eq!(preset("h200x4").unwrap().gpus.len(), 4);
        for (name, gpu) in [("node8", "h100"), ("h200node8", "h200")] {
            let gpus = preset(name).unwrap().gpus;
            assert!(gpus.len() == 8 && gpus.iter().all(|of| of.name == gpu), "{name}");
        }
        let (one, two) = (preset("a100").unwrap(), preset("a100x2").unwrap());
        assert_eq!(two.host.memory_gb_per_s, 2.0 * one.host.memory_gb_per_s);
        for nonsense in ["", "h300", "h200x", "h200x-1", "x4", "node8x", "node8x-1", "cpu"] {
            let error = preset(nonsense).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{nonsense}");
            assert!(error.to_string().contains("a100"), "{error}");
        }
        for count in ["0", "65", "99999999999999999999999"] {
            let error = preset(&format!("h200x{count}")).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("a machine has from 1 to 64 GPUs of kind h200"), "{error}");
        }
    }

    #[test]
    fn a_node_count_makes_a_cluster() {
        let (node, cluster) = (preset("node8").unwrap(), preset("node8x64").unwrap());
        assert_eq!(node.cluster, None);
        assert_eq!(cluster.gpus.len(), 512);
        assert_eq!(cluster.gpus[511], node.gpus[0]);
        assert_eq!(cluster.host.memory_gb_per_s, 64.0 * node.host.memory_gb_per_s);
        let of = cluster.cluster.unwrap();
        assert_eq!((of.nodes, of.gpus_per_node, of.host), (64, 8, node.host));
        assert_eq!(preset("node8x1").unwrap().cluster.map(|cluster| cluster.nodes), Some(1));
        for count in ["0", "129", "4294967296", "99999999999999999999999"] {
            let error = preset(&format!("node8x{count}")).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("a cluster has from 1 to 128 nodes"), "{error}");
        }
    }

    #[test]
    fn ranks_share_the_rates_of_a_host() {
        let (cpu, host) = (cpu_profile(8, 1 << 34).unwrap(), host_rates(8).unwrap());
        let of = |ranks| ranks_of_host("cpux", ranks, &cpu, &host, None).unwrap();
        let load = Load { rows: 1 << 20, compulsory_bytes: 1 << 30, ..Load::default() };
        for ranks in [1, 2, 16] {
            let machine = of(ranks);
            assert_eq!(machine.gpus.len() as u32, ranks);
            let rank = &machine.gpus[0];
            let slowdown = if ranks > 8 { OVERSUBSCRIBED } else { 1.0 };
            let ratio = rank.kernel_s(&load) / cpu.kernel_s(&load) / f64::from(ranks) / slowdown;
            // The time of a launch is not shared.
            assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
            assert_eq!((rank.processor, rank.memory_bytes), (Processor::Cpu, (1 << 34) / u64::from(ranks)));
            let cluster = machine.cluster.unwrap();
            assert!(cluster.has_cpu_ranks() && cluster.host.is_valid());
            assert_eq!(
                (cluster.devices(), cluster.node(1), cluster.node(ranks as usize)),
                (u64::from(ranks), 0, ranks as usize - 1)
            );
        }
        assert_eq!(preset("cpux4").unwrap().gpus.len(), 4);
        for nonsense in ["cpux", "cpux0", "cpux129", "cpux-1", "cpux+4", "cpuxx4"] {
            assert_eq!(preset(nonsense).unwrap_err().exit_code(), 2, "{nonsense}");
        }
    }

    #[test]
    fn only_a_cluster_has_a_network() {
        let latency = |network| preset_on("node8x2", network).unwrap().cluster.unwrap().network.latency_us;
        assert_eq!(latency(Some("ethernet100")), 30.0);
        assert_eq!(latency(None), latency(Some("ndr400")));
        assert_eq!(preset_on("node8", Some("ndr400")).unwrap_err().exit_code(), 2);
        assert_eq!(preset_on("node8x2", Some("carrier-pigeon")).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn more_work_takes_longer() {
        let machine = preset("h200").unwrap();
        let load = Load {
            rows: 1000,
            entries: 16_000,
            k: 32,
            compulsory_bytes: 1 << 20,
            gathered_bytes: 1 << 22,
            x_bytes: 1 << 20,
        };
        for profile in [&machine.cpu, &machine.gpus[0], &emulated_profile().unwrap()] {
            let base = profile.kernel_s(&load);
            assert!(base > 0.0);
            let heavier = [
                Load { gathered_bytes: 1 << 32, ..load },
                Load { compulsory_bytes: 1 << 32, ..load },
                Load { rows: 1 << 32, entries: 1 << 32, compulsory_bytes: 1 << 33, ..load },
            ];
            for more in heavier {
                assert!(profile.kernel_s(&more) > base);
            }
        }
        assert!(machine.gpus[0].kernel_s(&load) < machine.cpu.kernel_s(&load));
    }

    #[test]
    fn times_scale_with_the_factor() {
        let load = Load {
            rows: 10,
            entries: 500,
            k: 8,
            compulsory_bytes: 1 << 20,
            gathered_bytes: 1 << 22,
            x_bytes: 1,
        };
        for profile in [cpu_profile(2, 1 << 30).unwrap(), emulated_profile().unwrap()] {
            let scaled = profile.scaled(2.0);
            assert!((scaled.kernel_s(&load) / profile.kernel_s(&load) - 2.0).abs() < 1e-9);
            let copied = |profile: &Profile| profile.upload_s(1 << 40) + profile.download_s(1 << 40);
            assert!(profile.link.is_none() || (copied(&scaled) / copied(&profile) - 2.0).abs() < 1e-3);
        }
    }

    #[test]
    fn a_rate_of_zero_gives_a_finite_time() {
        let mut profile = preset("h200").unwrap().gpus.remove(0);
        profile.stream_gb_per_s = 0.0;
        let load = Load { rows: 1, compulsory_bytes: 8, ..Load::default() };
        assert!(profile.kernel_s(&load).is_finite());
    }
}
