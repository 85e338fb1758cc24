//! Properties of every figure: nothing is dropped silently, colours are stable and unique, labels are whole and inside.

use roxmltree::{Document, Node};

use super::appearance::COLOURS;
use super::canvas::Canvas;
use super::text::text_width;
use super::ticks::Ticks;
use super::*;

fn axis(scale: Scale) -> Axis {
    Axis { label: "rate (GFLOP/s)".into(), scale, from_zero: true }
}

fn lines(names: &[String], top: f64) -> Plot {
    let point = |x: f64, y: f64| Point { x, y, low: None, high: None, label: None };
    let series = |(index, name): (usize, &String)| Series {
        name: name.clone(),
        points: vec![point(1.0, top), point(8.0, top / (index + 2) as f64)],
        style: SeriesStyle::Measured,
    };
    let series = names.iter().enumerate().map(series).collect();
    Plot::Lines(Lines { x: axis(Scale::Log2), y: axis(Scale::Linear), series })
}

fn bars(categories: &[String], names: &[String]) -> Plot {
    let values = || categories.iter().enumerate().map(|(index, _)| Some(1.0 + index as f64)).collect();
    let series = names.iter().map(|name| (name.clone(), values())).collect();
    Plot::Bars(Bars { y: axis(Scale::Linear), categories: categories.to_vec(), series })
}

fn heat_map(rows: &[String], columns: &[String]) -> Plot {
    Plot::HeatMap(HeatMap {
        x_label: "K".into(),
        y_label: "kernel".into(),
        value_label: "rate (GFLOP/s)".into(),
        columns: columns.to_vec(),
        rows: rows.to_vec(),
        values: vec![vec![Some(12.0); columns.len()]; rows.len()],
        larger_is_better: true,
    })
}

fn roofline(names: &[String]) -> Plot {
    let ceiling =
        Ceiling { name: "memory of cpu, 16 threads".into(), gb_per_s: 180.0, peak_gflops: Some(900.0) };
    let point = |name: &String| RooflinePoint {
        name: name.clone(),
        group: name.clone(),
        flops_per_byte: 0.3,
        gflops: 20.0,
    };
    Plot::Roofline(Roofline { ceilings: vec![ceiling], points: names.iter().map(point).collect() })
}

fn figure(panels: Vec<(&str, Plot)>) -> Figure {
    let panels = panels.into_iter().map(|(title, plot)| Panel { title: title.into(), plot }).collect();
    Figure { id: "f".into(), title: "Which kernel is fastest?".into(), panels, ..Figure::default() }
}

fn named(word: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{word}{index}")).collect()
}

fn long_names(count: usize) -> Vec<String> {
    (0..count)
        .map(|index| format!("csr_adaptive_subblocks_{index} on uniform,rows=2000000,degree=16"))
        .collect()
}

fn has_class(node: &Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
}

#[test]
fn every_series_is_drawn_and_in_the_legend_and_missing_ones_are_named_with_the_reason() {
    let mut figure =
        figure(vec![("cant", lines(&named("kernel", 30), 9.0)), ("olafu", lines(&named("kernel", 30), 5.0))]);
    let missing =
        |name: &str, measured, reason: &str| Missing { name: name.into(), measured, reason: reason.into() };
    figure.missing = vec![
        missing("csr_vector", false, "needs a GPU"),
        missing("serial_csr", true, "runs on one thread"),
        missing("csr_adaptive", false, "needs a GPU"),
    ];
    let picture = svg(&figure);
    let document = Document::parse(&picture).unwrap();
    let count = |class: &str| document.descendants().filter(|node| has_class(node, class)).count();
    assert_eq!((count("series"), count("legend")), (60, 30));
    assert!(picture.contains("not measured: csr_vector, csr_adaptive (needs a GPU)"), "{picture}");
    assert!(picture.contains("not shown: serial_csr (runs on one thread)"));
}

#[test]
fn no_two_series_of_a_figure_look_the_same() {
    let names = named("kernel", 4 * COLOURS);
    for plot in [lines(&names, 9.0), roofline(&names), bars(&named("c", 2), &names)] {
        let picture = svg(&figure(vec![("", plot)]));
        let document = Document::parse(&picture).unwrap();
        let appearance = |entry: Node<'_, '_>| -> String {
            let parts = entry.descendants().filter(|node| node.is_element() && !has_class(node, "hit"));
            let text = |node: Node<'_, '_>| {
                let of = |name| node.attribute(name).unwrap_or_default().to_string();
                if node.tag_name().name() == "text" { String::new() } else { of("class") + &of("d") }
            };
            parts.skip(2).map(text).collect()
        };
        let mut seen: Vec<String> =
            document.descendants().filter(|node| has_class(node, "legend")).map(appearance).collect();
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
        assert!(count >= names.len());
    }
    // As many series as there are colours: no colour twice.
    let mut colours: Vec<String> = (0..COLOURS).map(|index| appearance::Appearance(index).colour()).collect();
    colours.dedup();
    assert_eq!(colours.len(), COLOURS);
}

