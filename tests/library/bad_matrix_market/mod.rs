//! The input policy for Matrix Market files: accepted spellings with their notes, refused ones with their lines.

mod arrays;
mod files;
mod text;
mod values;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::{Compression, write::GzEncoder};
use rowloom::Error;
use rowloom::internal::matrix::Loaded;
use rowloom::internal::matrix::io::{ReadOptions, read};
use tempfile::TempDir;

const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";
const SYMMETRIC: &str = "%%MatrixMarket matrix coordinate real symmetric\n";
const ARRAY: &str = "%%MatrixMarket matrix array real general\n";

/// A file in a temporary folder, which is removed on drop.
struct TemporaryFile {
    _folder: TempDir,
    path: PathBuf,
}

fn given(name: &str, bytes: impl AsRef<[u8]>) -> TemporaryFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    TemporaryFile { _folder: folder, path }
}

fn packed(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn accepted(bytes: impl AsRef<[u8]>) -> Loaded<f64> {
    let given = given("a.mtx", bytes);
    read(&given.path, &ReadOptions::default()).unwrap()
}

fn dense_rows(loaded: &Loaded<f64>) -> Vec<Vec<f64>> {
    let view = loaded.matrix.view();
    let mut dense = vec![vec![0.0; view.cols()]; view.rows()];
    for (row, line) in dense.iter_mut().enumerate() {
        let (columns, values) = view.row(row);
        assert!(columns.is_sorted_by(|left, right| left < right));
        columns.iter().zip(values).for_each(|(column, value)| line[*column as usize] = *value);
    }
    dense
}

fn error_of(bytes: impl AsRef<[u8]>) -> Error {
    let given = given("a.mtx", bytes);
    read::<f64>(&given.path, &ReadOptions::default()).map(|loaded| loaded.matrix.nnz()).unwrap_err()
}

/// Asserts that the file is refused as damaged input, at this line, with a message that contains `words`.
fn refused(bytes: impl AsRef<[u8]>, line: impl Into<Option<u64>>, words: &str) {
    let error = error_of(bytes);
    let message = error.to_string();
    assert!(message.contains(words), "'{words}' is not in: {message}");
    assert_eq!(error.exit_code(), 3);
    match error {
        Error::Input { place, .. } => assert_eq!(place.line, line.into(), "{message}"),
        other => panic!("not an input error: {other}"),
    }
}
