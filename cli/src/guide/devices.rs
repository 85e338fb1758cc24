//! `rowloom devices`: the machine, the resources this process may use, and missing libraries.

use crate::args::DevicesArguments;
use crate::console::Console;
use crate::console::report::Report;
use crate::console::table::{Table, count, count_of};
use crate::measure::PythonPeer;
use rowloom::internal::device::cuda::{CardRates, Library, libraries, measure_card};
use rowloom::internal::error::{Bytes, Result};
use rowloom::internal::machine::{CacheLevel, Machine};

/// The measured rates of a GPU.
#[derive(Debug, serde::Serialize)]
struct Card {
    /// The name that `--devices` takes.
    name: String,
    /// The rates; none where the measurement failed.
    measured: Option<CardRates>,
    /// Why the measurement failed.
    error: Option<String>,
}

/// Detects the machine, measures its GPUs, and prints both.
pub fn run(_arguments: &DevicesArguments, console: &Console) -> Result<()> {
    let mut machine = Machine::detect();
    machine.query_driver();
    for note in &machine.notes {
        console.note(note);
    }
    let cards: Vec<Card> = machine.gpus.iter().map(|gpu| measured(gpu.index as u32, console)).collect();
    let mut libraries = libraries();
    libraries.extend([("SciPy", "scipy"), ("MKL", "mkl")].map(python_peer));
    console.table(&table(&machine, &cards, &libraries))?;
    let report = Report::new("devices").with("machine", &machine);
    console.json(&report.with("cards", &cards).with("libraries", &libraries))
}

/// A library that is measured in Python for comparisons.
fn python_peer((name, peer): (&'static str, &str)) -> Library {
    let use_for = "comparisons of kernels with it (`rowloom bench --against`)";
    match PythonPeer::probe(peer, 1) {
        Ok(_) => Library { name, found: Some("installed".into()), use_for, advice: String::new() },
        Err(missing) => {
            let advice = format!("pip install numpy {peer} ({missing})");
            Library { name, found: None, use_for, advice }
        }
    }
}

fn measured(card: u32, console: &Console) -> Card {
    let name = format!("cuda:{card}");
    let _spinner = console.spinner(format!("measuring {name}"));
    match measure_card(card) {
        Ok(rates) => Card { name, measured: Some(rates), error: None },
        Err(fault) => Card { name, measured: None, error: Some(fault.message) },
    }
}

fn table(machine: &Machine, cards: &[Card], libraries: &[Library]) -> Table {
    let mut table = Table::facts();
    table.fact("host", format!("{}, {}", machine.host, machine.kernel));
    table.fact("cpu", format!("{}, {}", machine.cpu, machine.isa.name()));
    table.fact(
        "cores",
        format!(
            "{}, with {}, in {}",
            counted(machine.cores, "core"),
            counted(machine.hardware_threads, "hardware thread"),
            counted(machine.packages, "package")
        ),
    );
    table.fact("threads to use", threads(machine));
    for cache in &machine.caches {
        table.fact(&format!("L{} cache", cache.level), describe_cache(cache));
    }
    for node in &machine.topology.numa_nodes {
        let memory = node.memory_bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
        table.fact(
            &format!("NUMA node {}", node.id),
            format!("{}{memory}", counted(node.cpus.len(), "hardware thread")),
        );
    }
    table.fact("memory", memory(machine));
    for gpu in &machine.gpus {
        let memory = gpu.memory_bytes.map_or(String::new(), |bytes| format!(", {}", Bytes(bytes)));
        table.fact(&format!("cuda:{}", gpu.index), format!("{}{memory}, driver {}", gpu.name, gpu.driver));
        for card in cards.iter().filter(|card| card.name == format!("cuda:{}", gpu.index)) {
            add_rates(&mut table, card);
        }
    }
    if machine.gpus.is_empty() {
        table.fact("GPUs", "none");
    }
    for Library { name, found, use_for, advice } in libraries {
        let missing = || format!("missing; needed for {use_for}; {advice}");
        table.fact(name, found.clone().unwrap_or_else(missing));
    }
    table.fact("detected by", machine.topology.source);
    table
}

/// Adds the measured rates, in GB/s of 10^9 bytes.
fn add_rates(table: &mut Table, card: &Card) {
    let Some(rates) = &card.measured else {
        table.fact("", card.error.as_deref().unwrap_or("not measured"));
        return;
    };
    let link = format!(
        "page-locked: {:.1} GB/s to the GPU, {:.1} from it, {:.1} both at once; pageable: {:.1} and {:.1}",
        rates.to_device_gb_per_s,
        rates.from_device_gb_per_s,
        rates.both_gb_per_s,
        rates.pageable_to_device_gb_per_s,
        rates.pageable_from_device_gb_per_s
    );
    table.fact("  link", link);
    table.fact("  page-locking", format!("{:.3} s to register 1 GB", rates.register_s_per_gb));
    table.fact("  memory", format!("{:.0} GB/s (copy within the GPU)", rates.memory_gb_per_s));
}

fn counted(number: usize, thing: &str) -> String {
    count_of(number as u64, thing, &format!("{thing}s"))
}

/// The number of threads that are started, and the limits that reduce it.
fn threads(machine: &Machine) -> String {
    let mut text = count(machine.usable_threads as u64);
    if machine.usable_cpus.len() < machine.hardware_threads {
        text += &format!("; the affinity mask allows {}", count(machine.usable_cpus.len() as u64));
    }
    if let Some(cpus) = machine.cgroup_cpus {
        text += &format!("; the control group allows {cpus:.1} CPUs of time");
    }
    text
}

fn describe_cache(cache: &CacheLevel) -> String {
    let shared = counted(cache.shared_by, "hardware thread");
    format!("{} x {}, each shared by {shared}", count(cache.count as u64), Bytes(cache.size_bytes))
}

fn memory(machine: &Machine) -> String {
    let total = machine.memory_bytes.map(|bytes| Bytes(bytes).to_string());
    let total = total.unwrap_or_else(|| "unknown".into());
    match machine.cgroup_memory_bytes {
        Some(limit) => format!("{total}; the control group allows {}", Bytes(limit)),
        None => format!("{total}; no control group limits it"),
    }
}
