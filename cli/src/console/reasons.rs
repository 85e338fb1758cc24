//! Reasons of a plan as facts of a table: each is `topic: reason`, and the topic is the fact's name.

use super::table::Table;

/// Adds reasons to a table; a topic is shown once for consecutive reasons.
pub fn add<'a>(table: &mut Table, reasons: impl IntoIterator<Item = &'a String>) {
    let mut before = "";
    for reason in reasons {
        let (topic, words) = reason.split_once(": ").unwrap_or(("", reason));
        table.fact(if topic == before { "" } else { topic }, words);
        before = topic;
    }
}
