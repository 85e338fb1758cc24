//! A study as its TOML file says it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sampling::TIME_CAP_S;
use crate::error::{Error, Place, Result};
use crate::matrix::Dtype;
use crate::matrix::generate::did_you_mean;

/// A study: what is swept, and how it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyConfig {
    /// The heading of its report.
    pub title: String,
    /// What it asks.
    #[serde(default)]
    pub question: String,
    /// Seed of everything random.
    #[serde(default = "one")]
    pub seed: u64,
    /// How it is measured.
    #[serde(default)]
    pub measure: Measure,
    /// What is swept.
    pub sweep: Vec<Sweep>,
}

/// How every case is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Runs before the measured ones.
    pub warmup: u32,
    /// Measured runs; where none are given, at least 10 and 0.5 s of them, until they spread by less than 0.5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Seconds after which a case has been measured enough, if it ran three times.
    pub time_cap_s: f64,
    /// Whether products are compared with the reference.
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
    /// Kernels alone, one device at a time.
    Kernel,
    /// The conversions between formats, serial and parallel.
    Conversion,
}

/// How many threads the CPU gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Threads {
    /// These numbers of threads.
    List(Vec<usize>),
    /// `doubling`: 1, 2, 4 and so on up to all; `all`: as many as the program may use.
    Word(String),
}

impl Default for Threads {
    fn default() -> Self {
        Self::Word("all".into())
    }
}

impl Threads {
    /// The numbers on a machine where so many may be used.
    fn numbers(&self, most: usize) -> Vec<usize> {
        match self {
            Self::List(list) => list.clone(),
            Self::Word(word) if word == "doubling" => {
                let mut numbers: Vec<usize> =
                    std::iter::successors(Some(1), |&n| Some(n * 2)).take_while(|&n| n < most).collect();
                numbers.push(most.max(1));
                numbers
            }
            Self::Word(_) => vec![most.max(1)],
        }
    }
}

/// One sweep: every combination of its lists is a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Its name in results and figures.
    pub name: String,
    /// What each case measures.
    #[serde(default)]
    pub subject: Subject,
    /// Files, or `gen:KIND,...`; `{1000*threads}` and `{1000*devices}` in a name are numbers that grow with those.
    pub matrices: Vec<String>,
    /// Columns of X.
    #[serde(default = "k")]
    pub k: Vec<usize>,
    /// Value types.
    #[serde(default = "dtype")]
    pub dtype: Vec<Dtype>,
    /// Devices, each as `--devices` takes them.
    #[serde(default = "cpu")]
    pub devices: Vec<String>,
    /// Threads of the CPU.
    #[serde(default)]
    pub threads: Threads,
    /// Kernels: for runs one by one, and `auto`; alone all in one case, and `all`.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// How A gets to the devices.
    #[serde(default = "auto")]
    pub mode: Vec<String>,
    /// How the CPU's threads share rows.
    #[serde(default = "balanced")]
    pub schedule: Vec<String>,
    /// Bytes of A in a chunk, such as `1MiB`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk_bytes: Vec<String>,
    /// Shares of the product that the CPU computes, from 0 to 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_share: Vec<f64>,
    /// How things cross to devices: `auto`, `staged` through pinned memory, or `registered`, pinned where they lie.
    #[serde(default = "auto")]
    pub transfer: Vec<String>,
    /// Libraries to measure beside the kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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

/// One case of a study: everything that defines it but the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// The sweep's name.
    pub sweep: String,
    /// What is measured.
    pub subject: Subject,
    /// The matrix, as typed.
    pub matrix: String,
    /// The value type.
    pub dtype: Dtype,
    /// Threads of the CPU.
    pub threads: usize,
    /// Devices, as typed.
    pub devices: String,
    /// Columns of X; none for conversions.
    pub k: Option<usize>,
    /// The kernels: one for a run, several alone.
    pub kernels: Vec<String>,
    /// How A gets to the devices.
    pub mode: String,
    /// How the CPU's threads share rows.
    pub schedule: String,
    /// Bytes of A in a chunk, as typed.
    pub chunk_bytes: Option<String>,
    /// The CPU's share.
    pub cpu_share: Option<f64>,
    /// How things cross to devices.
    pub transfer: String,
    /// Libraries beside.
    pub against: Vec<String>,
}

