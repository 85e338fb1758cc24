//! Sums, means and variances of the columns of a dense matrix: built once, computed any number of times.

use std::sync::atomic::AtomicBool;

use super::colmean_job::ColmeanJob;
use crate::error::{Error, Result};
use crate::kernel::KindOfWork;
use crate::kernel::colmean::Totals;
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorView};
use crate::runtime::Runtime;
use crate::runtime::dense::builder::DenseBuilder;
use crate::runtime::dense::operand::DenseOperand;
use crate::runtime::dense::planned_work::DenseWork;
use crate::runtime::job::Scaling;
use crate::work::Kind;
use crate::work::colmean::Colmean;

/// The sums of the columns of one matrix.
pub type ColumnSums<'a, T> = DenseWork<'a, ColmeanJob<'a, T>>;

/// Builds [`ColumnSums`].
pub type ColumnSumsBuilder<'a, T> = DenseBuilder<'a, T, Colmean>;

impl Runtime {
    /// Sums of the columns of `a`.
    pub fn column_sums<'a, T: Kernels>(&self, a: impl Into<DenseOperand<'a, T>>) -> ColumnSumsBuilder<'a, T> {
        let a = a.into();
        let (rows, columns) = (a.view().rows(), a.view().k());
        DenseBuilder::new(self.clone(), a, Colmean { rows, columns, dtype: T::DTYPE, deviations: false })
    }
}

impl<'a, T: Kernels> ColumnSumsBuilder<'a, T> {
    /// Whether the squared deviations from the means are computed too, which variances need.
    #[must_use]
    pub fn deviations(mut self, deviations: bool) -> Self {
        self.work.deviations = deviations;
        self
    }

    /// The kernel of that name, as `rowloom colmean --kernel` takes it.
    pub fn kernel(self, name: &str) -> Result<Self> {
        Ok(self.kernel_id(KindOfWork::Colmean.kernel(name)?))
    }

    /// Makes the plan. Devices are opened with the first run.
    pub fn build(self) -> Result<ColumnSums<'a, T>> {
        DenseWork::new(self)
    }
}

impl<'a, T: Kernels> ColumnSums<'a, T> {
    /// Computes the sums.
    pub fn apply(&mut self) -> Result<Totals> {
        let totals = self.apply_until(None)?;
        totals.ok_or_else(|| Error::Internal("the sums of columns were not merged".into()))
    }

    /// The same; `None` if `cancel` was set meanwhile.
    #[doc(hidden)]
    pub fn apply_until(&mut self, cancel: Option<&AtomicBool>) -> Result<Option<Totals>> {
        let (rows, k) = (Kind::rows(&self.work), self.work.k());
        let x = MultiVectorView::try_new(&[], 0, k, k)?;
        // The row that partial results belong to. Its values are in double precision: the totals.
        let mut y = MultiVector::zeros(rows, k)?;
        let mut y = y.view_mut();
        let registrations = self.register(x, &mut y)?;
        self.run(Scaling::NONE, (x, false), y, cancel)?;
        drop(registrations);
        let totals = self.prepared()?.job.take_totals();
        Ok(totals.or_else(|| (rows == 0).then(|| Totals::none(self.work.columns))))
    }
}
