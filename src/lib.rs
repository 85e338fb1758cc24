//! Rowloom computes `Y = A X`, A sparse and X a dense multivector, on every processor of a machine at once.
//!
//! Modules are layered: each uses only modules of lower layers. A test reads the `use` lines and fails on an upward
//! import.
//!
//! | layer | module | contents |
//! |---|---|---|
//! | 0 | [`error`] | the error type, exit codes |
//! | 0 | [`suggest`] | the nearest known name to a misspelt one |
//! | 1 | [`files`] | atomic replacement of files |
//! | 1 | [`toml_file`] | TOML files; errors name file and line |
//! | 2 | [`report`] | plots and a self-contained HTML page from plain data |
//! | 2 | [`matrix`] | formats, conversions, statistics, generators, files |
//! | 2 | [`machine`] | cores, caches, memory, limits, GPUs; thread binding |
//! | 2 | [`trace`] | spans of a run on one clock; writing, reading and summarising Chrome traces |
//! | 3 | [`kernel`] | kernel table with requirements and summation orders; CPU kernels, references, verification |
//! | 4 | [`work`] | a product as work: weights of rows, bytes of a chunk, merging of slices |
//! | 4 | [`graph`] | the immutable task graph and its validation |
//! | 5 | [`cost`] | the cost model: predicted times of kernels and copies per device |
//! | 6 | [`plan`] | chunks, devices, kernels, memory and reasons as plain data; the resulting graph |
//! | 6 | [`device`] | the device trait and its back ends |
//! | 7 | [`exec`] | the coordinator: readiness, slots, choices, faults, watchdog |
//! | 8 | [`runtime`] | plan and open, prepare, run, recover, report |
//! | 9 | [`study`] | kernel measurements, verified and compared with the vendor's library |
//! | 11 | [`cli`] | command line: parsing, meaning, one file per command |
//!
//! The CPU's vector kernels are a separate crate below all layers, `kernels/cpu`.
//!
//! # A product
//!
//! On the CPU and an emulated GPU together. CUDA cards are named `cuda:0` and so on.
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
//! A plan depends only on the sparsity pattern of the matrix. It can be made for any described machine.
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
//! `examples/` contains complete programs.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod adapt;
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
pub mod suggest;
pub mod toml_file;
pub mod trace;
pub mod work;

pub use error::{Error, Result};
