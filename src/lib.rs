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
//! On the CPU and an emulated GPU together; `cpu` alone, CUDA cards and simulated machines are named in the same way.
//!
//! ```
//! use rowloom::cost::{cpu_profile, emulated_profile, host_rates};
//! use rowloom::kernel::verify;
//! use rowloom::machine::{Machine, memory_limit_bytes};
//! use rowloom::matrix::{MultiVector, generate};
//! use rowloom::plan::{DeviceSpec, PlanRequest};
//! use rowloom::runtime::{Pool, Prepared, Settings, open};
//! use rowloom::trace::Clock;
//! use rowloom::work::Work;
//!
//! # fn main() -> rowloom::Result<()> {
//! let k = 8;
//! let a = generate::<f64>("stencil5,n=30", 1, memory_limit_bytes())?.matrix;
//! let x = MultiVector::from_fn(a.cols(), k, |row, column| (row + column) as f64)?;
//! let mut y = MultiVector::zeros(a.rows(), k)?;
//!
//! let pool = Pool::new(&Machine::detect(), None)?;
//! let threads = pool.threads();
//! let devices = vec![
//!     DeviceSpec::new("cpu", cpu_profile(threads, memory_limit_bytes())?),
//!     DeviceSpec::new("emu:0", emulated_profile()?),
//! ];
//! let work = Work::spmm(&a.view(), k)?;
//! let request = PlanRequest { repeat: 10, ..PlanRequest::new(work, devices, host_rates(threads)?) };
//! let settings = Settings::new(k, threads);
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
//!
//! # A plan
//!
//! Plans are made from the pattern of a matrix alone, also for machines that are not here.
//!
//! ```
//! use rowloom::cost::preset;
//! use rowloom::matrix::generate;
//! use rowloom::plan::{DeviceSpec, PlanRequest, make};
//! use rowloom::runtime::Simulated;
//! use rowloom::work::Work;
//!
//! # fn main() -> rowloom::Result<()> {
//! let a = generate::<f64>("rmat,scale=10,degree=8", 1, u64::MAX)?.matrix;
//! let machine = preset("h200x2")?;
//! let gpus = machine.gpus.into_iter().enumerate();
//! let devices = gpus.map(|(index, gpu)| DeviceSpec::new(format!("sim:h200x2/{index}"), gpu)).collect();
//! let plan = make(&PlanRequest::new(Work::spmm(&a.view(), 32)?, devices, machine.host))?;
//! assert!(Simulated::new(&plan)?.run()?.seconds() > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` has whole programs.

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
