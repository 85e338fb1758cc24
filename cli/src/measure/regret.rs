//! Regret: how much slower the chosen kernels are than the fastest, over all cases of a device. Only verified forms are compared.

use std::collections::BTreeMap;

use serde::Serialize;

use super::oracle::OracleCase;
use rowloom::internal::kernel::{KindOfWork, kernels_for};

/// Regrets up to this count as noise, and the choice as right.
pub const REGRET_NOISE: f64 = 1.05;
/// A prediction within this factor of the measured time counts as accurate.
const ACCURATE_FACTOR: f64 = 1.2;

/// Regret over all cases of one device whose chosen and fastest form were verified.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Regret {
    /// The device.
    pub device: String,
    /// Number of cases.
    pub cases: usize,
    /// Geometric mean of the regrets.
    pub geomean: f64,
    /// Their 95th percentile.
    pub p95: f64,
    /// The largest regret.
    pub worst: f64,
    /// The case with the largest regret.
    pub worst_case: String,
    /// Share of cases where the chosen form is at most 5 % slower than the fastest.
    pub within_5_percent: f64,
    /// The kernel with the smallest mean regret if one kernel, in its fastest form, were used in all cases.
    pub best_single: String,
    /// Geometric mean of its regrets.
    pub best_single_geomean: f64,
    /// Geometric mean of the time of the reproducible choice over that of the free choice.
    pub reproducible_geomean: f64,
    /// Share of cases where the predicted time of the chosen form is within 20 % of the measured one.
    pub predicted_within_20_percent: f64,
}

impl Regret {
    /// The regret of each device, in the order in which devices first appear.
    pub fn of(cases: &[OracleCase]) -> Vec<Self> {
        let mut devices: Vec<&str> = Vec::new();
        for case in cases {
            if !devices.contains(&case.device.as_str()) {
                devices.push(&case.device);
            }
        }
        let of_device = |device: &str| -> Vec<&OracleCase> {
            cases.iter().filter(|case| case.device == device).collect()
        };
        devices.into_iter().filter_map(|device| Self::of_device(device, &of_device(device))).collect()
    }

    fn of_device(device: &str, cases: &[&OracleCase]) -> Option<Self> {
        let compared: Vec<(&OracleCase, f64)> =
            cases.iter().filter_map(|&case| Some((case, case.regret()?))).collect();
        let &(worst_case, worst) = compared.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let cases: Vec<&OracleCase> = compared.iter().map(|&(case, _)| case).collect();
        let mut regrets: Vec<f64> = compared.iter().map(|&(_, regret)| regret).collect();
        regrets.sort_by(f64::total_cmp);
        let share = |holds: &dyn Fn(&OracleCase) -> bool| {
            cases.iter().filter(|case| holds(case)).count() as f64 / cases.len() as f64
        };
        let p95 = regrets[(regrets.len() * 95).div_ceil(100).max(1) - 1];
        let (best_single, best_single_geomean) = best_single(&cases);
        let accurate = |case: &OracleCase| {
            case.chosen.predicted_s.is_some_and(|predicted_s| {
                (predicted_s / case.chosen.seconds).ln().abs() <= ACCURATE_FACTOR.ln()
            })
        };
        Some(Self {
            device: device.into(),
            cases: cases.len(),
            geomean: geomean(regrets.iter().copied()),
            p95,
            worst,
            worst_case: worst_case.name(),
            within_5_percent: share(&|case| case.regret().is_some_and(|regret| regret <= REGRET_NOISE)),
            best_single,
            best_single_geomean,
            reproducible_geomean: geomean(
                cases.iter().map(|case| case.reproducible.seconds / case.chosen.seconds),
            ),
            predicted_within_20_percent: share(&accurate),
        })
    }
}

