//! Complex matrices: their files, and their products compared with plain loops over complex numbers.

use std::path::Path;

use proptest::prelude::*;
use rowloom::internal::kernel::verify_complex;
use rowloom::internal::matrix::io::cache::write_cache;
use rowloom::internal::matrix::io::npz_write::write_npz;
use rowloom::internal::matrix::io::write::write_matrix_market;
use rowloom::internal::matrix::io::{ReadOptions, npy, read, read_dense};
use rowloom::internal::matrix::{Field, Loaded, Scalar, complex};
use rowloom::{Csr, MultiVector, Runtime};

use crate::skip::skip;

/// A complex number.
type Pair = (f64, f64);

/// Row, column and value of each entry.
type Entries = Vec<(usize, usize, Pair)>;

fn options() -> ReadOptions<'static> {
    ReadOptions { complex: true, ..ReadOptions::default() }
}

fn read_text(text: &str) -> rowloom::Result<Loaded<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mtx");
    std::fs::write(&path, text).unwrap();
    read(&path, &options())
}

/// The entries of the real matrix in memory, as complex numbers.
fn entries<T: Scalar>(matrix: &Csr<T>) -> Entries {
    let view = matrix.view();
    let mut entries = Vec::new();
    for row in 0..view.rows() {
        let (columns, values) = view.row(row);
        assert!(columns.is_sorted_by(|left, right| left < right));
        for (columns, values) in columns.chunks(2).zip(values.chunks(2)) {
            assert_eq!((columns[0] % 2, columns[1]), (0, columns[0] + 1));
            entries.push((row, columns[0] as usize / 2, (values[0].to_f64(), values[1].to_f64())));
        }
    }
    entries
}

fn coordinate(symmetry: &str, body: &str) -> String {
    format!("%%MatrixMarket matrix coordinate complex {symmetry}\n{body}")
}

#[test]
fn every_symmetry_adds_the_entries_that_its_file_omits() {
    let body = "3 3 3\n2 1 1 2\n3 2 4.5 -1e-3\n1 1 7 0\n";
    let lower = [(1, 0, (1.0, 2.0)), (2, 1, (4.5, -1e-3)), (0, 0, (7.0, 0.0))];
    for (symmetry, mirror) in [
        ("general", None),
        ("symmetric", Some((1.0, 1.0))),
        ("hermitian", Some((1.0, -1.0))),
        ("skew-symmetric", Some((-1.0, -1.0))),
    ] {
        let body =
            if symmetry == "skew-symmetric" { body.replace("1 1 7 0", "1 1 0 0") } else { body.into() };
        let mut expected: Entries = lower.to_vec();
        if symmetry == "skew-symmetric" {
            expected[2].2 = (0.0, 0.0);
        }
        if let Some((real, imaginary)) = mirror {
            expected.push((0, 1, (real, 2.0 * imaginary)));
            expected.push((1, 2, (4.5 * real, -1e-3 * imaginary)));
        }
        expected.sort_by_key(|entry| (entry.0, entry.1));
        let loaded = read_text(&coordinate(symmetry, &body)).unwrap();
        assert_eq!(entries(&loaded.matrix), expected, "{symmetry}");
        assert_eq!((loaded.matrix.rows(), loaded.matrix.cols()), (3, 6));
        assert_eq!((loaded.info.field, loaded.info.stored_entries), (Field::Complex, 3));
    }
}

#[test]
fn duplicates_are_summed_and_counted_once_for_both_parts() {
    let loaded = read_text(&coordinate("general", "1 3 4\n1 3 1 1\n1 1 1 2\n1 3 10 -5\n1 3 .5 0\n")).unwrap();
    assert_eq!(entries(&loaded.matrix), [(0, 0, (1.0, 2.0)), (0, 2, (11.5, -4.0))]);
    assert_eq!(loaded.notes, ["2 duplicate entries were added to the earlier ones"]);
}

