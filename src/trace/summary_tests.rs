//! Summaries of traces that are small enough to compute by hand.

use super::*;

/// A span with a category and a run.
fn span(lane: LaneId, category: Category, start_ns: u64, end_ns: u64, run: Option<u64>) -> Span {
    let name = format!("{} {start_ns}", category.name());
    Span { lane, name, category, start_ns, end_ns, arguments: Arguments { run, ..Arguments::default() } }
}

/// A device with its three streams.
fn device(trace: &mut Trace, name: &str) -> [LaneId; 3] {
    let process = trace.process(name);
    ["h2d", "compute", "d2h"].map(|lane| trace.lane(process, lane))
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

/// Uploads 0–10 and 10–20, kernels 10–16 and 20–26, a download 26–30: six of the twelve compute ns are hidden.
fn pipeline(trace: &mut Trace, name: &str, from_ns: u64, run: Option<u64>) {
    let [h2d, compute, d2h] = device(trace, name);
    let mut add = |lane, category, start_ns: u64, end_ns: u64| {
        trace.span(span(lane, category, from_ns + start_ns, from_ns + end_ns, run))
    };
    let uploads = [add(h2d, Category::Upload, 0, 10), add(h2d, Category::Upload, 10, 20)];
    let kernels = [add(compute, Category::Kernel, 10, 16), add(compute, Category::Kernel, 20, 26)];
    let download = add(d2h, Category::Download, 26, 30);
    trace.flow(uploads[0], kernels[0]);
    trace.flow(uploads[1], kernels[1]);
    trace.flow(kernels[1], download);
}

#[test]
fn one_pipeline_is_summarised() {
    let mut trace = Trace::default();
    pipeline(&mut trace, "cuda:0", 100, None);
    let summary = trace.summary();
    assert_eq!((summary.run, summary.tasks, summary.tasks_outside), (None, 5, 0));
    close(summary.runs.unwrap().median_s, 30e-9);
    let [device] = &summary.devices[..] else { panic!("{:?}", summary.devices) };
    close(device.copy_s, 24e-9);
    close(device.compute_s, 12e-9);
    close(device.busy_s, 30e-9);
    close(device.hidden_fraction.unwrap(), 0.5);
    close(summary.hidden_fraction.unwrap(), 0.5);
    close(summary.idle_fraction.unwrap(), 0.0);
    assert_eq!(summary.together_fraction, None, "there is one device");
    let lanes: Vec<_> = device.lanes.iter().map(|lane| (lane.name.as_str(), lane.tasks)).collect();
    assert_eq!(lanes, [("h2d", 2), ("compute", 2), ("d2h", 1)]);
    close(device.lanes[1].busy_s, 12e-9);
    close(device.lanes[1].idle_s, 18e-9);
    close(device.lanes[2].idle_s, 26e-9);
}

#[test]
fn the_hidden_fraction_is_weighted_by_the_shorter_time() {
    let mut trace = Trace::default();
    pipeline(&mut trace, "cuda:0", 0, None);
    // Four ns of compute, all hidden behind a copy; and a device that only computes.
    let [h2d, compute, _] = device(&mut trace, "cuda:1");
    trace.span(span(h2d, Category::Upload, 0, 15, None));
    trace.span(span(compute, Category::Kernel, 1, 5, None));
    let cpu = trace.process("cpu");
    let workers = ["worker 0", "worker 1"].map(|name| trace.lane(cpu, name));
    trace.span(span(workers[0], Category::CpuCompute, 0, 30, None));
    trace.span(span(workers[1], Category::CpuCompute, 0, 12, None));
    trace.span(span(workers[1], Category::Merge, 15, 18, None));
    let summary = trace.summary();
    let hidden: Vec<_> = summary.devices.iter().map(|device| device.hidden_fraction).collect();
    assert_eq!(hidden, [Some(0.5), Some(1.0), None]);
    close(summary.hidden_fraction.unwrap(), (6.0 + 4.0) / (12.0 + 4.0));
    let idle: Vec<_> = summary.devices.iter().map(|device| device.idle_fraction).collect();
    assert_eq!(idle, [0.0, 0.5, 0.0], "a device is idle while none of its lanes is busy");
    close(summary.idle_fraction.unwrap(), 15.0 / (3.0 * 30.0));
    close(summary.together_fraction.unwrap(), 1.0);
    close(summary.devices[2].busy_s, 30e-9);
    close(summary.devices[2].lanes[1].busy_s, 15e-9);
}

#[test]
fn parallel_copies_count_once() {
    let mut trace = Trace::default();
    let [h2d, compute, d2h] = device(&mut trace, "cuda:0");
    trace.span(span(h2d, Category::Upload, 0, 10, None));
    trace.span(span(d2h, Category::Download, 5, 15, None));
    trace.span(span(compute, Category::Kernel, 0, 20, None));
    let summary = trace.summary();
    close(summary.devices[0].copy_s, 15e-9);
    close(summary.hidden_fraction.unwrap(), 1.0);
}

#[test]
fn of_several_runs_the_median_one_is_described() {
    let mut trace = Trace::default();
    let [h2d, compute, _] = device(&mut trace, "cuda:0");
    trace.span(span(h2d, Category::Upload, 0, 1_000, None));
    for (run, start_ns, length_ns) in [(0, 2_000, 90), (1, 3_000, 30), (2, 4_000, 50), (3, 5_000, 60)] {
        trace.span(span(compute, Category::Kernel, start_ns, start_ns + length_ns, Some(run)));
    }
    let summary = trace.summary();
    assert_eq!((summary.run, summary.tasks, summary.tasks_outside), (Some(2), 1, 1));
    let runs = summary.runs.unwrap();
    assert_eq!(runs.count, 4);
    close(runs.median_s, 50e-9);
    close(runs.min_s, 30e-9);
    close(runs.max_s, 90e-9);
    close(summary.outside_s, 1e-6);
    close(summary.idle_fraction.unwrap(), 0.0);
    assert_eq!(summary.critical_path.unwrap().steps.len(), 1);
}

#[test]
fn the_critical_path_follows_the_predecessor_that_ended_last() {
    let mut trace = Trace::default();
    pipeline(&mut trace, "cuda:0", 1_000, None);
    let path = trace.summary().critical_path.unwrap();
    let names: Vec<_> = path.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["upload 1000", "upload 1010", "kernel 1020", "download 1026"]);
    close(path.busy_s, 30e-9);
    close(path.gaps_s, 0.0);
    close(path.share, 1.0);
    assert_eq!(path.by_category[0].category, Category::Upload);
    close(path.by_category[0].share, 20.0 / 30.0);
    close(path.steps[2].start_s, 20e-9);
    let bottleneck = path.bottleneck;
    assert_eq!((bottleneck.kind, bottleneck.device.as_deref()), ("upload", Some("cuda:0")));
    close(bottleneck.time_s, 20e-9);
}

