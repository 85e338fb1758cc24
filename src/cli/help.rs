//! What `--help` says beyond the flags: lists made from the tables of kernels and generators, and examples.

use crate::kernel::TABLE;
use crate::matrix::generate::KINDS;

const RUN_EXAMPLES: &str = "\
Examples:
  rowloom run cant.mtx -k 32 --verify
  rowloom run gen:rmat,scale=17,degree=16 -k 8 --dtype f32 --repeat 50
  rowloom run cant.mtx --x x.npy --output y.npy --json=report.json

Ctrl-C stops after the current repeat and still writes the report; a second one stops at once.";

/// The kernels and examples, for `--help`.
pub fn kernels() -> String {
    let mut help = String::from("Kernels:\n");
    for kernel in TABLE {
        help.push_str(&format!("  {}\n        {}\n", kernel.name, kernel.summary));
    }
    format!("{help}\n{RUN_EXAMPLES}")
}

/// The generators, for `--help`.
pub fn kinds() -> String {
    let mut help = String::from("Kinds, with keys in [brackets] optional:\n");
    for kind in KINDS {
        let keys: Vec<String> = kind
            .keys
            .iter()
            .map(|key| if key.required { format!("{}=", key.name) } else { format!("[{}=]", key.name) })
            .collect();
        help.push_str(&format!("  {},{}\n        {}\n", kind.name, keys.join(","), kind.about));
    }
    help.push_str(
        "\nExamples:\n  rowloom generate stencil27,n=64 stencil.mtx\n  rowloom generate like,name=cant cant.rlm\n\n\
         The same words and seed give the same matrix everywhere.",
    );
    help
}
