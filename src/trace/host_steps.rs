//! Steps of the program outside the tasks: its nested spans, summed by name.

use serde::Serialize;

use super::intervals::seconds;
use super::model::{Category, Span};

/// One step of the program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostStep {
    /// Its name.
    pub name: String,
    /// The number of its spans.
    pub count: u64,
    /// Its total time, nested steps included.
    pub total_s: f64,
    /// Its total time without nested steps.
    pub own_s: f64,
}

/// Steps of the program by name, in order of first appearance.
pub(super) fn steps(spans: &[Span]) -> Vec<HostStep> {
    let mut hosts: Vec<&Span> = spans.iter().filter(|span| span.category == Category::Host).collect();
    // On each lane an outer span comes before its inner spans.
    hosts.sort_by_key(|span| (span.lane, span.start_ns, std::cmp::Reverse(span.end_ns)));
    let mut own_ns: Vec<u64> = hosts.iter().map(|span| span.duration_ns()).collect();
    let mut open: Vec<usize> = Vec::new();
    for (index, span) in hosts.iter().enumerate() {
        while open
            .last()
            .is_some_and(|&holder| hosts[holder].lane != span.lane || hosts[holder].end_ns <= span.start_ns)
        {
            open.pop();
        }
        if let Some(&holder) = open.last() {
            own_ns[holder] = own_ns[holder].saturating_sub(span.duration_ns());
        }
        open.push(index);
    }
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    order.sort_by_key(|&index| (hosts[index].start_ns, index));
    let mut steps: Vec<HostStep> = Vec::new();
    for index in order {
        let (span, own_s) = (hosts[index], seconds(own_ns[index]));
        let total_s = seconds(span.duration_ns());
        match steps.iter_mut().find(|step| step.name == span.name) {
            Some(step) => {
                step.count += 1;
                step.total_s += total_s;
                step.own_s += own_s;
            }
            None => steps.push(HostStep { name: span.name.clone(), count: 1, total_s, own_s }),
        }
    }
    steps
}
