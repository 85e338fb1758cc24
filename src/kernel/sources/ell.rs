//! The CPU kernels on both ELLPACK formats: A in the format, and how it is multiplied.
//!
//! Serial kernels compute one element at a time, in the order of the reference. Parallel ones run the inner loops of `cpu_csr`.

use crate::error::Result;
use crate::kernel::KernelId;
use crate::kernel::cpu::{Kernels, RowLayout, RowsObserver, RowsPlan};
use crate::kernel::reference::{element, fill};
use crate::kernel::scaling::Scaling;
use crate::matrix::convert::{csr_to_ell_padded, csr_to_ell_unpadded};
use crate::matrix::ell::PADDING;
use crate::matrix::{CsrView, EllPadded, EllUnpadded, MultiVectorView, MultiVectorViewMut, Scalar};

/// A kernel on ELLPACK, prepared for one matrix.
pub enum EllKernel<T: Kernels> {
    SerialPadded(EllPadded<T>),
    SerialUnpadded(EllUnpadded<T>),
    Padded(PaddedRows<T>, RowsPlan<T>),
    Unpadded(EllUnpadded<T>, RowsPlan<T>),
}

/// Padded ELLPACK with the start and the length of each row, found once when the product is prepared.
pub struct PaddedRows<T> {
    matrix: EllPadded<T>,
    starts: Vec<u64>,
    lengths: Vec<u32>,
}

impl<T: Kernels> EllKernel<T> {
    /// Converts `matrix` to the format of `kernel` and plans the execution with `plan`; none if it is not a kernel on ELLPACK. Fails if
    /// padding would exceed `memory_limit_bytes`.
    pub fn prepare(
        kernel: KernelId,
        matrix: &CsrView<'_, T>,
        memory_limit_bytes: u64,
        plan: impl FnOnce(RowLayout<'_, T>) -> Result<RowsPlan<T>>,
    ) -> Result<Option<Self>> {
        Ok(Some(match kernel {
            KernelId::SerialEllPadded => Self::SerialPadded(csr_to_ell_padded(matrix, memory_limit_bytes)?),
            KernelId::SerialEllUnpadded => Self::SerialUnpadded(csr_to_ell_unpadded(matrix)?),
            KernelId::CpuEllPadded => {
                let padded = PaddedRows::new(csr_to_ell_padded(matrix, memory_limit_bytes)?);
                let plan = plan(padded.layout())?;
                Self::Padded(padded, plan)
            }
            KernelId::CpuEllUnpadded => {
                let unpadded = csr_to_ell_unpadded(matrix)?;
                let plan = plan(unpadded_layout(&unpadded))?;
                Self::Unpadded(unpadded, plan)
            }
            _ => return Ok(None),
        }))
    }

    /// The plan of a parallel kernel.
    pub fn plan(&self) -> Option<&RowsPlan<T>> {
        match self {
            Self::Padded(_, plan) | Self::Unpadded(_, plan) => Some(plan),
            Self::SerialPadded(_) | Self::SerialUnpadded(_) => None,
        }
    }

    /// Computes `y = alpha A x + beta y`. Returns whether `observer` has seen all rows of Y, or none of them.
    pub fn run(
        &mut self,
        scaling: Scaling<T>,
        x: MultiVectorView<'_, T>,
        mut y: MultiVectorViewMut<'_, T>,
        observer: Option<&dyn RowsObserver<T>>,
    ) -> Result<bool> {
        match self {
            Self::SerialPadded(matrix) => serial_padded(matrix, scaling, x, &mut y).map(|()| false),
            Self::SerialUnpadded(matrix) => serial_unpadded(matrix, scaling, x, &mut y).map(|()| false),
            Self::Padded(padded, plan) => plan.run(padded.layout(), scaling, x, y, observer),
            Self::Unpadded(matrix, plan) => plan.run(unpadded_layout(matrix), scaling, x, y, observer),
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

/// `y = alpha A x + beta y` with A in padded ELLPACK; each row ends at its first padding entry.
fn serial_padded<T: Scalar>(
    a: &EllPadded<T>,
    scaling: Scaling<T>,
    x: MultiVectorView<'_, T>,
    y: &mut MultiVectorViewMut<'_, T>,
) -> Result<()> {
    fill(a.rows(), a.cols(), scaling, x, y, |row, k| {
        let slots = row * a.width()..(row + 1) * a.width();
        let columns = &a.columns()[slots.clone()];
        let length = columns.iter().position(|&column| column == PADDING).unwrap_or(columns.len());
        element(&columns[..length], &a.values()[slots][..length], &x, k)
    })
}

/// `y = alpha A x + beta y` with A in ELLPACK without padding.
fn serial_unpadded<T: Scalar>(
    a: &EllUnpadded<T>,
    scaling: Scaling<T>,
    x: MultiVectorView<'_, T>,
    y: &mut MultiVectorViewMut<'_, T>,
) -> Result<()> {
    fill(a.rows(), a.cols(), scaling, x, y, |row, k| {
        let start = a.row_starts()[row] as usize;
        let range = start..start + a.row_lengths()[row] as usize;
        element(&a.columns()[range.clone()], &a.values()[range], &x, k)
    })
}
