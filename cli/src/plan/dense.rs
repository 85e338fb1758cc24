//! `rowloom plan gemm:...` and `rowloom plan colmean:...`: the plan of dense work. It depends on the shape alone, so no matrix is read.

use std::ffi::OsStr;
use std::time::Instant;

use serde_json::json;

use super::gpus;
use super::report::{config, planned, show_devices_and_chunks};
use super::sentence;
use super::table::{add_times, device_reasons};
use crate::args::PlanArguments;
use crate::args::no_effect::{self, DeviceKinds};
use crate::console::reasons;
use crate::console::report::{Report, machine_report};
use crate::console::table::{Table, count, seconds};
use crate::console::{Console, check_target};
use crate::operands::session::Session;
use crate::request::planning::{execution_options, notes, runtime};
use crate::run::workload::named_operands;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::KindOfWork;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::plan::{compare_device_counts, make};
use rowloom::internal::runtime::ProductOptions;
use rowloom::internal::trace::Clock;
use rowloom::internal::work::Work;
use rowloom::internal::work::colmean::Colmean;
use rowloom::internal::work::gemm::Gemm;

/// The largest length of a side: sizes in bytes stay below 2^63.
const MAX_LENGTH: u64 = 1 << 28;

/// Dense work as it is typed in place of a matrix.
pub struct DenseShape {
    kind: KindOfWork,
    work: Work<'static>,
    words: String,
}

impl DenseShape {
    /// The shape of `gemm:rows=M,depth=K,columns=N` or `colmean:rows=M,columns=N`; `None` for every other argument.
    pub fn parse(typed: &OsStr, dtype: Dtype) -> Result<Option<Self>> {
        let Some(typed) = typed.to_str() else { return Ok(None) };
        if let Some(keys) = typed.strip_prefix("gemm:") {
            let [rows, depth, columns, updated] =
                lengths(typed, keys, ["rows", "depth", "columns"], "update")?;
            let gemm = Gemm { rows, depth, columns, dtype, updated: updated != 0 };
            let sides = [rows, depth, columns].map(|side| count(side as u64));
            let added = if gemm.updated { " + C" } else { "" };
            let words = format!(
                "C = A B{added}: A {} x {}, B {} x {}, {dtype}",
                sides[0], sides[1], sides[1], sides[2]
            );
            return Ok(Some(Self { kind: KindOfWork::Gemm, work: gemm.into(), words }));
        }
        if let Some(keys) = typed.strip_prefix("colmean:") {
            let [rows, columns, deviations] = lengths(typed, keys, ["rows", "columns"], "variance")?;
            let colmean = Colmean { rows, columns, dtype, deviations: deviations != 0 };
            let what = if colmean.deviations { "sums and squared deviations" } else { "sums" };
            let words = format!(
                "{what} of the columns of {} x {}, {dtype}",
                count(rows as u64),
                count(columns as u64)
            );
            return Ok(Some(Self { kind: KindOfWork::Colmean, work: colmean.into(), words }));
        }
        Ok(None)
    }
}

/// The lengths of all `sides` of `key=value,...`, then 1 if `option` is among them and else 0.
fn lengths<const SIDES: usize, const ALL: usize>(
    typed: &str,
    keys: &str,
    sides: [&str; SIDES],
    option: &str,
) -> Result<[usize; ALL]> {
    let refused = |reason: String| {
        let all: Vec<String> = sides.iter().map(|side| format!("{side}=N")).collect();
        let kind = typed.split(':').next().unwrap_or(typed);
        Error::usage(format!("{typed}: {reason}; type {kind}:{} and {option} if it applies", all.join(",")))
    };
    let mut found = [0; ALL];
    for key in keys.split(',') {
        if key == option {
            found[SIDES] = 1;
            continue;
        }
        let (name, value) = key.split_once('=').unwrap_or((key, ""));
        let side = sides.iter().position(|side| *side == name);
        let side = side.ok_or_else(|| refused(format!("{key:?} is unknown")))?;
        let length = value.parse::<u64>().ok().filter(|length| (1..=MAX_LENGTH).contains(length));
        let length = length.ok_or_else(|| refused(format!("{name} must be from 1 to {MAX_LENGTH}")))?;
        found[side] = length as usize;
    }
    match found[..SIDES].iter().position(|&length| length == 0) {
        Some(side) => Err(refused(format!("{} is missing", sides[side]))),
        None => Ok(found),
    }
}

