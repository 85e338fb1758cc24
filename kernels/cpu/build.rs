//! Decides which kernels are compiled: those with SIMD only if they are optimised.
//!
//! Without optimisation every SIMD instruction is a call, so the portable kernels are as fast, and they compile in a fraction of the
//! time. All kernels have the same results.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(optimised)");
    println!("cargo::rustc-check-cfg=cfg(simd)");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let is_optimised = variable("OPT_LEVEL") != "0";
    if is_optimised {
        println!("cargo::rustc-cfg=optimised");
    }
    // Tests of the kernels themselves run without optimisation.
    let is_of_tests = env::var_os("CARGO_FEATURE_FEW_INSTANCES").is_some();
    if variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && (is_optimised || is_of_tests) {
        println!("cargo::rustc-cfg=simd");
    }
}
