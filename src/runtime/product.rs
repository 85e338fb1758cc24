//! A product on the CPU: [`prepare`] decides and allocates, [`Prepared::run`] does neither.

use super::pool::Pool;
use crate::error::{Error, Result};
use crate::kernel::cpu::{CpuProduct, CpuSettings, Kernels};
use crate::kernel::{KernelId, Order, Schedule};
use crate::machine::Isa;
use crate::matrix::{CsrView, MultiVectorView, MultiVectorViewMut};

/// How A is to be stored while products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatChoice {
    /// As the kernel wants it.
    #[default]
    Auto,
    /// Compressed sparse rows.
    Csr,
    /// Padded ELLPACK.
    Ell,
    /// Sliced ELLPACK.
    Sell,
}

/// What the caller insists on.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// A kernel, or the one that suits the format.
    pub kernel: Option<KernelId>,
    /// A format, or the kernel's own.
    pub format: FormatChoice,
    /// How rows are shared out.
    pub schedule: Schedule,
    /// Most memory that another format of A may take.
    pub memory_limit_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kernel: None,
            format: FormatChoice::Auto,
            schedule: Schedule::Balanced,
            memory_limit_bytes: u64::MAX,
        }
    }
}

impl Options {
    /// The kernel to take; an error where kernel and format contradict each other.
    fn resolve(&self) -> Result<KernelId> {
        let of_format = match self.format {
            FormatChoice::Auto => None,
            FormatChoice::Csr => Some(KernelId::CpuCsr),
            FormatChoice::Ell => Some(KernelId::CpuEllPadded),
            FormatChoice::Sell => Some(KernelId::CpuSell),
        };
        match (self.kernel, of_format) {
            (None, None) => Ok(KernelId::CpuCsr),
            (None, Some(kernel)) | (Some(kernel), None) => Ok(kernel),
            (Some(kernel), Some(other)) if kernel.info().format == other.info().format => Ok(kernel),
            (Some(kernel), Some(other)) => Err(Error::Usage(format!(
                "kernel {} reads {}, not {}; leave --format out",
                kernel.name(),
                kernel.info().format.name(),
                other.info().format.name()
            ))),
        }
    }
}

/// Consecutive rows, who computes them and why so.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Chunk {
    /// First row.
    pub row_start: usize,
    /// Row behind the last.
    pub row_end: usize,
    /// Nonzeros of the rows.
    pub nnz: usize,
    /// Where they are computed.
    pub device: &'static str,
    /// The kernel's name.
    pub kernel: &'static str,
    /// How the rows are stored.
    pub format: &'static str,
    /// How the kernel adds up a row.
    pub order: Order,
    /// Why this kernel and why this way.
    pub reason: String,
    /// Seconds it should take, where a model says so.
    pub predicted_s: Option<f64>,
    /// Seconds it took, where that was measured.
    pub measured_s: Option<f64>,
}

/// A product that can be run again and again.
pub struct Prepared<'a, T: Kernels> {
    pool: &'a Pool,
    matrix: CsrView<'a, T>,
    product: CpuProduct<'a, T>,
}

/// Decides how to compute `matrix` times multivectors of `k` columns on `pool`.
pub fn prepare<'a, T: Kernels>(
    pool: &'a Pool,
    matrix: CsrView<'a, T>,
    k: usize,
    options: &Options,
) -> Result<Prepared<'a, T>> {
    let kernel = options.resolve()?;
    let settings = CpuSettings { k, threads: pool.threads(), isa: Isa::detect(), schedule: options.schedule };
    let limit = options.memory_limit_bytes;
    let product = pool.install(|| CpuProduct::prepare(matrix, kernel, settings, limit))?;
    Ok(Prepared { pool, matrix, product })
}

impl<T: Kernels> Prepared<'_, T> {
    /// Computes `y = A x`.
    ///
    /// Called outside the pool, each run hands over to it and waits; a loop of short runs is faster inside
    /// [`Pool::install`].
    pub fn run(&mut self, x: MultiVectorView<'_, T>, y: MultiVectorViewMut<'_, T>) -> Result<()> {
        let Self { pool, product, .. } = self;
        pool.install(|| product.run(x, y))
    }

    /// The kernel that was chosen.
    pub fn kernel(&self) -> KernelId {
        self.product.kernel()
    }

    /// Rows that are cut into segments and shared out among threads.
    pub fn hub_rows(&self) -> &[usize] {
        self.product.hub_rows()
    }

    /// The pieces that threads take, in the order of their rows.
    pub fn chunks(&self) -> Vec<Chunk> {
        let pointers = self.matrix.row_pointers();
        let info = self.product.kernel().info();
        self.product
            .pieces()
            .into_iter()
            .map(|rows| Chunk {
                row_start: rows.start,
                row_end: rows.end,
                nnz: (pointers[rows.end] - pointers[rows.start]) as usize,
                device: "cpu",
                kernel: info.name,
                format: info.format.name(),
                order: info.order,
                reason: self.product.reason().to_string(),
                predicted_s: None,
                measured_s: None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_and_another_format_contradict_each_other() {
        let options = |kernel, format| Options { kernel, format, ..Options::default() };
        let both = |kernel, format| options(Some(kernel), format).resolve();
        assert_eq!(options(None, FormatChoice::Auto).resolve().unwrap(), KernelId::CpuCsr);
        assert_eq!(options(None, FormatChoice::Sell).resolve().unwrap(), KernelId::CpuSell);
        assert_eq!(both(KernelId::SerialCsr, FormatChoice::Csr).unwrap(), KernelId::SerialCsr);
        assert!(both(KernelId::CpuSell, FormatChoice::Csr).is_err());
    }
}