/// Plans, shows and saves.
pub fn run(arguments: &PlanArguments, shape: DenseShape, console: &Console) -> Result<()> {
    let planning = &arguments.planning;
    let kernel = match planning.kernel.as_str() {
        "auto" => None,
        name => Some(shape.kind.kernel(name)?),
    };
    arguments.save.as_deref().map(check_target).transpose()?;
    let mut session = Session::open(&arguments.matrix_arguments)?;
    session.note_surplus_threads(console);
    let runtime = runtime(planning, &session, Clock::start())?;
    let start = Instant::now();
    let options = ProductOptions { kernel, ..execution_options(planning, arguments.repeat) };
    let resolved = runtime.resolve(&options)?;
    let mut all_notes = notes(planning, &resolved);
    all_notes.extend(no_effect::of_dense_plan(&arguments.common, DeviceKinds::of_resolved(&resolved)));
    all_notes.iter().for_each(|note| console.note(note));
    let request = options.request(&resolved, shape.work.clone(), u64::from(arguments.repeat));
    let mut plan = session.pool.install(|| make(&request))?;
    let (counts, words) = session.pool.install(|| compare_device_counts(&request, &plan))?;
    plan.reasons.extend(words);
    let plan_s = start.elapsed().as_secs_f64();
    session.add_gpus();
    if let Some(path) = &arguments.save {
        session.interrupt.defer();
        plan.save(path)?;
    }

    let sentence = sentence::of_plan(&plan, &counts);
    console.table(&Table::paragraph(&sentence))?;
    console.text("\n")?;
    let mut facts = Table::facts();
    facts.fact("work", &shape.words);
    let product_words = plan.product_reason();
    add_times(&mut facts, &plan, &product_words);
    let named = named_operands(shape.kind, &plan.reasons);
    reasons::add(&mut facts, &named);
    reasons::add(&mut facts, &named_operands(shape.kind, &device_reasons(&plan, arguments.wide)));
    facts.fact("this command", format!("planned in {}", seconds(plan_s)));
    if let Some(path) = &arguments.save {
        facts.fact("saved", path.display());
    }
    console.table(&facts)?;
    console.text("\n")?;
    show_devices_and_chunks(&plan, arguments.wide, console)?;
    gpus::counted(&counts, plan.repeat).show(console)?;

    let work = json!({ "work": arguments.matrix.to_string_lossy() });
    let report = Report::new("plan")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config(arguments, &session, work))
        .with("summary", &sentence)
        .with("timing", json!({"plan_s": plan_s}))
        .with("device_counts", &counts)
        .with("reasons", &named);
    console.json(&planned(report, &plan, "entries", &product_words))?;
    session.interrupt.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(typed: &str) -> Result<Option<String>> {
        Ok(DenseShape::parse(typed.as_ref(), Dtype::F64)?.map(|shape| shape.words))
    }

    #[test]
    fn shapes_are_read_in_any_order_and_other_arguments_are_matrices() {
        let gemm = "C = A B: A 3 x 4, B 4 x 5, f64";
        assert_eq!(words("gemm:columns=5,rows=3,depth=4").unwrap().as_deref(), Some(gemm));
        let updated = words("gemm:rows=3,depth=4,columns=5,update").unwrap().unwrap();
        assert!(updated.starts_with("C = A B + C"), "{updated}");
        let sums = "sums and squared deviations of the columns of 1,000 x 7, f64";
        assert_eq!(words("colmean:rows=1000,columns=7,variance").unwrap().as_deref(), Some(sums));
        assert_eq!(words("gen:stencil5,n=3").unwrap(), None);
        assert_eq!(words("gemm.mtx").unwrap(), None);
    }

    #[test]
    fn wrong_shapes_are_refused_with_the_right_form() {
        for typed in [
            "gemm:",
            "gemm:rows=3",
            "gemm:rows=0,depth=1,columns=1",
            "colmean:rows=9,cols=2",
            "colmean:rows=x",
        ] {
            let error = words(typed).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains("rows=N"), "{error}");
        }
    }
}
