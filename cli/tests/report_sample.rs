//! A report with every kind of content, written to `target/tmp`, so that `.ci/view_report` can open it in a browser.
//!
//! Its numbers are made up: they show the report, not a machine.

use std::fs;
use std::path::Path;

use rowloom_cli::plots::{
    Answer, Axis, Bars, Ceiling, Cell, Column, Figure, HeatMap, Lane, Lines, Missing, Panel, Plot, Point,
    Report, Roofline, RooflinePoint, Scale, Series, SeriesStyle, Span, Table, Timeline, WarningGroup, html,
    share_colours, svg, timeline_svg,
};

const KERNELS: [&str; 10] = [
    "csr-scalar",
    "csr-vector",
    "csr-merge",
    "csr-balanced",
    "ell-row",
    "ell-column",
    "sell-32",
    "sell-sorted",
    "hybrid",
    "tiled",
];
const MATRICES: [&str; 6] = ["cage4", "cant", "olafu", "Cube_Coup_dt0", "west2021", "adder_dcop_32"];

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), scale, from_zero: true }
}

fn series(name: &str, style: SeriesStyle, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let points =
        points.into_iter().map(|(x, y)| Point { x, y, low: None, high: None, label: None }).collect();
    Series { name: name.into(), points, style }
}

fn with_spread(mut series: Series, share: f64) -> Series {
    for (index, point) in series.points.iter_mut().enumerate() {
        let spread = point.y * share * (1.0 + index as f64 / 3.0);
        (point.low, point.high) = (Some(point.y - spread), Some(point.y + spread));
        point.label = Some(format!("{} samples", 10 + index));
    }
    series
}

fn figure(id: &str, title: &str, caption: &str, plot: Plot) -> Figure {
    let panels = vec![Panel { title: String::new(), plot }];
    let (missing, colours) = (Vec::new(), Vec::new());
    Figure { id: id.into(), title: title.into(), caption: caption.into(), panels, missing, colours }
}

/// Small multiples: the same series on six matrices, with two kernels that were not measured.
fn panels() -> Figure {
    let widths = [1.0, 8.0, 64.0];
    let panel = |(row, matrix): (usize, &&str)| {
        let line = |index: usize| widths.map(|k| (k, 10f64.powi(row as i32) * k / (k + 3.0 + index as f64)));
        let series = KERNELS.iter().enumerate();
        let series = series.map(|(index, name)| series_of(name, line(index))).collect();
        let (x, y) = (axis("K, columns of X", Scale::Log2), axis("rate (GFLOP/s)", Scale::Linear));
        Panel { title: (*matrix).into(), plot: Plot::Lines(Lines { x, y, series }) }
    };
    let missing = |name: &str| Missing { name: name.into(), measured: false, reason: "needs a GPU".into() };
    Figure {
        id: "panels".into(),
        title: "How does the rate depend on K?".into(),
        caption: "One panel for each matrix, with axes of its own.".into(),
        panels: MATRICES.iter().enumerate().map(panel).collect(),
        missing: vec![missing("csr_vector"), missing("csr_adaptive_subblocks")],
        colours: Vec::new(),
    }
}

fn series_of(name: &str, points: [(f64, f64); 3]) -> Series {
    series(name, SeriesStyle::Measured, points)
}

/// A pseudo-random number between 0 and 1, the same for the same seed.
fn noise(seed: usize) -> f64 {
    (seed as f64 * 12.9898).sin().mul_add(43758.5453, 0.0).rem_euclid(1.0)
}

fn scaling() -> Figure {
    let threads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let amdahl = |serial: f64| threads.map(|t| (t, 1.0 / (serial + (1.0 - serial) / t)));
    figure(
        "scaling",
        "How much faster are more threads?",
        "Rate over the rate with one thread. Error bars: noise of the median (95 %).",
        Plot::Lines(Lines {
            x: axis("threads", Scale::Log2),
            y: axis("speed-up over one thread", Scale::Log2),
            series: vec![
                series("ideal", SeriesStyle::Reference, threads.map(|t| (t, t))),
                with_spread(series("csr-balanced", SeriesStyle::Measured, amdahl(0.012)), 0.02),
                with_spread(series("sell-32", SeriesStyle::Measured, amdahl(0.04)), 0.02),
                series("csr-balanced, predicted", SeriesStyle::Predicted, amdahl(0.008)),
                series("sell-32, predicted", SeriesStyle::Predicted, amdahl(0.05)),
            ],
        }),
    )
}

