//! What the cache promises: the same matrix back, and a typed refusal of anything else.

use proptest::prelude::*;

use super::*;
use crate::matrix::{Coo, Field, Symmetry, convert};

fn info() -> MatrixInfo {
    MatrixInfo {
        name: "small".into(),
        field: Field::Integer,
        symmetry: Symmetry::SkewSymmetric,
        stored_entries: 12,
        synthetic: true,
        features: None,
    }
}

fn small() -> Csr<f64> {
    Csr::try_new(3, 4, vec![0, 2, 2, 4], vec![0, 3, 1, 2], vec![1.5, -0.0, 1e300, 4.0]).unwrap()
}

/// A folder with the small matrix's cache in it.
fn cached() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlm");
    write_cache(&path, &small().view(), &info(), None).unwrap();
    (folder, path)
}

fn refusal(path: &Path) -> String {
    match read_cache::<f64>(path, &ReadOptions::default()) {
        Err(error @ Error::Input { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Overwrites bytes of the header and makes its hash right again.
fn with_header(path: &Path, change: impl FnOnce(&mut Header)) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut header: Header = bytemuck::pod_read_unaligned(&bytes[..HEADER_BYTES]);
    change(&mut header);
    header.header_hash = header.own_hash();
    bytes[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&header));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn the_matrix_and_what_is_known_of_it_come_back() {
    let (_folder, path) = cached();
    let loaded = read_cache::<f64>(&path, &ReadOptions::default()).unwrap();
    assert_eq!((&loaded.matrix, &loaded.info), (&small(), &info()));
    assert_eq!(loaded.matrix.view().values()[1].to_bits(), (-0.0f64).to_bits());
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
    assert!(loaded.matrix.is_intact());
}

#[test]
fn mapped_values_are_not_counted_as_memory() {
    let (_folder, path) = cached();
    let matrix = read_cache::<f64>(&path, &ReadOptions::default()).unwrap().matrix;
    assert_eq!(matrix.memory_bytes(), matrix.bytes() - 8 * matrix.nnz() as u64);
    assert_eq!(small().memory_bytes(), small().bytes());
}

#[test]
fn some_rows_of_a_matrix_are_cached_as_a_matrix() {
    let (_folder, path) = cached();
    write_cache(&path, &small().view().slice_rows(1..3), &info(), None).unwrap();
    let matrix = read_cache::<f64>(&path, &ReadOptions::default()).unwrap().matrix;
    assert_eq!(matrix, Csr::try_new(2, 4, vec![0, 0, 2], vec![1, 2], vec![1e300, 4.0]).unwrap());
}

#[test]
fn the_other_precision_is_converted_and_noted() {
    let (_folder, path) = cached();
    let loaded = read_cache::<f32>(&path, &ReadOptions::default()).unwrap();
    assert_eq!(loaded.matrix.view().values(), [1.5, -0.0, f32::INFINITY, 4.0]);
    assert_eq!(loaded.notes.len(), 2, "{:?}", loaded.notes);
    write_cache(&path, &loaded.matrix.view(), &info(), None).unwrap();
    let back = read_cache::<f64>(&path, &ReadOptions::default()).unwrap();
    assert_eq!(back.matrix.view().values(), [1.5, -0.0, f64::INFINITY, 4.0]);
}

#[test]
fn infinities_are_noted_and_refused_where_asked() {
    let (_folder, path) = cached();
    let matrix = Csr::try_new(1, 2, vec![0, 2], vec![0, 1], vec![f64::NAN, 1.0]).unwrap();
    write_cache(&path, &matrix.view(), &info(), None).unwrap();
    assert_eq!(read_cache::<f64>(&path, &ReadOptions::default()).unwrap().notes.len(), 1);
    let options = ReadOptions { finite: true, ..ReadOptions::default() };
    assert!(
        read_cache::<f64>(&path, &options)
            .unwrap_err()
            .to_string()
            .contains("only finite values are allowed")
    );
}

#[test]
fn every_changed_byte_and_every_missing_end_is_noticed() {
    let (_folder, path) = cached();
    let whole = std::fs::read(&path).unwrap();
    let header: Header = bytemuck::pod_read_unaligned(&whole[..HEADER_BYTES]);
    let info_end = HEADER_BYTES + header.info_bytes as usize;
    // Bytes between the parts hold nothing.
    let gap = |at: usize| {
        (info_end..header.row_pointers_at as usize).contains(&at)
            || (header.row_pointers_at as usize + 32..header.columns_at as usize).contains(&at)
            || (header.columns_at as usize + 16..header.values_at as usize).contains(&at)
    };
    for at in (0..whole.len()).filter(|&at| !gap(at)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(&path, changed).unwrap();
        let reason = refusal(&path);
        assert!(reason.contains("rowloom convert"), "byte {at}: {reason}");
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        refusal(&path);
    }
    std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(refusal(&path).contains("bytes"));
}

#[test]
fn other_versions_and_byte_orders_are_named() {
    let (_folder, path) = cached();
    with_header(&path, |header| header.version = 7);
    assert!(refusal(&path).contains("version 7"));
    with_header(&path, |header| header.byte_order = header.byte_order.swap_bytes());
    assert!(refusal(&path).contains("byte order"));
}

#[test]
fn shapes_that_lie_are_refused_before_anything_is_allocated() {
    let (_folder, path) = cached();
    let lies: [fn(&mut Header); 6] = [
        |header| header.rows = u64::MAX,
        |header| header.rows = 1 << 60,
        |header| header.nnz = u64::MAX / 4,
        |header| header.value_bytes = 16,
        |header| header.info_bytes = u32::MAX,
        |header| header.values_at = u64::MAX - 63,
    ];
    let whole = std::fs::read(&path).unwrap();
    for lie in lies {
        std::fs::write(&path, &whole).unwrap();
        with_header(&path, lie);
        assert!(refusal(&path).contains("contradicts itself"));
    }
    // A matrix of one column, whose entries lie in others.
    std::fs::write(&path, &whole).unwrap();
    with_header(&path, |header| header.cols = 1);
    assert!(refusal(&path).contains("do not fit together"));
}

#[test]
fn a_limit_below_the_copied_arrays_is_kept() {
    let (_folder, path) = cached();
    let limit = |bytes| ReadOptions { memory_limit_bytes: bytes, ..ReadOptions::default() };
    assert!(read_cache::<f64>(&path, &limit(48)).is_ok());
    assert!(matches!(
        read_cache::<f64>(&path, &limit(47)),
        Err(Error::DoesNotFit { needed_bytes: 48, limit_bytes: 47, .. })
    ));
    assert!(matches!(
        read_cache::<f32>(&path, &limit(79)),
        Err(Error::DoesNotFit { needed_bytes: 80, limit_bytes: 79, .. })
    ));
}

#[test]
fn unsorted_rows_are_not_cached() {
    let (_folder, path) = cached();
    let matrix = Csr::try_new(1, 2, vec![0, 2], vec![1, 0], vec![1.0, 1.0]).unwrap();
    assert!(matches!(write_cache(&path, &matrix.view(), &info(), None), Err(Error::Usage(_))));
    assert!(read_cache::<f64>(&path, &ReadOptions::default()).is_ok());
}

#[test]
fn a_cache_cut_short_while_open_stays_sound_and_says_so() {
    let (_folder, path) = cached();
    let nnz = 100_000;
    let matrix =
        Csr::try_new(2, nnz, vec![0, 5, nnz as u64], (0..nnz as u32).collect::<Vec<_>>(), vec![2.0; nnz])
            .unwrap();
    write_cache(&path, &matrix.view(), &info(), None).unwrap();
    let opened = read_cache::<f64>(&path, &ReadOptions::default()).unwrap().matrix;
    std::fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
    assert_eq!(opened.view().values()[nnz - 1], 0.0);
    assert_eq!(opened.view().row_pointers(), [0, 5, nnz as u64]);
    assert!(opened.view().columns().iter().all(|&column| (column as usize) < nnz));
    assert!(!opened.is_intact());
}

#[test]
fn replacing_an_open_cache_leaves_the_open_one_whole() {
    let (_folder, path) = cached();
    let opened = read_cache::<f64>(&path, &ReadOptions::default()).unwrap().matrix;
    write_cache(&path, &Csr::<f64>::empty().view(), &info(), None).unwrap();
    assert!(opened.is_intact());
    assert_eq!(opened, small());
    assert_eq!(read_cache::<f64>(&path, &ReadOptions::default()).unwrap().matrix, Csr::empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_matrix_comes_back_bit_for_bit(
        rows in 0usize..50, cols in 1usize..50, list in proptest::collection::vec((0u32..50, 0u32..50, any::<f32>()), 0..200),
    ) {
        let inside = list.iter().filter(|&&(row, column, _)| (row as usize) < rows && (column as usize) < cols);
        let coo = Coo::try_new(
            rows, cols,
            inside.clone().map(|entry| entry.0).collect(),
            inside.clone().map(|entry| entry.1).collect(),
            inside.clone().map(|entry| entry.2).collect(),
        ).unwrap();
        let matrix = convert::coo_to_csr(&coo).unwrap().0;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.rlm");
        write_cache(&path, &matrix.view(), &info(), None).unwrap();
        let back = read_cache::<f32>(&path, &ReadOptions::default()).unwrap().matrix;
        let bits = |matrix: &Csr<f32>| matrix.view().values().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&back), bits(&matrix));
        prop_assert_eq!(back.view().columns(), matrix.view().columns());
        prop_assert_eq!(back.view().row_pointers(), matrix.view().row_pointers());
    }
}
