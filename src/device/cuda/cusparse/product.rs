#![allow(unsafe_code)] // The CUDA back end: calls into NVIDIA's sparse library.
//! One product with one of the library's algorithms.

use std::ffi::c_void;
use std::ptr;

use cudarc::cusparse::sys::{
    self, cudaDataType_t, cusparseDnMatDescr_t, cusparseIndexBase_t, cusparseIndexType_t,
    cusparseOperation_t, cusparseOrder_t, cusparseSpMMAlg_t, cusparseSpMatDescr_t, cusparseStatus_t,
};

use super::super::context::{DeviceMemory, Event, EventWait};
use super::super::driver::fault;
use super::{Cusparse, CusparseMatrix, done};
use crate::device::{Fault, FaultKind};
use crate::matrix::Dtype;

/// Warm-up batches before the measured ones.
const WARMUP: usize = 3;

/// Measurements after which a slow algorithm may be abandoned.
const CALLS_BEFORE_ABANDONING: usize = 3;
/// An algorithm is abandoned if every measurement is this many times slower than the best algorithm.
const ABANDON_RATIO: f64 = 3.0;

/// One product with one algorithm: its descriptors and scaling factors.
pub(super) struct Product<'a> {
    library: &'a Cusparse,
    a: cusparseSpMatDescr_t,
    x: cusparseDnMatDescr_t,
    y: cusparseDnMatDescr_t,
    value: cudaDataType_t,
    algorithm: cusparseSpMMAlg_t,
    /// Alpha = 1 and beta = 0 in the type of the values; eight bytes hold either type.
    scale: [[u8; 8]; 2],
}

impl<'a> Product<'a> {
    /// The product of `matrix` with X and Y on the card, in the layout `order`.
    pub fn new<T>(
        matrix: &'a CusparseMatrix<'_, T>,
        k: usize,
        x: &'a DeviceMemory,
        y: &'a DeviceMemory,
        order: cusparseOrder_t,
        algorithm: cusparseSpMMAlg_t,
    ) -> Result<Self, Fault> {
        let one = match matrix.dtype {
            Dtype::F64 => 1f64.to_ne_bytes(),
            Dtype::F32 => u64::from(1f32.to_bits()).to_le_bytes(),
        };
        let value = match matrix.dtype {
            Dtype::F64 => cudaDataType_t::CUDA_R_64F,
            Dtype::F32 => cudaDataType_t::CUDA_R_32F,
        };
        let mut product = Self {
            library: matrix.library,
            a: ptr::null_mut(),
            x: ptr::null_mut(),
            y: ptr::null_mut(),
            value,
            algorithm,
            scale: [one, [0; 8]],
        };
        let pointer_type = match i32::try_from(matrix.nnz) {
            Ok(_) => cusparseIndexType_t::CUSPARSE_INDEX_32I,
            Err(_) => cusparseIndexType_t::CUSPARSE_INDEX_64I,
        };
        let address = |memory: &DeviceMemory| memory.address() as *mut c_void;
        let (rows, cols, columns) = (matrix.rows as i64, matrix.cols as i64, k as i64);
        let by_rows = order == cusparseOrder_t::CUSPARSE_ORDER_ROW;
        let _entered = matrix.library.context.enter()?;
        // SAFETY: the arrays are on the card, have the given sizes and outlive the descriptors, as `'a` says. Each call
        // writes one descriptor.
        let made = unsafe {
            done(
                "cuSPARSE refuses the matrix",
                sys::cusparseCreateCsr(
                    &mut product.a,
                    rows,
                    cols,
                    matrix.nnz as i64,
                    address(&matrix.pointers),
                    address(&matrix.columns),
                    address(&matrix.values),
                    pointer_type,
                    cusparseIndexType_t::CUSPARSE_INDEX_32I,
                    cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO,
                    value,
                ),
            )
            .and_then(|()| {
                let ld = if by_rows { columns } else { cols };
                let made =
                    sys::cusparseCreateDnMat(&mut product.x, cols, columns, ld, address(x), value, order);
                done("cuSPARSE refuses X", made)
            })
            .and_then(|()| {
                let ld = if by_rows { columns } else { rows };
                let made =
                    sys::cusparseCreateDnMat(&mut product.y, rows, columns, ld, address(y), value, order);
                done("cuSPARSE refuses Y", made)
            })
        };
        made.map(|()| product)
    }

