//! Conversions as cases of a study: serial and parallel, both repeated, the results compared bit for bit.

use std::time::Instant;

use crate::console::advice;
use crate::matrix::convert_check::{by_columns, same_csr, same_padded, same_unpadded};
use crate::measure::Checked;
use crate::operands::session::Session;
use crate::results::{Measured, Record};
use crate::statistics::{BenchSettings, Sampler, Times, doubts};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::{CsrView, Scalar, convert, convert_serial};

/// Measures all conversions of a matrix. `base` has the fields that all records share.
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
    add(serial_and_parallel(
        "COO to CSR",
        (session, settings, base),
        || Ok(convert_serial::coo_to_csr(&coo)?.0),
        || Ok(convert::coo_to_csr(&coo)?.0),
        same_csr,
    ))?;
    add(serial_and_parallel(
        "COO to ELL, padded",
        (session, settings, base),
        || convert_serial::coo_to_ell_padded(&coo, limit),
        || convert::coo_to_ell_padded(&coo, limit),
        same_padded,
    ))?;
    add(serial_and_parallel(
        "COO to ELL, unpadded",
        (session, settings, base),
        || convert_serial::coo_to_ell_unpadded(&coo),
        || convert::coo_to_ell_unpadded(&coo),
        same_unpadded,
    ))?;
    Ok(records)
}

/// One conversion, serial and parallel.
fn serial_and_parallel<M: Send>(
    conversion: &str,
    (session, settings, base): (&Session, BenchSettings, &Record),
    serial: impl Fn() -> Result<M> + Sync,
    parallel: impl Fn() -> Result<M> + Sync,
    same: impl Fn(&M, &M) -> bool,
) -> Result<[Record; 2]> {
    let named = |variant: &str| Record {
        measured: Measured::Conversion,
        kernel: format!("{conversion}, {variant}"),
        ..base.clone()
    };
    let (mut serial_record, mut parallel_record) =
        (Record { threads: 1, ..named("serial") }, named("parallel"));
    let (serial_result, parallel_result) = match (
        repeated(session, settings, &serial),
        repeated(session, settings, || session.pool.install(&parallel)),
    ) {
        (Ok(serial), Ok(parallel)) => (serial, parallel),
        (Err(refusal @ Error::DoesNotFit { .. }), _) | (_, Err(refusal @ Error::DoesNotFit { .. })) => {
            serial_record.reason = Some(advice::text(&refusal));
            parallel_record.reason = Some(advice::text(&refusal));
            return Ok([serial_record, parallel_record]);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let equal = same(&serial_result.1, &parallel_result.1);
    for (record, times) in [(&mut serial_record, serial_result.0), (&mut parallel_record, parallel_result.0)]
    {
        record.doubts = doubts(&times);
        record.times = times;
        record.checked = Some(Checked { passed: equal, bitwise: equal, max_bound_ratio: None });
    }
    Ok([serial_record, parallel_record])
}

/// The times of a repeated conversion, and its last result; an error where a signal came.
fn repeated<M>(
    session: &Session,
    settings: BenchSettings,
    convert: impl Fn() -> Result<M>,
) -> Result<(Times, M)> {
    let mut sampler = Sampler::new(settings, f64::INFINITY);
    for _ in 0..settings.warmup.min(1) {
        convert()?;
    }
    loop {
        session.interrupt.check()?;
        let start = Instant::now();
        let result = convert()?;
        sampler.push(start.elapsed().as_secs_f64());
        if sampler.is_enough() {
            return Ok((Times::new(&sampler.into_seconds()), result));
        }
    }
}
