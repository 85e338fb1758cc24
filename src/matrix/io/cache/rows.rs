//! Some rows of a cache: several readers, each with its own rows, read a cache together.
//!
//! A reader looks up row pointers for the boundaries, copies its own row pointers and columns, and maps its own values. It hashes the
//! blocks that begin in its rows; the hashes of all readers together are those of the whole file, which [`CacheRows::check`] compares
//! with the checksums. So every byte is checked once, and no reader touches the rows of another beyond the last block.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    BLOCK_BYTES, HEADER_BYTES, Header, checked_part, count_non_finite, damaged, read_header, wrong_checksum,
};
use crate::error::{Error, Place, Result};
use crate::matrix::array::{AlignedBuffer, Array, SharedBytes};
use crate::matrix::csr::Csr;
use crate::matrix::io::mapping::Mapping;
use crate::matrix::io::{Input, complex_values};
use crate::matrix::{Dtype, Field, MatrixInfo, Scalar};

/// The names of the parts with checksums, in the order in which they are checked.
const PARTS: [&str; 3] = ["row pointers", "list of columns", "list of values"];

/// A cache of which some rows are read.
#[derive(Debug)]
pub struct CacheRows {
    path: PathBuf,
    mapping: Arc<Mapping>,
    header: Header,
}

/// Rows of a cache.
#[derive(Debug)]
pub struct ReadRows<T: Scalar> {
    /// The rows, with the columns of the whole matrix.
    pub matrix: Csr<T>,
    /// Values that are infinite or not numbers, where the values were converted. Their number in the whole file is
    /// [`CacheRows::non_finite`] otherwise.
    pub converted_non_finite: Option<u64>,
}

impl CacheRows {
    /// Opens a cache and checks its header.
    pub fn open(input: &Input) -> Result<Self> {
        let mapping = Arc::new(Mapping::of(input)?);
        let header = read_header(&input.path, mapping.bytes());
        if !mapping.is_intact() {
            return Err(mapping.changed());
        }
        Ok(Self { path: input.path.clone(), mapping, header: header? })
    }

    /// Number of rows of the whole matrix.
    pub fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Number of nonzeros of the whole matrix.
    pub fn nnz(&self) -> u64 {
        self.header.nnz
    }

    /// The precision of the values in the file.
    pub fn dtype(&self) -> Dtype {
        if self.header.value_bytes == 4 { Dtype::F32 } else { Dtype::F64 }
    }

    /// Values of the whole file that are infinite or not numbers.
    pub fn non_finite(&self) -> u64 {
        self.header.non_finite
    }

    /// Number of nonzeros before `row`, as the file says; it is not checked yet.
    pub fn row_start(&self, row: u64) -> u64 {
        let at = self.header.row_pointers_at as usize + row.min(self.header.rows) as usize * 8;
        let bytes = self.mapping.bytes().get(at..at + 8).unwrap_or_default();
        bytes.try_into().map_or(0, u64::from_ne_bytes).min(self.header.nnz)
    }

    /// Bytes of memory that the rows need as `T`.
    pub fn needed_bytes<T: Scalar>(&self, rows: Range<u64>) -> u64 {
        let nonzeros = self.row_start(rows.end).saturating_sub(self.row_start(rows.start));
        let entry_bytes = if self.dtype() == T::DTYPE { 4 } else { 8 + size_of::<T>() as u64 };
        (rows.end - rows.start + 1) * 8 + nonzeros * entry_bytes
    }

    /// The hashes of the blocks that begin in the rows, of each of the three arrays.
    pub fn hashes(&self, rows: Range<u64>) -> [Vec<u64>; 3] {
        let nonzeros = self.row_start(rows.start)..self.row_start(rows.end);
        [
            self.block_hashes(0, rows.start * 8..rows.end * 8),
            self.block_hashes(1, nonzeros.start * 4..nonzeros.end * 4),
            self.block_hashes(2, {
                let bytes = u64::from(self.header.value_bytes);
                nonzeros.start * bytes..nonzeros.end * bytes
            }),
        ]
    }

