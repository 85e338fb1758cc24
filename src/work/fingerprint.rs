//! What identifies a job in saved plans and measured times.

use std::borrow::Cow;
use std::fmt;

use super::spmm;

/// Identifies a job by its kind of work and the shape of A, without values.
///
/// The names in JSON are those of the first kind of work, which scripts rely on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint {
    /// The kind of work.
    #[serde(default = "first_kind", skip_serializing_if = "is_first_kind")]
    pub kind: Cow<'static, str>,
    /// Number of rows of Y.
    pub rows: u64,
    /// Number of rows of X.
    pub cols: u64,
    /// Number of stored entries of A.
    #[serde(rename = "nnz")]
    pub entries: u64,
    /// A hash of the pattern of A in hexadecimal; that of a sparse matrix covers its row pointers.
    #[serde(rename = "row_pointers")]
    pub hash: String,
}

fn first_kind() -> Cow<'static, str> {
    spmm::NAME.into()
}

fn is_first_kind(kind: &str) -> bool {
    kind == spmm::NAME
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rows, cols, entries, hash } = self;
        match is_first_kind(kind) {
            true => write!(f, "{rows} x {cols} with {entries} nonzeros ({hash})"),
            false => write!(f, "{rows} x {cols} with {entries} entries for {kind} ({hash})"),
        }
    }
}
