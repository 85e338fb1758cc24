//! Figures and pages, read back by an XML parser.

use proptest::prelude::*;
use roxmltree::{Document, Node};

use super::*;
use crate::plots::ticks::{MOST, Ticks};

const HOSTILE: &str = "</script><b>&\"'\u{1}]]>--";

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), scale, from_zero: false }
}

fn points(points: &[(f64, f64)]) -> Vec<Point> {
    points.iter().map(|(x, y)| Point { x: *x, y: *y, low: None, high: None, label: None }).collect()
}

fn series(name: &str, style: SeriesStyle, values: &[(f64, f64)]) -> Series {
    Series { name: name.into(), points: points(values), style }
}

fn lines(scales: (Scale, Scale), series: Vec<Series>) -> Plot {
    Plot::Lines(Lines { x: axis("threads", scales.0), y: axis("time, s", scales.1), series })
}

fn bars(categories: &[&str], series: &[(&str, &[Option<f64>])]) -> Plot {
    Plot::Bars(Bars {
        y: axis("time, s", Scale::Linear),
        categories: categories.iter().map(|name| (*name).into()).collect(),
        series: series.iter().map(|(name, values)| ((*name).into(), values.to_vec())).collect(),
    })
}

fn heat_map(values: &[&[Option<f64>]], larger_is_better: bool) -> Plot {
    let named = |word: &str, count: usize| (0..count).map(|index| format!("{word}{index}")).collect();
    Plot::HeatMap(HeatMap {
        x_label: "kernel".into(),
        y_label: "matrix".into(),
        value_label: "time, s".into(),
        columns: named("column", values.first().map_or(0, |row| row.len())),
        rows: named("row", values.len()),
        values: values.iter().map(|row| row.to_vec()).collect(),
        larger_is_better,
    })
}

fn roofline(ceilings: &[(f64, Option<f64>)], measured: &[(f64, f64)]) -> Plot {
    Plot::Roofline(Roofline {
        ceilings: ceilings
            .iter()
            .map(|(gb_per_s, peak_gflops)| Ceiling {
                name: "memory".into(),
                gb_per_s: *gb_per_s,
                peak_gflops: *peak_gflops,
            })
            .collect(),
        points: measured
            .iter()
            .map(|(flops_per_byte, gflops)| RooflinePoint {
                name: HOSTILE.into(),
                group: "csr".into(),
                flops_per_byte: *flops_per_byte,
                gflops: *gflops,
            })
            .collect(),
    })
}

fn figure(panels: Vec<(&str, Plot)>) -> Figure {
    let panels = panels.into_iter().map(|(title, plot)| Panel { title: title.into(), plot }).collect();
    Figure {
        id: "figure".into(),
        title: HOSTILE.into(),
        caption: HOSTILE.into(),
        panels,
        ..Figure::default()
    }
}

fn drawn(plot: Plot) -> String {
    svg(&figure(vec![("", plot)]))
}

fn with_class<'a>(document: &'a Document<'_>, class: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    let has = move |node: &Node<'_, '_>| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
    };
    document.descendants().filter(has)
}

/// The numbers of an attribute, in their order.
fn numbers(node: Node<'_, '_>, attribute: &str) -> Vec<f64> {
    let text = node.attribute(attribute).unwrap();
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
    words.filter_map(|word| word.parse().ok()).collect()
}

fn marker_places(svg: &str) -> Vec<(f64, f64)> {
    let document = Document::parse(svg).unwrap();
    let marks = with_class(&document, "mark").map(|mark| numbers(mark, "transform"));
    marks.map(|place| (place[0], place[1])).collect()
}

fn span(lane: usize, kind: &str, start_s: f64, end_s: f64) -> Span {
    Span {
        lane,
        name: HOSTILE.into(),
        kind: kind.into(),
        start_s,
        end_s,
        predicted_start_s: Some(start_s + 0.5),
        predicted_end_s: Some(end_s + 0.5),
        details: vec![(HOSTILE.into(), HOSTILE.into())],
    }
}

