//! A planned product: the matrix, the plan, and each chunk's rows or segments as a matrix view.

use rayon::prelude::*;

use super::settings::Settings;
use crate::error::{Error, Result};
use crate::kernel::cpu::{Kernels, PreparedKernel};
use crate::kernel::cuda::CudaKernel;
use crate::kernel::order::SEGMENT;
use crate::matrix::{CsrView, Scalar};
use crate::plan::{Chunk, Plan};
use crate::runtime::spmm::matrix::Matrix;
use crate::work::spmm::{Spmm, Storage};
use crate::work::{ChunkRows, Kind};

/// A matrix and a plan for its products.
pub struct Job<'a, T: Scalar> {
    matrix: Matrix<'a, T>,
    plan: Plan,
    /// For each chunk that is part of a row its segment boundaries; empty for chunks of whole rows.
    segments: Vec<Vec<u64>>,
    /// For each chunk its storage in an accelerator's memory; empty without accelerators.
    storages: Vec<Storage>,
    /// Whether all values are equal, which some accelerator kernels exploit.
    uniform: bool,
}

impl<'a, T: Scalar> Job<'a, T> {
    /// The product of `matrix` according to `plan`, which must have been made for it. Laid out in the rayon pool of the caller.
    pub fn new(matrix: Matrix<'a, T>, plan: Plan) -> Result<Self> {
        let view = matrix.view();
        let work = Spmm::new(&view, plan.k as usize)?;
        plan.check_fits(&work.fingerprint(), plan.k, T::DTYPE)?;
        let boundaries = |rows: &ChunkRows| match *rows {
            ChunkRows::Rows { .. } => Vec::new(),
            ChunkRows::Segments { .. } => {
                let entries = work.entries(rows);
                let end = entries.end;
                entries.step_by(SEGMENT).chain(std::iter::once(end)).collect()
            }
        };
        let segments = plan.chunks.iter().map(|chunk| boundaries(&chunk.rows)).collect();
        let with_devices = plan.devices.len() > 1;
        let uniform = with_devices && view.has_equal_values();
        let mut job = Self { matrix, plan, segments, storages: Vec::new(), uniform };
        if with_devices {
            let chunks = (0..job.plan.chunks.len()).into_par_iter();
            job.storages = chunks.map(|chunk| job.lay_out(chunk)).collect::<Result<_>>()?;
        }
        Ok(job)
    }

    fn lay_out(&self, chunk: usize) -> Result<Storage> {
        let planned = self.chunk(chunk)?;
        let layout = CudaKernel::of(planned.gpu_kernel)?.layout;
        Storage::of(layout, &planned.gpu_variant, self.rows(chunk)?)
    }

    /// Whether all values of the matrix are equal.
    pub fn is_uniform(&self) -> bool {
        self.uniform
    }

    /// A chunk of the plan.
    pub fn chunk(&self, chunk: usize) -> Result<&Chunk> {
        self.plan.chunks.get(chunk).ok_or_else(|| missing_chunk(chunk))
    }

    /// A chunk's storage in an accelerator's memory.
    pub fn storage(&self, chunk: usize) -> Result<&Storage> {
        self.storages.get(chunk).ok_or_else(|| missing_chunk(chunk))
    }

    /// Prepares the host's computation of a chunk, on the current rayon pool.
    pub(super) fn host_product(&self, chunk: usize, settings: &Settings) -> Result<PreparedKernel<T>>
    where
        T: Kernels,
    {
        let kernel = self.chunk(chunk)?.cpu_kernel;
        PreparedKernel::new(self.rows(chunk)?, kernel, settings.cpu, settings.memory_limit_bytes)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The whole matrix, shared with this job or borrowed.
    pub fn shared_matrix(&self) -> Matrix<'a, T> {
        self.matrix.clone()
    }

    /// The whole matrix.
    pub fn matrix(&self) -> CsrView<'_, T> {
        self.matrix.view()
    }

    /// The rows, or segments, of a chunk.
    pub fn rows(&self, chunk: usize) -> Result<CsrView<'_, T>> {
        match self.chunk(chunk)?.rows {
            ChunkRows::Rows { begin, end } => Ok(self.matrix().slice_rows(begin..end)),
            ChunkRows::Segments { .. } => {
                self.matrix().with_row_pointers(self.segments.get(chunk).ok_or_else(|| missing_chunk(chunk))?)
            }
        }
    }
}

fn missing_chunk(chunk: usize) -> Error {
    Error::Internal(format!("the plan has no chunk {chunk}"))
}
