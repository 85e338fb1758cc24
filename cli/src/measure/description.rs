//! A matrix as reports of `bench` and `study` describe it, once for all of its cases.

use serde::{Deserialize, Serialize};

use super::facts::MatrixFacts;
use super::pattern::Pattern;
use rowloom::internal::matrix::{CsrView, Dtype};
use rowloom::internal::work::ChunkRows;
use rowloom::internal::work::spmm::{Features, Spmm};

/// A matrix: how it was named, its size, the statistics of its rows, and where its nonzeros are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixDescription {
    /// The matrix as it was named: a file, `gen:` or `suitesparse:`.
    pub argument: String,
    /// Name, hash and size.
    #[serde(flatten)]
    pub facts: MatrixFacts,
    /// Statistics of its rows; none where the work is not defined for it.
    pub features: Option<Features>,
    /// Where its nonzeros are.
    pub pattern: Pattern,
}

impl MatrixDescription {
    /// The description of a matrix, computed on the pool that the caller is in.
    pub fn of(argument: String, facts: &MatrixFacts, matrix: CsrView<'_, f64>) -> Self {
        let all = ChunkRows::Rows { begin: 0, end: matrix.rows() };
        let work =
            Spmm::of_pattern(matrix.row_pointers(), Some(matrix.columns()), matrix.cols(), 1, Dtype::F64);
        let features = work.ok().map(|work| Features::of(&work, &all));
        Self { argument, facts: facts.clone(), features, pattern: Pattern::of(matrix) }
    }
}
