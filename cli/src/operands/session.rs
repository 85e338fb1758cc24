//! What the commands on matrices share: the machine, the thread pool, signal handling, and loading a matrix.

use std::sync::Arc;
use std::time::Instant;

use super::collection;
use super::standard_input;
use crate::args::MatrixArguments;
use crate::args::MatrixSource;
use crate::args::hints;
use crate::console::Console;
use crate::console::interrupt::Interrupt;
use crate::console::table::count;
use crate::measure::Provenance;
use rowloom::internal::device::cuda::Driver;
use rowloom::internal::error::{Counted, Error, Place, Result};
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::array::limit_memory;
use rowloom::internal::matrix::generate::{generate, generate_pattern};
use rowloom::internal::matrix::io::{self, Progress, ReadOptions};
use rowloom::internal::matrix::{Csr, CsrView, Field, Loaded, MatrixInfo, Scalar};
use rowloom::internal::runtime::Pool;
use rowloom::internal::work::Work;
use rowloom::internal::work::spmm::{Features, Spmm};

/// The machine, the threads and the signals of one command.
#[derive(Debug)]
pub struct Session {
    /// This machine.
    pub machine: Machine,
    /// The thread pool for all parallel work.
    pub pool: Arc<Pool>,
    /// Whether a signal asked the program to stop.
    pub interrupt: &'static Interrupt,
    /// Seed of generated matrices and of X.
    pub seed: u64,
    /// The program, machine and arguments that results come from.
    pub provenance: Provenance,
}

/// The matrices that a command accepts.
#[derive(Debug, Clone, Copy, Default)]
struct Accepted {
    /// Only those of finite values.
    finite: bool,
    /// Complex ones too.
    complex: bool,
    /// The values of a generated one are not needed.
    only_pattern: bool,
}

impl Session {
    /// Detects the machine, starts the threads and installs the signal handlers.
    pub fn open(arguments: &MatrixArguments) -> Result<Self> {
        Self::with(arguments.threads, arguments.seed)
    }

    /// The same with `threads` threads (all usable ones without it) and `seed`.
    pub fn with(threads: Option<usize>, seed: u64) -> Result<Self> {
        let interrupt = Interrupt::watch()?;
        let machine = Machine::detect();
        limit_memory(machine.memory_limit_bytes());
        let pool = Arc::new(Pool::new(&machine, threads)?);
        let provenance = Provenance::now(&machine, seed);
        Ok(Self { machine, pool, interrupt, seed, provenance })
    }

    /// A note where more threads were asked for than there are processors.
    pub fn note_surplus_threads(&self, console: &Console) {
        let (threads, usable) = (self.pool.threads(), self.machine.usable_threads);
        if threads > usable {
            let processors = Counted(usable as u64, "processor");
            console.note(&format!(
                "--threads {threads}: this process may use {processors}, so threads take turns and the product is not faster"
            ));
        }
    }

    /// Adds what only the CUDA driver knows of the GPUs to the descriptions of the machine, if the command has started it.
    pub fn add_gpus(&mut self) {
        if let Some(Ok(_)) = Driver::if_known() {
            self.machine.query_driver();
            self.provenance.machine.gpus.clone_from(&self.machine.gpus);
        }
    }

