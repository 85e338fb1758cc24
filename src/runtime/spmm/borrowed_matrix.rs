//! A sparse A, borrowed for one run so that devices can copy it in place.

use crate::device::{BorrowScope, Pinned, PinnedRange};
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::runtime::job::Job;
use crate::runtime::spmm::spmm_job::SpmmJob;
use crate::work::ChunkRows;

/// The arrays of A as pinned memory.
pub struct BorrowedMatrix {
    row_pointers: Pinned,
    columns: Pinned,
    values: Pinned,
    /// For each chunk that is part of a row its segment boundaries.
    segments: Vec<Option<Pinned>>,
}

impl BorrowedMatrix {
    /// Borrows the matrix of `job` for the duration of `scope`.
    pub fn new<'env, T: Kernels>(job: &'env SpmmJob<'_, T>, scope: &BorrowScope<'env>) -> Result<Self> {
        let matrix = job.matrix();
        let chunks = job.plan().chunks.iter().enumerate();
        let segments = chunks.map(|(index, chunk)| match chunk.rows {
            ChunkRows::Rows { .. } => Ok(None),
            ChunkRows::Segments { .. } => {
                let boundaries = job.rows(index)?.row_pointers();
                Ok(Some(scope.read_only(bytemuck::cast_slice(boundaries))))
            }
        });
        Ok(Self {
            segments: segments.collect::<Result<_>>()?,
            row_pointers: scope.read_only(bytemuck::cast_slice(matrix.row_pointers())),
            columns: scope.read_only(bytemuck::cast_slice(matrix.columns())),
            values: scope.read_only(bytemuck::cast_slice(matrix.values())),
        })
    }

    /// The host range of an array of a chunk, by its name in the chunk's storage.
    pub fn array<T: Kernels>(&self, job: &SpmmJob<'_, T>, chunk: usize, name: &str) -> Result<PinnedRange> {
        let rows = job.rows(chunk)?;
        let pointers = rows.row_pointers();
        let (Some(&first), Some(&last)) = (pointers.first(), pointers.last()) else {
            return Err(Error::Internal(format!("chunk {chunk} has no row pointers")));
        };
        let range = |pinned: &Pinned, begin: u64, end: u64, size: u64| PinnedRange {
            pinned: pinned.clone(),
            begin: begin * size,
            end: end * size,
        };
        match (name, job.chunk(chunk)?.rows, self.segments.get(chunk)) {
            ("row_pointers", ChunkRows::Rows { begin, end }, _) => {
                Ok(range(&self.row_pointers, begin as u64, end as u64 + 1, 8))
            }
            ("row_pointers", ChunkRows::Segments { .. }, Some(Some(boundaries))) => {
                Ok(range(boundaries, 0, pointers.len() as u64, 8))
            }
            ("columns", ..) => Ok(range(&self.columns, first, last, 4)),
            ("values" | "codes", ..) => Ok(range(&self.values, first, last, size_of::<T>() as u64)),
            _ => Err(Error::Internal(format!("array {name} of chunk {chunk} is not an array of A"))),
        }
    }
}
