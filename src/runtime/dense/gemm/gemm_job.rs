//! A planned dense product.

use std::ops::Range;
use std::sync::Arc;

use crate::device::{BorrowScope, COPY_LANES, DeviceRows, HostTransfer, MemoryRange, Operation, Pinned};
use crate::error::{Error, Result};
use crate::kernel::KernelId;
use crate::kernel::check::{Applied, Checksums, Method, Operator, SumsOfX};
use crate::kernel::gemm::{PackedProduct, multiply_packed_on, multiply_rows, reference};
use crate::kernel::scaling::scaling;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::plan::Plan;
use crate::runtime::Check;
use crate::runtime::dense::operand::DenseOperand;
use crate::runtime::dense::planned_work::DenseJob;
use crate::runtime::dense::rows::{DenseA, bytes_of, rows_of_device};
use crate::runtime::job::{Accelerator, BorrowsA, CheckedProduct, Job, Scaling};
use crate::work::gemm::Gemm;
use crate::work::{ChunkRows, HeldRows};

/// A smaller pool spares no threads for copies.
const FEWEST_THREADS: usize = 8;

/// A and a plan for its products.
pub struct GemmJob<'a, T: PackedProduct> {
    a: DenseA<'a, T>,
    plan: Plan,
}

impl<T: PackedProduct> GemmJob<'_, T> {
    fn rows(&self, chunk: usize) -> Result<Range<usize>> {
        rows_of(&self.chunk(chunk)?.rows)
    }

    /// Threads of the current pool that compute a chunk. Beside devices, some stay free for the host's copies: they would wait until the
    /// chunk ends, and the devices with them.
    fn threads(&self) -> usize {
        let all = rayon::current_num_threads();
        let has_devices = self.plan.devices.len() > 1;
        if has_devices && all >= FEWEST_THREADS { all - COPY_LANES } else { all }
    }

    /// The rows that contain the chunks of a device.
    fn device_rows(&self, device: usize) -> Range<usize> {
        rows_of_device(&self.plan, device, |rows| rows_of(rows).unwrap_or_default())
    }
}

/// The rows of A and C of a chunk.
fn rows_of(rows: &ChunkRows) -> Result<Range<usize>> {
    match *rows {
        ChunkRows::Rows { begin, end } => Ok(begin..end),
        ChunkRows::Segments { .. } => Err(Error::Internal("a row of a dense product is not divided".into())),
    }
}

impl<'a, T: PackedProduct> DenseJob<'a> for GemmJob<'a, T> {
    type Work = Gemm;

    fn of(a: DenseOperand<'a, T>, _work: Gemm, plan: Plan) -> Self {
        Self { a: DenseA::new(a), plan }
    }
}

impl<T: PackedProduct> Job for GemmJob<'_, T> {
    type Value = T;
    type Shared = MultiVector<T>;
    type Borrowed = Pinned;

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn shared(&self) -> Option<Arc<MultiVector<T>>> {
        self.a.shared()
    }

    fn shared_arrays<'m>(&self, shared: &'m MultiVector<T>, device: usize) -> Vec<&'m [u8]> {
        bytes_of(shared.view(), self.device_rows(device))
    }

    fn borrow<'env>(&'env self, scope: &BorrowScope<'env>) -> Result<Pinned> {
        Ok(self.a.borrow(scope))
    }

    fn chunk_bytes(&self, chunk: usize) -> Result<u64> {
        Ok(self.a.device_bytes(self.rows(chunk)?.len()))
    }

    fn stage(&self, chunk: usize, _held: &HeldRows, to: &mut [u8]) -> Result<()> {
        self.a.stage(self.rows(chunk)?, to)
    }

    fn stage_part(&self, chunk: usize, part: Range<u64>, to: &mut [u8]) -> Result<()> {
        self.a.stage_part(self.rows(chunk)?, part, to)
    }

    fn copies_in_place(&self, chunk: usize, a: &Pinned, to: MemoryRange) -> Result<Vec<HostTransfer>> {
        Ok(self.a.copies_in_place(self.rows(chunk)?, a, to))
    }

    fn launch(
        &self,
        chunk: usize,
        accelerator: &Accelerator,
        a: MemoryRange,
        y: MemoryRange,
        alpha: f64,
    ) -> Result<Operation<'static>> {
        let (rows, kernel) = (self.rows(chunk)?.len(), self.chunk(chunk)?.gpu_kernel);
        let a = self.a.on_device(rows, a);
        let b = DeviceRows {
            memory: accelerator.x_range(),
            rows: a.columns,
            columns: accelerator.k(),
            leading_dimension: accelerator.x_pitch(),
            ..a
        };
        let c = DeviceRows {
            memory: y,
            rows: a.rows,
            columns: accelerator.k(),
            leading_dimension: accelerator.y_pitch(),
            ..a
        };
        Operation::gemm(kernel, (alpha, 0.0), a, b, c)
    }

    fn compute(
        &self,
        chunk: usize,
        factors: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        let (kernel, a) = (self.chunk(chunk)?.cpu_kernel, self.a.rows(self.rows(chunk)?));
        let scaling = scaling(factors.alpha, factors.beta);
        match kernel {
            KernelId::GemmReference => reference::multiply(scaling, a, x, y),
            KernelId::CpuGemmRows => multiply_rows(scaling, a, x, y),
            KernelId::CpuGemm => multiply_packed_on(self.threads(), scaling, a, x, y),
            other => Err(Error::Internal(format!("kernel {} computes no dense product", other.name()))),
        }
    }

    fn check_method(&self, _check: Check) -> Result<Option<Method>> {
        let a = Operator::Dense(self.a.rows(0..self.plan.matrix.rows as usize));
        Ok(Some(Method::Columns(Checksums::of(a)?)))
    }

    fn wrong_rows(
        &self,
        method: &Method,
        product: &CheckedProduct<'_, T>,
        _x: Option<SumsOfX>,
    ) -> Result<Vec<usize>> {
        let CheckedProduct { scaling: factors, x, old, y } = *product;
        let applied = Applied { scaling: scaling(factors.alpha, factors.beta), x, old, y };
        match method {
            Method::Columns(checksums) => {
                checksums.wrong_rows(Operator::Dense(self.a.rows(0..y.rows())), applied)
            }
            Method::Rows => Err(Error::Internal("a dense product is not checked by rows".into())),
        }
    }

    fn compute_by_reference(
        &self,
        rows: Range<usize>,
        factors: Scaling,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        reference::multiply(scaling(factors.alpha, factors.beta), self.a.rows(rows), x, y)
    }
}

impl<'m, 'a: 'm, T: PackedProduct> BorrowsA<'m> for GemmJob<'a, T> {
    fn borrowed_arrays(&self, device: usize) -> Vec<&'m [u8]> {
        self.a.borrowed_bytes(self.device_rows(device))
    }
}
