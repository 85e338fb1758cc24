//! `rowloom study`: the cases of a study file, each measured once, and its folder of results.

pub mod built_in;
pub mod check;
pub mod command;
pub mod conversion;
pub mod dense;
pub mod estimate;
pub mod kernels;
pub mod matrix;
pub mod output;
pub mod product;
pub mod ranks;
pub mod refusals;
pub mod solver;
pub mod vectors;
