//! A product as planned: the matrix, the plan, and each chunk's rows or segments as a matrix of its own.

use crate::error::{Error, Result};
use crate::kernel::order::SEGMENT;
use crate::matrix::{CsrView, Scalar};
use crate::plan::Plan;
use crate::work::{ChunkRows, Work};

/// A matrix and a plan for its products.
pub struct Job<'a, T> {
    matrix: CsrView<'a, T>,
    plan: Plan,
    /// Where the segments of each chunk that is a part of a row begin; empty for chunks of whole rows.
    segments: Vec<Vec<u64>>,
}

impl<'a, T: Scalar> Job<'a, T> {
    /// `matrix` as `plan`, which must have been made for it, says.
    pub fn new(matrix: CsrView<'a, T>, plan: Plan) -> Result<Self> {
        let work = Work::spmm(&matrix, plan.k as usize)?;
        plan.check_fits(&work.fingerprint(), plan.k, T::DTYPE)?;
        let boundaries = |rows: &ChunkRows| match *rows {
            ChunkRows::Rows { .. } => Vec::new(),
            ChunkRows::Segments { .. } => {
                let entries = work.entries(rows);
                let end = entries.end;
                entries.step_by(SEGMENT).chain(std::iter::once(end)).collect()
            }
        };
        let segments = plan.chunks.iter().map(|chunk| boundaries(&chunk.rows)).collect();
        Ok(Self { matrix, plan, segments })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The whole matrix.
    pub fn matrix(&self) -> CsrView<'a, T> {
        self.matrix
    }

    /// The rows, or segments, of a chunk.
    pub fn rows(&self, chunk: usize) -> Result<CsrView<'_, T>> {
        let (Some(planned), Some(segments)) = (self.plan.chunks.get(chunk), self.segments.get(chunk)) else {
            return Err(Error::Internal(format!("the plan has no chunk {chunk}")));
        };
        match planned.rows {
            ChunkRows::Rows { begin, end } => Ok(self.matrix.slice_rows(begin..end)),
            ChunkRows::Segments { .. } => self.matrix.with_row_pointers(segments),
        }
    }
}