fn timeline(lanes: usize, spans: Vec<Span>) -> Timeline {
    let lanes =
        (0..lanes).map(|index| Lane { process: HOSTILE.into(), name: format!("lane {index}") }).collect();
    Timeline { title: HOSTILE.into(), caption: HOSTILE.into(), lanes, spans }
}

/// The value of a tick label.
fn read_label(label: &str) -> f64 {
    let lowered = |text: &str| -> String {
        let digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
        let digit = |c: char| digits.chars().position(|one| one == c).map(|at| at.to_string());
        text.chars()
            .map(|c| digit(c).unwrap_or_else(|| if c == '⁻' { "-".into() } else { c.to_string() }))
            .collect()
    };
    let text = label.replace('\u{202f}', "").replace('−', "-");
    let raised = text.find(|c| "⁻⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c));
    let Some(raised) = raised else { return text.parse().unwrap() };
    let exponent: i32 = lowered(&text[raised..]).parse().unwrap();
    let (factor, base) = text[..raised].split_once('×').unwrap_or(("1", &text[..raised]));
    factor.parse::<f64>().unwrap() * base.parse::<f64>().unwrap().powi(exponent)
}

proptest! {
    #[test]
    fn ticks_are_few_round_ascending_and_around_every_value(
        scale in prop_oneof![Just(Scale::Linear), Just(Scale::Log2), Just(Scale::Log10)],
        from_zero: bool,
        exponent in -20i32..20,
        values in prop::collection::vec(-1e3f64..1e3, 1..20),
        most in 0usize..20,
    ) {
        let values: Vec<f64> = values.iter().map(|value| value * 10f64.powi(exponent)).collect();
        let values: Vec<f64> = match scale {
            Scale::Linear => values,
            Scale::Log2 | Scale::Log10 => values.into_iter().map(|value| value.abs().max(1e-30)).collect(),
        };
        let axis = Axis { label: String::new(), scale, from_zero };
        let ticks = Ticks::around(&axis, values.iter().copied(), most).unwrap();
        prop_assert!((2..=MOST).contains(&ticks.values.len()), "{ticks:?}");
        prop_assert!(ticks.values.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
        let slack = 1e-6 * (ticks.high() - ticks.low());
        for value in values {
            prop_assert!(ticks.low() - slack <= value && value <= ticks.high() + slack, "{value} outside {ticks:?}");
        }
        prop_assert!(!from_zero || scale != Scale::Linear || (ticks.low() <= 0.0 && ticks.high() >= 0.0));
        for (value, label) in ticks.values.iter().zip(&ticks.labels) {
            let said = read_label(label);
            let size = ticks.high().abs().max(ticks.low().abs());
            let near = if scale == Scale::Linear { 1e-3 * size } else { 1e-3 * value };
            prop_assert!((said - value).abs() <= near, "{label} at {value}");
        }
        let (first, second) = (ticks.values[0], ticks.values[1]);
        let step = match scale {
            Scale::Linear => second - first,
            Scale::Log2 => { prop_assert_eq!(first.log2().fract(), 0.0); 1.0 }
            Scale::Log10 => first,
        };
        let mantissa = step / 10f64.powi((step.log10() + 1e-6).floor() as i32);
        prop_assert!([1.0, 2.0, 2.5, 3.0, 5.0].iter().any(|round| (mantissa - round).abs() < 1e-4), "{ticks:?}");
    }
}

#[test]
fn labels_of_an_axis_differ() {
    for (low, high) in [(0.0, 1.0), (0.98, 1.02), (0.0, 3e6), (1e9, 1.1e9), (-0.004, 0.003), (2.5e-9, 9e-9)] {
        let mut labels = Ticks::around(&axis("", Scale::Linear), [low, high].into_iter(), 7).unwrap().labels;
        let count = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), count, "{labels:?}");
    }
}

#[test]
fn whole_numbers_have_whole_ticks() {
    let ticks = Ticks::around(&axis("threads", Scale::Linear), [1.0, 4.0].into_iter(), 9).unwrap();
    assert_eq!(ticks.labels, ["1", "2", "3", "4"]);
}

