//! `--tune`: which kernels are worth timing on a matrix, how the times correct a profile, and where they are stored.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::product_times::cache_folder;
use crate::cost::{Correction, Form, Profile};
use crate::files;
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::work::{Facts, Fingerprint};

/// Number of kernels to time, with all forms of each.
pub const KERNELS_TO_TIME: usize = 3;

/// The measured times of one product on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormTimes {
    /// The matrix.
    pub matrix: Fingerprint,
    /// Columns of X.
    pub k: u64,
    /// Value type.
    pub dtype: Dtype,
    /// The name of the device's profile.
    pub device: String,
    /// Threads of a CPU; zero for a GPU.
    pub threads: usize,
    /// Seconds of each form.
    pub forms: Vec<(Form, f64)>,
}

/// Those of `kernels` that are predicted fastest on these rows.
pub fn kernels_to_time(
    profile: &Profile,
    kernels: &[KernelId],
    rows: &Facts,
    k: u64,
    dtype: Dtype,
) -> Vec<KernelId> {
    let fastest_s = |kernel: KernelId| {
        let forms = Form::all(kernel, dtype, k, profile.compiles);
        let usable = forms.into_iter().filter(|form| rows.suit(form));
        usable.map(|form| rows.kernel_s(profile, &form, k, dtype)).fold(f64::INFINITY, f64::min)
    };
    let mut kernels: Vec<(KernelId, f64)> =
        kernels.iter().map(|&kernel| (kernel, fastest_s(kernel))).collect();
    kernels.retain(|(_, seconds)| seconds.is_finite());
    kernels.sort_by(|a, b| a.1.total_cmp(&b.1));
    kernels.into_iter().map(|(kernel, _)| kernel).take(KERNELS_TO_TIME).collect()
}

/// Measured forms get their measured times; the other forms of `kernels` get the worst ratio of measured to predicted time.
pub fn correct_profile(
    profile: &mut Profile,
    kernels: &[KernelId],
    rows: &Facts,
    k: u64,
    dtype: Dtype,
    forms: &[(Form, f64)],
) {
    let plain = Profile { corrections: Vec::new(), ..profile.clone() };
    let factor = |form: &Form, seconds: f64| seconds / rows.kernel_s(&plain, form, k, dtype).max(1e-12);
    let worst = forms.iter().map(|(form, seconds)| factor(form, *seconds)).fold(1.0, f64::max);
    if forms.is_empty() {
        return;
    }
    let own = forms.iter().map(|(form, seconds)| Correction {
        kernel: form.kernel,
        variant: Some(form.variant),
        factor: factor(form, *seconds),
    });
    let others = kernels.iter().map(|&kernel| Correction { kernel, variant: None, factor: worst });
    profile.corrections = own.chain(others).collect();
}

impl FormTimes {
    /// The path of its file in a folder.
    fn path(&self, folder: &Path) -> PathBuf {
        let Self { matrix, k, dtype, device, threads, .. } = self;
        let name = format!("{}-{k}-{}-{device}-{threads}.json", matrix.hash, dtype.name());
        folder.join("tuned").join(name)
    }

    /// The stored times of the same product on the same device.
    pub fn load(&self) -> Option<Vec<(Form, f64)>> {
        self.load_from(&cache_folder()?)
    }

    fn load_from(&self, folder: &Path) -> Option<Vec<(Form, f64)>> {
        let text = files::read_regular(&self.path(folder)).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        let same = Self { forms: found.forms.clone(), ..self.clone() } == found;
        let valid = found.forms.iter().all(|(_, seconds)| seconds.is_finite() && *seconds > 0.0);
        (same && valid).then_some(found.forms)
    }

    /// Stores the times, if the folder is writable.
    pub fn save(&self) {
        if let Some(folder) = cache_folder() {
            self.save_in(&folder);
        }
    }

