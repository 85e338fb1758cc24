//! `rowloom trace`: the summary of a trace that the library wrote; other files are refused.

use crate::support::{Place, SMALL};
use rowloom::internal::trace::{Arguments, Category, Span, Trace};

/// Two runs, each with a copy, a second copy and a kernel whose first half overlaps it; and a step of the program. Tasks take
/// milliseconds; run 1 is the slower one.
fn sample(place: &Place, name: &str) -> Trace {
    let mut trace = Trace::default();
    let device = trace.process("emu:0");
    let [h2d, compute] = ["h2d", "compute"].map(|lane| trace.lane(device, lane));
    let program = trace.process("rowloom");
    let main = trace.lane(program, "main");
    let host = |name: &str, start_ns, end_ns| Span {
        lane: main,
        name: name.into(),
        category: Category::Host,
        start_ns,
        end_ns,
        arguments: Arguments::default(),
    };
    trace.span(host("run", 0, 500_000_000));
    trace.span(host("plan", 1_000_000, 3_000_000));
    for (run, origin_ms, slower) in [(0, 100, 1), (1, 300, 2)] {
        let mut add = |lane, name: &str, category, start_ms: u64, end_ms: u64| {
            let arguments = Arguments {
                run: Some(run),
                chunk: Some(0),
                predicted_us: Some(5000.0),
                ..Arguments::default()
            };
            let (start_ns, end_ns) =
                ((origin_ms + slower * start_ms) * 1_000_000, (origin_ms + slower * end_ms) * 1_000_000);
            trace.span(Span { lane, name: name.into(), category, start_ns, end_ns, arguments })
        };
        let first = add(h2d, "upload 0", Category::Upload, 0, 10);
        add(h2d, "upload 1", Category::Upload, 10, 15);
        let kernel = add(compute, "kernel 0", Category::Kernel, 10, 20);
        trace.flow(first, kernel);
    }
    trace.counter(device, "slots in use", 100_000_000, 1.0);
    trace.write(&place.path(name)).unwrap();
    trace
}

#[test]
fn a_trace_is_summarised_in_tables() {
    let place = Place::new();
    sample(&place, "run.json");
    let text = place.succeed("trace run.json").stdout;
    for part in [
        "8 spans, 2 dependencies, 1 counter value on 3 lanes",
        "bottleneck  upload on emu:0: 10.0 ms, 50.0% of the run",
        "20.0 ms for 3 tasks, product 1 of 2, the median (min 20.0 ms, max",
        "50.0% of copying or computing",
        "emu:0",
        "h2d",
        "critical path",
        "longest steps",
        "worst predictions",
        "own time",
    ] {
        assert!(text.contains(part), "'{part}' is not in\n{text}");
    }
}

#[test]
fn tables_of_a_trace_are_at_most_80_columns_wide() {
    let place = Place::new();
    place.succeed("run gen:stencil27,n=24 -k 32 --devices sim:node8x2 --trace nodes.json");
    place.succeed(
        "run gen:stencil27,n=24 -k 32 --devices sim:h200x2 --mode oneshot --chunks 24 --trace gpus.json",
    );
    for name in ["nodes.json", "gpus.json"] {
        let text = place.succeed(&format!("trace {name}")).stdout;
        assert!(text.contains("longest steps"), "{text}");
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

#[test]
fn the_json_object_holds_the_whole_summary() {
    let place = Place::new();
    sample(&place, "run.json");
    let report = place.json("trace run.json --json");
    assert_eq!(report["command"], "trace");
    assert_eq!(report["spans"], 8);
    let summary = &report["summary"];
    assert_eq!((&summary["run"], &summary["tasks"]), (&0.into(), &3.into()));
    assert_eq!(summary["hidden_fraction"], 0.5);
    assert_eq!(summary["idle_fraction"], 0.0);
    let steps = summary["critical_path"]["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["upload 0", "kernel 0"]);
    assert_eq!(steps[1]["category"], "kernel");
    assert_eq!(summary["devices"][0]["lanes"][1]["name"], "compute");
    assert_eq!(summary["predictions"]["worst"].as_array().unwrap().len(), 3);
    assert_eq!(summary["host"][1]["name"], "plan");
}

#[test]
fn a_trace_without_tasks_shows_the_steps_of_the_program() {
    let place = Place::new();
    let mut trace = Trace::default();
    trace.write(&place.path("empty.json")).unwrap();
    assert!(place.succeed("trace empty.json").stderr.contains("no tasks"));
    let program = trace.process("rowloom");
    let lane = trace.lane(program, "main");
    let arguments = Arguments::default();
    trace.span(Span {
        lane,
        name: "read".into(),
        category: Category::Host,
        start_ns: 0,
        end_ns: 9,
        arguments,
    });
    trace.write(&place.path("host.json")).unwrap();
    let text = place.succeed("trace host.json").stdout;
    assert!(
        text.contains("read") && !text.contains('\u{1b}'),
        "control characters of names reach the terminal: {text}"
    );
}

#[test]
fn other_files_are_input_errors() {
    let place = Place::new();
    place.write("a.mtx", SMALL);
    place.write(
        "other.json",
        "{\"traceEvents\":[{\"ph\":\"B\",\"ts\":1,\"pid\":1,\"tid\":1,\"name\":\"x\"}]}",
    );
    place.fail("trace none.json", 3, "none.json");
    place.fail("trace .", 3, "not a regular file");
    place.fail("trace a.mtx", 3, "a.mtx: this is not a trace that Rowloom wrote");
    place.fail("trace other.json --json", 3, "other.json: this is not a trace that Rowloom wrote");
    place.write("list.json", "[1,\n2]");
    place.fail("trace list.json", 3, "list.json: this is not a trace that Rowloom wrote");
    sample(&place, "run.json");
    let whole = place.read("run.json");
    for end in (0..whole.len()).step_by(97) {
        place.write("cut.json", &whole[..end]);
        place.fail("trace cut.json", 3, "cut.json");
    }
    place.fail("trace", 2, "--help");
}
