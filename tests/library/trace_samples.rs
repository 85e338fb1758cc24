//! Writes a trace with every kind of event, which `.ci/view_traces` opens in real viewers.

use rowloom::internal::trace::{Arguments, Category, LaneId, Span, SpanId, Trace};

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Adds a streaming device whose lanes have no gaps between tasks where possible, so that spans are adjacent.
fn stream(trace: &mut Trace, name: &str, chunks: u64, numbers: &mut Numbers) {
    let process = trace.process(name);
    let lanes = ["h2d", "compute", "d2h"].map(|lane| trace.lane(process, lane));
    let kinds = [Category::Upload, Category::Kernel, Category::Download];
    // Times far from zero lower the resolution of the doubles that viewers compute with.
    let mut free_ns = [86_400_000_000_000u64; 3];
    for chunk in 0..chunks {
        let mut before: Option<(SpanId, u64)> = None;
        for ((&lane, &category), free_ns) in lanes.iter().zip(&kinds).zip(&mut free_ns) {
            let start_ns = before.map_or(*free_ns, |(_, end_ns)| end_ns.max(*free_ns));
            let end_ns = start_ns + numbers.below(3) * 997 + numbers.below(30_000);
            let arguments = Arguments {
                chunk: Some(chunk),
                rows: Some(4096),
                size: Some(("nnz".into(), 65_536)),
                bytes: Some(786_432),
                kernel: (category == Category::Kernel).then(|| "csr_scalar".into()),
                predicted_us: Some(17.25),
                gb_per_s: Some(786_432.0 / (end_ns - start_ns).max(1) as f64),
                run: Some(0),
            };
            let name = format!("{} {chunk}", category.name());
            let span = trace.span(Span { lane, name, category, start_ns, end_ns, arguments });
            if let Some((from, _)) = before {
                trace.flow(from, span);
            }
            trace.counter(process, "slots in use", start_ns, numbers.below(4) as f64);
            trace.counter(process, "bytes in flight", end_ns, numbers.below(1 << 30) as f64);
            before = Some((span, end_ns.max(start_ns + 1)));
            *free_ns = end_ns.max(start_ns + 1);
        }
    }
}

fn host(lane: LaneId, name: &str, start_ns: u64, end_ns: u64) -> Span {
    let arguments = Arguments::default();
    Span { lane, name: name.into(), category: Category::Host, start_ns, end_ns, arguments }
}

#[test]
fn a_trace_with_every_kind_of_event_is_written_for_the_viewers() {
    let mut trace = Trace::default();
    let program = trace.process("rowloom");
    let main = trace.lane(program, "main");
    let origin_ns = 86_400_000_000_000 - 5_000_000;
    trace.span(host(main, "run \"quoted\" \\ µ \u{1}</script>", origin_ns, origin_ns + 900_000_000));
    trace.span(host(main, "plan", origin_ns, origin_ns + 2_000_000));
    trace.span(host(main, "partition", origin_ns + 1_001, origin_ns + 2_000_000));
    trace.span(host(main, "prepare", origin_ns + 2_000_000, origin_ns + 4_999_999));
    // An inner span may precede its outer span, since spans are recorded when they end.
    trace.span(host(main, "multiply", origin_ns + 5_000_000, origin_ns + 6_000_000));
    trace.span(host(main, "repeat", origin_ns + 5_000_000, origin_ns + 800_000_000));
    let mut numbers = Numbers(7);
    stream(&mut trace, "cuda:0", 3_000, &mut numbers);
    stream(&mut trace, "cuda:1 \"µ\"", 2_000, &mut numbers);
    trace.clock_error("cuda:0", 1_200);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("everything.trace.json");
    trace.write(&path).unwrap();
    let read = Trace::read(&path).unwrap();
    assert_eq!((read.spans().len(), read.flows().len()), (15_006, 10_000));
    assert_eq!(read.adjustments().moved_spans, 0);
    println!("written to {}", path.display());
}