#[test]
fn damaged_files_are_refused_with_their_line() {
    for (symmetry, body, reason) in [
        ("general", "1 1 1\n1 1 5.25\n", "a.mtx:3: '1 1 5.25' has no imaginary part; the line is cut off"),
        ("general", "1 1 1\n1 1\n", "a.mtx:2: the size line declares 1 entries but the text"),
        ("general", "1 1 1\n1 1 1 2 3\n", "a.mtx:3: '3' follows the entry"),
        ("general", "1 1 1\n1 1 1 two\n", "a.mtx:3: value 'two' is not a number"),
        ("general", "1 1 1\n1 1 1 1e999\n", "a.mtx:3: value '1e999' overflows f64"),
        ("general", "1 1 1\n1 2 1 1\n", "a.mtx:3: column 2 is outside 1..=1"),
        ("general", "1 1 2\n1 1 1 1\n", "a.mtx:2: the size line declares 2 entries"),
        ("general", "1 3000000000 1\n1 1 1 1\n", "a.mtx:2: 3000000000 columns are beyond"),
        ("hermitian", "1 1 1\n1 1 1 1\n", "a.mtx:3: the diagonal of a hermitian matrix is real"),
        ("skew-symmetric", "1 1 1\n1 1 0 1\n", "a.mtx:3: the diagonal of a skew-symmetric matrix is zero"),
        ("symmetric", "3 3 2\n3 1 1 1\n1 3 1 1\n", "row 1 column 3 and its mirror image are both listed"),
    ] {
        let error = read_text(&coordinate(symmetry, body)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{body}: {error}");
    }
}

#[test]
fn readers_that_were_not_asked_for_complex_values_refuse_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.mtx"), coordinate("general", "1 1 1\n1 1 1 2\n")).unwrap();
    let loaded = read::<f64>(&path("a.mtx"), &options()).unwrap();
    write_npz(&path("a.npz"), &loaded.matrix.view(), &loaded.info, None).unwrap();
    write_cache(&path("a.rlm"), &loaded.matrix.view(), &loaded.info, None).unwrap();
    let x = MultiVector::from_vec(1, 2, vec![1.0, 2.0]).unwrap();
    npy::write_complex_npy(path("x.npy").as_path(), &x, true).unwrap();
    for name in ["a.mtx", "a.npz", "a.rlm"] {
        let error = Csr::<f64>::read(path(name)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("unsupported: complex values"), "{name}: {error}");
    }
    let error = read_dense::<f64>(&path("x.npy"), &ReadOptions::default()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("unsupported: complex values"), "{error}");
}

