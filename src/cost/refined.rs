//! What runs have told of a machine since it was measured: by how much each kernel is slower or faster than its constants say.
//! Kept beside the model; predictions follow it, results never do.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::profile::Correction;
use super::profile::Profile;
use crate::error::{Error, Result};
use crate::files;
use crate::kernel::{KernelId, Processor};

/// How much of what a run tells is believed at once.
const WEIGHT: f64 = 0.3;
/// Kernels are not taken to be off by more than this factor.
const MOST: f64 = 4.0;

/// Factors of all devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refined {
    #[serde(default, rename = "device")]
    devices: Vec<RefinedDevice>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RefinedDevice {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    #[serde(default)]
    kernels: BTreeMap<KernelId, f64>,
}

impl Refined {
    /// Where it lies: `model.refined.toml` beside `model.toml`.
    pub fn beside(model: &Path) -> PathBuf {
        model.with_extension("refined.toml")
    }

    /// What was kept; nothing where there is nothing, or nothing that can be read: it comes again.
    pub fn load(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }

    /// Keeps it.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| Error::Internal(format!("factors cannot be written as TOML: {error}")))?;
        files::replace(path, |file| {
            writeln!(file, "# What runs have told since the model beside this was measured.\n")?;
            file.write_all(text.as_bytes())
        })
    }

    /// Tells `profile`, of a CPU with so many threads or of a card, what runs have told of it.
    pub fn apply(&self, profile: &mut Profile, threads: u32) {
        let key = key(profile, threads);
        let Some(device) = self.devices.iter().find(|device| (device.name.as_str(), device.threads) == key)
        else {
            return;
        };
        let correction = |(&kernel, &factor)| Correction { kernel, variant: None, factor };
        profile.corrections = device.kernels.iter().map(correction).collect();
    }

    /// Learns that a kernel took `ratio` times what `profile`, as it was planned with, predicted.
    pub fn learn(&mut self, profile: &Profile, threads: u32, kernel: KernelId, ratio: f64) {
        if !ratio.is_finite() || ratio <= 0.0 {
            return;
        }
        let (name, threads) = key(profile, threads);
        let known =
            self.devices.iter().position(|device| (device.name.as_str(), device.threads) == (name, threads));
        let place = known.unwrap_or_else(|| {
            self.devices.push(RefinedDevice { name: name.into(), threads, kernels: BTreeMap::new() });
            self.devices.len() - 1
        });
        if let Some(device) = self.devices.get_mut(place) {
            let factor = device.kernels.entry(kernel).or_insert(1.0);
            *factor = (*factor * ratio.powf(WEIGHT)).clamp(1.0 / MOST, MOST);
        }
    }
}

/// What tells devices apart.
fn key(profile: &Profile, threads: u32) -> (&str, Option<u32>) {
    (&profile.name, (profile.processor == Processor::Cpu).then_some(threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Form, cpu_profile};
    use crate::matrix::Dtype;
    use crate::work::Features;

    #[test]
    fn predictions_come_to_what_runs_take() {
        let (mut refined, mut profile) = (Refined::default(), cpu_profile(2, 1 << 30).unwrap());
        let form = Form::cpu(KernelId::CpuCsr);
        let features = Features { rows: 1000, nnz: 9000, mean: 9.0, max: 9, ..Features::default() };
        let predicted = |profile: &Profile| profile.form_s(&form, &features, 8, Dtype::F64);
        let truth = 2.0 * predicted(&profile);
        for _ in 0..30 {
            refined.learn(&profile, 2, form.kernel, truth / predicted(&profile));
            refined.apply(&mut profile, 2);
        }
        assert!((predicted(&profile) / truth - 1.0).abs() < 0.01);
        let mut other = cpu_profile(4, 1 << 30).unwrap();
        refined.apply(&mut other, 4);
        assert!(other.corrections.is_empty(), "another number of threads is another device");
        refined.learn(&profile, 2, form.kernel, f64::NAN);
        refined.learn(&profile, 2, form.kernel, 1e9);
        refined.apply(&mut profile, 2);
        assert!(profile.corrections[0].factor <= MOST);
    }

    #[test]
    fn what_was_learnt_is_kept_and_what_is_damaged_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = Refined::beside(&folder.path().join("model.toml"));
        assert_eq!(Refined::load(&path), Refined::default());
        let mut refined = Refined::default();
        refined.learn(&cpu_profile(2, 1 << 30).unwrap(), 2, KernelId::CpuCsr, 1.5);
        refined.save(&path).unwrap();
        assert_eq!(Refined::load(&path), refined);
        std::fs::write(&path, "no such thing").unwrap();
        assert_eq!(Refined::load(&path), Refined::default());
    }
}
