//! The JSON objects: a header that every command shares, then keys in the order they were added.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::{CsrView, Loaded, MatrixInfo, Scalar};

/// One command's JSON object.
#[derive(Debug)]
pub struct Report {
    keys: Vec<(String, Value)>,
}

impl Report {
    /// The version and the command.
    pub fn new(command: &str) -> Self {
        let report = Self { keys: Vec::new() };
        report.with("rowloom", env!("CARGO_PKG_VERSION")).with("command", command)
    }

    /// Adds a key; numbers that JSON cannot hold become `null`.
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.keys.push((key.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null)));
        self
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.keys.len()))?;
        for (key, value) in &self.keys {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A matrix as every report describes it.
#[derive(Debug, Serialize)]
pub struct MatrixReport {
    #[serde(flatten)]
    info: MatrixInfo,
    rows: u64,
    cols: u64,
    nnz: u64,
}

impl MatrixReport {
    /// A loaded matrix.
    pub fn of<T: Scalar>(loaded: &Loaded<T>) -> Self {
        let (matrix, parts) = (loaded.matrix.view(), loaded.info.field.parts());
        Self::new(&loaded.info, matrix.rows(), matrix.cols() / parts, matrix.nnz() / parts)
    }

    /// A matrix's name, origin and size.
    pub fn new(info: &MatrixInfo, rows: usize, cols: usize, nnz: usize) -> Self {
        let info = MatrixInfo { features: None, ..info.clone() };
        Self { info, rows: rows as u64, cols: cols as u64, nnz: nnz as u64 }
    }
}

/// xxh3 of a matrix's arrays, in hexadecimal.
pub fn hash<T: Scalar>(matrix: &CsrView<'_, T>) -> String {
    let mut hash = Xxh3::new();
    hash.update(bytemuck::cast_slice(matrix.row_pointers()));
    hash.update(bytemuck::cast_slice(matrix.columns()));
    hash.update(bytemuck::cast_slice(matrix.values()));
    format!("{:016x}", hash.digest())
}

/// The parts of the machine's description that reports of results need; `rowloom devices` prints all of it.
pub fn machine_report(machine: &Machine) -> Value {
    json!({
        "host": machine.host,
        "cpu": machine.cpu,
        "isa": machine.isa,
        "cores": machine.cores,
        "hardware_threads": machine.hardware_threads,
        "numa_nodes": machine.numa_nodes,
        "memory_bytes": machine.memory_bytes,
        "gpus": machine.gpus,
    })
}
