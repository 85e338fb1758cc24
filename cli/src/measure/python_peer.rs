//! SciPy and MKL as peers, each in a Python process of its own that holds the matrix and times its own calls.
//!
//! In a separate process the library's threads do not spin on the cores of this one, and neither library is needed to build or
//! run Rowloom.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::json;

use super::bench::PeerResult;
use super::check::Expected;
use crate::statistics::BenchSettings;
use crate::statistics::Times;
use rowloom::internal::error::Counted;
use rowloom::internal::kernel::Order;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::{CsrView, MultiVector, MultiVectorView};
use rowloom::internal::runtime::Pool;

const SCRIPT: &str = include_str!("peer.py");

/// The environment variable that names the Python interpreter; the default is `python3`.
const PYTHON_VARIABLE: &str = "ROWLOOM_PYTHON";

/// The peer whose products run on one thread, and the one whose products run on the threads of the case.
const SCIPY: &str = "scipy";
const MKL: &str = "mkl";

/// Measured runs where `--repeat` is not given.
const DEFAULT_REPEAT: u32 = 50;

/// A running Python process whose library holds a matrix.
pub struct PythonPeer {
    peer: String,
    /// The library's version and its number of threads.
    pub version: String,
    rows: usize,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Greeting {
    version: Option<String>,
    missing: Option<String>,
    /// The interpreter.
    python: Option<String>,
}

#[derive(Deserialize)]
struct Reply {
    seconds: Vec<f64>,
}

/// What an error says last.
fn other_interpreter() -> String {
    format!("{PYTHON_VARIABLE}=PATH names another interpreter")
}

/// The name of a peer with its threads, which may differ from those of the kernels: `scipy on 1 thread`. `name` is that of its records.
pub fn with_threads(name: &str, threads: usize) -> String {
    if name == MKL { format!("{name} on {}", Counted(threads as u64, "thread")) } else { name.into() }
}

impl PythonPeer {
    /// Starts `scipy` or `mkl` with a small matrix and returns its version. The error says what is missing, and where.
    pub fn probe(peer: &str, threads: usize) -> Result<String, String> {
        let matrix = CsrView::try_new(1, 1, &[0, 1], &[0], &[1.0]).map_err(|error| error.message())?;
        Self::start::<f64>(peer, matrix, threads).map(|started| started.version.clone())
    }

