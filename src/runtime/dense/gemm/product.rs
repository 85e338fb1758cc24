//! A dense product C = alpha A B + beta C: built once, applied any number of times.

use std::sync::atomic::AtomicBool;

use super::cpu_rate::measured_gflop_per_s;
use super::gemm_job::GemmJob;
use crate::adapt::ResolvedDevices;
use crate::device::Registration;
use crate::device::cuda::cublas_is_installed;
use crate::error::{Error, Result};
use crate::kernel::gemm::PackedProduct;
use crate::kernel::{KernelId, KindOfWork};
use crate::matrix::{Dtype, MultiVectorView, MultiVectorViewMut};
use crate::runtime::Runtime;
use crate::runtime::dense::builder::DenseBuilder;
use crate::runtime::dense::operand::DenseOperand;
use crate::runtime::dense::planned_work::DenseWork;
use crate::runtime::job::Scaling;
use crate::runtime::run::RunReport;
use crate::runtime::vectors::{Input, Output, host_input, host_output};
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

    /// The kernel of that name, as `rowloom gemm --kernel` takes it.
    pub fn kernel(self, name: &str) -> Result<Self> {
        Ok(self.kernel_id(KindOfWork::Gemm.kernel(name)?))
    }

    /// Makes the plan. Devices are opened with the first product.
    pub fn build(mut self) -> Result<Gemm<'a, T>> {
        match &self.plan {
            Some(plan) => self.work.updated = plan.output.updated,
            None if self.resolved.is_none() => self.resolved = Some(self.known_devices()?),
            None => {}
        }
        DenseWork::new(self)
    }

    /// The devices, with the vendor's library where it may be chosen, since loading it takes time. The rate of a CPU that shares the work
    /// with GPUs is measured: a CPU that is slower than its description would delay the GPUs.
    fn known_devices(&self) -> Result<ResolvedDevices> {
        let mut resolved = self.runtime.resolve(&self.options)?;
        let is_allowed = match self.options.kernel {
            None => !self.options.reproducible,
            Some(kernel) => kernel == KernelId::Cublas,
        };
        let has_card = resolved.devices.iter().any(|device| device.name.starts_with("cuda:"));
        for device in resolved.devices.iter_mut().filter(|_| has_card) {
            if device.name.starts_with("cuda:") {
                device.profile.cublas = is_allowed && cublas_is_installed();
            } else if device.name == "cpu" {
                let rate = measured_gflop_per_s::<T>(self.runtime.pool())?;
                match T::DTYPE {
                    Dtype::F64 => device.profile.f64_gflop_per_s = rate,
                    Dtype::F32 => device.profile.f32_gflop_per_s = rate,
                }
            }
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
        self.bind(b, c, |bound| bound.apply_scaled(alpha, beta))
    }

    /// Binds B and C for repeated products with the same arrays, which `with` calls. Devices receive B once. The arrays, and a borrowed A,
    /// may be page-locked as long as they are bound; [`bound`](GemmBuilder::bound) makes the plan for that.
    ///
    /// A function instead of a value, as [`Product::bind`](crate::Product::bind).
    pub fn bind<R>(
        &mut self,
        b: &(impl Input<T> + ?Sized),
        c: &mut (impl Output<T> + ?Sized),
        with: impl FnOnce(&mut BoundGemm<'_, 'a, T>) -> Result<R>,
    ) -> Result<R> {
        let Shape { rows, depth, columns, .. } = self.work;
        let (b, c) = (host_input(b, depth, columns)?, host_output(c, rows, columns)?);
        if (b.rows(), b.k(), c.rows(), c.k()) != (depth, columns, rows, columns) {
            return Err(Error::usage(format!(
                "the product of {rows} × {depth} and {} × {} is not a matrix of {} × {}; it was built for {columns} columns",
                b.rows(),
                b.k(),
                c.rows(),
                c.k()
            )));
        }
        let (registered_at, sent_at) = (None, None);
        with(&mut BoundGemm { registrations: Vec::new(), registered_at, sent_at, product: self, b, c })
    }
}

/// A product with its B and C bound; [`Gemm::bind`].
pub struct BoundGemm<'p, 'a, T: PackedProduct> {
    registrations: Vec<Registration<'p>>,
    /// The number of the plan that they were made for.
    registered_at: Option<u64>,
    /// The number of the plan whose devices received B.
    sent_at: Option<u64>,
    product: &'p mut Gemm<'a, T>,
    b: MultiVectorView<'p, T>,
    c: MultiVectorViewMut<'p, T>,
}

impl<'a, T: PackedProduct> BoundGemm<'_, 'a, T> {
    /// C = alpha A B + beta C. The old C has no effect if beta is zero.
    pub fn apply_scaled(&mut self, alpha: f64, beta: f64) -> Result<()> {
        self.apply_scaled_until(alpha, beta, None)
    }

    /// The same, or less if `cancel` is set meanwhile, as the report then says.
    #[doc(hidden)]
    pub fn apply_scaled_until(&mut self, alpha: f64, beta: f64, cancel: Option<&AtomicBool>) -> Result<()> {
        let scaling = Scaling::rounded::<T>(alpha, beta);
        if scaling.reads_y() && !self.product.work.updated {
            self.product.change_work(Shape { updated: true, ..self.product.work })?;
        }
        if self.registered_at != Some(self.product.changes) {
            self.registrations.clear();
            self.registrations = self.product.register(self.b, &mut self.c)?;
            self.registered_at = Some(self.product.changes);
        }
        let changes = self.product.changes;
        let same_b = self.sent_at == Some(changes);
        self.product.run(scaling, (self.b, same_b), self.c.reborrow(), cancel)?;
        self.sent_at = Some(changes);
        Ok(())
    }

    /// C, which may be changed between products.
    pub fn c_mut(&mut self) -> MultiVectorViewMut<'_, T> {
        self.c.reborrow()
    }

    /// The report of the last product.
    #[doc(hidden)]
    pub fn last_report(&self) -> Option<&RunReport> {
        self.product.last_report()
    }

    /// The product. It can be applied to other arrays, so that B is sent again with the next bound product.
    pub fn product(&mut self) -> &mut Gemm<'a, T> {
        self.sent_at = None;
        self.product
    }
}
