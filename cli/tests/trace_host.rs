//! The program's own spans join a trace on its clock. A process has one recorder, so this file has one test.

use rowloom::internal::matrix::generate;
use rowloom::internal::trace::{Category, Clock, Span, Trace};
use rowloom_cli::{HostSpans, PROGRAM};

fn named<'a>(trace: &'a Trace, name: &str) -> &'a Span {
    trace.spans().iter().find(|span| span.name == name).unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn host_spans_join_the_trace_on_its_clock_one_recording_after_the_other() {
    // Nothing listens yet.
    tracing::info_span!(target: "rowloom", "before").in_scope(|| ());

    let clock = Clock::start();
    let recording = HostSpans::start(&clock).unwrap();
    assert!(HostSpans::start(&clock).is_err(), "two recordings at once would mix");
    let before_ns = clock.now_ns();
    let (mut inner_before_ns, mut inner_after_ns) = (0, 0);
    tracing::info_span!(target: "rowloom", "outer", rows = 7, kernel = "csr").in_scope(|| {
        tracing::debug_span!(target: "rowloom", "too fine").in_scope(|| ());
        tracing::info_span!(target: "elsewhere", "not ours").in_scope(|| ());
        inner_before_ns = clock.now_ns();
        tracing::info_span!(target: "rowloom", "inner \"quoted\"")
            .in_scope(|| inner_after_ns = clock.now_ns());
    });
    let after_ns = clock.now_ns();
    std::thread::Builder::new()
        .name("worker".into())
        .spawn(|| generate::<f64>("stencil5,n=10", 1, u64::MAX).map(drop))
        .unwrap()
        .join()
        .unwrap()
        .unwrap();
    let still_open = tracing::info_span!(target: "rowloom", "still open").entered();
    let mut trace = Trace::default();
    let program = trace.process(PROGRAM);
    trace.lane(program, "worker");
    recording.finish(&mut trace).unwrap();
    drop(still_open);
    trace.check().unwrap();

    let names: Vec<_> = trace.spans().iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["outer", "inner \"quoted\"", "still open", "generate matrix"]);
    assert!(trace.spans().iter().all(|span| span.category == Category::Host));
    let lanes: Vec<_> = trace.lanes().map(|(process, lane)| (process.to_owned(), lane.to_owned())).collect();
    assert_eq!(lanes.len(), 3);
    assert_eq!(lanes[2], (PROGRAM.into(), "worker (2)".into()), "a thread never shares a lane");

    let alignment = trace.metadata_value("clock_alignment").unwrap();
    let error_ns = alignment["host"]["error_ns"].as_u64().unwrap();
    println!("the clocks are tied to within {error_ns} ns");
    let (outer, inner) = (named(&trace, "outer"), named(&trace, "inner \"quoted\""));
    assert_eq!((outer.arguments.rows, outer.arguments.kernel.as_deref()), (Some(7), Some("csr")));
    assert!(outer.start_ns + error_ns >= before_ns && outer.end_ns <= after_ns + error_ns);
    assert!(inner.start_ns + error_ns >= inner_before_ns && inner.end_ns + error_ns >= inner_after_ns);
    assert!(outer.start_ns <= inner.start_ns && inner.end_ns <= outer.end_ns);

    // A recording that is given up leaves nothing behind; the next one knows the threads.
    drop(HostSpans::start(&clock).unwrap());
    tracing::info_span!(target: "rowloom", "between").in_scope(|| ());
    let recording = HostSpans::start(&clock).unwrap();
    tracing::info_span!(target: "rowloom", "again").in_scope(|| ());
    let mut second = Trace::default();
    recording.finish(&mut second).unwrap();
    let names: Vec<_> = second.spans().iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["again"]);
    assert!(second.spans()[0].start_ns >= trace.spans().iter().map(|span| span.end_ns).max().unwrap());
    assert_eq!(second.lanes().next(), trace.lanes().nth(1));
}
