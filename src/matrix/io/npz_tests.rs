//! Archives as SciPy writes them, read; broken ones refused.

use std::io::Write;

use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use super::*;

/// An array: name, type, shape, bytes.
type Member = (&'static str, &'static str, String, Vec<u8>);

fn ints(name: &'static str, values: &[i32]) -> Member {
    (
        name,
        "<i4",
        format!("({},)", values.len()),
        values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    )
}

fn longs(name: &'static str, values: &[i64]) -> Member {
    (
        name,
        "<i8",
        format!("({},)", values.len()),
        values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    )
}

fn reals(name: &'static str, values: &[f64]) -> Member {
    (
        name,
        "<f8",
        format!("({},)", values.len()),
        values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    )
}

fn format(name: &str) -> Member {
    ("format", if name.len() == 3 { "|S3" } else { "|S4" }, "()".into(), name.into())
}

fn archive_with(members: &[Member], method: CompressionMethod) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().prefix("matrix").suffix(".npz").tempfile().unwrap();
    let mut zip = zip::ZipWriter::new(file.reopen().unwrap());
    for (name, descr, shape, data) in members {
        zip.start_file(format!("{name}.npy"), SimpleFileOptions::default().compression_method(method))
            .unwrap();
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        zip.write_all(b"\x93NUMPY\x01\x00").unwrap();
        zip.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        zip.write_all(header.as_bytes()).unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap();
    file
}

fn archive(members: &[Member]) -> tempfile::NamedTempFile {
    archive_with(members, CompressionMethod::Deflated)
}

fn load(members: &[Member]) -> Loaded<f64> {
    read_npz(archive(members).path(), &ReadOptions::default()).unwrap()
}

fn refusal(members: &[Member]) -> String {
    refusal_of(archive(members).path())
}

