//! Corrections learned from runs after calibration: for each device the ratio of measured to predicted kernel time. Stored beside the
//! model. Predictions use them; the values of Y never depend on them.
//!
//! A device has one factor for all of its kernels. Kernels of a product run beside copies, which slows them down. A factor of its own would
//! make a kernel that was run look slower than all that were not, and the next plan would choose one of those.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::profile::Correction;
use super::profile::Profile;
use crate::error::{Error, Result};
use crate::files;
use crate::kernel::{KindOfWork, Processor, kernels_of};

/// Learning rate: the exponent of a run's ratio in the update of the factor.
const LEARNING_RATE: f64 = 0.3;
/// Factors are clamped to this and its inverse.
const MAX_FACTOR: f64 = 4.0;

/// ProductTimes factors of all devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedFactors {
    #[serde(default, rename = "device")]
    devices: Vec<DeviceFactor>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFactor {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    factor: f64,
}

impl LearnedFactors {
    /// Its path: `model.refined.toml` beside `model.toml`.
    pub fn beside(model: &Path) -> PathBuf {
        model.with_extension("refined.toml")
    }

    /// Loads the factors; none where the file is missing or damaged, since runs learn them again. A factor that no run can have
    /// learned is damage.
    pub fn load(path: &Path) -> Self {
        let text = files::read_text(path).unwrap_or_default();
        let found: Self = toml::from_str(&text).unwrap_or_default();
        let mut factors = found.devices.iter().map(|device| device.factor);
        if factors.all(|factor| (1.0 / MAX_FACTOR..=MAX_FACTOR).contains(&factor)) {
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

    /// Applies the learned factor to all kernels of `profile`, of a card or of a CPU with `threads` threads.
    pub fn apply(&self, profile: &mut Profile, threads: u32) {
        let key = key(profile, threads);
        let Some(device) = self.devices.iter().find(|device| (device.name.as_str(), device.threads) == key)
        else {
            return;
        };
        let kernels = kernels_of(KindOfWork::Spmm, profile.processor);
        profile.corrections = kernels
            .map(|info| Correction { kernel: info.id, variant: None, factor: device.factor })
            .collect();
    }

    /// Learns that kernels took `ratio` times the time that `profile` predicted.
    pub fn learn(&mut self, profile: &Profile, threads: u32, ratio: f64) {
        if !ratio.is_finite() || ratio <= 0.0 {
            return;
        }
        let (name, threads) = key(profile, threads);
        let known =
            self.devices.iter().position(|device| (device.name.as_str(), device.threads) == (name, threads));
        let place = known.unwrap_or_else(|| {
            self.devices.push(DeviceFactor { name: name.into(), threads, factor: 1.0 });
            self.devices.len() - 1
        });
        if let Some(device) = self.devices.get_mut(place) {
            let factor = device.factor * ratio.powf(LEARNING_RATE);
            device.factor = factor.clamp(1.0 / MAX_FACTOR, MAX_FACTOR);
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
    use crate::cost::{Form, Load, cpu_profile, preset};
    use crate::kernel::KernelId;

    #[test]
    fn predictions_converge_to_measured_times() {
        let (mut factors, mut profile) = (LearnedFactors::default(), cpu_profile(2, 1 << 30).unwrap());
        let form = Form::cpu(KernelId::CpuCsr);
        let load = Load { rows: 1000, entries: 9000, k: 8, ..Load::default() };
        let predicted = |profile: &Profile| profile.kernel_s(&load) * profile.correction(&form);
        let truth = 2.0 * predicted(&profile);
        for _ in 0..30 {
            factors.learn(&profile, 2, truth / predicted(&profile));
            factors.apply(&mut profile, 2);
        }
        assert!((predicted(&profile) / truth - 1.0).abs() < 0.01);
        let mut other = cpu_profile(4, 1 << 30).unwrap();
        factors.apply(&mut other, 4);
        assert!(other.corrections.is_empty(), "another number of threads is another device");
        factors.learn(&profile, 2, f64::NAN);
        factors.learn(&profile, 2, 1e9);
        factors.apply(&mut profile, 2);
        assert!(profile.corrections[0].factor <= MAX_FACTOR);
    }

    #[test]
    fn what_a_run_learns_does_not_change_which_kernel_is_fastest() {
        let mut profile = preset("h200").unwrap().gpus.remove(0);
        let forms = [KernelId::Hybrid, KernelId::RowGroups, KernelId::CsrRuns].map(Form::cpu);
        let mut factors = LearnedFactors::default();
        factors.learn(&profile, 1, 1.5);
        factors.apply(&mut profile, 1);
        let factors = forms.map(|form| profile.correction(&form));
        assert!(factors[0] > 1.1 && factors.iter().all(|factor| *factor == factors[0]), "{factors:?}");
    }

    #[test]
    fn factors_are_saved_and_a_damaged_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = LearnedFactors::beside(&folder.path().join("model.toml"));
        assert_eq!(LearnedFactors::load(&path), LearnedFactors::default());
        let mut factors = LearnedFactors::default();
        factors.learn(&cpu_profile(2, 1 << 30).unwrap(), 2, 1.5);
        factors.save(&path).unwrap();
        assert_eq!(LearnedFactors::load(&path), factors);
        let text = std::fs::read_to_string(&path).unwrap();
        let number = text.split("= ").last().unwrap().trim();
        for wrong in ["0.0", "-5.0", "nan", "inf", "1e9"] {
            std::fs::write(&path, text.replace(number, wrong)).unwrap();
            assert_eq!(LearnedFactors::load(&path), LearnedFactors::default(), "{wrong}");
        }
        std::fs::write(&path, "no such thing").unwrap();
        assert_eq!(LearnedFactors::load(&path), LearnedFactors::default());
    }
}
