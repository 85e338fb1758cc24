//! Parts that all plots share: text and shapes in SVG, axes, and the document around them.
//!
//! No element has an `id`, so that one page can hold any number of figures. Colours are those of `assets/figure.css`: an SVG file
//! includes that sheet, and in a page the page does.

use std::fmt;

use super::appearance::Appearance;
use super::data::Axis;
use super::text::{escape, text_width, wrapped};
use super::ticks::Ticks;
use rowloom::internal::files::MARK;

/// Size of most text.
pub(super) const FONT: f64 = 12.0;
/// Size of numbers on axes.
pub(super) const SMALL: f64 = 11.0;
/// Size of a title.
const LARGE: f64 = 15.0;
/// Distance between the baselines of two lines of text.
pub(super) const LINE: f64 = 17.0;
/// The same for text of size [`SMALL`].
pub(super) const SMALL_LINE: f64 = 13.0;
/// Lines that a name below an axis may take before it is slanted.
const MOST_NAME_LINES: usize = 3;

/// SVG elements, written one after another.
#[derive(Default)]
pub(super) struct Canvas {
    svg: String,
}

/// The part of a text that lies at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Canvas {
    pub fn put(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = fmt::Write::write_fmt(&mut self.svg, element);
    }

    pub fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let (x, y, anchor, text) = (px(x), px(y), anchor.word(), escape(text));
        self.put(format_args!(
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (a, b, c, d) = (px(from.0), px(from.1), px(to.0), px(to.1));
        self.put(format_args!(r#"<path class="{class}" d="M{a} {b}L{c} {d}"/>"#));
    }

    /// A point with a tooltip.
    pub fn marker(&mut self, appearance: Appearance, hollow: bool, (x, y): (f64, f64), tip: &str) {
        let (class, hollow) = (appearance.colour(), if hollow { " hollow" } else { "" });
        let (x, y, tip, shape) = (px(x), px(y), escape(tip), appearance.marker());
        self.put(format_args!(
            r#"<g class="mark {class}" transform="translate({x} {y})"><title>{tip}</title><path class="marker{hollow}" d="{shape}"/></g>"#
        ));
    }

    pub fn into_svg(self) -> String {
        self.svg
    }
}

/// A number in SVG notation. Callers pass finite numbers only; any other would be drawn at the edge.
pub(super) fn px(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// The area inside a plot's axes.
pub(super) struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    pub fn x(&self, share: f64) -> f64 {
        self.left + (self.right - self.left) * share
    }

    pub fn y(&self, share: f64) -> f64 {
        self.bottom + (self.top - self.bottom) * share
    }

    /// Draws the vertical axis with its grid lines; its label is above it, so that it needs no rotation.
    pub fn vertical(canvas: &mut Canvas, width: f64, axis: &Axis, ticks: &Ticks) -> Self {
        let mut top = 0.0;
        for line in wrapped(&axis.label, FONT, width) {
            canvas.text("label", 0.0, top + 12.0, Anchor::Start, &line);
            top += LINE;
        }
        let widest = ticks.labels.iter().map(|label| text_width(label, SMALL)).fold(0.0, f64::max);
        let top = top + 8.0;
        let frame = Self {
            left: widest + 8.0,
            right: width - 12.0,
            top,
            bottom: top + (width * 0.46).clamp(190.0, 400.0),
        };
        for (value, label) in ticks.values.iter().zip(&ticks.labels) {
            let Some(share) = ticks.share(*value) else { continue };
            let y = frame.y(share);
            canvas.line("grid", (frame.left, y), (frame.right, y));
            canvas.text("tick", frame.left - 8.0, y + 4.0, Anchor::End, label);
        }
        frame
    }

    /// Draws the horizontal axis; returns its lower end.
    pub fn horizontal(&self, canvas: &mut Canvas, axis: &Axis, ticks: &Ticks) -> f64 {
        canvas.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        let widest = ticks.labels.iter().map(|label| text_width(label, SMALL)).fold(0.0, f64::max) + 8.0;
        let places: Vec<f64> = ticks.values.iter().filter_map(|value| ticks.share(*value)).collect();
        let gaps = places.iter().zip(places.iter().skip(1)).map(|(place, next)| next - place);
        let spacing = gaps.fold(1.0, f64::min).max(1e-3) * (self.right - self.left);
        let every = (widest / spacing).ceil().max(1.0) as usize;
        for (index, (value, label)) in ticks.values.iter().zip(&ticks.labels).enumerate() {
            let Some(share) = ticks.share(*value) else { continue };
            let x = self.x(share);
            canvas.line("axis", (x, self.bottom), (x, self.bottom + 5.0));
            if index % every == 0 {
                // Labels at the ends stay inside the figure.
                let half = text_width(label, SMALL) / 2.0;
                let over = (x + half - self.right - 12.0).max(0.0) - (half - x).max(0.0);
                canvas.text("tick", x - over, self.bottom + 18.0, Anchor::Middle, label);
            }
        }
        let mut bottom = self.bottom + 22.0;
        for line in wrapped(&axis.label, FONT, self.right - self.left) {
            canvas.text("label", (self.left + self.right) / 2.0, bottom + 14.0, Anchor::Middle, &line);
            bottom += LINE;
        }
        bottom + 4.0
    }

    /// Draws names below the axis, one in the middle of each equal part; returns their lower end. Names that are too wide wrap;
    /// those that still touch are slanted, or vertical where a slanted name would leave the figure on the left.
    pub fn names(&self, canvas: &mut Canvas, names: &[String]) -> f64 {
        let part = (self.right - self.left) / names.len().max(1) as f64;
        let middle = |index: usize| self.left + part * (index as f64 + 0.5);
        let lines: Vec<Vec<String>> = names.iter().map(|name| wrapped(name, SMALL, part - 6.0)).collect();
        let most = lines.iter().map(Vec::len).max().unwrap_or(0);
        let word_fits =
            |name: &String| name.split([' ', ',']).all(|word| text_width(word, SMALL) <= part - 10.0);
        if most <= 1 || (most <= MOST_NAME_LINES && names.iter().all(word_fits)) {
            for (index, lines) in lines.iter().enumerate() {
                for (row, line) in lines.iter().enumerate() {
                    let y = self.bottom + 17.0 + SMALL_LINE * row as f64;
                    canvas.text("tick", middle(index), y, Anchor::Middle, line);
                }
            }
            return self.bottom + 26.0 + SMALL_LINE * most.saturating_sub(1) as f64;
        }
        // At 45 degrees a label of length l reaches l / √2 down and to the left.
        let fits = |(index, name): (usize, &String)| {
            middle(index) + 4.0 - text_width(name, SMALL) / 2f64.sqrt() >= SMALL / 2.0
        };
        let (angle, factor) = match names.iter().enumerate().all(fits) {
            true => (-45, 1.0 / 2f64.sqrt()),
            false => (-90, 1.0),
        };
        let mut deepest: f64 = 0.0;
        for (index, name) in names.iter().enumerate() {
            deepest = deepest.max(text_width(name, SMALL) * factor);
            let (x, y, name) = (px(middle(index) + 4.0), px(self.bottom + 13.0), escape(name));
            canvas.put(format_args!(
                r#"<text class="tick" transform="translate({x} {y}) rotate({angle})" text-anchor="end">{name}</text>"#
            ));
        }
        self.bottom + deepest + 24.0
    }
}

/// An empty frame that says "No data"; returns its lower end.
pub(super) fn no_data(canvas: &mut Canvas, width: f64) -> f64 {
    let (left, upper, wide) = (px(0.5), px(0.5), px(width - 1.0));
    canvas.put(format_args!(
        r#"<rect class="empty" x="{left}" y="{upper}" width="{wide}" height="119" rx="6"/>"#
    ));
    canvas.text("label", width / 2.0, 64.0, Anchor::Middle, "No data");
    120.0
}

/// Small text from `top` down; returns its lower end.
pub(super) fn footnote(canvas: &mut Canvas, text: &str, width: f64, top: f64) -> f64 {
    let mut bottom = top;
    for line in wrapped(text, SMALL, width) {
        canvas.text("tick", 0.0, bottom + 14.0, Anchor::Start, &line);
        bottom += LINE - 2.0;
    }
    bottom + 4.0
}

/// A figure as an SVG file, with title, background and style sheet.
pub(super) fn document(title: &str, caption: &str, width: f64, body: &str, height: f64) -> String {
    const MARGIN: f64 = 20.0;
    let mut heading = Canvas::default();
    let mut top = MARGIN;
    for line in wrapped(title, LARGE * 1.05, width) {
        heading.text("title", MARGIN, top + 14.0, Anchor::Start, &line);
        top += 21.0;
    }
    top += 8.0;
    let (wide, high) = (px(width + 2.0 * MARGIN), px((top + height + MARGIN).ceil()));
    let (margin, top, heading) = (px(MARGIN), px(top), heading.into_svg());
    let (title, caption, sheet) = (escape(title), escape(caption), include_str!("assets/figure.css"));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"{wide}\" height=\"{high}\" \
         viewBox=\"0 0 {wide} {high}\" role=\"img\">\n<!-- {MARK} -->\n<title>{title}</title>\n<desc>{caption}</desc>\n\
         <style>\n{sheet}</style>\n<rect class=\"paper\" width=\"{wide}\" height=\"{high}\"/>\n{heading}\n\
         <g transform=\"translate({margin} {top})\">{body}</g>\n</svg>\n"
    )
}

/// A figure for a page, which has the title, the background and the style sheet.
pub(super) fn embedded(class: &str, title: &str, width: f64, body: &str, height: f64) -> String {
    let (wide, high, title) = (px(width), px(height.ceil()), escape(title));
    format!(
        "<svg class=\"plot {class}\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" \
         role=\"group\" aria-label=\"{title}\">{body}</svg>"
    )
}
