//! What `rowloom bench` reports of its cases, as a JSON object. Tables for people are in `bench_table`.

use serde_json::{Map, Value, json};

use crate::args::BenchArguments;
use crate::console::report::{Report, machine_report};
use crate::measure::{CaseResult, form_names};
use crate::operands::session::Session;
use crate::results::{BYTE_MODEL, Comparison, Record, Standing, records_of, standings};
use crate::statistics::{Summary, TimeRatio};
use rowloom::internal::cost::{Form, Profile};
use rowloom::internal::work::spmm::cost::{choose, eligible};

/// A case with what follows from its times.
pub struct CaseReport<'a> {
    /// The case.
    pub case: &'a CaseResult,
    /// Its kernels, then its peers.
    pub records: &'a [Record],
    /// Where each of them stands.
    pub standings: Vec<Option<Standing>>,
    /// The kernel that the planner would choose, A being on the device.
    pub chosen: Option<String>,
    /// Why the planner would choose it.
    pub chosen_reason: Option<String>,
}

impl<'a> CaseReport<'a> {
    /// Reports of all cases. `records` are theirs, in the same order; `profile_of` returns the profile of a device.
    pub fn all(
        cases: &'a [CaseResult],
        records: &'a [Record],
        profile_of: impl Fn(&str) -> Option<&'a Profile>,
    ) -> Vec<Self> {
        let mut left = records;
        let mut reports = Vec::with_capacity(cases.len());
        for case in cases {
            let (own, others) = left.split_at(records_of(case).len().min(left.len()));
            left = others;
            let chosen = profile_of(&case.device).and_then(|profile| planners_choice(case, profile));
            let (chosen, chosen_reason) = chosen.unzip();
            reports.push(Self { case, records: own, standings: standings(own), chosen, chosen_reason });
        }
        reports
    }

    /// The time of the kernel that the planner would choose, where it was measured and its Y is right.
    pub fn chosen_s(&self) -> Option<f64> {
        let chosen = self.chosen.as_ref()?;
        self.case.kernels.iter().find(|kernel| kernel.kernel == *chosen)?.seconds()
    }

    /// How many times faster the kernel that the planner would choose is than the fastest peer.
    pub fn chosen_speedup(&self) -> Option<f64> {
        let (own, peer) = (self.chosen_s()?, self.case.best_peer()?.1);
        (own > 0.0).then_some(peer / own)
    }
}

/// The kernel that the planner would choose among all that can run on this matrix, by the name under which it was measured, and
/// why.
fn planners_choice(case: &CaseResult, profile: &Profile) -> Option<(String, String)> {
    let (features, k) = (case.features.as_ref()?, case.k as u64);
    let refused = |form: &Form| {
        let names = form_names(form);
        let own = case.kernels.iter().find(|kernel| names.contains(&kernel.kernel));
        own.is_some_and(|kernel| kernel.times.median.is_none())
    };
    let forms = eligible(profile.processor)
        .iter()
        .flat_map(|&kernel| Form::all(kernel, case.dtype, k, profile.compiles))
        .filter(|form| !refused(form));
    let choice = choose(profile, features, k, case.dtype, forms)?;
    let names = form_names(&choice.form);
    let measured = case.kernels.iter().find(|kernel| names.contains(&kernel.kernel));
    let [_, short] = names;
    Some((measured.map_or(short, |kernel| kernel.kernel.clone()), choice.reason))
}

