//! The cases of a study: every combination of the lists of each sweep.

use serde::Serialize;

use super::config::{StudyConfig, Subject, Sweep, Threads};
use super::scaled_names::{with_counts, with_ranks};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::Dtype;

/// Most cases of a study: each takes seconds, so that more would take weeks.
const MAX_CASES: u64 = 100_000;

/// One case of a study: everything that defines it except the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// The sweep's name.
    pub sweep: String,
    /// The subject of the measurement.
    pub subject: Subject,
    /// The matrix, as the study names it.
    pub matrix: String,
    /// The value type.
    pub dtype: Dtype,
    /// Ranks of an MPI job; none for a case of this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Threads of the CPU; of each rank, over ranks.
    pub threads: usize,
    /// The list of devices, as the study writes it.
    pub devices: String,
    /// Columns of X; none for conversions.
    pub k: Option<usize>,
    /// The kernels: one for a whole product, several where each is measured alone.
    pub kernels: Vec<String>,
    /// The transfer mode of A.
    pub mode: String,
    /// How the CPU's threads divide the rows.
    pub schedule: String,
    /// Bytes of A in a chunk, as the study writes it.
    pub chunk_bytes: Option<String>,
    /// The share of the product that the CPU computes.
    pub cpu_share: Option<f64>,
    /// How A, X and Y are copied to devices.
    pub transfer: String,
    /// Libraries to measure for comparison.
    pub against: Vec<String>,
}

impl StudyConfig {
    /// All cases, in the order of measurement, where the process may use `most_threads` threads. `count` returns the
    /// number of devices in a list.
    pub fn cases(&self, most_threads: usize, count: impl Fn(&str) -> usize) -> Result<Vec<Case>> {
        let counted =
            self.sweep.iter().fold(0u64, |sum, sweep| sum.saturating_add(sweep.count(most_threads)));
        if counted > MAX_CASES {
            return Err(Error::usage(format!(
                "the study has {counted} cases, but at most {MAX_CASES} can be measured; shorten its lists"
            )));
        }
        let mut cases = Vec::new();
        for sweep in &self.sweep {
            sweep.add_cases(most_threads, &count, &mut cases)?;
        }
        Ok(cases)
    }
}

impl Threads {
    /// The numbers of threads where the process may use `most`.
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

impl Sweep {
    /// The number of its cases.
    fn count(&self, most_threads: usize) -> u64 {
        let optional = |list: usize| list.max(1);
        let inner = match self.subject {
            Subject::Run
            | Subject::Vectors
            | Subject::PowerIteration
            | Subject::SubspaceIteration
            | Subject::Gemm => {
                vec![optional(self.kernels.len()), self.k.len(), optional(self.chunk_bytes.len())]
            }
            Subject::Kernel => vec![self.k.len()],
            Subject::Colmean => vec![optional(self.kernels.len()), optional(self.chunk_bytes.len())],
            Subject::Transfers => vec![optional(self.chunk_bytes.len())],
            Subject::Conversion => Vec::new(),
        };
        let outer = [
            optional(self.matrices.len()),
            self.dtype.len(),
            optional(self.ranks.len()),
            self.threads.numbers(most_threads).len(),
            self.devices.len(),
            self.mode.len(),
            self.schedule.len(),
            self.transfer.len(),
            optional(self.cpu_share.len()),
        ];
        outer.into_iter().chain(inner).fold(1, |product, list| product.saturating_mul(list as u64))
    }

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
            Subject::Run
            | Subject::Vectors
            | Subject::PowerIteration
            | Subject::SubspaceIteration
            | Subject::Gemm => {
                let kernels = named("auto").into_iter().map(|kernel| vec![kernel]).collect();
                (kernels, self.k.iter().copied().map(Some).collect(), optional(&self.chunk_bytes))
            }
            Subject::Colmean => {
                let kernels = named("auto").into_iter().map(|kernel| vec![kernel]).collect();
                (kernels, vec![None], optional(&self.chunk_bytes))
            }
            Subject::Transfers => (vec![Vec::new()], vec![None], optional(&self.chunk_bytes)),
            Subject::Kernel => (vec![named("all")], self.k.iter().copied().map(Some).collect(), vec![None]),
            Subject::Conversion => (vec![Vec::new()], vec![None], vec![None]),
        };
        // Copies have no matrix.
        let matrices = if self.matrices.is_empty() { vec![String::new()] } else { self.matrices.clone() };
        let rank_numbers: Vec<Option<usize>> = match &self.ranks[..] {
            [] => vec![None],
            ranks => ranks.iter().copied().map(Some).collect(),
        };
        let with_rank_numbers = matrices.iter().flat_map(|matrix| {
            let named = |ranks: &Option<usize>| {
                ranks.map_or_else(|| matrix.clone(), |ranks| with_ranks(matrix, ranks))
            };
            rank_numbers.iter().map(move |ranks| (named(ranks), *ranks)).collect::<Vec<_>>()
        });
        for (matrix, ranks) in &with_rank_numbers.collect::<Vec<_>>() {
            for &dtype in &self.dtype {
                for threads in self.threads.numbers(most_threads) {
                    for devices in &self.devices {
                        let matrix = with_counts(matrix, threads, count(devices)).map_err(Error::usage)?;
                        let base = Case {
                            sweep: self.name.clone(),
                            subject: self.subject,
                            matrix,
                            dtype,
                            ranks: *ranks,
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

/// The inner loops, over everything that changes without loading another matrix or starting other threads.
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