#[test]
fn a_complex_matrix_survives_every_format() {
    let text = coordinate("general", "3 4 4\n3 4 1.25 -2\n1 2 0 3\n3 1 5 0\n1 1 1e-30 4\n");
    let loaded = read_text(&text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (matrix, info) = (loaded.matrix.view(), &loaded.info);
    write_matrix_market(path("a.mtx").as_path(), &matrix, info, None).unwrap();
    write_npz(&path("a.npz"), &matrix, info, None).unwrap();
    write_cache(&path("a.rlm"), &matrix, info, None).unwrap();
    for name in ["a.mtx", "a.npz", "a.rlm"] {
        let again = read::<f64>(&path(name), &options()).unwrap();
        assert_eq!(again.matrix, loaded.matrix, "{name}");
        assert_eq!(again.info.field, Field::Complex, "{name}");
    }
    let x = MultiVector::<f32>::random(5, 6, 1).unwrap();
    npy::write_complex_npy(path("x.npy").as_path(), &x, false).unwrap();
    let again = read_dense::<f32>(&path("x.npy"), &options()).unwrap();
    assert!(again.is_complex && again.values.data() == x.data() && again.values.k() == 6);
}

/// The product by plain loops over complex numbers.
fn plain_product(entries: &Entries, (rows, cols): (usize, usize), x: &[Pair], k: usize) -> Vec<Pair> {
    assert_eq!(x.len(), cols * k);
    let mut y = vec![(0.0, 0.0); rows * k];
    for &(row, column, (p, q)) in entries {
        for j in 0..k {
            let (b, c) = x[column * k + j];
            let y = &mut y[row * k + j];
            *y = (y.0 + (p * b - q * c), y.1 + (p * c + q * b));
        }
    }
    y
}

fn multivector<T: Scalar>(rows: usize, k: usize, values: &[Pair]) -> MultiVector<T> {
    let parts = values.iter().flat_map(|&(real, imaginary)| [real, imaginary]);
    MultiVector::from_vec(rows, 2 * k, parts.map(T::from_f64).collect()).unwrap()
}

/// A complex matrix with these entries, of which no two are at one place.
fn matrix<T: Scalar>((rows, cols): (usize, usize), entries: &Entries) -> Csr<T> {
    let mut pointers = vec![0u64; rows + 1];
    entries.iter().for_each(|entry| pointers[entry.0 + 1] += 2);
    (0..rows).for_each(|row| pointers[row + 1] += pointers[row]);
    let columns = entries.iter().flat_map(|entry| [2 * entry.1 as u32, 2 * entry.1 as u32 + 1]);
    let values = entries.iter().flat_map(|entry| [entry.2.0, entry.2.1]).map(T::from_f64);
    Csr::try_new(rows, 2 * cols, pointers, columns.collect::<Vec<_>>(), values.collect::<Vec<_>>()).unwrap()
}

fn product<T: rowloom::runtime::Kernels>(a: &Csr<T>, x: &MultiVector<T>) -> MultiVector<T> {
    let runtime = Runtime::builder().devices("cpu").threads(2).refine(false).open().unwrap();
    let mut product = runtime.product(a.clone()).columns(x.k()).build().unwrap();
    product.apply(&complex::with_rotated_rows(x.view()).unwrap()).unwrap()
}

/// A number whose sums and products are exact.
fn whole() -> impl Strategy<Value = f64> {
    (-9i32..10).prop_map(f64::from)
}

prop_compose! {
    /// Rows and columns, entries at different places in the order of rows, and X of `k` columns.
    fn problem()(
        rows in 0usize..9, cols in 1usize..9, k in 1usize..10,
    )(
        places in prop::collection::btree_map((0..rows.max(1), 0..cols), (whole(), whole()), 0..30),
        x in prop::collection::vec((whole(), whole()), cols * k),
        shape in Just((rows, cols)), k in Just(k),
    ) -> ((usize, usize), usize, Entries, Vec<Pair>) {
        let entries = places.into_iter().filter(|(place, _)| place.0 < shape.0);
        (shape, k, entries.map(|((row, column), value)| (row, column, value)).collect(), x)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn products_equal_plain_complex_loops((shape, k, entries, x) in problem()) {
        let expected = plain_product(&entries, shape, &x, k);
        let y = product(&matrix::<f64>(shape, &entries), &multivector(shape.1, k, &x));
        let in_f64 = multivector::<f64>(shape.0, k, &expected);
        prop_assert_eq!(y.data(), in_f64.data());
        let y = product(&matrix::<f32>(shape, &entries), &multivector(shape.1, k, &x));
        let in_f32 = multivector::<f32>(shape.0, k, &expected);
        prop_assert_eq!(y.data(), in_f32.data());
    }

    #[test]
    fn infinities_and_nan_give_those_of_the_four_real_products(
        (shape, k, mut entries, mut x) in problem(),
        special in prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
        (in_a, place) in (any::<bool>(), any::<prop::sample::Index>()),
    ) {
        if in_a && !entries.is_empty() {
            place.get_mut(&mut entries).2.1 = special;
        } else {
            place.get_mut(&mut x).0 = special;
        }
        let expected = plain_product(&entries, shape, &x, k);
        let (a, x) = (matrix::<f64>(shape, &entries), multivector(shape.1, k, &x));
        let y = product(&a, &x);
        for (found, expected) in y.data().iter().zip(multivector::<f64>(shape.0, k, &expected).data()) {
            prop_assert!(found == expected || (found.is_nan() && expected.is_nan()), "{} {}", found, expected);
        }
        prop_assert!(verify_complex(a.view(), x.view(), y.view()).unwrap().passed);
    }

    #[test]
    fn the_transposed_matrix_has_every_entry_at_the_mirrored_place(
        (shape, _, entries, _) in problem(), conjugate in any::<bool>(),
    ) {
        let sign = if conjugate { -1.0 } else { 1.0 };
        let mut expected: Entries =
            entries.iter().map(|&(row, column, (p, q))| (column, row, (p, sign * q))).collect();
        expected.sort_by_key(|entry| (entry.0, entry.1));
        let transposed = complex::transposed(&matrix::<f64>(shape, &entries).view(), conjugate).unwrap();
        let found = self::entries(&transposed);
        prop_assert_eq!(found, expected);
        prop_assert_eq!((transposed.rows(), transposed.cols()), (shape.1, 2 * shape.0));
    }
}

#[test]
fn the_complex_matrices_of_the_collection_verify_and_a_wrong_y_does_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/matrices");
    if !folder.exists() {
        skip("matrices", format!("there is no folder {}", folder.display()));
        return;
    }
    for (name, rows, nnz) in [("young1c", 841, 4089), ("dwg961b", 961, 10591), ("mhd1280b", 1280, 22778)] {
        let loaded = read::<f64>(&folder.join(format!("{name}.mtx.gz")), &options()).unwrap();
        let a = &loaded.matrix;
        assert_eq!((a.rows(), a.cols(), a.nnz()), (rows, 2 * rows, 2 * nnz), "{name}");
        for k in [1, 8] {
            let x = MultiVector::random(rows, 2 * k, 7).unwrap();
            let mut y = product(a, &x);
            let verdict = verify_complex(a.view(), x.view(), y.view()).unwrap();
            assert!(verdict.passed && verdict.max_bound_ratio > 0.0, "{name}, {k}: {verdict:?}");
            y.data_mut()[1] *= 1.0 + 1e-9;
            assert!(!verify_complex(a.view(), x.view(), y.view()).unwrap().passed, "{name}, {k}");
        }
    }
}
