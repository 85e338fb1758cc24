//! All modules of the crate, for the program (`cli/`), its tests and the Python package, which are built from the same revision.
//!
//! Nothing in here is stable. Programs use the modules of the root, which show a chosen part of these.
//!
//! Modules are layered: each uses only modules of lower layers. A test reads this table and the paths in the
//! sources, and fails on an upward one.
//!
//! | layer | module | contents |
//! |---|---|---|
//! | 0 | `error` | the error type, exit codes |
//! | 0 | `suggest` | the nearest known name to a misspelt one |
//! | 1 | `files` | atomic replacement of files |
//! | 1 | `threads` | threads outside the thread pool |
//! | 2 | `toml_file` | TOML files; errors name file and line |
//! | 2 | `fetch` | matrices of the SuiteSparse collection, downloaded and kept |
//! | 2 | `machine` | cores, caches, memory, limits, GPUs; thread binding |
//! | 2 | `trace` | spans of a run on one clock; writing, reading and summarising Chrome traces |
//! | 3 | `matrix` | formats, conversions, statistics, generators, files |
//! | 4 | `kernel` | kernel table with requirements and summation orders; CPU kernels, references, verification |
//! | 5 | `cost` | the cost model: predicted times of kernels and copies per device |
//! | 5 | `graph` | the immutable task graph and its validation |
//! | 6 | `work` | a product as work: weights of rows, bytes of a chunk, merging of slices |
//! | 7 | `plan` | chunks, devices, kernels, memory and reasons as plain data; the resulting graph |
//! | 7 | `device` | the device trait and its back ends; the policy of timeouts and faults; communicators between ranks |
//! | 8 | `mpi` | ranks that are processes of an MPI job |
//! | 8 | `exec` | the coordinator: readiness, slots, choices, faults, watchdog |
//! | 9 | `adapt` | decisions from plans and measured times: processors, shares, what is remembered |
//! | 10 | `runtime` | the API: runtime, product, vectors, cluster; recovery, reports |
//! | 11 | `solver` | eigenvalue solvers |
//! | 12 | `instances` | the generic code of the above for `f64` and `f32`, compiled once, in builds for development |
//!
//! The CPU's vector kernels are a separate crate below all layers, `kernels/cpu`.

#[path = "adapt/mod.rs"]
pub mod adapt;
#[path = "cost/mod.rs"]
pub mod cost;
#[path = "device/mod.rs"]
pub mod device;
#[path = "error/mod.rs"]
pub mod error;
#[path = "exec/mod.rs"]
pub mod exec;
#[cfg(feature = "fetch")]
#[path = "fetch/mod.rs"]
pub mod fetch;
#[path = "files.rs"]
pub mod files;
#[path = "graph/mod.rs"]
pub mod graph;
#[cfg(debug_assertions)]
#[path = "instances.rs"]
pub mod instances;
#[path = "kernel/mod.rs"]
pub mod kernel;
#[path = "machine/mod.rs"]
pub mod machine;
#[path = "matrix/mod.rs"]
pub mod matrix;
#[cfg(feature = "mpi")]
#[path = "mpi/mod.rs"]
pub mod mpi;
#[path = "plan/mod.rs"]
pub mod plan;
#[path = "runtime/mod.rs"]
pub mod runtime;
#[path = "solver/mod.rs"]
pub mod solver;
#[path = "suggest.rs"]
pub mod suggest;
#[path = "threads.rs"]
pub mod threads;
#[path = "toml_file.rs"]
pub mod toml_file;
#[path = "trace/mod.rs"]
pub mod trace;
#[path = "work/mod.rs"]
pub mod work;
