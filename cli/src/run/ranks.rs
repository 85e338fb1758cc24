//! `rowloom run` over the ranks of an MPI job: each rank reads, computes, verifies and writes its own rows; rank 0 reports.
//!
//! Every step that may fail on one rank only ends with an agreement of all ranks, so an error is printed once. Any other error reaches
//! the others through the watch, which ends the job.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::ranks_report::{RankOutcome, Whole, report};
use super::repeat::{CheckedRepetitions, MAX_DESCRIBED_TASKS, MAX_TRACED_TASKS, verdict};
use super::report;
use super::report::{Done, Outcome, config};
use super::request::Request;
use super::workload::{ProductMatrix, Workload};
use crate::args::MatrixSource;
use crate::args::RunArguments;
use crate::args::options::XSource;
use crate::args::standard_stream::is_dash;
use crate::console::advice;
use crate::console::interrupt::Interrupt;
use crate::console::launch::MpiLaunch;
use crate::console::report::machine_report;
use crate::console::{Console, check_target};
use crate::measure::Provenance;
use crate::operands::output::DenseFile;
use crate::operands::rank_x::RankX;
use crate::operands::session::Session;
use crate::operands::x::check_finite;
use crate::request::planning;
use crate::trace::host_spans::HostSpans;
use crate::trace::median_product::{add_runs, describe};
use rowloom::internal::device::network::Communicator;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::files;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::{Verification, verify};
use rowloom::internal::machine::peak_rss_bytes;
use rowloom::internal::matrix::io::{ArrayFormat, Progress, ReadOptions};
use rowloom::internal::matrix::{Dtype, MultiVector};
use rowloom::internal::runtime::cluster::agreement::{agree, share, share_numbers, sum};
use rowloom::internal::runtime::cluster::clock::{ClockOffset, clock_offsets};
use rowloom::internal::runtime::cluster::halo::{LocalColumns, local_columns};
use rowloom::internal::runtime::cluster::read::unsupported_source;
use rowloom::internal::runtime::cluster::watch::SUCCESSION_TIME;
use rowloom::internal::runtime::cluster::{
    Actions, Cluster, ClusterProduct, Division, RankMatrix, RowBlock, RowsFormat, Watch, generate_rows,
    hash_rows, read_rows, write_rows,
};
use rowloom::internal::runtime::{ProductOptions, RunReport, Runtime};
use rowloom::internal::trace::{Clock, Trace, rank_process};
use rowloom::internal::work::owned_rows_of_x;

/// The devices of a rank without cards.
const HOST_AND_NETWORK: usize = 2;

/// Multiplies on all ranks; rank 0 reports.
pub fn run(arguments: &RunArguments, console: &Console, launch: MpiLaunch) -> Result<()> {
    let printer = console.clone();
    let actions = Actions {
        text: advice::text,
        print: Box::new(move |text| printer.error_message(text)),
        exit: Box::new(|exit_code| {
            files::discard_unfinished();
            signal_hook::low_level::exit(exit_code.into());
        }),
    };
    let ranks = rowloom::internal::mpi::communicator()?;
    let watch = Watch::start(&*ranks, actions).inspect_err(|error| {
        // Rank 0 prints and ends, and the launcher ends the others before they print. No rank can leave MPI alone.
        std::thread::sleep(SUCCESSION_TIME * launch.rank.min(1) as u32);
        let named = match error {
            Error::Rank { .. } => advice::text(error),
            _ => advice::text(&ranks.rank_error(ranks.rank(), advice::text(error))),
        };
        console.error_message(&named);
        ranks.abort(error.exit_code(), "");
    })?;
    let done = check_flags(arguments).and_then(|()| match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console, &ranks),
        Dtype::F32 => run_typed::<f32>(arguments, console, &ranks),
    });
    match done {
        Ok(()) => {
            watch.finish();
            Ok(())
        }
        Err(error) => {
            let end = watch.report(&error);
            console.hide_error();
            if end.is_agreed {
                watch.finish();
            } else {
                files::discard_unfinished();
                ranks.abort(end.exit_code, "");
            }
            Err(error)
        }
    }
}

