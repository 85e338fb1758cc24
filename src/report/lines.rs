//! Values against a variable.

use super::data::{Lines, Point, Series, SeriesStyle};
use super::picture::{Canvas, Frame, Look, Symbol, footnote, legend, no_data, px};
use super::text::number;
use super::ticks::{Ticks, lies_on, most_across, most_up};

/// How far, as a share of the axis, an error bar may reach over its end.
const OVER: f64 = 0.02;
/// Half the width of the caps of an error bar.
const CAP: f64 = 3.5;

pub(super) fn draw(lines: &Lines, canvas: &mut Canvas, room: f64) -> f64 {
    let shown = |point: &&Point| lies_on(lines.x.scale, point.x) && lies_on(lines.y.scale, point.y);
    let points = || lines.series.iter().flat_map(|series| &series.points).filter(shown);
    let ends = |point: &Point| [Some(point.y), point.low, point.high];
    let x = Ticks::around(&lines.x, points().map(|point| point.x), most_across(lines.x.scale, room));
    let most = most_up(lines.y.scale);
    // An error bar may reach a little over the axis; where it reaches far, the axis makes room for it.
    let y = Ticks::around(&lines.y, points().map(|point| point.y), most)
        .filter(|y| {
            let mut shares = points().flat_map(ends).flatten().filter_map(|value| y.share(value));
            shares.all(|share| (-OVER..=1.0 + OVER).contains(&share))
        })
        .or_else(|| Ticks::around(&lines.y, points().flat_map(ends).flatten(), most));
    let (Some(x), Some(y)) = (x, y) else { return no_data(canvas, room, 0.0) };
    let looks = looks(&lines.series);
    let entries: Vec<_> = lines
        .series
        .iter()
        .zip(&looks)
        .map(|(series, look)| (symbol(series, *look), series.name.clone()))
        .collect();
    let top = legend(canvas, &entries, room, 0.0);
    let frame = Frame::vertical(canvas, room, top, &lines.y, &y);
    let mut bottom = frame.horizontal(canvas, &lines.x, &x);
    for (index, (series, look)) in lines.series.iter().zip(&looks).enumerate() {
        let colour = if series.style == SeriesStyle::Reference { String::new() } else { look.class() };
        canvas.put(format_args!(r#"<g class="series {colour}" data-series="{index}">"#));
        let mut places: Vec<(f64, f64, &Point)> = Vec::new();
        for point in series.points.iter().filter(shown) {
            if let (Some(along), Some(up)) = (x.share(point.x), y.share(point.y)) {
                places.push((frame.x(along), frame.y(up), point));
            }
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((first, rest)) = places.split_first() {
            canvas.put(format_args!(
                r#"<path class="{}" d="M{} {}"#,
                class(series.style),
                px(first.0),
                px(first.1)
            ));
            rest.iter().for_each(|(x, y, _)| canvas.put(format_args!("L{} {}", px(*x), px(*y))));
            canvas.put(format_args!(r#""/>"#));
        }
        for (along, _, point) in &places {
            let end = |value: Option<f64>| y.share(value.unwrap_or(point.y)).map(|share| frame.y(share));
            if let (Some(low), Some(high)) = (end(point.low), end(point.high))
                && (point.low.is_some() || point.high.is_some())
            {
                let (left, right, x, low, high) =
                    (px(along - CAP), px(along + CAP), px(*along), px(low), px(high));
                canvas.put(format_args!(
                    r#"<path class="error" d="M{left} {low}H{right}M{x} {low}V{high}M{left} {high}H{right}"/>"#
                ));
            }
        }
        if series.style != SeriesStyle::Reference {
            for (x, y, point) in &places {
                canvas.marker(
                    *look,
                    series.style == SeriesStyle::Predicted,
                    (*x, *y),
                    &tip(lines, series, point),
                );
            }
        }
        canvas.put(format_args!("</g>"));
    }
    let all: usize = lines.series.iter().map(|series| series.points.len()).sum();
    let left_out = all - points().count();
    if left_out > 0 {
        let values = if left_out == 1 { "value has" } else { "values have" };
        bottom = footnote(canvas, &format!("{left_out} {values} no place on these axes."), room, bottom);
    }
    bottom
}

/// Reference lines have no colour of their own; a prediction has that of what it predicts, known by the name it
/// begins with.
fn looks(series: &[Series]) -> Vec<Look> {
    let mut next = 0;
    let mut looks: Vec<Look> = Vec::new();
    let mut measured: Vec<(&str, Look)> = Vec::new();
    for one in series {
        let known =
            measured.iter().filter(|(name, _)| one.name.starts_with(name)).max_by_key(|(name, _)| name.len());
        let look = match (one.style, known) {
            (SeriesStyle::Reference, _) => Look(0),
            (SeriesStyle::Predicted, Some((_, look))) => *look,
            _ => {
                next += 1;
                Look(next - 1)
            }
        };
        if one.style == SeriesStyle::Measured {
            measured.push((&one.name, look));
        }
        looks.push(look);
    }
    looks
}

fn class(style: SeriesStyle) -> &'static str {
    match style {
        SeriesStyle::Measured => "line",
        SeriesStyle::Reference => "line reference",
        SeriesStyle::Predicted => "line predicted",
    }
}

fn symbol(series: &Series, look: Look) -> Symbol {
    match series.style {
        SeriesStyle::Reference => Symbol::Plain(class(series.style)),
        style => Symbol::Line(look, class(style), style == SeriesStyle::Predicted),
    }
}

fn tip(lines: &Lines, series: &Series, point: &Point) -> String {
    let mut tip = format!(
        "{}\n{}: {}\n{}: {}",
        series.name,
        lines.x.label,
        number(point.x),
        lines.y.label,
        number(point.y)
    );
    if point.low.is_some() || point.high.is_some() {
        let end = |value: Option<f64>| number(value.unwrap_or(point.y));
        tip += &format!("\nfrom {} to {}", end(point.low), end(point.high));
    }
    if let Some(label) = &point.label {
        tip += &format!("\n{label}");
    }
    tip
}
