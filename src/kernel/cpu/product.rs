//! Y = A X, scaled or not, with any CPU kernel: prepared once, run any number of times.

use std::ops::Range;

use rayon::prelude::*;
use rowloom_cpu::takes_uniform;

use super::Kernels;
use super::observed::RowsObserver;
use super::row_layout::RowLayout;
use super::rows_plan::{CpuSettings, RowsPlan};
use super::sell_plan::{SellPlan, slicing};
use super::tuning::Tuning;
use crate::error::{Advice, Error, Result};
use crate::kernel::KernelId;
use crate::kernel::reference;
use crate::kernel::scaling::{Scaling, scaling};
use crate::kernel::sources::ell::EllKernel;
use crate::matrix::{CsrView, MultiVectorView, MultiVectorViewMut, SlicedEll};

/// A product prepared for one CPU kernel: A in the kernel's format, and the plan of its execution.
pub struct CpuProduct<'a, T: Kernels> {
    matrix: CsrView<'a, T>,
    prepared: PreparedKernel<T>,
}

/// A CPU kernel prepared for one matrix, which every run passes again: the owner of the matrix can hold both.
pub(crate) struct PreparedKernel<T: Kernels> {
    kernel: KernelId,
    matrix: Identity,
    stored: Stored<T>,
    reason: String,
}

/// The addresses and lengths of the arrays of a matrix. The plan of an execution is valid for these arrays only.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    row_pointers: (usize, usize),
    columns: (usize, usize),
    cols: usize,
}

impl Identity {
    fn of<T: Kernels>(matrix: &CsrView<'_, T>) -> Self {
        let (pointers, columns) = (matrix.row_pointers(), matrix.columns());
        Self {
            row_pointers: (pointers.as_ptr() as usize, pointers.len()),
            columns: (columns.as_ptr() as usize, columns.len()),
            cols: matrix.cols(),
        }
    }

    fn rows(&self) -> usize {
        self.row_pointers.1.saturating_sub(1)
    }
}

enum Stored<T: Kernels> {
    SerialCsr,
    Csr(RowsPlan<T>),
    Ell(EllKernel<T>),
    Sell(SlicedEll<T>, SellPlan<T>),
}

impl<T: Kernels> Stored<T> {
    /// The plan of a kernel that computes by rows on all cores.
    fn rows_plan(&self) -> Option<&RowsPlan<T>> {
        match self {
            Self::Csr(plan) => Some(plan),
            Self::Ell(kernel) => kernel.plan(),
            Self::SerialCsr | Self::Sell(..) => None,
        }
    }
}

impl<'a, T: Kernels> CpuProduct<'a, T> {
    /// Converts `matrix` to the format of `kernel` and plans the execution, in the rayon pool of the caller.
    ///
    /// Fails if `kernel` is a GPU kernel, or if padding would exceed `memory_limit_bytes`.
    pub fn prepare(
        matrix: CsrView<'a, T>,
        kernel: KernelId,
        settings: CpuSettings,
        memory_limit_bytes: u64,
    ) -> Result<Self> {
        let prepared = PreparedKernel::new(matrix, kernel, settings, memory_limit_bytes)?;
        Ok(Self { matrix, prepared })
    }

    /// The kernel.
    pub fn kernel(&self) -> KernelId {
        self.prepared.kernel
    }

    /// What the kernel does, and why rows are ordered, grouped, stored or prefetched as they are.
    pub fn reason(&self) -> &str {
        self.prepared.reason()
    }

    /// The row ranges that are the units of scheduling among threads.
    pub fn pieces(&self) -> Vec<Range<usize>> {
        self.prepared.pieces()
    }

    /// Rows that are too long for one thread; their spans are divided among threads.
    pub fn hub_rows(&self) -> &[usize] {
        self.prepared.hub_rows()
    }

    /// Computes `y = A x` in the rayon pool of the caller.
    pub fn run(&mut self, x: MultiVectorView<'_, T>, y: MultiVectorViewMut<'_, T>) -> Result<()> {
        self.prepared.run(self.matrix, x, y)
    }

    /// Computes `y = alpha A x + beta y` in the rayon pool of the caller, as [`scaling`](crate::kernel::scaling) defines it. The
    /// old `y` has no effect if beta is zero.
    pub fn run_scaled(
        &mut self,
        alpha: f64,
        x: MultiVectorView<'_, T>,
        beta: f64,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        self.prepared.run_scaled(self.matrix, scaling(alpha, beta), x, y, None).map(drop)
    }
}