fn efficiency() -> Figure {
    let threads = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];
    let line = |serial: f64| threads.map(|t| (t, 100.0 / (serial * t + (1.0 - serial))));
    let mut figure_series = vec![series("ideal", SeriesStyle::Reference, [(1.0, 100.0), (16.0, 100.0)])];
    for (index, kernel) in KERNELS.iter().enumerate() {
        figure_series.push(series(kernel, SeriesStyle::Measured, line(0.005 * (index + 1) as f64)));
    }
    figure(
        "efficiency",
        "How efficient are more threads?",
        "Ten kernels, each with a colour and a marker of its own.",
        Plot::Lines(Lines {
            x: axis("threads", Scale::Linear),
            y: axis("efficiency (%)", Scale::Linear),
            series: figure_series,
        }),
    )
}

fn rate_by_k() -> Figure {
    let widths = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let line = |top: f64| widths.map(|k| (k, top * k / (k + 11.0)));
    let mut broken = series("with gaps", SeriesStyle::Measured, line(60.0));
    broken.points[2].y = f64::NAN;
    broken.points[5].y = f64::INFINITY;
    figure(
        "rate-by-k",
        "Which kernel is fastest at which K?",
        "Two of the values are not finite; the figure counts them.",
        Plot::Lines(Lines {
            x: axis("K, columns of X", Scale::Log2),
            y: axis("rate (GFLOP/s)", Scale::Linear),
            series: vec![
                with_spread(series("csr-scalar", SeriesStyle::Measured, line(40.0)), 0.03),
                with_spread(
                    series("<script>alert('x')</script> & \"quotes\"", SeriesStyle::Measured, line(110.0)),
                    0.03,
                ),
                broken,
            ],
        }),
    )
}

fn share_against_time() -> Figure {
    let shares: Vec<f64> = (0..=20).map(|step| f64::from(step) * 5.0).collect();
    let time = |share: f64| (share * 0.31).max((100.0 - share) * 0.12) + 1.4;
    figure(
        "cpu-share",
        "Which CPU share is fastest?",
        "Time of one product by the share of it that the CPU computes.",
        Plot::Lines(Lines {
            x: axis("CPU's share of the nonzeros (%)", Scale::Linear),
            y: axis("time of one product (ms)", Scale::Linear),
            series: vec![
                with_spread(
                    series(
                        "measured",
                        SeriesStyle::Measured,
                        shares.iter().map(|s| (*s, time(*s) * (1.0 + 0.06 * noise(*s as usize)))),
                    ),
                    0.01,
                ),
                series("predicted", SeriesStyle::Predicted, shares.iter().map(|s| (*s, time(*s)))),
            ],
        }),
    )
}

fn heat_map(columns: usize) -> Figure {
    let value = |row: usize, column: usize| {
        let missing = (row, column) == (3, 4) || (row, column) == (5, 1);
        (!missing).then(|| 8.0 + 120.0 * noise(row * 31 + column * 7) * (1.0 + row as f64 / 4.0))
    };
    figure(
        &format!("kernels-{columns}"),
        "Which kernel is fastest?",
        "K = 32, f64, 16 threads.",
        Plot::HeatMap(HeatMap {
            x_label: "matrix".into(),
            y_label: "kernel".into(),
            value_label: "rate (GFLOP/s)".into(),
            columns: MATRICES.iter().cycle().take(columns).map(|name| (*name).to_string()).collect(),
            rows: KERNELS.map(String::from).to_vec(),
            values: (0..KERNELS.len())
                .map(|row| (0..columns).map(|column| value(row, column)).collect())
                .collect(),
            larger_is_better: true,
        }),
    )
}

fn roofline() -> Figure {
    let mut points = Vec::new();
    for (column, kernel) in KERNELS.iter().take(5).enumerate() {
        for (row, matrix) in MATRICES.iter().enumerate() {
            let flops_per_byte = 0.12 + 0.35 * row as f64 + 0.02 * column as f64;
            let gflops = (flops_per_byte * 180.0).min(900.0) * (0.35 + 0.6 * noise(row * 13 + column));
            points.push(RooflinePoint {
                name: format!("{kernel} on {matrix}"),
                group: (*kernel).into(),
                flops_per_byte,
                gflops,
            });
        }
    }
    let ceiling = |name: &str, gb_per_s, peak_gflops| Ceiling { name: name.into(), gb_per_s, peak_gflops };
    figure(
        "roofline",
        "How near to the roofline is each kernel?",
        "Bytes: A, X and Y once each.",
        Plot::Roofline(Roofline {
            ceilings: vec![
                ceiling("memory", 180.0, Some(1100.0)),
                ceiling("third-level cache", 620.0, Some(1100.0)),
                ceiling("link", 24.0, None),
            ],
            points,
        }),
    )
}

