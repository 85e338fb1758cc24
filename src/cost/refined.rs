//! Corrections learned from runs after calibration: for each kernel the ratio of measured to predicted time. Stored beside the model.
//! Predictions use them; the values of Y never depend on them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::profile::Correction;
use super::profile::Profile;
use crate::error::{Error, Result};
use crate::files;
use crate::kernel::{KernelId, Processor};

/// Learning rate: the exponent of a run's ratio in the update of the factor.
const LEARNING_RATE: f64 = 0.3;
/// Factors are clamped to this and its inverse.
const MAX_FACTOR: f64 = 4.0;

/// Learned factors of all devices.
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
    /// Its path: `model.refined.toml` beside `model.toml`.
    pub fn beside(model: &Path) -> PathBuf {
        model.with_extension("refined.toml")
    }

    /// Loads the factors; none where the file is missing or damaged, since runs learn them again. A factor that no run can have
    /// learned is damage.
    pub fn load(path: &Path) -> Self {
        let text = files::read_text(path).unwrap_or_default();
        let found: Self = toml::from_str(&text).unwrap_or_default();
        let mut factors = found.devices.iter().flat_map(|device| device.kernels.values());
        if factors.all(|factor| (1.0 / MAX_FACTOR..=MAX_FACTOR).contains(factor)) {
            found
        } else {
            Self::default()
        }
    }

    /// Writes the factors atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| Error::Internal(format!("factors cannot be written as TOML: {error}")))?;
        files::replace(path, |file| {
            writeln!(file, "# Factors that runs learned since the model beside this file was calibrated.\n")?;
            file.write_all(text.as_bytes())
        })
    }

    /// Applies the learned factors to `profile`, of a card or of a CPU with `threads` threads.
    pub fn apply(&self, profile: &mut Profile, threads: u32) {
        let key = key(profile, threads);
        let Some(device) = self.devices.iter().find(|device| (device.name.as_str(), device.threads) == key)
        else {
            return;
        };
        let correction = |(&kernel, &factor)| Correction { kernel, variant: None, factor };
        profile.corrections = device.kernels.iter().map(correction).collect();
    }

    /// Learns that a kernel took `ratio` times the time that `profile` predicted.
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
            *factor = (*factor * ratio.powf(LEARNING_RATE)).clamp(1.0 / MAX_FACTOR, MAX_FACTOR);
        }
    }
}

/// The name and thread count that identify a device.
fn key(profile: &Profile, threads: u32) -> (&str, Option<u32>) {
    (&profile.name, (profile.processor == Processor::Cpu).then_some(threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Form, Load, cpu_profile};

    #[test]
    fn predictions_converge_to_measured_times() {
        let (mut refined, mut profile) = (Refined::default(), cpu_profile(2, 1 << 30).unwrap());
        let form = Form::cpu(KernelId::CpuCsr);
        let load = Load { rows: 1000, entries: 9000, k: 8, ..Load::default() };
        let predicted = |profile: &Profile| profile.kernel_s(&load) * profile.correction(&form);
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
        assert!(profile.corrections[0].factor <= MAX_FACTOR);
    }

    #[test]
    fn factors_are_saved_and_a_damaged_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = Refined::beside(&folder.path().join("model.toml"));
        assert_eq!(Refined::load(&path), Refined::default());
        let mut refined = Refined::default();
        refined.learn(&cpu_profile(2, 1 << 30).unwrap(), 2, KernelId::CpuCsr, 1.5);
        refined.save(&path).unwrap();
        assert_eq!(Refined::load(&path), refined);
        let text = std::fs::read_to_string(&path).unwrap();
        let number = text.split("= ").last().unwrap().trim();
        for wrong in ["0.0", "-5.0", "nan", "inf", "1e9"] {
            std::fs::write(&path, text.replace(number, wrong)).unwrap();
            assert_eq!(Refined::load(&path), Refined::default(), "{wrong}");
        }
        std::fs::write(&path, "no such thing").unwrap();
        assert_eq!(Refined::load(&path), Refined::default());
    }
}
