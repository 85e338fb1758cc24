//! `rowloom plan`: the decisions of `run` with the same flags, their reasons and predicted times, without running.

use std::time::Instant;

use serde_json::json;

use super::dense;
use super::dense::DenseShape;
use super::gpus;
use super::nodes::NodeCounts;
use super::report::{config, planned, show_devices_and_chunks};
use super::sentence;
use super::table::{add_times, device_reasons};
use crate::args::MatrixSource;
use crate::args::PlanArguments;
use crate::args::no_effect;
use crate::console::reasons;
use crate::console::report::{MatrixReport, Report, machine_report};
use crate::console::table::{Table, seconds};
use crate::console::{Console, check_target};
use crate::operands::session::{Session, check_intact, describe_loaded, work};
use crate::operands::x;
use crate::request::cluster;
use crate::request::planning::{Requested, plan_request, runtime};
use rowloom::internal::error::{Counted, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::{Dtype, Field};
use rowloom::internal::plan::{Plan, compare_device_counts, make};
use rowloom::internal::runtime::ProductOptions;
use rowloom::internal::trace::Clock;

/// Plans, shows and saves.
pub fn run(arguments: &PlanArguments, console: &Console) -> Result<()> {
    if let Some(shape) = DenseShape::parse(&arguments.matrix, arguments.matrix_arguments.dtype)? {
        return dense::run(arguments, shape, console);
    }
    match arguments.matrix_arguments.dtype {
        Dtype::F64 => run_typed::<f64>(arguments, console),
        Dtype::F32 => run_typed::<f32>(arguments, console),
    }
}

fn run_typed<T: Kernels>(arguments: &PlanArguments, console: &Console) -> Result<()> {
    let planning = &arguments.planning;
    ProductOptions::kernel_named(&planning.kernel)?;
    arguments.save.as_deref().map(check_target).transpose()?;
    let mut session = Session::open(&arguments.matrix_arguments)?;
    session.note_surplus_threads(console);
    // Checks the devices. GPUs are opened after the matrix was read.
    runtime(planning, &session, Clock::start())?;
    let source = MatrixSource::new(&arguments.matrix);
    // Kernels can be timed on values only.
    let needs_pattern = cluster::is_asked_for(&planning.devices, None) && !planning.tune;
    let (loaded, load_s) = match needs_pattern {
        true => session.load_pattern::<T>(&source, arguments.finite, console)?,
        false => session.load::<T>(&source, arguments.finite, console)?,
    };
    let matrix = loaded.matrix.view();
    let limit = session.memory_limit_bytes().saturating_sub(loaded.matrix.memory_bytes());
    let (k, note) = session.pool.install(|| {
        x::columns::<T>(&arguments.x, matrix.cols(), arguments.k, arguments.finite, limit, Field::Real)
    })?;

    let start = Instant::now();
    let work = work(&matrix, &loaded.info, k)?;
    let Requested { request, mut notes, kinds, .. } =
        plan_request(planning, &session, Some(console), matrix, work, arguments.repeat)?;
    notes.extend(no_effect::of_plan(arguments, kinds));
    let mut plan = session.pool.install(|| make(&request))?;
    let host_cores = request.host.cores.into();
    let plan_s = start.elapsed().as_secs_f64();
    let mut parts = None;
    let (mut nodes, mut product_words) = (NodeCounts::default(), plan.product_reason());
    if let Some(of) = plan.cluster.clone() {
        let (_, simulated) = session.pool.install(|| cluster::simulate(&mut plan, &request.work))?;
        nodes = session.pool.install(|| NodeCounts::compare(&request, &plan, &simulated))?;
        product_words = cluster::product_words(&of, &simulated);
        parts = Some(simulated);
    }
    let (counts, words) = session.pool.install(|| compare_device_counts(&request, &plan))?;
    plan.reasons.extend(words.iter().cloned());
    notes.iter().chain(&note).for_each(|note| console.note(note));
    check_intact(&loaded.matrix, &source)?;
    session.add_gpus();
    if let Some(path) = &arguments.save {
        session.interrupt.defer();
        plan.save(path)?;
    }

    let node_counts = plan.cluster.as_ref().map(|cluster| nodes.counted(cluster, plan.repeat));
    let sentence = match (&parts, &node_counts) {
        (Some(parts), Some(counts)) => sentence::of_cluster(&plan, parts, counts),
        _ => sentence::of_plan(&plan, &counts),
    };
    console.table(&Table::paragraph(&sentence))?;
    console.text("\n")?;
    let mut facts = Table::facts();
    facts.fact("matrix", describe_loaded(&loaded));
    facts.fact("X", format!("{}, {}", Counted(plan.k, "column"), plan.dtype));
    add_times(&mut facts, &plan, &product_words);
    // The line of the product has the parts of its time.
    let comparison = gpus::shown(&counts, &words);
    let is_shown = |reason: &&String| {
        let is_comparison = words.contains(reason);
        !reason.starts_with("parts: ") && (arguments.wide || !is_comparison || Some(*reason) == comparison)
    };
    reasons::add(&mut facts, plan.reasons.iter().filter(is_shown));
    reasons::add(&mut facts, &device_reasons(&plan, arguments.wide));
    if let Some(words) = copies_of_vectors(&plan) {
        facts.fact("X and Y", words);
    }
    if is_on_simulated_host(&plan) {
        facts.fact(
            "cpu",
            format!("{} of the simulated host, not of this machine", Counted(host_cores, "core")),
        );
    }
    facts.fact("this command", format!("loaded A in {}, planned in {}", seconds(load_s), seconds(plan_s)));
    if let Some(path) = &arguments.save {
        facts.fact("saved", path.display());
    }
    console.table(&facts)?;
    console.text("\n")?;
    show_devices_and_chunks(&plan, arguments.wide, console)?;
    node_counts.iter().try_for_each(|counts| counts.show(console))?;
    gpus::counted(&counts, plan.repeat).show(console)?;

    let own_flags = json!({
        "matrix": source.name(),
        "k": k,
        "x": arguments.x.name(),
        "finite": arguments.finite,
        "seed": session.seed,
        "format": planning.format,
        "tune": planning.tune,
    });
    let report = Report::new("plan")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config(arguments, &session, own_flags))
        .with("matrix", MatrixReport::of(&loaded))
        .with("device_counts", &counts)
        .with("summary", &sentence)
        .with("timing", json!({"load_s": load_s, "plan_s": plan_s}))
        .with("reasons", &plan.reasons)
        .with("notes", &loaded.notes);
    let report = match parts {
        Some(parts) => {
            report.with("cluster", &plan.cluster).with("time_parts", parts).with("node_counts", &nodes.counts)
        }
        None => report,
    };
    console.json(&planned(report, &plan, "nnz", &product_words))?;
    session.interrupt.check()
}

/// Whether a CPU computes that is not this machine's.
fn is_on_simulated_host(plan: &Plan) -> bool {
    let has =
        |name: &str| plan.devices.iter().any(|device| device.chunks > 0 && device.name.starts_with(name));
    plan.cluster.is_none() && has("cpu") && has("sim:")
}

/// How X and Y move with each product on simulated GPUs, which differs between a machine and a cluster of one node.
fn copies_of_vectors(plan: &Plan) -> Option<&'static str> {
    let mut gpus = plan.devices.iter().filter(|device| device.chunks > 0 && device.profile.link.is_some());
    let is_simulated = gpus.any(|device| device.name.starts_with("sim:"));
    match &plan.cluster {
        Some(cluster) if cluster.has_cpu_ranks() => None,
        Some(_) => Some("stay on the devices; on one machine they are copied with every product"),
        None if is_simulated => {
            Some("are copied with every product; on a simulated cluster they stay on the devices")
        }
        None => None,
    }
}