/// An error for flags that have no meaning over ranks.
fn check_flags(arguments: &RunArguments) -> Result<()> {
    let refuse = |what: &str| Err(Error::usage(format!("over several ranks {what}")));
    let matrix = Path::new(&arguments.matrix);
    if is_dash(matrix) {
        return refuse("A cannot come from standard input; name a file that all ranks see");
    }
    if arguments.plan.is_some() {
        return refuse("--plan cannot be used: a saved plan is for one process");
    }
    if arguments.planning.tune {
        return refuse("--tune cannot be used; calibrate each machine with rowloom calibrate");
    }
    if arguments.output.as_deref().is_some_and(is_dash) {
        return refuse("--output needs a file, which all ranks write together");
    }
    if planning::is_simulated(&arguments.planning.devices) {
        return refuse("devices are not simulated; rowloom run without mpirun simulates whole clusters");
    }
    if let XSource::File(path) = &arguments.x
        && is_dash(path)
    {
        return refuse("X cannot come from standard input; name a .npy file that all ranks see");
    }
    Ok(())
}

/// The rows of this rank.
fn load<T: Kernels>(
    arguments: &RunArguments,
    console: &Console,
    ranks: &dyn Communicator,
    session: &Session,
    division: &Division,
) -> Result<RankMatrix<T>> {
    // Ranks of one host share its memory.
    let memory_limit_bytes = session.memory_limit_bytes() / ranks.local_size().max(1) as u64;
    let source = MatrixSource::new(&arguments.matrix);
    match &source {
        MatrixSource::Generated(spec) => {
            let _spinner = console.spinner(format!("generating {spec}"));
            session.pool.install(|| generate_rows(ranks, spec, session.seed, division, memory_limit_bytes))
        }
        MatrixSource::File(path) => {
            let bar = console.byte_bar(path, "reading");
            let advance = |bytes| {
                bar.advance(bytes);
                Ok(())
            };
            let progress = Some(Progress(&advance));
            let options =
                ReadOptions { memory_limit_bytes, finite: arguments.finite, complex: false, progress };
            session.pool.install(|| read_rows(ranks, path, division, &options))
        }
        MatrixSource::Collection(_) => Err(unsupported_source(&source.name())),
    }
}

