//! The CPU bodies against a serial reference: row-wise operations and sums bit for bit, sums also against a plain sum within the
//! rounding bound.

use proptest::prelude::*;
use rowloom_cpu::{Accumulation, Combination, Isa, Multiplication};

use super::order::{DOT_BLOCK_ROWS, DOT_LANES, GRAM_BLOCK_ROWS, GRAM_STRAND_ROWS, GRAM_STRANDS, Sum};
use super::rows::{Factor, axpby, copy, fill, gather_rows, scale, scaled, scatter_rows, times};
use super::sums::{PartialResults, partial_results, sum};
use crate::kernel::cpu::Kernels;
use crate::matrix::{MultiVector, MultiVectorView, Scalar};

/// A multivector of reproducible values of both signs and different magnitudes; the padding is NaN.
pub fn values<T: Scalar>(rows: usize, k: usize, leading_dimension: usize, seed: u64) -> MultiVector<T> {
    let mut result = MultiVector::zeros_with_leading_dimension(rows, k, leading_dimension).unwrap();
    result.data_mut().fill(T::from_f64(f64::NAN));
    for row in 0..rows {
        for (column, value) in result.view_mut().row_mut(row).iter_mut().enumerate() {
            let mut z = seed.wrapping_add((row as u64) << 20).wrapping_add(column as u64 + 1);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            let magnitude = ((z >> 60) as f64 - 8.0).exp2();
            *value = T::from_f64(((z as u32) as f64 / f64::from(u32::MAX) - 0.5) * magnitude);
        }
    }
    result
}

fn bits<T: Scalar>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.to_f64().to_bits()).collect()
}

/// Whether all elements equal `expected(row, column)` bit for bit.
fn check<T: Scalar>(y: &MultiVector<T>, expected: impl Fn(usize, usize) -> T) {
    for row in 0..y.rows() {
        for column in 0..y.k() {
            let (found, expected) = (y.row(row)[column], expected(row, column));
            assert_eq!(found.to_f64().to_bits(), expected.to_f64().to_bits(), "row {row}, column {column}");
        }
    }
}

/// The padding that `values` wrote is unchanged.
fn check_padding<T: Scalar>(y: &MultiVector<T>) {
    for row in 0..y.rows() {
        let padding = &y.data()[row * y.leading_dimension() + y.k()..(row + 1) * y.leading_dimension()];
        assert!(padding.iter().all(|value| value.to_f64().is_nan()), "padding of row {row} was written");
    }
}

fn product<T: Scalar>(a: T, b: T) -> T {
    // Exact in double precision for f32; for f64 the product itself.
    T::from_f64(a.to_f64() * b.to_f64())
}

/// The sum of the lanes by halving.
fn halved<T: Scalar>(lanes: &[T]) -> T {
    match lanes.split_at(lanes.len() / 2) {
        ([], last) => last[0],
        (low, high) => halved(&low.iter().zip(high).map(|(low, high)| low.plus(*high)).collect::<Vec<_>>()),
    }
}

/// One element of a partial result from the elements of its two columns in the block.
fn reference_partial<T: Scalar>(sum: Sum, x: &[T], y: &[T]) -> T {
    let chain = |rows: &mut dyn Iterator<Item = usize>| {
        rows.filter(|&row| row < x.len()).fold(T::ZERO, |sum, row| x[row].fused_multiply_add(y[row], sum))
    };
    match sum {
        Sum::Dot => {
            let lane = |lane: usize| chain(&mut (lane..DOT_BLOCK_ROWS).step_by(DOT_LANES));
            halved(&(0..DOT_LANES).map(lane).collect::<Vec<_>>())
        }
        Sum::Gram => {
            let strand = |first: usize| chain(&mut (first..first + GRAM_STRAND_ROWS));
            let strands = (0..GRAM_STRANDS).map(|number| strand(number * GRAM_STRAND_ROWS));
            strands.reduce(|sum, strand| sum.plus(strand)).unwrap()
        }
    }
}

