//! `rowloom run`: Y = A X, measured, checked where asked, reported.

use std::time::Instant;

use xxhash_rust::xxh3::xxh3_64;

use super::args::RunArguments;
use super::console::Console;
use super::files::DenseFile;
use super::run_report::{self, Outcome};
use super::session::{MatrixSource, Session, check_intact};
use super::times::Times;
use super::x;
use crate::error::{Error, Result};
use crate::kernel::cpu::Kernels;
use crate::kernel::{KernelId, verify};
use crate::matrix::{Dtype, MultiVector};
use crate::runtime::{Options, Prepared, prepare};

/// Multiplies and reports.
pub fn run(arguments: &RunArguments, console: &Console) -> Result<()> {
    arguments.devices.check_usable()?;
    match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    }
}

fn run_typed<T: Kernels>(arguments: &RunArguments, console: &Console) -> Result<()> {
    let kernel = match arguments.kernel.as_str() {
        "auto" => None,
        name => Some(KernelId::by_name(name)?),
    };
    let output = arguments.output.as_deref().map(DenseFile::new).transpose()?;
    let session = Session::open(&arguments.matrix_arguments)?;
    let source = MatrixSource::new(&arguments.matrix);
    let (loaded, load_s) = session.load::<T>(&source, arguments.finite, console)?;
    let matrix = loaded.matrix.view();

    let mut limit = session.memory_limit_bytes().saturating_sub(matrix.bytes());
    let x = session
        .pool
        .install(|| x::load::<T>(&arguments.x, matrix.cols(), arguments.k, session.seed, limit))?;
    let k = x.k();
    limit = limit.saturating_sub(size_of_val(x.data()) as u64);
    x::check_memory::<T>("Y", matrix.rows(), k, limit)?;
    let mut y = MultiVector::<T>::zeros(matrix.rows(), k)?;
    limit = limit.saturating_sub(size_of_val(y.data()) as u64);

    let (format, schedule) = (arguments.format, arguments.schedule);
    let options = Options { kernel, format, schedule, memory_limit_bytes: limit };
    let start = Instant::now();
    let mut prepared = prepare(&session.pool, matrix, k, &options)?;
    let prepare_s = start.elapsed().as_secs_f64();

    let times = repeat(arguments, &session, console, &mut prepared, &x, &mut y)?;
    let computed = times.n > 0;
    let verification = if arguments.verify && computed && !session.interrupt.asked() {
        let _spinner = console.spinner("verifying");
        Some(session.pool.install(|| verify(matrix, x.view(), y.view()))?)
    } else {
        None
    };
    check_intact(&loaded.matrix, &source)?;
    if let (Some(file), true) = (&output, computed) {
        file.write(&y)?;
    }

    let outcome = Outcome {
        arguments,
        session: &session,
        source: &source,
        loaded: &loaded,
        k,
        load_s,
        plan_s: None,
        prepare_s,
        prepared: &prepared,
        times,
        verification: verification.as_ref(),
        // Rows are packed, and every machine Rowloom runs on is little-endian.
        y_hash: computed.then(|| format!("{:016x}", xxh3_64(bytemuck::cast_slice(y.data())))),
        interrupted: session.interrupt.asked(),
    };
    console.table(&run_report::table(&outcome))?;
    console.json(&run_report::json(&outcome))?;
    session.interrupt.check()?;
    match verification {
        Some(verification) if !verification.passed => {
            let place = verification.worst.map(|(row, column)| format!("row {row}, column {column} of "));
            Err(Error::Verification(format!(
                "{}Y is off by {:.3} times the rounding bound",
                place.unwrap_or_default(),
                verification.max_bound_ratio
            )))
        }
        _ => Ok(()),
    }
}

/// Warms up and measures until all repeats are done or a signal comes.
fn repeat<T: Kernels>(
    arguments: &RunArguments,
    session: &Session,
    console: &Console,
    prepared: &mut Prepared<'_, T>,
    x: &MultiVector<T>,
    y: &mut MultiVector<T>,
) -> Result<Times> {
    let _spinner = console.spinner("multiplying");
    session.interrupt.defer();
    // On the pool from the first to the last, so that no time of handing over is measured.
    session.pool.install(|| {
        let mut seconds = Vec::new();
        for index in 0..u64::from(arguments.warmup) + u64::from(arguments.repeat) {
            if session.interrupt.asked() {
                break;
            }
            let start = Instant::now();
            prepared.run(x.view(), y.view_mut())?;
            if index >= u64::from(arguments.warmup) {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(Times::new(&seconds))
    })
}
