//! `rowloom bench` and `calibrate`: kernels and copies alone, against other libraries and earlier runs.

pub mod baseline;
pub mod calibrate;
pub mod command;
pub mod kernels;
pub mod one_thread;
pub mod oracle;
pub mod report;
pub mod reported_cases;
pub mod table;
pub mod transfers;
