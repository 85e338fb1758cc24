//! One run as a timeline for a report, with measured and predicted tasks.

use std::collections::HashMap;

use crate::plots::{Lane, Span, Timeline};
use rowloom::internal::trace::{Arguments, LaneId, Trace};

/// The tasks of `measured`, each with the predicted times of the task of the same name on the same device in `predicted`.
pub fn timeline(title: String, caption: String, measured: &Trace, predicted: Option<&Trace>) -> Timeline {
    let lanes: Vec<Lane> =
        measured.lanes().map(|(process, name)| Lane { process: process.into(), name: name.into() }).collect();
    let lane_indices = lane_indices(measured);
    let predicted_times = predicted.map(task_times).unwrap_or_default();
    let begin_ns = first_ns(measured);
    let mut spans = Vec::new();
    for span in measured.spans().iter().filter(|span| span.category.is_task()) {
        let Some(&lane) = lane_indices.get(&span.lane) else { continue };
        let process = lanes.get(lane).map_or("", |lane: &Lane| lane.process.as_str());
        let predicted_time = predicted_times.get(&(process.to_string(), span.name.clone()));
        spans.push(Span {
            lane,
            name: span.name.clone(),
            kind: span.category.name().into(),
            start_s: seconds(span.start_ns.saturating_sub(begin_ns)),
            end_s: seconds(span.end_ns.saturating_sub(begin_ns)),
            predicted_start_s: predicted_time.map(|predicted_time| predicted_time.0),
            predicted_end_s: predicted_time.map(|predicted_time| predicted_time.1),
            details: details(&span.arguments),
        });
    }
    Timeline { title, caption, lanes, spans }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn first_ns(trace: &Trace) -> u64 {
    let tasks = trace.spans().iter().filter(|span| span.category.is_task());
    tasks.map(|span| span.start_ns).min().unwrap_or(0)
}

/// The index of each lane.
fn lane_indices(trace: &Trace) -> HashMap<LaneId, usize> {
    let names: Vec<(String, String)> =
        trace.lanes().map(|(process, name)| (process.to_string(), name.to_string())).collect();
    // A lane that exists is found by its name.
    let mut known = trace.clone();
    let id = |(place, (process, name)): (usize, &(String, String))| {
        let process = known.process(process);
        (known.lane(process, name), place)
    };
    names.iter().enumerate().map(id).collect()
}

/// Start and end of each task, by the names of its device and of itself.
fn task_times(trace: &Trace) -> HashMap<(String, String), (f64, f64)> {
    let processes: Vec<String> = trace.lanes().map(|(process, _)| process.to_string()).collect();
    let lane_indices = lane_indices(trace);
    let begin_ns = first_ns(trace);
    let tasks = trace.spans().iter().filter(|span| span.category.is_task());
    let ends = tasks.filter_map(|span| {
        let process = processes.get(*lane_indices.get(&span.lane)?)?;
        let times = (seconds(span.start_ns - begin_ns), seconds(span.end_ns - begin_ns));
        Some(((process.clone(), span.name.clone()), times))
    });
    ends.collect()
}

fn details(arguments: &Arguments) -> Vec<(String, String)> {
    let Arguments { rows, size, bytes, kernel, predicted_us, gb_per_s, .. } = arguments;
    let size_name = match size {
        Some((name, _)) if name == "nnz" => "nonzeros",
        Some((name, _)) => name,
        None => "",
    };
    let facts = [
        ("rows", rows.map(|rows| rows.to_string())),
        (size_name, size.as_ref().map(|(_, count)| count.to_string())),
        ("bytes", bytes.map(|bytes| bytes.to_string())),
        ("kernel", kernel.as_ref().map(|kernel| kernel.to_string())),
        ("predicted alone", predicted_us.map(|us| format!("{us:.1} µs"))),
        ("rate", gb_per_s.map(|rate| format!("{rate:.2} GB/s"))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowloom::internal::trace::{Category, Span as Traced};

    fn trace(start_ns: u64, lane: &str) -> Trace {
        let mut trace = Trace::default();
        let process = trace.process("emu:0");
        let lane = trace.lane(process, lane);
        for (name, from, to) in [("upload 0", 0, 10), ("kernel 0", 10, 30)] {
            let (start_ns, end_ns) = (start_ns + from, start_ns + to);
            let (category, arguments) = (Category::Kernel, Arguments::default());
            trace.span(Traced { lane, name: name.into(), category, start_ns, end_ns, arguments });
        }
        trace
    }

    #[test]
    fn tasks_have_their_predicted_times_on_any_clock_and_lane() {
        let shown = timeline("a".into(), "b".into(), &trace(1_000_000, "one"), Some(&trace(0, "other")));
        assert_eq!(shown.lanes, [Lane { process: "emu:0".into(), name: "one".into() }]);
        let kernel = &shown.spans[1];
        assert_eq!((kernel.start_s, kernel.end_s), (1e-8, 3e-8));
        assert_eq!((kernel.predicted_start_s, kernel.predicted_end_s), (Some(1e-8), Some(3e-8)));
        assert_eq!(timeline("a".into(), "b".into(), &trace(5, "one"), None).spans[0].predicted_end_s, None);
    }
}
