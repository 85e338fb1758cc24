//! `rowloom bench`: times single kernels, checks their results, and compares them with other libraries.

use serde_json::{Value, json};

use super::baseline;
use super::kernels::{CaseSink, KernelBench, MeasuredMatrix, check_names, facts, open_devices};
use super::oracle;
use super::report;
use super::report::CaseReport;
use super::table;
use super::transfers;
use crate::args::BenchArguments;
use crate::args::MatrixSource;
use crate::console::{Bar, Console, check_target, write_file};
use crate::measure::used_columns;
use crate::measure::{CaseResult, KernelNames, MatrixDescription, MatrixFacts, Program};
use crate::operands::session::{Session, check_intact, if_intact};
use crate::results::{
    Baseline, Comparison, Journal, add_peer_speedups, add_speedups, csv, key_of, markdown, records_of,
};
use crate::statistics::{BenchSettings, doubts};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::Schedule;
use rowloom::internal::matrix::{Csr, Dtype};

/// Measures and reports.
pub fn run(arguments: &BenchArguments, console: &Console) -> Result<()> {
    if transfers::is_asked(arguments) {
        return transfers::run(arguments, console);
    }
    for (flag, given) in [("--svg", arguments.svg.is_some()), ("--largest", arguments.largest.is_some())] {
        if given {
            return Err(Error::usage(format!("{flag} is for `rowloom bench transfers` only")));
        }
    }
    if arguments.oracle {
        return oracle::run(arguments, console);
    }
    let names = KernelNames::new(&arguments.kernels)?;
    for file in [&arguments.csv, &arguments.markdown].into_iter().flatten() {
        check_target(file)?;
    }
    arguments.matrices.iter().try_for_each(|matrix| MatrixSource::new(matrix).check())?;
    let before = arguments.baseline.as_deref().map(baseline::load).transpose()?;
    let session = Session::with(arguments.threads, arguments.seed)?;
    session.note_surplus_threads(console);
    let mut devices = open_devices(&arguments.devices, &arguments.model, &session)?;
    check_names(&names, &devices, &arguments.kernels)?;
    let settings = BenchSettings {
        warmup: arguments.warmup,
        repeat: arguments.repeat,
        time_cap_s: arguments.time_cap,
        cut_hopeless: true,
    };
    let schedule = Schedule::Balanced;
    let count = arguments.matrices.len() * arguments.dtype.len() * arguments.k.len() * devices.len();
    let bar = console.bar(count as u64, "cases");
    let under = console.under(&bar);
    let bench = KernelBench::new(&session, &under, names, settings, schedule);
    let bench = bench.against(&arguments.against, &devices);
    let journal = arguments.keep.as_deref().map(Journal::open).transpose()?;
    if let Some(journal) = journal.as_ref().filter(|journal| !journal.is_empty()) {
        let (count, plural) = (journal.len(), if journal.len() == 1 { "case" } else { "cases" });
        under.note(&format!(
            "--keep: the file has {count} {plural}; cases found there are not measured again"
        ));
    }
    let mut cases = Cases {
        arguments,
        session: &session,
        console: &under,
        bar: &bar,
        journal,
        facts: MatrixFacts::default(),
        done: Vec::new(),
    };
    let measuring = session.interrupt.measure(&under, "run");
    let mut matrices = Vec::new();
    for matrix in &arguments.matrices {
        if session.interrupt.asked() {
            break;
        }
        let source = MatrixSource::new(matrix);
        let loaded = match session.load::<f64>(&source, false, &under) {
            Err(Error::Interrupted) => break,
            loaded => loaded?.0,
        };
        let used_columns = session.pool.install(|| used_columns(loaded.matrix.view()));
        cases.facts = facts(&loaded.info.name, loaded.matrix.view());
        let facts = cases.facts.clone();
        let describe = || MatrixDescription::of(source.name(), &facts, loaded.matrix.view());
        matrices.push(session.pool.install(describe));
        for dtype in &arguments.dtype {
            let measured = match dtype {
                Dtype::F64 => {
                    let double = MeasuredMatrix { facts: &facts, matrix: &loaded.matrix, used_columns };
                    bench.matrix(&double, &arguments.k, &mut devices, &mut cases)
                }
                Dtype::F32 => {
                    let single: Csr<f32> = session.pool.install(|| loaded.matrix.cast())?;
                    check_intact(&loaded.matrix, &source)?;
                    let single = MeasuredMatrix { facts: &facts, matrix: &single, used_columns };
                    bench.matrix(&single, &arguments.k, &mut devices, &mut cases)
                }
            };
            if_intact(&loaded.matrix, &source, measured)?;
        }
    }
    drop(measuring);
    let cases = cases.done;
    drop(bar);
    let mut records: Vec<_> = cases.iter().flat_map(records_of).collect();
    add_speedups(&mut records, Baseline::OneThread);
    add_peer_speedups(&mut records);
    let profile_of = |name: &str| {
        let device = devices.iter().find(|device| device.name == name);
        device.map(|device| &device.profile)
    };
    let reports = CaseReport::all(&cases, &records, profile_of);
    table::show(&reports, arguments.best, console)?;
    table::show_missing(&bench.missing_peers, console)?;
    let comparison = before.map(|before| Comparison::of(&before, &cases));
    if let (Some(comparison), Some(path)) = (&comparison, &arguments.baseline) {
        baseline::show(comparison, path, console)?;
    }
    let report = report::json(&reports, comparison.as_ref(), arguments, &session);
    console.json(&report.with("matrices", &matrices))?;
    if let Some(file) = &arguments.csv {
        write_file(file, csv(&records, &session.provenance.lines()).as_bytes())?;
    }
    if let Some(file) = &arguments.markdown {
        let lines: Vec<String> =
            session.provenance.lines().iter().map(|line| format!("- {line}\n")).collect();
        write_file(file, format!("{}\n{}", lines.concat(), markdown(&records)).as_bytes())?;
    }
    session.interrupt.check()?;
    verdict(&cases)
}

