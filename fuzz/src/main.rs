//! The fuzzer. `fuzz/run` builds and runs it; the environment variable `ROWLOOM_FUZZ` names the target.

#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use targets::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("ROWLOOM_FUZZ").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("ROWLOOM_FUZZ must be one of {}", names.join(", "))).1
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