    fn save_in(&self, folder: &Path) {
        let path = self.path(folder);
        let write = || -> std::result::Result<(), String> {
            path.parent().map(std::fs::create_dir_all).transpose().map_err(|error| error.to_string())?;
            let text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
            files::replace(&path, |file| file.write_all(&text)).map_err(|error| error.to_string())
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "the kernel times could not be stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::preset;
    use crate::matrix::generate;
    use crate::work::Work;

    const K: u64 = 8;

    /// The profile of an H200, its kernels, facts about a stencil, and the forms that would be timed on it.
    fn forms() -> (Profile, &'static [KernelId], Facts, Vec<Form>) {
        let matrix = generate::<f64>("stencil27,n=20", 1, 1 << 30).unwrap().matrix;
        let work = Work::spmm(&matrix.view(), K as usize).unwrap();
        let (rows, profile) = (work.all_facts(), preset("h200").unwrap().gpus[0].clone());
        let all = work.kernels(profile.processor);
        let kernels = kernels_to_time(&profile, all, &rows, K, Dtype::F64);
        assert_eq!(kernels.len(), KERNELS_TO_TIME);
        let forms = kernels.iter().flat_map(|&kernel| Form::all(kernel, Dtype::F64, K, profile.compiles));
        let forms = forms.filter(|form| rows.suit(form)).collect();
        (profile, all, rows, forms)
    }

    #[test]
    fn measured_forms_get_their_times_and_the_others_the_worst_ratio() {
        let (mut profile, kernels, rows, forms) = forms();
        let plain = profile.clone();
        let seconds = |form: &Form| rows.kernel_s(&plain, form, K, Dtype::F64);
        let timed: Vec<(Form, f64)> = forms
            .iter()
            .enumerate()
            .map(|(index, form)| (*form, (1 + index) as f64 * seconds(form)))
            .collect();
        correct_profile(&mut profile, kernels, &rows, K, Dtype::F64, &[]);
        assert_eq!(profile, plain, "without times nothing is corrected");
        correct_profile(&mut profile, kernels, &rows, K, Dtype::F64, &timed);
        for (form, measured_s) in &timed {
            let corrected_s = rows.kernel_s(&profile, form, K, Dtype::F64);
            assert!((corrected_s / measured_s - 1.0).abs() < 1e-9, "{form:?}");
        }
        let measured = |kernel: KernelId| forms.iter().any(|form| form.kernel == kernel);
        let other = kernels.iter().copied().find(|&kernel| !measured(kernel)).unwrap();
        let other = Form::all(other, Dtype::F64, K, plain.compiles)[0];
        let ratio = rows.kernel_s(&profile, &other, K, Dtype::F64) / seconds(&other);
        assert!((ratio - timed.len() as f64).abs() < 1e-9, "{ratio}");
        // A second correction starts from the model again.
        correct_profile(&mut profile, kernels, &rows, K, Dtype::F64, &timed);
        let (form, measured_s) = timed[0];
        assert!((rows.kernel_s(&profile, &form, K, Dtype::F64) / measured_s - 1.0).abs() < 1e-9);
    }

    #[test]
    fn stored_times_belong_to_one_product_on_one_device() {
        let folder = tempfile::tempdir().unwrap();
        let forms: Vec<(Form, f64)> = forms().3.into_iter().map(|form| (form, 0.25)).collect();
        let times = FormTimes {
            matrix: Fingerprint { kind: "spmm".into(), rows: 5, cols: 6, entries: 7, hash: "0011".into() },
            k: K,
            dtype: Dtype::F64,
            device: "h200".into(),
            threads: 0,
            forms: Vec::new(),
        };
        assert_eq!(times.load_from(folder.path()), None);
        FormTimes { forms: forms.clone(), ..times.clone() }.save_in(folder.path());
        assert_eq!(times.load_from(folder.path()), Some(forms));
        let others = [
            FormTimes { k: 9, ..times.clone() },
            FormTimes { dtype: Dtype::F32, ..times.clone() },
            FormTimes { threads: 2, ..times.clone() },
            FormTimes { device: "h100".into(), ..times.clone() },
            // The same row pointers with other columns give the same file name.
            FormTimes { matrix: Fingerprint { cols: 60, ..times.matrix.clone() }, ..times.clone() },
        ];
        for other in others {
            assert_eq!(other.load_from(folder.path()), None, "{other:?}");
        }
        std::fs::write(times.path(folder.path()), "{").unwrap();
        assert_eq!(times.load_from(folder.path()), None, "a damaged file is ignored");
    }
}