fn bars(id: &str, categories: usize, kinds: usize) -> Figure {
    let names = MATRICES.iter().cycle().take(categories).enumerate();
    let series = |index: usize| {
        let values = (0..categories).map(|at| (at + index != 3).then(|| 3.0 + 90.0 * noise(at * 5 + index)));
        (["rowloom", "cusparse", "mkl", "scipy"][index % 4].to_string(), values.collect())
    };
    figure(
        id,
        "How does Rowloom compare with the vendors' libraries?",
        "Median of at least ten runs.",
        Plot::Bars(Bars {
            y: axis("rate (GFLOP/s)", Scale::Linear),
            categories: names
                .map(|(index, name)| if index < 6 { (*name).into() } else { format!("{name}-{index}") })
                .collect(),
            series: (0..kinds).map(series).collect(),
        }),
    )
}

fn conversions() -> Table {
    let column = |name: &str, unit: Option<&str>, numeric| Column {
        name: name.into(),
        unit: unit.map(String::from),
        numeric,
    };
    let mut rows = Vec::new();
    for (row, matrix) in MATRICES.iter().enumerate() {
        for (index, kernel) in KERNELS.iter().enumerate() {
            let rate = 1.0 + 200.0 * noise(row * 17 + index);
            rows.push(vec![
                Cell::Text((*matrix).into()),
                Cell::Text((*kernel).into()),
                Cell::Number(2f64.powi(index as i32), 0),
                if (row, index) == (2, 3) { Cell::Empty } else { Cell::Number(rate, 2) },
                Cell::Number(1234.5678 / rate, 3),
                Cell::Number(
                    if (row, index) == (1, 1) { f64::NAN } else { 0.4 * noise(row + index) - 0.2 },
                    3,
                ),
            ]);
        }
    }
    Table {
        id: "cases".into(),
        title: "Every case".into(),
        caption: "In all rows: type f64, threads 16.".into(),
        columns: vec![
            column("Matrix", None, false),
            column("Kernel", None, false),
            column("K", None, true),
            column("Rate", Some("GFLOP/s"), true),
            column("Median", Some("ms"), true),
            column("Against prediction", Some("log10"), true),
        ],
        rows,
    }
}

fn short_table() -> Table {
    let column = |name: &str, numeric| Column { name: name.into(), unit: None, numeric };
    let row = |name: &str, value: Cell| vec![Cell::Text(name.into()), value];
    Table {
        id: "hostile".into(),
        title: "Names that try to leave the page: </script><img src=x onerror=alert(1)>".into(),
        caption: String::new(),
        columns: vec![column("Name", false), column("Value", true)],
        rows: vec![
            row("</td></table><script>document.title='broken'</script>", Cell::Number(10.0, 1)),
            row("a,\"b\"", Cell::Number(-2.5, 1)),
            row("nothing", Cell::Empty),
            row("nine", Cell::Number(9.0, 1)),
            row("large", Cell::Number(1_234_567.0, 1)),
        ],
    }
}

/// Chunks on the three streams of a GPU, while the CPU computes.
fn run(title: &str, chunks: usize) -> Timeline {
    let lane = |process: &str, name: &str| Lane { process: process.into(), name: name.into() };
    let mut spans = Vec::new();
    let mut add =
        |lane: usize, kind: &str, chunk: usize, [start_s, length]: [f64; 2], predicted: [f64; 2]| {
            spans.push(Span {
                lane,
                name: format!("{kind} {chunk}"),
                kind: kind.into(),
                start_s,
                end_s: start_s + length,
                predicted_start_s: Some(predicted[0]),
                predicted_end_s: Some(predicted[0] + predicted[1]),
                details: vec![
                    ("chunk".into(), chunk.to_string()),
                    ("rows".into(), format!("{}..{}", chunk * 4096, (chunk + 1) * 4096)),
                    ("bytes".into(), format!("{:.1} MiB", 1.0 + 4.0 * noise(chunk))),
                ],
            });
        };
    // The measured and the predicted time at which each stream is free.
    let mut free = [[0.0; 2]; 4];
    for chunk in 0..chunks {
        let length = |kind: usize| [180e-6 * (0.8 + 0.5 * noise(chunk * 3 + kind)), 185e-6];
        let mut ready = [0.0; 2];
        for (stream, kind) in ["upload", "kernel", "download"].into_iter().enumerate() {
            let length = length(stream).map(|seconds| if stream == 2 { seconds * 0.6 } else { seconds });
            let start = [0, 1].map(|which| f64::max(ready[which], free[stream][which]));
            ready = [0, 1].map(|which| start[which] + length[which]);
            free[stream] = ready;
            add(stream, kind, chunk, [start[0], length[0]], [start[1], length[1]]);
        }
        if chunk % 3 == 0 {
            let (start, length) = (free[3], length(4).map(|seconds| seconds * 2.9));
            free[3] = [0, 1].map(|which| start[which] + length[which]);
            add(3, "kernel", chunk, [start[0], length[0]], [start[1], length[1]]);
            add(4, "host", chunk, [start[0], length[0] * 0.9], [start[1], length[1] * 0.9]);
            add(4, "merge", chunk, [start[0] + 40e-6, length[0] * 0.3], [start[1] + 30e-6, length[1] * 0.3]);
        }
    }
    Timeline {
        title: title.into(),
        caption: "Uploads, kernels and downloads overlap; outlines show the predicted times.".into(),
        lanes: vec![
            lane("cuda:0", "upload"),
            lane("cuda:0", "compute"),
            lane("cuda:0", "download"),
            lane("cpu", "workers"),
            lane("program", "coordinator"),
        ],
        spans,
    }
}

