//! A trace reads back as written; spans of a lane never overlap; damaged files are refused.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::error::Error;

/// A folder with the file of a trace.
fn written(trace: &Trace) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    trace.write(&path).unwrap();
    (folder, path)
}

fn events(path: &Path) -> Vec<Value> {
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(file["displayTimeUnit"], "ms");
    file["traceEvents"].as_array().unwrap().clone()
}

fn task(lane: LaneId, name: &str, start_ns: u64, end_ns: u64) -> Span {
    let category = Category::Kernel;
    Span { lane, name: name.into(), category, start_ns, end_ns, arguments: Arguments::default() }
}

fn host(lane: LaneId, name: &str, start_ns: u64, end_ns: u64) -> Span {
    Span { category: Category::Host, ..task(lane, name, start_ns, end_ns) }
}

/// A trace with one lane.
fn one_lane() -> (Trace, LaneId) {
    let mut trace = Trace::default();
    let process = trace.process("cuda:0");
    let lane = trace.lane(process, "compute");
    (trace, lane)
}

/// Every kind of event, with names that need escaping.
fn full() -> Trace {
    let mut trace = Trace::default();
    let device = trace.process("cuda:0 \"first\"\\\n\u{1}");
    let program = trace.process("rowloom");
    let upload = trace.lane(device, "h2d");
    let compute = trace.lane(device, "compute µ");
    let main = trace.lane(program, "main");
    let arguments = Arguments {
        chunk: Some(3),
        rows: Some(u64::MAX),
        size: Some(("entries".into(), 0)),
        bytes: Some(1 << 40),
        kernel: Some("csr_\"subwarp\"".into()),
        predicted_us: Some(0.1 + 0.2),
        gb_per_s: Some(1e-300),
        run: Some(0),
    };
    let a = trace.span(Span { arguments, category: Category::Upload, ..task(upload, "A[0]", 1, 1_234_567) });
    let b = trace.span(task(compute, "chunk\t0 </script>", 1_234_567, 2_000_000));
    trace.span(host(main, "plan", 0, 900));
    trace.span(host(main, "partition", 10, 20));
    trace.flow(a, b);
    trace.counter(device, "slots in use", 5, 1.0);
    trace.counter(device, "slots in use", 1_234_567, -0.25);
    trace.counter(program, "bytes in flight", 7, 1e300);
    trace.metadata("configuration", json!({"k": 32, "devices": ["cpu", "cuda:0"]}));
    trace
}

#[test]
fn a_trace_reads_back_as_it_was() {
    let trace = full();
    trace.check().unwrap();
    let (_folder, path) = written(&trace);
    assert_eq!(Trace::read(&path).unwrap(), trace);
    assert_eq!(
        Trace::default().write(&path).map(|()| Trace::read(&path).unwrap()).unwrap(),
        Trace::default()
    );
}

#[test]
fn the_file_has_the_events_that_viewers_expect() {
    let (_folder, path) = written(&full());
    let events = events(&path);
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    assert_eq!(of("M").len(), 2 * (2 + 3), "each process and lane has a name and a position");
    assert_eq!(of("X").len(), 4);
    assert_eq!(of("C").len(), 3);
    let upload = of("X")[0];
    assert_eq!((&upload["ts"], &upload["dur"]), (&json!(0.001), &json!(1234.566)));
    assert_eq!(upload["cat"], "upload");
    assert_eq!(upload["args"]["bytes"], json!(1u64 << 40));
    assert_eq!(upload["args"]["kernel"], "csr_\"subwarp\"");
    let (start, end) = (of("s")[0], of("f")[0]);
    assert_eq!((&start["tid"], &end["tid"], &end["bp"]), (&upload["tid"], &of("X")[1]["tid"], &json!("e")));
    assert_eq!(start["ts"], json!(1234.566), "the arrow starts inside its source");
    assert_eq!(end["ts"], json!(1234.568), "the arrow ends inside its target");
}

#[test]
fn numbers_that_json_cannot_hold_are_left_out() {
    let (mut trace, lane) = one_lane();
    let arguments =
        Arguments { gb_per_s: Some(f64::INFINITY), predicted_us: Some(f64::NAN), ..Arguments::default() };
    trace.span(Span { arguments, ..task(lane, "a", 0, 1) });
    let process = trace.process("cuda:0");
    trace.counter(process, "slots", 0, f64::NAN);
    let read = Trace::read(&written(&trace).1).unwrap();
    assert_eq!(read.spans()[0].arguments, Arguments::default());
    assert_eq!(read.sample_count(), 0);
}

