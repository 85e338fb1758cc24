//! Readers: whatever the bytes are, they give a valid object or an error.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use rowloom::internal::cost::Model;
use rowloom::internal::kernel::reference;
use rowloom::internal::matrix::io::{ReadOptions, read, read_dense};
use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::Devices;
use rowloom::internal::toml_file::TomlFile;
use rowloom::internal::trace::Trace;
use rowloom_cli::results::StudyConfig;

use super::input::with_file;

/// Most memory that a reader may use; a small file that claims more is refused.
const MEMORY_LIMIT_BYTES: u64 = 64 << 20;

fn options() -> ReadOptions<'static> {
    ReadOptions { memory_limit_bytes: MEMORY_LIMIT_BYTES, ..ReadOptions::default() }
}

/// A matrix of any format: the first bytes decide.
pub fn matrix(bytes: &[u8]) {
    with_file(bytes, |path| {
        if let Ok(loaded) = read::<f64>(path, &options()) {
            check_matrix(&loaded.matrix);
        }
        let _ = read::<f32>(path, &options());
    });
}

/// A matrix in Matrix Market format behind gzip: the bytes are the text.
pub fn gzip(bytes: &[u8]) {
    with_file(&compressed(bytes), |path| drop(read::<f64>(path, &options())));
}

/// A tar archive behind gzip: the bytes are the archive.
pub fn archive(bytes: &[u8]) {
    gzip(bytes);
}

/// A dense array.
pub fn dense(bytes: &[u8]) {
    with_file(bytes, |path| {
        if let Ok(dense) = read_dense::<f64>(path, &options()) {
            assert_eq!(dense.values.data().len(), dense.values.rows() * dense.values.k());
        }
    });
}

/// A plan for a small matrix: it computes the right Y, or it is refused.
pub fn plan(bytes: &[u8]) {
    with_file(bytes, |path| {
        if let Ok(plan) = Plan::load(path) {
            super::product::with_plan(plan);
        }
    });
}

/// A cost model.
pub fn model(bytes: &[u8]) {
    with_file(bytes, |path| {
        if let Ok(model) = Model::load(path) {
            let copy = path.with_extension("copy");
            model.save(&copy).expect("the disk has room");
            assert_eq!(Model::load(&copy).expect("a saved model is accepted"), model);
        }
    });
}

/// A study file.
pub fn study(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = StudyConfig::parse(&TomlFile::new("study.toml", text));
}

/// A trace.
pub fn trace(bytes: &[u8]) {
    with_file(bytes, |path| {
        if let Ok(trace) = Trace::read(path) {
            let _ = trace.summary();
        }
    });
}

/// Device lists and descriptions of generated matrices.
pub fn words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(devices) = text.parse::<Devices>() {
        assert!(devices.name().parse::<Devices>().is_ok(), "{}", devices.name());
    }
    if let Ok(generated) = generate::<f64>(&text, 1, 1 << 20) {
        check_matrix(&generated.matrix);
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// What every matrix promises.
fn check_matrix(matrix: &Csr<f64>) {
    let view = matrix.view();
    let pointers = view.row_pointers();
    assert_eq!(pointers.len(), matrix.rows() + 1);
    assert!(pointers.is_sorted() && pointers.last().is_some_and(|last| *last as usize == view.nnz()));
    for row in 0..matrix.rows() {
        let (columns, _) = view.row(row);
        assert!(columns.is_sorted_by(|left, right| left < right), "row {row}");
        assert!(columns.iter().all(|column| (*column as usize) < matrix.cols()), "row {row}");
    }
    if matrix.rows() + matrix.cols() < 100_000 {
        let x = MultiVector::filled(matrix.cols(), 1, 1.0).expect("memory");
        let mut y = MultiVector::zeros(matrix.rows(), 1).expect("memory");
        reference::csr(view, x.view(), &mut y.view_mut()).expect("the shapes agree");
    }
}
