//! The fuzz corpus without a fuzzer: each input goes to its fuzz target once. The inputs that broke a promise are in the corpus,
//! and each of them has a test of its own here.

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use rowloom::internal::matrix::{Csr, MultiVector, generate};
use rowloom::internal::plan::{Mode, Plan};
use rowloom::internal::runtime::{ProductOptions, Runtime};
use targets::TARGETS;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

/// Gives every input of a target to it.
fn replay(name: &str) {
    let (_, target) = TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
    let mut inputs = 0;
    for entry in fs::read_dir(corpus().join(name)).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        target(&fs::read(&path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "the corpus has no input for {name}");
}

#[test]
fn files_of_the_corpus_are_read_or_refused() {
    for name in ["matrix", "gzip", "archive", "dense", "model", "study", "trace", "words"] {
        replay(name);
    }
}

#[test]
fn plans_of_the_corpus_give_the_right_y_or_are_refused() {
    replay("plan");
}

#[test]
fn products_of_the_corpus_give_the_y_of_the_reference_or_a_typed_error() {
    replay("product");
}

#[test]
fn every_folder_of_the_corpus_has_a_target() {
    let mut folders: Vec<String> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut names = TARGETS.map(|(name, _)| name.to_string());
    folders.sort_unstable();
    names.sort_unstable();
    assert_eq!(folders, names);
}

#[test]
fn a_plan_whose_chunk_has_no_slot_is_refused() {
    let plan = Plan::load(&corpus().join("plan/chunk-without-a-slot.json")).unwrap();
    let matrix: Csr<f64> = generate("rmat,scale=5,degree=4", 1, u64::MAX).unwrap().matrix;
    let runtime = Runtime::builder().devices("cpu,emu:0").model("none").refine(false).open().unwrap();
    let x = MultiVector::filled(matrix.cols(), plan.k as usize, 0.7).unwrap();
    let product = runtime.product(&matrix).columns(x.k()).plan(plan).build();
    let refused = product.and_then(|mut product| product.apply(&x)).expect_err("a chunk has no slot");
    assert_eq!(refused.exit_code(), 3, "{refused}");
    assert!(refused.to_string().contains("slots"), "{refused}");
}

#[test]
fn a_device_that_took_over_chunks_and_is_lost_later_is_left_out() {
    let matrix: Csr<f64> = generate("uniform,rows=16,degree=3", 1, u64::MAX).unwrap().matrix;
    let x = MultiVector::filled(matrix.cols(), 2, 0.7).unwrap();
    let alone = Runtime::builder().devices("cpu").model("none").refine(false).open().unwrap();
    let expected = alone.product(&matrix).columns(2).reproducible(true).build().unwrap().apply(&x).unwrap();
    for lost in 1..=5 {
        let devices = format!("cpu,emu:0?lost_at_operation={lost},emu:1?lost_at_operation=6");
        let runtime = Runtime::builder().devices(&devices).model("none").refine(false).open().unwrap();
        let options = ProductOptions {
            uses: Some(3),
            mode: Some(Mode::Oneshot),
            chunks: Some(7),
            reproducible: true,
            ..ProductOptions::default()
        };
        let mut product = runtime.product(&matrix).columns(2).options(options).build().unwrap();
        for _ in 0..3 {
            assert_eq!(product.apply(&x).unwrap().data(), expected.data(), "{devices}");
        }
    }
}
