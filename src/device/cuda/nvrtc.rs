#![allow(unsafe_code)] // The CUDA back end: calls into NVIDIA's run-time compiler.
//! NVRTC, NVIDIA's run-time compiler, loaded at run time if it is installed.
//!
//! cudarc's bindings support one major version and panic if the library is missing. This module supports CUDA 12 and 13
//! and treats a library that lacks a function as missing.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, OnceLock};

use super::compiler_threads::Compile;
use super::forms::Form;

/// Folders of toolkits that are not on the loader's path.
const FOLDERS: [&str; 2] = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"];

type Program = *mut c_void;

// The functions as nvrtc.h declares them, unchanged from CUDA 11.1 to 13.
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type CompileProgram = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions of the library, which stays loaded until the process ends.
#[derive(Debug)]
pub struct Nvrtc {
    version: (c_int, c_int),
    create: Create,
    compile: CompileProgram,
    destroy: Destroy,
    log_size: Size,
    log: Get,
    cubin_size: Size,
    cubin: Get,
    error: ErrorString,
}

impl Nvrtc {
    /// The library that suits a driver for CUDA `driver_major` best; `None` if none is installed. The first call of the
    /// process loads it.
    pub fn installed(driver_major: u32) -> Option<Arc<Self>> {
        static INSTALLED: OnceLock<Option<Arc<Nvrtc>>> = OnceLock::new();
        INSTALLED.get_or_init(|| Self::find(driver_major).map(Arc::new)).clone()
    }

    fn find(driver_major: u32) -> Option<Self> {
        candidates(driver_major).iter().find_map(|path| Self::open(path.to_str()?))
    }

    fn open(path: &str) -> Option<Self> {
        let path = CString::new(path).ok()?;
        // SAFETY: the path is zero-terminated, and NVRTC's initialisers have no requirements.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library stays open, and the name is zero-terminated.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        macro_rules! function {
            // SAFETY: nvrtc.h declares the function with this type.
            ($name:literal, $kind:ty) => {
                unsafe { std::mem::transmute::<*mut c_void, $kind>(symbol($name)?) }
            };
        }
        let version = function!(c"nvrtcVersion", Version);
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function writes two integers.
        if unsafe { version(&mut major, &mut minor) } != 0 {
            return None;
        }
        Some(Self {
            version: (major, minor),
            create: function!(c"nvrtcCreateProgram", Create),
            compile: function!(c"nvrtcCompileProgram", CompileProgram),
            destroy: function!(c"nvrtcDestroyProgram", Destroy),
            log_size: function!(c"nvrtcGetProgramLogSize", Size),
            log: function!(c"nvrtcGetProgramLog", Get),
            cubin_size: function!(c"nvrtcGetCUBINSize", Size),
            cubin: function!(c"nvrtcGetCUBIN", Get),
            error: function!(c"nvrtcGetErrorString", ErrorString),
        })
    }

    fn name_of(&self, error: c_int) -> String {
        // SAFETY: NVRTC returns a static string for any number.
        let name = unsafe { (self.error)(error) };
        if name.is_null() {
            return format!("error {error}");
        }
        // SAFETY: the string is not null, is zero-terminated and is never freed.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// The data that `get` writes, of the size that `size` returns.
    ///
    /// # Safety
    /// The two functions are a pair of NVRTC: `get` writes as many bytes as `size` returns.
    unsafe fn fetch(&self, program: Program, size: Size, get: Get) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program is alive, and the caller guarantees the pair.
        let error = unsafe { size(program, &mut bytes) };
        let mut content = vec![0u8; bytes];
        // SAFETY: the buffer has the size that `size` returned.
        let error = if error == 0 { unsafe { get(program, content.as_mut_ptr().cast()) } } else { error };
        if error == 0 { Ok(content) } else { Err(self.name_of(error)) }
    }
}

impl Compile for Nvrtc {
    fn version(&self) -> String {
        format!("NVRTC {}.{}", self.version.0, self.version.1)
    }

