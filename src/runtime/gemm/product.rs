//! A dense product C = alpha A B + beta C: built once, applied any number of times.

use super::gemm_job::GemmJob;
use crate::adapt::Resolved;
use crate::device::cuda::cublas_is_installed;
use crate::error::{Error, Result};
use crate::kernel::KernelId;
use crate::kernel::gemm::PackedProduct;
use crate::kernel::scaling::scaling;
use crate::runtime::Runtime;
use crate::runtime::dense::{DenseBuilder, DenseOperand, DenseWork};
use crate::runtime::job::Scaling;
use crate::runtime::spmm::{Input, Output, host_input, host_output};
use crate::work::gemm::Gemm as Shape;

/// A dense product with one A and a fixed number of columns of B and C.
pub type Gemm<'a, T> = DenseWork<'a, GemmJob<'a, T>>;

/// Builds a [`Gemm`].
pub type GemmBuilder<'a, T> = DenseBuilder<'a, T, Shape>;

impl Runtime {
    /// Products of `a` with matrices of `columns` columns.
    pub fn gemm<'a, T: PackedProduct>(
        &self,
        a: impl Into<DenseOperand<'a, T>>,
        columns: usize,
    ) -> GemmBuilder<'a, T> {
        let a = a.into();
        let (rows, depth) = (a.view().rows(), a.view().k());
        let shape = Shape { rows, depth, columns, dtype: T::DTYPE, updated: false };
        DenseBuilder::new(self.clone(), a, shape)
    }
}

impl<'a, T: PackedProduct> GemmBuilder<'a, T> {
    /// Whether the first plan is for products that read the old C. Without it the plan changes with the first such product.
    #[must_use]
    pub fn updates_c(mut self, updates: bool) -> Self {
        self.work.updated = updates;
        self
    }

    /// Makes the plan. Devices are opened with the first product.
    pub fn build(mut self) -> Result<Gemm<'a, T>> {
        match &self.plan {
            Some(plan) => self.work.updated = plan.output.updated,
            None if self.resolved.is_none() => self.resolved = Some(self.with_library()?),
            None => {}
        }
        DenseWork::new(self)
    }

    /// The devices, with the vendor's library where it may be chosen. Loading it takes time.
    fn with_library(&self) -> Result<Resolved> {
        let mut resolved = self.runtime.resolve(&self.options)?;
        let is_allowed = match self.options.kernel {
            None => !self.options.reproducible,
            Some(kernel) => kernel == KernelId::Cublas,
        };
        for device in resolved.devices.iter_mut().filter(|device| device.name.starts_with("cuda:")) {
            device.profile.cublas = is_allowed && cublas_is_installed();
        }
        Ok(resolved)
    }
}

impl<'a, T: PackedProduct> Gemm<'a, T> {
    /// C = A B.
    pub fn apply(&mut self, b: &(impl Input<T> + ?Sized), c: &mut (impl Output<T> + ?Sized)) -> Result<()> {
        self.apply_scaled(1.0, b, 0.0, c)
    }

    /// C = alpha A B + beta C. The old C has no effect if beta is zero.
    pub fn apply_scaled(
        &mut self,
        alpha: f64,
        b: &(impl Input<T> + ?Sized),
        beta: f64,
        c: &mut (impl Output<T> + ?Sized),
    ) -> Result<()> {
        let Shape { rows, depth, columns, updated, .. } = self.work;
        let (b, c) = (host_input(b, depth, columns)?, host_output(c, rows, columns)?);
        if (b.rows(), b.k(), c.rows(), c.k()) != (depth, columns, rows, columns) {
            return Err(Error::Usage(format!(
                "the product of {rows} × {depth} and {} × {} is not a matrix of {} × {}; it was built for {columns} columns",
                b.rows(),
                b.k(),
                c.rows(),
                c.k()
            )));
        }
        // A beta that rounds to zero does not read C.
        let beta = if scaling::<T>(alpha, beta).reads_old() { beta } else { 0.0 };
        if beta != 0.0 && !updated {
            self.change_work(Shape { updated: true, ..self.work })?;
        }
        self.run(Scaling { alpha, beta }, b, c)
    }
}
