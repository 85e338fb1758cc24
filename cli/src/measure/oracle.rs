//! The oracle: every form that the planner may choose is timed, and the chosen form is compared with the fastest.
//!
//! The chosen form and the fastest ones are timed again in interleaved rounds: the minimum over a hundred forms with noise is
//! smaller than the true time of any of them. The results of all forms are checked; only right ones are compared.

use serde::Serialize;

use super::bench::Subject;
use super::check::{Checked, Expected};
use super::form_timing::{interleaved_medians, time_all};
use super::forms::form_names;
use rowloom::internal::cost::{Choice, Form, Profile};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::kernel::{KernelId, Order};
use rowloom::internal::matrix::{Dtype, MultiVectorView, Scalar};
use rowloom::internal::runtime::Pool;
use rowloom::internal::work::spmm::Features;
use rowloom::internal::work::spmm::cost::{Sample, choose};

/// How many of the fastest forms are timed again.
const RETIMED_FORMS: usize = 5;

/// A form with its measured and its predicted time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormTime {
    /// Its name.
    pub name: String,
    /// The order of its additions.
    pub order: Order,
    /// The median of its times.
    pub seconds: f64,
    /// The predicted seconds; none for forms that the planner does not consider.
    pub predicted_s: Option<f64>,
    /// How its Y compares with the right one; none if it did not run again to be checked.
    pub checked: Option<Checked>,
}

impl FormTime {
    /// Whether its Y was checked and is right.
    pub fn is_verified(&self) -> bool {
        self.checked.is_some_and(|checked| checked.passed)
    }

    /// Whether its Y was found to be wrong.
    pub fn is_wrong(&self) -> bool {
        self.checked.is_some_and(|checked| !checked.passed)
    }
}

/// One matrix, K and precision on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OracleCase {
    /// The device.
    pub device: String,
    /// The matrix.
    pub matrix: String,
    /// The precision.
    pub dtype: Dtype,
    /// Columns of X.
    pub k: usize,
    /// Statistics of its rows.
    pub features: Features,
    /// The form that the planner chooses.
    pub chosen: FormTime,
    /// Why it chooses that form.
    pub reason: String,
    /// The form that the planner chooses with `--reproducible`, among those that add in canonical order.
    pub reproducible: FormTime,
    /// The fastest form with the right Y; the chosen form if there is none.
    pub best: FormTime,
    /// All forms that were timed.
    pub forms: Vec<FormTime>,
}

impl OracleCase {
    /// A name for people.
    pub fn name(&self) -> String {
        format!("{} {} k={} on {}", self.matrix, self.dtype.name(), self.k, self.device)
    }

    /// Regret: the time of the chosen form over that of the fastest. None if one of the forms that are compared was not verified.
    pub fn regret(&self) -> Option<f64> {
        let compared = [&self.chosen, &self.reproducible, &self.best];
        let verified = compared.into_iter().all(FormTime::is_verified);
        verified.then(|| self.chosen.seconds / self.best.seconds)
    }
}

/// The device, the matrix and the time budget of one case.
#[derive(Debug, Clone, Copy)]
pub struct OracleSettings<'a> {
    /// The device's name.
    pub device: &'a str,
    /// The device's profile, which predicts times.
    pub profile: &'a Profile,
    /// The matrix's name.
    pub matrix: &'a str,
    /// Statistics of the matrix's rows.
    pub features: &'a Features,
    /// Seconds to spend on timing, approximately.
    pub budget_s: f64,
}