/// The result of a sum, element by element.
pub fn reference_sum<T: Scalar>(sum: Sum, x: &MultiVector<T>, y: &MultiVector<T>) -> Vec<T> {
    let column = |from: &MultiVector<T>, column: usize| -> Vec<T> {
        (0..from.rows()).map(|row| from.row(row)[column]).collect()
    };
    let element = |i: usize, j: usize| {
        let (x, y) = (column(x, i), column(y, j));
        let block = sum.block_rows() as usize;
        let partials = x.chunks(block).zip(y.chunks(block)).map(|(x, y)| reference_partial(sum, x, y));
        partials.reduce(|sum, partial| sum.plus(partial)).unwrap_or(T::ZERO)
    };
    match sum {
        Sum::Dot => (0..x.k()).map(|i| element(i, i)).collect(),
        Sum::Gram => {
            (0..x.k()).flat_map(|i| (0..y.k()).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
        }
    }
}

fn row_wise_operations_equal_the_reference<T: Kernels>(
    rows: usize,
    k: usize,
    pads: (usize, usize),
    seed: u64,
) {
    let x = values::<T>(rows, k, k + pads.0, seed);
    let old = values::<T>(rows, k, k + pads.1, seed + 1);
    let again = || values::<T>(rows, k, k + pads.1, seed + 1);
    let number = |value: f64| T::from_f64(value);
    let columns: Vec<T> = (0..k).map(|column| number(column as f64 / 3.0 - 1.0)).collect();
    let others: Vec<T> = (0..k).map(|column| number(0.7 - column as f64 / 9.0)).collect();
    let (alpha, beta) = (number(1.3), number(-0.4));

    let mut y = again();
    fill(number(2.5), y.view_mut());
    check(&y, |_, _| number(2.5));
    check_padding(&y);

    let mut y = again();
    copy(x.view(), y.view_mut()).unwrap();
    check(&y, |row, column| x.row(row)[column]);
    check_padding(&y);

    let mut y = again();
    axpby(Factor::All(alpha), x.view(), Factor::All(beta), y.view_mut()).unwrap();
    let element = |alpha: T, beta: T, row: usize, column: usize| {
        alpha.fused_multiply_add(x.row(row)[column], product(beta, old.row(row)[column]))
    };
    check(&y, |row, column| element(alpha, beta, row, column));
    check_padding(&y);

    let mut y = again();
    axpby(Factor::Columns(&columns), x.view(), Factor::Columns(&others), y.view_mut()).unwrap();
    check(&y, |row, column| element(columns[column], others[column], row, column));
    let mut y = again();
    axpby(Factor::All(alpha), x.view(), Factor::Columns(&others), y.view_mut()).unwrap();
    check(&y, |row, column| element(alpha, others[column], row, column));
    check_padding(&y);

    let mut y = again();
    y.data_mut().fill(number(f64::NAN));
    scaled(Factor::Columns(&columns), x.view(), y.view_mut()).unwrap();
    check(&y, |row, column| product(columns[column], x.row(row)[column]));
    check_padding(&y);

    let mut y = again();
    scale(Factor::All(alpha), y.view_mut()).unwrap();
    check(&y, |row, column| product(alpha, old.row(row)[column]));
    scale(Factor::Columns(&others), y.view_mut()).unwrap();
    check(&y, |row, column| product(others[column], product(alpha, old.row(row)[column])));
    check_padding(&y);

    let list: Vec<u32> = (0..rows as u32).rev().step_by(2).collect();
    let mut packed = values::<T>(list.len(), k, k, seed + 2);
    gather_rows(&list, x.view(), packed.view_mut()).unwrap();
    check(&packed, |row, column| x.row(list[row] as usize)[column]);
    let mut y = again();
    scatter_rows(&list, packed.view(), y.view_mut()).unwrap();
    check(
        &y,
        |row, column| {
            if list.contains(&(row as u32)) { x.row(row)[column] } else { old.row(row)[column] }
        },
    );
    check_padding(&y);
}

fn times_equals_the_reference<T: Kernels>(
    rows: usize,
    (k, k2): (usize, usize),
    pads: (usize, usize),
    seed: u64,
) {
    let x = values::<T>(rows, k, k + pads.0, seed);
    let s = values::<T>(k, k2, k2 + pads.1, seed + 1);
    let old = values::<T>(rows, k2, k2 + pads.0, seed + 2);
    for beta in [None, Some(T::from_f64(0.3))] {
        let mut y = values::<T>(rows, k2, k2 + pads.0, seed + 2);
        if beta.is_none() {
            y.data_mut().fill(T::from_f64(f64::NAN));
        }
        times(x.view(), s.view(), beta, y.view_mut()).unwrap();
        check(&y, |row, column| {
            let start = beta.map_or(T::ZERO, |beta| product(beta, old.row(row)[column]));
            (0..k).fold(start, |sum, at| x.row(row)[at].fused_multiply_add(s.row(at)[column], sum))
        });
        check_padding(&y);
    }
}

fn sums_equal_the_reference<T: Kernels>(
    which: Sum,
    rows: usize,
    (k, k2): (usize, usize),
    pads: (usize, usize),
) {
    let k2 = if which == Sum::Dot { k } else { k2 };
    let (x, y) = (values::<T>(rows, k, k + pads.0, 3), values::<T>(rows, k2, k2 + pads.1, 4));
    let found = sum(which, x.view(), y.view()).unwrap();
    assert_eq!(bits(&found), bits(&reference_sum(which, &x, &y)));
    // Against a plain sum, with the bound of a sum of n products.
    for (at, found) in found.iter().enumerate() {
        let (i, j) = if which == Sum::Dot { (at, at) } else { (at / k2, at % k2) };
        let products = (0..rows).map(|row| x.row(row)[i].to_f64() * y.row(row)[j].to_f64());
        let (plain, size) = products.fold((0.0, 0.0), |(sum, size), one| (sum + one, size + one.abs()));
        let bound = 2.0 * rows as f64 * T::UNIT_ROUNDOFF * size + T::SMALLEST;
        assert!((found.to_f64() - plain).abs() <= bound, "{found} instead of {plain}");
    }
}

/// Each owner computes its whole blocks; blocks with several owners are computed from their rows.
fn split_sum<T: Kernels>(which: Sum, x: &MultiVector<T>, y: &MultiVector<T>, cuts: &[usize]) -> Vec<T> {
    let mut results = PartialResults::new(which, x.rows(), (x.k(), y.k()));
    let mut ends = cuts.to_vec();
    ends.push(x.rows());
    let mut begin = 0;
    for end in ends {
        let owned = which.owned(begin as u64..end as u64, x.rows() as u64);
        let view = |of: &'_ MultiVector<T>, rows: &std::ops::Range<u64>| -> MultiVector<T> {
            let rows = rows.start as usize..rows.end as usize;
            MultiVector::from_fn(rows.len(), of.k(), |row, column| of.row(rows.start + row)[column]).unwrap()
        };
        results.add_rows(view(x, &owned.head).view(), view(y, &owned.head).view()).unwrap();
        let (blocks_x, blocks_y) = (view(x, &owned.rows), view(y, &owned.rows));
        let blocks = (owned.blocks.end - owned.blocks.start) as usize;
        let mut partials = vec![T::ZERO; blocks * which.length(x.k() as u64, y.k() as u64) as usize];
        partial_results(which, blocks_x.view(), blocks_y.view(), &mut partials).unwrap();
        results.add_blocks(blocks_x.rows(), &partials).unwrap();
        results.add_rows(view(x, &owned.tail).view(), view(y, &owned.tail).view()).unwrap();
        begin = end;
    }
    results.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn row_wise_operations_equal_a_serial_reference_bit_for_bit(
        rows in 0usize..300, k in 1usize..=40, pads in (0usize..4, 0usize..4), seed in any::<u32>(),
    ) {
        row_wise_operations_equal_the_reference::<f64>(rows, k, pads, seed.into());
        row_wise_operations_equal_the_reference::<f32>(rows, k, pads, seed.into());
    }

    #[test]
    fn a_product_with_a_small_matrix_equals_a_serial_reference_bit_for_bit(
        rows in 0usize..200, k in (1usize..=40, 1usize..=40), pads in (0usize..4, 0usize..4), seed in any::<u32>(),
    ) {
        times_equals_the_reference::<f64>(rows, k, pads, seed.into());
        times_equals_the_reference::<f32>(rows, k, pads, seed.into());
    }

    #[test]
    fn products_of_columns_are_added_in_canonical_order(
        rows in 0usize..3 * DOT_BLOCK_ROWS, k in 1usize..=40, pads in (0usize..4, 0usize..4),
    ) {
        sums_equal_the_reference::<f64>(Sum::Dot, rows, (k, k), pads);
        sums_equal_the_reference::<f32>(Sum::Dot, rows, (k, k), pads);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn gram_matrices_are_added_in_canonical_order(
        rows in 0usize..2 * GRAM_BLOCK_ROWS + 500, k in (1usize..=20, 1usize..=20), pads in (0usize..4, 0usize..4),
    ) {
        sums_equal_the_reference::<f64>(Sum::Gram, rows, k, pads);
        sums_equal_the_reference::<f32>(Sum::Gram, rows, k, pads);
    }

    #[test]
    fn any_split_of_the_rows_gives_the_same_sums(
        rows in 1usize..3 * GRAM_BLOCK_ROWS, k in 1usize..=9, cuts in prop::collection::vec(0.0..1.0f64, 0..4),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|part| (part * rows as f64) as usize).collect();
        cuts.sort_unstable();
        let (x, y) = (values::<f64>(rows, k, k, 5), values::<f64>(rows, k, k + 1, 6));
        for which in [Sum::Dot, Sum::Gram] {
            let whole = sum(which, x.view(), y.view()).unwrap();
            prop_assert_eq!(bits(&split_sum(which, &x, &y, &cuts)), bits(&whole));
        }
    }
}

