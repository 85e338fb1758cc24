//! `--tune`: which kernels are worth timing on a matrix, how the times correct a profile, and where they are stored.

use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::learned::cache_folder;
use crate::cost::{Correction, Form, Profile, eligible};
use crate::files;
use crate::kernel::KernelId;
use crate::matrix::Dtype;
use crate::work::{Features, Fingerprint};

/// Number of kernels to time, with all forms of each.
pub const KERNELS_TO_TIME: usize = 3;

/// The measured times of one product on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
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

/// The kernels that are predicted fastest on rows with these features.
pub fn kernels_to_time(profile: &Profile, features: &Features, k: u64, dtype: Dtype) -> Vec<KernelId> {
    let fastest_s = |kernel: KernelId| {
        let forms = Form::all(kernel, dtype, k, profile.compiles);
        let usable = forms.into_iter().filter(|form| form.supports(features));
        usable.map(|form| profile.form_s(&form, features, k, dtype)).fold(f64::INFINITY, f64::min)
    };
    let mut kernels: Vec<(KernelId, f64)> =
        eligible(profile.processor).iter().map(|&kernel| (kernel, fastest_s(kernel))).collect();
    kernels.retain(|(_, seconds)| seconds.is_finite());
    kernels.sort_by(|a, b| a.1.total_cmp(&b.1));
    kernels.into_iter().map(|(kernel, _)| kernel).take(KERNELS_TO_TIME).collect()
}

/// Measured forms get their measured times; the other forms get the worst ratio of measured to predicted time.
pub fn correct_profile(
    profile: &mut Profile,
    features: &Features,
    k: u64,
    dtype: Dtype,
    forms: &[(Form, f64)],
) {
    let plain = Profile { corrections: Vec::new(), ..profile.clone() };
    let factor = |form: &Form, seconds: f64| seconds / plain.form_s(form, features, k, dtype).max(1e-12);
    let worst = forms.iter().map(|(form, seconds)| factor(form, *seconds)).fold(1.0, f64::max);
    if forms.is_empty() {
        return;
    }
    let own = forms.iter().map(|(form, seconds)| Correction {
        kernel: form.kernel,
        variant: Some(form.variant),
        factor: factor(form, *seconds),
    });
    let others =
        eligible(plain.processor).iter().map(|&kernel| Correction { kernel, variant: None, factor: worst });
    profile.corrections = own.chain(others).collect();
}

impl Tuned {
    /// The path of its file.
    fn path(&self) -> Option<PathBuf> {
        let Self { matrix, k, dtype, device, threads, .. } = self;
        let name = format!("{}-{k}-{}-{device}-{threads}.json", matrix.row_pointers, dtype.name());
        Some(cache_folder()?.join("tuned").join(name))
    }

    /// The stored times of the same product on the same device.
    pub fn load(&self) -> Option<Vec<(Form, f64)>> {
        let text = std::fs::read(self.path()?).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        let same = Self { forms: found.forms.clone(), ..self.clone() } == found;
        same.then_some(found.forms)
    }

    /// Stores the times, if the folder is writable.
    pub fn save(&self) {
        let written = self.path().map(|path| {
            path.parent().map(std::fs::create_dir_all).transpose().map_err(|error| error.to_string())?;
            let text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
            files::replace(&path, |file| file.write_all(&text)).map_err(|error| error.to_string())
        });
        if let Some(Err(error)) = written {
            tracing::debug!(%error, "the kernel times could not be stored");
        }
    }
}
