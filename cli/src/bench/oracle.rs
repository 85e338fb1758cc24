//! `rowloom bench --oracle`: the kernel that the planner chooses against the fastest of all that it may choose.

use serde_json::json;

use super::kernels::open_devices;
use crate::args::BenchArguments;
use crate::args::MatrixSource;
use crate::args::options::XSource;
use crate::console::Console;
use crate::console::report::{Report, machine_report};
use crate::console::table::{Table, percent, seconds};
use crate::measure::{
    BenchDevice, Expected, KernelNames, OracleCase, OracleSettings, REGRET_NOISE, Regret, Sizes, consult,
    subject, warm_up,
};
use crate::operands::session::{Session, if_intact};
use crate::operands::x;
use rowloom::internal::cost::Form;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::{CpuSettings, Kernels};
use rowloom::internal::kernel::{KernelId, Processor, Schedule};
use rowloom::internal::machine::Isa;
use rowloom::internal::matrix::{Csr, Dtype};
use rowloom::internal::work::ChunkRows;
use rowloom::internal::work::spmm::cost::eligible;
use rowloom::internal::work::spmm::{Features, Spmm};

/// Seconds for timing all forms of a case, approximately.
const CASE_SECONDS: f64 = 0.3;

/// Most cases that the table of slow choices lists.
const MAX_CASES_SHOWN: usize = 20;

/// Measures and reports.
pub fn run(arguments: &BenchArguments, console: &Console) -> Result<()> {
    arguments.matrices.iter().try_for_each(|matrix| MatrixSource::new(matrix).check())?;
    let session = Session::with(arguments.threads, arguments.seed)?;
    session.note_surplus_threads(console);
    let mut devices = open_devices(&arguments.devices, &arguments.model, &session)?;
    let measuring = session.interrupt.measure(console, "case");
    let mut oracle = Oracle { arguments, session: &session, console, consulted: Consulted::default() };
    for matrix in &arguments.matrices {
        if session.interrupt.asked() {
            break;
        }
        let source = MatrixSource::new(matrix);
        let loaded = match session.load::<f64>(&source, false, console) {
            Err(Error::Interrupted) => break,
            loaded => loaded?.0,
        };
        for dtype in &arguments.dtype {
            let name = &loaded.info.name;
            let measured = match dtype {
                Dtype::F64 => oracle.measure(name, &loaded.matrix, &mut devices),
                Dtype::F32 => {
                    let single: Csr<f32> = session.pool.install(|| loaded.matrix.cast())?;
                    oracle.measure(name, &single, &mut devices)
                }
            };
            if_intact(&loaded.matrix, &source, measured)?;
        }
    }
    drop(measuring);
    let Consulted { cases, without_expected } = oracle.consulted;
    show(&cases, console)?;
    console.json(&json(&cases, arguments, &session))?;
    session.interrupt.check()?;
    without_expected.into_iter().next().map_or(Ok(()), |reason| Err(Error::Verification(reason)))?;
    verdict(&cases)
}

/// The cases so far.
#[derive(Default)]
struct Consulted {
    cases: Vec<OracleCase>,
    /// Cases whose expected Y failed its own verification, with the reason. They have no times.
    without_expected: Vec<String>,
}

/// The command, and the cases so far.
struct Oracle<'a> {
    arguments: &'a BenchArguments,
    session: &'a Session,
    console: &'a Console,
    consulted: Consulted,
}

