//! Cases of `bench --json=FILE`, read by `calibrate --from` to fit weights to them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::measure::forms_by_name;
use rowloom::internal::cost::{Form, Profile};
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::files::read_regular;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::work::spmm::Features;
use rowloom::internal::work::spmm::cost::{Reference, Sample};

/// What is read of a report of `bench`, with `--oracle` or without.
#[derive(Deserialize)]
struct Report {
    cases: Vec<ReportedCase>,
}

/// A case. Its times are in `forms` if `--oracle` wrote it, else in `kernels`.
#[derive(Deserialize)]
pub struct ReportedCase {
    /// The device it was measured on.
    pub device: String,
    matrix: String,
    dtype: Dtype,
    k: u64,
    features: Features,
    #[serde(default)]
    forms: Vec<ReportedForm>,
    #[serde(default)]
    kernels: Vec<ReportedKernel>,
}

#[derive(Deserialize)]
struct ReportedForm {
    name: String,
    seconds: f64,
    #[serde(default)]
    checked: Option<ReportedCheck>,
}

#[derive(Deserialize)]
struct ReportedKernel {
    kernel: String,
    times: ReportedTimes,
    #[serde(default)]
    checked: Option<ReportedCheck>,
}

#[derive(Deserialize, Clone, Copy)]
struct ReportedCheck {
    passed: bool,
}

#[derive(Deserialize)]
struct ReportedTimes {
    median: Option<f64>,
}

/// The cases of a report.
pub fn load(path: &Path) -> Result<Vec<ReportedCase>> {
    let text = read_regular(path)?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| {
        let reason =
            format!("not a report of rowloom bench: {error}; write one with `rowloom bench --json=FILE`");
        Error::input(Place::file(path), reason)
    })?;
    Ok(report.cases)
}

/// Forms by name, for each precision and K.
#[derive(Default)]
pub struct Names(HashMap<(Dtype, u64), HashMap<String, Form>>);

impl ReportedCase {
    /// Times whose Y was not checked, as in reports of older versions.
    pub fn unverified(&self) -> usize {
        let forms = self.forms.iter().map(|form| (Some(form.seconds), form.checked));
        let kernels = self.kernels.iter().map(|kernel| (kernel.times.median, kernel.checked));
        forms.chain(kernels).filter(|(seconds, checked)| seconds.is_some() && checked.is_none()).count()
    }

    /// The times of the forms that the planner may choose, without those whose Y is wrong.
    pub fn samples(&self, names: &mut Names) -> Vec<Sample> {
        let Self { dtype, k, features, .. } = *self;
        let names = names.0.entry((dtype, k)).or_insert_with(|| forms_by_name(dtype, k));
        let forms = self.forms.iter().map(|form| (&form.name, Some(form.seconds), form.checked));
        let kernels = self.kernels.iter().map(|kernel| (&kernel.kernel, kernel.times.median, kernel.checked));
        let not_wrong =
            forms.chain(kernels).filter(|(.., checked)| checked.is_none_or(|checked| checked.passed));
        let timed = not_wrong.filter_map(|(name, seconds, _)| Some((*names.get(name)?, seconds?)));
        let timed: Vec<(Form, f64)> = timed.collect();
        let fastest_s = timed.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let sample = |(form, seconds)| Sample { form, features, k, dtype, seconds, fastest_s };
        timed.into_iter().map(sample).collect()
    }

    /// What `benches/fit` reads: the regressors, the fastest times, and the time of each shape.
    pub fn reference(&self, device: &Profile, samples: &[Sample]) -> Value {
        let fastest = |canonical: bool| {
            let counted = samples.iter().filter(|sample| !canonical || sample.form.is_canonical());
            counted.map(|sample| sample.seconds).min_by(f64::total_cmp)
        };
        let mut shapes: BTreeMap<&str, f64> = BTreeMap::new();
        let mut canonical: Vec<&str> = Vec::new();
        for sample in samples {
            let Some(shape) = sample.form.shape(self.dtype, self.k) else { continue };
            // The planner chooses the first of several forms of one shape.
            if !shapes.contains_key(shape) && sample.form.is_canonical() {
                canonical.push(shape);
            }
            shapes.entry(shape).or_insert(sample.seconds);
        }
        json!({
            "matrix": self.matrix, "dtype": self.dtype, "k": self.k, "unverified": self.unverified(),
            "reference": Reference::of(device, &self.features, self.k, self.dtype),
            "fastest_s": fastest(false), "fastest_canonical_s": fastest(true),
            "shapes": shapes, "canonical": canonical,
        })
    }
}
