//! Devices of any back end, opened by name.

use crate::device::{CudaOptions, Device, EmulatedOptions, Reports};
use crate::error::{Error, Result};
use crate::trace::Clock;

/// A device of any back end that stays open between runs.
pub type BoxedDevice = Box<dyn for<'run> Device<'run> + Send>;

/// Opens the device named `name`, a CUDA or an emulated one, with the options of its kind.
pub fn open_device(
    name: &str,
    emulated: EmulatedOptions,
    cuda: CudaOptions,
    clock: Clock,
    reports: Reports,
) -> Result<BoxedDevice> {
    if name.starts_with("cuda:") {
        return open_cuda(name, cuda, clock, reports);
    }
    if name.starts_with("emu:") {
        return open_emulated(name, emulated, clock, reports);
    }
    Err(Error::usage(format!(
        "{name} cannot be opened: simulated devices compute no values, only times; use cpu, cuda:0 or emu:0"
    )))
}

#[cfg(feature = "cuda")]
fn open_cuda(name: &str, options: CudaOptions, clock: Clock, reports: Reports) -> Result<BoxedDevice> {
    let device = crate::device::CudaDevice::open(name, options, clock, reports);
    Ok(Box::new(device.map_err(|fault| fault.into_error(name))?))
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(name: &str, _: CudaOptions, _: Clock, _: Reports) -> Result<BoxedDevice> {
    Err(Error::device(name, crate::device::cuda::ABSENT).advise([crate::error::Advice::CudaBuild]))
}

#[cfg(feature = "emulator")]
fn open_emulated(
    name: &str,
    options: EmulatedOptions,
    clock: Clock,
    reports: Reports,
) -> Result<BoxedDevice> {
    let device = crate::device::EmulatedDevice::open(name, options, clock, reports);
    Ok(Box::new(device.map_err(|fault| fault.into_error(name))?))
}

#[cfg(not(feature = "emulator"))]
fn open_emulated(name: &str, _: EmulatedOptions, _: Clock, _: Reports) -> Result<BoxedDevice> {
    Err(Error::device(name, "this build has no emulator").advise([crate::error::Advice::EmulatorBuild]))
}
