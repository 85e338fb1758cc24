//! Writes Matrix Market: sparse matrices as coordinate files, multivectors as array files.
//!
//! Numbers are written with the fewest digits that read back as the same number. Blocks of lines are formatted (and
//! for `.gz` compressed, a gzip member each) in parallel and written in order. A comment line marks the file as written by
//! Rowloom.

use std::io::{self, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::error::Result;
use crate::files::{MARK, Target, Writer};
use crate::matrix::convert::entries;
use crate::matrix::info::SYNTHETIC_COMMENT;
use crate::matrix::io::Progress;
use crate::matrix::{CsrView, Field, MatrixInfo, MultiVector, Scalar};

/// Lines that one task formats.
const BLOCK_LINES: usize = 1 << 16;

/// Writes a coordinate file that lists all entries; gzipped if the name of the target ends in `.gz`.
///
/// Entries that `info` calls integer or pattern are written as such if every value allows it exactly, else as real.
/// `progress` counts the entries that are written.
pub fn write_matrix_market<'t, T: Scalar>(
    target: impl Into<Target<'t>>,
    csr: &CsrView<'_, T>,
    info: &MatrixInfo,
    progress: Option<Progress<'_>>,
) -> Result<()> {
    let (columns, values) = entries(csr);
    let pointers = csr.row_pointers();
    let base = pointers.first().copied().unwrap_or(0);
    let field = exact_field(info.field, values);
    let parts = field.parts();
    let name = match field {
        Field::Integer => "integer",
        Field::Pattern => "pattern",
        Field::Real => "real",
        Field::Complex => "complex",
    };
    let origin = if info.synthetic {
        format!("{SYNTHETIC_COMMENT} as {}\n", info.name.replace(['\r', '\n'], " "))
    } else {
        String::new()
    };
    let head = format!(
        "%%MatrixMarket matrix coordinate {name} general\n% {MARK}\n{origin}{} {} {}\n",
        csr.rows(),
        csr.cols() / parts,
        columns.len() / parts
    );
    write_lines(target.into(), &head, columns.len() / parts, progress, |range, text| {
        // Counted from one: the first row that ends behind the entry.
        let mut row = pointers.partition_point(|&pointer| pointer - base <= (range.start * parts) as u64);
        for entry in range {
            let entry = entry * parts;
            while pointers[row] - base <= entry as u64 {
                row += 1;
            }
            write!(text, "{row} {}", u64::from(columns[entry]) / parts as u64 + 1)?;
            match field {
                Field::Integer => writeln!(text, " {}", values[entry].to_f64() as i64)?,
                Field::Pattern => text.push(b'\n'),
                Field::Real => writeln!(text, " {:?}", values[entry])?,
                Field::Complex => writeln!(text, " {:?} {:?}", values[entry], values[entry + 1])?,
            }
        }
        Ok(())
    })
}

/// Writes an array file, column by column; gzipped if the name of the target ends in `.gz`.
pub fn write_array<'t, T: Scalar>(target: impl Into<Target<'t>>, array: &MultiVector<T>) -> Result<()> {
    let (rows, k) = (array.rows(), array.k());
    let head = format!("%%MatrixMarket matrix array real general\n% {MARK}\n{rows} {k}\n");
    write_lines(target.into(), &head, rows * k, None, |range, text| {
        range.into_iter().try_for_each(|entry| writeln!(text, "{:?}", array.row(entry % rows)[entry / rows]))
    })
}

/// The narrowest of `field` and those above it that holds every value exactly.
fn exact_field<T: Scalar>(field: Field, values: &[T]) -> Field {
    // Beyond 2^53 neighbouring integers are no longer told apart; −0 has no integer.
    let whole = |value: f64| {
        value.abs() <= 9_007_199_254_740_992.0
            && value.trunc().to_bits() == value.to_bits()
            && value.to_bits() != (-0.0f64).to_bits()
    };
    if field == Field::Complex {
        Field::Complex
    } else if field == Field::Pattern && values.par_iter().with_min_len(1 << 16).all(|&value| value == T::ONE)
    {
        Field::Pattern
    } else if field != Field::Real
        && values.par_iter().with_min_len(1 << 16).all(|&value| whole(value.to_f64()))
    {
        Field::Integer
    } else {
        Field::Real
    }
}

