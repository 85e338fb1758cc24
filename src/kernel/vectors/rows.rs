//! The CPU bodies of row-wise operations on multivectors in host memory. Each element depends on its own row only, so the split of
//! rows does not enter.

use rayon::prelude::*;
use rowloom_cpu::{Combination, Isa, Multiplication};

use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};

/// Bytes of Y that a thread computes at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Least elements of a row that the loops get; shorter contiguous rows are joined.
const JOINED_ELEMENTS: usize = 64;

/// A factor of a multivector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Factor<'a, T> {
    /// One number for all columns.
    All(T),
    /// One number per column.
    Columns(&'a [T]),
}

impl<T: Kernels> Factor<'_, T> {
    /// The factors of `rows` consecutive rows of `k` columns.
    fn repeated(self, k: usize, rows: usize) -> Result<Vec<T>> {
        match self {
            Self::All(factor) => Ok(vec![factor; k * rows]),
            Self::Columns(factors) if factors.len() == k => Ok(factors.repeat(rows)),
            Self::Columns(factors) => {
                Err(Error::usage(format!("{} factors were given for {k} columns", factors.len())))
            }
        }
    }
}

/// An error unless X and Y have equally many rows.
pub(super) fn same_rows(x_rows: usize, y_rows: usize) -> Result<()> {
    if x_rows != y_rows {
        return Err(Error::usage(format!("X has {x_rows} rows and Y has {y_rows}")));
    }
    Ok(())
}

fn same_shape<T: Kernels>(x: MultiVectorView<'_, T>, y: &MultiVectorViewMut<'_, T>) -> Result<()> {
    same_rows(x.rows(), y.rows())?;
    if x.k() != y.k() {
        return Err(Error::usage(format!("X has {} columns and Y has {}", x.k(), y.k())));
    }
    Ok(())
}

