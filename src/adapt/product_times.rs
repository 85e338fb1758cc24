//! What was learned about a matrix, remembered by its fingerprint: a second process starts where the first ended.
//!
//! Only speed depends on it. A missing, damaged or foreign file is ignored.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::processor_choice::{ProcessorChoice, Processors};
use crate::files;
use crate::matrix::Dtype;
use crate::work::Fingerprint;

/// What identifies a product on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProductKey {
    /// The matrix.
    pub matrix: Fingerprint,
    /// Columns of X.
    pub k: u64,
    /// Value type.
    pub dtype: Dtype,
    /// Threads of the CPU.
    pub threads: usize,
    /// Everything that was requested: devices, mode, kernel, transfer and so on.
    pub request: String,
    /// The version of the program.
    pub program: String,
}

/// The measured times of a product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProductTimes {
    /// The product.
    pub key: ProductKey,
    /// Steady-state seconds by processors.
    pub seconds: Vec<(Processors, f64)>,
}

impl ProductTimes {
    /// The remembered seconds with these processors.
    pub fn seconds(&self, processors: Processors) -> Option<f64> {
        self.seconds.iter().find(|(of, _)| *of == processors).map(|(_, seconds)| *seconds)
    }

    /// Updates the times by those that `choice` measured. Returns whether any changed by more than a twentieth.
    pub fn update(&mut self, choice: &ProcessorChoice) -> bool {
        let mut changed = false;
        for processors in [Processors::Cpu, Processors::Gpu, Processors::Both] {
            let Some(seconds) = choice.alternative(processors).and_then(|one| one.steady_state_s()) else {
                continue;
            };
            let before = self.seconds(processors);
            changed |= before.is_none_or(|before| (before / seconds - 1.0).abs() > 0.05);
            self.seconds.retain(|(of, _)| *of != processors);
            self.seconds.push((processors, seconds));
        }
        changed
    }

    /// What was remembered of the product `key`; nothing known otherwise.
    pub fn load(key: ProductKey) -> Self {
        Self::load_from(cache_folder().as_deref(), key)
    }

    fn load_from(folder: Option<&Path>, key: ProductKey) -> Self {
        let read = || {
            let found: Self =
                serde_json::from_slice(&files::read_regular(&path(folder?, &key)?).ok()?).ok()?;
            let valid = found.seconds.iter().all(|(_, seconds)| seconds.is_finite() && *seconds > 0.0);
            (found.key == key && valid).then_some(found)
        };
        read().unwrap_or_else(|| Self { key: key.clone(), seconds: Vec::new() })
    }

    /// Stores it, if the folder is writable.
    pub fn save(&self) {
        if let Some(folder) = cache_folder() {
            self.save_in(&folder);
        }
    }

    fn save_in(&self, folder: &Path) {
        let Some(path) = path(folder, &self.key) else { return };
        let write = || -> std::result::Result<(), String> {
            path.parent().map(std::fs::create_dir_all).transpose().map_err(|error| error.to_string())?;
            let text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
            files::replace(&path, |file| file.write_all(&text)).map_err(|error| error.to_string())
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "the measured times could not be stored");
        }
    }
}

fn path(folder: &Path, key: &ProductKey) -> Option<PathBuf> {
    let hash = xxh3_64(&serde_json::to_vec(key).ok()?);
    Some(folder.join("learned").join(format!("{hash:016x}.json")))
}

/// The user's folder for files that can be made again.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("rowloom"))
}

#[cfg(test)]
mod tests {
    use super::super::processor_choice::Alternative;
    use super::*;

    const CPU_S: f64 = 0.010;
    const GPU_S: f64 = 0.012;
    const OPENING_S: f64 = 0.3;

    fn key() -> ProductKey {
        ProductKey {
            matrix: Fingerprint { kind: "spmm".into(), rows: 5, cols: 6, entries: 7, hash: "0011".into() },
            k: 8,
            dtype: Dtype::F64,
            threads: 2,
            request: "auto".into(),
            program: "1.0".into(),
        }
    }

    /// A choice that measured the CPU and the GPUs, and found the CPU faster than predicted.
    fn measured() -> ProcessorChoice {
        let mut choice = ProcessorChoice::new(Some(1000));
        for (processors, seconds) in [(Processors::Gpu, GPU_S), (Processors::Cpu, CPU_S)] {
            choice.propose(Alternative::new(processors, 5.0 * seconds, 0.1, None));
            choice.change_to(processors);
            (0..5).for_each(|_| choice.record(seconds));
        }
        choice
    }

    #[test]
    fn a_second_process_starts_where_the_first_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = ProductTimes::load_from(Some(folder.path()), key());
        assert!(first.seconds.is_empty());
        assert!(first.update(&measured()));
        first.save_in(folder.path());
        let second = ProductTimes::load_from(Some(folder.path()), key());
        assert_eq!(second.seconds(Processors::Cpu), Some(CPU_S));
        assert_eq!(second.seconds(Processors::Gpu), Some(GPU_S));
        assert_eq!(second.seconds(Processors::Both), None);

        // The model predicts that the GPUs are ten times faster; the first process measured that they are slower.
        for (remembered, pays) in [(None, true), (second.seconds(Processors::Gpu), false)] {
            let cpu_s = remembered.and(second.seconds(Processors::Cpu));
            let mut choice = ProcessorChoice::new(Some(1000));
            choice.propose(Alternative::new(Processors::Cpu, CPU_S, 0.0, cpu_s));
            let predicted_s = 0.1 * CPU_S;
            assert_eq!(choice.may_pay(OPENING_S, remembered.unwrap_or(predicted_s)), pays);
            choice.propose(Alternative::new(Processors::Gpu, predicted_s, 0.1, remembered));
            assert_eq!(choice.next() == Some(Processors::Gpu), pays);
        }
    }

    #[test]
    fn times_are_stored_again_only_if_they_changed() {
        let mut times = ProductTimes { key: key(), seconds: Vec::new() };
        assert!(times.update(&measured()));
        assert!(!times.update(&measured()));
        times.seconds[0].1 *= 1.1;
        assert!(times.update(&measured()));
        assert!(!times.update(&ProcessorChoice::new(None)), "nothing was measured");
    }

    #[test]
    fn a_damaged_or_foreign_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let mut times = ProductTimes { key: key(), seconds: Vec::new() };
        times.update(&measured());
        times.save_in(folder.path());
        let load = |key: ProductKey| ProductTimes::load_from(Some(folder.path()), key);
        assert_eq!(load(key()), times);
        assert!(load(ProductKey { k: 9, ..key() }).seconds.is_empty());
        assert!(load(ProductKey { program: "1.1".into(), ..key() }).seconds.is_empty());

        let path = path(folder.path(), &key()).unwrap();
        let intact = std::fs::read_to_string(&path).unwrap();
        let number = serde_json::to_string(&CPU_S).unwrap();
        let damaged = [
            intact[..intact.len() / 2].to_owned(),
            String::new(),
            "[]".into(),
            intact.replace(&number, "-1.0"),
            intact.replace(&number, "0.0"),
            intact.replace("\"0011\"", "\"0012\""),
        ];
        for text in damaged {
            assert_ne!(text, intact);
            std::fs::write(&path, &text).unwrap();
            assert!(load(key()).seconds.is_empty(), "{text}");
        }
        assert!(ProductTimes::load_from(None, key()).seconds.is_empty(), "without a folder nothing is known");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        ProductTimes { key: key(), seconds: vec![(Processors::Cpu, CPU_S)] }.save_in(&file);
        assert!(ProductTimes::load_from(Some(&file), key()).seconds.is_empty());
    }
}
