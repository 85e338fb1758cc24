//! The calibrated cost model of a machine, as a file: weights of its kernels and rates of its memory. `rowloom calibrate` writes
//! it, the planner reads it.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::profile::{HostRates, Profile, VALID_RATES};
use super::shapes::{SHAPES, are_valid};
use crate::error::{Advice, Error, Result};
use crate::files;
use crate::suggest::did_you_mean;
use crate::toml_file::{TomlError, TomlFile};

/// Valid factors between two machines with the same card.
const VALID_FACTORS: RangeInclusive<f64> = 0.01..=100.0;

/// The first line of a model, by which commands recognise the file.
const MARK: &str = "# Measured by rowloom calibrate";

/// The calibrated cost model of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Rates of the host's memory, where measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRates>,
    /// The calibrated devices.
    #[serde(default, rename = "device")]
    pub devices: Vec<DeviceModel>,
}

/// The calibrated cost model of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// `cpu`, `emulated`, or the name of a card's profile, which all cards of one kind share.
    pub name: String,
    /// The thread count that a CPU was measured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Weights by kernel shape.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, Vec<f64>>,
    /// For a card with compiled-in weights: the factor by which each shape is slower on this machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, f64>,
}

impl Model {
    /// Adds a device, or replaces the one of the same name and number of threads.
    pub fn replace_device(&mut self, device: DeviceModel) {
        self.devices.retain(|known| (&known.name, known.threads) != (&device.name, device.threads));
        self.devices.push(device);
    }

