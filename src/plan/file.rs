//! Plans in files: JSON, checked when read.

use std::io::Write;
use std::path::Path;

use super::data::{PLAN_VERSION, Plan, XPlan};
use crate::error::{Error, Place, Result};
use crate::files;
use crate::matrix::Dtype;
use crate::work::{ChunkRows, Fingerprint};

/// What is read of a plan before its version is known.
#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

impl Plan {
    /// Writes the plan so that the file is there whole or as it was before.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::Internal(format!("the plan cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        files::replace(path, |file| file.write_all(&text))
    }

    /// Reads a plan; what comes back is consistent in itself, but may be of another matrix: see [`Plan::check_fits`].
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(|source| Error::read(path, source))?;
        let damaged = |error: serde_json::Error| {
            let place = Place::line(path.display().to_string(), error.line() as u64);
            Error::input(place, format!("this is no plan: {error}; make it again with rowloom plan --save"))
        };
        let Versioned { version } = serde_json::from_slice(&text).map_err(damaged)?;
        if version != PLAN_VERSION {
            let reason = format!(
                "a plan of version {version}, but this rowloom knows version {PLAN_VERSION}; make it again"
            );
            return Err(Error::input(Place::file(path), reason));
        }
        let plan: Self = serde_json::from_slice(&text).map_err(damaged)?;
        plan.check().map_err(|what| {
            let reason =
                format!("the plan contradicts itself: {what}; make it again with rowloom plan --save");
            Error::input(Place::file(path), reason)
        })?;
        Ok(plan)
    }

    /// An error unless the plan was made for this product.
    pub fn check_fits(&self, matrix: &Fingerprint, k: u64, dtype: Dtype) -> Result<()> {
        let made_for = |what: &str, planned: String, given: String| {
            let advice = "make a plan for it, or leave --plan out";
            Err(Error::Usage(format!("the plan was made for {what} {planned}, not {given}; {advice}")))
        };
        if self.matrix != *matrix {
            let words = |print: &Fingerprint| {
                format!(
                    "{} x {} with {} nonzeros ({})",
                    print.rows, print.cols, print.nnz, print.row_pointers
                )
            };
            return made_for("a matrix of", words(&self.matrix), words(matrix));
        }
        if self.k != k {
            return made_for("K =", self.k.to_string(), k.to_string());
        }
        if self.dtype != dtype {
            return made_for("values of", self.dtype.to_string(), dtype.to_string());
        }
        Ok(())
    }

    /// Whether the parts of the plan belong together: everything that later steps rely on.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        let devices = self.devices.len();
        if self.devices.first().is_none_or(|host| host.profile.link.is_some()) {
            return Err("the first device is not the host".into());
        }
        for device in &self.devices {
            if let XPlan::Columns { first, end } = device.x
                && (first > end || end > self.matrix.cols)
            {
                return Err(format!("{} is sent rows {first}..{end} of X", device.name));
            }
        }
        let exists = |device: &u32| self.devices.get(*device as usize).is_some_and(|device| device.computes);
        let (mut next_row, mut next_segment, mut nnz) = (0, 0, 0u64);
        for (index, chunk) in self.chunks.iter().enumerate() {
            if !exists(&chunk.home) || !chunk.also.iter().all(exists) {
                return Err(format!("chunk {index} names a device that does not compute, of {devices}"));
            }
            let follows = match chunk.rows {
                ChunkRows::Rows { begin, end } => {
                    let follows = (begin, 0) == (next_row, next_segment) && end > begin;
                    (next_row, next_segment) = (end, 0);
                    follows
                }
                ChunkRows::Segments { row, begin, end } => {
                    let split = self.split_rows.binary_search_by_key(&(row as u64), |split| split.row);
                    let split = split.ok().and_then(|found| self.split_rows.get(found));
                    let last = split.map_or(0, |split| split.segments as usize);
                    let follows = (row, begin) == (next_row, next_segment) && end > begin && end <= last;
                    (next_row, next_segment) = if end == last { (row + 1, 0) } else { (row, end) };
                    follows && split.is_some_and(|split| split.chunks.binary_search(&(index as u32)).is_ok())
                }
            };
            if !follows {
                return Err(format!("chunk {index} does not follow the one before"));
            }
            nnz = nnz.saturating_add(chunk.nnz);
        }
        if (next_row as u64, next_segment, nnz) != (self.matrix.rows, 0, self.matrix.nnz) {
            return Err("the chunks do not cover the matrix".into());
        }
        let cut: usize = self.split_rows.iter().map(|split| split.chunks.len()).sum();
        let segments =
            self.chunks.iter().filter(|chunk| matches!(chunk.rows, ChunkRows::Segments { .. })).count();
        if cut != segments {
            return Err("cut rows and their chunks do not belong together".into());
        }
        Ok(())
    }
}
