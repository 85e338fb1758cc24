//! `rowloom plan`: plans, of sparse and of dense work, with their reasons.

pub mod command;
pub mod dense;
pub mod report;
pub mod table;