    /// The path of the user's model; `None` without a home folder.
    pub fn of_user() -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let configs = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
        configs.map(|configs| configs.join("rowloom").join("model.toml"))
    }

    /// The model that `--model` names and its path: a file, `none`, or for `auto` the user's own if there is one.
    pub fn named(name: &str) -> Result<Option<(PathBuf, Self)>> {
        let path = match name {
            "none" => None,
            "auto" => Self::of_user().filter(|path| path.exists()),
            path => Some(path.into()),
        };
        path.map(|path| Self::load(&path).map(|model| (path, model))).transpose()
    }

    /// Reads a model. Errors name the line, and the nearest name where a key or a kernel shape is unknown.
    pub fn load(path: &Path) -> Result<Self> {
        let file = TomlFile::read(path)?;
        let model: Self = file.parse().map_err(|TomlError { place, reason, .. }| {
            Error::input(place, reason).advise([Advice::NewModel, Advice::NoModel])
        })?;
        if let Some(host) = model.host.as_ref().filter(|host| !host.is_valid()) {
            let is_valid = |rate: f64| VALID_RATES.contains(&rate);
            let key = match (is_valid(host.memory_gb_per_s), is_valid(host.copy_gb_per_s)) {
                (false, _) => "memory_gb_per_s",
                (_, false) => "copy_gb_per_s",
                _ => "cores",
            };
            let reason = format!("the host's {key} is outside its range");
            let place = file.place_of(&["host", key]);
            return Err(Error::input(place, reason).advise([Advice::NewModel, Advice::NoModel]));
        }
        for (number, device) in model.devices.iter().enumerate() {
            let weights =
                device.weights.iter().map(|(shape, weights)| ("weights", shape, are_valid(weights)));
            let factors = device
                .factors
                .iter()
                .map(|(shape, factor)| ("factors", shape, VALID_FACTORS.contains(factor)));
            for (key, shape, is_valid) in weights.chain(factors) {
                let reason = if !SHAPES.contains(&shape.as_str()) {
                    format!("unknown kernel shape '{shape}'{}", did_you_mean(shape, SHAPES))
                } else if !is_valid {
                    format!("the {key} of {shape} are outside their range")
                } else {
                    continue;
                };
                let place = file.place_of(&["device", &number.to_string(), key, shape]);
                return Err(Error::input(place, reason).advise([Advice::NewModel, Advice::NoModel]));
            }
        }
        Ok(model)
    }

    /// Writes the model atomically, without measurements that [`Self::load`] would refuse. Returns the names of those left out.
    pub fn save(&self, path: &Path) -> Result<Vec<String>> {
        let (model, left_out) = self.valid();
        let text = toml::to_string(&model)
            .map_err(|error| Error::Internal(format!("the model cannot be written as TOML: {error}")))?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|source| Error::write(folder, source))?;
        }
        files::replace(path, |file| {
            writeln!(file, "{MARK}\n")?;
            file.write_all(text.as_bytes())
        })?;
        Ok(left_out)
    }

    /// The part of the model that is in its valid ranges, and the names of the rest.
    fn valid(&self) -> (Self, Vec<String>) {
        let (mut model, mut left_out) = (self.clone(), Vec::new());
        if model.host.as_ref().is_some_and(|host| !host.is_valid()) {
            model.host = None;
            left_out.push("rates of the host".into());
        }
        for device in &mut model.devices {
            let name = device.name.clone();
            device.weights.retain(|shape, weights| {
                are_valid(weights) || {
                    left_out.push(format!("weights of {shape} on {name}"));
                    false
                }
            });
            device.factors.retain(|shape, factor| {
                VALID_FACTORS.contains(factor) || {
                    left_out.push(format!("factor of {shape} on {name}"));
                    false
                }
            });
        }
        (model, left_out)
    }

    /// Applies the calibration to `profile`, of a card or of a CPU with `threads` threads. Returns whether there was one.
    pub fn apply(&self, profile: &mut Profile, threads: u32) -> bool {
        let is_it = |device: &&DeviceModel| {
            device.name == profile.name && device.threads.is_none_or(|measured| measured == threads)
        };
        let Some(device) = self.devices.iter().find(is_it) else { return false };
        profile
            .weights
            .extend(device.weights.iter().map(|(shape, weights)| (shape.clone(), weights.clone())));
        profile.factors.clone_from(&device.factors);
        // The measured cases are residuals of the compiled-in weights, not of these.
        if !device.weights.is_empty() {
            profile.cases = None;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{WEIGHTS_PER_SHAPE, cpu_profile, preset};

    fn model() -> Model {
        let weights = [("csr_runs_64".to_string(), vec![0.5; WEIGHTS_PER_SHAPE])].into();
        let factors = BTreeMap::new();
        let cpu = DeviceModel {
            name: "cpu".into(),
            threads: Some(2),
            weights: BTreeMap::new(),
            factors: factors.clone(),
        };
        let gpu = DeviceModel { name: "h200".into(), threads: None, weights, factors };
        Model { host: None, devices: vec![cpu, gpu] }
    }

    #[test]
    fn a_saved_model_loads_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("model.toml");
        model().save(&path).unwrap();
        assert_eq!(Model::load(&path).unwrap(), model());
    }

    #[test]
    fn rates_out_of_range_are_refused_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.toml");
        for wrong in ["0", "0.0", "-5.0", "nan", "inf", "1e300"] {
            for (memory, copy) in [(wrong, "10.0"), ("10.0", wrong)] {
                std::fs::write(
                    &path,
                    format!("[host]\ncores = 2\nmemory_gb_per_s = {memory}\ncopy_gb_per_s = {copy}\n"),
                )
                .unwrap();
                assert_eq!(Model::load(&path).unwrap_err().exit_code(), 3, "{memory} {copy}");
            }
        }
        let mut measured = model();
        measured.host = Some(HostRates { cores: 2, memory_gb_per_s: f64::NAN, copy_gb_per_s: 10.0 });
        measured.devices[1].weights.insert("sell".into(), vec![f64::INFINITY; WEIGHTS_PER_SHAPE]);
        measured.devices[1].factors.insert("hybrid".into(), 0.0);
        assert_eq!(measured.save(&path).unwrap().len(), 3);
        assert_eq!(Model::load(&path).unwrap(), model());
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.toml");
        std::fs::write(&path, "[[device]]\nname = \"cpu\"\nthread = 2\n").unwrap();
        let error = Model::load(&path).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let words = error.to_string();
        assert!(words.contains("did you mean 'threads'") && words.contains("model.toml:3"), "{words}");
        std::fs::write(&path, "[[device]]\nname = \"cpu\"\n[device.weights]\ncpu_crs = [1.0]\n").unwrap();
        let words = Model::load(&path).unwrap_err().to_string();
        assert!(words.contains("did you mean 'cpu_csr'") && words.contains("model.toml:4"), "{words}");
    }

    #[test]
    fn factors_of_a_known_card_keep_its_weights_and_cases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.toml");
        std::fs::write(&path, "[[device]]\nname = \"h200\"\n[device.factors]\nsell = 1.25\n").unwrap();
        let (before, mut card) =
            (preset("h200").unwrap().gpus.remove(0), preset("h200").unwrap().gpus.remove(0));
        assert!(Model::load(&path).unwrap().apply(&mut card, 16));
        assert_eq!((&card.weights, &card.cases), (&before.weights, &before.cases));
        assert_eq!(card.factors["sell"], 1.25);
        for wrong in ["sell = -1.0", "sell = nan", "sel = 1.0"] {
            std::fs::write(&path, format!("[[device]]\nname = \"h200\"\n[device.factors]\n{wrong}\n"))
                .unwrap();
            assert_eq!(Model::load(&path).unwrap_err().exit_code(), 3, "{wrong}");
        }
    }

    #[test]
    fn a_model_applies_to_its_device_and_thread_count() {
        let mut card = preset("h200").unwrap().gpus.remove(0);
        card.weights.clear();
        assert!(model().apply(&mut card, 16) && !card.weights.is_empty());
        assert_eq!(card.cases, None, "they are residuals of other weights");
        let mut cpu = cpu_profile(2, 1 << 30).unwrap();
        assert!(model().apply(&mut cpu, 2) && !model().apply(&mut cpu, 16));
    }
}
