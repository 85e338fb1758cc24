//! Kernels with a single form.

use super::Parameter;
use crate::matrix::Dtype;

/// A kernel with one entry point per precision and no other forms.
#[derive(Debug, Clone, Copy)]
pub struct EntryPoint {
    /// The kernel's name. No other kernel has it.
    pub name: &'static str,
    /// Its file in `kernels/`.
    pub file: &'static str,
    /// The source text of that file, with its includes expanded.
    pub text: &'static str,
    /// The parameters of its entry points.
    pub parameters: &'static [Parameter],
}

impl EntryPoint {
    /// The name of the entry point for a precision: `gemm_naive_f64`.
    pub fn entry(&self, dtype: Dtype) -> String {
        format!("{}_{}", self.name, dtype.name())
    }
}
