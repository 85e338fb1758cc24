//! The GPUs of the machine, as NVIDIA's kernel module lists them in `/proc` and as the CUDA driver lists them.
//!
//! Reading `/proc` takes microseconds. Starting the driver takes about 0.1 s, and only it knows all properties. Without a
//! driver its list is empty and a sentence says what is missing. Nothing here fails or panics.

#![allow(unsafe_code)] // asks the CUDA driver

use std::path::Path;

#[cfg(feature = "cuda")]
use cudarc::driver::{result, sys};
use serde::Serialize;

use super::files::{text, value_of};

/// One CUDA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Its number, as in `cuda:0`; in `/proc` the GPUs are in the order of their bus addresses.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its memory; none where the driver was not started.
    pub memory_bytes: Option<u64>,
    /// Version of the driver, with its CUDA version where the driver was started.
    pub driver: String,
    /// Its UUID, which does not change when devices are renumbered; none where the driver does not report it.
    pub uuid: Option<String>,
    /// The highest clock of its cores; none where the driver was not started or does not report it.
    pub clock_mhz: Option<u32>,
}

/// The GPUs in `/proc/driver/nvidia` below `root`; none without NVIDIA's kernel module.
pub fn listed(root: &Path) -> Vec<Gpu> {
    let folder = root.join("proc/driver/nvidia");
    let driver = text(&folder.join("version")).and_then(|text| module_version(&text));
    let addresses = std::fs::read_dir(folder.join("gpus")).into_iter().flatten().flatten();
    let mut files: Vec<_> = addresses.map(|address| address.path().join("information")).collect();
    files.sort();
    let files = files.iter().filter_map(|file| text(file)).enumerate();
    files
        .map(|(index, information)| Gpu {
            index,
            name: value_of(&information, "Model").unwrap_or_else(|| "unknown".into()),
            memory_bytes: None,
            driver: driver.clone().unwrap_or_else(|| "unknown".into()),
            uuid: value_of(&information, "GPU UUID").filter(|uuid| !uuid.contains('?')),
            clock_mhz: None,
        })
        .collect()
}

/// The GPUs, or what is missing where there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuList {
    /// The devices, by number.
    pub gpus: Vec<Gpu>,
    /// Why there are no GPUs, and what to install.
    pub missing: Option<String>,
}

impl GpuList {
    /// Asks the CUDA driver.
    pub fn detect() -> Self {
        // cudarc panics where an old driver lacks a symbol; here that only means that no GPU can be used.
        let found = std::panic::catch_unwind(query).unwrap_or_else(|_| {
            Err("the CUDA driver lacks functions that Rowloom needs; install a newer NVIDIA driver".into())
        });
        match found {
            Ok(gpus) if gpus.is_empty() => {
                Self { gpus, missing: Some("the CUDA driver is installed but lists no GPU".into()) }
            }
            Ok(gpus) => Self { gpus, missing: None },
            Err(missing) => Self { gpus: Vec::new(), missing: Some(missing) },
        }
    }
}

/// Whether a file of the NVIDIA driver exists, which takes microseconds. Without one there is certainly no CUDA device.
pub fn may_have_nvidia_gpu() -> bool {
    ["/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg", "/dev/nvhost-gpu"]
        .iter()
        .any(|path| Path::new(path).exists())
}

#[cfg(not(feature = "cuda"))]
fn query() -> Result<Vec<Gpu>, String> {
    Err("this build has no CUDA".into())
}