#[test]
fn gaps_of_the_critical_path_are_reported() {
    let mut trace = Trace::default();
    let [h2d, compute, _] = device(&mut trace, "cuda:0");
    let upload = trace.span(span(h2d, Category::Upload, 10, 20, None));
    let early = trace.span(span(h2d, Category::Upload, 0, 4, None));
    let kernel = trace.span(span(compute, Category::Kernel, 25, 40, None));
    trace.flow(upload, kernel);
    trace.flow(early, kernel);
    let path = trace.summary().critical_path.unwrap();
    let gaps: Vec<_> = path.steps.iter().map(|step| (step.gap_before_s * 1e9).round()).collect();
    assert_eq!(gaps, [0.0, 6.0, 5.0]);
    close(path.busy_s, 29e-9);
    close(path.gaps_s, 11e-9);
}

#[test]
fn gaps_longer_than_all_tasks_are_the_bottleneck() {
    let mut trace = Trace::default();
    let [h2d, compute, _] = device(&mut trace, "cuda:0");
    let upload = trace.span(span(h2d, Category::Upload, 0, 10, None));
    let kernel = trace.span(span(compute, Category::Kernel, 40, 60, None));
    trace.flow(upload, kernel);
    let bottleneck = trace.summary().critical_path.unwrap().bottleneck;
    assert_eq!((bottleneck.kind, bottleneck.device), ("waiting", None));
    close(bottleneck.time_s, 30e-9);
    close(bottleneck.share, 0.5);
}

#[test]
fn a_critical_path_ends_even_if_arrows_form_a_cycle() {
    let mut trace = Trace::default();
    let [h2d, compute, d2h] = device(&mut trace, "cuda:0");
    let spans = [h2d, compute, d2h].map(|lane| trace.span(span(lane, Category::Kernel, 5, 9, None)));
    for (from, to) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
        trace.flow(spans[from], spans[to]);
    }
    let path = trace.summary().critical_path.unwrap();
    assert_eq!(path.steps.len(), 3);
    close(path.busy_s, 4e-9);
}

#[test]
fn the_worst_predictions_have_the_largest_ratio_in_either_direction() {
    let mut trace = Trace::default();
    let [_, compute, _] = device(&mut trace, "cuda:0");
    let durations_us = [10, 40, 2, 11, 9, 12, 10];
    let mut now_ns = 0;
    for duration_us in durations_us {
        let mut span = span(compute, Category::Kernel, now_ns, now_ns + duration_us * 1000, None);
        span.name = format!("took {duration_us}");
        span.arguments.predicted_us = Some(10.0);
        now_ns = span.end_ns;
        trace.span(span);
    }
    trace.span(span(compute, Category::Kernel, now_ns, now_ns + 1, None));
    let predictions = trace.summary().predictions;
    assert_eq!(predictions.count, 7);
    close(predictions.predicted_s, 70e-6);
    close(predictions.measured_s, 94e-6);
    let worst: Vec<_> = predictions.worst.iter().map(|worst| worst.name.as_str()).collect();
    assert_eq!(worst, ["took 2", "took 40", "took 12", "took 9", "took 11"]);
    close(predictions.worst[0].ratio, 0.2);
}

#[test]
fn steps_of_the_program_are_timed_with_and_without_nested_steps() {
    let mut trace = Trace::default();
    let program = trace.process("rowloom");
    let [main, worker] = ["main", "worker"].map(|name| trace.lane(program, name));
    for (lane, name, start_ns, end_ns) in
        [(main, "run", 0, 100), (worker, "read", 5, 40), (main, "plan", 50, 60), (main, "plan", 60, 70)]
    {
        trace.span(Span { name: name.into(), ..span(lane, Category::Host, start_ns, end_ns, None) });
    }
    let summary = trace.summary();
    assert_eq!((summary.tasks, summary.runs, summary.idle_fraction), (0, None, None));
    assert!(summary.critical_path.is_none() && summary.devices.is_empty());
    let steps: Vec<_> = summary
        .host
        .iter()
        .map(|step| {
            (step.name.as_str(), step.count, (step.total_s * 1e9).round(), (step.own_s * 1e9).round())
        })
        .collect();
    assert_eq!(steps, [("run", 1, 100.0, 80.0), ("read", 1, 35.0, 35.0), ("plan", 2, 20.0, 20.0)]);
}

#[test]
fn an_empty_trace_has_an_empty_summary() {
    let summary = Trace::default().summary();
    assert_eq!((summary.tasks, summary.hidden_fraction), (0, None));
}
