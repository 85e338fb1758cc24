//! Records the build's provenance: the revision, whether files differ from it, the compiler and the profile.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Records the build's provenance in environment variables of the compiler. Outside a checkout there is no revision.
fn main() {
    for path in ["src", "cli/src", "kernels", "build.rs", "Cargo.toml", "Cargo.lock", "configs"] {
        println!("cargo::rerun-if-changed=../{path}");
    }
    let same = |top: &String| fs::canonicalize(top).ok() == fs::canonicalize("..").ok();
    let mut revision = output_of("git", &["rev-parse", "--show-toplevel"]).filter(same);
    let mut dirty = String::new();
    if revision.is_some() {
        revision = output_of("git", &["rev-parse", "HEAD"]);
        let changed = output_of("git", &["status", "--porcelain", "--untracked-files=no"]);
        dirty = changed.map_or_else(String::new, |changed| (!changed.is_empty()).to_string());
        let log = output_of("git", &["rev-parse", "--git-path", "logs/HEAD"]);
        if let Some(log) = log.filter(|log| Path::new(log).exists()) {
            println!("cargo::rerun-if-changed={log}");
        }
    }
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=ROWLOOM_REVISION={}", revision.unwrap_or_default());
    println!("cargo::rustc-env=ROWLOOM_DIRTY={dirty}");
    println!("cargo::rustc-env=ROWLOOM_COMPILER={}", output_of(&rustc, &["--version"]).unwrap_or_default());
    for (name, of) in [("ROWLOOM_TARGET", "TARGET"), ("ROWLOOM_PROFILE", "PROFILE")] {
        println!("cargo::rustc-env={name}={}", env::var(of).unwrap_or_default());
    }
}

/// The standard output of a command, if it succeeds.
fn output_of(command: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(command).args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
