//! Fuzz targets of all readers, and of the product itself. `fuzz/run` builds and runs them; the environment variable
//! `ROWLOOM_FUZZ` names the target.

#![no_main]

mod input;
mod product;
mod readers;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// A target: it takes any bytes and panics where a promise is broken.
type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 10] = [
    ("matrix", readers::matrix),
    ("gzip", readers::gzip),
    ("archive", readers::archive),
    ("dense", readers::dense),
    ("plan", readers::plan),
    ("model", readers::model),
    ("study", readers::study),
    ("trace", readers::trace),
    ("words", readers::words),
    ("product", product::product),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("ROWLOOM_FUZZ").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("ROWLOOM_FUZZ must be one of {}", names.join(", "))).1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