/// Runs `body` on chunks of the rows of Y in parallel, with the number of each chunk's first row.
fn in_chunks<T: Kernels>(
    y: MultiVectorViewMut<'_, T>,
    body: impl Fn(usize, MultiVectorViewMut<'_, T>) + Sync + Send,
) {
    let (rows, k, leading_dimension) = (y.rows(), y.k(), y.leading_dimension());
    if rows == 0 || k == 0 {
        return;
    }
    let chunk_rows = (CHUNK_BYTES / (leading_dimension * size_of::<T>())).max(1);
    // Elements after the last row's last column are not part of any row.
    let used = (rows - 1) * leading_dimension + k;
    let data = &mut y.into_data()[..used];
    data.par_chunks_mut(chunk_rows * leading_dimension).enumerate().for_each(|(chunk, data)| {
        let first = chunk * chunk_rows;
        let rows = chunk_rows.min(rows - first);
        // The chunk has its rows, so the view is valid.
        if let Ok(view) = MultiVectorViewMut::try_new(data, rows, k, leading_dimension) {
            body(first, view);
        }
    });
}

/// Sets all elements of Y.
pub fn fill<T: Kernels>(value: T, y: MultiVectorViewMut<'_, T>) {
    in_chunks(y, |_, mut y| (0..y.rows()).for_each(|row| y.row_mut(row).fill(value)));
}

/// Copies X to Y.
pub fn copy<T: Kernels>(x: MultiVectorView<'_, T>, y: MultiVectorViewMut<'_, T>) -> Result<()> {
    same_shape(x, &y)?;
    in_chunks(y, |first, mut y| {
        (0..y.rows()).for_each(|row| y.row_mut(row).copy_from_slice(x.row(first + row)));
    });
    Ok(())
}

/// Row `i` of Y becomes row `list[i]` of X.
pub fn gather_rows<T: Kernels>(
    list: &[u32],
    x: MultiVectorView<'_, T>,
    y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    check_list(list, x.rows(), y.rows())?;
    in_chunks(y, |first, mut y| {
        for row in 0..y.rows() {
            y.row_mut(row).copy_from_slice(x.row(list[first + row] as usize));
        }
    });
    Ok(())
}

/// Row `list[i]` of Y becomes row `i` of X; the other rows of Y keep their values.
pub fn scatter_rows<T: Kernels>(
    list: &[u32],
    x: MultiVectorView<'_, T>,
    mut y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    check_list(list, y.rows(), x.rows())?;
    for (row, &to) in list.iter().enumerate() {
        y.row_mut(to as usize).copy_from_slice(x.row(row));
    }
    Ok(())
}

fn check_list(list: &[u32], listed_rows: usize, packed_rows: usize) -> Result<()> {
    same_rows(packed_rows, list.len())?;
    match list.iter().find(|&&row| row as usize >= listed_rows) {
        Some(row) => Err(Error::Internal(format!("row {row} is listed, but there are {listed_rows} rows"))),
        None => Ok(()),
    }
}

/// Y = X alpha, where alpha is one number or one per column. Y is not read.
pub fn scaled<T: Kernels>(
    alpha: Factor<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    combined(alpha, Some(x), None, y)
}

/// Y = Y alpha in place.
pub fn scale<T: Kernels>(alpha: Factor<'_, T>, y: MultiVectorViewMut<'_, T>) -> Result<()> {
    combined(alpha, None, None, y)
}

/// Y = X alpha + Y beta, computed as `fma(alpha, x, beta * y)`. Y is read whatever beta is; use [`scaled`] for a beta of zero.
pub fn axpby<T: Kernels>(
    alpha: Factor<'_, T>,
    x: MultiVectorView<'_, T>,
    beta: Factor<'_, T>,
    y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    combined(alpha, Some(x), Some(beta), y)
}

/// As [`axpby`], without the second term if there is no beta, and with X = Y if there is no X.
#[allow(unsafe_code)] // calls SIMD leaves
fn combined<T: Kernels>(
    alpha: Factor<'_, T>,
    x: Option<MultiVectorView<'_, T>>,
    beta: Option<Factor<'_, T>>,
    y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    if let Some(x) = x {
        same_shape(x, &y)?;
    }
    let k = y.k();
    let packed = y.leading_dimension() == k && x.is_none_or(|x| x.leading_dimension() == k);
    let joined = if packed { JOINED_ELEMENTS.div_ceil(k.max(1)) } else { 1 };
    let alphas = alpha.repeated(k, joined)?;
    let betas = beta.map(|beta| beta.repeated(k, joined)).transpose()?.unwrap_or_default();
    let bodies = T::multivector_bodies(Isa::detect());
    in_chunks(y, |first, mut y| {
        let (rows, ldy) = (y.rows(), y.leading_dimension());
        let y = y.data_mut().as_mut_ptr();
        let (x, ldx) = match x {
            Some(x) => (x.data()[first * x.leading_dimension()..].as_ptr(), x.leading_dimension()),
            None => (y.cast_const(), ldy),
        };
        let run = |row: usize, rows: usize, together: usize| {
            let job = Combination {
                rows,
                columns: together * k,
                x: x.wrapping_add(row * ldx),
                ldx: together * ldx,
                y: y.wrapping_add(row * ldy),
                ldy: together * ldy,
                alphas: alphas.as_ptr(),
                betas: betas.as_ptr(),
            };
            let body = if beta.is_some() { bodies.combine } else { bodies.scale };
            // SAFETY: the views hold the rows, of which `together` are contiguous; there are as many factors; X and Y are the
            // same or separate borrows; and the bodies are for this processor.
            unsafe { body(&job) }
        };
        let (whole, rest) = (rows / joined, rows % joined);
        run(0, whole, joined);
        if rest > 0 {
            run(whole * joined, 1, rest);
        }
    });
    Ok(())
}

/// Y = X S + beta Y, where S is small. Each element is a chain of fused multiply-adds over the columns of X in order, which starts
/// at `beta * y`, or at +0 without reading Y if there is no beta.
#[allow(unsafe_code)] // calls SIMD leaves
pub fn times<T: Kernels>(
    x: MultiVectorView<'_, T>,
    s: MultiVectorView<'_, T>,
    beta: Option<T>,
    y: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    same_rows(x.rows(), y.rows())?;
    if s.rows() != x.k() || s.k() != y.k() {
        return Err(Error::usage(format!(
            "a product of {} columns to {} columns needs a small matrix of that shape; it is {} × {}",
            x.k(),
            y.k(),
            s.rows(),
            s.k()
        )));
    }
    let bodies = T::multivector_bodies(Isa::detect());
    in_chunks(y, |first, mut y| {
        let job = Multiplication {
            rows: y.rows(),
            columns: s.k(),
            depth: s.rows(),
            a: x.data()[first * x.leading_dimension()..].as_ptr(),
            row_stride: x.leading_dimension(),
            depth_stride: 1,
            b: s.data().as_ptr(),
            ldb: s.leading_dimension(),
            ldc: y.leading_dimension(),
            c: y.data_mut().as_mut_ptr(),
            beta,
        };
        // SAFETY: the views hold their rows, Y is a separate borrow, and the bodies are for this processor.
        unsafe { (bodies.multiply)(&job) }
    });
    Ok(())
}
