//! Reports people look at: plots and one page, made of plain data.

mod data;

pub use data::*;
