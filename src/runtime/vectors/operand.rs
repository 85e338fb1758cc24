//! X and Y as a caller has them: slices, multivectors or views in host memory, or vectors that stay on devices.

use super::Vectors;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorView, MultiVectorViewMut};
use crate::runtime::job::PageLockedMultiVector;

/// X of a caller.
pub enum InputOperand<'a, T: Kernels> {
    /// Packed rows.
    Slice(&'a [T]),
    /// A view of host memory.
    View(MultiVectorView<'a, T>),
    /// Rows on devices.
    Vectors(&'a Vectors<T>),
}

/// Y of a caller.
pub enum OutputOperand<'a, T: Kernels> {
    /// Packed rows.
    Slice(&'a mut [T]),
    /// A view of host memory.
    View(MultiVectorViewMut<'a, T>),
    /// Rows on devices.
    Vectors(&'a mut Vectors<T>),
}

/// Something that can be X: a packed row-major slice, a multivector, a view, or [`Vectors`].
pub trait Input<T: Kernels> {
    /// Itself as an operand.
    #[doc(hidden)]
    fn operand(&self) -> InputOperand<'_, T>;

    /// Whether it is in page-locked memory, which devices copy without a copy by the host.
    #[doc(hidden)]
    fn is_page_locked(&self) -> bool {
        false
    }
}

/// Something that can be Y.
pub trait Output<T: Kernels> {
    /// Itself as an operand.
    #[doc(hidden)]
    fn operand(&mut self) -> OutputOperand<'_, T>;

    /// Whether it is in page-locked memory, which devices write without a copy by the host.
    #[doc(hidden)]
    fn is_page_locked(&self) -> bool {
        false
    }
}

/// A view of page-locked memory, such as a part of a [`PageLockedMultiVector`]. Of other memory, copies are slower.
#[derive(Debug)]
pub struct PageLocked<V>(pub V);

impl<T: Kernels, V: Input<T>> Input<T> for PageLocked<V> {
    fn operand(&self) -> InputOperand<'_, T> {
        self.0.operand()
    }

    fn is_page_locked(&self) -> bool {
        true
    }
}

impl<T: Kernels, V: Output<T>> Output<T> for PageLocked<V> {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        self.0.operand()
    }

    fn is_page_locked(&self) -> bool {
        true
    }
}

impl<T: Kernels> Input<T> for PageLockedMultiVector<T> {
    fn operand(&self) -> InputOperand<'_, T> {
        InputOperand::View(self.view())
    }

    fn is_page_locked(&self) -> bool {
        true
    }
}

impl<T: Kernels> Output<T> for PageLockedMultiVector<T> {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        OutputOperand::View(self.view_mut())
    }

    fn is_page_locked(&self) -> bool {
        true
    }
}

/// X in host memory, with `rows` rows and `k` columns.
pub(in crate::internal::runtime) fn host_input<T: Kernels>(
    x: &(impl Input<T> + ?Sized),
    rows: usize,
    k: usize,
) -> Result<MultiVectorView<'_, T>> {
    match x.operand() {
        InputOperand::Slice(values) => MultiVectorView::try_new(values, rows, k, k),
        InputOperand::View(view) => Ok(view),
        InputOperand::Vectors(_) => Err(on_devices("X")),
    }
}

/// Y in host memory, with `rows` rows and `k` columns.
pub(in crate::internal::runtime) fn host_output<T: Kernels>(
    y: &mut (impl Output<T> + ?Sized),
    rows: usize,
    k: usize,
) -> Result<MultiVectorViewMut<'_, T>> {
    match y.operand() {
        OutputOperand::Slice(values) => MultiVectorViewMut::try_new(values, rows, k, k),
        OutputOperand::View(view) => Ok(view),
        OutputOperand::Vectors(_) => Err(on_devices("Y")),
    }
}

fn on_devices(what: &str) -> Error {
    Error::usage(format!("{what} is on devices and must be in host memory; use copy_to or copy_from"))
}

impl<T: Kernels> Input<T> for [T] {
    fn operand(&self) -> InputOperand<'_, T> {
        InputOperand::Slice(self)
    }
}

impl<T: Kernels> Output<T> for [T] {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        OutputOperand::Slice(self)
    }
}

impl<T: Kernels> Input<T> for Vec<T> {
    fn operand(&self) -> InputOperand<'_, T> {
        InputOperand::Slice(self)
    }
}

impl<T: Kernels> Output<T> for Vec<T> {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        OutputOperand::Slice(self)
    }
}

impl<T: Kernels> Input<T> for MultiVector<T> {
    fn operand(&self) -> InputOperand<'_, T> {
        InputOperand::View(self.view())
    }
}

impl<T: Kernels> Output<T> for MultiVector<T> {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        OutputOperand::View(self.view_mut())
    }
}

impl<T: Kernels> Input<T> for MultiVectorView<'_, T> {
    fn operand(&self) -> InputOperand<'_, T> {
        InputOperand::View(*self)
    }
}

impl<T: Kernels> Output<T> for MultiVectorViewMut<'_, T> {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        OutputOperand::View(self.reborrow())
    }
}

impl<T: Kernels> Input<T> for Vectors<T> {
    fn operand(&self) -> InputOperand<'_, T> {
        InputOperand::Vectors(self)
    }
}

impl<T: Kernels> Output<T> for Vectors<T> {
    fn operand(&mut self) -> OutputOperand<'_, T> {
        OutputOperand::Vectors(self)
    }
}
