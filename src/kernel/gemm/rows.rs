//! The product in canonical order on all cores.
//!
//! B is packed in panels of [`PANEL_DEPTH`] rows and [`PANEL_COLUMNS`] columns, which stay in a core's cache while the rows of a task go
//! past them. The chain of an element continues from panel to panel: it is stored and loaded again without rounding.

use std::ops::Range;

use rayon::prelude::*;
use rowloom_cpu::{Isa, Multiplication};

use super::check_shapes;
use crate::error::Result;
use crate::kernel::cpu::Kernels;
use crate::kernel::scaling::Scaling;
use crate::matrix::{MultiVectorView, MultiVectorViewMut};

/// Rows of a panel of B: with the columns of a tile they fill half of a first-level cache.
const PANEL_DEPTH: usize = 256;
/// Columns of a panel of B.
const PANEL_COLUMNS: usize = 64;
/// Fewest and most rows of C of a task. Each task packs B itself, which takes less time than the products of many rows.
const TASK_ROWS: (usize, usize) = (16, 256);
/// Tasks per thread, so that threads end at about the same time.
const TASKS_PER_THREAD: usize = 4;

/// `C = alpha A B + beta C` in canonical order, on the threads of the current pool.
pub fn multiply_rows<T: Kernels>(
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    mut c: MultiVectorViewMut<'_, T>,
) -> Result<()> {
    check_shapes(a, b, &c)?;
    let (rows, columns, ldc) = (c.rows(), c.k(), c.leading_dimension());
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    let tasks = TASKS_PER_THREAD * rayon::current_num_threads();
    if rows < TASK_ROWS.0 * tasks {
        return multiply_columns(scaling, a, b, c, tasks);
    }
    let task_rows = (rows / tasks).next_multiple_of(TASK_ROWS.0).clamp(TASK_ROWS.0, TASK_ROWS.1);
    c.data_mut().par_chunks_mut(task_rows * ldc).enumerate().for_each(|(task, c)| {
        let begin = task * task_rows;
        let a = a.rows_in(begin..(begin + task_rows).min(rows));
        let (mut panel, mut sums) = buffers(a, b, PANEL_COLUMNS.min(columns));
        for first in (0..columns).step_by(PANEL_COLUMNS) {
            let width = PANEL_COLUMNS.min(columns - first);
            let sums = &mut sums[..a.rows() * width];
            sum_panels(a, b, first..first + width, &mut panel, sums);
            for (row, sums) in sums.chunks(width).enumerate() {
                let c = &mut c[row * ldc + first..][..width];
                c.iter_mut().zip(sums).for_each(|(c, &sum)| *c = scaling.apply(sum, *c));
            }
        }
    });
    Ok(())
}

/// The same where there are fewer tasks of rows than threads could run: the columns are divided, so that all threads read B.
fn multiply_columns<T: Kernels>(
    scaling: Scaling<T>,
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    mut c: MultiVectorViewMut<'_, T>,
    tasks: usize,
) -> Result<()> {
    let task_columns = c.k().div_ceil(tasks).next_multiple_of(PANEL_COLUMNS);
    let columns: Vec<Range<usize>> =
        (0..c.k()).step_by(task_columns).map(|first| first..(first + task_columns).min(c.k())).collect();
    let sums: Vec<Vec<Vec<T>>> = columns
        .par_iter()
        .map(|columns| {
            let (mut panel, sums) = buffers(a, b, PANEL_COLUMNS.min(columns.len()));
            let of_panel = |first: usize| {
                let width = PANEL_COLUMNS.min(columns.end - first);
                let mut sums = sums[..a.rows() * width].to_vec();
                sum_panels(a, b, first..first + width, &mut panel, &mut sums);
                sums
            };
            columns.clone().step_by(PANEL_COLUMNS).map(of_panel).collect()
        })
        .collect();
    let mut first = 0;
    for panel in sums.iter().flatten() {
        let width = panel.len() / a.rows();
        for (row, sums) in panel.chunks(width).enumerate() {
            let c = &mut c.row_mut(row)[first..first + width];
            c.iter_mut().zip(sums).for_each(|(c, &sum)| *c = scaling.apply(sum, *c));
        }
        first += width;
    }
    Ok(())
}

/// Memory for a panel of B of at most `width` columns, and for the sums of its columns.
fn buffers<T: Kernels>(
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    width: usize,
) -> (Vec<T>, Vec<T>) {
    (vec![T::ZERO; PANEL_DEPTH.min(b.rows()) * width], vec![T::ZERO; a.rows() * width])
}

/// The sums of the rows of A and some columns of B.
#[allow(unsafe_code)] // calls SIMD leaves
fn sum_panels<T: Kernels>(
    a: MultiVectorView<'_, T>,
    b: MultiVectorView<'_, T>,
    columns: Range<usize>,
    panel: &mut [T],
    sums: &mut [T],
) {
    let width = columns.len();
    let bodies = T::multivector_bodies(Isa::detect());
    sums.fill(T::ZERO);
    for first in (0..b.rows()).step_by(PANEL_DEPTH) {
        let depth = PANEL_DEPTH.min(b.rows() - first);
        for (k, packed) in panel.chunks_mut(width).take(depth).enumerate() {
            packed.copy_from_slice(&b.row(first + k)[columns.clone()]);
        }
        let job = Multiplication {
            rows: a.rows(),
            columns: width,
            depth,
            a: a.data()[first..].as_ptr(),
            row_stride: a.leading_dimension(),
            depth_stride: 1,
            b: panel.as_ptr(),
            ldb: width,
            c: sums.as_mut_ptr(),
            ldc: width,
            // A product with 1 keeps the chain.
            beta: (first > 0).then_some(T::ONE),
        };
        // SAFETY: the rows of A have `depth` elements from `first` on, the panel has `depth` rows and `sums` a row for each row of A,
        // all of `width` elements; and the bodies are for this processor.
        unsafe { (bodies.multiply)(&job) }
    }
}