/// Times all forms of `subject`, which has taken `x`, and compares the planner's choice among `forms` with the fastest. Results
/// are checked against `expected` on the threads of `pool`. None where no form runs.
pub fn consult<T: Kernels>(
    pool: &Pool,
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    expected: &Expected<'_, T>,
    forms: &[Form],
    settings: &OracleSettings<'_>,
) -> Result<Option<OracleCase>> {
    let OracleSettings { profile, features, .. } = *settings;
    let (k, dtype) = (x.k() as u64, T::DTYPE);
    let kernels = subject.kernels();
    let seconds = time_all(subject, x, kernels.len(), settings.budget_s)?;
    let predicted = |name: &str| {
        let known = forms.iter().find(|form| form_names(form).iter().any(|own| own == name));
        known.filter(|form| form.supports(features)).map(|form| profile.form_s(form, features, k, dtype))
    };
    let (numbers, mut timed): (Vec<usize>, Vec<FormTime>) = kernels
        .into_iter()
        .zip(seconds)
        .enumerate()
        .filter_map(|(number, ((kernel, name), seconds))| {
            let (order, predicted_s) = (kernel.info().order, predicted(&name));
            Some((number, FormTime { name, order, seconds: seconds?, predicted_s, checked: None }))
        })
        .unzip();
    let ran = |form: &&Form| timed.iter().any(|timed| form_names(form).contains(&timed.name));
    let find_timed = |choice: Choice| {
        let own = form_names(&choice.form);
        let found = timed.iter().position(|timed| own.contains(&timed.name));
        let not_timed = || Error::Internal(format!("{} was chosen and not timed", choice.form.name()));
        Ok((found.ok_or_else(not_timed)?, choice.reason))
    };
    let choice = |canonical: bool| {
        let usable = forms.iter().filter(ran).filter(|form| !canonical || form.is_canonical());
        choose(profile, features, k, dtype, usable.copied()).map(find_timed).transpose()
    };
    let (Some((chosen, reason)), Some((reproducible, _))) = (choice(false)?, choice(true)?) else {
        return Ok(None);
    };
    let candidates = candidates(&timed, [chosen, reproducible]);
    let kernel_numbers: Vec<usize> = candidates.iter().map(|&candidate| numbers[candidate]).collect();
    let seconds = interleaved_medians(subject, x, &kernel_numbers, settings.budget_s)?;
    for (&candidate, seconds) in candidates.iter().zip(seconds) {
        let own = &mut timed[candidate];
        own.seconds = seconds.unwrap_or(own.seconds);
    }
    for (own, &number) in timed.iter_mut().zip(&numbers) {
        if subject.ready(number)?.is_err() {
            continue;
        }
        subject.forget_y()?;
        if subject.run(number, x)?.is_ok() {
            let order = own.order;
            subject.read_y(&mut |y| own.checked = Some(pool.install(|| expected.check(order, y))))?;
        }
    }
    let faster = |a: &&usize, b: &&usize| timed[**a].seconds.total_cmp(&timed[**b].seconds);
    let right = candidates.iter().filter(|&&candidate| timed[candidate].is_verified());
    let best = right.min_by(faster).copied().unwrap_or(chosen);
    let [chosen, reproducible, best] = [chosen, reproducible, best].map(|form| timed[form].clone());
    Ok(Some(OracleCase {
        device: settings.device.into(),
        matrix: settings.matrix.into(),
        dtype,
        k: x.k(),
        features: *features,
        chosen,
        reason,
        reproducible,
        best,
        forms: timed,
    }))
}

/// The forms that are timed again: the chosen ones and the fastest.
fn candidates(timed: &[FormTime], chosen: [usize; 2]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..timed.len()).collect();
    order.sort_by(|&a, &b| timed[a].seconds.total_cmp(&timed[b].seconds));
    order.truncate(RETIMED_FORMS);
    order.extend(chosen);
    order.sort_unstable();
    order.dedup();
    order
}