    /// The most memory that one allocation may take.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.machine.memory_limit_bytes()
    }

    /// Reads or generates a matrix, prints its notes, and returns it with the seconds that took; a signal ends the reading.
    pub fn load<T: Scalar>(
        &self,
        source: &MatrixSource,
        finite: bool,
        console: &Console,
    ) -> Result<(Loaded<T>, f64)> {
        self.load_with(source, Accepted { finite, ..Accepted::default() }, console)
    }

    /// As [`Self::load`]; complex matrices too.
    pub fn load_any<T: Scalar>(
        &self,
        source: &MatrixSource,
        finite: bool,
        console: &Console,
    ) -> Result<(Loaded<T>, f64)> {
        self.load_with(source, Accepted { finite, complex: true, ..Accepted::default() }, console)
    }

    /// As [`Self::load`], without the values of a generated matrix, which take most of the memory: they are zeros that take none.
    pub fn load_pattern<T: Scalar>(
        &self,
        source: &MatrixSource,
        finite: bool,
        console: &Console,
    ) -> Result<(Loaded<T>, f64)> {
        self.load_with(source, Accepted { finite, only_pattern: true, ..Accepted::default() }, console)
    }

    fn load_with<T: Scalar>(
        &self,
        source: &MatrixSource,
        accepted: Accepted,
        console: &Console,
    ) -> Result<(Loaded<T>, f64)> {
        let memory_limit_bytes = self.memory_limit_bytes();
        if let MatrixSource::Collection(name) = source {
            let archive = collection::archive(name, console, self.interrupt)?;
            return self.load_with(&MatrixSource::File(archive), accepted, console);
        }
        let start = Instant::now();
        let loaded = match source {
            MatrixSource::Collection(_) => return Err(Error::Internal("an archive was not fetched".into())),
            MatrixSource::File(path) => {
                let bar = console.byte_bar(path, "reading");
                let advance = |bytes| {
                    bar.advance(bytes);
                    self.interrupt.check().map_err(std::io::Error::other)
                };
                let progress = Some(Progress(&advance));
                let input = standard_input::open(path, memory_limit_bytes)
                    .map_err(|error| hints::of_missing_matrix(path, error))?;
                let Accepted { finite, complex, .. } = accepted;
                let options = ReadOptions { memory_limit_bytes, finite, complex, progress };
                let read = self.pool.install(|| io::read_input(&input, &options));
                // The error of a reading that a signal ended names a place in the file.
                read.map_err(|error| if self.interrupt.asked() { Error::Interrupted } else { error })?
            }
            MatrixSource::Generated(spec) => {
                let _spinner = console.spinner(format!("generating {spec}"));
                let generate = if accepted.only_pattern { generate_pattern } else { generate };
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

/// An error if the memory-mapped file of `matrix` changed meanwhile, which invalidates every result.
pub fn check_intact<T: Scalar>(matrix: &Csr<T>, source: &MatrixSource) -> Result<()> {
    if matrix.is_intact() { Ok(()) } else { Err(changed(source.name())) }
}

/// The error of a matrix that is not intact.
pub fn changed(source: String) -> Error {
    Error::input(Place { source, line: None, column: None }, CHANGED)
}

/// What happened to a file whose matrix is not intact.
pub const CHANGED: &str = "the file was changed or cut short while it was in use; restore it and run again";

/// `done`, unless the mapped file of `matrix` changed meanwhile: no result of changed values is valid, and an error is likely
/// to be a consequence.
pub fn if_intact<T: Scalar, R>(matrix: &Csr<T>, source: &MatrixSource, done: Result<R>) -> Result<R> {
    check_intact(matrix, source)?;
    done
}

/// The features of a matrix, where its cache file has them.
pub fn features(info: &MatrixInfo) -> Option<Features> {
    info.features.clone().and_then(|features| serde_json::from_value(features).ok())
}

/// The product with a loaded matrix, with the features of its rows where its cache file has them.
pub fn work<'a, T: Scalar>(matrix: &CsrView<'a, T>, info: &MatrixInfo, k: usize) -> Result<Work<'a>> {
    Ok(Spmm::new(matrix, k)?.with_features(features(info)).into())
}

/// A matrix's name, shape and size in one line.
pub fn describe(info: &MatrixInfo, rows: u64, cols: u64, nnz: u64) -> String {
    let synthetic = if info.synthetic { " (synthetic)" } else { "" };
    let complex = if info.field == Field::Complex { "complex " } else { "" };
    let (rows, cols, nnz) = (count(rows), count(cols), count(nnz));
    format!("{}{synthetic}, {rows} x {cols}, {nnz} {complex}nonzeros", info.name)
}

/// The same of a loaded matrix.
pub fn describe_loaded<T: Scalar>(loaded: &Loaded<T>) -> String {
    let (matrix, parts) = (loaded.matrix.view(), loaded.info.field.parts() as u64);
    let (cols, nnz) = (matrix.cols() as u64 / parts, matrix.nnz() as u64 / parts);
    describe(&loaded.info, matrix.rows() as u64, cols, nnz)
}