    /// Compares the hashes of all rows, in their order, with the checksums of the file.
    pub fn check(&self, mut hashes: [Vec<u64>; 3]) -> Result<()> {
        // The pointer behind the last row belongs to no row. It may begin a block.
        let behind = self.header.rows * 8;
        hashes[0].extend(self.block_hashes(0, behind..behind + 8));
        let expected = [self.header.row_pointers_hash, self.header.columns_hash, self.header.values_hash];
        for ((hashes, expected), name) in hashes.iter().zip(expected).zip(PARTS) {
            if xxh3_64(bytemuck::cast_slice(hashes)) != expected {
                return Err(wrong_checksum(&self.path, name));
            }
        }
        self.check_intact()
    }

    /// An error if the file changed since it was opened.
    pub fn check_intact(&self) -> Result<()> {
        if self.mapping.is_intact() { Ok(()) } else { Err(self.mapping.changed()) }
    }

    /// The rows. Values of the other precision are converted.
    pub fn read<T: Scalar>(&self, rows: Range<u64>) -> Result<ReadRows<T>> {
        if self.dtype() == T::DTYPE {
            return Ok(ReadRows { matrix: self.stored(rows)?, converted_non_finite: None });
        }
        let matrix = match self.dtype() {
            Dtype::F32 => self.stored::<f32>(rows)?.cast::<T>()?,
            Dtype::F64 => self.stored::<f64>(rows)?.cast::<T>()?,
        };
        let converted_non_finite = Some(count_non_finite(matrix.view().values()));
        Ok(ReadRows { matrix, converted_non_finite })
    }

    /// The description of the matrix.
    pub fn info(&self) -> Result<MatrixInfo> {
        let range = HEADER_BYTES..HEADER_BYTES + self.header.info_bytes as usize;
        let info = checked_part(&self.path, &self.mapping, range, self.header.info_hash, "description")?;
        let unreadable = |_| damaged(&self.path, "its description cannot be read");
        let info: MatrixInfo = serde_json::from_slice(info).map_err(unreadable)?;
        match info.field {
            Field::Complex => Err(complex_values(Place::file(&self.path))),
            _ => Ok(info),
        }
    }

    fn stored<S: Scalar>(&self, rows: Range<u64>) -> Result<Csr<S>> {
        let unsound = || damaged(&self.path, "its arrays do not fit together");
        let (first, end) = (self.row_start(rows.start), self.row_start(rows.end));
        if first > end {
            return Err(unsound());
        }
        let mut row_pointers: AlignedBuffer<u64> = self.copied(0, rows.start * 8..(rows.end + 1) * 8)?;
        row_pointers.iter_mut().for_each(|pointer| *pointer = pointer.wrapping_sub(first));
        let columns: AlignedBuffer<u32> = self.copied(1, first * 4..end * 4)?;
        let owner: Arc<dyn SharedBytes> = self.mapping.clone();
        let start = self.header.values_at as usize;
        let bytes = size_of::<S>();
        let window = start + first as usize * bytes..start + end as usize * bytes;
        let values = Array::<S>::window(owner, window).ok_or_else(unsound)?;
        let count = (rows.end - rows.start) as usize;
        Csr::try_new(count, self.header.cols as usize, row_pointers, columns, values).map_err(|error| {
            match error {
                Error::Internal(_) => unsound(),
                other => other,
            }
        })
    }

    /// The bytes of an array, by the number of the array.
    fn part(&self, part: usize) -> &[u8] {
        let Header { row_pointers_at, columns_at, values_at, .. } = self.header;
        let (start, bytes) = match part {
            0 => (row_pointers_at, (self.header.rows + 1) * 8),
            1 => (columns_at, self.header.nnz * 4),
            _ => (values_at, self.header.nnz * u64::from(self.header.value_bytes)),
        };
        // The header fits the file.
        self.mapping.bytes().get(start as usize..(start + bytes) as usize).unwrap_or_default()
    }

    fn block_hashes(&self, part: usize, begin_in: Range<u64>) -> Vec<u64> {
        let bytes = self.part(part);
        let block = |at: u64| at.div_ceil(BLOCK_BYTES as u64) as usize;
        let blocks = block(begin_in.start)..block(begin_in.end);
        let hash = |block: usize| {
            let start = (block * BLOCK_BYTES).min(bytes.len());
            xxh3_64(&bytes[start..(start + BLOCK_BYTES).min(bytes.len())])
        };
        blocks.into_par_iter().map(hash).collect()
    }

