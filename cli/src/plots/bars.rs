//! Bar charts: one group of bars for each category.

use super::canvas::{Anchor, Canvas, Frame, footnote, no_data, px};
use super::data::{Bars, Scale};
use super::legend::{Legend, Symbol};
use super::text::{escape, number, text_width};
use super::ticks::{Ticks, can_show, most_up};

/// Size of the numbers on bars.
const FONT: f64 = 10.0;
/// Largest width of a bar.
const MAX_BAR_WIDTH: f64 = 56.0;

/// Draws the plot; returns its height.
pub(super) fn draw(bars: &Bars, legend: &Legend, canvas: &mut Canvas, width: f64) -> f64 {
    let count = bars.categories.len();
    // Bars begin at zero, so that their lengths are proportional to the values.
    let axis = super::data::Axis { from_zero: true, ..bars.y.clone() };
    let given = || bars.series.iter().flat_map(|(_, values)| values.iter().take(count)).flatten();
    let shown = || given().copied().filter(|value| can_show(axis.scale, *value));
    let Some(y) = Ticks::around(&axis, shown(), most_up(axis.scale)) else {
        return no_data(canvas, width);
    };
    let frame = Frame::vertical(canvas, width, &bars.y, &y);
    let mut bottom = frame.names(canvas, &bars.categories);

    let part = (frame.right - frame.left) / count as f64;
    let wide = (part * 0.78 / bars.series.len() as f64).min(MAX_BAR_WIDTH);
    let base = frame.y(y.share(if axis.scale == Scale::Linear { 0.0 } else { y.low() }).unwrap_or(0.0));
    let numbered = shown().all(|value| text_width(&number(value), FONT) <= wide + 2.0);
    for (index, (name, values)) in bars.series.iter().enumerate() {
        let Some((entry, Symbol::Square(class))) = legend.find(name) else { continue };
        canvas.put(format_args!(r#"<g class="series" data-series="{entry}">"#));
        for (category, (value, group)) in values.iter().zip(&bars.categories).enumerate() {
            let Some((value, up)) = value.and_then(|value| Some((value, y.share(value)?))) else { continue };
            let middle = frame.left + part * (category as f64 + 0.5);
            let left = middle + wide * (index as f64 - bars.series.len() as f64 / 2.0);
            let end = frame.y(up);
            let tip = escape(&format!("{group}\n{name}\n{}: {}", bars.y.label, number(value)));
            let gap = if wide > 4.0 { 1.0 } else { 0.0 };
            let (x, w) = (px(left + gap / 2.0), px(wide - gap));
            let (upper, high) = (px(end.min(base)), px((base - end).abs().max(0.5)));
            // The tooltip covers the whole height, so that short bars have one too.
            let (top, full) = (px(frame.top), px(frame.bottom - frame.top));
            canvas.put(format_args!(
                r#"<g class="mark"><title>{tip}</title><rect class="hit" x="{x}" y="{top}" width="{w}" height="{full}"/><rect class="{class}" x="{x}" y="{upper}" width="{w}" height="{high}" rx="1"/></g>"#
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
        let values = if left_out == 1 { "value" } else { "values" };
        let text = format!("{left_out} {values} cannot be shown on this axis.");
        bottom = footnote(canvas, &text, width, bottom);
    }
    bottom
}
