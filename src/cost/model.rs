//! What was measured of a machine, as a file: constants of its kernels and rates of its memory. `rowloom calibrate` writes it,
//! planning reads it.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::kernels::are_sound;
use super::profile::{HostRates, Profile};
use super::shape::SHAPES;
use crate::error::{Error, Result};
use crate::files;
use crate::suggest::did_you_mean;
use crate::toml_file::{TomlError, TomlFile};

/// By how much a shape may be slower on a machine than on another with the same card.
const FACTORS: RangeInclusive<f64> = 0.01..=100.0;

/// What was measured of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The host's memory, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRates>,
    /// Its devices.
    #[serde(default, rename = "device")]
    pub devices: Vec<DeviceModel>,
}

/// What was measured of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    /// `cpu`, `emulated`, or the name of a card's profile; the same for all cards of one kind.
    pub name: String,
    /// Threads that a CPU was measured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Weights of its kernels' shapes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, Vec<f64>>,
    /// For a card whose weights are built in: by how much shapes are slower on this one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, f64>,
}

impl Model {
    /// Where a user's model lies; none where there is no home.
    pub fn of_user() -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let configs = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
        configs.map(|configs| configs.join("rowloom").join("model.toml"))
    }

    /// The model to use and its file: as named, none, or where that is `auto` the user's own if there is one.
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
            let advice = "`rowloom calibrate` writes such files; --model none plans without one";
            Error::input(place, format!("{reason}; {advice}"))
        })?;
        for (number, device) in model.devices.iter().enumerate() {
            let weights =
                device.weights.iter().map(|(shape, weights)| ("weights", shape, are_sound(weights)));
            let factors =
                device.factors.iter().map(|(shape, factor)| ("factors", shape, FACTORS.contains(factor)));
            for (key, shape, is_sound) in weights.chain(factors) {
                let reason = if !SHAPES.contains(&shape.as_str()) {
                    format!("unknown kernel shape '{shape}'{}", did_you_mean(shape, SHAPES))
                } else if !is_sound {
                    format!("the {key} of {shape} are outside their range")
                } else {
                    continue;
                };
                let place = file.place_of(&["device", &number.to_string(), key, shape]);
                return Err(Error::input(place, format!("{reason}; run `rowloom calibrate` again")));
            }
        }
        Ok(model)
    }

    /// Writes the model so that the file is there whole or as it was before.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| Error::Internal(format!("the model cannot be written as TOML: {error}")))?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|source| Error::write(folder, source))?;
        }
        files::replace(path, |file| {
            writeln!(file, "# Measured by rowloom calibrate; --model none leaves it out.\n")?;
            file.write_all(text.as_bytes())
        })
    }

    /// Tells `profile`, of a CPU with so many threads or of a card, what was measured of it; whether anything was.
    pub fn apply(&self, profile: &mut Profile, threads: u32) -> bool {
        let is_it = |device: &&DeviceModel| {
            device.name == profile.name && device.threads.is_none_or(|measured| measured == threads)
        };
        let Some(device) = self.devices.iter().find(is_it) else { return false };
        profile
            .weights
            .extend(device.weights.iter().map(|(shape, weights)| (shape.clone(), weights.clone())));
        profile.factors.clone_from(&device.factors);
        // What weights that are built in left over says nothing of others.
        if !device.weights.is_empty() {
            profile.cases = None;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{REGRESSORS, cpu_profile, preset};

    fn model() -> Model {
        let weights = [("csr_runs_64".to_string(), vec![0.5; REGRESSORS])].into();
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
    fn a_model_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("model.toml");
        model().save(&path).unwrap();
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
    fn factors_of_a_known_card_leave_what_was_measured_of_it_before() {
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
    fn a_model_is_for_its_device_and_threads() {
        let mut card = preset("h200").unwrap().gpus.remove(0);
        card.weights.clear();
        assert!(model().apply(&mut card, 16) && !card.weights.is_empty());
        assert_eq!(card.cases, None, "what other weights left over");
        let mut cpu = cpu_profile(2, 1 << 30).unwrap();
        assert!(model().apply(&mut cpu, 2) && !model().apply(&mut cpu, 16));
    }
}
