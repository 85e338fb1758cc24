//! Sums of columns and of squared deviations.

use rowloom_cpu::{Isa, Merge, MergeWeights, Strand};

use crate::draw::{Draw, draws_for_each_isa};
use crate::guarded::{Guarded, Side};
use crate::real::{Real, assert_bits};

fn tree<T: Real>(v: [T; 8]) -> T {
    v[0].sum(v[1]).sum(v[2].sum(v[3])).sum(v[4].sum(v[5]).sum(v[6].sum(v[7])))
}

/// Squared deviations of two sets of rows together, by the formula of Chan, Golub and LeVeque.
fn merged<T: Real>(weights: MergeWeights<T>, sums: (T, T), deviations: (T, T)) -> T {
    let distance = sums.1.product(weights.second_inverse).difference(sums.0.product(weights.first_inverse));
    distance.product(distance).fma(weights.weight, deviations.0.sum(deviations.1))
}

/// The sum and the squared deviations of one column.
fn column<T: Real>(values: &[T], weights: &[MergeWeights<T>]) -> (T, T) {
    let zero = T::of(0.0);
    let mut result = (zero, zero);
    for (group, weights) in values.chunks(8).zip(weights) {
        let mut padded = [zero; 8];
        padded[..group.len()].copy_from_slice(group);
        let sum = tree(padded);
        let mean = sum.product(weights.second_inverse);
        let mut squares = [zero; 8];
        for (square, &value) in squares.iter_mut().zip(group) {
            *square = value.difference(mean).product(value.difference(mean));
        }
        let own = tree(squares);
        let is_first = std::ptr::eq(group.as_ptr(), values.as_ptr());
        result.1 = if is_first { own } else { merged(*weights, (result.0, sum), (result.1, own)) };
        result.0 = result.0.sum(sum);
    }
    result
}

fn weights<T: Real>(draw: &Draw) -> MergeWeights<T> {
    let [first_inverse, second_inverse, weight] = [(); 3].map(|()| T::of(draw.number()));
    MergeWeights { first_inverse, second_inverse, weight }
}

fn check_strand<T: Real>(isa: Isa, draw: &Draw) {
    let rows = draw.pick(&[0, 1, 7, 8, 9, 16, 17, draw.below(40)]);
    let columns = draw.below(20);
    let ldx = columns + draw.below(3);
    let mut x = Guarded::<T>::new(if rows == 0 { 0 } else { (rows - 1) * ldx + columns }, Side::End);
    for row in 0..rows {
        x[row * ldx..][..columns].copy_from_slice(&draw.numbers::<T>(columns));
    }
    let weights: Vec<_> = (0..rows.div_ceil(8)).map(|_| weights::<T>(draw)).collect();
    let zeros = vec![T::of(0.0); columns];
    let expected: Vec<(T, T)> = (0..columns)
        .map(|k| column(&(0..rows).map(|row| x[row * ldx + k]).collect::<Vec<_>>(), &weights))
        .collect();
    let (expected_sums, expected_deviations): (Vec<T>, Vec<T>) = expected.into_iter().unzip();
    let bodies = T::column_bodies(isa);
    let old_deviations = Guarded::<T>::new(columns, Side::End).to_vec();
    for deviations_too in [false, true] {
        let mut sums = Guarded::<T>::new(columns, Side::End);
        let mut deviations = Guarded::<T>::new(columns, Side::End);
        let body = if deviations_too { bodies.add_deviations } else { bodies.add };
        let mut strand = Strand {
            x: &x,
            ldx,
            rows,
            zeros: &zeros,
            weights: &weights,
            sums: &mut sums,
            deviations: &mut deviations,
        };
        // SAFETY: the processor has the instruction set.
        unsafe { body(&mut strand) };
        let what = format!("{rows} rows, {columns} columns, {}", isa.name());
        assert_bits(&sums, &expected_sums, &what);
        let has_deviations = deviations_too && rows > 0;
        assert_bits(&deviations, if has_deviations { &expected_deviations } else { &old_deviations }, &what);
    }
}

fn check_merge<T: Real>(isa: Isa, draw: &Draw) {
    let columns = draw.below(40);
    let weights = weights::<T>(draw);
    let [sums, deviations, more_sums, more_deviations] = [(); 4].map(|()| draw.numbers::<T>(columns));
    let expected_sums: Vec<T> = (0..columns).map(|k| sums[k].sum(more_sums[k])).collect();
    let expected_deviations: Vec<T> = (0..columns)
        .map(|k| merged(weights, (sums[k], more_sums[k]), (deviations[k], more_deviations[k])))
        .collect();
    let (mut sums, mut deviations) = (sums, deviations);
    let mut job = Merge {
        weights,
        sums: &mut sums,
        deviations: &mut deviations,
        more_sums: &more_sums,
        more_deviations: &more_deviations,
    };
    // SAFETY: the processor has the instruction set.
    unsafe { (T::column_bodies(isa).merge_deviations)(&mut job) };
    assert_bits(&sums, &expected_sums, isa.name());
    assert_bits(&deviations, &expected_deviations, isa.name());
}

#[test]
fn sums_and_deviations_of_a_strand_are_the_reference() {
    draws_for_each_isa(100, check_strand::<f64>);
    draws_for_each_isa(100, check_strand::<f32>);
}

#[test]
fn merged_deviations_are_the_reference() {
    draws_for_each_isa(100, check_merge::<f64>);
    draws_for_each_isa(100, check_merge::<f32>);
}