impl StudyConfig {
    /// Reads a study. A key that does not exist is an error that names the nearest one.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::read(path, source))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// The study in `text`, which came from `source`.
    pub fn parse(text: &str, source: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let line =
                error.span().map(|span| text.get(..span.start).unwrap_or("").lines().count().max(1) as u64);
            let place = Place { source: source.into(), line, column: None };
            match unknown_key(error.message()) {
                Some(message) => Error::Usage(format!("{place}: {message}")),
                None => Error::input(place, error.message().replace('\n', ", ")),
            }
        })?;
        config.check().map_err(|reason| Error::Usage(format!("{source}: {reason}")))?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let Measure { repeat, time_cap_s, .. } = self.measure;
        if repeat == Some(0) || !(time_cap_s > 0.0 && time_cap_s < 1e9) {
            return Err("measure: repeat and time_cap_s are above 0".into());
        }
        if self.sweep.is_empty() {
            return Err("a study has at least one [[sweep]]".into());
        }
        for (index, sweep) in self.sweep.iter().enumerate() {
            let name = &sweep.name;
            if self.sweep.iter().take(index).any(|other| other.name == *name) {
                return Err(format!("two sweeps are named {name}"));
            }
            for (key, is_empty) in [
                ("matrices", sweep.matrices.is_empty()),
                ("k", sweep.k.is_empty() || sweep.k.contains(&0)),
                ("dtype", sweep.dtype.is_empty()),
                ("devices", sweep.devices.is_empty()),
                ("mode", sweep.mode.is_empty()),
                ("schedule", sweep.schedule.is_empty()),
                ("transfer", sweep.transfer.is_empty()),
            ] {
                if is_empty {
                    return Err(format!(
                        "sweep {name}: {key} needs one value at least, and none that is zero"
                    ));
                }
            }
            if !sweep.cpu_share.iter().all(|share| (0.0..=1.0).contains(share)) {
                return Err(format!("sweep {name}: shares are from 0 to 1"));
            }
            match &sweep.threads {
                Threads::List(list) if list.is_empty() || list.iter().any(|&n| n == 0 || n > 4096) => {
                    return Err(format!("sweep {name}: threads are from 1 to 4096"));
                }
                Threads::Word(word) if word != "doubling" && word != "all" => {
                    return Err(format!(
                        "sweep {name}: threads are a list of numbers, doubling or all, not {word}"
                    ));
                }
                _ => {}
            }
            for matrix in &sweep.matrices {
                grown(matrix, 1, 1).map_err(|reason| format!("sweep {name}: {reason}"))?;
            }
        }
        Ok(())
    }

    /// The study as TOML, with everything that was left to itself.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Internal(format!("a study cannot be written: {error}")))
    }

    /// All cases, in the order they are measured, on a machine where so many threads may be used. `count` says how many
    /// devices a list of them is.
    pub fn cases(&self, most_threads: usize, count: impl Fn(&str) -> usize) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for sweep in &self.sweep {
            sweep.add_cases(most_threads, &count, &mut cases)?;
        }
        Ok(cases)
    }
}

impl Sweep {
    fn add_cases(
        &self,
        most_threads: usize,
        count: &impl Fn(&str) -> usize,
        cases: &mut Vec<Case>,
    ) -> Result<()> {
        let optional = |list: &[String]| match list {
            [] => vec![None],
            list => list.iter().cloned().map(Some).collect(),
        };
        let shares: Vec<Option<f64>> = if self.cpu_share.is_empty() {
            vec![None]
        } else {
            self.cpu_share.iter().copied().map(Some).collect()
        };
        let named = |name: &str| match &self.kernels[..] {
            [] => vec![name.to_string()],
            names => names.to_vec(),
        };
        let (kernels, ks, chunk_bytes) = match self.subject {
            Subject::Run => {
                let kernels = named("auto").into_iter().map(|kernel| vec![kernel]).collect();
                (kernels, self.k.iter().copied().map(Some).collect(), optional(&self.chunk_bytes))
            }
            Subject::Kernel => (vec![named("all")], self.k.iter().copied().map(Some).collect(), vec![None]),
            Subject::Conversion => (vec![Vec::new()], vec![None], vec![None]),
        };
        for matrix in &self.matrices {
            for &dtype in &self.dtype {
                for threads in self.threads.numbers(most_threads) {
                    for devices in &self.devices {
                        let matrix = grown(matrix, threads, count(devices)).map_err(Error::Usage)?;
                        let base = Case {
                            sweep: self.name.clone(),
                            subject: self.subject,
                            matrix,
                            dtype,
                            threads,
                            devices: devices.clone(),
                            k: None,
                            kernels: Vec::new(),
                            mode: String::new(),
                            schedule: String::new(),
                            chunk_bytes: None,
                            cpu_share: None,
                            transfer: String::new(),
                            against: self.against.clone(),
                        };
                        product(&base, (&kernels, &ks, &chunk_bytes, &shares), self, cases);
                    }
                }
            }
        }
        Ok(())
    }
}

