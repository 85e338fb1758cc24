//! The origin of a result: the program, the machine, the command line and the time.

use std::time::SystemTime;

use serde::Serialize;

use rowloom::internal::machine::{Gpu, Machine};

/// The build of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Its version.
    pub version: &'static str,
    /// The git revision of the source; none outside of a checkout.
    pub revision: Option<&'static str>,
    /// Whether files differed from that revision.
    pub dirty: Option<bool>,
    /// The compiler.
    pub compiler: &'static str,
    /// The compilation target.
    pub target: &'static str,
    /// `release` or `debug`.
    pub profile: &'static str,
}

impl Program {
    /// This program.
    pub fn this() -> Self {
        let known = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            revision: known(env!("ROWLOOM_REVISION")),
            dirty: known(env!("ROWLOOM_DIRTY")).map(|dirty| dirty == "true"),
            compiler: env!("ROWLOOM_COMPILER"),
            target: env!("ROWLOOM_TARGET"),
            profile: env!("ROWLOOM_PROFILE"),
        }
    }

    /// The program in one line.
    pub fn line(&self) -> String {
        let revision = self.revision.map_or("without a revision".into(), |revision| {
            let dirty = if self.dirty == Some(true) { ", with changes" } else { "" };
            format!("revision {}{dirty}", revision.get(..12).unwrap_or(revision))
        });
        format!("{} ({revision}), {} build", self.version, self.profile)
    }
}

/// The machine as results name it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedMachine {
    /// Host name.
    pub host: String,
    /// Processor model.
    pub cpu: String,
    /// The widest instruction set in use.
    pub isa: String,
    /// Physical cores.
    pub cores: usize,
    /// Hardware threads.
    pub hardware_threads: usize,
    /// Memory nodes.
    pub numa_nodes: usize,
    /// The machine's memory.
    pub memory_bytes: Option<u64>,
    /// Name and version of the operating system's kernel.
    pub kernel: String,
    /// Hardware threads that the process may run on.
    pub affinity: Vec<usize>,
    /// GPUs.
    pub gpus: Vec<Gpu>,
}

/// The origin of a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// The program.
    pub program: Program,
    /// The machine.
    pub machine: RecordedMachine,
    /// The command line.
    pub arguments: Vec<String>,
    /// Seed of generated matrices and of X.
    pub seed: u64,
    /// The start time, in UTC.
    pub started: String,
}

impl Provenance {
    /// The origin of results that this program computes on `machine` from now on.
    pub fn now(machine: &Machine, seed: u64) -> Self {
        let machine = RecordedMachine {
            host: machine.host.clone(),
            cpu: machine.cpu.clone(),
            isa: machine.isa.name().into(),
            cores: machine.cores,
            hardware_threads: machine.hardware_threads,
            numa_nodes: machine.numa_nodes,
            memory_bytes: machine.memory_bytes,
            kernel: machine.kernel.clone(),
            affinity: machine.usable_cpus.clone(),
            gpus: machine.gpus.clone(),
        };
        Self {
            program: Program::this(),
            machine,
            arguments: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            seed,
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }

    /// All names and values, in groups.
    pub fn facts(&self) -> Vec<(String, Vec<(String, String)>)> {
        let fact = |name: &str, value: String| (name.to_string(), value);
        let RecordedMachine {
            host,
            cpu,
            isa,
            cores,
            hardware_threads,
            numa_nodes,
            memory_bytes,
            kernel,
            affinity,
            gpus,
        } = &self.machine;
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
        let mut machine = vec![
            fact("host", host.clone()),
            fact("processor", format!("{cpu}, {isa}")),
            fact("cores", format!("{cores} with {hardware_threads} hardware threads")),
            fact("NUMA nodes", numa_nodes.to_string()),
            fact("memory", memory_bytes.map_or("unknown".into(), gib)),
            fact("operating system", kernel.clone()),
            fact("affinity", ranges(affinity)),
        ];
        for gpu in gpus {
            let clock = gpu.clock_mhz.map_or(String::new(), |mhz| format!(", {mhz} MHz"));
            let uuid = gpu.uuid.as_ref().map_or(String::new(), |uuid| format!(", {uuid}"));
            let memory = gpu.memory_bytes.map_or(String::new(), |bytes| format!(", {}", gib(bytes)));
            let words = format!("{}{memory}{clock}, driver {}{uuid}", gpu.name, gpu.driver);
            machine.push((format!("cuda:{}", gpu.index), words));
        }
        if gpus.is_empty() {
            machine.push(fact("GPUs", "none".into()));
        }
        let program = vec![
            fact("rowloom", self.program.line()),
            fact("revision", self.program.revision.unwrap_or("unknown").into()),
            fact("compiler", format!("{}, {}", self.program.compiler, self.program.target)),
            fact("arguments", self.arguments.join(" ")),
            fact("seed", self.seed.to_string()),
            fact("started", self.started.clone()),
        ];
        vec![("Machine".into(), machine), ("Program".into(), program)]
    }

    /// The same, one line each, for comments in files.
    pub fn lines(&self) -> Vec<String> {
        let facts = self.facts().into_iter().flat_map(|(_, facts)| facts);
        facts.map(|(name, value)| format!("{name}: {value}")).collect()
    }
}

/// `0-3, 8` for 0, 1, 2, 3 and 8.
fn ranges(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let word = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_result_depends_on_is_named() {
        let provenance = Provenance::now(&Machine::detect(), 7);
        let lines = provenance.lines();
        for name in [
            "host",
            "processor",
            "NUMA nodes",
            "memory",
            "operating system",
            "affinity",
            "revision",
            "compiler",
            "arguments",
            "seed",
            "started",
        ] {
            assert!(lines.iter().any(|line| line.starts_with(&format!("{name}: "))), "{name}: {lines:?}");
        }
        assert!(lines.contains(&"seed: 7".to_string()));
        assert!(
            provenance.started.ends_with('Z') && provenance.started.len() == 20,
            "{}",
            provenance.started
        );
        assert!(provenance.program.compiler.starts_with("rustc "), "{}", provenance.program.compiler);
    }

    #[test]
    fn hardware_threads_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 8, 10, 11]), "0-2, 8, 10-11");
        assert_eq!(ranges(&[]), "");
    }
}
