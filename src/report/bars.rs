//! Values beside one another, one group of bars for each category.

use super::data::{Bars, Scale};
use super::picture::{Anchor, Canvas, Frame, Look, Symbol, footnote, legend, no_data, px};
use super::text::{escape, number, width};
use super::ticks::{Ticks, lies_on, most_up};

/// Size of the numbers on bars.
const FONT: f64 = 10.0;
/// Widest bar.
const WIDEST: f64 = 56.0;

pub(super) fn draw(bars: &Bars, canvas: &mut Canvas, room: f64) -> f64 {
    let count = bars.categories.len();
    // Bars begin at zero: a length that does not would say something else than the number does.
    let axis = super::data::Axis { from_zero: true, ..bars.y.clone() };
    let given = || bars.series.iter().flat_map(|(_, values)| values.iter().take(count)).flatten();
    let shown = || given().copied().filter(|value| lies_on(axis.scale, *value));
    let Some(y) = Ticks::around(&axis, shown(), most_up(axis.scale)) else {
        return no_data(canvas, room, 0.0);
    };
    let entries: Vec<_> = bars
        .series
        .iter()
        .enumerate()
        .map(|(index, (name, _))| (Symbol::Square(format!("bar {}", Look(index).class())), name.clone()))
        .collect();
    let top = if entries.len() > 1 { legend(canvas, &entries, room, 0.0) } else { 0.0 };
    let frame = Frame::vertical(canvas, room, top, &bars.y, &y);
    let mut bottom = frame.names(canvas, &bars.categories);

    let part = (frame.right - frame.left) / count as f64;
    let wide = (part * 0.78 / bars.series.len() as f64).min(WIDEST);
    let base = frame.y(y.share(if axis.scale == Scale::Linear { 0.0 } else { y.low() }).unwrap_or(0.0));
    let numbered = shown().all(|value| width(&number(value), FONT) <= wide + 2.0);
    for (index, (name, values)) in bars.series.iter().enumerate() {
        let colour = Look(index).class();
        canvas.put(format_args!(r#"<g class="series {colour}" data-series="{index}">"#));
        for (category, (value, group)) in values.iter().zip(&bars.categories).enumerate() {
            let Some((value, up)) = value.and_then(|value| Some((value, y.share(value)?))) else { continue };
            let middle = frame.left + part * (category as f64 + 0.5);
            let left = middle + wide * (index as f64 - bars.series.len() as f64 / 2.0);
            let end = frame.y(up);
            let tip = escape(&format!("{group}\n{name}\n{}: {}", bars.y.label, number(value)));
            let gap = if wide > 4.0 { 1.0 } else { 0.0 };
            let (x, w) = (px(left + gap / 2.0), px(wide - gap));
            let (upper, high) = (px(end.min(base)), px((base - end).abs().max(0.5)));
            // The whole height can be pointed at, so that a short bar tells as readily as a long one.
            let (top, full) = (px(frame.top), px(frame.bottom - frame.top));
            canvas.put(format_args!(
                r#"<g class="mark"><title>{tip}</title><rect class="hit" x="{x}" y="{top}" width="{w}" height="{full}"/><rect class="bar" x="{x}" y="{upper}" width="{w}" height="{high}" rx="1"/></g>"#
            ));
            if numbered {
                let above = if end <= base { end - 4.0 } else { end + 11.0 };
                canvas.text("number", left + wide / 2.0, above, Anchor::Middle, &number(value));
            }
        }
        canvas.put(format_args!("</g>"));
    }
    canvas.line("axis", (frame.left, base), (frame.right, base));
    let left_out = given().count() - shown().count();
    if left_out > 0 {
        let values = if left_out == 1 { "value has" } else { "values have" };
        bottom = footnote(canvas, &format!("{left_out} {values} no place on this axis."), room, bottom);
    }
    bottom
}