#[test]
fn the_colours_of_the_sheet_are_far_apart_on_light_and_on_dark() {
    let sheet = include_str!("assets/figure.css");
    let page = include_str!("assets/report.css");
    let rules: Vec<(usize, [i32; 3])> = sheet
        .lines()
        .filter_map(|line| {
            let (number, rest) = line.trim().strip_prefix(".plot .c")?.split_once(" { color: #")?;
            let value = i32::from_str_radix(rest.get(..6)?, 16).ok()?;
            assert!(
                page.contains(&format!("--c{number}: #{};", &rest[..6])),
                "the page has another c{number}"
            );
            Some((number.parse().ok()?, [value >> 16, value >> 8 & 255, value & 255]))
        })
        .collect();
    assert_eq!(rules.len(), 2 * COLOURS);
    for scheme in rules.chunks(COLOURS) {
        for (index, (number, one)) in scheme.iter().enumerate() {
            for (other_number, other) in &scheme[index + 1..] {
                let distance: i32 = one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum();
                assert!(distance > 45 * 45, "c{number} and c{other_number} are {distance} apart");
            }
        }
    }
}

#[test]
fn a_series_has_one_colour_in_all_figures_of_a_report() {
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        figure(vec![("", lines(&names, 9.0))])
    };
    let mut figures = [of(&["a", "b", "c"]), of(&["c", "d"]), of(&["d", "e", "a"]), of(&["b"])];
    share_colours(&mut figures);
    let classes = |figure: &Figure| -> Vec<(String, String)> {
        let picture = svg(figure);
        let document = Document::parse(&picture).unwrap();
        let legends = document.descendants().filter(|node| has_class(node, "legend"));
        let entry = |node: Node<'_, '_>| {
            let name = node.first_element_child().unwrap().text().unwrap().to_string();
            let group = node.children().find(|child| child.tag_name().name() == "g").unwrap();
            (name, group.attribute("class").unwrap().to_string())
        };
        legends.map(entry).collect()
    };
    let mut all: Vec<(String, String)> = figures.iter().flat_map(classes).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5, "{all:?}");
}

/// The corners of a text as its width is estimated, after all transforms.
fn corners(node: Node<'_, '_>) -> Vec<(f64, f64)> {
    let number = |name: &str| node.attribute(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let size = match node.attribute("class").unwrap_or_default() {
        class if class.contains("title") => 15.0,
        class if class.contains("tick") || class.contains("missing") || class.contains("cell") => 11.0,
        class if class.contains("number") || class.contains("onbar") => 10.0,
        _ => 12.0,
    };
    let text: String = node.children().filter_map(|child| child.text().filter(|_| child.is_text())).collect();
    // The estimate is an upper bound; Chromium's default sans serif takes nine tenths of it at most.
    let width = 0.9 * text_width(&text, size);
    let from = match node.attribute("text-anchor") {
        Some("middle") => -width / 2.0,
        Some("end") => -width,
        _ => 0.0,
    };
    let (x, y) = (number("x"), number("y"));
    let mut points = vec![
        (x + from, y),
        (x + from + width, y),
        (x + from, y - 0.8 * size),
        (x + from + width, y - 0.8 * size),
    ];
    for ancestor in node.ancestors() {
        let Some(transform) = ancestor.attribute("transform") else { continue };
        let numbers: Vec<f64> = transform
            .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
            .filter_map(|word| word.parse().ok())
            .collect();
        let angle = numbers.get(2).copied().unwrap_or(0.0f64).to_radians();
        for point in &mut points {
            let (x, y) = *point;
            *point = (
                x * angle.cos() - y * angle.sin() + numbers[0],
                x * angle.sin() + y * angle.cos() + numbers[1],
            );
        }
    }
    points
}

#[test]
fn every_label_is_whole_and_inside_the_figure() {
    let (short, long) = (named("kernel", 14), long_names(14));
    for names in [&short, &long] {
        let figures = [
            figure(vec![("", lines(names, 9.0))]),
            figure(vec![
                (&names[0], lines(names, 2e9)),
                (&names[1], lines(names, 3e-9)),
                ("c", lines(names, 1.0)),
            ]),
            figure(vec![("", bars(&names[..4], &names[..2]))]),
            figure(vec![("", bars(names, &names[..4]))]),
            figure(vec![("a", heat_map(names, &named("K = ", 5))), ("b", heat_map(&names[..3], names))]),
            figure(vec![("", roofline(names))]),
        ];
        for mut figure in figures {
            figure.missing = names
                .iter()
                .map(|name| Missing { name: name.clone(), measured: false, reason: "needs a GPU".into() })
                .collect();
            for width in [320.0, 540.0, 1110.0] {
                let mut canvas = Canvas::default();
                let height = panels::draw(&figure, &mut canvas, width);
                let picture = format!("<svg>{}</svg>", canvas.into_svg());
                let document = Document::parse(&picture).unwrap();
                for text in document.descendants().filter(|node| node.tag_name().name() == "text") {
                    let label = text.text().unwrap_or_default();
                    assert!(!label.contains('…'), "{label} is cut");
                    for (x, y) in corners(text) {
                        let inside = (-1.0..=width + 1.0).contains(&x) && (-1.0..=height + 3.0).contains(&y);
                        assert!(inside, "{label} reaches {x}, {y} of {width} x {height}");
                    }
                }
                let drawn: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
                for name in names.iter().take(2) {
                    let wanted: String = name.split_whitespace().collect();
                    let all: String = drawn.iter().flat_map(|text| text.split_whitespace()).collect();
                    assert!(all.contains(&wanted), "{name} is not whole");
                }
            }
        }
    }
}

#[test]
fn tick_labels_of_an_axis_have_one_notation() {
    let is_power = |label: &str| label.chars().any(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c));
    for (scale, low, high) in [
        (Scale::Linear, 0.0, 1.5e7),
        (Scale::Linear, 5e6, 1.2e7),
        (Scale::Linear, 0.0, 3e-6),
        (Scale::Log2, 0.05, 70_000.0),
        (Scale::Log2, 0.0625, 4.0),
        (Scale::Log2, 1.0, 1e6),
        (Scale::Log10, 1e-5, 10.0),
        (Scale::Log10, 0.1, 1e5),
    ] {
        let ticks = Ticks::around(&axis(scale), [low, high].into_iter(), 9).unwrap();
        let labels: Vec<&String> = ticks.labels.iter().filter(|label| *label != "0").collect();
        let powers = labels.iter().filter(|label| is_power(label)).count();
        assert!(powers == 0 || powers == labels.len(), "{:?}", ticks.labels);
        if scale == Scale::Linear {
            let decimals =
                |label: &&&String| label.split('×').next().unwrap().split('.').nth(1).map_or(0, str::len);
            assert!(
                labels.iter().all(|label| decimals(&label) == decimals(&labels.first().unwrap())),
                "{labels:?}"
            );
        }
    }
}