/// The kernel with the smallest mean regret over all cases, each with its fastest verified form; only kernels that have one in every case
/// count.
fn best_single(cases: &[&OracleCase]) -> (String, f64) {
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for case in cases {
        let mut own: BTreeMap<&str, f64> = BTreeMap::new();
        for form in case.forms.iter().filter(|form| form.is_verified()) {
            let kernel = kernel_name(&form.name);
            let least = own.entry(kernel).or_insert(f64::INFINITY);
            *least = least.min(form.seconds);
        }
        for (kernel, seconds) in own {
            ratios.entry(kernel).or_default().push(seconds / case.best.seconds);
        }
    }
    let everywhere = ratios.iter().filter(|(_, ratios)| ratios.len() == cases.len());
    let means = everywhere.map(|(kernel, ratios)| (*kernel, geomean(ratios.iter().copied())));
    let best = means.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or_else(|| ("none".into(), f64::NAN), |(kernel, mean)| (kernel.into(), mean))
}

/// The kernel of a form's name.
fn kernel_name(form: &str) -> &str {
    let names = kernels_for(KindOfWork::Spmm).map(|info| info.name);
    names.filter(|name| form.starts_with(name)).max_by_key(|name| name.len()).unwrap_or(form)
}

fn geomean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        count += 1;
    }
    (sum / f64::from(count.max(1))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Checked, FormTime};
    use rowloom::internal::kernel::Order;
    use rowloom::internal::matrix::Dtype;
    use rowloom::internal::work::spmm::Features;

    fn form(name: &str, seconds: f64) -> FormTime {
        let (order, predicted_s) = (Order::Canonical, Some(seconds));
        let checked = Some(Checked::weighed(0));
        FormTime { name: name.into(), order, seconds, predicted_s, checked }
    }

    fn case(chosen: f64, best: f64) -> OracleCase {
        let (one, other) = (form("csr_runs_b16l8v2 t128 p16", chosen), form("csr_subwarp_b16l8v2", best));
        OracleCase {
            device: "cuda:0".into(),
            matrix: format!("a{chosen}"),
            dtype: Dtype::F64,
            k: 8,
            features: Features::default(),
            chosen: one.clone(),
            reason: String::new(),
            reproducible: one.clone(),
            best: other.clone(),
            forms: vec![one, other],
        }
    }

    #[test]
    fn regret_is_chosen_over_fastest() {
        let cases: Vec<OracleCase> = (0..20).map(|at| case(if at == 0 { 4.0 } else { 1.0 }, 1.0)).collect();
        let regret = Regret::of(&cases).remove(0);
        assert!((regret.geomean - 4f64.powf(0.05)).abs() < 1e-12);
        assert_eq!((regret.p95, regret.worst, regret.within_5_percent), (1.0, 4.0, 0.95));
        assert!(regret.worst_case.starts_with("a4 f64 k=8"));
        assert_eq!((regret.best_single.as_str(), regret.best_single_geomean), ("csr_subwarp", 1.0));
        assert_eq!(Regret::of(&[]), []);
        let unverified = |form: &FormTime| FormTime { checked: None, ..form.clone() };
        let right = case(3.0, 1.0);
        let chosen = OracleCase { chosen: unverified(&right.chosen), ..right.clone() };
        let best = OracleCase { best: unverified(&right.best), ..right.clone() };
        assert_eq!(Regret::of(&[chosen.clone(), best.clone()]), [], "no ratio of an unverified form");
        let regret = Regret::of(&[chosen, best, right]).remove(0);
        assert_eq!((regret.cases, regret.worst), (1, 3.0));
    }

    #[test]
    fn a_form_belongs_to_the_kernel_with_the_longest_name_that_fits() {
        assert_eq!(kernel_name("row_groups_cut_b16l8v2w1r4 t128 p64"), "row_groups_cut");
        assert_eq!(kernel_name("row_groups_b16l8v2r4"), "row_groups");
        assert_eq!(kernel_name("cpu_csr"), "cpu_csr");
    }
}