fn run_typed<T: Kernels>(
    arguments: &RunArguments,
    console: &Console,
    ranks: &Arc<dyn Communicator>,
) -> Result<()> {
    let request = Request { is_over_ranks: true, ..Request::of_run(arguments)? };
    agree(&**ranks, arguments.output.as_deref().map_or(Ok(()), |path| DenseFile::new(path).map(drop)))?;
    let trace = arguments.repeated.trace.as_deref().filter(|_| ranks.rank() == 0);
    agree(&**ranks, trace.map_or(Ok(()), check_target))?;
    let x_source = agree(&**ranks, RankX::open(&arguments.x, arguments.matrix_arguments.seed))?;
    let k = x_source.k(&arguments.x, arguments.k)?;

    let clock = Clock::start();
    let recording = arguments.repeated.trace.as_ref().map(|_| HostSpans::start(&clock)).transpose()?;
    let cluster = agree(&**ranks, open(arguments, clock, ranks))?;
    let mut session = session(&cluster, arguments)?;
    let offsets = match recording.is_some() {
        true => clock_offsets(&**ranks, &clock)?,
        false => Vec::new(),
    };
    let start = Instant::now();
    let division = Division::for_product(cluster.speeds()?, k, size_of::<T>());
    let RankMatrix { matrix, boundaries, nnz, info, notes, cache } =
        load::<T>(arguments, console, &**ranks, &session, &division)?;
    let load_s = start.elapsed().as_secs_f64();
    notes.iter().for_each(|note| console.note(note));
    let (rank, rows, cols) = (ranks.rank(), boundaries.last().copied().unwrap_or(0), matrix.cols() as u64);
    let own = boundaries[rank]..boundaries[rank + 1];
    x_source.check_rows(&arguments.x, cols)?;
    let own_x = match rows == cols {
        true => own.clone(),
        false => owned_rows_of_x(0..own.start, rows, cols).end..owned_rows_of_x(0..own.end, rows, cols).end,
    };
    let read_x = |rows: &Range<u64>| {
        let first = rows.start;
        session
            .pool
            .install(|| x_source.read::<T>((rows.end - rows.start) as usize, k, |row| first + row as u64))
    };
    let x_rows = agree(&**ranks, read_x(&own_x))?;
    note_non_finite(arguments, console, &**ranks, &x_rows)?;
    let checked_rows = match arguments.repeated.verify {
        true => Some(agree(&**ranks, session.pool.install(|| local_columns(&matrix, 0..0)))?),
        false => None,
    };
    let (own_nnz, a_bytes) = (matrix.nnz() as u64, matrix.bytes());
    let options = ProductOptions { schedule: arguments.schedule, ..request.options.clone() };
    let block = RowBlock { first_row: own.start, total_rows: rows, matrix };
    let built = cluster.product(block).columns(k).options(options).build();
    let mut product = agree(&**ranks, built)?;
    let measuring = session.interrupt.measure(console, "product");
    let measured = {
        let _spinner = console.spinner("multiplying");
        multiply(&request, &session, &**ranks, &mut product, &x_rows, rows == cols)?
    };
    let y = &measured.y;
    let verification = match &checked_rows {
        Some(local) if measured.is_complete => {
            let _spinner = console.spinner("verifying");
            let of_rank = session.pool.install(|| verify_rows(local, &x_source, y));
            Some(verification_of_all(&**ranks, of_rank, own.start..own.end, rows)?)
        }
        _ => None,
    };
    drop(measuring);
    agree(&**ranks, cache.map_or(Ok(()), |cache| cache.check_intact()))?;
    let hash = if measured.is_complete { hash_rows(&**ranks, y.view())? } else { None };
    if let (Some(path), true) = (&arguments.output, measured.is_complete) {
        let format = match (path.to_string_lossy().ends_with(".npy"), x_source.format()) {
            (true, format) => {
                RowsFormat::Npy { one_dimensional: format == ArrayFormat::Npy { one_dimensional: true } }
            }
            (false, _) => RowsFormat::MatrixMarket,
        };
        session.pool.install(|| write_rows(&**ranks, path, y.view(), format))?;
    }

    session.add_gpus();
    let plan = product.plan()?.clone();
    let descriptions = product.descriptions();
    let described = describe(&plan, &descriptions, &measured.reports)?;
    let whole = ProductMatrix {
        info: &info,
        notes: &notes,
        rows,
        cols,
        nnz,
        // Which columns are used, no rank knows.
        used_columns: cols,
        bytes: a_bytes,
        hash: None,
    };
    let done = Done {
        load_s,
        plan_s: product.plan_s(),
        prepare_s: product.prepare_s(),
        seconds: measured.seconds.clone(),
        checked: measured.checked,
        faults: product.faults(),
        verification,
        result_hash: hash.map(|hash| format!("{hash:016x}")),
        ..Done::new(Workload::product(arguments, &whole, k as u64, &arguments.x.name()))
    };
    let outcome = Outcome::new(&request, &session, done, &plan, &described);
    let messages = product.messages_of_devices()?;
    let own_outcome = RankOutcome {
        report: serde_json::to_value(report::json(&outcome)).unwrap_or_default(),
        host: session.machine.host.clone(),
        row_start: own.start,
        row_end: own.end,
        nnz: own_nnz,
        received_rows: product.received_rows()?,
        sent_bytes: cluster.sent_bytes() / measured.products.max(1),
        device_messages: messages.all,
        direct_messages: messages.direct,
        seconds: measured.seconds.clone(),
        threads: session.pool.threads(),
        peak_rss_bytes: peak_rss_bytes(),
    };
    let all = share(&**ranks, &own_outcome)?;
    if let (Some(path), Some(spans)) = (&arguments.repeated.trace, recording) {
        let mut trace = Trace::default();
        spans.finish(&mut trace)?;
        add_runs(&mut trace, &plan, &descriptions, None, &measured.reports, 0);
        trace.metadata("config", config(&outcome));
        trace.metadata("provenance", serde_json::to_value(&session.provenance).unwrap_or_default());
        trace.metadata("machine", serde_json::to_value(machine_report(&session.machine)).unwrap_or_default());
        agree(&**ranks, write_merged(&**ranks, path, &trace, &offsets)?)?;
    }
    if rank == 0 {
        report(
            console,
            &outcome,
            &all,
            &Whole { rows, cols, nnz, k: k as u64, row_bytes: (k * size_of::<T>()) as u64 },
        )?;
    }
    ranks.barrier()?;
    if measured.is_interrupted {
        return Err(Error::Interrupted);
    }
    verdict("Y", verification.as_ref())
}

