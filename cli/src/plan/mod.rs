//! `rowloom plan`: plans, of sparse and of dense work, with their reasons.

pub mod command;
mod counts;
pub mod dense;
mod gpus;
pub mod groups;
pub mod nodes;
pub mod report;
pub mod sentence;
pub mod table;