/// The measured cases; each is appended to the file of `--keep` as soon as it is complete.
struct Cases<'a> {
    arguments: &'a BenchArguments,
    session: &'a Session,
    console: &'a Console,
    bar: &'a Bar,
    journal: Option<Journal>,
    /// The present matrix.
    facts: MatrixFacts,
    done: Vec<CaseResult>,
}

impl Cases<'_> {
    fn key(&self, dtype: Dtype, k: usize, device: &str) -> String {
        let BenchArguments { kernels, against, repeat, warmup, time_cap, .. } = self.arguments;
        key_of(&json!({
            "command": "bench", "matrix": self.facts, "dtype": dtype, "k": k, "device": device,
            "kernels": kernels, "against": against, "repeat": repeat, "warmup": warmup, "time_cap": time_cap,
            "seed": self.session.seed, "threads": self.session.pool.threads(), "where": build_and_machine(self.session),
        }))
    }
}

/// The program's build and the machine, on which measured times depend.
pub fn build_and_machine(session: &Session) -> Value {
    let machine = &session.machine;
    let gpus: Vec<_> = machine.gpus.iter().map(|gpu| (&gpu.name, &gpu.uuid)).collect();
    let Program { version, revision, profile, .. } = Program::this();
    json!([version, revision, profile, machine.host, machine.cpu, machine.usable_cpus, gpus])
}

impl CaseSink for Cases<'_> {
    fn wants(&mut self, dtype: Dtype, k: usize, device: &str) -> bool {
        let key = self.key(dtype, k, device);
        let kept = self.journal.as_ref().and_then(|journal| journal.find::<CaseResult>(&key));
        let wanted = kept.is_none();
        self.bar.advance(u64::from(!wanted));
        self.done.extend(kept);
        wanted
    }

    fn take(&mut self, case: CaseResult) -> Result<()> {
        self.console.note(&table::line(&case));
        for kernel in &case.kernels {
            for doubt in doubts(&kernel.times) {
                self.console.note(&format!("{}, {}: {doubt}", case.name(), kernel.kernel));
            }
        }
        let key = self.key(case.dtype, case.k, &case.device);
        if let Some(journal) = &mut self.journal {
            journal.append(&key, &case)?;
        }
        self.done.push(case);
        self.bar.advance(1);
        Ok(())
    }
}

/// An error where a kernel's Y was wrong.
fn verdict(cases: &[CaseResult]) -> Result<()> {
    let wrong = cases.iter().flat_map(|case| case.kernels.iter().map(move |kernel| (case, kernel)));
    let mut wrong = wrong.filter(|(_, kernel)| kernel.checked.is_some_and(|checked| !checked.passed));
    match wrong.next() {
        None => Ok(()),
        Some((case, kernel)) => {
            let others = wrong.count();
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            Err(Error::Verification(match &kernel.reason {
                Some(reason) => format!("{}: {reason}{more}", case.name()),
                None => format!("{} computed a wrong Y: {}{more}", kernel.kernel, case.name()),
            }))
        }
    }
}
