//! A planned product with a sparse A: each chunk's rows or segments as a matrix view, and their storage on devices.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::lists::Lists;
use super::matrix::Matrix;
use super::settings::Settings;
use crate::error::{Advice, Error, Result};
use crate::kernel::cpu::{Kernels, PreparedKernel};
use crate::kernel::cuda::{CudaKernel, Layout};
use crate::kernel::order::SEGMENT;
use crate::kernel::{KernelId, Processor};
use crate::matrix::{CsrView, Packing};
use crate::plan::{Chunk, Plan};
use crate::runtime::job::Job;
use crate::work::spmm::{Spmm, Storage, packed_differently, values_differ};
use crate::work::{ChunkRows, Kind};

/// A chunk's product on the host, prepared when it is first needed.
type HostProduct<T> = Mutex<Option<PreparedKernel<T>>>;

/// A matrix and a plan for its products.
pub struct SpmmJob<'a, T: Kernels> {
    pub(super) matrix: Matrix<'a, T>,
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    /// For each chunk that is part of a row its segment boundaries; empty for chunks of whole rows.
    segments: Vec<Vec<u64>>,
    /// For each chunk its storage in an accelerator's memory; empty without accelerators.
    storages: Vec<Storage>,
    pub(super) lists: Lists,
    /// Whether all values are equal, which some accelerator kernels exploit.
    uniform: bool,
    pub(super) products: Vec<HostProduct<T>>,
}

impl<'a, T: Kernels> SpmmJob<'a, T> {
    /// The product of `matrix` according to `plan`, which must have been made for it. Laid out in the rayon pool of the caller.
    pub fn new(matrix: Matrix<'a, T>, plan: Plan, settings: Settings) -> Result<Self> {
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
        // A plan may be of another matrix with the same pattern.
        let is_pattern = |chunk: &Chunk| chunk.form(Processor::Gpu).layout() == Layout::Pattern;
        if with_devices && !uniform && view.nnz() > 0 && plan.chunks.iter().any(is_pattern) {
            return Err(values_differ());
        }
        let is_packed = |chunk: &Chunk| chunk.form(Processor::Gpu).layout() == Layout::Packed;
        let packing = (with_devices && plan.chunks.iter().any(is_packed)).then(|| view.packable().packing());
        let products = plan.chunks.iter().map(|_| Mutex::new(None)).collect();
        let (lists, storages) = (Lists::new(plan.chunks.len()), Vec::new());
        let mut job = Self { matrix, plan, settings, segments, storages, lists, uniform, products };
        if with_devices {
            let chunks = (0..job.plan.chunks.len()).into_par_iter();
            let storages = chunks.map(|chunk| job.lay_out(chunk, packing.as_ref()));
            job.storages = storages.collect::<Result<_>>()?;
        }
        job.check_packed_bytes()?;
        Ok(job)
    }

    fn lay_out(&self, chunk: usize, packing: Option<&Packing>) -> Result<Storage> {
        let planned = self.chunk(chunk)?;
        let layout = CudaKernel::of(planned.gpu_kernel)?.layout;
        let Some(packing) = packing.filter(|_| layout == Layout::Packed) else {
            return Storage::of(layout, &planned.gpu_variant, self.rows(chunk)?);
        };
        let rows = self.rows(chunk)?;
        let storage = Storage::of_packed(&planned.gpu_variant, rows, packing.clone(), planned.rows)?;
        // A plan may be of another matrix with the same pattern, and values may have changed since it was made.
        if storage.bytes() == planned.staged_bytes { Ok(storage) } else { Err(packed_differently()) }
    }

    /// Refuses packed copies of A that are larger than the memory for them.
    fn check_packed_bytes(&self) -> Result<()> {
        let limit_bytes = self.settings.memory_limit_bytes;
        let packed = self.storages.iter().filter(|storage| storage.packed.is_some());
        let needed_bytes = packed.map(Storage::list_bytes).fold(0, u64::saturating_add);
        if needed_bytes <= limit_bytes {
            return Ok(());
        }
        let what = "the packed copy of A".into();
        Err(Error::DoesNotFit { what, needed_bytes, limit_bytes, advice: Advice::AutomaticKernel.into() })
    }

    /// Whether all values of the matrix are equal.
    pub fn is_uniform(&self) -> bool {
        self.uniform
    }

    /// A chunk's storage in an accelerator's memory.
    pub fn storage(&self, chunk: usize) -> Result<&Storage> {
        self.storages.get(chunk).ok_or_else(|| missing_chunk(chunk))
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

    /// The reason for the host's choice of kernel for a chunk.
    pub fn host_reason(&self, chunk: usize) -> Option<String> {
        let product = self.products.get(chunk)?.lock().ok()?;
        product.as_ref().map(|product| product.reason().to_string())
    }

    /// Calls `run` with the product of a chunk on the host.
    pub(super) fn with_host_product<R>(
        &self,
        chunk: usize,
        run: impl FnOnce(&mut PreparedKernel<T>) -> Result<R>,
    ) -> Result<R> {
        let none = || Error::Internal(format!("chunk {chunk} has no product on the host"));
        let product = self.products.get(chunk).ok_or_else(none)?;
        let mut product = product.lock().unwrap_or_else(PoisonError::into_inner);
        if product.is_none() {
            // The chunk was planned for another device.
            *product = Some(self.prepared_on_host(chunk)?);
        }
        run(product.as_mut().ok_or_else(none)?)
    }

    pub(super) fn prepared_on_host(&self, chunk: usize) -> Result<PreparedKernel<T>> {
        self.prepared_kernel(chunk, self.chunk(chunk)?.cpu_kernel)
    }

    pub(super) fn prepared_kernel(&self, chunk: usize, kernel: KernelId) -> Result<PreparedKernel<T>> {
        let Settings { cpu, memory_limit_bytes, .. } = &self.settings;
        PreparedKernel::new(self.rows(chunk)?, kernel, *cpu, *memory_limit_bytes)
    }
}

pub(super) fn missing_chunk(chunk: usize) -> Error {
    Error::Internal(format!("the plan has no chunk {chunk}"))
}