type Inner<'a> = (&'a [Vec<String>], &'a [Option<usize>], &'a [Option<String>], &'a [Option<f64>]);

/// The inner loops: what can change without loading another matrix or starting other threads.
fn product(base: &Case, (kernels, ks, chunk_bytes, shares): Inner<'_>, sweep: &Sweep, cases: &mut Vec<Case>) {
    for kernels in kernels {
        for mode in &sweep.mode {
            for schedule in &sweep.schedule {
                for transfer in &sweep.transfer {
                    for &k in ks {
                        for chunk_bytes in chunk_bytes {
                            for &cpu_share in shares {
                                cases.push(Case {
                                    k,
                                    kernels: kernels.clone(),
                                    mode: mode.clone(),
                                    schedule: schedule.clone(),
                                    chunk_bytes: chunk_bytes.clone(),
                                    cpu_share,
                                    transfer: transfer.clone(),
                                    ..base.clone()
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A matrix's name with `{1000*threads}` and `{1000*devices}` worked out.
fn grown(name: &str, threads: usize, devices: usize) -> std::result::Result<String, String> {
    let mut grown = String::new();
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once('{') {
        let wrong = || {
            format!("{name}: in braces stands a number times threads or devices, such as {{1000*threads}}")
        };
        let (inside, after) = behind.split_once('}').ok_or_else(wrong)?;
        let (number, of) = inside.split_once('*').ok_or_else(wrong)?;
        let factor = match of.trim() {
            "threads" => threads,
            "devices" => devices,
            _ => return Err(wrong()),
        };
        let number: usize = number.trim().replace('_', "").parse().map_err(|_| wrong())?;
        grown += before;
        grown += &number.checked_mul(factor).ok_or_else(wrong)?.to_string();
        rest = after;
    }
    Ok(grown + rest)
}

/// A better sentence for a key that does not exist: ``unknown field `thread`, expected one of `title`, `threads` ``.
fn unknown_key(message: &str) -> Option<String> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let key = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    let nearest = match did_you_mean(key, known.iter().copied()) {
        nothing if nothing.is_empty() => format!("; there are {}", known.join(", ")),
        nearest => nearest,
    };
    Some(format!("there is no key '{key}'{nearest}"))
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

    fn error(text: &str) -> Error {
        StudyConfig::parse(text, "a.toml").unwrap_err()
    }

    #[test]
    fn every_combination_is_a_case_and_matrices_grow_with_threads() {
        let config = StudyConfig::parse(SMALL, "a.toml").unwrap();
        let cases = config.cases(6, |_| 1).unwrap();
        assert_eq!(cases.len(), 4 * 2 * 2);
        let threads: Vec<usize> = cases.iter().step_by(4).map(|case| case.threads).collect();
        assert_eq!(threads, [1, 2, 4, 6]);
        assert_eq!(cases[15].matrix, "gen:uniform,rows=6000,degree=4");
        assert_eq!((cases[1].k, cases[1].cpu_share), (Some(1), Some(0.5)));
    }

    #[test]
    fn what_is_written_is_the_same_study() {
        let config = StudyConfig::parse(SMALL, "a.toml").unwrap();
        assert_eq!(StudyConfig::parse(&config.to_toml().unwrap(), "b.toml").unwrap(), config);
    }

    #[test]
    fn a_wrong_key_is_told_with_the_nearest_and_its_line() {
        let wrong = error(&SMALL.replace("threads = ", "thread = "));
        assert_eq!(wrong.exit_code(), 2);
        assert_eq!(wrong.to_string(), "a.toml:7: there is no key 'thread' (did you mean 'threads'?)");
        let wrong = error(&SMALL.replace("title", "titel"));
        assert!(wrong.to_string().contains("titel' (did you mean 'title'?)"), "{wrong}");
        let wrong = error(&format!("{SMALL}\n[measure]\nrepeats = 3"));
        assert!(wrong.to_string().contains("did you mean 'repeat'?"), "{wrong}");
    }

    #[test]
    fn damaged_files_are_input_and_senseless_ones_usage() {
        assert_eq!(error("title = [").exit_code(), 3);
        assert_eq!(error("title = 'a'").exit_code(), 3, "no sweep");
        for (from, to) in [
            ("k = [1, 8]", "k = []"),
            ("k = [1, 8]", "k = [0]"),
            ("'doubling'", "'many'"),
            ("'doubling'", "[0]"),
            ("0.5]", "1.5]"),
            ("*threads}", "*cats}"),
            ("*threads}", ""),
            ("title = 'small'", "title = 'small'\nmeasure = { time_cap_s = 0.0 }"),
        ] {
            assert_eq!(error(&SMALL.replace(from, to)).exit_code(), 2, "{to}");
        }
    }
}
