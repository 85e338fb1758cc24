//! A study as its TOML file describes it: the sweeps, and how their cases are measured.

use std::fmt;
use std::path::Path;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::required_keys;
use super::scaled_names::{with_counts, with_ranks};
use crate::statistics::TIME_CAP_S;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::Dtype;
use rowloom::internal::toml_file::{TomlError, TomlFile, one_or_many};

/// Most threads that a study may ask for.
const MOST_THREADS: usize = 4096;

/// A study: its sweeps, and how their cases are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyConfig {
    /// The heading of the report.
    pub title: String,
    /// The question that the report answers.
    #[serde(default)]
    pub question: String,
    /// Seed of generated matrices and of X.
    #[serde(default = "one")]
    pub seed: u64,
    /// What speed-ups are relative to.
    #[serde(default)]
    pub baseline: Baseline,
    /// How every case is measured.
    #[serde(default)]
    pub measure: Measure,
    /// The sweeps.
    #[serde(deserialize_with = "one_or_many")]
    pub sweep: Vec<Sweep>,
}

/// The result that speed-ups are relative to: on the same matrix, with the same precision and K.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The fastest kernel of canonical order on one thread of the CPU, of those that the study measures.
    #[default]
    OneThread,
    /// `serial_csr`, which computes one element at a time.
    SerialCsr,
    /// SciPy, which uses one thread.
    Scipy,
}

/// How every case is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Warm-up runs, which are not measured.
    pub warmup: u32,
    /// Measured runs. Without it: at least 10 runs and 0.5 s, until the standard deviation is below 0.5 % of the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Seconds after which no further run of a case begins, once it has run three times.
    pub time_cap_s: f64,
    /// Whether every Y is compared with the reference.
    pub verify: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { warmup: 3, repeat: None, time_cap_s: TIME_CAP_S, verify: true }
    }
}

/// What each case of a sweep measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A whole product: planned, run, verified.
    #[default]
    Run,
    /// Every kernel alone, on one device at a time.
    Kernel,
    /// The conversions between formats, serial and parallel.
    Conversion,
    /// A whole solve by block power iteration, with a fixed number of iterations.
    #[serde(rename = "power_iteration")]
    PowerIteration,
    /// A whole solve by Chebyshev-filtered subspace iteration, with a fixed number of iterations.
    #[serde(rename = "subspace_iteration")]
    SubspaceIteration,
    /// A product on vectors that stay on simulated devices, with its exchange of rows.
    Vectors,
    /// A dense product of the matrix with one of K columns: planned, run, verified.
    Gemm,
    /// The sums of the columns of a dense matrix: planned, run, verified.
    Colmean,
    /// Copies between the memories of host and device.
    Transfers,
}

impl Subject {
    /// Whether a case is a whole solve.
    pub fn is_solver(self) -> bool {
        matches!(self, Self::PowerIteration | Self::SubspaceIteration)
    }

    /// Whether the matrices of its cases are sparse.
    pub fn is_sparse(self) -> bool {
        !matches!(self, Self::Gemm | Self::Colmean | Self::Transfers)
    }
}

/// How many threads the CPU gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Threads {
    /// These numbers of threads.
    List(Vec<usize>),
    /// `doubling`: 1, 2, 4 and so on up to all; `all`: as many as the process may use.
    Word(String),
}

impl Default for Threads {
    fn default() -> Self {
        Self::Word("all".into())
    }
}

/// One number, a list of numbers, or a word. Written by hand so that errors keep their line.
impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct ThreadsVisitor;

        impl<'de> Visitor<'de> for ThreadsVisitor {
            type Value = Threads;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of threads, a list of numbers, \"doubling\" or \"all\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Threads, E> {
                let number = usize::try_from(number).map_err(|_| E::custom("threads cannot be negative"))?;
                Ok(Threads::List(vec![number]))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> std::result::Result<Threads, E> {
                Ok(Threads::Word(word.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Threads, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    numbers.push(number);
                }
                Ok(Threads::List(numbers))
            }
        }

        from.deserialize_any(ThreadsVisitor)
    }
}

