//! Kernels by name.

use super::cuda::CUDA_KERNELS;
use super::table::{KernelId, TABLE};
use crate::error::{Error, Result};
use crate::suggest::did_you_mean;

impl KernelId {
    /// The kernel of that name; for an unknown one the error suggests the nearest kernel or form of one.
    pub fn by_name(name: &str) -> Result<Self> {
        TABLE.iter().find(|info| info.name == name).map(|info| info.id).ok_or_else(|| {
            let forms = CUDA_KERNELS
                .iter()
                .flat_map(|kernel| kernel.variants.iter().map(|variant| kernel.variant_name(variant)));
            let names: Vec<String> = TABLE.iter().map(|info| info.name.to_string()).chain(forms).collect();
            let nearest = did_you_mean(name, names.iter().map(String::as_str));
            Error::Usage(format!("unknown kernel '{name}'{nearest}; `rowloom run --help` lists the kernels"))
        })
    }
}