fn refusal_of(path: &Path) -> String {
    match read_npz::<f64>(path, &ReadOptions::default()) {
        Err(error @ Error::Input { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// `[[1, 0, 2], [0, 0, 3]]`
fn expected() -> Csr<f64> {
    Csr::try_new(2, 3, vec![0, 2, 3], vec![0, 2, 2], vec![1.0, 2.0, 3.0]).unwrap()
}

fn csr() -> Vec<Member> {
    vec![
        ints("indices", &[0, 2, 2]),
        ints("indptr", &[0, 2, 3]),
        format("csr"),
        longs("shape", &[2, 3]),
        reals("data", &[1.0, 2.0, 3.0]),
    ]
}

/// `members` with one of them replaced.
fn with(mut members: Vec<Member>, member: Member) -> Vec<Member> {
    members.retain(|other| other.0 != member.0);
    members.push(member);
    members
}

#[test]
fn csr_csc_and_coo_hold_the_same_matrix() {
    let csc = [
        longs("indices", &[0, 0, 1]),
        longs("indptr", &[0, 1, 1, 3]),
        format("csc"),
        longs("shape", &[2, 3]),
        reals("data", &[1.0, 2.0, 3.0]),
    ];
    let coo = [
        ints("row", &[1, 0, 0]),
        ints("col", &[2, 2, 0]),
        format("coo"),
        longs("shape", &[2, 3]),
        reals("data", &[3.0, 2.0, 1.0]),
        ("_is_array", "|b1", "()".into(), vec![1]),
    ];
    for members in [&csr()[..], &csc, &coo] {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let file = archive_with(members, method);
            let loaded = read_npz::<f64>(file.path(), &ReadOptions::default()).unwrap();
            assert_eq!(loaded.matrix, expected());
            assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
            assert_eq!((loaded.info.field, loaded.info.stored_entries), (Field::Real, 3));
            assert!(loaded.info.name.starts_with("matrix"), "{}", loaded.info.name);
            let single = read_npz::<f32>(file.path(), &ReadOptions::default()).unwrap();
            assert_eq!(single.matrix.view().values(), [1.0, 2.0, 3.0]);
        }
    }
}

#[test]
fn unsorted_rows_are_sorted_and_duplicates_summed_with_notes() {
    let members = with(with(csr(), ints("indices", &[2, 0, 2, 2])), ints("indptr", &[0, 2, 4]));
    let loaded = load(&with(members, reals("data", &[2.0, 1.0, 2.5, 0.5])));
    assert_eq!(loaded.matrix, expected());
    assert_eq!(loaded.notes.len(), 2, "{:?}", loaded.notes);
    assert!(loaded.notes[1].contains("1 duplicate"));
}

#[test]
fn whole_numbers_and_booleans_are_values_too() {
    let loaded = load(&with(csr(), longs("data", &[1, 2, (1 << 53) + 1])));
    assert_eq!(loaded.info.field, Field::Integer);
    assert!(loaded.notes[0].starts_with("1 integer was rounded"), "{:?}", loaded.notes);
    let loaded = load(&with(csr(), ("data", "|b1", "(3,)".into(), vec![1, 0, 1])));
    assert_eq!(loaded.matrix.view().values(), [1.0, 0.0, 1.0]);
    assert!(loaded.notes.is_empty());
}

#[test]
fn a_name_in_unicode_and_entries_after_the_last_pointer_are_accepted() {
    let name = "csr".chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
    assert_eq!(load(&with(csr(), ("format", "<U3", "()".into(), name))).matrix, expected());
    let longer = with(with(csr(), ints("indices", &[0, 2, 2, 1])), reals("data", &[1.0, 2.0, 3.0, 9.0]));
    let loaded = load(&longer);
    assert_eq!(loaded.matrix, expected());
    assert!(loaded.notes[0].contains("left out"));
}

#[test]
fn empty_matrices_are_read() {
    for (rows, cols) in [(0, 0), (0, 3), (2, 0)] {
        let loaded = load(&[
            ints("row", &[]),
            ints("col", &[]),
            format("coo"),
            longs("shape", &[rows, cols]),
            reals("data", &[]),
        ]);
        assert_eq!(
            (loaded.matrix.rows(), loaded.matrix.cols(), loaded.matrix.nnz()),
            (rows as usize, cols as usize, 0)
        );
    }
}

#[test]
fn infinities_are_noted_and_refused_where_asked() {
    let file = archive(&with(csr(), reals("data", &[1.0, f64::NAN, f64::INFINITY])));
    let loaded = read_npz::<f64>(file.path(), &ReadOptions::default()).unwrap();
    assert!(loaded.notes[0].starts_with("2 values"));
    let finite = ReadOptions { finite: true, ..ReadOptions::default() };
    let error = read_npz::<f64>(file.path(), &finite).unwrap_err().to_string();
    assert!(error.contains("element 1") && error.contains("only finite values are allowed"), "{error}");
}

#[test]
fn what_is_not_supported_is_named() {
    assert!(refusal(&with(csr(), format("bsr"))).contains("csr, csc and coo"));
    assert!(refusal(&with(csr(), format("dia"))).contains("\"dia\""));
    assert!(refusal(&with(csr(), ("data", "<c16", "(3,)".into(), vec![0; 48]))).contains("complex"));
    assert!(refusal(&with(csr(), ("data", "|O", "(3,)".into(), vec![0; 24]))).contains("Python objects"));
    assert!(refusal(&with(csr(), ("data", "|S2", "(3,)".into(), vec![0; 6]))).contains("text"));
    assert!(refusal(&with(csr(), longs("shape", &[2, 3, 4]))).contains("3 dimensions"));
    assert!(refusal(&with(csr(), longs("shape", &[2, 1 << 40]))).contains("at most"));
}

#[test]
fn arrays_that_do_not_fit_together_are_refused() {
    let cases = [
        ints("indices", &[0, 3, 2]),
        ints("indices", &[0, -1, 2]),
        ints("indices", &[0, 2]),
        ints("indptr", &[0, 2]),
        ints("indptr", &[1, 2, 3]),
        ints("indptr", &[0, 3, 2]),
        ints("indptr", &[0, 2, 4]),
        ints("indptr", &[0, -2, 3]),
        reals("indptr", &[0.0, 2.0, 3.0]),
        reals("data", &[1.0, 2.0]),
        longs("shape", &[-2, 3]),
        longs("shape", &[3, 3]),
        format("csrx"),
        ("data", "<f8", "(3, 1)".into(), vec![0; 24]),
        ("data", "<f8", "(3,)".into(), vec![0; 23]),
        ("data", "<f8", "(3,)".into(), vec![0; 25]),
        ("data", "<f8", "(1000000000000,)".into(), vec![0; 24]),
        ("data", "<f8", "(18446744073709551615,)".into(), vec![0; 24]),
    ];
    for case in cases {
        let shown = format!("{case:?}");
        let reason = refusal(&with(csr(), case));
        assert!(reason.contains("matrix"), "{shown}: {reason}");
    }
    for missing in 0..5 {
        let mut members = csr();
        let name = members.remove(missing).0;
        assert!(refusal(&members).contains(&format!("no {name}.npy")));
    }
}

#[test]
fn indices_outside_are_refused_with_their_place() {
    let reason = refusal(&with(csr(), ints("indices", &[0, 3, 2])));
    assert!(reason.contains("indices.npy: element 1: 3 is outside 0..3"), "{reason}");
}

#[test]
fn damaged_archives_are_refused_or_still_right() {
    let whole = std::fs::read(archive_with(&csr(), CompressionMethod::Stored).path()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(file.path(), &whole[..length]).unwrap();
        refusal_of(file.path());
    }
    // A flipped bit may hit a date, never the numbers.
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x04;
        std::fs::write(file.path(), changed).unwrap();
        if let Ok(loaded) = read_npz::<f64>(file.path(), &ReadOptions::default()) {
            assert_eq!(loaded.matrix, expected(), "byte {at}");
        }
    }
}

#[test]
fn sizes_beyond_the_limit_are_refused_before_they_are_allocated() {
    let limit = |bytes| ReadOptions { memory_limit_bytes: bytes, ..ReadOptions::default() };
    let huge = ("data", "<f8", "(1000000000000,)".to_string(), vec![0; 24]);
    for members in [with(csr(), huge), with(csr(), longs("shape", &[1 << 31, 3]))] {
        let result = read_npz::<f64>(archive(&members).path(), &limit(1 << 20));
        assert!(matches!(result, Err(Error::DoesNotFit { limit_bytes: 1048576, .. })), "{result:?}");
    }
    assert!(read_npz::<f64>(archive(&csr()).path(), &limit(24)).is_ok());
}

#[test]
fn folders_and_missing_files_are_typed_errors() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal_of(folder.path()).contains("folder"));
    let absent = read_npz::<f64>(&folder.path().join("absent.npz"), &ReadOptions::default());
    assert!(matches!(absent, Err(Error::Read { .. })));
}

