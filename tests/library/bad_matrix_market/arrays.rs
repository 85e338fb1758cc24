//! Dense arrays.

use rowloom::Error;
use rowloom::internal::matrix::MultiVector;
use rowloom::internal::matrix::io::{ReadOptions, read_dense};

use super::{ARRAY, REAL, given, packed};

fn dense_of(bytes: impl AsRef<[u8]>) -> Result<MultiVector<f64>, Error> {
    let given = given("x.mtx", bytes);
    read_dense(&given.path, &ReadOptions::default()).map(|dense| dense.values)
}

#[test]
fn arrays_are_read_column_by_column() {
    let text = format!("{ARRAY}% note\n3 2\n1\n2.5\n-3\r\n\n4d0\n5\n6");
    for bytes in [text.clone().into_bytes(), packed(&text)] {
        let dense = dense_of(bytes).unwrap();
        assert_eq!((dense.rows(), dense.k()), (3, 2));
        assert_eq!(dense.data(), &[1.0, 4.0, 2.5, 5.0, -3.0, 6.0]);
    }
    let integers = dense_of(format!("{}1 2\n7\n-8\n", ARRAY.replace("real", "integer"))).unwrap();
    assert_eq!(integers.data(), &[7.0, -8.0]);
    assert_eq!(dense_of(format!("{ARRAY}0 5\n")).unwrap().rows(), 0);
}

#[test]
fn damaged_arrays_are_refused_with_their_line() {
    for (text, words) in [
        (format!("{ARRAY}2 1\n1\n2\n3\n"), "x.mtx:2: the size line declares 2 values but more follow"),
        (format!("{ARRAY}2 1\n1.000\n"), "x.mtx:2: the size line declares 2 values but only 1 follow"),
        (format!("{ARRAY}0 5\n1\n"), "x.mtx:2: the size line declares 0 values but more follow"),
        (format!("{ARRAY}2 1\n1\n2 3\n"), "x.mtx:4: '2 3' is more than one word"),
        (format!("{ARRAY}2 1\n1\nx\n"), "x.mtx:4: value 'x' is not a number"),
        (format!("{ARRAY}2 1\n1\n1e400\n"), "x.mtx:4: value '1e400' overflows f64"),
        (format!("{ARRAY}2 1\n1\n{}\n", "1".repeat(1 << 20)), "x.mtx:4: the line is longer than 4096 bytes"),
        (format!("{ARRAY}2 1\n1\n\0\n"), "x.mtx:4: there is a NUL byte"),
        (format!("{REAL}1 1 1\n1 1 1\n"), "x.mtx:1: a dense multivector is needed"),
        (format!("{}2 2\n1\n2\n3\n4\n", ARRAY.replace("general", "symmetric")), "x.mtx:1: unsupported"),
        (
            format!("{}2 2\n1\n", ARRAY.replace("real", "pattern")),
            "x.mtx:1: an array cannot be of field pattern",
        ),
    ] {
        let message = dense_of(&text).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn arrays_beyond_the_memory_limit_are_refused_before_allocating() {
    let array = given("x.mtx", format!("{ARRAY}1000 2\n{}", "1\n".repeat(2000)));
    let tight = ReadOptions { memory_limit_bytes: 15_999, ..ReadOptions::default() };
    let refused = read_dense::<f64>(&array.path, &tight);
    assert!(matches!(refused, Err(Error::DoesNotFit { needed_bytes: 16_000, limit_bytes: 15_999, .. })));
    assert!(read_dense::<f32>(&array.path, &tight).is_ok());
    let error = dense_of(format!("{ARRAY}1000000 1000000\n1\n")).unwrap_err();
    assert!(error.to_string().contains("x.mtx:2: the size line declares 1000000000000 entries"), "{error}");
}
