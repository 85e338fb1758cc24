//! `rowloom calibrate`: times kernels on generated matrices, fits weights that predict those times, and writes them to a model.

use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

use super::reported_cases;
use super::reported_cases::Names;
use crate::args::no_effect;
use crate::args::{CalibrateArguments, ExecutionArguments};
use crate::console::report::{Report, machine_report};
use crate::console::table::{Table, count, percent};
use crate::console::{Console, check_target};
use crate::measure;
use crate::measure::CalibrationSettings;
use crate::operands::session::Session;
use crate::request::planning::{execution_options, runtime};
use rowloom::internal::cost::Model;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::Processor;
use rowloom::internal::trace::Clock;
use rowloom::internal::work::spmm::cost::{KernelFit, fit_device, regressor_names};

/// Measures, fits and writes.
pub fn run(arguments: &CalibrateArguments, console: &Console) -> Result<()> {
    no_effect::of_calibrate(arguments).iter().for_each(|note| console.note(note));
    let output = match &arguments.output {
        Some(path) => path.clone(),
        None => Model::of_user().ok_or_else(|| {
            Error::usage("neither XDG_CONFIG_HOME nor HOME is set; name the file with --output")
        })?,
    };
    if arguments.output.is_some() {
        check_target(&output)?;
    }
    let session = Session::with(arguments.threads, arguments.seed)?;
    session.note_surplus_threads(console);
    if !arguments.from.is_empty() {
        return fit_to_reports(arguments, &output, &session, console);
    }
    let planning =
        ExecutionArguments { model: "none".into(), ..ExecutionArguments::of(arguments.devices.clone()) };
    let runtime = runtime(&planning, &session, Clock::start())?;
    session.interrupt.defer();
    let start = Instant::now();
    let mut model = existing_model(&output, console)?;
    let spinner = RefCell::new(None);
    let fitted = measure::calibrate(
        &runtime,
        &CalibrationSettings {
            seconds: arguments.seconds,
            seed: session.seed,
            memory_limit_bytes: session.memory_limit_bytes(),
            progress: &|what| drop(spinner.replace(Some(console.spinner(format!("measuring {what}"))))),
            stopped: &|| session.interrupt.asked(),
        },
        &mut model,
    )?;
    drop(spinner);
    session.interrupt.check()?;
    finish(&model, &output, &fitted, console)?;
    let report = Report::new("calibrate")
        .with("machine", machine_report(&session.machine))
        .with("output", output.display().to_string())
        .with("seconds", start.elapsed().as_secs_f64())
        .with("kernels", &fitted)
        .with("model", &model);
    console.json(&report)
}

/// The model that `output` holds so far: its devices that are not measured now stay in it. The user's own model file is replaced
/// where it is damaged; a damaged file of another name is an error, since it may not be a model.
fn existing_model(output: &Path, console: &Console) -> Result<Model> {
    if !output.exists() {
        return Ok(Model::default());
    }
    match Model::load(output) {
        Err(error) if is_user_model(output) => {
            console.note(&format!("{}; the file is replaced", error.message()));
            Ok(Model::default())
        }
        loaded => loaded,
    }
}

fn is_user_model(output: &Path) -> bool {
    Model::of_user().as_deref() == Some(output)
}

/// Writes the model and prints how well it predicts.
fn finish(model: &Model, output: &Path, fitted: &[KernelFit], console: &Console) -> Result<()> {
    for what in model.save(output)? {
        console.note(&format!("the measured {what} is out of range and was left out"));
    }
    console.table(&table(fitted))?;
    let used = if is_user_model(output) {
        "run and plan use it by default".into()
    } else {
        format!("run and plan use it with --model {}", output.display())
    };
    console.prose(&format!("\nwrote {}; {used}\n", output.display()))
}

/// Fits to the cases of `--from`: those measured on a CPU for the CPU, all others for GPUs.
fn fit_to_reports(
    arguments: &CalibrateArguments,
    output: &Path,
    session: &Session,
    console: &Console,
) -> Result<()> {
    let mut cases = Vec::new();
    for path in &arguments.from {
        cases.extend(reported_cases::load(path)?);
    }
    let mut names = Names::default();
    let planning =
        ExecutionArguments { model: "none".into(), ..ExecutionArguments::of(arguments.devices.clone()) };
    let mut model = existing_model(output, console)?;
    let (mut fitted, mut references) = (Vec::new(), Vec::new());
    let runtime = runtime(&planning, session, Clock::start())?;
    for spec in runtime.resolve(&execution_options(&planning, 1))?.devices {
        let of_cpu = spec.profile.processor == Processor::Cpu;
        let mut samples = Vec::new();
        for case in cases.iter().filter(|case| (case.device == "cpu") == of_cpu) {
            let own = case.samples(&mut names);
            references.push(case.reference(&spec.profile, &own));
            samples.extend(own);
        }
        let fit = || fit_device(&spec.name, &spec.profile, session.pool.threads(), &samples);
        let (device, own) = session.pool.install(fit);
        model.replace_device(device);
        fitted.extend(own);
    }
    finish(&model, output, &fitted, console)?;
    let report = Report::new("calibrate")
        .with("output", output.display().to_string())
        .with("kernels", &fitted)
        .with("model", &model)
        .with("numbers", regressor_names())
        .with("cases", references);
    console.json(&report)
}

fn table(fitted: &[KernelFit]) -> Table {
    let headings = ["device", "kernel", "times", "median error before", "after the fit"];
    let mut table = Table::columns(headings, &[2, 3, 4]);
    for row in fitted {
        table.row([
            row.device.clone(),
            row.kernel.name().into(),
            count(row.samples as u64),
            percent(row.median_error_before),
            percent(row.median_error_after),
        ]);
    }
    table
}
