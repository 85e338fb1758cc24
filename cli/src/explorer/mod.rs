//! `rowloom report`: the performance explorer, one page made of results of `bench` and `study`.

mod bench;
mod collected;
pub mod command;
mod naming;
mod read;
mod report_keys;
mod study;
