#![allow(unsafe_code)] // The CUDA back end: calls into NVIDIA's sparse library.
//! cuSPARSE, the vendor's library, as a peer: every CSR algorithm in both layouts of X and Y.
//!
//! Descriptors, buffers and preprocessing are outside what is timed; calls lie in batches between two events of their own
//! stream, each batch behind one call that is not timed, as launches of our own kernels do. The library is found at run
//! time, or not.

mod product;

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::cusparse::sys::{self, cusparseHandle_t, cusparseOrder_t, cusparseSpMMAlg_t, cusparseStatus_t};
use cudarc::driver::result;
use cudarc::driver::sys as driver;

use super::context::{Context, DeviceMemory, Stream};
use super::driver::fault;
use crate::device::{Fault, FaultKind};
use crate::matrix::Dtype;
use product::Product;

/// Every function of the library that is called here. cudarc panics where one is missing, so all are looked for before
/// the first is called.
const SYMBOLS: [&str; 12] = [
    "cusparseCreate",
    "cusparseCreateCsr",
    "cusparseCreateDnMat",
    "cusparseDestroy",
    "cusparseDestroyDnMat",
    "cusparseDestroySpMat",
    "cusparseGetErrorString",
    "cusparseGetVersion",
    "cusparseSetStream",
    "cusparseSpMM",
    "cusparseSpMM_bufferSize",
    "cusparseSpMM_preprocess",
];

const ALGORITHMS: [(&str, cusparseSpMMAlg_t); 3] = [
    ("ALG1", cusparseSpMMAlg_t::CUSPARSE_SPMM_CSR_ALG1),
    ("ALG2", cusparseSpMMAlg_t::CUSPARSE_SPMM_CSR_ALG2),
    ("ALG3", cusparseSpMMAlg_t::CUSPARSE_SPMM_CSR_ALG3),
];

const LAYOUTS: [(&str, cusparseOrder_t); 2] = [
    ("row-major", cusparseOrder_t::CUSPARSE_ORDER_ROW),
    ("column-major", cusparseOrder_t::CUSPARSE_ORDER_COL),
];

/// A matrix by compressed rows, in the host's memory.
#[derive(Debug, Clone, Copy)]
pub struct CsrArrays<'a, T> {
    /// Number of columns.
    pub cols: usize,
    /// Entries before each row, and after the last.
    pub row_pointers: &'a [u64],
    /// The column of every entry.
    pub columns: &'a [u32],
    /// The value of every entry.
    pub values: &'a [T],
}

/// What an algorithm took.
#[derive(Debug, Clone, PartialEq)]
pub struct AlgorithmTimes {
    /// Its name and the layout of X and Y: `ALG2 row-major`.
    pub algorithm: String,
    /// Seconds of each call.
    pub seconds: Vec<f64>,
}

/// The library, started on a card in a context of its own.
#[derive(Debug)]
pub struct Cusparse {
    handle: cusparseHandle_t,
    stream: Stream,
    context: Arc<Context>,
    version: i32,
}

