//! Constructors of matrices refuse arrays that contradict each other.

use super::*;

fn coo(rows: &[u32], cols: &[u32], values: &[f64]) -> crate::error::Result<Coo<f64>> {
    Coo::try_new(2, 3, rows.to_vec(), cols.to_vec(), values.to_vec())
}

#[test]
fn a_list_of_entries_has_equal_lengths_and_stays_inside() {
    assert!(coo(&[], &[], &[]).unwrap().is_empty());
    assert!(!coo(&[1], &[2], &[1.0]).unwrap().is_empty());
    for wrong in [
        coo(&[0, 1], &[0], &[1.0]),
        coo(&[0], &[0, 1], &[1.0]),
        coo(&[0], &[0], &[]),
        coo(&[2], &[0], &[1.0]),
        coo(&[0], &[3], &[1.0]),
    ] {
        assert!(wrong.is_err());
    }
}

#[test]
fn rows_of_padded_ellpack_have_their_padding_at_the_end() {
    use super::ell::PADDING;
    let of = |columns: &[u32]| EllPadded::try_new(2, 3, 2, columns.to_vec(), vec![1.0f64; columns.len()]);
    assert!(of(&[0, 2, 1, PADDING]).is_ok());
    for wrong in [&[0, 2, 1][..], &[0, 3, 1, PADDING], &[PADDING, 0, 1, 2]] {
        assert!(of(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn rows_of_ellpack_without_padding_are_inside_their_arrays() {
    let of = |starts: &[u64], lengths: &[u32], columns: &[u32], values: usize| {
        EllUnpadded::try_new(3, starts.to_vec(), lengths.to_vec(), columns.to_vec(), vec![1.0f64; values])
    };
    let sound = of(&[0, 2], &[2, 1], &[0, 1, 2], 3).unwrap();
    assert_eq!((sound.rows(), sound.cols(), sound.bytes()), (2, 3, 2 * 12 + 3 * 12));
    assert_eq!((sound.row_starts(), sound.row_lengths()), (&[0, 2][..], &[2, 1][..]));
    for wrong in [
        of(&[0], &[2, 1], &[0, 1, 2], 3),
        of(&[0, 2], &[2, 1], &[0, 1, 2], 2),
        of(&[0, 2], &[2, 2], &[0, 1, 2], 3),
        of(&[0, u64::MAX], &[2, 1], &[0, 1, 2], 3),
        of(&[0, 2], &[2, 1], &[0, 1, 3], 3),
    ] {
        assert!(wrong.is_err());
    }
}

#[test]
fn rows_by_pointers_have_as_many_columns_as_values() {
    let said = |cols, pointers: &[u64], columns: &[u32], values: &[f64]| {
        CsrView::try_new(1, cols, pointers, columns, values).map(|_| ()).unwrap_err().to_string()
    };
    assert!(said(3, &[0, 2], &[0, 1], &[1.0]).contains("2 columns and 1 values"));
    assert!(said(usize::MAX, &[0, 1], &[0], &[1.0]).contains("at most"));
    assert!(said(3, &[0, 2], &[0, 3], &[1.0; 2]).contains("column 3"));
    assert!(CsrView::try_new(1, 3, &[0, 2], &[0, 2], &[1.0, 2.0]).is_ok());
}

#[test]
fn slices_have_a_height_a_length_and_a_window() {
    let matrix = generate::<f64>("stencil5,n=6", 1, 1 << 20).unwrap().matrix;
    let sound = Slicing { height: 4, window: 8, longest: 16, span: 16 };
    assert_eq!(SlicedEll::from_csr(matrix.view(), sound, 1 << 20).unwrap().nnz(), matrix.view().nnz());
    for wrong in [
        Slicing { height: 0, ..sound },
        Slicing { window: 0, ..sound },
        Slicing { longest: 0, ..sound },
        Slicing { span: 0, ..sound },
    ] {
        assert_eq!(SlicedEll::from_csr(matrix.view(), wrong, 1 << 20).unwrap_err().exit_code(), 2);
    }
}

#[test]
fn a_leading_dimension_is_at_least_the_number_of_columns() {
    assert_eq!(MultiVector::<f64>::zeros_with_leading_dimension(2, 3, 2).unwrap_err().exit_code(), 2);
    assert!(MultiVector::<f64>::zeros_with_leading_dimension(2, 3, 3).is_ok());
    assert_eq!(("f32".parse::<Dtype>().unwrap(), "f64".parse::<Dtype>().unwrap()), (Dtype::F32, Dtype::F64));
    assert_eq!("f16".parse::<Dtype>().unwrap_err().exit_code(), 2);
}
