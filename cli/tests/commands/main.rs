//! Every command of the real binary, one file each. One crate, because each test crate links the whole library.

mod authoring;
mod baselines;
mod bench;
mod built_in_studies;
mod changed_files;
mod choose;
mod clusters;
mod complex;
mod demo;
mod dense;
mod devices;
mod docs;
mod failing_calls;
mod fetch;
mod first_steps;
mod heterogeneous;
mod limits;
mod matrix;
mod outputs;
mod plan;
mod plan_page;
mod ranks;
mod report;
mod run;
mod shown_outputs;
mod signals;
#[path = "../../../tests/skip/mod.rs"]
mod skip;
mod skipped;
mod startup;
mod streams;
mod study;
mod support;
mod trace;
mod words;