    /// Runs the algorithm's preprocessing and returns its buffer; `None` if it does not support this product.
    pub fn prepare(&self) -> Result<Option<DeviceMemory>, Fault> {
        let [one, zero] = &self.scale;
        let operation = cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
        let mut bytes = 0;
        let entered = self.library.context.enter()?;
        // SAFETY: handle and descriptors are alive, the factors have the values' type, and one size is written.
        let sized = unsafe {
            sys::cusparseSpMM_bufferSize(
                self.library.handle,
                operation,
                operation,
                one.as_ptr().cast(),
                self.a,
                self.x,
                zero.as_ptr().cast(),
                self.y,
                self.value,
                self.algorithm,
                &mut bytes,
            )
        };
        drop(entered);
        if sized != cusparseStatus_t::CUSPARSE_STATUS_SUCCESS {
            return Ok(None);
        }
        let buffer = DeviceMemory::allocate(&self.library.context, bytes as u64 + 8)?;
        let _entered = self.library.context.enter()?;
        // SAFETY: as above, and the buffer has the required size.
        let preprocessed = unsafe {
            sys::cusparseSpMM_preprocess(
                self.library.handle,
                operation,
                operation,
                one.as_ptr().cast(),
                self.a,
                self.x,
                zero.as_ptr().cast(),
                self.y,
                self.value,
                self.algorithm,
                buffer.address() as *mut c_void,
            )
        };
        Ok((preprocessed == cusparseStatus_t::CUSPARSE_STATUS_SUCCESS).then_some(buffer))
    }

    /// Measured seconds per call; `None` if the calls fail.
    pub fn time(
        &self,
        buffer: &DeviceMemory,
        repeat: usize,
        batch: fn(f64) -> u32,
        best_s: f64,
    ) -> Result<Option<Vec<f64>>, Fault> {
        let start = Event::create(&self.library.context, EventWait::Spinning)?;
        let end = Event::create(&self.library.context, EventWait::Spinning)?;
        let lost = |error| fault(FaultKind::Lost, "cuSPARSE's call", error);
        let timed = |calls: u32| {
            // One untimed call keeps the card busy while the timed ones are submitted, as for Rowloom's own kernels.
            if !self.call(buffer)? {
                return Ok(None);
            }
            start.record(&self.library.stream).map_err(lost)?;
            for _ in 0..calls {
                if !self.call(buffer)? {
                    return Ok(None);
                }
            }
            end.record(&self.library.stream).map_err(lost)?;
            end.wait().map_err(lost)?;
            Ok(Some(end.ns_since(&start).map_err(lost)? * 1e-9 / f64::from(calls)))
        };
        let mut calls = 1;
        for _ in 0..WARMUP {
            let Some(time) = timed(calls)? else { return Ok(None) };
            calls = batch(time);
        }
        let mut seconds = Vec::with_capacity(repeat);
        while seconds.len() < repeat {
            let Some(time) = timed(calls)? else { return Ok(None) };
            seconds.push(time);
            if seconds.len() == CALLS_BEFORE_ABANDONING
                && seconds.iter().all(|&time| time > ABANDON_RATIO * best_s)
            {
                break;
            }
        }
        Ok(Some(seconds))
    }

    /// One call; returns whether cuSPARSE accepted it.
    fn call(&self, buffer: &DeviceMemory) -> Result<bool, Fault> {
        let [one, zero] = &self.scale;
        let operation = cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
        let _entered = self.library.context.enter()?;
        // SAFETY: as in `prepare`, with its buffer.
        let status = unsafe {
            sys::cusparseSpMM(
                self.library.handle,
                operation,
                operation,
                one.as_ptr().cast(),
                self.a,
                self.x,
                zero.as_ptr().cast(),
                self.y,
                self.value,
                self.algorithm,
                buffer.address() as *mut c_void,
            )
        };
        Ok(status == cusparseStatus_t::CUSPARSE_STATUS_SUCCESS)
    }
}

impl Drop for Product<'_> {
    fn drop(&mut self) {
        let Ok(_entered) = self.library.context.enter() else { return };
        // SAFETY: each descriptor was created by the library or is null.
        unsafe {
            if !self.a.is_null() {
                sys::cusparseDestroySpMat(self.a);
            }
            for dense in [self.x, self.y] {
                if !dense.is_null() {
                    sys::cusparseDestroyDnMat(dense);
                }
            }
        }
    }
}
