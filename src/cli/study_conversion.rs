//! Conversions as cases of a study: serial and parallel, both repeated, their results compared bit for bit.

use std::time::Instant;

use super::convert_check::{by_columns, same_csr, same_padded, same_unpadded};
use super::session::Session;
use crate::error::{Error, Result};
use crate::matrix::{CsrView, Scalar, convert, convert_serial};
use crate::study::{BenchSettings, Checked, Measured, Record, Sampler, Times, doubts};

/// Measures all conversions of a matrix; `base` says everything else of the records.
pub fn measure<T: Scalar>(
    matrix: &CsrView<'_, T>,
    session: &Session,
    settings: BenchSettings,
    base: &Record,
) -> Result<Vec<Record>> {
    let coo = by_columns(matrix)?;
    let limit = session.memory_limit_bytes() / 3;
    let mut records = Vec::new();
    let mut add = |pair: Result<[Record; 2]>| pair.map(|pair| records.extend(pair));
    add(twins(
        "COO to CSR",
        (session, settings, base),
        || Ok(convert_serial::coo_to_csr(&coo)?.0),
        || Ok(convert::coo_to_csr(&coo)?.0),
        same_csr,
    ))?;
    add(twins(
        "COO to ELL, padded",
        (session, settings, base),
        || convert_serial::coo_to_ell_padded(&coo, limit),
        || convert::coo_to_ell_padded(&coo, limit),
        same_padded,
    ))?;
    add(twins(
        "COO to ELL, unpadded",
        (session, settings, base),
        || convert_serial::coo_to_ell_unpadded(&coo),
        || convert::coo_to_ell_unpadded(&coo),
        same_unpadded,
    ))?;
    Ok(records)
}

/// One conversion both ways.
fn twins<M: Send>(
    conversion: &str,
    (session, settings, base): (&Session, BenchSettings, &Record),
    serial: impl Fn() -> Result<M> + Sync,
    parallel: impl Fn() -> Result<M> + Sync,
    same: impl Fn(&M, &M) -> bool,
) -> Result<[Record; 2]> {
    let named = |way: &str| Record {
        measured: Measured::Conversion,
        kernel: format!("{conversion}, {way}"),
        ..base.clone()
    };
    let (mut one, mut other) = (Record { threads: 1, ..named("serial") }, named("parallel"));
    let (by_one, by_all) =
        match (repeated(settings, &serial), repeated(settings, || session.pool.install(&parallel))) {
            (Ok(serial), Ok(parallel)) => (serial, parallel),
            (Err(refusal @ Error::DoesNotFit { .. }), _) | (_, Err(refusal @ Error::DoesNotFit { .. })) => {
                one.reason = Some(refusal.to_string());
                other.reason = Some(refusal.to_string());
                return Ok([one, other]);
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
    let equal = same(&by_one.1, &by_all.1);
    for (record, times) in [(&mut one, by_one.0), (&mut other, by_all.0)] {
        record.doubts = doubts(&times);
        record.times = times;
        record.checked = Some(Checked { passed: equal, bitwise: equal, max_bound_ratio: 0.0 });
    }
    Ok([one, other])
}

/// Times of repeated conversions, and the last result.
fn repeated<M>(settings: BenchSettings, convert: impl Fn() -> Result<M>) -> Result<(Times, M)> {
    let mut sampler = Sampler::new(settings, f64::INFINITY);
    for _ in 0..settings.warmup.min(1) {
        convert()?;
    }
    loop {
        let start = Instant::now();
        let result = convert()?;
        sampler.push(start.elapsed().as_secs_f64());
        if sampler.is_enough() {
            return Ok((Times::new(&sampler.into_seconds()), result));
        }
    }
}
