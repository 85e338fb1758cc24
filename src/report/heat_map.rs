//! Values over two choices: shades of one scale, in which better is brighter.

use super::data::HeatMap;
use super::picture::{Anchor, Canvas, FONT, Frame, LINE, SMALL, no_data, px};
use super::text::{drawable, escape, number, shortened, width, wrapped};

/// Points of the scale "viridis", dark to bright: even steps to the eye, colour-blind ones included.
const SHADES: [[f64; 3]; 7] = [
    [62.0, 40.0, 110.0],
    [59.0, 82.0, 139.0],
    [44.0, 114.0, 142.0],
    [33.0, 145.0, 140.0],
    [53.0, 183.0, 121.0],
    [130.0, 211.0, 76.0],
    [244.0, 228.0, 60.0],
];
/// Beyond this ratio of the largest value to the least, shades follow the logarithm.
const WIDE_RATIO: f64 = 20.0;
/// Height of the shades' own picture.
const BAR: f64 = 10.0;

pub(super) fn draw(map: &HeatMap, canvas: &mut Canvas, room: f64) -> f64 {
    let value = |row: usize, column: usize| {
        map.values
            .get(row)
            .and_then(|row| row.get(column))
            .copied()
            .flatten()
            .filter(|value| drawable(*value))
    };
    let (rows, columns) = (map.rows.len(), map.columns.len());
    let all = || (0..rows).flat_map(|row| (0..columns).filter_map(move |column| value(row, column)));
    let Some(shades) = Shades::over(all(), map.larger_is_better) else { return no_data(canvas, room, 0.0) };

    let mut top = shades.draw(canvas, map, room);
    for line in wrapped(&map.y_label, FONT, room) {
        canvas.text("label", 0.0, top + 12.0, Anchor::Start, &line);
        top += LINE;
    }
    top += 4.0;
    let widest = map.rows.iter().map(|name| width(name, SMALL)).fold(0.0, f64::max).min(room * 0.36);
    let left = widest + 8.0;
    let part = (room - left) / columns as f64;
    let high = (part * 0.62).clamp(20.0, 34.0);
    let frame = Frame { left, right: room, top, bottom: top + high * rows as f64 };
    let roomy = all().all(|value| width(&number_in_cell(value), SMALL) + 4.0 <= part);
    for (row, name) in map.rows.iter().enumerate() {
        let upper = top + high * row as f64;
        canvas.text(
            "tick",
            left - 8.0,
            upper + high / 2.0 + 4.0,
            Anchor::End,
            &shortened(name, SMALL, widest),
        );
        let best = (0..columns)
            .filter_map(|column| value(row, column))
            .reduce(|a, b| if map.larger_is_better { a.max(b) } else { a.min(b) });
        for (column, column_name) in map.columns.iter().enumerate() {
            let found = value(row, column);
            let words = found.map_or("none".into(), number);
            let tip = escape(&format!("{name}\n{column_name}\n{}: {words}", map.value_label));
            let (x, y) = (left + part * column as f64, upper);
            let (a, b, w, h) = (px(x + 1.0), px(y + 1.0), px(part - 2.0), px(high - 2.0));
            canvas.put(format_args!(r#"<g class="mark"><title>{tip}</title>"#));
            match found {
                None => canvas.put(format_args!(
                    r#"<rect class="empty" x="{a}" y="{b}" width="{w}" height="{h}" rx="2"/>"#
                )),
                Some(found) => {
                    let (fill, ink) = shades.colours(found);
                    canvas.put(format_args!(
                        r#"<rect fill="{fill}" x="{a}" y="{b}" width="{w}" height="{h}" rx="2"/>"#
                    ));
                    if best == Some(found) {
                        let (a, b, w, h) = (px(x + 3.0), px(y + 3.0), px(part - 6.0), px(high - 6.0));
                        canvas.put(format_args!(
                            r#"<rect class="best" stroke="{ink}" x="{a}" y="{b}" width="{w}" height="{h}" rx="1"/>"#
                        ));
                    }
                    if roomy {
                        let (x, y) = (px(x + part / 2.0), px(y + high / 2.0 + 4.0));
                        let weight = if best == Some(found) { " strong" } else { "" };
                        canvas.put(format_args!(
                            r#"<text class="cell{weight}" style="fill:{ink}" x="{x}" y="{y}" text-anchor="middle">{}</text>"#,
                            number_in_cell(found)
                        ));
                    }
                }
            }
            canvas.put(format_args!("</g>"));
        }
    }
    let mut bottom = frame.names(canvas, &map.columns);
    for line in wrapped(&map.x_label, FONT, room - left) {
        canvas.text("label", (left + room) / 2.0, bottom + 8.0, Anchor::Middle, &line);
        bottom += LINE;
    }
    bottom
}

/// Three digits are enough to compare by eye; the tip has more.
fn number_in_cell(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (100.0..1e6).contains(&size) => super::text::fixed(value, 0, false),
        size if (10.0..100.0).contains(&size) => super::text::fixed(value, 1, false),
        size if (0.1..10.0).contains(&size) => super::text::fixed(value, 2, false),
        _ => number(value),
    }
}

struct Shades {
    low: f64,
    high: f64,
    logarithmic: bool,
    larger_is_better: bool,
}

impl Shades {
    fn over(values: impl Iterator<Item = f64>, larger_is_better: bool) -> Option<Self> {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        (low <= high).then_some(Self {
            low,
            high,
            logarithmic: low > 1e-100 && high / low > WIDE_RATIO,
            larger_is_better,
        })
    }

    /// How good a value is, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let share = match (self.high > self.low, self.logarithmic) {
            (false, _) => return 0.7,
            (true, false) => (value - self.low) / (self.high - self.low),
            (true, true) => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if self.larger_is_better { share } else { 1.0 - share }
    }

    /// The value at a share of the way from the least to the largest.
    fn value(&self, share: f64) -> f64 {
        match self.logarithmic {
            true => self.low * (self.high / self.low).powf(share),
            false => self.low + (self.high - self.low) * share,
        }
    }

    /// The colour of a value, and that of text on it.
    fn colours(&self, value: f64) -> (String, &'static str) {
        let place = self.share(value).clamp(0.0, 1.0) * (SHADES.len() - 1) as f64;
        let step = (place as usize).min(SHADES.len() - 2);
        let between = place - step as f64;
        let channel = |index: usize| {
            let (from, to) = (SHADES[step][index], SHADES[step + 1][index]);
            from + (to - from) * between
        };
        let [red, green, blue] = [0, 1, 2].map(channel);
        let bright = 0.299 * red + 0.587 * green + 0.114 * blue > 132.0;
        (
            format!("#{:02x}{:02x}{:02x}", red as u8, green as u8, blue as u8),
            if bright { "#111" } else { "#fff" },
        )
    }

    /// The scale with its ends and middle, and what the frames mean; returns where it ends.
    fn draw(&self, canvas: &mut Canvas, map: &HeatMap, room: f64) -> f64 {
        let mut top = 0.0;
        let heading = format!("{}; framed: best of its row", map.value_label);
        for line in wrapped(&heading, FONT, room) {
            canvas.text("label", 0.0, top + 12.0, Anchor::Start, &line);
            top += LINE;
        }
        if self.high <= self.low {
            return top + 8.0;
        }
        let wide = room.min(300.0);
        let steps = 60;
        for step in 0..steps {
            let (fill, _) = self.colours(self.value((f64::from(step) + 0.5) / f64::from(steps)));
            let part = wide / f64::from(steps);
            // Under the next one, so that no seam shows.
            let over = if step + 1 < steps { 1.0 } else { 0.0 };
            let (x, y, w) = (px(part * f64::from(step)), px(top + 2.0), px(part + over));
            canvas.put(format_args!(r#"<rect fill="{fill}" x="{x}" y="{y}" width="{w}" height="{BAR}"/>"#));
        }
        let below = top + BAR + 15.0;
        for (share, anchor) in [(0.0, Anchor::Start), (0.5, Anchor::Middle), (1.0, Anchor::End)] {
            canvas.text("tick", wide * share, below, anchor, &number_in_cell(self.value(share)));
        }
        below + 14.0
    }
}
