//! Metadata of a matrix: its name, origin, and notes from reading it.

use super::csr::Csr;
use super::scalar::Scalar;

/// The kind of values that a matrix file declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Real numbers.
    Real,
    /// Integers.
    Integer,
    /// Positions only; every value is 1.
    Pattern,
    /// Complex numbers, in the real matrix of [`super::complex`].
    Complex,
}

impl Field {
    /// Real numbers of one value: entries of the matrix in memory for one nonzero.
    pub fn parts(self) -> usize {
        if self == Self::Complex { 2 } else { 1 }
    }
}

/// The symmetry that a matrix file declares: which entries it omits because others determine them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symmetry {
    /// No entries are omitted.
    General,
    /// One triangle is omitted; it equals the other.
    Symmetric,
    /// One triangle is omitted; it is the negative of the other. The diagonal is zero.
    SkewSymmetric,
    /// One triangle is omitted; it is the conjugate of the other, which for real values is equal to it.
    Hermitian,
}

/// Start of the comment that marks a Matrix Market file as generated.
pub const SYNTHETIC_COMMENT: &str = "% synthetic, made by Rowloom";

/// A matrix's name and origin.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MatrixInfo {
    /// File name without extensions, or the generator's specification.
    pub name: String,
    /// The kind of its values.
    pub field: Field,
    /// The symmetry that its file declares.
    pub symmetry: Symmetry,
    /// Entries stored in the file, before omitted triangles are added and duplicates are summed.
    pub stored_entries: u64,
    /// Whether a generator made it.
    pub synthetic: bool,
    /// Features of its rows (see `work::Features`), as stored in its cache file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<serde_json::Value>,
}

/// A matrix that was read or generated, with its metadata.
#[derive(Debug)]
pub struct Loaded<T: Scalar> {
    /// The matrix: both triangles, ascending columns in each row, no duplicates.
    pub matrix: Csr<T>,
    /// Its name and origin.
    pub info: MatrixInfo,
    /// Notes for the user, one sentence each: repairs, and properties of the file.
    pub notes: Vec<String>,
}
