//! Plans in files: JSON, checked when read.

use std::io::Write;
use std::path::Path;

use super::data::{PLAN_VERSION, Plan};
use crate::error::{Error, Place, Result};
use crate::files;
use crate::matrix::Dtype;
use crate::work::Fingerprint;

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
}
