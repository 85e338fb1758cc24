#![allow(unsafe_code)] // The CUDA back end: calls into NVIDIA's sparse library.
//! cuSPARSE, NVIDIA's sparse library, for comparison: every CSR algorithm in both layouts of X and Y.
//!
//! Descriptors, buffers and preprocessing are not timed. Calls are timed in batches between two events on one stream, each
//! batch after one untimed call, exactly as Rowloom's own kernels are timed. The library is loaded at run time if it is
//! installed.

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

/// Every function of the library that is called here. All are looked up before the first call, because cudarc panics if
/// one is missing.
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

/// A CSR matrix in host memory.
#[derive(Debug, Clone, Copy)]
pub struct CsrArrays<'a, T> {
    /// Number of columns.
    pub cols: usize,
    /// Row pointers: for each row the number of entries before it, then the total.
    pub row_pointers: &'a [u64],
    /// The column of every entry.
    pub columns: &'a [u32],
    /// The value of every entry.
    pub values: &'a [T],
}

/// The measured times of one algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct AlgorithmTimes {
    /// The algorithm's name and the layout of X and Y: `ALG2 row-major`.
    pub algorithm: String,
    /// Seconds per call, one value per measured batch.
    pub seconds: Vec<f64>,
}

/// The library, initialised on a card in a separate context.
#[derive(Debug)]
pub struct Cusparse {
    handle: cusparseHandle_t,
    stream: Stream,
    context: Arc<Context>,
    version: i32,
}

impl Cusparse {
    /// Initialises it on card number `card`, or returns a message that says what is missing.
    pub fn open(card: u32) -> Result<Self, String> {
        let message = |fault: Fault| fault.message;
        let context = Context::create(card).map_err(message)?;
        // SAFETY: opens the library by name; its initialisers have no requirements.
        if !unsafe { sys::is_culib_present() } {
            return Err(
                "cuSPARSE not found (libcusparse.so.12 on the loader's path); it is part of NVIDIA's CUDA \
                        toolkit, and pip installs it as nvidia-cusparse-cu12"
                    .into(),
            );
        }
        // SAFETY: the library exists, as just checked.
        let library = unsafe { sys::culib() };
        for symbol in SYMBOLS {
            // SAFETY: the address is looked up but not used.
            if unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_err() {
                return Err(format!("this cuSPARSE has no {symbol}; install cuSPARSE of CUDA 12 or later"));
            }
        }
        let stream = Stream::create(&context).map_err(message)?;
        let entered = context.enter().map_err(message)?;
        let (mut handle, mut version) = (ptr::null_mut(), 0);
        // SAFETY: the library writes one handle for the current context.
        done("cuSPARSE does not initialise", unsafe { sys::cusparseCreate(&mut handle) }).map_err(message)?;
        drop(entered);
        let mut cusparse = Self { handle, stream, context, version };
        let entered = cusparse.context.enter().map_err(message)?;
        // SAFETY: the handle and the stream are alive; one integer is written.
        let status = unsafe {
            sys::cusparseGetVersion(handle, &mut version);
            sys::cusparseSetStream(handle, cusparse.stream.raw().cast())
        };
        done("cuSPARSE refuses the stream", status).map_err(message)?;
        drop(entered);
        cusparse.version = version;
        Ok(cusparse)
    }

    /// Its version: `12.6.5`.
    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.version / 1000, self.version / 100 % 10, self.version % 100)
    }

    /// Uploads a matrix to the card.
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
            // SAFETY: both have that many bytes, and the stream is synchronised while `values` is borrowed.
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
        // SAFETY: neither has fewer bytes, and the stream is synchronised while `values` is borrowed.
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

    /// Sets all bits, which are NaN in both precisions, so that an element that the next algorithm does not write is not taken for one of
    /// the algorithm before.
    fn forget(&self, memory: &DeviceMemory) -> Result<(), Fault> {
        let bytes = memory.bytes() as usize;
        let _entered = self.context.enter()?;
        // SAFETY: the memory has that many bytes, and the stream is synchronised before it is used again.
        let filled = unsafe { driver::cuMemsetD8Async(memory.address(), u8::MAX, bytes, self.stream.raw()) };
        filled.result().map_err(|error| fault(FaultKind::Copy, "filling Y", error))?;
        self.wait()
    }

    fn wait(&self) -> Result<(), Fault> {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream.raw()) }
            .map_err(|error| fault(FaultKind::Lost, "the card's stream cannot be synchronised", error))
    }
}

