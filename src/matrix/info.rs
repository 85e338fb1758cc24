//! What is known of a matrix beside its arrays: where it came from and what was noticed on the way.

use super::csr::Csr;
use super::scalar::Scalar;

/// What a file says its entries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Real numbers.
    Real,
    /// Whole numbers.
    Integer,
    /// Positions only; every value is one.
    Pattern,
}

/// What a file leaves out because it follows from what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symmetry {
    /// Nothing.
    General,
    /// The other triangle, equal.
    Symmetric,
    /// The other triangle, negated; no diagonal.
    SkewSymmetric,
    /// The other triangle, conjugated, which for real numbers is equal.
    Hermitian,
}

/// How the comment of a Matrix Market file begins that says its matrix was generated.
pub const SYNTHETIC_COMMENT: &str = "% synthetic, made by Rowloom";

/// A matrix's name and origin.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MatrixInfo {
    /// File name without its endings, or the words that generated it.
    pub name: String,
    /// What its entries are.
    pub field: Field,
    /// How its file stored it.
    pub symmetry: Symmetry,
    /// Entries the file listed, before the other triangle was added and duplicates were summed.
    pub stored_entries: u64,
    /// Made by a generator, not read from a file of measured or modelled data.
    pub synthetic: bool,
    /// What its rows look like, as whoever chooses kernels found out and wrote into its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<serde_json::Value>,
}

/// A matrix as it was read or generated.
#[derive(Debug)]
pub struct Loaded<T: Scalar> {
    /// The matrix, all triangles there, columns of each row ascending, no duplicates.
    pub matrix: Csr<T>,
    /// Its name and origin.
    pub info: MatrixInfo,
    /// What was repaired or is worth knowing, a sentence each.
    pub notes: Vec<String>,
}
