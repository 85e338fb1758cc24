//! The kernel on a packed A gives the bits of the kernel on the host's arrays, however columns and values are packed.

use proptest::prelude::*;

use super::kernel_tests::{product, x_for};
use crate::kernel::KernelId;
use crate::kernel::cuda::{CudaKernel, Layout};
use crate::matrix::{Csr, MultiVector, Scalar, ValueCode};
use crate::work::spmm::Storage;

/// A matrix with rows of these lengths, whose columns reach over `span`, and with about `distinct` values; with others in single
/// precision where there are 0, and with general ones where there are more than 70,000.
fn matrix<T: Scalar>(lengths: &[usize], span: usize, distinct: usize, seed: usize) -> Csr<T> {
    let cols = span + 1 + lengths.len();
    let (mut pointers, mut columns) = (vec![0u64], Vec::new());
    for (row, &length) in lengths.iter().enumerate() {
        let own = |at: usize| match at {
            // The ends of the span, and columns between them in any order.
            0 => row,
            1 => row + span,
            _ => row + (at * 7_919 + row * 104_729 + seed) % (span + 1),
        };
        columns.extend((0..length).map(|at| own(at) as u32));
        pointers.push(columns.len() as u64);
    }
    let value = |at: usize| match distinct {
        0 => f64::from((at + seed) as f32 * 0.37 + 1.1e-40),
        1..70_000 => match (at * 31 + seed) % distinct {
            0 => -0.0,
            1 => f64::MIN_POSITIVE / 3.0,
            2 => f64::INFINITY,
            place => (place as f64 - 100.3) / 7.0,
        },
        _ => (at as f64 + 0.1) / 3.0,
    };
    let values: Vec<T> = (0..columns.len()).map(|at| T::from_f64(value(at))).collect();
    Csr::try_new(lengths.len(), cols, pointers, columns, values).unwrap()
}

fn kernel(id: KernelId) -> &'static CudaKernel {
    CudaKernel::of(id).unwrap()
}

/// Compares the widest and the narrowest form of the packed kernel with a form of `csr_cuts`, for all rows and for some.
fn check<T: Scalar>(a: &Csr<T>, k: usize) -> Storage {
    let x: MultiVector<T> = x_for(a.cols(), k, k);
    let (packed, cuts) = (kernel(KernelId::CsrPacked), kernel(KernelId::CsrCuts));
    let forms: Vec<_> = packed.variants_for(T::DTYPE, k as u64).collect();
    let some = a.rows() / 3..a.rows() - a.rows() / 4;
    for rows in [0..a.rows(), some] {
        let expected = product(cuts, forms[0], a.view(), rows.clone(), &x).unwrap();
        for form in [forms.first(), forms.last()].into_iter().flatten() {
            let y = product(packed, form, a.view(), rows.clone(), &x).unwrap();
            for row in 0..rows.len() {
                let (have, want) = (y.row(row), expected.row(row));
                let same = bytemuck::cast_slice::<T, u8>(have) == bytemuck::cast_slice::<T, u8>(want);
                let name = packed.entry(T::DTYPE, form);
                assert!(same, "{name}, k = {k}, row {row} of {rows:?}: {have:?} for {want:?}");
            }
        }
    }
    Storage::of(Layout::Packed, forms[0], a.view()).unwrap()
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![6 => 0..9usize, 2 => 120..140usize, 1 => 250..262usize, 1 => 1020..1030usize, 1 => 8190..8330usize];
    proptest::collection::vec(length, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_packed_a_gives_the_bits_of_the_arrays_it_was_packed_from(
        lengths in lengths(),
        span in prop_oneof![Just(3usize), Just(300), Just(65_519), Just(65_535), Just(65_536), Just(70_000)],
        distinct in prop_oneof![Just(0usize), Just(1), Just(2), Just(255), Just(256), Just(257), Just(70_000)],
        k in prop_oneof![Just(1usize), Just(2), Just(3), Just(5), Just(8), Just(17), Just(33), Just(64), Just(100), Just(130)],
        seed in 0..1000usize,
    ) {
        // X has so many rows.
        let k = if span > 1000 { k.min(8) } else { k };
        check(&matrix::<f64>(&lengths, span, distinct, seed), k);
        check(&matrix::<f32>(&lengths, span, distinct, seed), k);
    }
}

#[test]
fn wide_spans_take_more_bits_and_give_the_same_result() {
    // The rows of a block begin at 16 columns.
    let lengths: Vec<usize> = (0..35).map(|row| 2 + row % 5).collect();
    for (span, bits) in [
        ((1 << 16) - 16, 0),
        ((1 << 16) - 15, 4),
        ((1 << 20) - 16, 4),
        ((1 << 20) - 15, 8),
        ((1 << 24) - 16, 8),
        ((1 << 24) - 15, 16),
    ] {
        let storage = check(&matrix::<f32>(&lengths, span, 70_000, 5), 1);
        assert_eq!(storage.packed_number("high_bits"), Some(bits), "a span of {span}");
    }
}

#[test]
fn values_take_the_bytes_of_their_code_and_nan_keeps_its_bits() {
    let code = |storage: Storage| storage.packed_number("value_code").unwrap();
    let of = |distinct| code(check(&matrix::<f64>(&[600; 200], 200, distinct, 3), 2));
    let expected = [(0, 3), (1, 0), (2, 1), (255, 1), (256, 1), (257, 2), (70_000, 4)]
        .map(|(distinct, code)| (distinct, code as u64));
    for (distinct, expected) in expected {
        assert_eq!(of(distinct), expected, "{distinct} distinct values");
    }
    let a = matrix::<f64>(&[9; 20], 50, 1, 0);
    let (pointers, columns) = (a.view().row_pointers().to_vec(), a.view().columns().to_vec());
    let mut values = vec![f64::from_bits(0x7ff8_0000_0000_1234); a.nnz()];
    values[3] = f64::from_bits(0xfff8_0000_0000_0007);
    let with_nan = Csr::try_new(a.rows(), a.cols(), pointers, columns, values).unwrap();
    assert_eq!(code(check(&with_nan, 1)), ValueCode::Byte as u64);
}
