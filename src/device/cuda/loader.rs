#![allow(unsafe_code)] // The CUDA back end: loads modules through the driver.
//! Loads compiled kernels into the calling thread's current context.

use std::ffi::CString;

use cudarc::driver::result::module;
use cudarc::driver::sys::{self, CUfunction, CUmodule};

use super::driver::fault;
use crate::device::{Fault, FaultKind};

/// A compiled kernel.
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// PTX, which the driver compiles.
    Ptx(&'a [u8]),
    /// Machine code for this card.
    MachineCode(&'a [u8]),
}

/// A loader of compiled kernels.
pub trait Loader {
    /// A loaded image.
    type Module;
    /// An entry of a module, as a launch takes it.
    type Function: Copy;

    /// Loads an image.
    fn load(&self, image: Image<'_>) -> Result<Self::Module, Fault>;

    /// The entry named `entry`.
    fn function(&self, module: &Self::Module, entry: &str) -> Result<Self::Function, Fault>;

    /// Unloads a module. Its functions must not be used again.
    fn unload(&self, module: Self::Module);
}

/// The CUDA driver as a loader. All calls must come from one thread with the device's context current.
#[derive(Debug)]
pub struct Driver;

impl Loader for Driver {
    type Module = CUmodule;
    type Function = CUfunction;

    fn load(&self, image: Image<'_>) -> Result<CUmodule, Fault> {
        let loaded = match image {
            Image::Ptx(text) => {
                let text = CString::new(text).map_err(|_| unusable("the PTX contains a zero byte"))?;
                // SAFETY: a zero-terminated string of PTX.
                unsafe { module::load_data(text.as_ptr().cast()) }
            }
            // SAFETY: machine code contains its own length. It comes from NVRTC, and cached code is checked by its hash.
            Image::MachineCode(code) => unsafe { module::load_data(code.as_ptr().cast()) },
        };
        loaded.map_err(|error| fault(FaultKind::Launch, "the driver refuses a compiled kernel", error))
    }

    fn function(&self, module: &CUmodule, entry: &str) -> Result<CUfunction, Fault> {
        let name = CString::new(entry).map_err(|_| unusable("its name contains a zero byte"))?;
        // SAFETY: the module was loaded by this loader and is not unloaded before it is dropped.
        unsafe { module::get_function(*module, name) }.map_err(|error| fault(FaultKind::Launch, entry, error))
    }

    fn unload(&self, module: CUmodule) {
        // SAFETY: this loader loaded the module, and this is its last use. In a lost context the call fails, which is harmless.
        let _ = unsafe { sys::cuModuleUnload(module) };
    }
}

fn unusable(what: &str) -> Fault {
    Fault::new(FaultKind::Misuse, format!("a kernel cannot be loaded: {what}"))
}