impl Cusparse {
    /// Starts it on the card with that number, or says what is missing.
    pub fn open(card: u32) -> Result<Self, String> {
        let in_words = |fault: Fault| fault.message;
        let context = Context::create(card).map_err(in_words)?;
        // SAFETY: looks for the library by name and opens it; its start-up code has no demands on its caller.
        if !unsafe { sys::is_culib_present() } {
            return Err(
                "there is no cuSPARSE (libcusparse.so.12 on the loader's path); it comes with NVIDIA's CUDA \
                        toolkit, and as pip's nvidia-cusparse-cu12"
                    .into(),
            );
        }
        // SAFETY: the library is there, as just seen.
        let library = unsafe { sys::culib() };
        for symbol in SYMBOLS {
            // SAFETY: the address is looked up and not used.
            if unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_err() {
                return Err(format!("this cuSPARSE has no {symbol}; one of CUDA 12 or later is needed"));
            }
        }
        let stream = Stream::create(&context).map_err(in_words)?;
        let entered = context.enter().map_err(in_words)?;
        let (mut handle, mut version) = (ptr::null_mut(), 0);
        // SAFETY: the library writes one handle to the address of one, in the context that is current.
        done("cuSPARSE does not start", unsafe { sys::cusparseCreate(&mut handle) }).map_err(in_words)?;
        drop(entered);
        let mut cusparse = Self { handle, stream, context, version };
        let entered = cusparse.context.enter().map_err(in_words)?;
        // SAFETY: the handle and the stream live; one number is written to the address of one.
        let told = unsafe {
            sys::cusparseGetVersion(handle, &mut version);
            sys::cusparseSetStream(handle, cusparse.stream.raw().cast())
        };
        done("cuSPARSE takes no stream", told).map_err(in_words)?;
        drop(entered);
        cusparse.version = version;
        Ok(cusparse)
    }

    /// Its version: `12.6.5`.
    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.version / 1000, self.version / 100 % 10, self.version % 100)
    }

    /// Brings a matrix to the card.
    pub fn matrix<T: Pod>(
        &self,
        dtype: Dtype,
        arrays: CsrArrays<'_, T>,
    ) -> Result<CusparseMatrix<'_, T>, Fault> {
        let nnz = arrays.columns.len();
        let pointers = match i32::try_from(nnz) {
            Ok(_) => {
                let narrow: Vec<u32> = arrays.row_pointers.iter().map(|&pointer| pointer as u32).collect();
                self.upload(&narrow)?
            }
            Err(_) => self.upload(arrays.row_pointers)?,
        };
        Ok(CusparseMatrix {
            library: self,
            dtype,
            rows: arrays.row_pointers.len().saturating_sub(1),
            cols: arrays.cols,
            nnz,
            pointers,
            columns: self.upload(arrays.columns)?,
            values: self.upload(arrays.values)?,
            kind: PhantomData,
        })
    }

    fn upload<T: Pod>(&self, values: &[T]) -> Result<DeviceMemory, Fault> {
        let memory = DeviceMemory::allocate(&self.context, size_of_val(values) as u64)?;
        let _entered = self.context.enter()?;
        if !values.is_empty() {
            // SAFETY: as many bytes as both have, and the stream is waited for while `values` is borrowed.
            let copied = unsafe {
                driver::cuMemcpyHtoDAsync_v2(
                    memory.address(),
                    values.as_ptr().cast(),
                    size_of_val(values),
                    self.stream.raw(),
                )
            };
            copied.result().map_err(|error| fault(FaultKind::Copy, "upload", error))?;
            self.wait()?;
        }
        Ok(memory)
    }

    fn download<T: Pod>(&self, memory: &DeviceMemory, values: &mut [T]) -> Result<(), Fault> {
        let bytes = size_of_val(values).min(memory.bytes() as usize);
        let _entered = self.context.enter()?;
        // SAFETY: no more bytes than either has, and the stream is waited for while `values` is borrowed.
        let copied = unsafe {
            driver::cuMemcpyDtoHAsync_v2(
                values.as_mut_ptr().cast(),
                memory.address(),
                bytes,
                self.stream.raw(),
            )
        };
        copied.result().map_err(|error| fault(FaultKind::Copy, "download", error))?;
        self.wait()
    }

    fn wait(&self) -> Result<(), Fault> {
        // SAFETY: the stream lives.
        unsafe { result::stream::synchronize(self.stream.raw()) }
            .map_err(|error| fault(FaultKind::Lost, "the card does not answer", error))
    }
}

impl Drop for Cusparse {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: nobody uses the handle any more.
            let _ = unsafe { sys::cusparseDestroy(self.handle) };
        }
    }
}

