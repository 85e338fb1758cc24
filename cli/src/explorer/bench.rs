//! Cases of `bench --json=FILE`.

use std::collections::HashMap;

use serde::Deserialize;

use super::collected::Collected;
use super::naming::{argument_of, quoted};
use super::report_keys::{Check, Description, Facts, Features, Provenance, Times, peer_name, timing};
use crate::plots::{ExplorerCase, Timed};

/// What is read of a report.
#[derive(Deserialize)]
pub struct Report {
    #[serde(default)]
    provenance: Option<Provenance>,
    #[serde(default)]
    config: Config,
    cases: Vec<Case>,
    #[serde(default)]
    matrices: Vec<Description>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    matrices: Vec<String>,
    kernels: Vec<String>,
    against: Vec<String>,
    repeat: Option<u64>,
    warmup: Option<u64>,
    time_cap: Option<f64>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
struct Case {
    device: String,
    facts: Facts,
    #[serde(default)]
    features: Option<Features>,
    #[serde(default)]
    threads: Option<u64>,
    dtype: String,
    k: u64,
    kernels: Vec<Kernel>,
    #[serde(default)]
    one_thread: Option<Kernel>,
    #[serde(default)]
    peers: Vec<Peer>,
    #[serde(default)]
    chosen_kernel: Option<String>,
    #[serde(default)]
    chosen_reason: Option<String>,
}

#[derive(Deserialize)]
struct Kernel {
    kernel: String,
    times: Times,
    #[serde(default)]
    checked: Option<Check>,
}

#[derive(Deserialize)]
struct Peer {
    peer: String,
    #[serde(default)]
    algorithm: String,
    times: Times,
    #[serde(default)]
    checked: Option<Check>,
}

/// Adds the cases of a report.
pub fn add(report: Report, file: usize, collected: &mut Collected) -> Provenance {
    let Report { provenance, config, cases, matrices } = report;
    let provenance = provenance.unwrap_or_default();
    let described: HashMap<(&str, &str), &Description> =
        matrices.iter().map(|of| ((of.facts.name.as_str(), of.facts.hash.as_str()), of)).collect();
    for case in cases {
        let facts = &case.facts;
        let description = described.get(&(facts.name.as_str(), facts.hash.as_str())).copied();
        let argument = argument_of(&facts.name, &config.matrices).cloned();
        let matrix = collected.matrix(facts, argument, description);
        // The statistics of a case are those of its precision and its device.
        if let (Some(features), Some(of)) = (&case.features, collected.data.matrices.get_mut(matrix)) {
            features.fill(of);
        }
        let device = match &provenance.machine {
            Some(machine) => machine.device(&case.device, case.threads),
            None => case.device.clone(),
        };
        collected.data.cases.push(ExplorerCase {
            file,
            matrix,
            flags: flags(&config, &case),
            measured: measured(&case),
            dtype: case.dtype,
            k: case.k,
            device,
            command: "bench".into(),
            chosen: case.chosen_kernel,
            reason: case.chosen_reason,
        });
    }
    provenance
}

/// Kernels, the baseline on one thread, and peers with their threads.
fn measured(case: &Case) -> Vec<Timed> {
    let kernel = |kernel: &Kernel| Timed {
        name: kernel.kernel.clone(),
        library: None,
        timing: timing(&kernel.times, kernel.checked),
    };
    let one_thread = |of: &Kernel| Timed { name: format!("{} on 1 thread", of.kernel), ..kernel(of) };
    let peer = |peer: &Peer| {
        let name = format!("{} {}", peer.peer, peer.algorithm);
        Timed {
            name: peer_name(name.trim_end(), case.threads),
            library: Some(peer.peer.clone()),
            timing: timing(&peer.times, peer.checked),
        }
    };
    let kernels = case.kernels.iter().map(kernel).chain(case.one_thread.iter().map(one_thread));
    kernels.chain(case.peers.iter().map(peer)).collect()
}

/// The flags that repeat the measurement of a case.
fn flags(config: &Config, case: &Case) -> String {
    let mut flags = vec![format!("--devices {}", quoted(&case.device))];
    let list = |words: &[String]| quoted(&words.join(","));
    if !config.kernels.is_empty() && config.kernels != ["all"] {
        flags.push(format!("--kernels {}", list(&config.kernels)));
    }
    if !config.against.is_empty() {
        flags.push(format!("--against {}", list(&config.against)));
    }
    let numbers = [
        ("threads", case.threads.map(|value| value.to_string())),
        ("repeat", config.repeat.map(|value| value.to_string())),
        ("warmup", config.warmup.map(|value| value.to_string())),
        ("time-cap", config.time_cap.map(|value| value.to_string())),
        ("seed", config.seed.map(|value| value.to_string())),
    ];
    flags.extend(numbers.into_iter().filter_map(|(name, value)| Some(format!("--{name} {}", value?))));
    flags.join(" ")
}
