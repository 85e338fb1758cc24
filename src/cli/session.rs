//! What every command that works on a matrix shares: the machine, the pool of threads, the signals, and loading.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Instant;

use super::args::MatrixArguments;
use super::console::Console;
use super::interrupt::Interrupt;
use super::paths::is_dash;
use super::standard_input;
use super::table::count;
use crate::error::{Error, Place, Result};
use crate::machine::Machine;
use crate::matrix::generate::generate;
use crate::matrix::io::{self, Progress, ReadOptions};
use crate::matrix::{Csr, CsrView, Loaded, MatrixInfo, Scalar};
use crate::runtime::Pool;
use crate::study::Provenance;
use crate::work::{Features, Work};

/// Where a matrix comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatrixSource {
    /// A file, or `-` for standard input.
    File(PathBuf),
    /// A generator, with its words as typed behind `gen:`.
    Generated(String),
}

impl MatrixSource {
    /// What was typed.
    pub fn new(text: &OsStr) -> Self {
        match text.to_str().and_then(|text| text.strip_prefix("gen:")) {
            Some(spec) => Self::Generated(spec.to_owned()),
            None => Self::File(text.into()),
        }
    }

    /// Fails now where it would fail later, after much was measured: no such file, no such kind of matrix.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::File(path) if is_dash(path) => Ok(()),
            Self::File(path) => std::fs::metadata(path).map(drop).map_err(|error| Error::read(path, error)),
            // With no memory to take, a right description is refused before anything is made.
            Self::Generated(spec) => match generate::<f64>(spec, 1, 0) {
                Ok(_) | Err(Error::DoesNotFit { .. }) => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// As typed.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Generated(spec) => format!("gen:{spec}"),
        }
    }
}

/// The machine, the threads and the signals of one command.
#[derive(Debug)]
pub struct Session {
    /// This machine.
    pub machine: Machine,
    /// The threads that all parallel work runs on.
    pub pool: Pool,
    /// Whether to stop.
    pub interrupt: &'static Interrupt,
    /// Seed of everything random.
    pub seed: u64,
    /// Where results come from.
    pub provenance: Provenance,
}

impl Session {
    /// Looks at the machine, starts the threads, watches for signals.
    pub fn open(arguments: &MatrixArguments) -> Result<Self> {
        Self::with(arguments.threads, arguments.seed)
    }

    /// The same with as many threads, or all, and that seed.
    pub fn with(threads: Option<usize>, seed: u64) -> Result<Self> {
        let interrupt = Interrupt::watch()?;
        let machine = Machine::detect();
        let pool = Pool::new(&machine, threads)?;
        let provenance = Provenance::now(&machine, seed);
        Ok(Self { machine, pool, interrupt, seed, provenance })
    }

    /// Most memory that anything may take.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.machine.memory_limit_bytes()
    }

    /// Reads or generates a matrix, tells what was noticed, and gives the seconds it took.
    pub fn load<T: Scalar>(
        &self,
        source: &MatrixSource,
        finite: bool,
        console: &Console,
    ) -> Result<(Loaded<T>, f64)> {
        let memory_limit_bytes = self.memory_limit_bytes();
        let start = Instant::now();
        let loaded = match source {
            MatrixSource::File(path) => {
                let bar = console.byte_bar(path, "reading");
                let advance = |bytes| bar.advance(bytes);
                let progress = Some(Progress(&advance));
                let input = standard_input::open(path, memory_limit_bytes)?;
                let options = ReadOptions { memory_limit_bytes, finite, progress };
                self.pool.install(|| io::read_input(&input, &options))?
            }
            MatrixSource::Generated(spec) => {
                let _spinner = console.spinner(format!("generating {spec}"));
                self.pool.install(|| generate(spec, self.seed, memory_limit_bytes))?
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        for note in &loaded.notes {
            console.note(note);
        }
        Ok((loaded, seconds))
    }
}

/// An error if the file that `matrix` is a window of was cut short meanwhile, which makes every result worthless.
pub fn check_intact<T: Scalar>(matrix: &Csr<T>, source: &MatrixSource) -> Result<()> {
    if matrix.is_intact() {
        return Ok(());
    }
    let place = Place { source: source.name(), line: None, column: None };
    Err(Error::input(place, "the file was cut short while it was in use; restore it and run again"))
}

/// The product of a matrix that was loaded, with what its cache knows of its rows.
pub fn work<'a, T: Scalar>(matrix: &CsrView<'a, T>, info: &MatrixInfo, k: usize) -> Result<Work<'a>> {
    let known = info.features.clone().and_then(|features| serde_json::from_value::<Features>(features).ok());
    Ok(Work::spmm(matrix, k)?.with_features(known))
}

/// A matrix's name, shape and size in one line.
pub fn describe<T: Scalar>(matrix: &CsrView<'_, T>, info: &MatrixInfo) -> String {
    let synthetic = if info.synthetic { " (synthetic)" } else { "" };
    format!(
        "{}{synthetic}, {} x {}, {} nonzeros",
        info.name,
        count(matrix.rows() as u64),
        count(matrix.cols() as u64),
        count(matrix.nnz() as u64)
    )
}
