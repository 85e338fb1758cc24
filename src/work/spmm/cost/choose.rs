//! Chooses the kernel with the shortest predicted time and gives the reason in words.

use super::kernels::Forecast;
use crate::cost::{Candidate, Choice, Form, Profile};
use crate::error::Seconds;
use crate::matrix::Dtype;
use crate::work::spmm::Features;

/// A kernel with its own order of additions must be predicted faster than the best canonical kernel by this factor.
pub const FREE_GAIN: f64 = 1.03;

impl Form {
    /// The form with its shapes for `k` columns.
    pub fn candidate(self, dtype: Dtype, k: u64) -> Candidate {
        let shape = self.shape(dtype, k);
        Candidate { form: self, shape, nearest_shape: shape.or_else(|| self.nearest_shape(dtype, k)) }
    }
}

/// The form of `forms` with the shortest predicted time for rows with these features; the first of equals. `None` where no form
/// supports the rows.
pub fn choose(
    device: &Profile,
    features: &Features,
    k: u64,
    dtype: Dtype,
    forms: impl IntoIterator<Item = Form>,
) -> Option<Choice> {
    let candidates = forms.into_iter().map(|form| form.candidate(dtype, k));
    choose_candidate(device, features, k, dtype, candidates)
}

/// As [`choose`], for forms whose shapes are known.
pub fn choose_candidate(
    device: &Profile,
    features: &Features,
    k: u64,
    dtype: Dtype,
    candidates: impl IntoIterator<Item = Candidate>,
) -> Option<Choice> {
    let mut usable: Vec<Candidate> =
        candidates.into_iter().filter(|candidate| candidate.form.supports(features)).collect();
    let is_known =
        |candidate: &Candidate| candidate.shape.is_some_and(|shape| device.weights.contains_key(shape));
    let is_calibrated = usable.iter().any(is_known);
    if is_calibrated {
        usable.retain(is_known);
    }
    let forecast = Forecast::new(device, features, k, dtype);
    let seconds = |candidate: &Candidate| forecast.seconds(&candidate.form, candidate.nearest_shape);
    let mut timed: Vec<(Form, f64)> =
        usable.iter().map(|candidate| (candidate.form, seconds(candidate))).collect();
    timed.sort_by(|a, b| a.1.total_cmp(&b.1));
    let &(best, best_s) = timed.first()?;
    let canonical = timed.iter().find(|(form, _)| form.is_canonical()).copied();
    let (form, predicted_s) = match canonical {
        Some((form, seconds)) if seconds <= FREE_GAIN * best_s => (form, seconds),
        _ => (best, best_s),
    };
    let mut reason = format!("{}: {}", form.name(), form.kernel.info().summary);
    match timed.iter().find(|(other, _)| other.kernel != form.kernel && *other != best) {
        Some((other, seconds)) if *seconds > predicted_s => {
            let (own, next) = (Seconds(predicted_s), Seconds(*seconds));
            reason += &format!("; predicted kernel time {own}, next best {} {next}", other.name());
        }
        // Without measured times the first of equals is chosen.
        Some((other, _)) if form == best => {
            let cause = if is_calibrated { "" } else { "this device is not calibrated, so " };
            reason += &format!("; {cause}{} is predicted to take as long", other.name());
        }
        _ => {}
    }
    if form != best && best_s < predicted_s {
        let gain = (predicted_s / best_s - 1.0) * 100.0;
        reason += &format!(
            "; {} is predicted {gain:.1} % faster, but adds in another order than the reproducible kernels",
            best.name()
        );
    } else if let (false, Some((other, seconds))) = (form.is_canonical(), canonical) {
        let loss = (seconds / predicted_s - 1.0) * 100.0;
        reason += &format!(
            "; adds in another order than the reproducible kernels; the fastest reproducible kernel, {}, is predicted {loss:.0} % slower",
            other.name()
        );
    }
    if let Some((matrix, similarity)) = forecast.most_similar() {
        reason += &format!("; similar to the measured matrix {matrix} (similarity {similarity:.2})");
    }
    Some(Choice { form, predicted_s, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Correction, preset};
    use crate::kernel::KernelId;
    use crate::matrix::{Csr, generate};
    use crate::work::ChunkRows;
    use crate::work::spmm::Spmm;

    fn features() -> Features {
        let rows = 100_000;
        Features {
            rows,
            nnz: 8 * rows,
            mean: 8.0,
            max: 8,
            slice_fill: 1.0,
            end_column: rows,
            ..Features::default()
        }
    }

    /// A device whose kernels are equally fast, apart from these factors.
    fn device(factors: &[(KernelId, f64)]) -> Profile {
        let mut device = preset("h200").unwrap().gpus.remove(0);
        device.weights.clear();
        device.cases = None;
        let correction = |&(kernel, factor)| Correction { kernel, variant: None, factor };
        device.corrections = factors.iter().map(correction).collect();
        device
    }

    fn chosen(factors: &[(KernelId, f64)], features: &Features) -> (KernelId, String) {
        let kernels = [KernelId::CsrRuns, KernelId::CsrWays, KernelId::Sell];
        let forms = kernels.into_iter().flat_map(|kernel| Form::all(kernel, Dtype::F64, 8, true));
        let choice = choose(&device(factors), features, 8, Dtype::F64, forms).unwrap();
        (choice.form.kernel, choice.reason)
    }

    #[test]
    fn the_fastest_kernel_is_chosen_and_the_next_named() {
        let (kernel, reason) = chosen(&[(KernelId::Sell, 0.5)], &features());
        assert_eq!(kernel, KernelId::Sell);
        assert!(reason.contains("predicted") && reason.contains("csr_runs"), "{reason}");
    }

    #[test]
    fn without_measured_times_the_first_of_equals_is_chosen_and_the_reason_says_so() {
        let (kernel, reason) = chosen(&[], &features());
        assert_eq!(kernel, KernelId::CsrRuns);
        let (_, cause) = reason.split_once("; this device is not calibrated, so ").unwrap();
        assert!(cause.ends_with(" is predicted to take as long"), "{reason}");
    }

    #[test]
    fn a_kernel_that_is_not_canonical_must_be_faster_by_the_margin() {
        let (kernel, reason) = chosen(&[(KernelId::CsrWays, 0.98)], &features());
        assert_eq!(kernel, KernelId::CsrRuns);
        assert!(reason.contains("csr_ways") && reason.contains("another order"), "{reason}");
        let (kernel, reason) = chosen(&[(KernelId::CsrWays, 0.8)], &features());
        assert_eq!(kernel, KernelId::CsrWays);
        assert!(reason.contains("25 % slower"), "{reason}");
    }

    #[test]
    fn similar_cases_change_predictions_and_are_named() {
        let matrix: Csr<f64> = generate("mixed,n=40", 1, 1 << 30).unwrap().matrix;
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        let features = Features::of(&Spmm::new(&matrix.view(), 16).unwrap(), &all);
        let known = preset("h200").unwrap().gpus.remove(0);
        let chosen = |cases: Option<&str>| {
            let device = Profile { cases: cases.map(Into::into), ..known.clone() };
            let forms = Form::all(KernelId::CsrRuns, Dtype::F64, 16, true);
            choose(&device, &features, 16, Dtype::F64, forms).unwrap()
        };
        let with = chosen(Some("h200"));
        assert!(with.reason.contains("similar to the measured matrix mixed,n=40"), "{}", with.reason);
        let without = chosen(None);
        assert!(!without.reason.contains("similar") && without.predicted_s != with.predicted_s);
        assert_eq!(chosen(Some("an unmeasured card")), without);
    }

    #[test]
    fn rows_too_long_for_a_format_get_another() {
        let long = Features { max: 513, ..features() };
        assert_eq!(chosen(&[(KernelId::Sell, 0.1)], &long).0, KernelId::CsrRuns);
    }
}
