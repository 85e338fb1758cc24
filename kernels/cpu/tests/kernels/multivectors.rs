//! Loops over dense multivectors.

use rowloom_cpu::{Accumulation, Combination, Isa, Multiplication};

use crate::draw::{Draw, draws_for_each_isa};
use crate::guarded::{Guarded, Side};
use crate::real::{Real, assert_bits};
use crate::select::lanes;

/// A dense matrix stored by rows; elements between rows are NaN.
struct Dense<T> {
    data: Guarded<T>,
    ld: usize,
}

impl<T: Real> Dense<T> {
    fn draw(draw: &Draw, rows: usize, columns: usize) -> Self {
        let mut dense = Self::nan(draw, rows, columns);
        for row in 0..rows {
            let at = row * dense.ld;
            dense.data[at..][..columns].copy_from_slice(&draw.numbers::<T>(columns));
        }
        dense
    }

    fn nan(draw: &Draw, rows: usize, columns: usize) -> Self {
        let ld = columns + draw.pick(&[0, 1, 5]);
        let count = if rows == 0 { 0 } else { (rows - 1) * ld + columns };
        Self { data: Guarded::new(count, draw.pick(&[Side::Start, Side::End])), ld }
    }

    fn at(&self, row: usize, column: usize) -> T {
        self.data[row * self.ld + column]
    }
}

/// A number of columns: often at the edge of a register or of the columns of a tile.
fn width<T>(draw: &Draw, isa: Isa) -> usize {
    let lanes = lanes::<T>(isa);
    let registers = draw.below(7);
    match draw.below(4) {
        0 => draw.below(3 * lanes),
        1 => registers * lanes + 1,
        2 => (registers * lanes).saturating_sub(1),
        _ => registers * lanes,
    }
}

fn check_combination<T: Real>(isa: Isa, draw: &Draw) {
    let (rows, columns) = (draw.below(5), width::<T>(draw, isa));
    let (reads_y, in_place) = (draw.one_in(2), draw.one_in(3));
    let x = Dense::<T>::draw(draw, rows, columns);
    let mut y =
        if reads_y || in_place { Dense::draw(draw, rows, columns) } else { Dense::nan(draw, rows, columns) };
    let alphas = Guarded::<T>::of(&draw.numbers(columns), Side::End);
    let betas = if reads_y {
        Guarded::of(&draw.numbers::<T>(columns), Side::End)
    } else {
        Guarded::new(0, Side::End)
    };
    let mut expected = y.data.to_vec();
    for row in 0..rows {
        for k in 0..columns {
            let from = if in_place { y.at(row, k) } else { x.at(row, k) };
            let addend = if reads_y { betas[k].fma(y.at(row, k), T::of(-0.0)) } else { T::of(-0.0) };
            expected[row * y.ld + k] = alphas[k].fma(from, addend);
        }
    }
    let y_pointer = y.data.as_mut_ptr();
    let job = Combination {
        rows,
        columns,
        x: if in_place { y_pointer.cast_const() } else { x.data.as_ptr() },
        ldx: if in_place { y.ld } else { x.ld },
        y: y_pointer,
        ldy: y.ld,
        alphas: alphas.as_ptr(),
        betas: betas.as_ptr(),
    };
    let bodies = T::multivector_bodies(isa);
    // SAFETY: the buffers have the sizes of the job; the processor has the instruction set.
    unsafe { if reads_y { (bodies.combine)(&job) } else { (bodies.scale)(&job) } };
    assert_bits(&y.data, &expected, &format!("{rows} x {columns}, {}", isa.name()));
    assert!(y.data.is_intact());
}

fn check_accumulation<T: Real>(isa: Isa, draw: &Draw) {
    let (rows, columns, lanes) = (draw.below(8), width::<T>(draw, isa), 1 + draw.below(4));
    let (x, y) = (Dense::<T>::draw(draw, rows, columns), Dense::<T>::draw(draw, rows, columns));
    let mut sums = Guarded::<T>::of(&draw.numbers(lanes * columns), Side::End);
    let mut expected = sums.to_vec();
    for row in 0..rows {
        for k in 0..columns {
            let sum = &mut expected[row % lanes * columns + k];
            *sum = x.at(row, k).fma(y.at(row, k), *sum);
        }
    }
    let job = Accumulation {
        rows,
        columns,
        x: x.data.as_ptr(),
        ldx: x.ld,
        y: y.data.as_ptr(),
        ldy: y.ld,
        sums: sums.as_mut_ptr(),
        lanes,
    };
    // SAFETY: as above.
    unsafe { (T::multivector_bodies(isa).accumulate)(&job) };
    assert_bits(&sums, &expected, &format!("{rows} x {columns}, {lanes} lanes, {}", isa.name()));
    assert!(sums.is_intact());
}

fn check_multiplication<T: Real>(isa: Isa, draw: &Draw) {
    let rows = draw.pick(&[0, 1, 3, 4, 5, 7, 8, 9, 17, draw.below(20)]);
    let (columns, depth) = (width::<T>(draw, isa), draw.below(6));
    let is_transposed = draw.one_in(2);
    let a = if is_transposed { Dense::<T>::draw(draw, depth, rows) } else { Dense::draw(draw, rows, depth) };
    let (row_stride, depth_stride) = if is_transposed { (1, a.ld) } else { (a.ld, 1) };
    let b = Dense::<T>::draw(draw, depth, columns);
    let beta = draw.one_in(2).then(|| T::of(draw.pick(&[0.0, 1.0, draw.number()])));
    let mut c =
        if beta.is_some() { Dense::<T>::draw(draw, rows, columns) } else { Dense::nan(draw, rows, columns) };
    let mut expected = c.data.to_vec();
    for i in 0..rows {
        for j in 0..columns {
            let start = beta.map_or(T::of(0.0), |beta| beta.fma(c.at(i, j), T::of(-0.0)));
            expected[i * c.ld + j] = (0..depth)
                .fold(start, |sum, d| a.data[i * row_stride + d * depth_stride].fma(b.at(d, j), sum));
        }
    }
    let job = Multiplication {
        rows,
        columns,
        depth,
        a: a.data.as_ptr(),
        row_stride,
        depth_stride,
        b: b.data.as_ptr(),
        ldb: b.ld,
        c: c.data.as_mut_ptr(),
        ldc: c.ld,
        beta,
    };
    // SAFETY: as above.
    unsafe { (T::multivector_bodies(isa).multiply)(&job) };
    assert_bits(&c.data, &expected, &format!("{rows} x {columns} x {depth}, {}", isa.name()));
    assert!(c.data.is_intact());
}

#[test]
fn combinations_are_the_reference() {
    draws_for_each_isa(150, check_combination::<f64>);
    draws_for_each_isa(150, check_combination::<f32>);
}

#[test]
fn accumulations_are_the_reference() {
    draws_for_each_isa(100, check_accumulation::<f64>);
    draws_for_each_isa(100, check_accumulation::<f32>);
}

#[test]
fn products_with_a_small_matrix_are_the_reference() {
    draws_for_each_isa(150, check_multiplication::<f64>);
    draws_for_each_isa(150, check_multiplication::<f32>);
}