#[test]
fn several_owners_of_one_block_give_the_sum_of_the_whole() {
    let (x, y) = (values::<f32>(9000, 3, 3, 1), values::<f32>(9000, 3, 3, 2));
    for which in [Sum::Dot, Sum::Gram] {
        let whole = sum(which, x.view(), y.view()).unwrap();
        for cuts in [&[10, 20, 30][..], &[5000, 5001, 5002], &[4096, 8192], &[0, 9000], &[8999]] {
            assert_eq!(bits(&split_sum(which, &x, &y, cuts)), bits(&whole), "{cuts:?}");
        }
    }
}

#[test]
fn empty_multivectors_have_nothing_to_do_and_sums_of_zero() {
    let empty = values::<f64>(0, 3, 3, 1);
    assert_eq!(sum(Sum::Dot, empty.view(), empty.view()).unwrap(), [0.0; 3]);
    assert_eq!(sum(Sum::Gram, empty.view(), empty.view()).unwrap(), [0.0; 9]);
    let (x, mut y) = (values::<f64>(5, 0, 0, 1), values::<f64>(5, 0, 0, 2));
    scale(Factor::All(2.0), y.view_mut()).unwrap();
    copy(x.view(), y.view_mut()).unwrap();
    assert_eq!(sum(Sum::Gram, x.view(), x.view()).unwrap(), [0.0f64; 0]);
}

