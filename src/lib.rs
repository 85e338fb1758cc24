//! Rowloom computes `Y = A X`, A sparse and X a dense multivector, on every processor of a machine at once.
//!
//! Modules stand on floors, and each uses only those below it; a test reads the `use` lines and fails on an upward
//! one.
//!
//! | floor | module | owns |
//! |---|---|---|
//! | 1 | [`error`] | the one error type, exit codes |
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
//! | 8 | [`runtime`] | the pool; prepare, run |
//! | 11 | [`cli`] | what was typed, what it means, one file per command |
//!
//! Floors between are for the task graph, its planner and its devices.
//!
//! # A product
//!
//! ```
//! use rowloom::kernel::verify;
//! use rowloom::machine::Machine;
//! use rowloom::matrix::{MultiVector, generate};
//! use rowloom::runtime::{Options, Pool, prepare};
//!
//! # fn main() -> rowloom::Result<()> {
//! let a = generate::<f64>("stencil5,n=30", 1, u64::MAX)?.matrix;
//! let x = MultiVector::from_fn(a.cols(), 8, |row, k| (row + k) as f64)?;
//! let mut y = MultiVector::zeros(a.rows(), 8)?;
//!
//! let pool = Pool::new(&Machine::detect(), None)?;
//! let mut product = prepare(&pool, a.view(), 8, &Options::default())?;
//! for _ in 0..10 {
//!     product.run(x.view(), y.view_mut())?; // decides nothing, allocates nothing
//! }
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
pub mod graph;
pub mod kernel;
pub mod machine;
pub mod matrix;
pub mod plan;
pub mod runtime;
pub mod trace;
pub mod work;

pub use error::{Error, Result};
