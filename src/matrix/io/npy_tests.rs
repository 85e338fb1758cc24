//! Arrays as NumPy writes them, read; arrays written, byte for byte.

use super::*;

/// A version 1 file.
fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn read_bytes<T: Scalar>(bytes: &[u8], options: &ReadOptions) -> Result<MultiVector<T>> {
    read_dense_bytes(bytes, options).map(|dense| dense.values)
}

fn read_dense_bytes<T: Scalar>(bytes: &[u8], options: &ReadOptions) -> Result<Dense<T>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read_npy(file.path(), options)
}

fn values<T: Scalar>(bytes: &[u8]) -> (usize, usize, Vec<T>) {
    let array = read_bytes(bytes, &ReadOptions::default()).unwrap();
    (array.rows(), array.k(), array.data().to_vec())
}

fn refusal(bytes: &[u8]) -> String {
    match read_bytes::<f64>(bytes, &ReadOptions::default()) {
        Err(error @ Error::Input { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn le<const N: usize>(parts: &[[u8; N]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn vectors_and_both_orders_of_matrices_are_read() {
    let data = le(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0].map(f64::to_le_bytes));
    assert_eq!(values(&npy("'<f8'", "False", "(6,)", &data)), (6, 1, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(values(&npy("'<f8'", "False", "(2, 3)", &data)), (2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(values(&npy("'<f8'", "True", "(2, 3)", &data)), (2, 3, vec![1.0f32, 3.0, 5.0, 2.0, 4.0, 6.0]));
    assert_eq!(values::<f64>(&npy("'<f8'", "False", "(0, 3)", &[])), (0, 3, vec![]));
    assert_eq!(values::<f64>(&npy("'<f8'", "False", "(3, 0)", &[])), (3, 0, vec![]));
}

#[test]
fn every_number_type_and_byte_order_is_read() {
    let read = |descr: &str, data: &[u8]| values::<f64>(&npy(descr, "False", "(2,)", data)).2;
    assert_eq!(read("'<f4'", &le(&[0.5f32, -3.0].map(f32::to_le_bytes))), [0.5, -3.0]);
    assert_eq!(read("'>f8'", &le(&[0.5f64, -3.0].map(f64::to_be_bytes))), [0.5, -3.0]);
    assert_eq!(read("'|i1'", &[255, 127]), [-1.0, 127.0]);
    assert_eq!(read("'|u1'", &[255, 127]), [255.0, 127.0]);
    assert_eq!(read("'<i2'", &le(&[-300i16, 7].map(i16::to_le_bytes))), [-300.0, 7.0]);
    assert_eq!(read("'>i4'", &le(&[-300i32, 7].map(i32::to_be_bytes))), [-300.0, 7.0]);
    assert_eq!(read("\"<i8\"", &le(&[i64::MIN, 7].map(i64::to_le_bytes))), [i64::MIN as f64, 7.0]);
    assert_eq!(read("'<u8'", &le(&[u64::MAX, 7].map(u64::to_le_bytes))), [u64::MAX as f64, 7.0]);
    assert_eq!(read("'|b1'", &[1, 0]), [1.0, 0.0]);
}

#[test]
fn what_is_not_real_numbers_is_refused_by_name() {
    assert!(refusal(&npy("'<c16'", "False", "(1,)", &[0; 16])).contains("complex"));
    assert!(refusal(&npy("'|O'", "False", "(1,)", &[0; 8])).contains("Python objects"));
    assert!(refusal(&npy("[('a', '<f8')]", "False", "(1,)", &[0; 8])).contains("records"));
    assert!(refusal(&npy("'<f2'", "False", "(1,)", &[0; 2])).contains("<f2"));
    assert!(refusal(&npy("'|S3'", "False", "(1,)", &[0; 3])).contains("text"));
    assert!(refusal(&npy("'<f8'", "False", "(1, 1, 1)", &[0; 8])).contains("3 dimensions"));
    assert!(refusal(&npy("'<f8'", "False", "()", &[0; 8])).contains("0 dimensions"));
}

#[test]
fn damaged_files_are_refused() {
    let whole = npy("'<f8'", "False", "(2, 3)", &[0; 48]);
    for length in 0..whole.len() {
        refusal(&whole[..length]);
    }
    refusal(&[&whole[..], &[0]].concat());
    for (descr, order, shape) in [
        ("'<f8'", "False", "(18446744073709551615, 2)"),
        ("'<f8'", "False", "(99999999999999999999999,)"),
        ("'<f8'", "False", "(1000000, 1000000)"),
        ("'<f8'", "False", "(-1,)"),
        ("'<f8'", "Maybe", "(6,)"),
        ("'", "False", "(6,)"),
        ("'é'", "False", "(6,)"),
        ("", "", ""),
    ] {
        refusal(&npy(descr, order, shape, &[0; 48]));
    }
    let mut huge_header = b"\x93NUMPY\x02\x00".to_vec();
    huge_header.extend(u32::MAX.to_le_bytes());
    assert!(refusal(&huge_header).contains("4294967295"));
    assert!(refusal(b"\x93NUMPY\x09\x00abc").contains("version 9"));
}

#[test]
fn limits_and_finite_are_kept() {
    let bytes = npy("'<f8'", "False", "(2,)", &le(&[1.0, f64::NAN].map(f64::to_le_bytes)));
    let limit = |memory_limit_bytes| ReadOptions { memory_limit_bytes, ..ReadOptions::default() };
    assert!(read_bytes::<f64>(&bytes, &limit(16)).is_ok());
    let refused = read_bytes::<f64>(&bytes, &limit(15));
    assert!(matches!(refused, Err(Error::DoesNotFit { needed_bytes: 16, limit_bytes: 15, .. })));
    let finite = ReadOptions { finite: true, ..ReadOptions::default() };
    assert!(
        read_bytes::<f64>(&bytes, &finite)
            .unwrap_err()
            .to_string()
            .contains("only finite values are allowed")
    );
}

#[test]
fn what_is_written_is_numpys_format_and_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y.npy");
    let mut array = MultiVector::<f32>::zeros_with_leading_dimension(3, 2, 5).unwrap();
    for row in 0..3 {
        array.view_mut().row_mut(row).copy_from_slice(&[row as f32 / 3.0, -0.0]);
        array.view_mut().data_mut()[row * 5 + 2] = 9.0;
    }
    write_npy(&path, &array, true).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    assert_eq!(&bytes[10..10 + header.len()], header.as_bytes());
    assert_eq!((bytes.len() - 24) % 64, 0);
    assert_eq!(bytes[bytes.len() - 25], b'\n');
    assert!(is_own(&bytes));
    let back = read_npy::<f32>(&path, &ReadOptions::default()).unwrap().values;
    for row in 0..3 {
        assert_eq!(
            back.row(row).iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
            [(row as f32 / 3.0).to_bits(), (-0.0f32).to_bits()]
        );
    }
}

#[test]
fn a_vector_is_read_and_written_with_one_dimension() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y.npy");
    let vector = MultiVector::<f64>::from_fn(3, 1, |row, _| row as f64).unwrap();
    for one_dimensional in [true, false] {
        write_npy(&path, &vector, one_dimensional).unwrap();
        let dense = read_npy::<f64>(&path, &ReadOptions::default()).unwrap();
        assert_eq!(dense.format, ArrayFormat::Npy { one_dimensional });
        assert_eq!(dense.values.data(), vector.data());
    }
    let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
    assert!(text.contains("'shape': (3, 1)"), "{text}");
}

#[test]
fn arrays_of_numpy_are_not_taken_for_our_own() {
    let data = [0; 24];
    assert!(!is_own(&npy("'<f8'", "False", "(3,)", &data)));
    // As NumPy pads.
    assert!(!is_own(&[header_bytes("<f8", "(3,)", 128), vec![0; 999]].concat()));
    assert!(is_own(&[header_bytes("<f8", "(3,)", 256), data.to_vec()].concat()));
    assert!(!is_own(b"") && !is_own(&[0; 300]));
}

#[test]
fn chosen_rows_are_read_in_both_orders() {
    let data = le(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0].map(f64::to_le_bytes));
    let rows = |fortran: &str, shape: &str, data: &[u8]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), npy("'<f8'", fortran, shape, data)).unwrap();
        NpyRows::open(&Input::open(file.path()).unwrap())
    };
    let by_rows = rows("False", "(3, 2)", &data).unwrap();
    assert_eq!((by_rows.rows(), by_rows.k(), by_rows.is_one_dimensional()), (3, 2, false));
    assert_eq!(by_rows.read::<f64>(2, |index| 2 - index as u64).unwrap().data(), [5.0, 6.0, 3.0, 4.0]);
    let by_columns = rows("True", "(3, 2)", &data).unwrap();
    assert_eq!(by_columns.read::<f32>(2, |index| 1 + index as u64).unwrap().data(), [2.0f32, 5.0, 3.0, 6.0]);
    assert!(rows("False", "(6,)", &data).unwrap().is_one_dimensional());
    assert!(rows("False", "(7,)", &data).is_err());
    let large = rows("False", "(1,)", &1e300f64.to_le_bytes()).unwrap();
    assert!(large.read::<f32>(1, |_| 0).unwrap_err().to_string().contains("1 value overflows f32"));
}

#[test]
fn a_header_with_other_keys_is_refused() {
    let keys = "'fortran_order': False, 'shape': (1,), 'more': 1";
    let header = format!("{{'descr': '<f8', {keys}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(1f64.to_le_bytes());
    assert!(refusal(&bytes).contains("other keys"));
}

#[test]
fn an_array_whose_values_overflow_the_type_is_refused() {
    let bytes = npy("'<f8'", "False", "(2,)", &le(&[1e300f64, 1.0].map(f64::to_le_bytes)));
    let error = read_bytes::<f32>(&bytes, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("1 value overflows f32"), "{error}");
}

#[test]
fn a_header_is_short_where_numpy_needs_128_bytes_for_it() {
    // NumPy's 128 bytes hold a prefix of 10 bytes, the dictionary and a line feed.
    let is_own_with = |dictionary_bytes: usize| {
        let without_shape = "{'descr': '<f8', 'fortran_order': False, 'shape': , }".len();
        let shape = format!("({},)", "3".repeat(dictionary_bytes - without_shape - 3));
        is_own(&header_bytes("<f8", &shape, 256))
    };
    assert!(is_own_with(117) && !is_own_with(118));
}
