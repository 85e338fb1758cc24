//! Writes SciPy's `.npz` for `scipy.sparse.load_npz`: a csr matrix, its arrays stored without compression.
//!
//! Indices are of 32 bits where every index and the number of entries fit, as SciPy's are, and of 64 bits otherwise. The
//! archive's comment marks the file as written by Rowloom and, where the matrix is synthetic, says so.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::Progress;
use super::npy::{header_bytes, number_type};
use super::write::write_file;
use crate::error::Result;
use crate::files::MARK;
use crate::matrix::convert::entries;
use crate::matrix::info::SYNTHETIC_COMMENT;
use crate::matrix::{CsrView, Field, MatrixInfo, Scalar};

/// Elements converted and written at a time.
const BLOCK_ELEMENTS: usize = 1 << 17;
/// Bytes before the elements of a member.
const HEADER_BYTES: usize = 128;

/// Writes a matrix. `progress` counts the entries that are written.
pub fn write_npz<T: Scalar>(
    path: &Path,
    csr: &CsrView<'_, T>,
    info: &MatrixInfo,
    progress: Option<Progress<'_>>,
) -> Result<()> {
    let (columns, values) = entries(csr);
    let pointers = csr.row_pointers();
    let base = pointers.first().copied().unwrap_or(0);
    let parts = info.field.parts();
    let (cols, nnz) = (csr.cols() / parts, columns.len() / parts);
    let most = nnz.max(csr.rows()).max(cols);
    let index_bytes = if i32::try_from(most).is_ok() { 4 } else { 8 };
    let comment = match info.synthetic {
        true => format!("{MARK}\n{SYNTHETIC_COMMENT}"),
        false => MARK.into(),
    };
    write_file(path, |file| {
        let mut archive = Archive { zip: ZipWriter::new(UntilFailure::new(file)), index_bytes };
        archive.zip.set_comment(comment)?;
        let first_parts = columns.iter().step_by(parts);
        archive.indices("indices", first_parts.map(|&column| u64::from(column) / parts as u64))?;
        archive.indices("indptr", pointers.iter().map(|&pointer| (pointer - base) / parts as u64))?;
        archive.member("format", "|S3", "()")?;
        archive.zip.write_all(b"csr")?;
        archive.member("shape", "<i8", "(2,)")?;
        for length in [csr.rows(), cols] {
            archive.zip.write_all(&(length as i64).to_le_bytes())?;
        }
        let kind = if info.field == Field::Complex { 'c' } else { 'f' };
        archive.member("data", &number_type::<T>(kind), &format!("({nnz},)"))?;
        for block in values.chunks(BLOCK_ELEMENTS) {
            archive.zip.write_all(bytemuck::cast_slice(block))?;
            if let Some(progress) = progress {
                progress.advance(block.len() as u64)?;
            }
        }
        archive.zip.finish()?;
        Ok(())
    })
}

/// Passes writes on until one fails. Later ones are discarded: a dropped `ZipWriter` completes its archive, which a failed write
/// has left in a state that it does not expect.
struct UntilFailure<W> {
    file: W,
    failed: bool,
    position: u64,
    end: u64,
}

impl<W> UntilFailure<W> {
    fn new(file: W) -> Self {
        Self { file, failed: false, position: 0, end: 0 }
    }
}

impl<W: Write> Write for UntilFailure<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.failed { Ok(bytes.len()) } else { self.file.write(bytes) };
        match &written {
            Ok(count) => self.position += *count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => (self.failed, self.position) = (true, self.end),
        }
        self.end = self.end.max(self.position);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed { Ok(()) } else { self.file.flush() }
    }
}

impl<W: Seek> Seek for UntilFailure<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            _ if !self.failed => self.file.seek(to)?,
            SeekFrom::Start(position) => position,
            SeekFrom::Current(distance) => self.position.saturating_add_signed(distance),
            SeekFrom::End(distance) => self.end.saturating_add_signed(distance),
        };
        Ok(self.position)
    }
}

struct Archive<W: Write + Seek> {
    zip: ZipWriter<W>,
    index_bytes: usize,
}

impl<W: Write + Seek> Archive<W> {
    /// Begins an array.
    fn member(&mut self, name: &str, descr: &str, shape: &str) -> io::Result<()> {
        let options =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored).large_file(true);
        self.zip.start_file(format!("{name}.npy"), options)?;
        self.zip.write_all(&header_bytes(descr, shape, HEADER_BYTES))
    }

    /// A whole array of indices.
    fn indices(&mut self, name: &str, indices: impl ExactSizeIterator<Item = u64>) -> io::Result<()> {
        let shape = format!("({},)", indices.len());
        self.member(name, if self.index_bytes == 4 { "<i4" } else { "<i8" }, &shape)?;
        let mut block = Vec::with_capacity(BLOCK_ELEMENTS * self.index_bytes);
        for index in indices {
            block.extend_from_slice(&index.to_le_bytes()[..self.index_bytes]);
            if block.len() == BLOCK_ELEMENTS * self.index_bytes {
                self.zip.write_all(&block)?;
                block.clear();
            }
        }
        self.zip.write_all(&block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::io::{ReadOptions, npz::read_npz};
    use crate::matrix::{Csr, Field, Symmetry};

    #[test]
    fn a_matrix_reads_back_bit_for_bit_and_stays_synthetic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let values = vec![0.1f32, -0.0, f32::INFINITY, 7.0];
        let matrix = Csr::try_new(5, 70_000, vec![0, 0, 2, 2, 2, 4], vec![0, 69_999, 1, 2], values).unwrap();
        for (view, synthetic) in [(matrix.view(), false), (matrix.view().slice_rows(3..5), true)] {
            let info = MatrixInfo {
                name: "a".into(),
                field: Field::Real,
                symmetry: Symmetry::General,
                stored_entries: 4,
                synthetic,
                features: None,
            };
            write_npz(&path, &view, &info, None).unwrap();
            let read = read_npz::<f32>(&path, &ReadOptions::default()).unwrap();
            let back = read.matrix.view();
            assert_eq!((back.rows(), back.cols()), (view.rows(), view.cols()));
            assert_eq!(read.info.synthetic, synthetic);
            for row in 0..view.rows() {
                assert_eq!(back.row(row).0, view.row(row).0);
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(back.row(row).1), bits(view.row(row).1));
            }
        }
    }
}