/// A matrix that cuSPARSE has on its card.
#[derive(Debug)]
pub struct CusparseMatrix<'a, T> {
    library: &'a Cusparse,
    dtype: Dtype,
    rows: usize,
    cols: usize,
    nnz: usize,
    pointers: DeviceMemory,
    columns: DeviceMemory,
    values: DeviceMemory,
    kind: PhantomData<T>,
}

impl<T: Pod> CusparseMatrix<'_, T> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Times every algorithm that takes this matrix, `repeat` times each, those that cannot win fewer. `x` has `k`
    /// columns, row after row. `batch` says how many calls that take so long are timed together. `read` gets the Y of
    /// each algorithm that was given X by rows.
    pub fn time(
        &self,
        k: usize,
        x: &[T],
        repeat: usize,
        batch: fn(f64) -> u32,
        mut read: impl FnMut(&str, &[T]),
    ) -> Result<Vec<AlgorithmTimes>, Fault> {
        if self.nnz == 0 || k == 0 || x.len() != self.cols * k {
            return Ok(Vec::new());
        }
        let x = self.library.upload(x)?;
        let y_bytes = (self.rows * k * size_of::<T>()) as u64;
        let y = DeviceMemory::allocate(&self.library.context, y_bytes)?;
        let mut host_y = vec![T::zeroed(); self.rows * k];
        let mut times: Vec<AlgorithmTimes> = Vec::new();
        let mut best_s = f64::INFINITY;
        for (layout, order) in LAYOUTS {
            for (name, algorithm) in ALGORITHMS {
                let product = Product::new(self, k, &x, &y, order, algorithm)?;
                // Not every version has every algorithm for every layout.
                let Some(buffer) = product.prepare()? else { continue };
                let Some(seconds) = product.time(&buffer, repeat, batch, best_s)? else { continue };
                best_s = best_s.min(median(&seconds));
                let algorithm = format!("{name} {layout}");
                if order == cusparseOrder_t::CUSPARSE_ORDER_ROW {
                    self.library.download(&y, &mut host_y)?;
                    read(&algorithm, &host_y);
                }
                times.push(AlgorithmTimes { algorithm, seconds });
            }
        }
        Ok(times)
    }
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
}

fn done(what: &str, status: cusparseStatus_t) -> Result<(), Fault> {
    if status == cusparseStatus_t::CUSPARSE_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: the library gives a string of its own for any status.
    let words = unsafe { sys::cusparseGetErrorString(status) };
    let words = if words.is_null() {
        format!("status {}", status as u32)
    } else {
        // SAFETY: it is not null, ends, and is never freed.
        unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
    };
    Err(Fault::new(FaultKind::Launch, format!("{what}: {words}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [2 0 1; 0 0 0; 0 3 0]
    const ARRAYS: CsrArrays<'static, f32> =
        CsrArrays { cols: 3, row_pointers: &[0, 2, 2, 3], columns: &[0, 2, 1], values: &[2.0, 1.0, 3.0] };

    #[test]
    fn a_missing_library_or_card_is_said_and_a_present_one_multiplies() {
        let cusparse = match Cusparse::open(0) {
            Err(missing) => {
                assert!(missing.len() > 20, "{missing}");
                eprintln!("skipped: {missing}");
                return;
            }
            Ok(cusparse) => cusparse,
        };
        let matrix = cusparse.matrix(Dtype::F32, ARRAYS).unwrap();
        let mut seen = 0;
        let read = |_: &str, y: &[f32]| {
            assert_eq!(y, [7.0, 10.0, 0.0, 0.0, 9.0, 12.0]);
            seen += 1;
        };
        let times = matrix.time(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 5, |_| 2, read).unwrap();
        assert!(seen >= 1 && times.len() >= seen, "{times:?}");
        assert!(times.iter().all(|times| times.seconds.iter().all(|&time| time > 0.0)), "{times:?}");
        assert!(matrix.time(0, &[], 5, |_| 1, |_, _| ()).unwrap().is_empty());
    }
}
