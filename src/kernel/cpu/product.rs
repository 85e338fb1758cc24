//! Y = A X, scaled or not, with any CPU kernel: prepared once, run any number of times.

use std::ops::Range;

use rayon::prelude::*;
use rowloom_cpu::takes_uniform;

use super::Kernels;
use super::layout::RowLayout;
use super::observed::RowsObserver;
use super::rows_plan::{CpuSettings, RowsPlan};
use super::sell_plan::{SellPlan, slicing};
use super::tuning::Tuning;
use crate::error::{Advice, Error, Result};
use crate::kernel::KernelId;
use crate::kernel::reference;
use crate::kernel::scaling::scaling;
use crate::matrix::convert::{csr_to_ell_padded, csr_to_ell_unpadded};
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, EllPadded, EllUnpadded, MultiVectorView, MultiVectorViewMut, SlicedEll};

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
    SerialEllPadded(EllPadded<T>),
    SerialEllUnpadded(EllUnpadded<T>),
    Csr(RowsPlan<T>),
    EllPadded(PaddedRows<T>, RowsPlan<T>),
    EllUnpadded(EllUnpadded<T>, RowsPlan<T>),
    Sell(SlicedEll<T>, SellPlan<T>),
}

/// Padded ELLPACK with the start and the length of each row, found once when the product is prepared.
struct PaddedRows<T> {
    matrix: EllPadded<T>,
    starts: Vec<u64>,
    lengths: Vec<u32>,
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
        self.prepared.run_scaled(self.matrix, alpha, x, beta, y, None).map(drop)
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
            KernelId::SerialEllPadded => {
                Stored::SerialEllPadded(csr_to_ell_padded(&matrix, memory_limit_bytes)?)
            }
            KernelId::SerialEllUnpadded => Stored::SerialEllUnpadded(csr_to_ell_unpadded(&matrix)?),
            KernelId::CpuCsr => Stored::Csr(plan(RowLayout::from(matrix))?),
            KernelId::CpuEllPadded => {
                let padded = PaddedRows::new(csr_to_ell_padded(&matrix, memory_limit_bytes)?);
                let plan = plan(padded.layout())?;
                Stored::EllPadded(padded, plan)
            }
            KernelId::CpuEllUnpadded => {
                let unpadded = csr_to_ell_unpadded(&matrix)?;
                let plan = plan(unpadded_layout(&unpadded))?;
                Stored::EllUnpadded(unpadded, plan)
            }
            KernelId::CpuSell => {
                let sliced = SlicedEll::from_csr(matrix, slicing::<T>(), memory_limit_bytes)?;
                let plan = SellPlan::new(&sliced, settings)?;
                Stored::Sell(sliced, plan)
            }
            _ => {
                let reason = format!("kernel {} needs a GPU", kernel.name());
                return Err(Error::usage(reason).advise([Advice::AddGpu]));
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
            Stored::Csr(plan) | Stored::EllPadded(_, plan) | Stored::EllUnpadded(_, plan) => plan.is_serial(),
            Stored::Sell(_, plan) => plan.is_serial(),
            _ => false,
        }
    }

    fn pieces(&self) -> Vec<Range<usize>> {
        match &self.stored {
            Stored::Csr(plan) | Stored::EllPadded(_, plan) | Stored::EllUnpadded(_, plan) => plan.pieces(),
            Stored::Sell(_, plan) => plan.pieces(self.matrix.rows()),
            _ => std::iter::once(0..self.matrix.rows()).collect(),
        }
    }

    fn hub_rows(&self) -> &[usize] {
        match &self.stored {
            Stored::Csr(plan) | Stored::EllPadded(_, plan) | Stored::EllUnpadded(_, plan) => plan.hub_rows(),
            _ => &[],
        }
    }

    /// Computes `y = A x` in the rayon pool of the caller. `matrix` must be the matrix that the kernel was prepared for.
    pub fn run(
        &mut self,
        matrix: CsrView<'_, T>,
        x: MultiVectorView<'_, T>,
        y: MultiVectorViewMut<'_, T>,
    ) -> Result<()> {
        self.run_scaled(matrix, 1.0, x, 0.0, y, None).map(drop)
    }

    /// Computes `y = alpha A x + beta y` in the rayon pool of the caller, as [`scaling`](crate::kernel::scaling) defines it. The
    /// old `y` has no effect if beta is zero. `matrix` must be the matrix that the kernel was prepared for. Returns whether `observer`
    /// has seen all rows of Y, or none of them.
    pub fn run_scaled(
        &mut self,
        matrix: CsrView<'_, T>,
        alpha: f64,
        x: MultiVectorView<'_, T>,
        beta: f64,
        mut y: MultiVectorViewMut<'_, T>,
        observer: Option<&dyn RowsObserver<T>>,
    ) -> Result<bool> {
        if Identity::of(&matrix) != self.matrix {
            return Err(Error::Internal("a prepared kernel was given another matrix".into()));
        }
        let scaling = scaling::<T>(alpha, beta);
        let unseen = |result: Result<()>| result.map(|()| false);
        match &mut self.stored {
            Stored::SerialCsr => unseen(reference::csr_scaled(matrix, scaling, x, &mut y)),
            Stored::SerialEllPadded(matrix) => unseen(reference::ell_padded(matrix, scaling, x, &mut y)),
            Stored::SerialEllUnpadded(matrix) => unseen(reference::ell_unpadded(matrix, scaling, x, &mut y)),
            Stored::Csr(plan) => plan.run(RowLayout::from(matrix), scaling, x, y, observer),
            Stored::EllPadded(padded, plan) => plan.run(padded.layout(), scaling, x, y, observer),
            Stored::EllUnpadded(matrix, plan) => plan.run(unpadded_layout(matrix), scaling, x, y, observer),
            Stored::Sell(matrix, plan) => unseen(plan.run(matrix, scaling, x, y)),
        }
    }
}

impl<T: Kernels> PaddedRows<T> {
    fn new(matrix: EllPadded<T>) -> Self {
        let width = matrix.width();
        let starts = (0..matrix.rows() as u64).map(|row| row * width as u64).collect();
        let lengths = (0..matrix.rows())
            .map(|row| {
                let slots = &matrix.columns()[row * width..(row + 1) * width];
                slots.partition_point(|&column| column != PADDING) as u32
            })
            .collect();
        Self { matrix, starts, lengths }
    }

    fn layout(&self) -> RowLayout<'_, T> {
        RowLayout {
            cols: self.matrix.cols(),
            starts: &self.starts,
            lengths: Some(&self.lengths),
            columns: self.matrix.columns(),
            values: self.matrix.values(),
            stride: 1,
        }
    }
}

fn unpadded_layout<T: Kernels>(matrix: &EllUnpadded<T>) -> RowLayout<'_, T> {
    RowLayout {
        cols: matrix.cols(),
        starts: matrix.row_starts(),
        lengths: Some(matrix.row_lengths()),
        columns: matrix.columns(),
        values: matrix.values(),
        stride: 1,
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
