//! X: the dense multivector that A is multiplied by.

use rayon::prelude::*;

use super::standard_input;
use crate::args::hints;
use crate::args::options::XSource;
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::matrix::io::{ArrayFormat, Dense, ReadOptions, read_dense_input};
use rowloom::internal::matrix::{Field, MultiVector, Scalar, complex};

/// Columns of X where neither -k nor a file gives them.
const DEFAULT_K: usize = 32;

/// X with `rows` rows, and with `k` columns where `k` is given.
pub fn load<T: Scalar>(
    source: &XSource,
    rows: usize,
    k: Option<usize>,
    seed: u64,
    memory_limit_bytes: u64,
) -> Result<MultiVector<T>> {
    load_with_format(source, rows, k, seed, memory_limit_bytes, Field::Real).map(|dense| dense.values)
}

/// X as [`load`] returns it, with the format of its file; Matrix Market if X is generated. For a complex A its `k` columns are complex: each
/// is two columns of the result, the real and the imaginary parts. A real X gets imaginary parts of zero.
pub fn load_with_format<T: Scalar>(
    source: &XSource,
    rows: usize,
    k: Option<usize>,
    seed: u64,
    memory_limit_bytes: u64,
    field: Field,
) -> Result<Dense<T>> {
    let is_complex = field == Field::Complex;
    let XSource::File(path) = source else {
        let columns = k.unwrap_or(DEFAULT_K).saturating_mul(field.parts());
        check_memory::<T>("X", rows, columns, memory_limit_bytes)?;
        let x = match source {
            XSource::Random => MultiVector::random(rows, columns, seed)?,
            _ if is_complex => {
                complex::of_real(MultiVector::filled(rows, columns / complex::PARTS, T::ONE)?.view())?
            }
            _ => MultiVector::filled(rows, columns, T::ONE)?,
        };
        return Ok(Dense {
            values: x,
            is_complex,
            names: Vec::new(),
            format: ArrayFormat::MatrixMarket,
            notes: Vec::new(),
        });
    };
    let input =
        standard_input::open(path, memory_limit_bytes).map_err(|error| hints::of_missing_x(path, error))?;
    let options = ReadOptions { memory_limit_bytes, complex: is_complex, ..ReadOptions::default() };
    let mut dense = read_dense_input::<T>(&input, &options)?;
    if is_complex && !dense.is_complex {
        check_memory::<T>("X", dense.values.rows(), dense.values.k() * field.parts(), memory_limit_bytes)?;
        dense = Dense { values: complex::of_real(dense.values.view())?, is_complex, ..dense };
    }
    let x = &dense.values;
    let columns = x.k() / field.parts();
    let place = || Place::file(&input.path);
    if x.rows() != rows {
        let reason = match columns == rows {
            true => {
                format!("X is {} x {rows}; transpose it, since A has {rows} columns", x.rows())
            }
            false => {
                format!("X has {} rows but A has {rows} columns; the numbers must be equal", x.rows())
            }
        };
        return Err(Error::input(place(), reason));
    }
    match k {
        _ if columns == 0 => {
            let reason = "X has no columns; a product needs an X of at least one column";
            Err(Error::input(place(), reason))
        }
        Some(k) if k != columns => {
            Err(Error::input(place(), format!("X has {columns} columns but -k says {k}; leave -k out")))
        }
        _ => Ok(dense),
    }
}

/// The number of columns of X where X itself is not needed, and a note about its values. A file is read and checked as by [`load`].
pub fn columns<T: Scalar>(
    source: &XSource,
    rows: usize,
    k: Option<usize>,
    only_finite: bool,
    memory_limit_bytes: u64,
    field: Field,
) -> Result<(usize, Option<String>)> {
    if !matches!(source, XSource::File(_)) {
        return Ok((k.unwrap_or(DEFAULT_K), None));
    }
    let x = load_with_format::<T>(source, rows, k, 0, memory_limit_bytes, field)?.values;
    Ok((x.k() / field.parts(), check_finite(source, &x, only_finite)?))
}

/// A note where X from a file has NaN or infinite values; an error with --finite.
pub fn check_finite<T: Scalar>(
    source: &XSource,
    x: &MultiVector<T>,
    only_finite: bool,
) -> Result<Option<String>> {
    let XSource::File(path) = source else { return Ok(None) };
    let bad = x.data().par_iter().filter(|value| !value.to_f64().is_finite()).count();
    let values = if bad == 1 { "value of X is" } else { "values of X are" };
    match bad {
        0 => Ok(None),
        _ if only_finite => {
            let reason = format!("{bad} {values} not finite (--finite)");
            Err(Error::input(Place::file(path), reason))
        }
        _ => Ok(Some(format!("{bad} {values} not finite"))),
    }
}

/// An error for a multivector that does not fit, before it is allocated.
pub fn check_memory<T: Scalar>(what: &str, rows: usize, k: usize, limit_bytes: u64) -> Result<()> {
    check_memory_or::<T>("use a smaller -k", what, rows, k, limit_bytes)
}

/// The same with another advice.
pub fn check_memory_or<T: Scalar>(
    advice: &str,
    what: &str,
    rows: usize,
    k: usize,
    limit_bytes: u64,
) -> Result<()> {
    let needed_bytes = (rows as u64).saturating_mul(k as u64).saturating_mul(size_of::<T>() as u64);
    if needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(Error::DoesNotFit {
        what: format!("{what}, {rows} x {k},"),
        needed_bytes,
        limit_bytes,
        advice: advice.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multivector_beyond_the_limit_is_refused_before_it_is_allocated() {
        let error = load::<f64>(&XSource::Ones, 1 << 40, Some(1 << 20), 1, 1 << 30).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(load::<f32>(&XSource::Ones, 8, None, 1, 8 * 32 * 4).is_ok());
        assert!(load::<f32>(&XSource::Ones, 8, None, 1, 8 * 32 * 4 - 1).is_err());
    }
}