#[test]
fn operands_of_different_shapes_are_refused() {
    let (x, mut y) = (values::<f64>(5, 3, 3, 1), values::<f64>(4, 3, 3, 2));
    let usage = |result: crate::error::Result<()>| assert_eq!(result.unwrap_err().exit_code(), 2);
    usage(copy(x.view(), y.view_mut()));
    usage(times(x.view(), x.view(), None, y.view_mut()));
    usage(scale(Factor::Columns(&[1.0; 4]), y.view_mut()));
    usage(sum(Sum::Gram, x.view(), y.view()).map(drop));
    let wide = MultiVectorView::try_new(x.data(), 3, 4, 4).unwrap();
    usage(sum(Sum::Dot, x.view().rows_in(0..3), wide).map(drop));
    assert!(gather_rows(&[5, 0, 0, 0], x.view(), y.view_mut()).is_err());
    let results = PartialResults::<f64>::new(Sum::Dot, 5, (3, 3));
    assert!(results.finish().is_err(), "rows are missing");
}

/// Runs the loops of an instruction set on multivectors of `rows` by `k` and returns everything that they wrote.
#[allow(unsafe_code)] // calls SIMD leaves
fn leaves<T: Kernels>(isa: Isa, rows: usize, k: usize) -> Vec<u64> {
    let bodies = T::multivector_bodies(isa);
    let (x, y) = (values::<T>(rows, k, k, 1), values::<T>(rows, k, k, 2));
    let factors = values::<T>(2, k, k, 3);
    let mut written = Vec::new();
    for body in [bodies.scale, bodies.combine] {
        let mut y = values::<T>(rows, k, k, 2);
        let (alphas, betas) = (factors.row(0).as_ptr(), factors.row(1).as_ptr());
        let (x, ldx, ldy) = (x.data().as_ptr(), k, k);
        let job = Combination { rows, columns: k, x, ldx, y: y.data_mut().as_mut_ptr(), ldy, alphas, betas };
        // SAFETY: the multivectors have the rows and columns, and the processor has the instruction set.
        unsafe { body(&job) };
        written.extend(bits(y.data()));
    }
    let mut sums = values::<T>(3, k, k, 4);
    let job = Accumulation {
        rows,
        columns: k,
        x: x.data().as_ptr(),
        ldx: k,
        y: y.data().as_ptr(),
        ldy: k,
        sums: sums.data_mut().as_mut_ptr(),
        lanes: 3,
    };
    // SAFETY: as above; there are three rows of sums.
    unsafe { (bodies.accumulate)(&job) };
    written.extend(bits(sums.data()));
    for beta in [None, Some(T::from_f64(0.7))] {
        let mut product = values::<T>(k, k, k, 5);
        let job = Multiplication {
            rows: k,
            columns: k,
            depth: rows,
            a: x.data().as_ptr(),
            row_stride: 1,
            depth_stride: k,
            b: y.data().as_ptr(),
            ldb: k,
            c: product.data_mut().as_mut_ptr(),
            ldc: k,
            beta,
        };
        // SAFETY: as above; the product has K × K elements.
        unsafe { (bodies.multiply)(&job) };
        written.extend(bits(product.data()));
    }
    written
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    for k in 1..=40 {
        for isa in Isa::available() {
            assert_eq!(
                leaves::<f64>(*isa, 7, k),
                leaves::<f64>(Isa::Portable, 7, k),
                "{} k = {k}",
                isa.name()
            );
            assert_eq!(
                leaves::<f32>(*isa, 7, k),
                leaves::<f32>(Isa::Portable, 7, k),
                "{} k = {k}",
                isa.name()
            );
        }
    }
}