/// Times the forms of `subject`, which has taken `x`, that are among `forms`.
pub fn time_forms<T: Scalar>(
    subject: &mut dyn Subject<T>,
    x: MultiVectorView<'_, T>,
    forms: &[Form],
    features: &Features,
    budget_s: f64,
) -> Result<Vec<Sample>> {
    let kernels = subject.kernels();
    let seconds = time_all(subject, x, kernels.len(), budget_s)?;
    let fastest_s = seconds.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let sample = |((_, name), seconds): ((KernelId, String), Option<f64>)| {
        let form = *forms.iter().find(|form| form_names(form).contains(&name))?;
        let (k, dtype) = (x.k() as u64, T::DTYPE);
        Some(Sample { form, features: *features, k, dtype, seconds: seconds?, fastest_s })
    };
    Ok(kernels.into_iter().zip(seconds).filter_map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{HostBench, KernelNames, Sizes};
    use rowloom::internal::cost::preset;
    use rowloom::internal::kernel::Schedule;
    use rowloom::internal::kernel::cpu::CpuSettings;
    use rowloom::internal::machine::{Isa, Machine};
    use rowloom::internal::matrix::{MultiVector, generate};
    use rowloom::internal::work::ChunkRows;
    use rowloom::internal::work::spmm::Spmm;

    fn form(name: &str, seconds: f64) -> FormTime {
        let (order, predicted_s) = (Order::Canonical, Some(seconds));
        let checked = Some(Checked::weighed(0));
        FormTime { name: name.into(), order, seconds, predicted_s, checked }
    }

    #[test]
    fn the_chosen_forms_and_the_five_fastest_are_timed_again_each_once() {
        let times = [5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0];
        let timed: Vec<FormTime> = times.iter().map(|&seconds| form("cpu_csr", seconds)).collect();
        assert_eq!(candidates(&timed, [5, 1]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(candidates(&timed, [6, 7]), [0, 1, 2, 3, 4, 6, 7]);
        assert_eq!(candidates(&timed[..1], [0, 0]), [0]);
    }

    /// Two kernels, of which the first is faster and leaves Y empty.
    struct WrongAndFast<'a> {
        right: HostBench<'a, f64>,
        empty: MultiVector<f64>,
        ran: usize,
    }

    impl Subject<f64> for WrongAndFast<'_> {
        fn kernels(&self) -> Vec<(KernelId, String)> {
            self.right.kernels()
        }

        fn take_x(&mut self, x: MultiVectorView<'_, f64>) -> Result<Option<String>> {
            self.right.take_x(x)
        }

        fn ready(&mut self, kernel: usize) -> Result<std::result::Result<(), String>> {
            self.right.ready(kernel)
        }

        fn run(
            &mut self,
            kernel: usize,
            x: MultiVectorView<'_, f64>,
        ) -> Result<std::result::Result<f64, String>> {
            self.ran = kernel;
            Ok(self.right.run(kernel, x)?.map(|_| (kernel + 1) as f64))
        }

        fn forget_y(&mut self) -> Result<()> {
            self.right.forget_y()
        }

        fn read_y(&mut self, read: &mut dyn FnMut(MultiVectorView<'_, f64>)) -> Result<()> {
            if self.ran > 0 {
                return self.right.read_y(read);
            }
            read(self.empty.view());
            Ok(())
        }
    }

    #[test]
    fn a_form_with_a_wrong_result_is_not_the_fastest() {
        let matrix = generate::<f64>("stencil5,n=20", 1, 1 << 30).unwrap().matrix;
        let pool = Pool::new(&Machine::detect(), Some(1)).unwrap();
        let cpu = CpuSettings { k: 4, threads: 1, isa: Isa::detect(), schedule: Schedule::Balanced };
        let mut x = MultiVector::zeros(matrix.cols(), 4).unwrap();
        x.data_mut().fill(1.0);
        let sizes = Sizes::of(matrix.view()).unwrap();
        let expected = Expected::new(&pool, matrix.view(), &sizes, x.view(), cpu).unwrap();
        let names = KernelNames::new(&["cpu_csr".into(), "cpu_sell".into()]).unwrap();
        let right = HostBench::new(&pool, matrix.view(), &names, cpu, u64::MAX);
        let mut subject =
            WrongAndFast { right, empty: MultiVector::zeros(matrix.rows(), 4).unwrap(), ran: 0 };
        subject.take_x(x.view()).unwrap();
        let work = Spmm::new(&matrix.view(), 4).unwrap();
        let features = Features::of(&work, &ChunkRows::Rows { begin: 0, end: matrix.rows() });
        let forms: Vec<Form> = [KernelId::CpuCsr, KernelId::CpuSell]
            .iter()
            .flat_map(|&kernel| Form::all(kernel, Dtype::F64, 4, false))
            .collect();
        let profile = preset("h200").unwrap().cpu;
        let settings = OracleSettings {
            device: "cpu",
            profile: &profile,
            matrix: "stencil",
            features: &features,
            budget_s: 1.0,
        };
        let case = consult(&pool, &mut subject, x.view(), &expected, &forms, &settings).unwrap().unwrap();
        let wrong: Vec<bool> = case.forms.iter().map(FormTime::is_wrong).collect();
        assert_eq!(wrong, [true, false], "{case:?}");
        assert_eq!((case.best.name.as_str(), case.best.seconds), ("cpu_sell", 2.0));
    }
}