fn sample() -> Report {
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect::<Vec<_>>()
    };
    let nothing =
        Lines { x: axis("K", Scale::Log2), y: axis("rate (GFLOP/s)", Scale::Linear), series: Vec::new() };
    Report {
        title: "A sample report".into(),
        subtitle: "Every kind of plot, table and timeline; the numbers are made up".into(),
        facts: vec![
            (
                "Machine".into(),
                pairs(&[
                    ("Host", "example"),
                    ("Processor", "2 × 32 cores at 2.9 GHz"),
                    ("Memory", "256 GiB in 2 NUMA nodes"),
                    ("GPU", "GPU-0f3a2c11-77aa-4c1e-9d0e-1234567890ab, 141 GiB"),
                ]),
            ),
            (
                "Program".into(),
                pairs(&[("Version", "0.1.0"), ("Revision", "0123456789abcdef0123456789abcdef01234567")]),
            ),
            (
                "Study".into(),
                pairs(&[("Cases", "60"), ("Seed", "1"), ("Started", "2026-01-01 12:00:00 UTC")]),
            ),
        ],
        configuration: "[study]\nname = \"sample\" # </script>\nk = [1, 2, 4, 8]\n".into(),
        commands: pairs(&[
            ("The whole study", "rowloom study configs/quick.toml --output quick"),
            (
                "The run of the timeline",
                "rowloom run 'gen:stencil27,n=64' --k 32 --devices cpu,emu:0 --mode stream --verify --trace timeline.json --repeat 10 --seed 1",
            ),
        ]),
        answers: vec![
            Answer {
                question: "kernels: which kernel is fastest?".into(),
                sentence: "The fastest is sell-32 in 4 of 6 cases; tiled in 2. The difference exceeds the noise in 5 of 6 measured cases.".into(),
                cases: Some(Table { title: "The winner of each of the 5 cases".into(), ..short_table() }),
            },
            Answer {
                question: "devices: which set of devices is fastest?".into(),
                sentence: "Nothing was measured. 12 results were not measured: there is no CUDA driver.".into(),
                cases: None,
            },
        ],
        warnings: vec![
            WarningGroup {
                cause: "The clock frequency fell: the machine was throttling".into(),
                items: vec!["csr-scalar on cant: 12 %".into(), "sell-32 on olafu: 8 %".into()],
            },
            WarningGroup { cause: "mkl is not installed".into(), items: Vec::new() },
        ],
        figures: vec![
            panels(),
            scaling(),
            efficiency(),
            rate_by_k(),
            share_against_time(),
            roofline(),
            bars("peers", 5, 3),
            heat_map(10),
            heat_map(4),
            bars("single", 6, 1),
            bars("many", 20, 4),
            figure("nothing", "A figure without data", "", Plot::Lines(nothing)),
        ],
        tables: vec![
            conversions(),
            short_table(),
            Table {
                id: "none".into(),
                title: "A table without rows".into(),
                rows: Vec::new(),
                ..short_table()
            },
        ],
        timelines: vec![run("A run of 24 chunks", 24), run("A run of 5,000 chunks: 20,000 spans", 5000)],
    }
}

#[test]
fn a_report_with_every_kind_of_content_is_written_for_the_browser_check() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut report = sample();
    share_colours(&mut report.figures);
    let spans: usize = report.timelines.iter().map(|timeline| timeline.spans.len()).sum();
    assert!(spans > 20_000, "only {spans} spans");
    fs::write(folder.join("sample-report.html"), html(&report)).unwrap();
    for figure in &report.figures {
        fs::write(folder.join(format!("sample-{}.svg", figure.id)), svg(figure)).unwrap();
    }
    fs::write(folder.join("sample-timeline.svg"), timeline_svg(&report.timelines[0])).unwrap();
}
