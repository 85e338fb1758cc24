//! Values, fields and symmetries.

use rowloom::internal::matrix::io::{ReadOptions, read};
use rowloom::internal::matrix::{Field, Loaded, Symmetry};

use super::{ARRAY, REAL, SYMMETRIC, accepted, dense_rows, given, refused};

fn one_value(word: &str) -> Loaded<f64> {
    accepted(format!("{REAL}1 1 1\n1 1 {word}\n"))
}

#[test]
fn explicit_zeros_are_kept_with_their_sign() {
    let loaded = accepted(format!("{REAL}1 4 4\n1 1 0\n1 2 -0.0\n1 3 0.0e5\n1 4 1\n"));
    let values = loaded.matrix.view().values();
    assert_eq!(values, &[0.0, 0.0, 0.0, 1.0]);
    let negative: Vec<bool> = values.iter().map(|value| value.is_sign_negative()).collect();
    assert_eq!(negative, [false, true, false, false]);
    assert!(loaded.notes.is_empty());
}

#[test]
fn values_that_are_not_finite_have_a_note_and_can_be_refused() {
    let text = format!("{REAL}1 4 4\n1 1 nan\n1 2 inf\n1 3 -Infinity\n1 4 1\n");
    let loaded = accepted(&text);
    let values = loaded.matrix.view().values();
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [f64::INFINITY, f64::NEG_INFINITY, 1.0]);
    assert_eq!(loaded.notes, ["3 values are not finite"]);
    let given = given("a.mtx", text);
    let strict = ReadOptions { finite: true, ..ReadOptions::default() };
    let error = read::<f64>(&given.path, &strict).unwrap_err().to_string();
    assert!(error.contains("a.mtx:3: value 'nan' is not finite"), "{error}");
}

#[test]
fn fortran_and_short_spellings_of_numbers_are_accepted_and_others_refused() {
    for (word, value) in [("1.5D+02", 150.0), ("2d-1", 0.2), ("+1.E-3", 1e-3), (".5", 0.5), ("5.", 5.0)] {
        let loaded = one_value(word);
        assert_eq!(loaded.matrix.view().values(), &[value], "{word}");
        assert!(loaded.notes.is_empty());
    }
    for word in ["1.5-102", "1,5", "0x1p3", "1.5e", "one", "--1"] {
        refused(format!("{REAL}1 1 1\n1 1 {word}\n"), 3, &format!("value '{word}' is not a number"));
    }
}

#[test]
fn numbers_that_overflow_are_refused_and_those_that_underflow_are_counted() {
    refused(format!("{REAL}1 1 1\n1 1 1e400\n"), 3, "value '1e400' overflows f64");
    refused(format!("{REAL}1 1 1\n1 1 -1e400\n"), 3, "overflows f64");
    let digits = "1".repeat(1 << 20);
    refused(format!("{REAL}1 1 1\n1 1 {digits}\n"), 3, "overflows");
    refused(format!("{REAL}1 1 1\n{digits} 1 1\n"), 3, "longer than 4096 bytes");
    refused(format!("{REAL}{digits} 1 1\n1 1 1\n"), 2, "longer than 4096 bytes");
    refused(format!("{REAL}1 1 1\n1 1 {}\n", &digits[..400]), 3, "overflows f64");
    let loaded = one_value("1e-400");
    assert_eq!(loaded.matrix.view().values(), &[0.0]);
    assert_eq!(loaded.notes, ["1 value below the smallest number became zero"]);
}

