//! `rowloom report`: the performance explorer, one page made of results of `bench` and `study`.

mod bench;
mod collected;
pub mod command;
mod files;
mod naming;
mod read;
mod study;