/// Speed-ups of the fastest kernel over the fastest peer.
pub fn summary(reports: &[CaseReport<'_>]) -> Option<Summary> {
    let ratios = reports.iter().filter_map(|report| Some((report.case.name(), report.case.ratio()?)));
    Summary::of(&ratios.collect::<Vec<_>>())
}

/// Speed-ups of the kernel that the planner would choose over the fastest peer.
pub fn chosen_summary(reports: &[CaseReport<'_>]) -> Option<Summary> {
    let ratios = reports.iter().filter_map(|report| Some((report.case.name(), report.chosen_speedup()?)));
    Summary::of(&ratios.collect::<Vec<_>>())
}

/// The JSON object.
pub fn json(
    reports: &[CaseReport<'_>],
    comparison: Option<&Comparison>,
    arguments: &BenchArguments,
    session: &Session,
) -> Report {
    let baseline = arguments.baseline.as_ref();
    let config = json!({
        "k": arguments.k, "kernels": arguments.kernels, "devices": arguments.devices.name(),
        "against": arguments.against, "dtype": arguments.dtype.iter().map(|dtype| dtype.name()).collect::<Vec<_>>(),
        "repeat": arguments.repeat, "warmup": arguments.warmup, "time_cap": arguments.time_cap,
        "seed": arguments.seed, "threads": session.pool.threads(),
        "matrices": arguments.matrices.iter().map(|matrix| matrix.to_string_lossy()).collect::<Vec<_>>(),
        "baseline": baseline.map(|path| path.display().to_string()),
    });
    Report::new("bench")
        .with("provenance", &session.provenance)
        .with("machine", machine_report(&session.machine))
        .with("config", config)
        .with("byte_model", BYTE_MODEL)
        .with("cases", reports.iter().map(case_json).collect::<Vec<_>>())
        .with("summary", summary(reports))
        .with("chosen_summary", chosen_summary(reports))
        .with("baseline", comparison)
}

/// A case, and of each of its kernels and peers what follows from its times.
fn case_json(report: &CaseReport<'_>) -> Value {
    let case = report.case;
    let mut value = serde_json::to_value(case).unwrap_or(Value::Null);
    let best = case.best();
    let peer = case.best_peer();
    let Some(keys) = value.as_object_mut() else { return value };
    let mut measured = report.records.iter().zip(&report.standings);
    for list in ["kernels", "peers"] {
        for own in keys.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let (Some(own), Some((record, standing))) = (own.as_object_mut(), measured.next()) {
                add_derived(own, record, *standing);
            }
        }
    }
    for kernel in keys.get_mut("kernels").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(kernel) = kernel.as_object_mut() {
            let name = kernel.get("kernel").and_then(Value::as_str);
            let is_chosen = name.is_some() && name == report.chosen.as_deref();
            kernel.insert("chosen".into(), json!(is_chosen));
        }
    }
    keys.insert("best_kernel".into(), json!(best.map(|(kernel, _)| &kernel.kernel)));
    keys.insert("best_s".into(), json!(best.map(|(_, time)| time)));
    keys.insert("gflops".into(), json!(best.map(|(_, time)| case.gflops(time))));
    keys.insert("compulsory_fraction".into(), json!(best.map(|(_, time)| case.fraction(time))));
    keys.insert("best_peer".into(), json!(peer.map(|(peer, _)| peer.name())));
    keys.insert("best_peer_s".into(), json!(peer.map(|(_, time)| time)));
    keys.insert("ratio".into(), json!(case.ratio()));
    keys.insert("chosen_kernel".into(), json!(report.chosen));
    keys.insert("chosen_reason".into(), json!(report.chosen_reason));
    keys.insert("chosen_s".into(), json!(report.chosen_s()));
    keys.insert("chosen_ratio".into(), json!(report.chosen_speedup()));
    value
}

/// Rates, rank and ratio of one kernel or peer.
fn add_derived(keys: &mut Map<String, Value>, record: &Record, standing: Option<Standing>) {
    let against_fastest = standing.and_then(|standing| standing.against_fastest);
    let spread = |ratio: TimeRatio| ratio.spread;
    keys.insert("rank".into(), json!(standing.map(|standing| standing.rank)));
    keys.insert("ratio_to_fastest".into(), json!(against_fastest.map(|ratio| ratio.ratio)));
    keys.insert("ratio_spread".into(), json!(against_fastest.and_then(spread)));
    keys.insert("gflops".into(), json!(record.gflops()));
    keys.insert("gb_per_s".into(), json!(record.gb_per_s()));
    keys.insert("roofline_fraction".into(), json!(record.roofline_fraction()));
    keys.insert("speedup".into(), json!(record.speedup));
    keys.insert("speedup_over".into(), json!(record.speedup_over));
    keys.insert("doubts".into(), json!(record.doubts));
}
