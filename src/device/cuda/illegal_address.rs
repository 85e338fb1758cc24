//! A kernel that writes to an illegal address, for tests of how a run handles a kernel fault.

#![allow(unsafe_code)] // loads a module

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::context::Context;
use super::driver::fault;
use crate::device::{Fault, FaultKind};

const PTX: &std::ffi::CStr = c"
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
";

/// The loaded kernel. It is unloaded with its context.
pub struct IllegalAddress {
    function: sys::CUfunction,
}

// SAFETY: a driver handle, valid on any thread.
unsafe impl Send for IllegalAddress {}

impl IllegalAddress {
    /// Loads the kernel into `context`.
    pub fn load(context: &Arc<Context>) -> Result<Self, Fault> {
        let _entered = context.enter()?;
        let failed = |error| fault(FaultKind::Launch, "the faulting kernel cannot be loaded", error);
        // SAFETY: the image is zero-terminated text.
        let module = unsafe { result::module::load_data(PTX.as_ptr().cast()) }.map_err(failed)?;
        // SAFETY: the module is loaded and stays so until its context is destroyed.
        let function = unsafe { result::module::get_function(module, c"illegal_address".into()) };
        Ok(Self { function: function.map_err(failed)? })
    }

    /// The kernel's handle.
    pub fn function(&self) -> sys::CUfunction {
        self.function
    }
}