/// One sweep: every combination of its lists is a case. A list of one value may be written as that value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Its name in results and figures.
    pub name: String,
    /// What each case measures.
    #[serde(default)]
    pub subject: Subject,
    /// Files, or `gen:KIND,...`. `{1000*threads}` and `{1000*devices}` in a name stand for numbers that grow with the
    /// threads or devices of the case. Copies have none.
    #[serde(default, deserialize_with = "one_or_many")]
    pub matrices: Vec<String>,
    /// Columns of X, or of B.
    #[serde(default = "k", deserialize_with = "one_or_many")]
    pub k: Vec<usize>,
    /// Value types.
    #[serde(default = "dtype", deserialize_with = "one_or_many")]
    pub dtype: Vec<Dtype>,
    /// Lists of devices, each as `--devices` takes it.
    #[serde(default = "cpu", deserialize_with = "one_or_many")]
    pub devices: Vec<String>,
    /// Ranks of an MPI job, started with `mpirun`; without it products run in this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub ranks: Vec<usize>,
    /// Threads of the CPU; of each rank, over ranks.
    #[serde(default)]
    pub threads: Threads,
    /// Kernels by name. A sweep of products or solves has one case for each (or `auto`); a `kernel` sweep measures all of them in
    /// one case.
    #[serde(default, deserialize_with = "one_or_many")]
    pub kernels: Vec<String>,
    /// Transfer modes of A, as `--mode` takes them.
    #[serde(default = "auto", deserialize_with = "one_or_many")]
    pub mode: Vec<String>,
    /// How the CPU's threads divide the rows, as `--schedule` takes it.
    #[serde(default = "balanced", deserialize_with = "one_or_many")]
    pub schedule: Vec<String>,
    /// Bytes of A in a chunk, such as `1MiB`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub chunk_bytes: Vec<String>,
    /// Shares of the product that the CPU computes, from 0 to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub cpu_share: Vec<f64>,
    /// How A, X and Y are copied to devices: `auto`, `staged` (through page-locked buffers) or `registered` (page-locked in
    /// place).
    #[serde(default = "auto", deserialize_with = "one_or_many")]
    pub transfer: Vec<String>,
    /// Libraries to measure for comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub against: Vec<String>,
}

fn one() -> u64 {
    1
}

fn k() -> Vec<usize> {
    vec![32]
}

fn dtype() -> Vec<Dtype> {
    vec![Dtype::F64]
}

fn cpu() -> Vec<String> {
    vec!["cpu".into()]
}

fn auto() -> Vec<String> {
    vec!["auto".into()]
}

fn balanced() -> Vec<String> {
    vec!["balanced".into()]
}

impl StudyConfig {
    /// Reads a study; the file comes with it, to name the line of whatever proves wrong later.
    pub fn read(path: &Path) -> Result<(Self, TomlFile)> {
        let file = TomlFile::read(path)?;
        Ok((Self::parse(&file)?, file))
    }

    /// The study in a file. Errors name the line; an unknown key also the nearest key.
    pub fn parse(file: &TomlFile) -> Result<Self> {
        let config: Self =
            file.parse().map_err(|error: TomlError| match error.reason.starts_with("missing field") {
                true => required_keys::missing(file).unwrap_or_else(|| error.into_error()),
                false => error.into_error(),
            })?;
        config.check(file)?;
        Ok(config)
    }

    fn check(&self, file: &TomlFile) -> Result<()> {
        let Measure { repeat, time_cap_s, .. } = self.measure;
        let wrong =
            |path: &[&str], reason: &str| Err(Error::usage(format!("{}: {reason}", file.place_of(path))));
        if repeat == Some(0) {
            return wrong(&["measure", "repeat"], "repeat must be at least 1");
        }
        if !(time_cap_s > 0.0 && time_cap_s < 1e9) {
            return wrong(&["measure", "time_cap_s"], "time_cap_s must be above 0");
        }
        if self.sweep.is_empty() {
            return wrong(&["sweep"], "a study needs at least one [[sweep]]");
        }
        for (index, sweep) in self.sweep.iter().enumerate() {
            let number = index.to_string();
            if let Err((key, reason)) = sweep.check() {
                return wrong(&["sweep", &number, key], &format!("sweep {}: {reason}", sweep.name));
            }
            if self.sweep.iter().take(index).any(|other| other.name == sweep.name) {
                return wrong(&["sweep", &number, "name"], &format!("two sweeps are named {}", sweep.name));
            }
        }
        Ok(())
    }

    /// The study as TOML, with the defaults of every key that was left out.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::Internal(format!("a study cannot be written as TOML: {error}")))
    }
}

