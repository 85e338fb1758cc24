//! What a plan keeps about the rows of a chunk: enough to predict times without A. One variant for each kind of work.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::operands::XRows;
use super::spmm::Features;
use super::uniform::UniformRows;
use super::{colmean, gemm};
use crate::cost::{Form, Load, Profile};
use crate::kernel::KindOfWork;
use crate::matrix::Dtype;

/// The facts about the rows, or segments, of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Facts {
    /// Rows of a sparse matrix.
    Spmm(Features),
    /// Rows that all weigh the same.
    Uniform(UniformRows),
}

/// The variant is the one whose number of entries is there, so that an error names the field that is missing or wrong.
impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let facts = match value.get("entries") {
            Some(_) => UniformRows::deserialize(value).map(Self::Uniform),
            None => Features::deserialize(value).map(Self::Spmm),
        };
        facts.map_err(D::Error::custom)
    }
}

/// The number of entries of A in a part of the work. In JSON it has the name that scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Size {
    /// The number of entries.
    #[serde(rename = "nnz")]
    pub entries: u64,
}

/// A number with the name that its kind of work gives it, for reports and traces.
pub type Count = (Cow<'static, str>, u64);

impl Facts {
    /// Number of rows or segments.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Spmm(features) => features.rows,
            Self::Uniform(rows) => rows.rows,
        }
    }

    /// Number of entries of A.
    pub fn entries(&self) -> u64 {
        match self {
            Self::Spmm(features) => features.nnz,
            Self::Uniform(rows) => rows.entries,
        }
    }

    /// The number of entries, with the name that traces have for it.
    pub fn count(&self) -> Count {
        match self {
            Self::Spmm(features) => ("nnz".into(), features.nnz),
            Self::Uniform(rows) => ("entries".into(), rows.entries),
        }
    }

    /// Whether they contradict neither themselves nor this number of rows and entries.
    pub fn are_of(&self, rows: u64, entries: u64) -> bool {
        match self {
            Self::Spmm(features) => {
                (features.rows, features.nnz) == (rows, entries) && features.max <= entries
            }
            Self::Uniform(own) => (own.rows, own.entries) == (rows, entries),
        }
    }

    /// The rows of X that a sample of the entries refers to; `None` where nothing is known.
    pub fn sampled_x(&self) -> Option<XRows> {
        match self {
            Self::Spmm(features) => (features.sampled_columns > 0 || features.nnz == 0)
                .then_some(XRows { first: features.first_column, end: features.end_column }),
            Self::Uniform(_) => None,
        }
    }

    /// The work of a kernel with `k` columns.
    pub fn load(&self, k: u64, dtype: Dtype) -> Load {
        match self {
            Self::Spmm(features) => Load::of(features, k, dtype),
            Self::Uniform(rows) => rows.load(k, dtype),
        }
    }

    /// Predicted seconds of a form on a device, with the device otherwise idle.
    pub fn kernel_s(&self, device: &Profile, form: &Form, k: u64, dtype: Dtype) -> f64 {
        match self {
            Self::Spmm(features) => device.form_s(form, features, k, dtype),
            Self::Uniform(rows) => match form.kernel.info().work {
                KindOfWork::Gemm => gemm::kernel_s(rows, device, form, k, dtype),
                KindOfWork::Colmean => colmean::kernel_s(rows, device, form, k, dtype),
                KindOfWork::Spmm => rows.kernel_s(device, form, k, dtype),
            },
        }
    }

    /// Whether the memory of the device limits a form, and not its arithmetic.
    pub fn is_memory_bound(&self, form: &Form) -> bool {
        form.kernel.info().work != KindOfWork::Gemm
    }

    /// Whether a form can compute the rows.
    pub fn suit(&self, form: &Form) -> bool {
        match self {
            Self::Spmm(features) => form.supports(features),
            Self::Uniform(_) => true,
        }
    }
}

impl From<Features> for Facts {
    fn from(features: Features) -> Self {
        Self::Spmm(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_from_a_file_are_the_same_and_an_error_names_the_field() {
        let uniform = Facts::Uniform(UniformRows { rows: 2, entries: 6, a_bytes: 48, x_bytes: 24 });
        for (facts, field) in [(Facts::from(Features::default()), "nnz"), (uniform, "a_bytes")] {
            let mut value = serde_json::to_value(facts).unwrap();
            assert_eq!(serde_json::from_value::<Facts>(value.clone()).unwrap(), facts);
            value.as_object_mut().unwrap().remove(field);
            let error = serde_json::from_value::<Facts>(value).unwrap_err().to_string();
            assert!(error.contains(&format!("missing field `{field}`")), "{error}");
        }
    }
}
