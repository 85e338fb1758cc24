//! Tests of the library through its public interface, one topic per file. They are one crate, because each test crate links the
//! whole library.

mod adapting;
mod advice;
mod bad_matrix_market;
mod checked_products;
mod complex;
mod devices_agree;
mod direct_messages;
mod edited_files;
mod faults;
mod kernels_agree;
mod layering;
#[path = "../layers/mod.rs"]
mod layers;
mod layouts_that_do_not_fit;
mod long_rows;
#[cfg(feature = "mpi")]
mod mpi_inside;
mod one_memory_for_a;
mod options;
mod packed_a;
mod page_locked;
mod ranks;
mod ranks_faults;
mod read_limits;
mod reproducible;
mod scalars;
mod scaled_products;
mod shared_matrices;
mod shared_use;
#[path = "../skip/mod.rs"]
mod skip;
mod slabs;
mod solvers;
mod trace_samples;
mod vectors;
mod vectors_exchange;
mod vectors_peer;
mod vectors_simulated;
mod x_blocks;
