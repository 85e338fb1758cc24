#![allow(unsafe_code)] // The CUDA back end: calls into NVIDIA's library for dense products.
//! cuBLAS, NVIDIA's library for dense products. It is loaded at run time if it is installed.
//!
//! cuBLAS stores matrices by columns. A matrix that is stored by rows is its own transpose, stored by columns, and `C = A B` is
//! `C^T = B^T A^T`: A and B change places and nothing is transposed. Products are computed in the precision of the matrices, without TF32.

use std::ptr;
use std::sync::OnceLock;

use cudarc::cublas::sys::{self, cublasHandle_t, cublasMath_t, cublasOperation_t, cublasStatus_t};
use cudarc::driver::sys::cudaError_enum as driver_error;

use super::context::Stream;
use super::driver::DriverError;
use crate::device::{Fault, FaultKind, LibraryGemm};
use crate::matrix::Dtype;

/// Every function of the library that is called here. All are looked up before the first call, because cudarc panics if one is missing.
const SYMBOLS: [&str; 6] = [
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasDgemm_v2",
    "cublasSetMathMode",
    "cublasSetStream_v2",
    "cublasSgemm_v2",
];

/// Whether the library is installed. The first call loads it.
pub fn cublas_is_installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: opens the library by name; its initialisers have no requirements.
        if !unsafe { sys::is_culib_present() } {
            return false;
        }
        // SAFETY: the library exists, as just checked.
        let library = unsafe { sys::culib() };
        // SAFETY: addresses are looked up but not used.
        SYMBOLS.iter().all(|symbol| unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_ok())
    })
}

/// A checked product of matrices in a card's memory, in the order of cuBLAS: sizes of the transposes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CublasProduct {
    dtype: Dtype,
    factors: (f64, f64),
    /// Rows, columns and depth of the transposed product.
    sizes: [i32; 3],
    /// Addresses and leading dimensions of B, A and C.
    operands: [(u64, i32); 3],
}

impl CublasProduct {
    /// The product with A, B and C at `addresses`; a fault if a size exceeds the limits of the library.
    pub fn new(gemm: &LibraryGemm, addresses: [u64; 3]) -> Result<Self, Fault> {
        let LibraryGemm { factors, a, b, c } = *gemm;
        let number = |size: u64| {
            i32::try_from(size)
                .map_err(|_| Fault::new(FaultKind::Misuse, format!("cuBLAS cannot take a size of {size}")))
        };
        // A leading dimension must be at least one, also that of a matrix without columns.
        let pitch = |leading_dimension: u64| number(leading_dimension.max(1));
        let [address_a, address_b, address_c] = addresses;
        Ok(Self {
            dtype: c.dtype,
            factors,
            sizes: [number(c.columns)?, number(c.rows)?, number(a.columns)?],
            operands: [
                (address_b, pitch(b.leading_dimension)?),
                (address_a, pitch(a.leading_dimension)?),
                (address_c, pitch(c.leading_dimension)?),
            ],
        })
    }
}

/// The library, initialised for one context.
pub struct Cublas {
    handle: cublasHandle_t,
}

impl Cublas {
    /// Initialises it for the context that is current on this thread. The thread must drop it before it leaves the context.
    pub fn create() -> Result<Self, Fault> {
        if !cublas_is_installed() {
            return Err(Fault::new(
                FaultKind::Launch,
                "cuBLAS not found (libcublas.so.12 on the loader's path); it is part of NVIDIA's CUDA toolkit, and pip \
                 installs it as nvidia-cublas-cu12",
            ));
        }
        let mut handle = ptr::null_mut();
        // SAFETY: the library writes one handle for the current context.
        check("cuBLAS does not initialise", unsafe { sys::cublasCreate_v2(&mut handle) })?;
        let cublas = Self { handle };
        // SAFETY: the handle is alive.
        let status = unsafe { sys::cublasSetMathMode(handle, cublasMath_t::CUBLAS_DEFAULT_MATH) };
        check("cuBLAS refuses its default arithmetic", status)?;
        Ok(cublas)
    }

    /// The library's handle, which is valid as long as this is.
    pub fn handle(&self) -> cublasHandle_t {
        self.handle
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: this is the handle's last use, in the context that it was created in.
        let _ = unsafe { sys::cublasDestroy_v2(self.handle) };
    }
}

