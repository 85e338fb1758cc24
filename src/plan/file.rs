//! Plans in JSON files, validated when loaded.

use std::io::Write;
use std::path::Path;

use super::data::{PLAN_VERSION, Plan};
use crate::error::{Advice, Error, Place, Result};
use crate::files;
use crate::matrix::Dtype;
use crate::work::Fingerprint;

/// The version of a saved plan, read before the rest.
#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

impl Plan {
    /// Writes the plan atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::Internal(format!("the plan cannot be written as JSON: {error}")))?;
        text.push(b'\n');
        files::replace(path, |file| file.write_all(&text))
    }

    /// Reads and validates a plan. It may be for another matrix: see [`Plan::check_fits`].
    pub fn load(path: &Path) -> Result<Self> {
        let text = files::read_regular(path)?;
        let damaged = |error: serde_json::Error| {
            let place = Place::line(path.display().to_string(), error.line() as u64);
            Error::input(place, format!("not a plan: {error}")).advise([Advice::NewPlan])
        };
        let Versioned { version } = serde_json::from_slice(&text).map_err(damaged)?;
        if version != PLAN_VERSION {
            let reason =
                format!("the plan has version {version}, but this program reads version {PLAN_VERSION}");
            return Err(Error::input(Place::file(path), reason).advise([Advice::NewPlan]));
        }
        let plan: Self = serde_json::from_slice(&text).map_err(damaged)?;
        plan.check().map_err(|what| {
            Error::input(Place::file(path), format!("the plan is invalid: {what}")).advise([Advice::NewPlan])
        })?;
        Ok(plan)
    }

    /// An error unless the plan was made for this matrix, K and type.
    #[doc(hidden)]
    pub fn check_fits(&self, matrix: &Fingerprint, k: u64, dtype: Dtype) -> Result<()> {
        let made_for = |what: &str, planned: String, given: String| {
            let reason = format!("the plan was made for {what} {planned}, not {given}");
            Err(Error::usage(reason).advise([Advice::NewPlan, Advice::NoPlan]))
        };
        if self.matrix != *matrix {
            return made_for("the matrix", self.matrix.to_string(), matrix.to_string());
        }
        if self.k != k {
            return made_for("K =", self.k.to_string(), k.to_string());
        }
        if self.dtype != dtype {
            return made_for("the type", self.dtype.to_string(), dtype.to_string());
        }
        Ok(())
    }
}
