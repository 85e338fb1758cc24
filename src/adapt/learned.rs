//! What was learned about a matrix, remembered by its fingerprint: a second process starts where the first ended.
//!
//! Only speed depends on it. A missing, damaged or foreign file is ignored.

use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::course::{Course, Processors};
use crate::files;
use crate::matrix::Dtype;
use crate::work::Fingerprint;

/// What identifies a product on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedKey {
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
pub struct Learned {
    /// The product.
    pub key: LearnedKey,
    /// Steady-state seconds by processors.
    pub seconds: Vec<(Processors, f64)>,
}

impl Learned {
    /// The remembered seconds with these processors.
    pub fn seconds(&self, processors: Processors) -> Option<f64> {
        self.seconds.iter().find(|(of, _)| *of == processors).map(|(_, seconds)| *seconds)
    }

    /// Updates the times by those that `course` measured. Returns whether any changed by more than a twentieth.
    pub fn update(&mut self, course: &Course) -> bool {
        let mut changed = false;
        for processors in [Processors::Cpu, Processors::Gpu, Processors::Both] {
            let Some(seconds) = course.alternative(processors).and_then(|one| one.steady_state_s()) else {
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
    pub fn load(key: LearnedKey) -> Self {
        let read = || {
            let found: Self = serde_json::from_slice(&std::fs::read(path(&key)?).ok()?).ok()?;
            let valid = found.seconds.iter().all(|(_, seconds)| seconds.is_finite() && *seconds > 0.0);
            (found.key == key && valid).then_some(found)
        };
        read().unwrap_or_else(|| Self { key: key.clone(), seconds: Vec::new() })
    }

    /// Stores it, if the folder is writable.
    pub fn save(&self) {
        let Some(path) = path(&self.key) else { return };
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

fn path(key: &LearnedKey) -> Option<PathBuf> {
    let hash = xxh3_64(&serde_json::to_vec(key).ok()?);
    Some(cache_folder()?.join("learned").join(format!("{hash:016x}.json")))
}

/// The user's folder for files that can be made again.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("rowloom"))
}
