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
//! | 2 | `fetch` | matrices of the SuiteSparse collection, downloaded and kept |
//! | 2 | [`report`] | plots and a self-contained HTML page from plain data |
//! | 2 | [`matrix`] | formats, conversions, statistics, generators, files |
//! | 2 | [`machine`] | cores, caches, memory, limits, GPUs; thread binding |
//! | 2 | [`trace`] | spans of a run on one clock; writing, reading and summarising Chrome traces |
//! | 3 | [`kernel`] | kernel table with requirements and summation orders; CPU kernels, references, verification |
//! | 4 | [`work`] | a product as work: weights of rows, bytes of a chunk, merging of slices |
//! | 4 | [`graph`] | the immutable task graph and its validation |
//! | 5 | [`cost`] | the cost model: predicted times of kernels and copies per device |
//! | 6 | [`plan`] | chunks, devices, kernels, memory and reasons as plain data; the resulting graph |
//! | 6 | [`device`] | the device trait and its back ends; communicators between ranks |
//! | 7 | `mpi` | ranks that are processes of an MPI job |
//! | 7 | [`exec`] | the coordinator: readiness, slots, choices, faults, watchdog |
//! | 8 | [`adapt`] | decisions from plans and measured times: processors, shares, what is remembered |
//! | 9 | [`runtime`] | the API: runtime, product, vectors, cluster; recovery, reports |
//! | 10 | [`solver`] | eigenvalue solvers |
//! | 10 | [`study`] | kernel measurements, verified and compared with the vendor's library |
//! | 11 | [`cli`] | command line: parsing, meaning, one file per command |
//!
//! The CPU's vector kernels are a separate crate below all layers, `kernels/cpu`.
//!
//! # A product
//!
//! `auto` uses the CPU and every GPU that makes the products faster. A list such as `cpu,cuda:0` names devices.
//!
//! ```
//! use rowloom::{Csr, MultiVector, Runtime};
//!
//! # fn main() -> rowloom::Result<()> {
//! let runtime = Runtime::open("auto")?;
//! let a = Csr::<f64>::generate("stencil5,n=30")?;
//! let x = MultiVector::from_fn(a.cols(), 8, |row, column| (row + column) as f64)?;
//! let mut product = runtime.product(a).columns(8).uses(10).build()?;
//! let mut y = product.apply(&x)?;
//! product.apply_into(&x, &mut y)?;
//! println!("{}", product.explain());
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
//! `docs/programs.md` describes the objects, options and errors; `examples/` contains complete programs.

#![deny(unsafe_code)]
#![warn(missing_docs)]
// Some functions serve only the program or one of the back ends, and a build may lack them.
#![cfg_attr(not(all(feature = "cli", feature = "emulator")), allow(dead_code, unused_imports))]

pub mod adapt;
#[cfg(feature = "cli")]
pub mod cli;
pub mod cost;
pub mod device;
pub mod error;
pub mod exec;
#[cfg(feature = "fetch")]
pub mod fetch;
pub mod files;
pub mod graph;
pub mod kernel;
pub mod machine;
pub mod matrix;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod plan;
#[cfg(feature = "cli")]
pub mod report;
pub mod runtime;
#[cfg(test)]
#[path = "../tests/skip/mod.rs"]
mod skip;
pub mod solver;
#[cfg(feature = "cli")]
pub mod study;
pub mod suggest;
pub mod threads;
pub mod toml_file;
pub mod trace;
pub mod work;

/// Compiles the examples of the document.
#[cfg(doctest)]
#[doc = include_str!("../docs/programs.md")]
struct ExamplesOfPrograms;

pub use error::{Error, Result};
pub use matrix::{Csr, MultiVector};
pub use runtime::{Product, Runtime};