impl Sweep {
    /// The key that is wrong, and the reason.
    fn check(&self) -> std::result::Result<(), (&'static str, String)> {
        for (key, is_empty) in [
            ("matrices", self.matrices.is_empty() && self.subject != Subject::Transfers),
            ("k", self.k.is_empty()),
            ("dtype", self.dtype.is_empty()),
            ("devices", self.devices.is_empty()),
            ("mode", self.mode.is_empty()),
            ("schedule", self.schedule.is_empty()),
            ("transfer", self.transfer.is_empty()),
        ] {
            if is_empty {
                return Err((key, format!("{key} needs at least one value")));
            }
        }
        if self.k.contains(&0) {
            return Err(("k", "k must be at least 1".into()));
        }
        if !self.cpu_share.iter().all(|share| (0.0..=1.0).contains(share)) {
            return Err(("cpu_share", "cpu_share must be from 0 to 1".into()));
        }
        match &self.threads {
            Threads::List(list)
                if list.is_empty() || !list.iter().all(|n| (1..=MOST_THREADS).contains(n)) =>
            {
                return Err(("threads", format!("threads must be from 1 to {MOST_THREADS}")));
            }
            Threads::Word(word) if word != "doubling" && word != "all" => {
                let reason = format!("threads must be numbers, \"doubling\" or \"all\", not \"{word}\"");
                return Err(("threads", reason));
            }
            _ => {}
        }
        if let Some(key) = self.key_without_effect() {
            let subject = match self.subject {
                Subject::Gemm => "a dense product",
                Subject::Colmean => "sums of columns",
                Subject::Transfers => "copies",
                Subject::Vectors => "a product on vectors",
                _ => "a solver",
            };
            return Err((key, format!("{key} has no effect on {subject}; remove it")));
        }
        let copies_nothing = |devices: &&String| {
            devices.split(',').any(|device| device == "cpu" || device == "auto" || device.starts_with("sim:"))
        };
        if self.subject == Subject::Transfers
            && let Some(devices) = self.devices.iter().find(copies_nothing)
        {
            return Err(("devices", format!("nothing is copied to {devices}; name cuda:0 or emu:0")));
        }
        if let Some(devices) =
            self.devices.iter().find(|devices| self.subject.is_solver() && devices.contains("sim:"))
        {
            let reason = format!(
                "a solver needs values, and simulated devices ({devices}) compute none; use cpu, cuda:0 or emu:0, or \
                 subject = \"run\" for predicted times of products"
            );
            return Err(("devices", reason));
        }
        self.check_ranks()?;
        let is_simulated = |devices: &&String| devices.split(',').all(|word| word.starts_with("sim:"));
        if let Some(devices) =
            self.devices.iter().find(|devices| self.subject == Subject::Vectors && !is_simulated(devices))
        {
            let reason = format!(
                "products on vectors are simulated, and {devices} is not simulated; name sim:node8x4, or use subject = \
                 \"power_iteration\" for times of other devices"
            );
            return Err(("devices", reason));
        }
        for matrix in &self.matrices {
            let named = if self.ranks.is_empty() { matrix.clone() } else { with_ranks(matrix, 1) };
            with_counts(&named, 1, 1).map_err(|reason| ("matrices", reason))?;
        }
        Ok(())
    }
}

impl Sweep {
    /// The first key that is set and has no effect on the subject.
    fn key_without_effect(&self) -> Option<&'static str> {
        let mode = ("mode", self.mode != auto());
        let transfer = ("transfer", self.transfer != auto());
        let chunk_bytes = ("chunk_bytes", !self.chunk_bytes.is_empty());
        let against = ("against", !self.against.is_empty());
        let schedule = ("schedule", self.schedule != balanced());
        let k = ("k", self.k != k());
        let keys = match self.subject {
            // A and all vectors stay on the devices.
            Subject::PowerIteration | Subject::SubspaceIteration => {
                vec![mode, transfer, chunk_bytes, against]
            }
            Subject::Vectors => {
                let cpu_share = ("cpu_share", !self.cpu_share.is_empty());
                vec![mode, transfer, chunk_bytes, against, schedule, cpu_share]
            }
            Subject::Gemm => vec![schedule, against],
            Subject::Colmean => vec![k, schedule, against],
            Subject::Transfers => vec![
                ("matrices", !self.matrices.is_empty()),
                k,
                ("dtype", self.dtype != dtype()),
                ("kernels", !self.kernels.is_empty()),
                mode,
                transfer,
                schedule,
                ("cpu_share", !self.cpu_share.is_empty()),
                against,
            ],
            Subject::Run | Subject::Kernel | Subject::Conversion => Vec::new(),
        };
        keys.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "
        title = 'small'
        [[sweep]]
        name = 'threads'
        matrices = ['gen:uniform,rows={1_000*threads},degree=4']
        k = [1, 8]
        threads = 'doubling'
        cpu_share = [0.0, 0.5]
    ";