impl Drop for Cusparse {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: this is the handle's last use.
            let _ = unsafe { sys::cusparseDestroy(self.handle) };
        }
    }
}

/// A matrix in the card's memory, for cuSPARSE.
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

    /// Times every algorithm that supports this matrix, `repeat` times each; algorithms that are clearly slower than the
    /// best are measured fewer times. `x` is row-major with `k` columns. `batch` maps the seconds of a call to the number
    /// of calls per timed batch. `read` gets the Y of each algorithm, in row-major order, of the last product that was timed.
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
        let host_x = x;
        let y_bytes = (self.rows * k * size_of::<T>()) as u64;
        let y = DeviceMemory::allocate(&self.library.context, y_bytes)?;
        let mut host_y = vec![T::zeroed(); self.rows * k];
        let mut times: Vec<AlgorithmTimes> = Vec::new();
        let mut best_s = f64::INFINITY;
        for (layout, order) in LAYOUTS {
            let by_rows = order == cusparseOrder_t::CUSPARSE_ORDER_ROW;
            // The same X in both layouts, so that one Y is right.
            let x = match by_rows {
                true => self.library.upload(host_x)?,
                false => self.library.upload(&transposed(host_x, self.cols, k))?,
            };
            for (name, algorithm) in ALGORITHMS {
                self.library.forget(&y)?;
                let product = Product::new(self, k, &x, &y, order, algorithm)?;
                // Not every version supports every algorithm in every layout.
                let Some(buffer) = product.prepare()? else { continue };
                let Some(seconds) = product.time(&buffer, repeat, batch, best_s)? else { continue };
                best_s = best_s.min(median(&seconds));
                let algorithm = format!("{name} {layout}");
                self.library.download(&y, &mut host_y)?;
                match by_rows {
                    true => read(&algorithm, &host_y),
                    false => read(&algorithm, &transposed(&host_y, k, self.rows)),
                }
                times.push(AlgorithmTimes { algorithm, seconds });
            }
        }
        Ok(times)
    }
}

/// The transpose of a row-major matrix.
fn transposed<T: Pod>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    // Blocks of rows and columns that fit a cache together.
    const BLOCK: usize = 64;
    let mut transposed = vec![T::zeroed(); values.len()];
    for first_row in (0..rows).step_by(BLOCK) {
        for first_column in (0..columns).step_by(BLOCK) {
            for row in first_row..rows.min(first_row + BLOCK) {
                for column in first_column..columns.min(first_column + BLOCK) {
                    transposed[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    transposed
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
    // SAFETY: the library returns a static string for any status.
    let words = unsafe { sys::cusparseGetErrorString(status) };
    let words = if words.is_null() {
        format!("status {}", status as u32)
    } else {
        // SAFETY: the string is not null, is zero-terminated and is never freed.
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
    fn transposed_twice_is_the_same() {
        let values: Vec<u32> = (0..70 * 131).collect();
        let once = transposed(&values, 70, 131);
        assert_eq!((once[1], once[70]), (131, 1));
        assert_eq!(transposed(&once, 131, 70), values);
    }

    #[test]
    fn a_missing_library_or_card_is_reported_and_an_installed_one_computes_the_product() {
        let cusparse = match Cusparse::open(0) {
            Err(missing) => {
                assert!(missing.len() > 20, "{missing}");
                crate::skip::skip("gpu", missing);
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
        assert!(seen >= 1 && times.len() == seen, "every Y is read: {times:?}");
        assert!(times.iter().all(|times| times.seconds.iter().all(|&time| time > 0.0)), "{times:?}");
        assert!(matrix.time(0, &[], 5, |_| 1, |_, _| ()).unwrap().is_empty());
    }
}
