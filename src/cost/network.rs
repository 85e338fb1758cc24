//! The network between the nodes of a simulated cluster: presets, and TOML files of the user.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::profile::{HostRates, VALID_RATES, seconds};
use crate::error::{Error, Result};
use crate::suggest::did_you_mean;
use crate::toml_file::{TomlError, TomlFile};

/// The networks that are known by name.
const NETWORKS: [(&str, &str); 4] = [
    ("ndr400", include_str!("../../configs/networks/ndr400.toml")),
    ("hdr200", include_str!("../../configs/networks/hdr200.toml")),
    ("ethernet100", include_str!("../../configs/networks/ethernet100.toml")),
    ("shared-memory", include_str!("../../configs/networks/shared-memory.toml")),
];

/// The network of a cluster whose description names none.
pub const DEFAULT_NETWORK: &str = "ndr400";

/// The network of ranks that share a host.
pub const NETWORK_OF_A_HOST: &str = "shared-memory";

/// Largest latency in microseconds.
const MAX_LATENCY_US: f64 = 1e6;

/// A network: every node can send to every other, and only the two ends of a message limit it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Microseconds from the start of a message until its first byte arrives.
    pub latency_us: f64,
    /// Bandwidth of one message, which one adapter sends.
    pub message_gb_per_s: f64,
    /// Bandwidth of all messages that a node sends at the same time, and of all that it receives.
    pub injection_gb_per_s: f64,
    /// Whether adapters read and write the memory of GPUs. If not, messages are copied through the memory of the host.
    pub gpu_direct: bool,
}

impl Network {
    /// The network of that name, or the one that the TOML file of that path describes.
    pub fn named(name: &str) -> Result<Self> {
        if let Some((name, text)) = NETWORKS.iter().find(|(known, _)| *known == name) {
            return Self::parse(&TomlFile::new(format!("configs/networks/{name}.toml"), *text));
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|ending| ending == "toml") {
            return Self::parse(&TomlFile::read(path)?);
        }
        let names = || NETWORKS.iter().map(|(known, _)| *known);
        Err(Error::usage(format!(
            "unknown network '{name}'{}; the networks are {}, or the path of a file that ends in .toml",
            did_you_mean(name, names()),
            names().collect::<Vec<_>>().join(", ")
        )))
    }

    /// The network in a file. Errors name the line, and for an unknown key the nearest key.
    fn parse(file: &TomlFile) -> Result<Self> {
        let network: Self = file.parse().map_err(TomlError::into_error)?;
        match network.wrong_key() {
            None => Ok(network),
            Some((key, reason)) => {
                Err(Error::usage(format!("{}: {key} must be {reason}", file.place_of(&[key]))))
            }
        }
    }

    /// Whether latency and bandwidths are in their valid ranges.
    pub fn is_valid(&self) -> bool {
        self.wrong_key().is_none()
    }

    /// The first key whose value is out of range, and the range.
    fn wrong_key(&self) -> Option<(&'static str, &'static str)> {
        let rates = "from 0.000001 to 1000000000";
        let keys = [
            ("latency_us", (0.0..=MAX_LATENCY_US).contains(&self.latency_us), "from 0 to 1000000"),
            ("message_gb_per_s", VALID_RATES.contains(&self.message_gb_per_s), rates),
            ("injection_gb_per_s", VALID_RATES.contains(&self.injection_gb_per_s), rates),
        ];
        keys.into_iter().find(|(_, is_valid, _)| !is_valid).map(|(key, _, range)| (key, range))
    }

    /// Seconds to send `bytes` bytes in one message, on an idle network and without latency.
    pub fn message_s(&self, bytes: u64) -> f64 {
        seconds(bytes, self.message_gb_per_s.min(self.injection_gb_per_s))
    }

    /// Nanoseconds from the start of a message until its first byte arrives.
    pub fn latency_ns(&self) -> u64 {
        (self.latency_us * 1e3).round() as u64
    }
}

/// Equal nodes and the network between them; or equal ranks that share the CPU of one host, as nodes without GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedCluster {
    /// Number of nodes.
    pub nodes: u32,
    /// GPUs of each node. In a plan they follow the host, node by node. 0 where each node is a rank that computes on its share of a CPU.
    pub gpus_per_node: u32,
    /// Rates of the memory of each node's host.
    pub host: HostRates,
    /// The network.
    pub network: Network,
}

impl SimulatedCluster {
    /// Whether its nodes are ranks that share the CPU of a host.
    pub fn has_cpu_ranks(&self) -> bool {
        self.gpus_per_node == 0
    }

    /// Number of devices that compute.
    pub fn devices(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node.max(1))
    }

    /// The node of a device, by the device's index in a plan; that of the host is the first node.
    pub fn node(&self, device: usize) -> usize {
        let node = device.saturating_sub(1) / self.gpus_per_node.max(1) as usize;
        node.min((self.nodes as usize).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_of_a_name_is_valid() {
        for (name, _) in NETWORKS {
            let network = Network::named(name).unwrap();
            assert!(network.injection_gb_per_s >= network.message_gb_per_s, "{name}");
        }
        assert!(Network::named(DEFAULT_NETWORK).unwrap().gpu_direct);
    }

    #[test]
    fn an_unknown_network_suggests_the_nearest() {
        let error = Network::named("ndr40").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("did you mean 'ndr400'?"), "{error}");
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_line() {
        let text = |latency: &str, rate: &str| {
            format!(
                "latency_us = {latency}\n\nmessage_gb_per_s = {rate}\ninjection_gb_per_s = 4\ngpu_direct = true\n"
            )
        };
        let parse = |text: String| Network::parse(&TomlFile::new("net.toml", text));
        assert!(parse(text("1.5", "2.0")).is_ok());
        for (text, place) in [
            (text("-1.0", "2.0"), "net.toml:1: latency_us"),
            (text("nan", "2.0"), "net.toml:1: latency_us"),
            (text("inf", "2.0"), "net.toml:1: latency_us"),
            (text("1.0", "0.0"), "net.toml:3: message_gb_per_s"),
            (text("1.0", "-3.0"), "net.toml:3: message_gb_per_s"),
            (text("1.0", "\"fast\""), "net.toml:3:"),
        ] {
            let error = parse(text.clone()).unwrap_err();
            assert!(error.to_string().contains(place), "{text}: {error}");
        }
        let unknown = text("1.0", "2.0").replace("latency_us", "latency_ms");
        let error = parse(unknown).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("did you mean 'latency_us'?"), "{error}");
    }

    #[test]
    fn devices_follow_the_host_node_by_node() {
        let host = HostRates { cores: 1, memory_gb_per_s: 1.0, copy_gb_per_s: 1.0 };
        let network = Network::named(DEFAULT_NETWORK).unwrap();
        let cluster = SimulatedCluster { nodes: 3, gpus_per_node: 4, host, network };
        let nodes: Vec<usize> = (0..=12).map(|device| cluster.node(device)).collect();
        assert_eq!(nodes, [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    }
}
