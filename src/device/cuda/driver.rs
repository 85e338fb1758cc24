//! The CUDA driver: loading it at run time, and the classification of its errors.

#![allow(unsafe_code)] // calls the CUDA driver

use std::ffi::c_int;
use std::sync::OnceLock;

pub use cudarc::driver::result::DriverError;
use cudarc::driver::{result, sys};

use crate::device::{Fault, FaultKind};

/// Every driver function that this back end calls. All are looked up before the first call, because cudarc panics if one
/// is missing.
const SYMBOLS: &[&str] = &[
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxEnablePeerAccess",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpy2DAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuPointerGetAttribute",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Proof that the driver is loaded and initialised; driver calls require it.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// Number of cards that the driver reports.
    pub cards: u32,
    /// Its major CUDA version: 12 of 12.8.
    pub cuda_major: u32,
}

static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

impl Driver {
    /// The driver of this machine, or a message that says what is missing and how to install it.
    ///
    /// The first call starts the driver, which takes about 0.1 s; other calls wait for it.
    pub fn get() -> Result<Self, String> {
        DRIVER.get_or_init(load).clone()
    }

    /// The same where the driver was started before; `None` otherwise.
    pub fn if_known() -> Option<Result<Self, String>> {
        DRIVER.get().cloned()
    }
}

fn load() -> Result<Driver, String> {
    // SAFETY: opens the library by name; libcuda's initialisers have no requirements.
    if !unsafe { sys::is_culib_present() } {
        return Err("no CUDA driver found (libcuda.so.1, which NVIDIA's driver installs)".into());
    }
    // SAFETY: the library exists, as just checked.
    let library = unsafe { sys::culib() };
    for symbol in SYMBOLS {
        // SAFETY: the address is looked up but not used.
        if unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_err() {
            return Err(format!("the CUDA driver has no {symbol}; install a newer NVIDIA driver"));
        }
    }
    let failed = |what: &str, error| {
        format!("the CUDA driver {what} ({}); check that nvidia-smi lists the GPUs", message_of(error))
    };
    result::init().map_err(|error| failed("does not initialise", error))?;
    let count: c_int =
        result::device::get_count().map_err(|error| failed("does not report its cards", error))?;
    let mut version: c_int = 0;
    // SAFETY: the driver writes one integer.
    let status = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
    status.map_err(|error| failed("does not report its version", error))?;
    match u32::try_from(count) {
        Ok(cards @ 1..) => Ok(Driver { cards, cuda_major: version.max(0) as u32 / 1000 }),
        _ => Err("the CUDA driver reports no GPU; check that nvidia-smi lists one".into()),
    }
}

/// The driver's own message for an error.
pub fn message_of(error: DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, _>| text.ok().map(|text| text.to_string_lossy().into_owned());
    match (text(error.error_string()), text(error.error_name())) {
        (Some(string), Some(name)) => format!("{string}, {name}"),
        _ => format!("error {}", error.0 as u32),
    }
}

/// The fault for a driver error: lost, out of memory, or `kind` if the device remains usable.
pub fn fault(kind: FaultKind, what: &str, error: DriverError) -> Fault {
    use sys::cudaError_enum as e;
    let kind = match error.0 {
        e::CUDA_ERROR_OUT_OF_MEMORY => FaultKind::OutOfMemory,
        e::CUDA_ERROR_INVALID_VALUE
        | e::CUDA_ERROR_INVALID_IMAGE
        | e::CUDA_ERROR_INVALID_PTX
        | e::CUDA_ERROR_INVALID_SOURCE
        | e::CUDA_ERROR_INVALID_HANDLE
        | e::CUDA_ERROR_NOT_FOUND
        | e::CUDA_ERROR_NO_BINARY_FOR_GPU
        | e::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | e::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
        | e::CUDA_ERROR_JIT_COMPILATION_DISABLED
        | e::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
        | e::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        | e::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
        | e::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
        | e::CUDA_ERROR_OPERATING_SYSTEM
        | e::CUDA_ERROR_NOT_PERMITTED
        | e::CUDA_ERROR_NOT_SUPPORTED
        | e::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        | e::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        | e::CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        | e::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
        | e::CUDA_ERROR_CAPTURED_EVENT => kind,
        // Every other error, above all a kernel fault, makes the context unusable.
        _ => FaultKind::Lost,
    };
    Fault::new(kind, format!("{what}: {}", message_of(error)))
}