    fn compile(&self, form: &Form) -> Result<Vec<u8>, String> {
        let word = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let (text, name) = (word(form.text)?, word(form.file)?);
        let options = form.options.iter().map(|option| word(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = ptr::null_mut();
        // SAFETY: text and name are zero-terminated and outlive the program; there are no headers.
        let error =
            unsafe { (self.create)(&mut program, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        if error != 0 {
            return Err(self.name_of(error));
        }
        // SAFETY: the program is alive, and the number of options is correct.
        let error = unsafe { (self.compile)(program, options.len() as c_int, options.as_ptr()) };
        let result = if error == 0 {
            // SAFETY: a pair of functions; the program was compiled for a real architecture.
            unsafe { self.fetch(program, self.cubin_size, self.cubin) }
        } else {
            // SAFETY: a pair of functions.
            let log = unsafe { self.fetch(program, self.log_size, self.log) }.unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            Err(format!("{}: {}", self.name_of(error), log.trim_end_matches('\0').trim()))
        };
        // SAFETY: the program is alive, and this is its last use.
        unsafe { (self.destroy)(&mut program) };
        result
    }
}

/// Library names to try, best first: a driver may refuse code from a compiler that is newer than itself.
fn candidates(driver_major: u32) -> Vec<PathBuf> {
    let versions = if driver_major >= 13 { [13, 12] } else { [12, 13] };
    let mut names: Vec<String> = versions.iter().map(|version| format!("libnvrtc.so.{version}")).collect();
    names.insert(1, "libnvrtc.so".into());
    let folders =
        FOLDERS.iter().flat_map(|folder| names.iter().map(move |name| PathBuf::from(folder).join(name)));
    names.iter().map(PathBuf::from).chain(folders).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::forms::Forms;
    use super::super::forms::tests::{H200, launch};
    use super::*;
    use crate::kernel::cuda::CUDA_KERNELS;
    use crate::matrix::Dtype;

    /// The compiler of this machine, if it has one.
    pub fn nvrtc() -> Option<Nvrtc> {
        let found = Nvrtc::find(12);
        if found.is_none() {
            crate::skip::skip("nvrtc", "libnvrtc.so.12 or .13 is not on the loader's path");
        }
        found
    }

    #[test]
    fn a_missing_or_incomplete_library_is_none() {
        assert!(Nvrtc::open("libnothing.so.12").is_none());
        assert!(Nvrtc::open("libc.so.6").is_none(), "a library without NVRTC's functions was accepted");
    }

    #[test]
    fn compilers_newer_than_the_driver_are_tried_last() {
        let place =
            |driver, name: &str| candidates(driver).iter().position(|path| path.ends_with(name)).unwrap();
        assert!(place(12, "libnvrtc.so.12") < place(12, "libnvrtc.so.13"));
        assert!(place(13, "libnvrtc.so.13") < place(13, "libnvrtc.so.12"));
    }

    #[test]
    fn every_kernel_compiles() {
        let Some(nvrtc) = nvrtc() else { return };
        for kernel in CUDA_KERNELS {
            let forms = Forms::of(&launch(kernel.id, Dtype::F64, 8), H200).unwrap();
            // Where there are both, the generic one has all entries of the file, which takes long; .ci/compile_kernels.py compiles them.
            let form = forms.exact.or(forms.generic.map(|generic| generic.source)).unwrap();
            assert!(nvrtc.compile(&form).unwrap().starts_with(b"\x7fELF"), "{form:?}");
        }
    }

    #[test]
    fn an_error_contains_the_compilers_message() {
        let Some(nvrtc) = nvrtc() else { return };
        let form = Form { file: "bad.cu", text: "nonsense", options: Vec::new() };
        let error = nvrtc.compile(&form).unwrap_err();
        assert!(error.contains("bad.cu(1)") && !error.contains('\0'), "{error}");
        let form = Form { file: "bad.cu", text: "", options: vec!["--gpu-architecture=sm_1".into()] };
        assert!(nvrtc.compile(&form).is_err());
    }
}