#[test]
fn equal_steps_of_an_axis_are_equal_distances() {
    let diagonal = series("a", SeriesStyle::Measured, &[(0.0, 0.0), (5.0, 5.0), (10.0, 10.0)]);
    let places = marker_places(&drawn(lines((Scale::Linear, Scale::Linear), vec![diagonal])));
    assert!((places[0].0 + places[2].0 - 2.0 * places[1].0).abs() < 0.03, "{places:?}");
    assert!((places[0].1 + places[2].1 - 2.0 * places[1].1).abs() < 0.03, "{places:?}");
    assert!(
        places[0].0 < places[2].0 && places[0].1 > places[2].1,
        "values grow to the right and up: {places:?}"
    );

    let powers = series("a", SeriesStyle::Measured, &[(1.0, 1.0), (4.0, 100.0), (16.0, 10000.0)]);
    let places = marker_places(&drawn(lines((Scale::Log2, Scale::Log10), vec![powers])));
    assert!((places[0].0 + places[2].0 - 2.0 * places[1].0).abs() < 0.03, "{places:?}");
    assert!((places[0].1 + places[2].1 - 2.0 * places[1].1).abs() < 0.03, "{places:?}");
}

#[test]
fn every_kind_of_figure_is_well_formed_xml_with_its_names_escaped() {
    let named = series(HOSTILE, SeriesStyle::Measured, &[(1.0, 2.0)]);
    let pictures = [
        drawn(lines((Scale::Linear, Scale::Linear), vec![named])),
        drawn(bars(&[HOSTILE], &[(HOSTILE, &[Some(1.0)])])),
        drawn(heat_map(&[&[Some(1.0), None]], true)),
        drawn(roofline(&[(10.0, Some(100.0))], &[(1.0, 5.0)])),
        timeline_svg(&timeline(1, vec![span(0, HOSTILE, 0.0, 1.0)])),
    ];
    for picture in pictures {
        let document = Document::parse(&picture).unwrap();
        let title = document.root_element().first_element_child().unwrap().text().unwrap();
        // A control character is the one thing that no XML may hold.
        assert_eq!(title, HOSTILE.replace('\u{1}', "\u{fffd}"));
        assert!(document.descendants().all(|node| node.tag_name().name() != "b"));
    }
}

#[test]
fn values_that_are_not_finite_are_left_out_and_counted() {
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308];
    let mut values: Vec<(f64, f64)> = bad.iter().flat_map(|bad| [(*bad, 1.0), (1.0, *bad)]).collect();
    values.extend([(1.0, 1.0), (2.0, 3.0)]);
    let mut broken = series("a", SeriesStyle::Measured, &values);
    broken.points.last_mut().unwrap().high = Some(f64::NAN);
    let pictures = [
        drawn(lines((Scale::Linear, Scale::Linear), vec![broken])),
        drawn(bars(&["a", "b"], &[("s", &[Some(f64::NAN), Some(2.0)]), ("t", &[Some(f64::INFINITY)])])),
        drawn(heat_map(&[&[Some(f64::NAN), Some(1.0)], &[Some(f64::INFINITY), None]], false)),
        drawn(roofline(
            &[(f64::NAN, None), (10.0, Some(f64::NAN))],
            &[(1.0, 5.0), (f64::NAN, 1.0), (-1.0, 0.0)],
        )),
        timeline_svg(&timeline(1, vec![span(0, "a", f64::NAN, 1.0), span(0, "a", 0.0, 1.0)])),
    ];
    for picture in &pictures {
        let document = Document::parse(picture).unwrap();
        for attribute in document.descendants().flat_map(|node| node.attributes()) {
            let value = attribute.value();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{}={value}", attribute.name());
        }
    }
    assert_eq!(marker_places(&pictures[0]).len(), 2);
    assert!(pictures[0].contains("8 values cannot be shown on these axes."), "{}", pictures[0]);
    assert!(pictures[1].contains("2 values cannot be shown on this axis."), "{}", pictures[1]);
    assert!(pictures[3].contains("3 values cannot be shown on these axes."), "{}", pictures[3]);
}

