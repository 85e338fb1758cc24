//! `rowloom bench --oracle`: the chooser against the fastest of everything it may choose.

use serde_json::json;

use super::args::BenchArguments;
use super::console::Console;
use super::kernel_bench::Place;
use super::options::XSource;
use super::report::{Report, machine_report};
use super::session::{MatrixSource, Session, check_intact};
use super::table::{Table, percent, seconds};
use super::x;
use crate::cost::{Form, eligible};
use crate::error::{Error, Result};
use crate::kernel::cpu::{CpuSettings, Kernels};
use crate::kernel::{KernelId, Processor, Schedule};
use crate::machine::Isa;
use crate::matrix::{Csr, Dtype};
use crate::study::{
    Expected, HostBench, KernelNames, OracleCase, OracleSettings, Regret, ResidentBench, Sizes, Subject,
    consult, warm_up,
};
use crate::work::{ChunkRows, Features, Work};

/// Seconds to measure a case for, about.
const BUDGET_S: f64 = 0.3;

/// Measures and reports.
pub fn run(arguments: &BenchArguments, console: &Console) -> Result<()> {
    arguments.matrices.iter().try_for_each(|matrix| MatrixSource::new(matrix).check())?;
    let session = Session::with(arguments.threads, arguments.seed)?;
    let mut places = Place::open(&arguments.devices, &arguments.model, &session)?;
    session.interrupt.defer();
    let mut cases = Vec::new();
    for matrix in &arguments.matrices {
        let source = MatrixSource::new(matrix);
        let (loaded, _) = session.load::<f64>(&source, false, console)?;
        for dtype in &arguments.dtype {
            let name = &loaded.info.name;
            match dtype {
                Dtype::F64 => {
                    of_matrix(arguments, &session, console, name, &loaded.matrix, &mut places, &mut cases)?
                }
                Dtype::F32 => {
                    let single: Csr<f32> = session.pool.install(|| loaded.matrix.cast())?;
                    of_matrix(arguments, &session, console, name, &single, &mut places, &mut cases)?;
                }
            }
        }
        check_intact(&loaded.matrix, &source)?;
    }
    show(&cases, console)?;
    console.json(&json(&cases, arguments, &session))?;
    session.interrupt.check()?;
    verdict(&cases)
}

/// Measures one matrix in one precision, and adds to `cases`. A signal ends it early.
fn of_matrix<T: Kernels>(
    arguments: &BenchArguments,
    session: &Session,
    console: &Console,
    name: &str,
    matrix: &Csr<T>,
    places: &mut [Place],
    cases: &mut Vec<OracleCase>,
) -> Result<()> {
    let limit = session.memory_limit_bytes();
    let a = matrix.view();
    let threads = session.pool.threads();
    let cpu = CpuSettings { k: 0, threads, isa: Isa::detect(), schedule: Schedule::Balanced };
    let sizes = session.pool.install(|| Sizes::of(a))?;
    for Place { profile, name: device, room } in places {
        let processor = if room.is_some() { Processor::Gpu } else { Processor::Cpu };
        let kernels: Vec<KernelId> = eligible(processor).to_vec();
        let names: Vec<String> = kernels.iter().map(|kernel| kernel.name().into()).collect();
        let names = KernelNames::new(&names)?;
        let mut subject: Box<dyn Subject<T> + '_> = match room {
            Some(room) => Box::new(ResidentBench::new(room, a, &names)),
            None => Box::new(HostBench::new(&session.pool, a, &names, cpu, limit)),
        };
        for &k in &arguments.k {
            if session.interrupt.asked() {
                return Ok(());
            }
            x::check_memory::<T>("Y", matrix.rows(), k, limit)?;
            let load = || x::load::<T>(&XSource::Random, matrix.cols(), Some(k), session.seed, limit);
            let x = session.pool.install(load)?;
            let _spinner = console.spinner(format!("{name} {} k={k} on {device}", T::DTYPE.name()));
            if let Some(note) = subject.take_x(x.view())? {
                console.note(&note);
            }
            if arguments.k.first() == Some(&k) {
                warm_up(&mut *subject, x.view())?;
            }
            let work = Work::spmm(&a, k)?;
            let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
            let features = session.pool.install(|| Features::of(&work, &all));
            let forms = |kernel: &KernelId| Form::all(*kernel, T::DTYPE, k as u64, profile.compiles);
            let forms: Vec<Form> = kernels.iter().flat_map(forms).collect();
            let settings =
                OracleSettings { device, profile, matrix: name, features: &features, budget_s: BUDGET_S };
            let expected = Expected::new(&session.pool, a, &sizes, x.view(), cpu)?;
            match consult(&session.pool, &mut *subject, x.view(), &expected, &forms, &settings)? {
                Some(case) => {
                    console.note(&line(&case));
                    cases.push(case);
                }
                None => console.note(&format!("{name} k={k} on {device}: no kernel ran")),
            }
        }
    }
    Ok(())
}