/// Writes the traces of all ranks as one, on the clock of rank 0. The inner result is an error of rank 0 alone.
fn write_merged(
    ranks: &dyn Communicator,
    path: &Path,
    trace: &Trace,
    offsets: &[ClockOffset],
) -> Result<Result<()>> {
    let mut messages = vec![Vec::new(); ranks.size()];
    messages[0] = trace.to_bytes()?;
    let arrived = ranks.all_to_all(messages)?;
    if ranks.rank() != 0 {
        return Ok(Ok(()));
    }
    // No time of a rank whose clock began earlier may be before zero.
    let earliest_ns = offsets.iter().map(|offset| offset.ahead_ns).max().unwrap_or(0).max(0);
    let mut merged = Trace::default();
    for (rank, bytes) in arrived.iter().enumerate() {
        let offset = offsets.get(rank).copied().unwrap_or_default();
        merged.add_rank(rank, Trace::from_bytes(bytes)?, offset.ahead_ns - earliest_ns);
    }
    for (rank, offset) in offsets.iter().enumerate().skip(1) {
        merged.clock_error(&rank_process(rank, "clock"), offset.error_ns);
    }
    Ok(merged.write(path))
}

/// The runtime of this rank.
fn open(arguments: &RunArguments, clock: Clock, ranks: &Arc<dyn Communicator>) -> Result<Cluster> {
    let planning = &arguments.planning;
    let builder = Runtime::builder()
        .devices(planning.devices.name())
        .model(&planning.model)
        .refine(!planning.no_refine)
        .clock(clock);
    let builder = match arguments.matrix_arguments.threads {
        Some(threads) => builder.threads(threads),
        None => builder,
    };
    builder.over(ranks.clone())
}

/// The machine and the threads of this rank.
fn session(cluster: &Cluster, arguments: &RunArguments) -> Result<Session> {
    let (runtime, seed) = (cluster.runtime(), arguments.matrix_arguments.seed);
    let machine = runtime.machine().clone();
    let provenance = Provenance::now(&machine, seed);
    Ok(Session { pool: runtime.pool().clone(), machine, interrupt: Interrupt::watch()?, seed, provenance })
}

/// A note, or with --finite an error, where X of all ranks has NaN or infinite values.
fn note_non_finite<T: Kernels>(
    arguments: &RunArguments,
    console: &Console,
    ranks: &dyn Communicator,
    x: &MultiVector<T>,
) -> Result<()> {
    // With --finite the rank with such a value is named.
    let note = agree(ranks, check_finite(&arguments.x, x, arguments.finite))?;
    let count = |note: &String| note.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    let count = sum(ranks, note.as_ref().map_or(0, count))?;
    let values = if count == 1 { "value of X is" } else { "values of X are" };
    if count > 0 {
        console.note(&format!("{count} {values} not finite"));
    }
    Ok(())
}

/// The products of all ranks.
struct RankRepetitions<T: Kernels> {
    /// The rows of Y of this rank.
    y: MultiVector<T>,
    /// Seconds of each measured product on this rank.
    seconds: Vec<f64>,
    reports: Vec<RunReport>,
    products: u64,
    is_complete: bool,
    is_interrupted: bool,
    checked: CheckedRepetitions,
}