#[test]
fn each_panel_has_its_own_axis() {
    let picture =
        svg(&figure(vec![("small", lines(&named("k", 1), 1.0)), ("large", lines(&named("k", 1), 1000.0))]));
    let document = Document::parse(&picture).unwrap();
    let places = |panel: Node<'_, '_>| -> Vec<String> {
        let marks = panel.descendants().filter(|node| has_class(node, "mark"));
        marks.map(|mark| mark.attribute("transform").unwrap().to_string()).collect()
    };
    let panels: Vec<Vec<String>> =
        document.descendants().filter(|node| has_class(node, "panel")).map(places).collect();
    // The same shape in both: the small values are not a flat line at zero. Tick labels differ in width only.
    let heights = |panel: &Vec<String>| -> Vec<String> {
        panel.iter().map(|place| place.split(' ').nth(1).unwrap().to_string()).collect()
    };
    assert_eq!(heights(&panels[0]), heights(&panels[1]));
}

#[test]
fn a_page_opens_with_its_answers_and_folds_its_warnings() {
    let table = Table {
        id: "cases".into(),
        title: "The cases".into(),
        caption: String::new(),
        columns: vec![Column { name: "fastest".into(), unit: None, numeric: false }],
        rows: vec![vec![Cell::Text("cpu_sell".into())]],
    };
    let page = html(&Report {
        title: "t".into(),
        answers: vec![Answer {
            question: "Which kernel is fastest?".into(),
            sentence: "The fastest is cpu_sell.".into(),
            cases: Some(table),
        }],
        warnings: vec![WarningGroup { cause: "No GPU".into(), items: vec!["a".into(), "b".into()] }],
        figures: vec![figure(vec![("", lines(&named("k", 2), 1.0))])],
        facts: vec![("Machine".into(), vec![("host".into(), "vm".into())])],
        ..Report::default()
    });
    let body = page.split("<main>").nth(1).unwrap();
    let at = |text: &str| body.find(text).unwrap_or_else(|| panic!("{text} is not in the page"));
    assert!(body.trim_start().starts_with("<section id=\"answer\">"), "the answer is not first");
    assert!(at("The fastest is cpu_sell.") < at("<details class=\"warnings\">"));
    assert!(
        at("<details class=\"warnings\">") < at("id=\"figures\"")
            && at("id=\"figures\"") < at("id=\"facts\"")
    );
    assert!(body.contains("<summary>2 warnings with 1 cause</summary>"));
    assert!(body.contains("<summary>No GPU (2)</summary>"));
}

#[test]
fn panels_of_equal_quantities_have_equal_axes_unless_one_would_be_flat() {
    let names = named("kernel", 2);
    let ends_at = |second: f64| {
        let Plot::Lines(first) = lines(&names, 9.0) else { unreachable!("lines are lines") };
        let Plot::Lines(second) = lines(&names, second) else { unreachable!("lines are lines") };
        let panel = |lines: Lines| Panel { title: String::new(), plot: Plot::Lines(lines) };
        super::lines::with_equal_axes(&[panel(first), panel(second)]).len()
    };
    assert_eq!(ends_at(5.0), 2);
    assert_eq!(ends_at(0.1), 0);
    let other = Panel { title: String::new(), plot: roofline(&names) };
    assert!(super::lines::with_equal_axes(&[other]).is_empty());
}
