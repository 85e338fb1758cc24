//! What reports of `bench` and `study` have in common, as far as the explorer reads it.

use serde::Deserialize;

use crate::measure::with_threads;
use crate::plots::{ExplorerMatrix, Timing};
use crate::statistics::MedianInterval;

/// The origin of a file.
#[derive(Default, Deserialize)]
pub struct Provenance {
    #[serde(default)]
    pub machine: Option<Machine>,
    #[serde(default)]
    pub started: Option<String>,
}

/// The machine of a file.
#[derive(Default, Deserialize)]
pub struct Machine {
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub cpu: Option<String>,
    #[serde(default)]
    pub gpus: Vec<Gpu>,
}

#[derive(Deserialize)]
pub struct Gpu {
    #[serde(default)]
    pub index: Option<u64>,
    #[serde(default)]
    pub name: Option<String>,
}

impl Machine {
    /// Host and processors.
    pub fn line(&self) -> Option<String> {
        let gpus = self.gpus.iter().filter_map(|gpu| gpu.name.clone());
        let parts: Vec<String> = self.host.iter().chain(&self.cpu).cloned().chain(gpus).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// A device with its threads or the name of the GPU.
    pub fn device(&self, device: &str, threads: Option<u64>) -> String {
        let number = device.strip_prefix("cuda:").and_then(|rest| rest.parse::<u64>().ok());
        let gpu = self.gpus.iter().find(|gpu| number.is_some() && gpu.index == number);
        match (gpu.and_then(|gpu| gpu.name.as_ref()), threads) {
            (Some(name), _) => format!("{device} ({name})"),
            (None, Some(1)) if device == "cpu" => "cpu (1 thread)".into(),
            (None, Some(threads)) if device == "cpu" => format!("cpu ({threads} threads)"),
            _ if device.starts_with("emu:") => format!("{device} (emulated)"),
            _ => device.into(),
        }
    }
}

/// A matrix's name, hash and size.
#[derive(Clone, Default, Deserialize)]
pub struct Facts {
    pub name: String,
    #[serde(default)]
    pub hash: String,
    pub rows: u64,
    pub cols: u64,
    pub nnz: u64,
}

/// A matrix of the key `matrices`.
#[derive(Deserialize)]
pub struct Description {
    #[serde(default)]
    pub argument: Option<String>,
    #[serde(flatten)]
    pub facts: Facts,
    #[serde(default)]
    pub features: Option<Features>,
    #[serde(default)]
    pub pattern: Option<Cells>,
}

#[derive(Deserialize)]
pub struct Cells {
    pub cells: Vec<String>,
}

/// Statistics of the rows of a matrix.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Features {
    rows: Option<f64>,
    max: Option<f64>,
    coefficient_of_variation: Option<f64>,
    long_row_nonzero_share: Option<f64>,
    empty_rows: Option<f64>,
    locality: Option<Locality>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Locality {
    panel_columns: Option<f64>,
    near: Option<Vec<f64>>,
}

impl Features {
    /// Sets the features of a matrix.
    pub fn fill(&self, matrix: &mut ExplorerMatrix) {
        let rows = self.rows.filter(|&rows| rows > 0.0);
        matrix.longest_row = self.max;
        matrix.row_variation = self.coefficient_of_variation;
        matrix.long_row_share = self.long_row_nonzero_share;
        matrix.empty_row_share = self.empty_rows.zip(rows).map(|(empty, rows)| empty / rows);
        let locality = self.locality.as_ref();
        matrix.new_columns = locality.and_then(|locality| locality.panel_columns);
        matrix.near_share = locality.and_then(|locality| locality.near.as_ref()?.get(1).copied());
    }
}

/// Times, in seconds.
#[derive(Deserialize)]
pub struct Times {
    median: Option<f64>,
    #[serde(default)]
    samples: Vec<f64>,
}

/// The name of a peer, with its threads where they are those of its case.
pub fn peer_name(name: &str, threads: Option<u64>) -> String {
    threads.map_or_else(|| name.into(), |threads| with_threads(name, threads as usize))
}

/// The check of a result.
#[derive(Clone, Copy, Deserialize)]
pub struct Check {
    passed: bool,
}

/// The time of a result that was checked and is right, or why there is none.
pub fn timing(times: &Times, checked: Option<Check>) -> Timing {
    match (times.median, checked) {
        (None, _) => Timing::NotRun,
        (_, None) => Timing::Unverified,
        (_, Some(Check { passed: false })) => Timing::Wrong,
        (Some(median_s), Some(_)) => {
            let interval = MedianInterval::of(&times.samples);
            let [low_s, high_s] =
                [interval.map(|interval| interval.low), interval.map(|interval| interval.high)];
            Timing::Verified { median_s, low_s, high_s }
        }
    }
}