    fn parse(text: &str) -> Result<StudyConfig> {
        StudyConfig::parse(&TomlFile::new("a.toml", text))
    }

    fn error(text: &str) -> Error {
        parse(text).unwrap_err()
    }

    #[test]
    fn every_combination_is_a_case_and_matrices_grow_with_threads() {
        let config = parse(SMALL).unwrap();
        let cases = config.cases(6, |_| 1).unwrap();
        assert_eq!(cases.len(), 4 * 2 * 2);
        let threads: Vec<usize> = cases.iter().step_by(4).map(|case| case.threads).collect();
        assert_eq!(threads, [1, 2, 4, 6]);
        assert_eq!(cases[15].matrix, "gen:uniform,rows=6000,degree=4");
        assert_eq!((cases[1].k, cases[1].cpu_share), (Some(1), Some(0.5)));
    }

    #[test]
    fn a_study_written_as_toml_reads_back_equal() {
        let config = parse(SMALL).unwrap();
        assert_eq!(parse(&config.to_toml().unwrap()).unwrap(), config);
    }

    #[test]
    fn a_wrong_key_names_its_line_and_the_nearest_key() {
        let wrong = error(&SMALL.replace("threads = ", "thread = "));
        assert_eq!(wrong.exit_code(), 2);
        assert_eq!(wrong.to_string(), "a.toml:7: unknown key 'thread' (did you mean 'threads'?)");
        let wrong = error(&SMALL.replace("title", "titel"));
        assert!(wrong.to_string().contains("titel' (did you mean 'title'?)"), "{wrong}");
        let wrong = error(&format!("{SMALL}\n[measure]\nrepeats = 3"));
        assert!(wrong.to_string().contains("did you mean 'repeat'?"), "{wrong}");
    }

    #[test]
    fn a_damaged_file_is_an_input_error_and_a_wrong_value_a_usage_error_with_its_line() {
        assert_eq!(error("title = [").exit_code(), 3);
        assert_eq!(error("title = 'a'").exit_code(), 3, "no sweep");
        for (from, to, line) in [
            ("k = [1, 8]", "k = []", 6),
            ("k = [1, 8]", "k = [0]", 6),
            ("'doubling'", "'many'", 7),
            ("'doubling'", "[0]", 7),
            ("0.5]", "1.5]", 8),
            ("*threads}", "*cats}", 5),
            ("*threads}", "", 5),
            ("title = 'small'", "title = 'small'\nmeasure = { time_cap_s = 0.0 }", 3),
        ] {
            let error = error(&SMALL.replace(from, to));
            assert_eq!(error.exit_code(), 2, "{to}");
            assert!(error.to_string().starts_with(&format!("a.toml:{line}: ")), "{error}");
        }
    }

    #[test]
    fn one_value_stands_for_a_list_of_one() {
        let one = SMALL
            .replace("k = [1, 8]", "k = 8\ndtype = 'f32'\ndevices = 'cpu'\nmode = 'auto'")
            .replace("'doubling'", "4")
            .replace("[0.0, 0.5]", "0.5");
        let config = parse(&one.replace("[[sweep]]", "[sweep]")).unwrap();
        let sweep = &config.sweep[0];
        assert_eq!((&sweep.k[..], &sweep.cpu_share[..]), (&[8][..], &[0.5][..]));
        assert_eq!((&sweep.dtype[..], &sweep.threads), (&[Dtype::F32][..], &Threads::List(vec![4])));
        assert_eq!(config, parse(&one).unwrap());
        let wrong = error(&one.replace("k = 8", "k = 'eight'"));
        assert!(wrong.to_string().starts_with("a.toml:6: "), "{wrong}");
    }
}