#[test]
fn figures_and_tables_without_data_say_so() {
    let both = (Scale::Log2, Scale::Linear);
    let pictures = [
        drawn(lines(both, Vec::new())),
        drawn(lines(both, vec![series("a", SeriesStyle::Measured, &[])])),
        drawn(lines(both, vec![series("a", SeriesStyle::Measured, &[(0.0, 1.0)])])),
        drawn(bars(&[], &[])),
        drawn(bars(&["a"], &[("s", &[None])])),
        drawn(bars(&[], &[("s", &[Some(1.0)])])),
        drawn(heat_map(&[], true)),
        drawn(heat_map(&[&[None]], true)),
        drawn(roofline(&[], &[])),
        timeline_svg(&timeline(0, Vec::new())),
        timeline_svg(&timeline(1, vec![span(7, "a", 0.0, 1.0), span(0, "a", 1.0, 0.0)])),
    ];
    for picture in pictures {
        let document = Document::parse(&picture).unwrap();
        assert!(document.descendants().any(|node| node.text() == Some("No data")), "{picture}");
    }
    let table = Table {
        id: "t".into(),
        title: "t".into(),
        caption: String::new(),
        columns: Vec::new(),
        rows: Vec::new(),
    };
    assert!(html(&Report { tables: vec![table], ..Report::default() }).contains("No data"));
}

#[test]
fn bars_are_as_long_as_their_values() {
    let picture = drawn(bars(&["a", "b", "c"], &[("s", &[Some(1.0), Some(4.0), Some(-2.0)])]));
    let document = Document::parse(&picture).unwrap();
    let marks = with_class(&document, "mark").map(|mark| mark.last_element_child().unwrap());
    let heights: Vec<f64> = marks.map(|bar| numbers(bar, "height")[0]).collect();
    assert!((heights[1] / heights[0] - 4.0).abs() < 0.01, "{heights:?}");
    assert!((heights[2] / heights[0] - 2.0).abs() < 0.01, "{heights:?}");
}

#[test]
fn the_best_of_each_column_is_framed() {
    for (larger_is_better, best) in [(true, ["row1", "row0"]), (false, ["row0", "row2"])] {
        let picture = drawn(heat_map(
            &[&[Some(1.0), Some(9.0)], &[Some(3.0), None], &[Some(2.0), Some(4.0)]],
            larger_is_better,
        ));
        let document = Document::parse(&picture).unwrap();
        let framed: Vec<String> = with_class(&document, "best")
            .map(|frame| frame.parent().unwrap().first_element_child().unwrap().text().unwrap().to_string())
            .collect();
        assert_eq!(framed.len(), 2);
        assert!(framed.iter().all(|tip| best.iter().any(|row| tip.contains(row))), "{framed:?}");
    }
}

#[test]
fn a_measurement_at_the_bandwidth_lies_on_its_roof() {
    let picture = drawn(roofline(&[(50.0, Some(200.0))], &[(0.5, 25.0), (8.0, 200.0)]));
    let places = marker_places(&picture);
    let document = Document::parse(&picture).unwrap();
    let roof = with_class(&document, "series").next().unwrap().first_element_child().unwrap();
    let path = numbers(roof, "d");
    let [x0, y0, x1, y1, _, y2] = path[..] else { panic!("a roof of {path:?}") };
    let (x, y) = places[0];
    let on_slope = y0 + (y1 - y0) * (x - x0) / (x1 - x0);
    assert!((y - on_slope).abs() < 0.05 && x < x1, "{places:?} beside {path:?}");
    assert!((places[1].1 - y2).abs() < 0.05 && (y1 - y2).abs() < 0.05, "{places:?} beside {path:?}");
}

#[test]
fn a_prediction_has_the_colour_of_the_series_before_it() {
    let one = &[(1.0, 1.0)];
    let picture = drawn(lines(
        (Scale::Linear, Scale::Linear),
        vec![
            series("ideal", SeriesStyle::Reference, one),
            series("csr", SeriesStyle::Measured, one),
            series("csr-merge", SeriesStyle::Measured, one),
            series("csr-merge, predicted", SeriesStyle::Predicted, one),
        ],
    ));
    let document = Document::parse(&picture).unwrap();
    let classes: Vec<&str> =
        with_class(&document, "series").filter_map(|node| node.attribute("class")).collect();
    assert_eq!(classes, ["series ", "series c0", "series c1", "series c1"]);
}

