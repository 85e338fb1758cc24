//! Heat maps: the shade of a cell is its value as a share of the best of its column.

use super::canvas::{Anchor, Canvas, FONT, Frame, LINE, SMALL, SMALL_LINE, no_data, px};
use super::data::HeatMap;
use super::text::{drawable, escape, fixed, number, text_width, wrapped};

/// Points of the colour map "viridis", dark to bright: perceptually uniform, also for colour-blind readers.
const SHADES: [[f64; 3]; 7] = [
    [62.0, 40.0, 110.0],
    [59.0, 82.0, 139.0],
    [44.0, 114.0, 142.0],
    [33.0, 145.0, 140.0],
    [53.0, 183.0, 121.0],
    [130.0, 211.0, 76.0],
    [244.0, 228.0, 60.0],
];
/// Height of the colour bar.
const BAR_HEIGHT: f64 = 10.0;
/// Rectangles that the colour bar is made of.
const BAR_STEPS: u32 = 60;
/// Largest width of a column.
const MAX_COLUMN_WIDTH: f64 = 110.0;
/// The share of the width that the names of the rows may take.
const NAMES_SHARE: f64 = 0.42;

/// Draws the plot; returns its height.
pub(super) fn draw(map: &HeatMap, canvas: &mut Canvas, width: f64) -> f64 {
    let value = |row: usize, column: usize| {
        let cell = map.values.get(row).and_then(|row| row.get(column)).copied().flatten();
        cell.filter(|value| drawable(*value))
    };
    let (rows, columns) = (map.rows.len(), map.columns.len());
    let all = || (0..rows).flat_map(|row| (0..columns).filter_map(move |column| value(row, column)));
    if all().next().is_none() {
        return no_data(canvas, width);
    }
    let best_of = |column: usize| {
        let values = (0..rows).filter_map(|row| value(row, column));
        values.reduce(|a, b| if map.larger_is_better { a.max(b) } else { a.min(b) })
    };
    let best: Vec<Option<f64>> = (0..columns).map(best_of).collect();

    let mut top = 0.0;
    for line in wrapped(&map.y_label, FONT, width) {
        canvas.text("label", 0.0, top + 12.0, Anchor::Start, &line);
        top += LINE;
    }
    top += 4.0;
    let widest = map.rows.iter().map(|name| text_width(name, SMALL)).fold(0.0, f64::max);
    let names_width = widest.min(width * NAMES_SHARE);
    let left = names_width + 8.0;
    let part = ((width - left) / columns as f64).min(MAX_COLUMN_WIDTH);
    let names: Vec<Vec<String>> = map.rows.iter().map(|name| wrapped(name, SMALL, names_width)).collect();
    let most_lines = names.iter().map(Vec::len).max().unwrap_or(1);
    let high = (part * 0.62).clamp(20.0, 26.0).max(SMALL_LINE * most_lines as f64 + 4.0);
    let right = left + part * columns as f64;
    let frame = Frame { left, right, top, bottom: top + high * rows as f64 };
    let is_numbered = all().all(|value| text_width(&cell_number(value), SMALL) + 4.0 <= part);
    for (row, (name, lines)) in map.rows.iter().zip(&names).enumerate() {
        let upper = top + high * row as f64;
        let first = upper + high / 2.0 + 4.0 - SMALL_LINE * (lines.len() as f64 - 1.0) / 2.0;
        for (index, line) in lines.iter().enumerate() {
            canvas.text("tick", left - 8.0, first + SMALL_LINE * index as f64, Anchor::End, line);
        }
        for (column, (column_name, best)) in map.columns.iter().zip(&best).enumerate() {
            let found = value(row, column);
            let text = found.map_or("not measured".into(), number);
            let tip = escape(&format!("{name}\n{column_name}\n{}: {text}", map.value_label));
            let (x, y) = (left + part * column as f64, upper);
            let (a, b, w, h) = (px(x + 1.0), px(y + 1.0), px(part - 2.0), px(high - 2.0));
            canvas.put(format_args!(r#"<g class="mark"><title>{tip}</title>"#));
            match found.zip(*best) {
                None => canvas.put(format_args!(
                    r#"<rect class="empty" x="{a}" y="{b}" width="{w}" height="{h}" rx="2"/>"#
                )),
                Some((found, best)) => {
                    let (fill, ink) = shade(share(found, best, map.larger_is_better));
                    canvas.put(format_args!(
                        r#"<rect fill="{fill}" x="{a}" y="{b}" width="{w}" height="{h}" rx="2"/>"#
                    ));
                    let is_best = found == best;
                    if is_best {
                        let (a, b, w, h) = (px(x + 3.0), px(y + 3.0), px(part - 6.0), px(high - 6.0));
                        canvas.put(format_args!(
                            r#"<rect class="best" stroke="{ink}" x="{a}" y="{b}" width="{w}" height="{h}" rx="1"/>"#
                        ));
                    }
                    if is_numbered {
                        let weight = if is_best { " strong" } else { "" };
                        let (x, y) = (px(x + part / 2.0), px(y + high / 2.0 + 4.0));
                        canvas.put(format_args!(
                            r#"<text class="cell{weight}" style="fill:{ink}" x="{x}" y="{y}" text-anchor="middle">{}</text>"#,
                            cell_number(found)
                        ));
                    }
                }
            }
            canvas.put(format_args!("</g>"));
        }
    }
    let mut bottom = frame.names(canvas, &map.columns);
    for line in wrapped(&map.x_label, FONT, right - left) {
        canvas.text("label", f64::midpoint(left, right), bottom + 8.0, Anchor::Middle, &line);
        bottom += LINE;
    }
    bottom
}

/// A value with three digits; the tooltip has more.
fn cell_number(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (100.0..1e6).contains(&size) => fixed(value, 0, false),
        size if (10.0..100.0).contains(&size) => fixed(value, 1, false),
        size if (0.1..10.0).contains(&size) => fixed(value, 2, false),
        _ => number(value),
    }
}

/// A value as a share of the best of its column, from 0 to 1.
fn share(value: f64, best: f64, larger_is_better: bool) -> f64 {
    let share = if larger_is_better { value / best } else { best / value };
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// The colour of a share, and that of text on it.
fn shade(share: f64) -> (String, &'static str) {
    let position = share * (SHADES.len() - 1) as f64;
    let step = (position as usize).min(SHADES.len() - 2);
    let fraction = position - step as f64;
    let channel = |index: usize| {
        let (from, to) = (SHADES[step][index], SHADES[step + 1][index]);
        from + (to - from) * fraction
    };
    let [red, green, blue] = [0, 1, 2].map(channel);
    let is_bright = 0.299 * red + 0.587 * green + 0.114 * blue > 132.0;
    let ink = if is_bright { "#111" } else { "#fff" };
    (format!("#{:02x}{:02x}{:02x}", red as u8, green as u8, blue as u8), ink)
}

/// Draws the colour bar of all heat maps of a figure, and the meaning of shade and frame; returns its lower end.
pub(super) fn colour_bar(value_label: &str, canvas: &mut Canvas, width: f64, top: f64) -> f64 {
    let mut top = top;
    let heading = format!("{value_label}; shade: share of the column's best; framed: the column's best");
    for line in wrapped(&heading, FONT, width) {
        canvas.text("label", 0.0, top + 12.0, Anchor::Start, &line);
        top += LINE;
    }
    let full = width.min(300.0);
    for step in 0..BAR_STEPS {
        let (fill, _) = shade((f64::from(step) + 0.5) / f64::from(BAR_STEPS));
        let part = full / f64::from(BAR_STEPS);
        // Rectangles overlap, so that no seam shows.
        let overlap = if step + 1 < BAR_STEPS { 1.0 } else { 0.0 };
        let (x, y, w) = (px(part * f64::from(step)), px(top + 2.0), px(part + overlap));
        canvas
            .put(format_args!(r#"<rect fill="{fill}" x="{x}" y="{y}" width="{w}" height="{BAR_HEIGHT}"/>"#));
    }
    let below = top + BAR_HEIGHT + 15.0;
    for (share, anchor) in [(0.0, Anchor::Start), (0.5, Anchor::Middle), (1.0, Anchor::End)] {
        canvas.text("tick", full * share, below, anchor, &format!("{:.0} %", 100.0 * share));
    }
    below + 14.0
}