impl Oracle<'_> {
    /// Measures one matrix in one precision. Returns early after a signal.
    fn measure<T: Kernels>(
        &mut self,
        name: &str,
        matrix: &Csr<T>,
        devices: &mut [BenchDevice],
    ) -> Result<()> {
        let Self { arguments, session, console, consulted: cases } = self;
        let limit = session.memory_limit_bytes();
        let a = matrix.view();
        let threads = session.pool.threads();
        let cpu = CpuSettings { k: 0, threads, isa: Isa::detect(), schedule: Schedule::Balanced };
        let sizes = session.pool.install(|| Sizes::of(a))?;
        for BenchDevice { profile, name: device, gpu } in devices {
            let processor = if gpu.is_some() { Processor::Gpu } else { Processor::Cpu };
            let kernels: Vec<KernelId> = eligible(processor).to_vec();
            let names: Vec<String> = kernels.iter().map(|kernel| kernel.name().into()).collect();
            let names = KernelNames::new(&names)?;
            let mut subject = subject(gpu.as_mut(), &session.pool, a, &names, cpu, limit);
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
                let work = Spmm::new(&a, k)?;
                let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
                let features = session.pool.install(|| Features::of(&work, &all));
                let forms = |kernel: &KernelId| Form::all(*kernel, T::DTYPE, k as u64, profile.compiles);
                let forms: Vec<Form> = kernels.iter().flat_map(forms).collect();
                let settings = OracleSettings {
                    device,
                    profile,
                    matrix: name,
                    features: &features,
                    budget_s: CASE_SECONDS,
                };
                let expected = match Expected::new(&session.pool, a, &sizes, x.view(), cpu) {
                    Err(Error::Verification(reason)) => {
                        let reason = format!("{name} {} k={k} on {device}: {reason}", T::DTYPE.name());
                        console.note(&reason);
                        cases.without_expected.push(reason);
                        continue;
                    }
                    expected => expected?,
                };
                match consult(&session.pool, &mut *subject, x.view(), &expected, &forms, &settings)? {
                    Some(case) => {
                        console.note(&line(&case));
                        cases.cases.push(case);
                    }
                    None => console.note(&format!("{name} k={k} on {device}: no kernel ran")),
                }
            }
        }
        Ok(())
    }
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
    let chosen = format!("chosen {} {}", case.chosen.name, seconds(case.chosen.seconds));
    if case.chosen.name == case.best.name && case.regret().is_some() {
        return format!("{}: {chosen}, the fastest", case.name());
    }
    let (best, best_s) = (&case.best.name, seconds(case.best.seconds));
    match case.regret() {
        Some(regret) => format!("{}: {chosen}, {regret:.2}× slower than {best} {best_s}", case.name()),
        None => format!("{}: {chosen}, not compared: Y was not verified", case.name()),
    }
}

/// Prints the cases where a faster kernel could have been chosen, and a summary of each device.
fn show(cases: &[OracleCase], console: &Console) -> Result<()> {
    let regrets = cases.iter().filter_map(|case| Some((case, case.regret()?)));
    let mut slower: Vec<(&OracleCase, f64)> = regrets.filter(|(_, regret)| *regret > REGRET_NOISE).collect();
    slower.sort_by(|a, b| b.1.total_cmp(&a.1));
    if !slower.is_empty() {
        let shown = slower.len().min(MAX_CASES_SHOWN);
        let which = match slower.len() {
            all if all == shown => "all".into(),
            all => format!("the {shown} slowest of {all}"),
        };
        console.prose(&format!(
            "Cases where the chosen kernel is over 5 % slower than the fastest, {which}:\n"
        ))?;
        console.table(&slower_cases(&slower[..shown]))?;
        console.prose("\n")?;
    }
    for (index, regret) in Regret::of(cases).iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        let (device, count) = (&regret.device, regret.cases);
        let plural = if count == 1 { "case" } else { "cases" };
        console.prose(&format!(
            "{gap}Regret (time of the chosen kernel over that of the fastest), {count} {plural} on {device}:\n"
        ))?;
        console.table(&device_summary(regret))?;
    }
    Ok(())
}

fn slower_cases(cases: &[(&OracleCase, f64)]) -> Table {
    let mut table = Table::columns(["case", "chosen", "fastest", "chosen is"], &[]).wrapped();
    for (case, regret) in cases {
        table.row([
            case.name(),
            format!("{} {}", case.chosen.name, seconds(case.chosen.seconds)),
            format!("{} {}", case.best.name, seconds(case.best.seconds)),
            format!("{regret:.2}× slower"),
        ]);
    }
    table
}

/// The regret of a device: the chosen kernel's time over that of the fastest.
fn device_summary(regret: &Regret) -> Table {
    let mut table = Table::facts();
    let share = |share: f64| format!("{} of the cases", percent(share));
    table.fact("geometric mean", format!("{:.3}", regret.geomean));
    table.fact("95th percentile", format!("{:.3}", regret.p95));
    table.fact("worst", format!("{:.3} ({})", regret.worst, regret.worst_case));
    table.fact("at most 1.05", share(regret.within_5_percent));
    table.fact("time predicted within 20 %", share(regret.predicted_within_20_percent));
    let (single, mean) = (&regret.best_single, regret.best_single_geomean);
    table.fact("one kernel for all cases", format!("{single}: geometric mean {mean:.3}"));
    let reproducible = regret.reproducible_geomean;
    table.fact("with --reproducible", format!("takes {reproducible:.3} times as long as the chosen kernel"));
    table
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