/// Writes `head` and then `lines` lines, which `format` appends range by range.
fn write_lines(
    target: Target<'_>,
    head: &str,
    lines: usize,
    progress: Option<Progress<'_>>,
    format: impl Fn(Range<usize>, &mut Vec<u8>) -> io::Result<()> + Sync,
) -> Result<()> {
    let gzipped = match target {
        Target::File(path) => path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz")),
        Target::StandardOutput => false,
    };
    let finish = |text: Vec<u8>| {
        if !gzipped {
            return Ok(text);
        }
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        member.write_all(&text)?;
        member.finish()
    };
    // Lines in memory at once.
    let batch = BLOCK_LINES * rayon::current_num_threads() * 2;
    write_file(target, |file| {
        file.write_all(&finish(head.into())?)?;
        for start in (0..lines).step_by(batch) {
            let starts: Vec<usize> = (start..lines.min(start + batch)).step_by(BLOCK_LINES).collect();
            let blocks: Vec<io::Result<Vec<u8>>> = starts
                .into_par_iter()
                .map(|start| {
                    let mut text = Vec::new();
                    format(start..lines.min(start + BLOCK_LINES), &mut text)?;
                    finish(text)
                })
                .collect();
            for block in blocks {
                file.write_all(&block?)?;
            }
            if let Some(progress) = progress {
                progress.advance((lines.min(start + batch) - start) as u64)?;
            }
        }
        Ok(())
    })
}

