//! A figure as a whole: one legend, and below it the panels in a grid.

use super::canvas::{Anchor, Canvas, FONT, LINE, no_data, px};
use super::data::{Figure, Plot};
use super::legend::Legend;
use super::text::wrapped;
use super::{bars, heat_map, lines, roofline};

/// Smallest width of a panel beside another.
const MIN_PANEL_WIDTH: f64 = 320.0;
/// Largest number of panels in a row.
const MAX_PANELS_IN_ROW: usize = 3;
/// Space between two panels.
const GAP: f64 = 28.0;

/// Whether a figure needs the full width of a page.
pub(super) fn is_wide(figure: &Figure) -> bool {
    let has_many_names = |plot: &Plot| match plot {
        Plot::HeatMap(map) => map.columns.len() > 8,
        Plot::Bars(bars) => bars.categories.len() * bars.series.len() > 16,
        Plot::Lines(_) | Plot::Roofline(_) => false,
    };
    figure.panels.len() > 1 || figure.panels.iter().any(|panel| has_many_names(&panel.plot))
}

/// Draws a figure into a canvas of `width`; returns its height.
pub(super) fn draw(figure: &Figure, canvas: &mut Canvas, width: f64) -> f64 {
    let legend = Legend::of(figure);
    let mut top = legend.draw(canvas, &figure.missing, width);
    let value_label = figure.panels.iter().find_map(|panel| match &panel.plot {
        Plot::HeatMap(map) if !map.rows.is_empty() => Some(map.value_label.as_str()),
        _ => None,
    });
    if let Some(label) = value_label {
        top = heat_map::colour_bar(label, canvas, width, top);
    }
    if figure.panels.is_empty() {
        let mut empty = Canvas::default();
        let height = no_data(&mut empty, width);
        place(canvas, (0.0, top), empty);
        return top + height;
    }
    let fitting = ((width + GAP) / (MIN_PANEL_WIDTH + GAP)) as usize;
    let in_row = fitting.clamp(1, MAX_PANELS_IN_ROW).min(figure.panels.len());
    // Four panels are two rows of two, not three and one.
    let rows = figure.panels.len().div_ceil(in_row);
    let in_row = figure.panels.len().div_ceil(rows);
    let panel_width = (width - GAP * (in_row - 1) as f64) / in_row as f64;
    let equal = lines::with_equal_axes(&figure.panels);
    let mut bottom = top;
    for row in figure.panels.chunks(in_row) {
        let headings: Vec<Vec<String>> =
            row.iter().map(|panel| wrapped(&panel.title, FONT * 1.05, panel_width)).collect();
        let heading_height = LINE * headings.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let mut row_height: f64 = 0.0;
        for (column, (panel, heading)) in row.iter().zip(&headings).enumerate() {
            let left = (panel_width + GAP) * column as f64;
            for (index, line) in heading.iter().enumerate() {
                canvas.text("strong", left, bottom + 12.0 + LINE * index as f64, Anchor::Start, line);
            }
            let mut inner = Canvas::default();
            let height = match &panel.plot {
                Plot::Lines(plot) => lines::draw(plot, &equal, &legend, &mut inner, panel_width),
                Plot::HeatMap(plot) => heat_map::draw(plot, &mut inner, panel_width),
                Plot::Roofline(plot) => roofline::draw(plot, &legend, &mut inner, panel_width),
                Plot::Bars(plot) => bars::draw(plot, &legend, &mut inner, panel_width),
            };
            place(canvas, (left, bottom + heading_height), inner);
            row_height = row_height.max(height);
        }
        bottom += heading_height + row_height + 12.0;
    }
    bottom - 12.0
}

fn place(canvas: &mut Canvas, (x, y): (f64, f64), inner: Canvas) {
    let (x, y, inner) = (px(x), px(y), inner.into_svg());
    canvas.put(format_args!(r#"<g class="panel" transform="translate({x} {y})">{inner}</g>"#));
}