/// An error where a form's Y was wrong.
fn verdict(cases: &[OracleCase]) -> Result<()> {
    let forms = cases.iter().flat_map(|case| case.forms.iter().map(move |form| (case, form)));
    let mut wrong = forms.filter(|(_, form)| form.is_wrong());
    wrong.next().map_or(Ok(()), |(case, form)| {
        Err(Error::Verification(format!("{} computed a wrong Y: {}", form.name, case.name())))
    })
}

/// A case in one line.
fn line(case: &OracleCase) -> String {
    format!(
        "{}: {} {}, fastest {} {}, regret {:.3}",
        case.name(),
        case.chosen.name,
        seconds(case.chosen.seconds),
        case.best.name,
        seconds(case.best.seconds),
        case.regret()
    )
}

/// The cases with a regret that is more than noise, the largest last, and the table of devices.
fn show(cases: &[OracleCase], console: &Console) -> Result<()> {
    const SHOWN: usize = 20;
    let mut wrong: Vec<&OracleCase> =
        cases.iter().filter(|case| case.regret() > crate::study::RIGHT).collect();
    wrong.sort_by(|a, b| a.regret().total_cmp(&b.regret()));
    let headings =
        ["device", "matrix", "type", "k", "chosen", "time", "predicted", "fastest", "time", "regret"];
    let mut table = Table::columns(headings, &[3, 5, 6, 8, 9]);
    for case in &wrong[wrong.len().saturating_sub(SHOWN)..] {
        table.row([
            case.device.clone(),
            case.matrix.clone(),
            case.dtype.name().into(),
            case.k.to_string(),
            case.chosen.name.clone(),
            seconds(case.chosen.seconds),
            case.chosen.predicted_s.map_or_else(|| "-".into(), seconds),
            case.best.name.clone(),
            seconds(case.best.seconds),
            format!("{:.3}", case.regret()),
        ]);
    }
    if !wrong.is_empty() {
        console.table(&table)?;
        console.text("\n")?;
    }
    let headings = [
        "device",
        "cases",
        "regret",
        "95 of 100",
        "worst",
        "within 5%",
        "best single kernel",
        "regret",
        "reproducible",
        "predicted within 20%",
    ];
    let mut table = Table::columns(headings, &[1, 2, 3, 4, 5, 7, 8, 9]);
    for regret in Regret::of(cases) {
        table.row([
            regret.device,
            regret.cases.to_string(),
            format!("{:.3}", regret.geomean),
            format!("{:.3}", regret.p95),
            format!("{:.3}", regret.worst),
            percent(regret.within_5_percent),
            regret.best_single,
            format!("{:.3}", regret.best_single_geomean),
            format!("{:.3}", regret.reproducible_geomean),
            percent(regret.predicted_within_20_percent),
        ]);
    }
    console.table(&table)
}

fn json(cases: &[OracleCase], arguments: &BenchArguments, session: &Session) -> Report {
    let config = json!({
        "k": arguments.k, "devices": arguments.devices.name(), "oracle": true, "seed": arguments.seed,
        "dtype": arguments.dtype.iter().map(|dtype| dtype.name()).collect::<Vec<_>>(),
        "threads": session.pool.threads(),
    });
    let with_regret = |case: &OracleCase| {
        let mut value = json!(case);
        if let Some(keys) = value.as_object_mut() {
            keys.insert("regret".into(), json!(case.regret()));
        }
        value
    };
    Report::new("bench")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config)
        .with("cases", cases.iter().map(with_regret).collect::<Vec<_>>())
        .with("regret", Regret::of(cases))
}
