//! Rowloom computes `Y = A X`, A sparse and X a dense multivector, on every processor of a machine at once.
//!
//! Modules stand on floors, and each uses only those below it; a test reads the `use` lines and fails on an upward
//! one.
//!
//! | floor | module | owns |
//! |---|---|---|
//! | 0 | [`error`] | the one error type, exit codes |
//! | 1 | [`files`] | files that are there whole or as they were before |
//! | 1 | [`report`] | plots and one self-contained page, made of plain data |
//! | 2 | [`matrix`] | formats, conversions, statistics, generators, files |
//! | 2 | [`machine`] | cores, caches, memory, limits, GPUs; binding threads |
//! | 2 | [`trace`] | spans of a run, one clock; Chrome traces written, read and summarised |
//! | 3 | [`kernel`] | what each kernel needs and in which order it adds; CPU bodies, references, verification |
//! | 4 | [`work`] | what a job is: how rows weigh, what a chunk reads and writes, how slices merge |
//! | 4 | [`graph`] | the task graph as frozen data |
//! | 5 | [`cost`] | the cost model: how long a kernel or a copy takes on which device |
//! | 6 | [`plan`] | chunks, devices, kernels, memory and reasons as pure data; the graph that follows |
//! | 6 | [`device`] | one trait, and the back ends that keep it |
//! | 7 | [`exec`] | the coordinator: readiness, slots, choices, faults, watchdog |
//! | 8 | [`runtime`] | plan and open, prepare, run, recover, report |
//! | 9 | [`study`] | every kernel measured alone, checked, beside the vendor's library |
//! | 11 | [`cli`] | what was typed, what it means, one file per command |
//!
//! The CPU's vector kernels are a crate of their own below all floors, `kernels/cpu`.
//!
//! # A product
//!
//! ```
//! use std::time::Duration;
//!
//! use rowloom::cost::{cpu_profile, emulated_profile, host_rates};
//! use rowloom::kernel::cpu::CpuSettings;
//! use rowloom::kernel::{Schedule, verify};
//! use rowloom::machine::{Isa, Machine};
//! use rowloom::matrix::{MultiVector, generate};
//! use rowloom::plan::{DeviceSpec, PlanRequest};
//! use rowloom::runtime::{Pool, Prepared, Settings, open};
//! use rowloom::trace::Clock;
//! use rowloom::work::Work;
//!
//! # fn main() -> rowloom::Result<()> {
//! let a = generate::<f64>("stencil5,n=30", 1, u64::MAX)?.matrix;
//! let x = MultiVector::from_fn(a.cols(), 8, |row, k| (row + k) as f64)?;
//! let mut y = MultiVector::zeros(a.rows(), 8)?;
//!
//! let pool = Pool::new(&Machine::detect(), None)?;
//! let threads = pool.threads();
//! let device = |name: &str, profile| DeviceSpec {
//!     name: name.into(),
//!     profile,
//!     memory_limit_bytes: None,
//!     required: true,
//! };
//! let request = PlanRequest {
//!     work: Work::spmm(&a.view(), 8)?,
//!     devices: vec![device("cpu", cpu_profile(threads, 1 << 34)?), device("emu:0", emulated_profile()?)],
//!     host: host_rates(threads)?,
//!     mode: None,
//!     kernel: None,
//!     variant: None,
//!     format: None,
//!     chunks: None,
//!     chunk_bytes: None,
//!     cpu_share: None,
//!     repeat: 10,
//!     reproducible: false,
//! };
//! let settings = Settings {
//!     cpu: CpuSettings { k: 8, threads, isa: Isa::detect(), schedule: Schedule::Balanced },
//!     memory_limit_bytes: u64::MAX,
//!     patience: Duration::from_secs(30),
//!     emulated: Vec::new(),
//!     cuda: Vec::new(),
//! };
//! let (job, opened) = open(&pool, a.view(), request, &settings, Clock::start())?;
//! for reason in &job.plan().reasons {
//!     println!("{reason}");
//! }
//! let mut product = Prepared::new(&pool, &job, opened, settings)?;
//! product.repeat(x.view(), y.view_mut(), 10, None, |run, report| println!("{run}: {} s", report.seconds()))?;
//! assert!(pool.install(|| verify(a.view(), x.view(), y.view()))?.passed);
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod cli;
pub mod cost;
pub mod device;
pub mod error;
pub mod exec;
pub mod files;
pub mod graph;
pub mod kernel;
pub mod machine;
pub mod matrix;
pub mod plan;
pub mod report;
pub mod runtime;
pub mod study;
pub mod trace;
pub mod work;

pub use error::{Error, Result};
