#![allow(unsafe_code)] // The CUDA back end: modules of the driver.
//! Loads compiled kernels into the context that is current on the calling thread.

use std::ffi::CString;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{CUfunction, CUmodule, CUresult};
use cudarc::driver::{result::module, sys};

use crate::device::{Fault, FaultKind};

/// A compiled kernel.
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// PTX, which the driver compiles.
    Ptx(&'a str),
    /// Machine code for this card.
    MachineCode(&'a [u8]),
}

/// Something that compiled kernels are loaded into.
pub trait Loader {
    /// What is loaded.
    type Module;
    /// An entry of it, as a launch takes it.
    type Function: Copy;

    /// Loads an image.
    fn load(&self, image: Image<'_>) -> Result<Self::Module, Fault>;

    /// The entry of that name.
    fn function(&self, module: &Self::Module, entry: &str) -> Result<Self::Function, Fault>;

    /// Unloads a module; its functions are not used again.
    fn unload(&self, module: Self::Module);
}

/// The driver. All calls come from one thread with the device's context current, and the driver is there.
#[derive(Debug)]
pub struct Driver;

impl Loader for Driver {
    type Module = CUmodule;
    type Function = CUfunction;

    fn load(&self, image: Image<'_>) -> Result<CUmodule, Fault> {
        let loaded = match image {
            Image::Ptx(text) => {
                let text = CString::new(text).map_err(|error| fault("PTX", error.to_string()))?;
                // SAFETY: PTX as a string that ends.
                unsafe { module::load_data(text.as_ptr().cast()) }
            }
            // SAFETY: machine code carries its own length; it was made by NVRTC and its hash was checked.
            Image::MachineCode(code) => unsafe { module::load_data(code.as_ptr().cast()) },
        };
        loaded.map_err(|error| refused("a compiled kernel", error))
    }

    fn function(&self, module: &CUmodule, entry: &str) -> Result<CUfunction, Fault> {
        let name = CString::new(entry).map_err(|error| fault(entry, error.to_string()))?;
        // SAFETY: the module was loaded by this loader and is not unloaded before it is dropped.
        unsafe { module::get_function(*module, name) }.map_err(|error| refused(entry, error))
    }

    fn unload(&self, module: CUmodule) {
        // SAFETY: the module was loaded by this loader and is used no more. A context that is lost has nothing to unload.
        let _ = unsafe { sys::cuModuleUnload(module) };
    }
}

fn fault(what: &str, reason: String) -> Fault {
    Fault::new(FaultKind::Launch, format!("the driver cannot take {what}: {reason}"))
}

fn refused(what: &str, error: DriverError) -> Fault {
    let lost = [
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        CUresult::CUDA_ERROR_LAUNCH_FAILED,
        CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    ];
    let kind = if lost.contains(&error.0) {
        FaultKind::Lost
    } else if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        FaultKind::OutOfMemory
    } else {
        FaultKind::Launch
    };
    Fault { kind, ..fault(what, error.to_string()) }
}
