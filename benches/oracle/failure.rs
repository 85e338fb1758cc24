//! Prints a failure: the smallest case as files, its options, and the commands that show it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lab::Lab;
use crate::problem::Problem;
use crate::shrink::shrunk;

/// The most elements of X and of the old Y that are printed.
const PRINTED_ELEMENTS: usize = 64;

pub fn report(seed: u64, what: &str, problem: &Problem, lab: &mut Lab, words: &str, limit: Duration) {
    println!("\nFAILURE of case {seed:#x}: {what}");
    let (smallest, what) = shrunk(problem.clone(), what.to_string(), lab, limit);
    let (a, k) = (&smallest.a, smallest.k);
    let dtype = if smallest.double { "f64" } else { "f32" };
    println!("smallest case: {what}");
    println!("  A is {} x {} with {} nonzeros, K = {k}, {dtype}", a.rows, a.cols, a.nnz());
    println!("  {:?}", smallest.request);
    for (name, values) in [("X", &smallest.x), ("Y before", &smallest.old)] {
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => println!("  {name}: all {first:?}"),
            _ if values.len() <= PRINTED_ELEMENTS => println!("  {name}, by rows: {values:?}"),
            _ => println!("  {name}: {} elements", values.len()),
        }
    }
    let text = a.matrix_market();
    if text.len() < 2000 {
        println!("{text}");
    }
    let path = folder().join(format!("oracle-{seed:016x}.mtx"));
    match std::fs::write(&path, text) {
        Ok(()) => println!("matrix: {}", path.display()),
        Err(error) => println!("the matrix could not be written to {}: {error}", path.display()),
    }
    if let Some(options) = smallest.request.command_options() {
        println!("near it: rowloom run {} -k {k} --dtype {dtype} {options} --verify", path.display());
    }
    println!("again:   cargo bench --bench oracle -- --case {seed:#x}{words}");
}

/// The build's folder for temporary files if it exists here, since the program may run on another machine.
fn folder() -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if built.is_dir() { built.into() } else { std::env::temp_dir() }
}
