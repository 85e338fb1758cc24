//! Kernels by name.

use super::cuda::CUDA_KERNELS;
use super::id::{KernelId, KindOfWork};
use super::table::kernels_for;
use crate::error::{Advice, Error, Result};
use crate::suggest::did_you_mean;

impl KernelId {
    /// The kernel of that name for products with a sparse matrix.
    pub fn by_name(name: &str) -> Result<Self> {
        KindOfWork::Spmm.kernel(name)
    }
}

impl KindOfWork {
    /// The kernel of that name; for an unknown one the error suggests the nearest kernel or form of one.
    pub fn kernel(self, name: &str) -> Result<KernelId> {
        kernels_for(self).find(|info| info.name == name).map(|info| info.id).ok_or_else(|| {
            let of_work = CUDA_KERNELS.iter().filter(|kernel| kernel.id.info().work == self);
            let forms =
                of_work.flat_map(|kernel| kernel.variants.iter().map(|variant| kernel.variant_name(variant)));
            let names: Vec<String> = kernels_for(self).map(|info| info.name.into()).chain(forms).collect();
            let nearest = did_you_mean(name, names.iter().map(String::as_str));
            Error::usage(format!("unknown kernel '{name}'{nearest}")).advise([Advice::ListOfKernels])
        })
    }
}