fn multiply<T: Kernels>(
    request: &Request<'_>,
    session: &Session,
    ranks: &dyn Communicator,
    product: &mut ClusterProduct<T>,
    x_rows: &MultiVector<T>,
    is_square: bool,
) -> Result<RankRepetitions<T>> {
    let repeated = request.repeated;
    let kept_tasks = if repeated.trace.is_some() { MAX_TRACED_TASKS } else { MAX_DESCRIBED_TASKS };
    let mut x = if is_square { product.vectors()? } else { product.x_vectors()? };
    // The rows of a card that is lost are computed by the other devices of this rank, if the host has X.
    if product.descriptions().len() > HOST_AND_NETWORK {
        x.keep_host_copy();
    }
    x.copy_from(x_rows)?;
    let mut y = product.vectors()?;
    let (warmup, repeats) = (repeated.warmup, repeated.repeat);
    let (mut seconds, mut reports, mut products, mut free_tasks) = (Vec::new(), Vec::new(), 0, kept_tasks);
    let (mut is_interrupted, mut checked) = (false, CheckedRepetitions::default());
    for run in 0..warmup + repeats {
        // All ranks stop before the same product. The exchange also lets all of them begin it together.
        let asked = ranks.all_gather(&[u8::from(session.interrupt.asked())])?;
        is_interrupted = asked.iter().flatten().any(|asked| *asked != 0);
        if is_interrupted {
            break;
        }
        let start = Instant::now();
        product.apply_into(&x, &mut y)?;
        y.synchronize()?;
        products += 1;
        if let Some(check_s) = product.last_report().and_then(|report| report.check_s) {
            checked.products += 1;
            checked.seconds += check_s;
        }
        if run < warmup {
            continue;
        }
        seconds.push(start.elapsed().as_secs_f64());
        if let Some(report) = product.last_report().cloned()
            && free_tasks >= report.tasks()
        {
            free_tasks -= report.tasks();
            reports.push(report);
        }
    }
    let mut rows = MultiVector::<T>::zeros(y.rows(), x_rows.k())?;
    y.copy_to(&mut rows)?;
    Ok(RankRepetitions {
        y: rows,
        seconds,
        reports,
        products,
        is_complete: products > 0,
        is_interrupted,
        checked,
    })
}

/// The verification of the rows of this rank. X is made again from its source, not from what ranks exchanged.
fn verify_rows<T: Kernels>(
    local: &LocalColumns<T>,
    x_source: &RankX,
    y: &MultiVector<T>,
) -> Result<Verification> {
    let x = x_source.read::<T>(local.columns.len(), y.k(), |column| u64::from(local.columns[column]))?;
    verify(local.matrix.view(), x.view(), y.view())
}

/// The verification of all `rows`, from that of each rank, of its `own_rows`.
fn verification_of_all(
    ranks: &dyn Communicator,
    of_rank: Result<Verification>,
    own_rows: Range<u64>,
    rows: u64,
) -> Result<Verification> {
    let mut own = agree(ranks, of_rank)?;
    own.worst = own.worst.map(|(row, column)| (row + own_rows.start as usize, column));
    own.mean_rel_err *= (own_rows.end - own_rows.start) as f64;
    // As bits, since JSON has no infinity.
    let (row, column) = own.worst.unwrap_or((0, 0));
    let numbers = [own.max_rel_err, own.mean_rel_err, own.max_bound_ratio].map(f64::to_bits);
    let numbers = [&numbers[..], &[u64::from(own.passed), row as u64, column as u64]].concat();
    let all: Vec<Verification> = share_numbers(ranks, &numbers)?
        .iter()
        .map(|numbers| {
            let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
            let passed = number(3) != 0;
            Verification {
                passed,
                max_rel_err: f64::from_bits(number(0)),
                mean_rel_err: f64::from_bits(number(1)),
                max_bound_ratio: f64::from_bits(number(2)),
                unit_roundoff: own.unit_roundoff,
                worst: (!passed).then_some((number(4) as usize, number(5) as usize)),
            }
        })
        .collect();
    let largest = all.iter().copied().fold(all[0], |largest, other| {
        if other.max_bound_ratio > largest.max_bound_ratio { other } else { largest }
    });
    Ok(Verification {
        passed: all.iter().all(|other| other.passed),
        max_rel_err: all.iter().map(|other| other.max_rel_err).fold(0.0, f64::max),
        mean_rel_err: all.iter().map(|other| other.mean_rel_err).sum::<f64>() / (rows.max(1)) as f64,
        ..largest
    })
}
