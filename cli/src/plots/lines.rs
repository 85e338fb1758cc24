//! Values against a variable.

use super::appearance::Appearance;
use super::canvas::{Canvas, Frame, footnote, no_data, px};
use super::data::{Lines, Panel, Plot, Point, Series, SeriesStyle};
use super::legend::{Legend, Symbol, line_class};
use super::text::number;
use super::ticks::{Ticks, can_show, most_across, most_up};

/// The share of the axis by which an error bar may reach over its end.
const ERROR_BAR_OVERHANG: f64 = 0.02;
/// Half the width of the caps of an error bar.
const CAP: f64 = 3.5;

/// The largest ratio of the largest values of two panels with equal axes; above it the lines of the lower panel would be flat.
const MAX_RATIO_OF_EQUAL_AXES: f64 = 4.0;

/// The plots of lines among `panels`, if all of them show the same quantities and similar values: their axes are equal, so that heights can
/// be compared.
pub(super) fn with_equal_axes(panels: &[Panel]) -> Vec<&Lines> {
    let of_lines = |panel: &Panel| matches!(panel.plot, Plot::Lines(_));
    if !panels.iter().all(of_lines) {
        return Vec::new();
    }
    let plots = panels.iter().filter_map(|panel| match &panel.plot {
        Plot::Lines(lines) => Some(lines),
        _ => None,
    });
    let plots: Vec<&Lines> = plots.collect();
    let largest = |lines: &&Lines| shown(lines).map(|point| point.y).fold(0.0, f64::max);
    let highest = plots.iter().map(largest).fold(0.0, f64::max);
    let lowest = plots.iter().map(largest).fold(f64::INFINITY, f64::min);
    let is_equal = |pair: &[&Lines]| pair.first().map(|l| (&l.x, &l.y)) == pair.last().map(|l| (&l.x, &l.y));
    let are_similar = plots.windows(2).all(is_equal) && highest <= MAX_RATIO_OF_EQUAL_AXES * lowest;
    if are_similar { plots } else { Vec::new() }
}

/// The points that the axes can show.
fn shown(lines: &Lines) -> impl Iterator<Item = &Point> {
    let is_shown = move |point: &&Point| can_show(lines.x.scale, point.x) && can_show(lines.y.scale, point.y);
    lines.series.iter().flat_map(|series| &series.points).filter(is_shown)
}

/// Draws the plot; returns its height. The axes are those of all plots in `equal`, if there are any.
pub(super) fn draw(lines: &Lines, equal: &[&Lines], legend: &Legend, canvas: &mut Canvas, width: f64) -> f64 {
    let alone = [lines];
    let on_axes = if equal.is_empty() { &alone[..] } else { equal };
    let points = || on_axes.iter().flat_map(|lines| shown(lines));
    let ends = |point: &Point| [Some(point.y), point.low, point.high];
    let x = Ticks::around(&lines.x, points().map(|point| point.x), most_across(lines.x.scale, width));
    let most = most_up(lines.y.scale);
    // An error bar may reach a little over the end of the axis; for a longer one the axis is extended.
    let y = Ticks::around(&lines.y, points().map(|point| point.y), most)
        .filter(|y| {
            let mut shares = points().flat_map(ends).flatten().filter_map(|value| y.share(value));
            shares.all(|share| (-ERROR_BAR_OVERHANG..=1.0 + ERROR_BAR_OVERHANG).contains(&share))
        })
        .or_else(|| Ticks::around(&lines.y, points().flat_map(ends).flatten(), most));
    let (Some(x), Some(y)) = (x, y) else { return no_data(canvas, width) };
    if shown(lines).next().is_none() {
        return no_data(canvas, width);
    }
    let frame = Frame::vertical(canvas, width, &lines.y, &y);
    let mut bottom = frame.horizontal(canvas, &lines.x, &x);
    for series in &lines.series {
        let (index, appearance) = match legend.find(&series.name) {
            Some((index, Symbol::Line(appearance, _))) => (index, *appearance),
            Some((index, _)) => (index, Appearance(0)),
            None => continue,
        };
        let is_reference = series.style == SeriesStyle::Reference;
        let colour = if is_reference { String::new() } else { appearance.colour() };
        canvas.put(format_args!(r#"<g class="series {colour}" data-series="{index}">"#));
        let mut places: Vec<(f64, f64, &Point)> = Vec::new();
        let is_shown = |point: &&Point| can_show(lines.x.scale, point.x) && can_show(lines.y.scale, point.y);
        for point in series.points.iter().filter(is_shown) {
            if let (Some(along), Some(up)) = (x.share(point.x), y.share(point.y)) {
                places.push((frame.x(along), frame.y(up), point));
            }
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((first, rest)) = places.split_first() {
            canvas.put(format_args!(
                r#"<path class="{}" d="M{} {}"#,
                line_class(appearance, series.style),
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
        if matches!(series.style, SeriesStyle::Measured | SeriesStyle::Predicted) {
            for (x, y, point) in &places {
                canvas.marker(
                    appearance,
                    series.style == SeriesStyle::Predicted,
                    (*x, *y),
                    &tip(lines, series, point),
                );
            }
        }
        canvas.put(format_args!("</g>"));
    }
    let all: usize = lines.series.iter().map(|series| series.points.len()).sum();
    let left_out = all - shown(lines).count();
    if left_out > 0 {
        let values = if left_out == 1 { "value" } else { "values" };
        let text = format!("{left_out} {values} cannot be shown on these axes.");
        bottom = footnote(canvas, &text, width, bottom);
    }
    bottom
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
