//! NVIDIA's libraries: which are installed, and how to install the others.

#![allow(unsafe_code)] // loads libraries

use std::sync::Arc;

use serde::Serialize;

use super::compiler_threads::Compile;
use super::cublas::cublas_is_installed;
use super::driver::Driver;
use super::nvrtc::Nvrtc;

/// The CUDA version to look for if no driver reports one.
const NEWEST_CUDA: u32 = 13;

/// A library that Rowloom uses if it is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its name.
    pub name: &'static str,
    /// The version found; `None` if it is missing.
    pub found: Option<String>,
    /// What Rowloom uses it for.
    pub use_for: &'static str,
    /// How to install it.
    pub advice: String,
}

/// Whether kernels can be compiled for one K. Loads NVRTC, but not cuSPARSE, which is large.
pub fn nvrtc_is_installed() -> bool {
    nvrtc(&Driver::get()).is_some()
}

fn nvrtc(driver: &Result<Driver, String>) -> Option<Arc<Nvrtc>> {
    Nvrtc::installed(driver.as_ref().map_or(NEWEST_CUDA, |driver| driver.cuda_major))
}

/// The driver and the libraries, each with the version found.
pub fn libraries() -> Vec<Library> {
    let driver = Driver::get();
    // SAFETY: opens the library by name; its initialisers have no requirements.
    let cusparse = unsafe { cudarc::cusparse::sys::is_culib_present() };
    vec![
        Library {
            name: "CUDA driver",
            found: driver.as_ref().ok().map(|driver| format!("for CUDA {}", driver.cuda_major)),
            use_for: "everything on cards",
            advice: "install NVIDIA's driver (Debian and Ubuntu: nvidia-driver)".into(),
        },
        Library {
            name: "NVRTC",
            found: nvrtc(&driver).map(|nvrtc| nvrtc.version()),
            use_for: "kernels compiled for one K; without it the built-in kernels are used",
            advice: "install libnvrtc of the CUDA toolkit, or pip install nvidia-cuda-nvrtc and add its folder to \
                     LD_LIBRARY_PATH"
                .into(),
        },
        Library {
            name: "cuBLAS",
            found: cublas_is_installed().then(|| "installed".into()),
            use_for: "the kernel cublas of dense products",
            advice: "install libcublas of the CUDA toolkit, or pip install nvidia-cublas and add its folder to \
                     LD_LIBRARY_PATH"
                .into(),
        },
        Library {
            name: "cuSPARSE",
            found: cusparse.then(|| "installed".into()),
            use_for: "comparisons of kernels with cuSPARSE",
            advice: "install libcusparse of the CUDA toolkit, or pip install nvidia-cusparse and add its folder to \
                     LD_LIBRARY_PATH"
                .into(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_listed_as_found_only_if_it_can_be_opened() {
        let found: Vec<_> =
            libraries().iter().map(|library| (library.name, library.found.is_some())).collect();
        assert_eq!(found[0], ("CUDA driver", Driver::get().is_ok()));
        assert_eq!(found[1], ("NVRTC", nvrtc_is_installed()));
        assert_eq!(found[2], ("cuBLAS", cublas_is_installed()));
        assert_eq!(found[3].0, "cuSPARSE");
    }
}
