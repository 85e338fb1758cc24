//! The kernels of the CPU, for measurements.

use std::time::Instant;

use super::bench::{KernelNames, Subject};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, KindOfWork, Processor, kernels_of};
use rowloom::internal::matrix::{CsrView, MultiVector, MultiVectorView};
use rowloom::internal::runtime::Pool;

/// The CPU's kernels on one matrix.
pub struct HostBench<'a, T: Kernels> {
    pool: &'a Pool,
    matrix: CsrView<'a, T>,
    kernels: Vec<KernelId>,
    settings: CpuSettings,
    memory_limit_bytes: u64,
    y: Option<MultiVector<T>>,
    /// The prepared kernel, with its index.
    product: Option<(usize, CpuProduct<'a, T>)>,
}

impl<'a, T: Kernels> HostBench<'a, T> {
    /// The CPU's kernels with those names.
    pub fn new(
        pool: &'a Pool,
        matrix: CsrView<'a, T>,
        names: &KernelNames,
        settings: CpuSettings,
        memory_limit_bytes: u64,
    ) -> Self {
        let kernels = kernels_of(KindOfWork::Spmm, Processor::Cpu).map(|info| info.id);
        let kernels = kernels.filter(|kernel| names.take(*kernel, kernel.name())).collect();
        Self { pool, matrix, kernels, settings, memory_limit_bytes, y: None, product: None }
    }
}

impl<T: Kernels> Subject<T> for HostBench<'_, T> {
    fn kernels(&self) -> Vec<(KernelId, String)> {
        self.kernels.iter().map(|&kernel| (kernel, kernel.name().into())).collect()
    }

    fn take_x(&mut self, x: MultiVectorView<'_, T>) -> Result<Option<String>> {
        self.y = Some(MultiVector::zeros(self.matrix.rows(), x.k())?);
        self.product = None;
        Ok(None)
    }

    fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>> {
        let Some(&id) = self.kernels.get(kernel) else { return Ok(Err("no such kernel".into())) };
        let k = self.y.as_ref().map_or(0, MultiVector::k);
        let settings = CpuSettings { k, ..self.settings };
        let prepare = || CpuProduct::prepare(self.matrix, id, settings, self.memory_limit_bytes);
        match self.pool.install(prepare) {
            Ok(product) => self.product = Some((kernel, product)),
            Err(error @ (Error::Usage(_) | Error::DoesNotFit { .. })) => return Ok(Err(error.message())),
            Err(error) => return Err(error),
        }
        Ok(Ok(()))
    }

    fn run(&mut self, kernel: usize, x: MultiVectorView<'_, T>) -> Result<std::result::Result<f64, String>> {
        let Self { pool, y, product, .. } = self;
        match (y, product) {
            (Some(y), Some((ready, product))) if *ready == kernel => pool.install(|| {
                let start = Instant::now();
                product.run(x, y.view_mut())?;
                Ok(Ok(start.elapsed().as_secs_f64()))
            }),
            _ => Err(Error::Internal("a kernel was run before it was prepared".into())),
        }
    }

    fn forget_y(&mut self) -> Result<()> {
        if let Some(y) = &mut self.y {
            y.data_mut().fill(T::from_f64(f64::NAN));
        }
        Ok(())
    }

    fn read_y(&mut self, read: &mut dyn FnMut(MultiVectorView<'_, T>)) -> Result<()> {
        if let Some(y) = &self.y {
            read(y.view());
        }
        Ok(())
    }
}