#[test]
fn an_archive_that_expands_beyond_the_bound_of_gzip_is_refused_before_it_is_read() {
    let zeros = vec![0; 80 << 20];
    let members = [
        ("format", "|S3", "()".into(), b"csr".to_vec()),
        ("shape", "<i8", "(2,)".into(), [2i64.to_le_bytes(), 3i64.to_le_bytes()].concat()),
        ("indptr", "<i8", "(10485760,)".into(), zeros),
    ];
    assert!(refusal(&members).contains("256 times"));
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let coo = |rows: &[i32], cols: &[i32], values: &[f64]| {
        refusal(&[
            format("coo"),
            ints("shape", &[2, 3]),
            ints("row", rows),
            ints("col", cols),
            reals("data", values),
        ])
    };
    assert!(coo(&[0, 1], &[0], &[1.0]).contains("different lengths"));
    assert!(coo(&[0], &[0, 1], &[1.0]).contains("different lengths"));
    assert!(coo(&[0], &[3], &[1.0]).contains("outside 0..3"));
    assert!(
        refusal(&[("format", "<f8", "()".into(), 1f64.to_le_bytes().into()), ints("shape", &[2, 3])])
            .contains("not text")
    );
    let real_rows = [
        format("coo"),
        ints("shape", &[2, 3]),
        reals("row", &[0.0]),
        ints("col", &[0]),
        reals("data", &[1.0]),
    ];
    assert!(refusal(&real_rows).contains("not an integer"));
}

#[test]
fn a_value_that_overflows_the_type_is_refused() {
    let parts = [
        format("coo"),
        ints("shape", &[2, 3]),
        ints("row", &[0]),
        ints("col", &[0]),
        reals("data", &[1e300]),
    ];
    let file = archive(&parts);
    let error = read_npz::<f32>(file.path(), &ReadOptions::default()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("overflows f32; use the value type f64"), "{error}");
    assert!(read_npz::<f64>(file.path(), &ReadOptions::default()).is_ok());
}

#[test]
fn an_archive_of_one_dense_array_is_a_dense_matrix() {
    let read = |file: &tempfile::NamedTempFile| {
        read_dense_npz::<f64>(&Input::open(file.path()).unwrap(), &ReadOptions::default())
    };
    let values: Vec<u8> =
        [1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = |name| (name, "<f8", "(2, 3)".to_owned(), values.clone());
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let dense = read(&archive_with(&[array("arr_0")], method)).unwrap();
        assert_eq!((dense.values.rows(), dense.values.row(1)), (2, &[4.0, 5.0, 6.0][..]));
    }
    for (members, message) in [
        (vec![array("a"), array("b")], "2 arrays (a, b); save one array with numpy.save"),
        (vec![format("csr"), array("data")], SPARSE),
        (vec![], "0 arrays (); save one array with numpy.save"),
    ] {
        let error = read(&archive(&members)).unwrap_err();
        assert!(error.exit_code() == 3 && error.to_string().ends_with(message), "{error}");
    }
    let small = ReadOptions { memory_limit_bytes: 100, ..ReadOptions::default() };
    let file = archive(&[array("arr_0")]);
    let error = read_dense_npz::<f64>(&Input::open(file.path()).unwrap(), &small).unwrap_err();
    assert!(matches!(error, Error::DoesNotFit { .. }), "{error}");
}
