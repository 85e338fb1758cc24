//! A matrix in results: its name, hash and size.

use serde::{Deserialize, Serialize};

/// A matrix's name, hash and size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixFacts {
    /// Its name.
    pub name: String,
    /// xxh3 of its arrays in double precision, in hexadecimal.
    pub hash: String,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Stored entries, mirrored ones included.
    pub nnz: u64,
}
