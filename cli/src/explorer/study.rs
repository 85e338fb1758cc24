//! Records of a study: kernels and peers of one matrix, precision, K and device make one case, and each product as planned makes
//! one of its own, with the peers and the serial kernel that were measured on the same matrix.

use std::collections::HashMap;

use serde::Deserialize;

use super::collected::Collected;
use super::naming::{argument_of, quoted};
use super::report_keys::{Check, Description, Facts, Provenance, Times, peer_name, timing};
use crate::plots::{ExplorerCase, Timed, Timing};
use crate::results::ONE_THREAD_KERNEL;

/// The kernel that runs are compared with, next to peers and the baseline.
const SERIAL: &str = "serial_csr";

/// What is read of a report.
#[derive(Deserialize)]
pub struct Report {
    #[serde(default)]
    provenance: Option<Provenance>,
    #[serde(default)]
    config: Config,
    records: Vec<Record>,
    #[serde(default)]
    matrices: Vec<Description>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    seed: Option<u64>,
    measure: Measure,
    sweep: Vec<Sweep>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Measure {
    repeat: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sweep {
    name: String,
    matrices: Vec<String>,
    kernels: Vec<String>,
    against: Vec<String>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    sweep: String,
    measured: String,
    matrix: Facts,
    dtype: Option<String>,
    k: Option<u64>,
    devices: String,
    #[serde(default)]
    threads: Option<u64>,
    #[serde(default)]
    ranks: Option<u64>,
    kernel: String,
    #[serde(default)]
    chosen: Option<String>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    schedule: Option<String>,
    #[serde(default)]
    chunk_bytes: Option<u64>,
    #[serde(default)]
    cpu_share: Option<f64>,
    #[serde(default)]
    transfer: Option<String>,
    #[serde(default)]
    one_thread_s: Option<f64>,
    #[serde(default)]
    simulated: bool,
    times: Times,
    #[serde(default)]
    checked: Option<Check>,
}

impl Record {
    fn timed(&self) -> Timed {
        let library = (self.measured == "peer").then(|| self.kernel.split(' ').next().unwrap_or_default());
        Timed {
            name: if library.is_some() { peer_name(&self.kernel, self.threads) } else { self.kernel.clone() },
            library: library.map(str::to_owned),
            timing: timing(&self.times, self.checked),
        }
    }

    /// The baseline of speed-ups, if this record has its time.
    fn baseline(&self) -> Option<Timed> {
        let name = ONE_THREAD_KERNEL.name();
        let is_baseline = self.measured == "kernel" && self.threads == Some(1) && self.kernel == name;
        let timing = match self.one_thread_s {
            Some(median_s) => Timing::Verified { median_s, low_s: None, high_s: None },
            None if is_baseline => self.timed().timing,
            None => return None,
        };
        Some(Timed { name: format!("{name} on 1 thread"), library: None, timing })
    }

    /// What a product has in common with the peers that it is compared with.
    fn subject(&self) -> (&str, &str, Option<&str>, Option<u64>, Option<u64>) {
        let Facts { name, hash, .. } = &self.matrix;
        (name, hash, self.dtype.as_deref(), self.k, self.threads)
    }
}

/// Adds the cases of a report.
pub fn add(report: Report, file: usize, collected: &mut Collected) -> Provenance {
    let Report { provenance, config, records, matrices } = report;
    let provenance = provenance.unwrap_or_default();
    let described: HashMap<(&str, &str), &Description> =
        matrices.iter().map(|of| ((of.facts.name.as_str(), of.facts.hash.as_str()), of)).collect();
    let is_compared = |record: &&Record| record.measured == "peer" || record.kernel == SERIAL;
    let mut compared: HashMap<_, Vec<Timed>> = HashMap::new();
    for record in records.iter().filter(is_compared) {
        let all = compared.entry(record.subject()).or_default();
        // A study measures a peer once for each device.
        let timed = record.timed();
        if !all.iter().any(|known| known.name == timed.name) {
            all.push(timed);
        }
    }
    let mut baselines: HashMap<_, Timed> = HashMap::new();
    for (record, baseline) in records.iter().filter_map(|record| Some((record, record.baseline()?))) {
        baselines.entry(without_threads(record)).or_insert(baseline);
    }
    let mut kernel_cases: HashMap<_, usize> = HashMap::new();
    for record in &records {
        let (Some(dtype), Some(k)) = (record.dtype.clone(), record.k) else {
            collected.skip(&format!("not a product of a matrix and a multivector ({})", record.measured));
            continue;
        };
        let is_kernel = match record.measured.as_str() {
            _ if record.simulated => {
                collected.skip("simulated, so that its time is a prediction");
                continue;
            }
            "kernel" | "peer" => true,
            "run" => false,
            other => {
                collected.skip(&format!("not a product of a sparse matrix ({other})"));
                continue;
            }
        };
        let place = (record.subject(), &record.devices, &record.sweep, &record.schedule);
        if let Some(&index) = kernel_cases.get(&place).filter(|_| is_kernel) {
            if let Some(case) = collected.data.cases.get_mut(index) {
                case.measured.push(record.timed());
            }
            continue;
        }
        let sweep = config.sweep.iter().find(|sweep| sweep.name == record.sweep);
        let key = (record.matrix.name.as_str(), record.matrix.hash.as_str());
        let argument = sweep.and_then(|sweep| argument_of(&record.matrix.name, &sweep.matrices)).cloned();
        let matrix = collected.matrix(&record.matrix, argument, described.get(&key).copied());
        let device = match (&provenance.machine, record.ranks) {
            (_, Some(ranks)) => format!("{} on {ranks} ranks", record.devices),
            (Some(machine), None) => machine.device(&record.devices, record.threads),
            (None, None) => record.devices.clone(),
        };
        let base = ExplorerCase { file, matrix, dtype, k, device, ..ExplorerCase::default() };
        // On one thread the baseline is one of the kernels.
        let needs_baseline = !is_kernel || record.threads != Some(1);
        let baseline = baselines.get(&without_threads(record)).filter(|_| needs_baseline);
        let mut case = match is_kernel {
            true => ExplorerCase {
                command: "bench".into(),
                flags: kernel_flags(&config, sweep, record),
                measured: vec![record.timed()],
                ..base
            },
            false => run(&config, record, compared.get(&record.subject()), base),
        };
        case.measured.extend(baseline.cloned());
        if is_kernel {
            kernel_cases.insert(place, collected.data.cases.len());
        }
        collected.data.cases.push(case);
    }
    provenance
}

/// What a result has in common with its baseline.
fn without_threads(record: &Record) -> (&str, &str, Option<&str>, Option<u64>) {
    let (name, hash, dtype, k, _) = record.subject();
    (name, hash, dtype, k)
}

/// A product as planned and run.
fn run(config: &Config, record: &Record, compared: Option<&Vec<Timed>>, base: ExplorerCase) -> ExplorerCase {
    let own = Timed { name: format!("run, kernel {}", record.kernel), ..record.timed() };
    let is_planned = record.kernel == "auto";
    let reason = record.chosen.as_ref().map(|kernels| format!("the plan runs {kernels}"));
    let measured = std::iter::once(own.clone()).chain(compared.cloned().unwrap_or_default()).collect();
    ExplorerCase {
        // A product over ranks is started by MPI, not by one command.
        command: if record.ranks.is_some() { String::new() } else { "run".into() },
        flags: run_flags(config, record),
        chosen: is_planned.then_some(own.name),
        reason: reason.filter(|_| is_planned),
        measured,
        ..base
    }
}

/// The flags of `bench` that measure the kernels of a record's case.
fn kernel_flags(config: &Config, sweep: Option<&Sweep>, record: &Record) -> String {
    let mut flags = vec![format!("--devices {}", quoted(&record.devices))];
    if let Some(sweep) = sweep {
        let lists = [("kernels", &sweep.kernels), ("against", &sweep.against)];
        let given = lists.iter().filter(|(_, list)| !list.is_empty());
        flags.extend(given.map(|(name, list)| format!("--{name} {}", quoted(&list.join(",")))));
    }
    flags.extend(numbers(config, record));
    flags.join(" ")
}

/// The flags of `run` that repeat the product of a record.
fn run_flags(config: &Config, record: &Record) -> String {
    let mut flags = vec![format!("--devices {}", quoted(&record.devices))];
    let words = [
        ("kernel", Some(&record.kernel), "auto"),
        ("mode", record.mode.as_ref(), "auto"),
        ("schedule", record.schedule.as_ref(), "balanced"),
        ("transfer", record.transfer.as_ref(), "auto"),
    ];
    let given = words.into_iter().filter_map(|(name, value, default)| {
        value.filter(|value| *value != default).map(|value| format!("--{name} {}", quoted(value)))
    });
    flags.extend(given);
    flags.extend(record.chunk_bytes.map(|bytes| format!("--chunk-bytes {bytes}")));
    flags.extend(record.cpu_share.map(|share| format!("--cpu-share {share}")));
    flags.extend(numbers(config, record));
    flags.push("--verify".into());
    flags.join(" ")
}

fn numbers(config: &Config, record: &Record) -> impl Iterator<Item = String> {
    let numbers = [("threads", record.threads), ("repeat", config.measure.repeat), ("seed", config.seed)];
    numbers.into_iter().filter_map(|(name, value)| Some(format!("--{name} {}", value?)))
}
