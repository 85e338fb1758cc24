//! Timelines: what the program records of itself, what a trace says of products, and `rowloom trace`.

pub mod command;
pub mod host_spans;
pub mod median_product;
