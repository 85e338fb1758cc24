//! Runs as lanes of spans: a static figure, and the data for the page's interactive one.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::appearance::Appearance;
use super::canvas::{Anchor, Canvas, FONT, LINE, SMALL, SMALL_LINE, no_data, px};
use super::data::{Axis, Scale, Span, Timeline};
use super::legend::{self, Symbol};
use super::text::{drawable, text_width, time_unit, wrapped};
use super::ticks::Ticks;

/// Kinds with a fixed colour, and the number of that colour.
const KNOWN_KINDS: [(&str, usize); 4] = [("upload", 0), ("download", 1), ("kernel", 2), ("host", 7)];
/// Colours of other kinds, in the order in which they appear.
const OTHER_COLOURS: [usize; 8] = [6, 4, 3, 5, 8, 9, 10, 11];
/// Heights of a row of spans, of a bar in it, and of the outline of its prediction.
const ROW: f64 = 24.0;
const BAR: f64 = 13.0;
const OUTLINE: f64 = 5.0;

/// The spans of a timeline in rows: a colour for each kind, and a row for each of the overlapping spans of a lane.
struct PlacedSpans<'a> {
    timeline: &'a Timeline,
    spans: Vec<(&'a Span, usize, usize)>,
    kinds: Vec<(&'a str, usize)>,
    rows_of_lane: Vec<usize>,
    start_s: f64,
    end_s: f64,
}

impl<'a> PlacedSpans<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        let possible =
            |span: &&Span| drawable(span.start_s) && drawable(span.end_s) && span.end_s >= span.start_s;
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        let mut others = 0;
        let mut by_lane: Vec<Vec<&Span>> = vec![Vec::new(); timeline.lanes.len()];
        for span in timeline.spans.iter().filter(possible) {
            let Some(lane) = by_lane.get_mut(span.lane) else { continue };
            lane.push(span);
            if !kinds.iter().any(|(name, _)| *name == span.kind) {
                let known =
                    KNOWN_KINDS.iter().find(|(name, _)| *name == span.kind).map(|(_, colour)| *colour);
                let colour = known.unwrap_or_else(|| {
                    others += 1;
                    OTHER_COLOURS[(others - 1) % OTHER_COLOURS.len()]
                });
                kinds.push((&span.kind, colour));
            }
        }
        let mut spans = Vec::new();
        let mut rows_of_lane = Vec::new();
        for lane in &mut by_lane {
            // Of two spans with the same start the longer one gets the first row.
            lane.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(b.end_s.total_cmp(&a.end_s)));
            let mut ends: Vec<f64> = Vec::new();
            for span in lane {
                let free = ends.iter().position(|end| *end <= span.start_s);
                let row = free.unwrap_or(ends.len());
                match ends.get_mut(row) {
                    Some(end) => *end = span.end_s,
                    None => ends.push(span.end_s),
                }
                let kind = kinds.iter().position(|(name, _)| *name == span.kind).unwrap_or(0);
                spans.push((*span, row, kind));
            }
            rows_of_lane.push(ends.len().max(1));
        }
        let times = |span: &&Span| {
            let predicted = prediction(span);
            [Some(span.start_s), Some(span.end_s), predicted.map(|p| p.0), predicted.map(|p| p.1)]
        };
        let (mut start_s, mut end_s) = (f64::INFINITY, f64::NEG_INFINITY);
        for time in spans.iter().flat_map(|(span, ..)| times(span)).flatten() {
            (start_s, end_s) = (start_s.min(time), end_s.max(time));
        }
        Self { timeline, spans, kinds, rows_of_lane, start_s, end_s }
    }
}

/// The predicted start and end of a span, if both are known and can be drawn.
fn prediction(span: &Span) -> Option<(f64, f64)> {
    let (start, end) = (span.predicted_start_s?, span.predicted_end_s?);
    (drawable(start) && drawable(end) && end >= start).then_some((start, end))
}