#[test]
fn single_precision_has_its_own_range() {
    let large = given("a.mtx", format!("{REAL}1 1 1\n1 1 1e39\n"));
    let error = read::<f32>(&large.path, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a.mtx:3: value '1e39' overflows f32; use the value type f64"), "{error}");
    let small = given("a.mtx", format!("{REAL}1 2 2\n1 1 1e-50\n1 2 16777217\n"));
    let loaded = read::<f32>(&small.path, &ReadOptions::default()).unwrap();
    assert_eq!(loaded.matrix.view().values(), &[0.0, 16777216.0]);
    assert_eq!(loaded.notes, ["1 value below the smallest number became zero"]);
}

#[test]
fn a_symmetric_file_with_one_triangle_gives_both() {
    let loaded = accepted(format!("{SYMMETRIC}3 3 3\n1 1 1\n2 1 2\n3 2 3\n"));
    let expected = [[1.0, 2.0, 0.0], [2.0, 0.0, 3.0], [0.0, 3.0, 0.0]];
    assert_eq!(dense_rows(&loaded), expected);
    assert!(loaded.notes.is_empty());
    let upper = accepted(format!("{SYMMETRIC}3 3 3\n1 1 1\n1 2 2\n2 3 3\n"));
    assert_eq!(dense_rows(&upper), expected);
    assert_eq!(upper.notes.len(), 1);
    assert!(upper.notes[0].starts_with("2 entries lie above the diagonal"));
    // Entries of both triangles are accepted if no entry and its mirror image are both listed; repeated entries are duplicates.
    let mixed = accepted(format!("{SYMMETRIC}3 3 4\n1 1 1\n1 2 1\n1 2 1\n3 2 3\n"));
    assert_eq!(dense_rows(&mixed), expected);
    assert_eq!(mixed.notes.len(), 2);
    assert!(mixed.notes[1].starts_with("1 duplicate entry"));
    let hermitian =
        accepted(format!("{}3 3 3\n1 1 1\n2 1 2\n3 2 3\n", SYMMETRIC.replace("symmetric", "hermitian")));
    assert_eq!(dense_rows(&hermitian), expected);
    assert_eq!(hermitian.info.symmetry, Symmetry::Hermitian);
}

#[test]
fn symmetric_files_with_both_triangles_or_not_square_are_refused() {
    let both = "row 1 column 2 and its mirror image are both listed";
    refused(format!("{SYMMETRIC}3 3 3\n1 1 1\n1 2 2\n2 1 2\n"), None, both);
    let skew = SYMMETRIC.replace("symmetric", "skew-symmetric");
    refused(format!("{skew}3 3 2\n2 1 2\n1 2 -2\n"), None, both);
    refused(format!("{SYMMETRIC}2 3 1\n1 1 1\n"), 2, "square, but this one is 2 by 3");
}

#[test]
fn the_diagonal_of_a_skew_symmetric_matrix_must_be_zero() {
    let banner = SYMMETRIC.replace("symmetric", "skew-symmetric");
    let loaded = accepted(format!("{banner}2 2 2\n2 1 3\n1 1 0\n"));
    assert_eq!(dense_rows(&loaded), [[0.0, -3.0], [3.0, 0.0]]);
    assert_eq!(loaded.matrix.nnz(), 3);
    for value in ["1", "nan", "1e-300"] {
        refused(
            format!("{banner}2 2 2\n2 1 3\n2 2 {value}\n"),
            4,
            "diagonal of a skew-symmetric matrix is zero",
        );
    }
    let pattern = banner.replace("real", "pattern");
    assert_eq!(dense_rows(&accepted(format!("{pattern}2 2 1\n2 1\n"))), [[0.0, -1.0], [1.0, 0.0]]);
    refused(format!("{pattern}2 2 2\n2 1\n1 1\n"), 4, "diagonal of a skew-symmetric matrix is zero");
}

#[test]
fn pattern_entries_are_one_and_must_not_have_values() {
    let banner = REAL.replace("real", "pattern");
    let loaded = accepted(format!("{banner}2 2 2\n1 2\n2 1\n"));
    assert_eq!(dense_rows(&loaded), [[0.0, 1.0], [1.0, 0.0]]);
    assert_eq!(loaded.info.field, Field::Pattern);
    refused(format!("{banner}2 2 2\n1 2\n2 1 1.0\n"), 4, "have no value, but '1.0' follows");
}

#[test]
fn integers_that_are_rounded_are_counted_in_a_note() {
    let banner = REAL.replace("real", "integer");
    let loaded = accepted(format!("{banner}1 3 3\n1 1 9007199254740993\n1 2 9007199254740992\n1 3 -7\n"));
    assert_eq!(loaded.matrix.view().values(), &[9007199254740992.0, 9007199254740992.0, -7.0]);
    assert_eq!(loaded.notes, ["1 integer beyond 2^53 was rounded"]);
    assert_eq!(loaded.info.field, Field::Integer);
    refused(format!("{banner}1 1 1\n1 1 1.5\n"), 3, "'1.5' of an integer matrix is not a whole number");
}

#[test]
fn alternative_names_of_fields_are_accepted() {
    let loaded = accepted(format!("{}1 1 1\n1 1 2.5\n", REAL.replace("real", "double")));
    assert_eq!((dense_rows(&loaded), loaded.info.field), (vec![vec![2.5]], Field::Real));
    let banner = REAL.replace("real", "unsigned-integer");
    let loaded = accepted(format!("{banner}1 1 1\n1 1 25\n"));
    assert_eq!((dense_rows(&loaded), loaded.info.field), (vec![vec![25.0]], Field::Integer));
    refused(format!("{banner}1 1 1\n1 1 -25\n"), 3, "'-25' of an unsigned-integer matrix is negative");
}

#[test]
fn the_error_for_an_unsupported_kind_lists_the_supported_ones() {
    let complex = format!("{}1 1 1\n1 1 1 0\n", REAL.replace("real", "complex"));
    refused(&complex, 1, "unsupported: complex values; real, integer and pattern matrices are read here");
    let unknown = REAL.replace("real", "quaternion");
    refused(
        format!("{unknown}1 1 1\n1 1 1\n"),
        1,
        "real, double, integer, unsigned-integer, pattern and complex are read",
    );
    refused(
        format!("{}1 1\n1 1\n", REAL.replace("matrix ", "vector ")),
        1,
        "unsupported: 'vector' objects; only 'matrix'",
    );
    refused(format!("{ARRAY}1 1\n1\n"), 1, "unsupported: dense");
    refused(format!("{}1 1 0\n", REAL.replace("general", "lopsided")), 1, "unsupported: symmetry 'lopsided'");
    refused("%%MatrixMarket matrix coordinate real\n1 1 0\n", 1, "the banner needs");
}