#[test]
fn hostile_text_stays_text_in_the_page() {
    let report = Report {
        title: HOSTILE.into(),
        subtitle: HOSTILE.into(),
        facts: vec![(HOSTILE.into(), vec![(HOSTILE.into(), HOSTILE.into())])],
        configuration: HOSTILE.into(),
        commands: vec![(HOSTILE.into(), HOSTILE.into())],
        answers: vec![Answer { question: HOSTILE.into(), sentence: HOSTILE.into(), cases: None }],
        warnings: vec![WarningGroup { cause: HOSTILE.into(), items: vec![HOSTILE.into()] }],
        figures: Vec::new(),
        tables: vec![Table {
            id: HOSTILE.into(),
            title: HOSTILE.into(),
            caption: HOSTILE.into(),
            columns: vec![Column { name: HOSTILE.into(), unit: Some(HOSTILE.into()), numeric: false }],
            rows: vec![vec![Cell::Text(HOSTILE.into())], Vec::new()],
        }],
        timelines: vec![timeline(1, vec![span(0, HOSTILE, 0.0, 1.0)])],
    };
    let page = html(&report);
    assert_eq!(page.matches("</script").count(), 3, "the data and two scripts");
    assert!(!page.contains("<b>"));
    let data = page.split("id=\"timeline-data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data[0]["words"], serde_json::json!([HOSTILE]));
}

#[test]
fn a_page_names_nothing_outside_itself() {
    let page =
        html(&Report { timelines: vec![timeline(1, vec![span(0, "a", 0.0, 1.0)])], ..Report::default() });
    for word in
        ["http:", "https:", "//www", " src=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest", "eval("]
    {
        assert!(!page.contains(word), "{word} in the page");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn cells_keep_the_value_behind_what_they_show() {
    let column = |numeric| Column { name: "a".into(), unit: None, numeric };
    let row = vec![Cell::Number(12345.678, 1), Cell::Number(f64::NAN, 3), Cell::Number(-0.01, 1)];
    let table = Table {
        id: "t".into(),
        title: "t".into(),
        caption: String::new(),
        columns: vec![column(true), column(true), column(true), column(false)],
        rows: vec![row],
    };
    let page = html(&Report { tables: vec![table], ..Report::default() });
    assert!(page.contains(
        "<tr><td class=\"numeric\" data-value=\"12345.678\">12\u{202f}345.7</td><td class=\"none\"></td>\
         <td class=\"numeric\" data-value=\"-0.01\">0.0</td><td class=\"none\"></td></tr>"
    ));
}

#[test]
fn spans_that_overlap_in_a_lane_lie_in_rows_of_their_own() {
    let spans =
        vec![span(0, "a", 0.0, 10.0), span(0, "b", 2.0, 3.0), span(0, "b", 3.0, 4.0), span(1, "a", 0.0, 1.0)];
    let data = timeline::script_data(&timeline(2, spans));
    let rows: Vec<u64> =
        data["spans"].as_array().unwrap().iter().map(|span| span[1].as_u64().unwrap()).collect();
    assert_eq!(rows, [0, 1, 1, 0]);
    assert_eq!(data["lanes"][0]["rows"], 2);
    assert_eq!(data["spans"][1][4], 2e6, "microseconds from the start");
}

#[test]
fn a_picture_of_many_spans_is_no_larger_than_its_width_allows() {
    let spans = (0..100_000).map(|index| {
        let start = f64::from(index) * 1e-6;
        span(0, if index % 2 == 0 { "upload" } else { "kernel" }, start, start + 0.9e-6)
    });
    let picture = timeline_svg(&timeline(1, spans.collect()));
    assert!(picture.len() < 200_000, "{} bytes", picture.len());
}