/// Draws the timeline; returns its height.
pub(super) fn draw(timeline: &Timeline, canvas: &mut Canvas, width: f64) -> f64 {
    let placed = PlacedSpans::new(timeline);
    if placed.spans.is_empty() {
        return no_data(canvas, width);
    }
    let mut entries: Vec<(Symbol, String)> = placed
        .kinds
        .iter()
        .map(|(name, colour)| {
            (Symbol::Square(format!("bar {}", Appearance(*colour).colour())), (*name).to_string())
        })
        .collect();
    if placed.spans.iter().any(|(span, ..)| prediction(span).is_some()) {
        entries.push((Symbol::Square("outline c7".into()), "predicted".into()));
    }
    let mut y = legend::draw(canvas, &entries, width, 0.0);
    let names = timeline.lanes.iter().map(|lane| text_width(&lane.name, SMALL) + 8.0);
    let left = names.fold(40.0, f64::max).min(width * 0.25) + 8.0;
    let duration_s = (placed.end_s - placed.start_s).max(1e-9);
    let (factor, unit) = time_unit(duration_s);
    let axis = Axis { label: format!("time ({unit})"), scale: Scale::Linear, from_zero: true };
    let Some(ticks) = Ticks::around(&axis, [0.0, duration_s * factor].into_iter(), 9) else { return y };
    // The time axis ends with the run, not with the last tick.
    let at = |seconds: f64| left + (seconds - placed.start_s) / duration_s * (width - left - 12.0);

    let top = y;
    let mut tops = Vec::new();
    for (index, lane) in timeline.lanes.iter().enumerate() {
        let headed = index.checked_sub(1).and_then(|before| timeline.lanes.get(before));
        if headed.is_none_or(|before| before.process != lane.process) {
            for line in wrapped(&lane.process, FONT, width) {
                canvas.text("strong", 0.0, y + 15.0, Anchor::Start, &line);
                y += LINE;
            }
            y += 6.0;
        }
        let names = wrapped(&lane.name, SMALL, left - 14.0);
        let rows = placed.rows_of_lane.get(index).copied().unwrap_or(1) as f64;
        let high = (ROW * rows).max(SMALL_LINE * names.len() as f64 + 4.0);
        let (x, upper, wide, full) = (px(left), px(y), px(width - left), px(high - 2.0));
        canvas
            .put(format_args!(r#"<rect class="lane" x="{x}" y="{upper}" width="{wide}" height="{full}"/>"#));
        for (row, line) in names.iter().enumerate() {
            canvas.text("tick", left - 8.0, y + 12.5 + SMALL_LINE * row as f64, Anchor::End, line);
        }
        tops.push(y);
        y += high;
    }
    for (value, label) in ticks.values.iter().zip(&ticks.labels) {
        let x = at(placed.start_s + value / factor);
        if x + text_width(label, SMALL) / 2.0 <= width {
            canvas.line("grid", (x, top), (x, y + 4.0));
            canvas.text("tick", x, y + 17.0, Anchor::Middle, label);
        }
    }
    spans(&placed, &tops, canvas, at);
    canvas.text("label", f64::midpoint(left, width), y + 34.0, Anchor::Middle, &axis.label);
    y + 40.0
}

/// Spans as one path for each lane and kind. Spans narrower than half a pixel are merged with their neighbour, so that the width
/// bounds the size of the file.
fn spans(placed: &PlacedSpans<'_>, tops: &[f64], canvas: &mut Canvas, at: impl Fn(f64) -> f64) {
    let mut bars: HashMap<(usize, usize, usize), Vec<(f64, f64)>> = HashMap::new();
    let mut outlines = bars.clone();
    let mut names = Vec::new();
    let add = |to: &mut HashMap<_, Vec<(f64, f64)>>, key, start: f64, end: f64| {
        let pieces = to.entry(key).or_default();
        match pieces.last_mut() {
            Some(last) if start - last.1 < 0.5 && end - start < 0.5 => last.1 = last.1.max(end),
            _ => pieces.push((start, end.max(start + 0.5))),
        }
    };
    for (span, row, kind) in &placed.spans {
        let key = (span.lane, *kind, *row);
        let (start, end) = (at(span.start_s), at(span.end_s));
        add(&mut bars, key, start, end);
        if let Some((start, end)) = prediction(span) {
            add(&mut outlines, key, at(start), at(end));
        }
        if text_width(&span.name, 10.0) + 6.0 <= end - start {
            names.push((key, start, end, span.name.as_str()));
        }
    }
    let top = |(lane, _, row): (usize, usize, usize)| {
        tops.get(lane).copied().unwrap_or(0.0) + ROW * row as f64 + 1.5
    };
    let colour = |kind: usize| {
        placed.kinds.get(kind).map_or(String::new(), |(_, colour)| Appearance(*colour).colour())
    };
    for (pieces, class, below, high) in
        [(&outlines, "outline", BAR + 2.5, OUTLINE - 1.0), (&bars, "bar", 0.0, BAR)]
    {
        let mut keys: Vec<_> = pieces.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            canvas.put(format_args!(r#"<path class="{class} {}" d=""#, colour(key.1)));
            let (y, high) = (px(top(key) + below), px(high));
            for (start, end) in pieces.get(&key).into_iter().flatten() {
                // A gap separates wide neighbours.
                let wide = if end - start > 3.0 { end - start - 1.0 } else { end - start };
                let wide = px(wide);
                canvas.put(format_args!("M{} {y}h{wide}v{high}h-{wide}z", px(*start)));
            }
            canvas.put(format_args!(r#""/>"#));
        }
    }
    for (key, start, end, name) in names {
        canvas.text("onbar", f64::midpoint(start, end), top(key) + 10.0, Anchor::Middle, name);
    }
}

/// Data for the page's script: every word once, times in microseconds from the start.
pub(super) fn script_data(timeline: &Timeline) -> Value {
    let placed = PlacedSpans::new(timeline);
    let mut words: Vec<&str> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut word = |text| {
        *numbers.entry(text).or_insert_with(|| {
            words.push(text);
            words.len() - 1
        })
    };
    // Whole nanoseconds, the resolution of a trace.
    let time = |seconds: f64| ((seconds - placed.start_s) * 1e9).round() / 1e3;
    let mut spans = Vec::new();
    for (span, row, kind) in &placed.spans {
        let predicted = prediction(span);
        let details: Vec<usize> =
            span.details.iter().flat_map(|(name, value)| [word(name), word(value)]).collect();
        spans.push(json!([
            span.lane,
            row,
            kind,
            word(&span.name),
            time(span.start_s),
            time(span.end_s),
            predicted.map(|(start, _)| time(start)),
            predicted.map(|(_, end)| time(end)),
            details
        ]));
    }
    let lanes: Vec<Value> = placed
        .timeline
        .lanes
        .iter()
        .zip(&placed.rows_of_lane)
        .map(|(lane, rows)| json!({"process": lane.process, "name": lane.name, "rows": rows}))
        .collect();
    let kinds: Vec<Value> =
        placed.kinds.iter().map(|(name, colour)| json!({"name": name, "colour": colour})).collect();
    let end = if spans.is_empty() { 0.0 } else { time(placed.end_s) };
    json!({"lanes": lanes, "kinds": kinds, "words": words, "spans": spans, "end": end})
}
