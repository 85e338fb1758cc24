#![allow(unsafe_code)] // The CUDA back end: modules of the driver.
//! Loads compiled kernels into the context that is current on the calling thread.

use std::ffi::CString;

use cudarc::driver::result::module;
use cudarc::driver::sys::{self, CUfunction, CUmodule};

use super::driver::fault;
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
                let text = CString::new(text).map_err(|_| unusable("PTX with a zero in it"))?;
                // SAFETY: PTX as a string that ends.
                unsafe { module::load_data(text.as_ptr().cast()) }
            }
            // SAFETY: machine code carries its own length; it was made by NVRTC and its hash was checked.
            Image::MachineCode(code) => unsafe { module::load_data(code.as_ptr().cast()) },
        };
        loaded.map_err(|error| fault(FaultKind::Launch, "the driver does not take a compiled kernel", error))
    }

    fn function(&self, module: &CUmodule, entry: &str) -> Result<CUfunction, Fault> {
        let name = CString::new(entry).map_err(|_| unusable("a name with a zero in it"))?;
        // SAFETY: the module was loaded by this loader and is not unloaded before it is dropped.
        unsafe { module::get_function(*module, name) }.map_err(|error| fault(FaultKind::Launch, entry, error))
    }

    fn unload(&self, module: CUmodule) {
        // SAFETY: the module was loaded by this loader and is used no more. A context that is lost has nothing to unload.
        let _ = unsafe { sys::cuModuleUnload(module) };
    }
}

fn unusable(what: &str) -> Fault {
    Fault::new(FaultKind::Misuse, format!("a kernel cannot be loaded: {what}"))
}