/// Enqueues the product on the stream.
///
/// # Safety
///
/// The handle is alive, and the stream and the operands are of its context.
pub unsafe fn enqueue(
    handle: cublasHandle_t,
    product: &CublasProduct,
    stream: &Stream,
) -> Result<(), DriverError> {
    let CublasProduct { dtype, factors: (alpha, beta), sizes: [m, n, k], operands } = *product;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let [(first, first_pitch), (second, second_pitch), (result, pitch)] = operands;
    let none = cublasOperation_t::CUBLAS_OP_N;
    // SAFETY: the caller promises that the handle and the stream are of the same context.
    driver_result(unsafe { sys::cublasSetStream_v2(handle, stream.raw().cast()) })?;
    let status = match dtype {
        // SAFETY: `submit` has checked that the operands are inside allocations of this card and have these sizes. The factors are
        // in host memory and are read before the call returns.
        Dtype::F64 => unsafe {
            sys::cublasDgemm_v2(
                handle,
                none,
                none,
                m,
                n,
                k,
                &alpha,
                first as *const f64,
                first_pitch,
                second as *const f64,
                second_pitch,
                &beta,
                result as *mut f64,
                pitch,
            )
        },
        // SAFETY: the same.
        Dtype::F32 => unsafe {
            sys::cublasSgemm_v2(
                handle,
                none,
                none,
                m,
                n,
                k,
                &(alpha as f32),
                first as *const f32,
                first_pitch,
                second as *const f32,
                second_pitch,
                &(beta as f32),
                result as *mut f32,
                pitch,
            )
        },
    };
    driver_result(status)
}

fn check(what: &str, status: cublasStatus_t) -> Result<(), Fault> {
    driver_result(status).map_err(|error| super::driver::fault(FaultKind::Launch, what, error))
}

/// The error of the driver that corresponds to a status of the library.
fn driver_result(status: cublasStatus_t) -> Result<(), DriverError> {
    use cublasStatus_t as s;
    Err(DriverError(match status {
        s::CUBLAS_STATUS_SUCCESS => return Ok(()),
        s::CUBLAS_STATUS_ALLOC_FAILED => driver_error::CUDA_ERROR_OUT_OF_MEMORY,
        s::CUBLAS_STATUS_INVALID_VALUE => driver_error::CUDA_ERROR_INVALID_VALUE,
        s::CUBLAS_STATUS_NOT_INITIALIZED
        | s::CUBLAS_STATUS_ARCH_MISMATCH
        | s::CUBLAS_STATUS_NOT_SUPPORTED
        | s::CUBLAS_STATUS_LICENSE_ERROR => driver_error::CUDA_ERROR_NOT_SUPPORTED,
        // A kernel of the library failed, or an earlier one: the context cannot be used any more.
        s::CUBLAS_STATUS_MAPPING_ERROR
        | s::CUBLAS_STATUS_EXECUTION_FAILED
        | s::CUBLAS_STATUS_INTERNAL_ERROR => driver_error::CUDA_ERROR_UNKNOWN,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{DeviceRows, Memory, MemoryRange};

    fn rows(rows: u64, columns: u64, leading_dimension: u64) -> DeviceRows {
        let bytes = 8 * rows * leading_dimension;
        let memory = MemoryRange { memory: Memory(0), begin: 0, end: bytes };
        DeviceRows { dtype: Dtype::F64, memory, rows, columns, leading_dimension }
    }

    #[test]
    fn operands_change_places_and_sizes_beyond_the_library_are_refused() {
        let gemm = LibraryGemm::new((2.0, 1.0), rows(3, 5, 6), rows(5, 4, 7), rows(3, 4, 8)).unwrap();
        let product = CublasProduct::new(&gemm, [10, 20, 30]).unwrap();
        assert_eq!(product.sizes, [4, 3, 5]);
        assert_eq!(product.operands, [(20, 7), (10, 6), (30, 8)]);
        let wide = LibraryGemm { b: rows(5, 4, 1 << 31), ..gemm };
        assert_eq!(CublasProduct::new(&wide, [0; 3]).unwrap_err().kind, FaultKind::Misuse);
        assert!(LibraryGemm::new((1.0, 0.0), rows(3, 5, 5), rows(4, 4, 4), rows(3, 4, 4)).is_err());
        let empty = LibraryGemm::new((1.0, 0.0), rows(3, 0, 0), rows(0, 4, 4), rows(3, 4, 4)).unwrap();
        assert_eq!(CublasProduct::new(&empty, [1; 3]).unwrap().operands[1], (1, 1));
    }

    #[test]
    fn a_missing_library_is_reported_with_its_name() {
        if !cublas_is_installed() {
            let missing = Cublas::create().map(drop).unwrap_err();
            assert!(missing.message.contains("libcublas"), "{missing:?}");
        }
    }
}