impl<T: Kernels> PreparedKernel<T> {
    /// Converts `matrix` to the format of `kernel` and plans the execution, in the rayon pool of the caller.
    pub fn new(
        matrix: CsrView<'_, T>,
        kernel: KernelId,
        settings: CpuSettings,
        memory_limit_bytes: u64,
    ) -> Result<Self> {
        let mut reasons = Vec::new();
        let mut plan = |layout: RowLayout<'_, T>| {
            let uniform = takes_uniform(settings.isa) && all_equal(layout);
            let (tuning, why) = Tuning::choose(layout, settings.k, uniform);
            reasons = why;
            RowsPlan::new(layout, settings, tuning, uniform)
        };
        let stored = match kernel {
            KernelId::SerialCsr => Stored::SerialCsr,
            KernelId::CpuCsr => Stored::Csr(plan(RowLayout::from(matrix))?),
            KernelId::CpuSell => {
                let sliced = SlicedEll::from_csr(matrix, slicing::<T>(), memory_limit_bytes)?;
                let plan = SellPlan::new(&sliced, settings)?;
                Stored::Sell(sliced, plan)
            }
            _ => {
                let needs_gpu = || {
                    let reason = format!("kernel {} needs a GPU", kernel.name());
                    Error::usage(reason).advise([Advice::AddGpu])
                };
                let prepared = EllKernel::prepare(kernel, &matrix, memory_limit_bytes, plan)?;
                Stored::Ell(prepared.ok_or_else(needs_gpu)?)
            }
        };
        let mut reason = kernel.info().summary.to_string();
        for why in reasons {
            reason.push_str("; ");
            reason.push_str(why);
        }
        Ok(Self { kernel, matrix: Identity::of(&matrix), stored, reason })
    }

    /// What the kernel does, and why rows are ordered, grouped, stored or prefetched as they are.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether a run of a parallel kernel uses one thread only, because the product is small.
    pub fn is_serial(&self) -> bool {
        match &self.stored {
            Stored::Sell(_, plan) => plan.is_serial(),
            stored => stored.rows_plan().is_some_and(RowsPlan::is_serial),
        }
    }

    fn pieces(&self) -> Vec<Range<usize>> {
        let rows = self.matrix.rows();
        match &self.stored {
            Stored::Sell(_, plan) => plan.pieces(rows),
            stored => match stored.rows_plan() {
                Some(plan) => plan.pieces(),
                None => std::iter::once(0..rows).collect(),
            },
        }
    }

    fn hub_rows(&self) -> &[usize] {
        self.stored.rows_plan().map_or(&[], RowsPlan::hub_rows)
    }

    /// Computes `y = A x` in the rayon pool of the caller. `matrix` must be the matrix that the kernel was prepared for.
    pub fn run(
        &mut self,
        matrix: CsrView<'_, T>,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        self.run_scaled(matrix, scaling(1.0, 0.0), x, y, None).map(drop)
    }

    /// Computes `y = alpha A x + beta y` in the rayon pool of the caller, as [`scaling`](crate::kernel::scaling) defines it. The
    /// old `y` has no effect if beta is zero. `matrix` must be the matrix that the kernel was prepared for. Returns whether `observer`
    /// has seen all rows of Y, or none of them.
    pub fn run_scaled(
        &mut self,
        matrix: CsrView<'_, T>,
        scaling: Scaling<T>,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
        observer: Option<&dyn RowsObserver<T>>,
    ) -> Result<bool> {
        if Identity::of(&matrix) != self.matrix {
            return Err(Error::Internal("a prepared kernel was given another matrix".into()));
        }
        let unseen = |result: Result<()>| result.map(|()| false);
        match &mut self.stored {
            Stored::SerialCsr => unseen(reference::csr_scaled(matrix, scaling, x, &mut y)),
            Stored::Csr(plan) => plan.run(RowLayout::from(matrix), scaling, x, y, observer),
            Stored::Ell(kernel) => kernel.run(scaling, x, y, observer),
            Stored::Sell(matrix, plan) => unseen(plan.run(matrix, scaling, x, y)),
        }
    }
}

/// Whether all values of the layout's rows are equal bit for bit (-0 differs from 0) to the first value of its array.
fn all_equal<T: Kernels>(layout: RowLayout<'_, T>) -> bool {
    let Some(first) = layout.values.first() else { return false };
    let first = bytemuck::bytes_of(first);
    let values = match (layout.lengths, layout.starts) {
        (None, [begin, .., end]) => &layout.values[*begin as usize..*end as usize],
        _ => layout.values,
    };
    values.par_chunks(1 << 16).all(|part| part.iter().all(|value| bytemuck::bytes_of(value) == first))
}