#[test]
fn an_overlap_of_tasks_is_found() {
    for (first, second) in [((0, 10), (9, 20)), ((0, 10), (2, 5)), ((5, 9), (5, 9))] {
        let (mut trace, lane) = one_lane();
        trace.span(task(lane, "a", first.0, first.1));
        trace.span(task(lane, "b", second.0, second.1));
        let error = trace.check().unwrap_err();
        assert_eq!(error.exit_code(), 70);
        assert!(error.to_string().contains("'a' and 'b' on lane 'cuda:0 compute'"), "{error}");
    }
}

#[test]
fn an_overlap_beyond_the_error_of_clocks_is_refused_and_writes_nothing() {
    let (mut trace, lane) = one_lane();
    trace.span(task(lane, "a", 0, 1_000_000));
    trace.span(task(lane, "b", 900_000, 2_000_000));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    assert!(matches!(trace.write(&path), Err(Error::Internal(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_overlap_within_the_error_of_clocks_is_moved_and_counted() {
    let (mut trace, lane) = one_lane();
    trace.span(task(lane, "b", 9_000, 20_000));
    trace.span(task(lane, "a", 0, 10_000));
    let read = Trace::read(&written(&trace).1).unwrap();
    assert_eq!((read.spans()[0].start_ns, read.spans()[0].end_ns), (10_000, 20_000));
    assert_eq!(read.spans()[1], trace.spans()[1]);
    assert_eq!(read.adjustments(), Adjustments { moved_spans: 1, most_moved_ns: 1_000, dropped_flows: 0 });
    read.check().unwrap();
}

#[test]
fn spans_of_length_zero_are_written_one_nanosecond_long() {
    let (mut trace, lane) = one_lane();
    for name in ["a", "b", "c"] {
        trace.span(task(lane, name, 5, 5));
    }
    trace.span(task(lane, "d", 5, 1_000_000));
    trace.check().unwrap();
    let read = Trace::read(&written(&trace).1).unwrap();
    let times: Vec<_> = read.spans().iter().map(|span| (span.start_ns, span.end_ns)).collect();
    assert_eq!(times, [(5, 6), (6, 7), (7, 8), (8, 1_000_000)]);
}

#[test]
fn spans_of_the_program_nest_and_those_of_tasks_do_not() {
    let (mut trace, lane) = one_lane();
    trace.span(host(lane, "run", 0, 100));
    trace.span(host(lane, "plan", 0, 40));
    trace.span(host(lane, "partition", 10, 40));
    trace.span(host(lane, "verify", 40, 100));
    trace.check().unwrap();
    trace.span(host(lane, "crossing", 90, 110));
    assert!(trace.check().is_err());
    let read = Trace::read(&written(&trace).1).unwrap();
    let times: Vec<_> = read.spans().iter().map(|span| (span.start_ns, span.end_ns)).collect();
    assert_eq!(times, [(0, 100), (0, 40), (10, 39), (40, 99), (100, 110)], "equal ends are separated");
    assert_eq!(read.adjustments().moved_spans, 1, "the crossing span");

    let (mut trace, lane) = one_lane();
    trace.span(host(lane, "run", 0, 100));
    trace.span(task(lane, "kernel", 10, 20));
    assert!(trace.check().is_err());
}

#[test]
fn a_span_inside_a_moved_span_moves_too() {
    let (mut trace, lane) = one_lane();
    trace.span(host(lane, "a", 10_000, 17_690));
    trace.span(host(lane, "moved behind a", 17_000, 27_000));
    trace.span(host(lane, "inside", 17_689, 22_000));
    let read = Trace::read(&written(&trace).1).unwrap();
    let times: Vec<_> = read.spans().iter().map(|span| (span.start_ns, span.end_ns)).collect();
    assert_eq!(times, [(10_000, 17_690), (17_690, 27_000), (17_690, 22_000)]);
}

#[test]
fn arrows_back_in_time_are_left_out_and_counted() {
    let (mut trace, lane) = one_lane();
    let process = trace.process("cuda:0");
    let other = trace.lane(process, "d2h");
    let early = trace.span(task(lane, "early", 0, 10));
    let late = trace.span(task(other, "late", 10, 20));
    trace.flow(late, early);
    trace.flow(early, late);
    let read = Trace::read(&written(&trace).1).unwrap();
    assert_eq!(read.flows(), [(early, late)]);
    assert_eq!(read.adjustments().dropped_flows, 1);
}

#[test]
fn times_beyond_the_limit_of_a_file_are_refused() {
    for (start_ns, end_ns) in [(2, 1), (0, u64::MAX)] {
        let (mut trace, lane) = one_lane();
        trace.span(task(lane, "a", start_ns, end_ns));
        assert_eq!(trace.check().unwrap_err().exit_code(), 70);
    }
}

#[test]
fn other_files_are_refused_with_path_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let whole = std::fs::read_to_string(written(&full()).1).unwrap();
    let cases: [(&str, &str); 12] = [
        ("", "cut short"),
        ("%%MatrixMarket matrix", "not a trace that Rowloom wrote"),
        ("[]", "not a trace that Rowloom wrote"),
        ("{}", "not a trace that Rowloom wrote"),
        ("{\"traceEvents\":[]}", "not a trace that Rowloom wrote"),
        ("{\"metadata\":{},\"traceEvents\":[]}", "not a trace that Rowloom wrote"),
        ("{\"metadata\":{\"rowloom_trace\":9},\"traceEvents\":[]}", "layout 9"),
        (&whole[..whole.len() / 2], "cut short"),
        (&whole.replace("\"kernel\",\"name\"", "\"sleep\",\"name\""), "unknown category 'sleep'"),
        (&whole.replace("\"dur\":1234.566", "\"dur\":-1"), "dur of -1 µs"),
        (&whole.replace("\"dur\":1234.566", "\"dur\":1e300"), "out of range"),
        (&whole.replace("\"args\":{\"to\":1}", "\"args\":{\"to\":0}"), "span 0"),
    ];
    for (content, part) in cases {
        std::fs::write(&path, content).unwrap();
        let error = Trace::read(&path).unwrap_err();
        assert_eq!(error.exit_code(), 3, "{content}");
        assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
        assert!(error.to_string().contains("trace.json"), "{error}");
    }
    assert_eq!(Trace::read(folder.path()).unwrap_err().exit_code(), 3);
    assert_eq!(Trace::read(&folder.path().join("none")).unwrap_err().exit_code(), 3);
}

#[test]
fn an_overlap_in_a_file_is_refused() {
    let (mut trace, lane) = one_lane();
    trace.span(task(lane, "a", 0, 10));
    trace.span(task(lane, "b", 10, 20));
    let (_folder, path) = written(&trace);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replacen("\"dur\":0.010", "\"dur\":0.011", 1)).unwrap();
    let error = Trace::read(&path).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains("overlap by 1 ns"), "{error}");
}

proptest! {
    /// Consecutive spans inside one that ends just after the last: exact after reading, and in order for viewers that add doubles, with or
    /// without subtracting the first start of the lane.
    #[test]
    fn touching_spans_never_overlap_in_doubles(
        origin_ns in prop_oneof![0u64..5_000, 0u64..1 << 49],
        pause_ns in prop_oneof![Just(0u64), 0u64..1 << 40],
        lengths in prop::collection::vec(1u64..5_000_000, 1..60),
    ) {
        let (mut trace, lane) = one_lane();
        let whole: u64 = lengths.iter().sum();
        trace.span(host(lane, "first", origin_ns, origin_ns + 1));
        let mut now_ns = origin_ns + 1 + pause_ns;
        trace.span(host(lane, "outer", now_ns, now_ns + whole + 1));
        for &length in &lengths {
            trace.span(host(lane, "a", now_ns, now_ns + length));
            now_ns += length;
        }
        let (_folder, path) = written(&trace);
        prop_assert_eq!(&Trace::read(&path).unwrap(), &trace);
        let events = events(&path);
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
        for subtracted in [0.0, number(spans[0], "ts")] {
            let start = |event: &Value| number(event, "ts") - subtracted;
            let end = |event: &Value| start(event) + number(event, "dur");
            for pair in spans[2..].windows(2) {
                prop_assert!(end(pair[0]) <= start(pair[1]), "{} {}", pair[0], pair[1]);
            }
            prop_assert!(end(spans[spans.len() - 1]) < end(spans[1]), "the last span ends after the outer one");
        }
    }

    /// Any spans on a lane: the file keeps the rules, or no file is written.
    #[test]
    fn a_written_file_keeps_the_rules(
        nests in any::<bool>(),
        spans in prop::collection::vec((0u64..20_000, 0u64..20_000), 0..12),
    ) {
        let (mut trace, lane) = one_lane();
        for (start_ns, length) in spans {
            let make = if nests { host } else { task };
            trace.span(make(lane, "a", start_ns, start_ns + length));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        if trace.write(&path).is_ok() {
            let read = Trace::read(&path).unwrap();
            let times: Vec<_> = read.spans().iter().map(|span| (span.start_ns, span.end_ns)).collect();
            for (i, a) in times.iter().enumerate() {
                prop_assert!(a.0 < a.1);
                for b in &times[..i] {
                    let apart = a.1 <= b.0 || b.1 <= a.0;
                    let inside = (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1);
                    prop_assert!(apart || (nests && inside), "{a:?} {b:?}");
                }
            }
        }
    }
}