#[cfg(feature = "cuda")]
fn query() -> Result<Vec<Gpu>, String> {
    // SAFETY: looks for the library by name and opens it; libcuda's start-up code has no demands on its caller.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "no CUDA driver (libcuda.so.1) is installed; install the NVIDIA driver to use GPUs".into()
        );
    }
    let failed = |what: &str, error: result::DriverError| {
        format!("the CUDA driver is installed but {what} ({error:?}); check that nvidia-smi lists the GPUs")
    };
    result::init().map_err(|error| failed("does not initialize", error))?;
    let count = result::device::get_count().map_err(|error| failed("cannot count its devices", error))?;
    let driver = driver_version();
    (0..count)
        .map(|ordinal| {
            let unreadable = |error| failed(&format!("cannot query device {ordinal}"), error);
            let device = result::device::get(ordinal).map_err(unreadable)?;
            // SAFETY: `device` came from the driver just now.
            let memory = unsafe { result::device::total_mem(device) }.map_err(unreadable)?;
            Ok(Gpu {
                index: ordinal as usize,
                name: result::device::get_name(device).map_err(unreadable)?,
                memory_bytes: Some(memory as u64),
                driver: driver.clone(),
                uuid: result::device::get_uuid(device)
                    .ok()
                    .map(|uuid| written_uuid(uuid.bytes.map(|b| b as u8))),
                clock_mhz: clock_mhz(device),
            })
        })
        .collect()
}

/// The highest clock of a device's cores.
#[cfg(feature = "cuda")]
fn clock_mhz(device: sys::CUdevice) -> Option<u32> {
    let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
    // SAFETY: `device` came from the driver just now.
    let khz = unsafe { result::device::get_attribute(device, attribute) }.ok()?;
    u32::try_from(khz / 1000).ok().filter(|&mhz| mhz > 0)
}

/// `580.65.06 (CUDA 13.0)`, or the known part of it.
#[cfg(feature = "cuda")]
fn driver_version() -> String {
    let mut version: std::ffi::c_int = 0;
    // SAFETY: the driver writes one integer to the address of one.
    let cuda = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().ok();
    let cuda = cuda.map(|()| format!("CUDA {}.{}", version / 1000, version % 1000 / 10));
    let module = text(Path::new("/proc/driver/nvidia/version")).and_then(|text| module_version(&text));
    match (module, cuda) {
        (Some(module), Some(cuda)) => format!("{module} ({cuda})"),
        (module, cuda) => module.or(cuda).unwrap_or_else(|| "unknown".into()),
    }
}

/// The version in a line like `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun ...`.
fn module_version(text: &str) -> Option<String> {
    let numeric = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(numeric).map(str::to_string)
}

/// `GPU-` and the sixteen bytes, grouped as `nvidia-smi` writes them.
#[cfg(any(test, feature = "cuda"))]
fn written_uuid(bytes: [u8; 16]) -> String {
    let mut written = "GPU".to_string();
    for (at, byte) in bytes.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&at) {
            written.push('-');
        }
        written += &format!("{byte:02x}");
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_gpus_or_a_reason_why_not() {
        let list = GpuList::detect();
        assert_eq!(list.gpus.is_empty(), list.missing.is_some(), "{list:?}");
        assert!(list.gpus.iter().all(|gpu| gpu.memory_bytes > Some(0) && !gpu.name.is_empty()));
    }

    #[test]
    fn gpus_are_read_from_proc_without_the_driver() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(listed(root.path()), []);
        let folder = root.path().join("proc/driver/nvidia");
        for (address, information) in [
            ("0000:81:00.0", "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-????????-????\n"),
            (
                "0000:07:00.0",
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t GPU-0011\nBus Type: \t PCIe\n",
            ),
        ] {
            let folder = folder.join("gpus").join(address);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("information"), information).unwrap();
        }
        let version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun";
        std::fs::write(folder.join("version"), version).unwrap();
        let gpu = |index, name: &str, uuid: Option<&str>| Gpu {
            index,
            name: name.into(),
            memory_bytes: None,
            driver: "580.65.06".into(),
            uuid: uuid.map(Into::into),
            clock_mhz: None,
        };
        let expected = [gpu(0, "NVIDIA H200", Some("GPU-0011")), gpu(1, "NVIDIA A100", None)];
        assert_eq!(listed(root.path()), expected);
    }

    #[test]
    fn versions_and_names_are_written_as_the_drivers_tools_do() {
        let text =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC 12.2.0";
        assert_eq!(module_version(text).as_deref(), Some("580.65.06"));
        assert_eq!(module_version("rubbish"), None);
        let bytes = [0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255];
        assert_eq!(written_uuid(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
