//! Rowloom computes `Y = A X`, A sparse and X a dense multivector, on every processor of a machine at once.
//!
//! Modules stand on floors; each uses only those below it: [`error`]; [`matrix`] and [`machine`]; [`kernel`];
//! [`runtime`]; [`cli`].

pub mod cli;
pub mod error;
pub mod kernel;
pub mod machine;
pub mod matrix;
pub mod runtime;

pub use error::{Error, Result};