/// Writes an output, recorded as a span.
pub(super) fn write_file<'t>(
    target: impl Into<Target<'t>>,
    write: impl FnOnce(&mut Writer<'_>) -> io::Result<()>,
) -> Result<()> {
    let _span = tracing::info_span!("write file").entered();
    target.into().write(write)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::*;
    use crate::error::Error;
    use crate::matrix::{Csr, Symmetry};

    fn info(field: Field) -> MatrixInfo {
        MatrixInfo {
            name: "test".into(),
            field,
            symmetry: Symmetry::General,
            stored_entries: 0,
            synthetic: false,
            features: None,
        }
    }

    fn written<T: Scalar>(matrix: &CsrView<'_, T>, field: Field) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mtx");
        write_matrix_market(&path, matrix, &info(field), None).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn entries_are_listed_row_by_row_from_one() {
        let values = vec![0.1, -2.5e-300, f64::INFINITY, -0.0];
        let matrix = Csr::try_new(5, 4, vec![0, 0, 2, 2, 2, 4], vec![0, 3, 1, 2], values).unwrap();
        assert_eq!(
            written(&matrix.view(), Field::Real),
            "%%MatrixMarket matrix coordinate real general\n% written by rowloom\n5 4 4\n2 1 0.1\n2 4 -2.5e-300\n5 2 inf\n5 3 -0.0\n"
        );
        // Some rows alone: numbered from one again.
        assert_eq!(
            written(&matrix.view().slice_rows(3..5), Field::Real),
            "%%MatrixMarket matrix coordinate real general\n% written by rowloom\n2 4 2\n2 2 inf\n2 3 -0.0\n"
        );
    }

    #[test]
    fn integer_and_pattern_fields_are_kept_only_where_exact() {
        let with = |values: Vec<f64>| Csr::try_new(1, 2, vec![0, 2], vec![0, 1], values).unwrap();
        let body = |values, field| written(&with(values).view(), field);
        assert!(
            body(vec![1.0, 1.0], Field::Pattern)
                .ends_with("pattern general\n% written by rowloom\n1 2 2\n1 1\n1 2\n")
        );
        assert!(
            body(vec![1.0, -3.0], Field::Pattern)
                .ends_with("integer general\n% written by rowloom\n1 2 2\n1 1 1\n1 2 -3\n")
        );
        assert!(
            body(vec![1.0, 0.5], Field::Integer)
                .ends_with("real general\n% written by rowloom\n1 2 2\n1 1 1.0\n1 2 0.5\n")
        );
        for odd in [-0.0, f64::NAN, f64::INFINITY, 1e17] {
            assert!(body(vec![1.0, odd], Field::Integer).contains("real"), "{odd}");
        }
    }

    #[test]
    fn many_blocks_come_in_order_plain_and_gzipped() {
        // Longer than a batch; one row with most entries, many without any.
        let nnz = BLOCK_LINES * 9 + 17;
        let mut pointers = vec![0; 1001];
        pointers.extend([nnz as u64 - 3; 500]);
        pointers.extend([nnz as u64]);
        let values: Vec<f32> = (0..nnz).map(|entry| entry as f32 / 7.0).collect();
        let columns: Vec<u32> = (0..nnz as u32).collect();
        let matrix = Csr::try_new(1501, nnz, pointers, columns, values).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (plain, gzipped) = (folder.path().join("a.mtx"), folder.path().join("a.mtx.gz"));
        write_matrix_market(&plain, &matrix.view(), &info(Field::Real), None).unwrap();
        write_matrix_market(&gzipped, &matrix.view(), &info(Field::Real), None).unwrap();
        let text = std::fs::read_to_string(plain).unwrap();
        let mut lines = text.lines().skip(3);
        for entry in 0..nnz {
            let row = if entry < nnz - 3 { 1001 } else { 1501 };
            let words: Vec<&str> = lines.next().unwrap().split(' ').collect();
            assert_eq!((words[0].parse(), words[1].parse()), (Ok(row), Ok(entry + 1)));
            assert_eq!(words[2].parse::<f32>().unwrap().to_bits(), (entry as f32 / 7.0).to_bits());
        }
        assert_eq!(lines.next(), None);
        let mut unpacked = String::new();
        flate2::read::MultiGzDecoder::new(std::fs::File::open(gzipped).unwrap())
            .read_to_string(&mut unpacked)
            .unwrap();
        assert!(unpacked == text);
    }

    #[test]
    fn arrays_are_written_column_after_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("y.mtx");
        write_array(&path, &MultiVector::from_fn(2, 3, |row, column| (row * 3 + column) as f64).unwrap())
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "%%MatrixMarket matrix array real general\n% written by rowloom\n2 3\n0.0\n3.0\n1.0\n4.0\n2.0\n5.0\n"
        );
        for (rows, k) in [(0, 3), (3, 0)] {
            write_array(&path, &MultiVector::<f64>::zeros(rows, k).unwrap()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mtx");
        std::fs::write(&path, "old").unwrap();
        let result = write_file(&path, |file| {
            file.write_all(b"new")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(result, Err(Error::Write { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = folder.path().join("absent/a.mtx");
        assert!(matches!(write_file(&nowhere, |_| Ok(())), Err(Error::Write { .. })));
        assert!(matches!(write_file(folder.path(), |_| Ok(())), Err(Error::Write { .. })));
    }

    #[test]
    fn a_full_device_is_a_write_error() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            crate::skip::skip("/dev/full", "the file does not exist");
            return;
        }
        let matrix = Csr::try_new(1, 1, vec![0, 1], vec![0], vec![1.0f64]).unwrap();
        let result = write_matrix_market(full, &matrix.view(), &info(Field::Real), None);
        assert!(matches!(result, Err(Error::Write { .. })), "{result:?}");
        assert!(full.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_to_the_new_content() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_file(&link, |file| file.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
    }
}
