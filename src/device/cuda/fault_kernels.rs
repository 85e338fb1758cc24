//! Kernels that fail on purpose, for tests of how a run handles an illegal address and a kernel that never ends.

#![allow(unsafe_code)] // loads a module

use std::ffi::CStr;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::context::Context;
use super::driver::fault;
use crate::device::{CudaOptions, Fault, FaultKind};

/// Reads of the timer are volatile, so the loop of `hang` is never removed; the timer is never 0.
const PTX: &CStr = c"
.version 6.4
.target sm_75
.address_size 64
.visible .entry illegal_address()
{
    .reg .b32 %r1;
    .reg .b64 %rd1;
    mov.u32 %r1, 7;
    mov.u64 %rd1, 16;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry hang()
{
    .reg .pred %p1;
    .reg .b64 %rd1;
again:
    mov.u64 %rd1, %globaltimer;
    setp.ne.u64 %p1, %rd1, 0;
    @%p1 bra again;
    ret;
}
";

/// A kernel that fails on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKernel {
    /// It writes to an illegal address, which destroys its context.
    IllegalAddress,
    /// It never ends.
    Hang,
}

impl CudaOptions {
    /// The kernel that replaces launch number `launch`, if any.
    pub(super) fn fault_at(&self, launch: u64) -> Option<FaultKernel> {
        match Some(launch) {
            at if at == self.illegal_address_at_launch => Some(FaultKernel::IllegalAddress),
            at if at == self.hang_at_launch => Some(FaultKernel::Hang),
            _ => None,
        }
    }
}

impl FaultKernel {
    fn name(self) -> &'static CStr {
        match self {
            Self::IllegalAddress => c"illegal_address",
            Self::Hang => c"hang",
        }
    }

    /// Loads the kernel into `context`. It is unloaded with its context.
    pub fn load(self, context: &Arc<Context>) -> Result<sys::CUfunction, Fault> {
        let _entered = context.enter()?;
        let failed = |error| fault(FaultKind::Launch, "the faulting kernel cannot be loaded", error);
        // SAFETY: the image is zero-terminated text.
        let module = unsafe { result::module::load_data(PTX.as_ptr().cast()) }.map_err(failed)?;
        // SAFETY: the module is loaded and stays so until its context is destroyed.
        unsafe { result::module::get_function(module, self.name().into()) }.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launch_that_the_options_name_is_replaced_and_no_other() {
        let hangs = CudaOptions { hang_at_launch: Some(2), ..CudaOptions::default() };
        assert_eq!((hangs.fault_at(1), hangs.fault_at(2)), (None, Some(FaultKernel::Hang)));
        let faults = CudaOptions { illegal_address_at_launch: Some(1), ..CudaOptions::default() };
        assert_eq!((faults.fault_at(1), faults.fault_at(2)), (Some(FaultKernel::IllegalAddress), None));
    }
}