    /// Starts `scipy` or `mkl` and sends it the matrix. The error says what is missing, and where.
    pub fn start<T: Kernels>(peer: &str, matrix: CsrView<'_, T>, threads: usize) -> Result<Self, String> {
        let python = std::env::var(PYTHON_VARIABLE).unwrap_or_else(|_| "python3".into());
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{python} does not start: {error}; {}", other_interpreter()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process has no pipes".into());
        };
        let (version, rows) = (String::new(), matrix.rows());
        let output = BufReader::new(output);
        let mut started = Self { peer: peer.into(), version, rows, child, input: Some(input), output };
        let head = json!({
            "peer": peer, "rows": matrix.rows(), "cols": matrix.cols(), "nnz": matrix.nnz(),
            "dtype": T::DTYPE.name(), "threads": threads,
        });
        // A process without the library ends before it has read everything, but its answer can still be read.
        let sent = started.send(
            head.to_string().as_bytes(),
            &[
                bytemuck::cast_slice(matrix.row_pointers()),
                bytemuck::cast_slice(matrix.columns()),
                bytemuck::cast_slice(matrix.values()),
            ],
        );
        let greeting: Greeting = started.line().map_err(|reason| match &sent {
            Ok(()) => reason,
            Err(error) => format!("{reason}: {error}"),
        })?;
        let Some(version) = greeting.version else {
            let (missing, python) = (greeting.missing.unwrap_or_default(), greeting.python.unwrap_or(python));
            return Err(format!("{missing} in {python}; {}", other_interpreter()));
        };
        started.version = version;
        Ok(started)
    }

    /// Times products with `x` and checks the last result.
    pub fn time<T: Kernels>(
        &mut self,
        pool: &Pool,
        x: &MultiVector<T>,
        expected: &Expected<'_, T>,
        settings: BenchSettings,
    ) -> Result<PeerResult, String> {
        let request = json!({
            "k": x.k(), "warmup": settings.warmup, "repeat": settings.repeat.unwrap_or(DEFAULT_REPEAT),
            "time_cap_s": settings.time_cap_s,
        });
        self.send(request.to_string().as_bytes(), &[bytemuck::cast_slice(x.data())])?;
        let Reply { seconds } = self.line()?;
        let mut y = MultiVector::<T>::zeros(self.rows, x.k()).map_err(|error| error.message())?;
        let bytes = bytemuck::cast_slice_mut(y.data_mut());
        self.output.read_exact(bytes).map_err(|error| error.to_string())?;
        let view: MultiVectorView<'_, T> = y.view();
        let checked = Some(pool.install(|| expected.check(Order::Free, view)));
        // SciPy's product is not parallel, so its name says so wherever it is compared.
        let algorithm = if self.peer == SCIPY { "on 1 thread" } else { "" };
        let (peer, algorithm) = (self.peer.clone(), algorithm.into());
        Ok(PeerResult { peer, algorithm, times: Times::new(&seconds), checked })
    }

    fn send(&mut self, line: &[u8], arrays: &[&[u8]]) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the process has ended")?;
        let mut send = || {
            input.write_all(line)?;
            input.write_all(b"\n")?;
            arrays.iter().try_for_each(|array| input.write_all(array))?;
            input.flush()
        };
        send().map_err(|error| error.to_string())
    }

    fn line<R: serde::de::DeserializeOwned>(&mut self) -> Result<R, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        serde_json::from_str(&line).map_err(|_| format!("{} failed in its Python process", self.peer))
    }
}

impl Drop for PythonPeer {
    fn drop(&mut self) {
        // The process ends when its input is closed.
        self.input = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sizes;
    use rowloom::internal::kernel::Schedule;
    use rowloom::internal::kernel::cpu::CpuSettings;
    use rowloom::internal::machine::{Isa, Machine};
    use rowloom::internal::matrix::generate;

    #[test]
    fn peers_compute_the_same_product_or_say_what_is_missing() {
        let pool = Pool::new(&Machine::detect(), Some(2)).unwrap();
        let a = generate::<f32>("uniform,rows=300,degree=7", 3, u64::MAX).unwrap().matrix;
        let cpu = CpuSettings { k: 0, threads: 2, isa: Isa::detect(), schedule: Schedule::Balanced };
        let settings = BenchSettings { warmup: 1, repeat: Some(4), time_cap_s: 1.0, cut_hopeless: false };
        let sizes = Sizes::of(a.view()).unwrap();
        for name in ["scipy", "mkl"] {
            let mut peer = match PythonPeer::start(name, a.view(), 2) {
                Ok(peer) => peer,
                Err(missing) => {
                    let need = if name == "mkl" { name } else { "python" };
                    crate::skip::skip(need, format!("{name}: {missing}"));
                    continue;
                }
            };
            for k in [1, 5] {
                let x =
                    MultiVector::from_fn(a.cols(), k, |row, k| (row * 3 + k) as f32 / 700.0 - 0.5).unwrap();
                let expected = Expected::new(&pool, a.view(), &sizes, x.view(), cpu).unwrap();
                let result = peer.time(&pool, &x, &expected, settings).unwrap();
                assert_eq!(result.times.n, 4, "{name}");
                assert!(result.checked.unwrap().passed, "{name} {:?}", result.checked);
            }
        }
    }

    #[test]
    fn a_python_without_the_library_is_told_apart() {
        let a = generate::<f64>("stencil5,n=300", 3, u64::MAX).unwrap().matrix;
        let error = PythonPeer::start("no such peer", a.view(), 1);
        // Whatever is missing here first (Python, NumPy or that peer), it is a sentence and no crash.
        assert!(error.err().is_some_and(|missing| !missing.is_empty()));
    }
}