    fn copied<E: bytemuck::Pod>(&self, part: usize, range: Range<u64>) -> Result<AlignedBuffer<E>> {
        let from = self.part(part).get(range.start as usize..range.end as usize).unwrap_or_default();
        let mut copy = AlignedBuffer::<E>::zeroed(from.len() / size_of::<E>())?;
        bytemuck::cast_slice_mut::<E, u8>(&mut copy)
            .par_chunks_mut(BLOCK_BYTES)
            .zip(from.par_chunks(BLOCK_BYTES))
            .for_each(|(to, from)| to.copy_from_slice(from));
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_cache;
    use super::*;
    use crate::matrix::Symmetry;

    /// The opened cache of a matrix, in a folder of its own.
    fn opened<T: Scalar>(matrix: &Csr<T>) -> (tempfile::TempDir, CacheRows) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.rlm");
        let info = MatrixInfo {
            name: "rows".into(),
            field: Field::Real,
            symmetry: Symmetry::General,
            stored_entries: matrix.nnz() as u64,
            synthetic: false,
            features: None,
        };
        write_cache(&path, &matrix.view(), &info, None).unwrap();
        let cache = CacheRows::open(&Input::open(&path).unwrap()).unwrap();
        (folder, cache)
    }

    #[test]
    fn some_rows_are_read_as_the_matrix_of_these_rows() {
        let values = vec![1.5, -2.0, 3.0, f64::INFINITY, 5.0, 6.0];
        let matrix = Csr::try_new(4, 5, vec![0, 2, 2, 5, 6], vec![0, 3, 1, 2, 4, 0], values).unwrap();
        let (_folder, cache) = opened(&matrix);
        assert_eq!([0, 1, 2, 3, 4, 9].map(|row| cache.row_start(row)), [0, 2, 2, 5, 6, 6]);
        assert_eq!(cache.read::<f64>(0..4).unwrap().matrix, matrix);
        let two = cache.read::<f64>(1..3).unwrap();
        let expected = vec![3.0, f64::INFINITY, 5.0];
        assert_eq!(two.matrix, Csr::try_new(2, 5, vec![0, 0, 3], vec![1, 2, 4], expected).unwrap());
        assert_eq!((two.converted_non_finite, cache.non_finite()), (None, 1));
        let single = cache.read::<f32>(2..4).unwrap();
        let expected = vec![3.0, f32::INFINITY, 5.0, 6.0];
        assert_eq!(single.matrix, Csr::try_new(2, 5, vec![0, 3, 4], vec![1, 2, 4, 0], expected).unwrap());
        assert_eq!(single.converted_non_finite, Some(1));
        // Three row pointers and the columns of three nonzeros; the values stay in the file.
        assert_eq!(cache.needed_bytes::<f64>(1..3), 3 * 8 + 3 * 4);
    }

    #[test]
    fn every_block_is_hashed_by_the_reader_of_the_row_in_which_it_begins() {
        // Each row has 800,000 bytes of columns and as many of values: one block of 1 MiB begins in each of three rows.
        let columns: Vec<u32> = (0..3).flat_map(|_| 0..200_000).collect();
        let values = vec![1.0f32; columns.len()];
        let pointers = vec![0, 200_000, 400_000, 600_000];
        let (_folder, cache) = opened(&Csr::try_new(3, 200_000, pointers, columns, values).unwrap());
        let of_rows = [0, 1, 2].map(|row| cache.hashes(row..row + 1));
        assert_eq!(
            of_rows.each_ref().map(|hashes| hashes.each_ref().map(Vec::len)),
            [[1, 1, 1], [0, 1, 1], [0, 1, 1]]
        );
        let all =
            [0, 1, 2].map(|part| of_rows.iter().flat_map(|hashes| hashes[part].clone()).collect::<Vec<_>>());
        cache.check(all.clone()).unwrap();
        for (part, name) in PARTS.into_iter().enumerate() {
            let mut missing = all.clone();
            missing[part].pop();
            let reason = cache.check(missing).unwrap_err().to_string();
            assert!(reason.contains(name), "{reason}");
        }
    }
}
