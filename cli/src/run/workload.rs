//! What a command computes, in the words of its kind of work.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::args::MatrixSource;
use crate::args::RunArguments;
use crate::console::report::MatrixReport;
use crate::console::table::{count, count_of};
use crate::measure::compulsory_bytes;
use crate::operands::session::describe;
use rowloom::internal::kernel::KindOfWork;
use rowloom::internal::matrix::{Field, MatrixInfo};
use rowloom::internal::plan::Plan;
use rowloom::internal::runtime::TimeParts;

/// What a command computes, in the words of its kind of work.
#[derive(Debug)]
pub struct Workload {
    /// The kind of work.
    pub work: KindOfWork,
    /// The first lines of the table: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// Lines of the table about the result.
    pub results: Vec<(&'static str, String)>,
    /// Keys of the JSON object that describe the operands.
    pub keys: Vec<(&'static str, Value)>,
    /// The flags that only this command has, as resolved.
    pub config: Value,
    /// Entries of the real matrix in memory for one entry of A: two of a complex A.
    pub parts: u64,
    /// The kernel that was asked for.
    pub kernel: String,
    /// Floating-point operations of one repetition.
    pub operations: f64,
    /// Bytes that one repetition must at least read and write.
    pub bytes: u64,
    /// Bytes of A as it was loaded.
    pub a_bytes: u64,
    /// The file of the result.
    pub output: Option<PathBuf>,
    /// Notes on the operands.
    pub notes: Vec<String>,
}

impl Workload {
    /// What one repetition computes.
    pub fn unit(&self) -> &'static str {
        match self.work {
            KindOfWork::Spmm | KindOfWork::Gemm => "product",
            KindOfWork::Colmean => "run",
        }
    }

    /// The key of the number of entries of A.
    pub fn entries(&self) -> &'static str {
        match self.work {
            KindOfWork::Spmm => "nnz",
            KindOfWork::Gemm | KindOfWork::Colmean => "entries",
        }
    }

    /// The name of the result.
    pub fn result(&self) -> &'static str {
        match self.work {
            KindOfWork::Spmm => "Y",
            KindOfWork::Gemm => "C",
            KindOfWork::Colmean => "sums",
        }
    }

    /// The reasons of a plan, which calls the operands of every kind of work A, X and Y, with this kind's own names.
    pub fn reasons(&self, plan: &Plan) -> Vec<String> {
        named_operands(self.work, &plan.reasons)
    }

    /// A product of `rowloom run` with `k` columns.
    pub fn product(arguments: &RunArguments, matrix: &ProductMatrix<'_>, k: u64, x: &str) -> Self {
        let (planning, ProductMatrix { info, rows, cols, nnz, .. }) = (&arguments.planning, *matrix);
        let dtype = arguments.matrix_arguments.dtype;
        let plan = arguments.plan.as_ref().map(|path| path.display().to_string());
        let parts = info.field.parts() as u64;
        let mut facts = vec![("matrix", describe(info, rows, cols, nnz))];
        if info.field == Field::Complex {
            let columns = count_of(k, "complex column", "complex columns");
            facts.push(("X", format!("{columns}, parts in {dtype}, {x}")));
            let (cols, nnz, columns) = (count(cols * parts), count(nnz * parts), count(k * parts));
            let rows = count(rows);
            facts.push(("multiplied as", format!("{rows} x {cols} real, {nnz} entries, {columns} columns")));
        } else {
            facts.push(("X", format!("{}, {dtype}, {x}", count_of(k, "column", "columns"))));
        }
        Self {
            work: KindOfWork::Spmm,
            facts,
            results: Vec::new(),
            keys: vec![
                ("matrix", json!(MatrixReport::new(info, rows as usize, cols as usize, nnz as usize))),
                ("matrix_hash", json!(matrix.hash)),
                ("k", json!(k)),
                ("complex", json!(info.field == Field::Complex)),
            ],
            config: json!({
                "matrix": MatrixSource::new(&arguments.matrix).name(),
                "k": k,
                "x": arguments.x.name(),
                "finite": arguments.finite,
                "format": planning.format,
                "tune": planning.tune,
                "schedule": arguments.schedule,
                "plan": plan,
            }),
            kernel: planning.kernel.clone(),
            parts,
            // A complex product has four real ones.
            operations: 2.0 * (parts * parts) as f64 * nnz as f64 * k as f64,
            bytes: compulsory_bytes(rows, nnz, matrix.used_columns, k * parts, dtype)
                + (parts - 1) * nnz * dtype.bytes() as u64,
            a_bytes: matrix.bytes,
            output: arguments.output.clone(),
            notes: matrix.notes.to_vec(),
        }
    }

    /// Adds the cluster of a plan and the parts of the time of a product on it.
    pub fn add_cluster(&mut self, plan: &Plan, parts: &TimeParts) {
        self.keys.extend([("cluster", json!(plan.cluster)), ("time_parts", json!(parts))]);
    }
}

/// The sparse matrix of a product, of all ranks if there are several.
#[derive(Debug, Clone, Copy)]
pub struct ProductMatrix<'a> {
    /// Its name and origin.
    pub info: &'a MatrixInfo,
    /// Its notes.
    pub notes: &'a [String],
    /// Its rows.
    pub rows: u64,
    /// Its columns.
    pub cols: u64,
    /// Its entries.
    pub nnz: u64,
    /// Columns with an entry; all of them where it is not known which are.
    pub used_columns: u64,
    /// Bytes of the part that this process has.
    pub bytes: u64,
    /// The hash of its arrays, where one process has all of them.
    pub hash: Option<&'a str>,
}

/// Reasons, which call the operands of every kind of work A, X and Y, with the names of a kind's operands.
pub fn named_operands(work: KindOfWork, reasons: &[String]) -> Vec<String> {
    reasons.iter().map(|reason| with_own_names(work, reason)).collect()
}

/// The same for one text.
pub fn with_own_names(work: KindOfWork, text: &str) -> String {
    let names: &[(&str, &str)] = match work {
        KindOfWork::Spmm => &[],
        KindOfWork::Gemm => &[("X", "B"), ("Y", "C")],
        KindOfWork::Colmean => &[
            ("A, X and Y", "the table and the sums"),
            ("A", "the table"),
            ("Y", "the sums"),
            ("product", "run"),
            ("products", "runs"),
        ],
    };
    names.iter().fold(text.to_string(), |text, (from, to)| with_words_replaced(&text, from, to))
}

/// `text` with `to` for every `from` that is no part of a longer word.
fn with_words_replaced(text: &str, from: &str, to: &str) -> String {
    let is_inside_a_word = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(from) {
        let is_part = is_inside_a_word(before.chars().next_back()) || is_inside_a_word(after.chars().next());
        replaced += before;
        replaced += if is_part { from } else { to };
        rest = after;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_replaced() {
        let gemm = |text| with_words_replaced(text, "X", "B");
        assert_eq!(
            gemm("X: in one piece; X2, MAX and A X stay or change, X"),
            "B: in one piece; X2, MAX and A B stay or change, B"
        );
        assert_eq!(with_words_replaced("20 products, a product", "product", "run"), "20 products, a run");
        assert_eq!(with_words_replaced("", "Y", "C"), "");
    }
}
