//! The check of products by weighted sums: it calls no right Y wrong, and it finds flipped bits.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rowloom::internal::kernel::check::{Applied, Operator, wrong_rows, wrong_rows_by_rows};
use rowloom::internal::kernel::scaling::scaling;
use rowloom::internal::matrix::{MultiVector, MultiVectorView};

use crate::grid::Grid;
use crate::judge::{Operands, Value};
use crate::random::derived;

/// Errors from so many rounding bounds of their row on must be found.
const CLEAR_BOUNDS: f64 = 1000.0;

/// Checks of right products, none of which may call a row wrong.
static RIGHT: AtomicU64 = AtomicU64::new(0);
/// Clear errors of each precision, by the bound of the row and by that of the element, and those that each method found.
static CLEAR: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static FOUND: [[AtomicU64; 4]; 2] = [const { [const { AtomicU64::new(0) }; 4] }; 2];
/// The methods.
const METHODS: [&str; 2] = ["columns", "rows"];

/// Checks a right Y of these rows, and the same with one flipped bit.
pub fn check<T: Value>(
    operands: &Operands<'_, T>,
    x: MultiVectorView<'_, T>,
    (y, before): (&Grid<T>, &Grid<T>),
    rows: Range<usize>,
    (alpha, beta): (f64, f64),
) -> Result<(), String> {
    let factors = scaling::<T>(alpha, beta);
    let view =
        |grid: &Grid<T>| MultiVector::from_fn(rows.len(), operands.k, |row, column| grid.row(row)[column]);
    let error = |error: rowloom::Error| error.to_string();
    let (mut y, old) = (view(y).map_err(error)?, view(before).map_err(error)?);
    let a = operands.csr.view().slice_rows(rows.clone());
    let wrong = |y: &MultiVector<T>| -> Result<[Vec<usize>; 2], String> {
        let old = factors.reads_old().then(|| old.view());
        let applied = Applied { scaling: factors, x, old, y: y.view() };
        let by_columns = wrong_rows(Operator::Sparse(a), applied).map_err(error)?;
        Ok([by_columns, wrong_rows_by_rows(a, applied).map_err(error)?])
    };
    for (method, alarms) in METHODS.iter().zip(wrong(&y)?) {
        if !alarms.is_empty() {
            return Err(format!("the check by {method} calls right rows wrong: {alarms:?}"));
        }
    }
    RIGHT.fetch_add(1, Ordering::Relaxed);
    if (alpha, beta) != (1.0, 0.0) || rows.is_empty() {
        return Ok(());
    }
    // From values, and not drawn, so that seeds keep their cases.
    let seed = derived(y.data()[0].word(), (operands.k * 1009 + rows.len()) as u64);
    let at = derived(seed, 1) as usize % (rows.len() * operands.k);
    let (row, column) = (at / operands.k, at % operands.k);
    let right = y.row(row)[column];
    let flipped = right.flipped(derived(seed, 2) as u32 % (8 * size_of::<T>() as u32));
    y.view_mut().row_mut(row)[column] = flipped;
    let error = (flipped.wide() - right.wide()).abs();
    let bounds = operands.row_bounds(rows.start + row);
    let Some((largest, own)) =
        bounds.map(|bounds| (bounds.iter().fold(0.0, |a: f64, b| a.max(*b)), bounds[column]))
    else {
        return Ok(());
    };
    let is_found = wrong(&y)?.map(|wrong| wrong == [row]);
    for (kind, bound) in [largest, own].into_iter().enumerate() {
        if error > CLEAR_BOUNDS * bound || error.is_nan() {
            let at = 2 * kind + usize::from(size_of::<T>() == 4);
            CLEAR[at].fetch_add(1, Ordering::Relaxed);
            for (found, is_found) in FOUND.iter().zip(is_found) {
                found[at].fetch_add(u64::from(is_found), Ordering::Relaxed);
            }
        }
    }
    let is_clear = error > CLEAR_BOUNDS * largest || error.is_nan();
    for (method, _) in METHODS.iter().zip(is_found).filter(|(_, is_found)| is_clear && !is_found) {
        println!(
            "missed by the check by {method}: {right:?} became {flipped:?} in element ({row}, {column}), {:.0} bounds of its row",
            error / largest
        );
    }
    Ok(())
}

/// The counts in words.
pub fn report() -> String {
    let mut report = format!(
        "checks by columns and by rows: {} right products, none called wrong; flipped bits with an error of more than 1000 rounding bounds",
        RIGHT.load(Ordering::Relaxed)
    );
    for (method, found) in METHODS.iter().zip(&FOUND) {
        let of = |at: usize| {
            let (clear, found) = (CLEAR[at].load(Ordering::Relaxed), found[at].load(Ordering::Relaxed));
            format!("{found} of {clear}")
        };
        let [row, row_f32, element, element_f32] = [0, 1, 2, 3].map(of);
        report += &format!(
            "\n  found by {method}: of their row f64 {row}, f32 {row_f32}; of their element f64 {element}, f32 {element_f32}"
        );
    }
    report
}
