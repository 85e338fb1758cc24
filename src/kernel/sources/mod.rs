//! The kernels of the course project that Rowloom began as: ten CUDA kernels, and the CPU kernels on ELLPACK.
//!
//! They stay selectable and measured, for comparison. The planner takes one only where a request names it or its format.
//! `table` has their rows in the table of all kernels, `cuda` those in the table of CUDA kernels, whose text is in `kernels/sources/`;
//! `ell` has the CPU kernels.

pub mod cuda;
pub mod ell;
pub mod table;
