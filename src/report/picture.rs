//! What all plots share: text and shapes in SVG, axes, legends and the document around them.
//!
//! Nothing here has an `id`, so that any number of pictures can stand in one page. Colours are those of
//! `assets/figure.css`: in a file of its own a picture carries that sheet, in a page the page does.

use std::fmt;

use super::data::Axis;
use super::text::{escape, shortened, width, wrapped};
use super::ticks::Ticks;
use crate::files::MARK;

/// Size of most text.
pub(super) const FONT: f64 = 12.0;
/// Size of numbers on axes.
pub(super) const SMALL: f64 = 11.0;
/// Size of a title.
const LARGE: f64 = 15.0;
/// From one line of text to the next.
pub(super) const LINE: f64 = 17.0;
/// Colours of the sheet, and markers; together they tell the square of this many series apart.
const COLOURS: usize = 8;
/// How far a label under a slanted axis may reach down.
const SLANTED_ROOM: f64 = 92.0;

/// SVG elements, written one after another.
#[derive(Default)]
pub(super) struct Canvas {
    svg: String,
}

/// How text lies about its place.
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

    /// A point that says `tip` when pointed at.
    pub fn marker(&mut self, look: Look, hollow: bool, (x, y): (f64, f64), tip: &str) {
        let (class, hollow) = (look.class(), if hollow { " hollow" } else { "" });
        let (x, y, tip, shape) = (px(x), px(y), escape(tip), look.shape());
        self.put(format_args!(
            r#"<g class="mark {class}" transform="translate({x} {y})"><title>{tip}</title><path class="marker{hollow}" d="{shape}"/></g>"#
        ));
    }

    pub fn into_svg(self) -> String {
        self.svg
    }
}

/// A number as SVG has it; what is no number must never come here, and would lie at the edge.
pub(super) fn px(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// The colour and marker of the n-th series.
#[derive(Clone, Copy)]
pub(super) struct Look(pub usize);

impl Look {
    pub fn class(self) -> String {
        format!("c{}", self.0 % COLOURS)
    }

    fn shape(self) -> &'static str {
        match (self.0 + self.0 / COLOURS) % COLOURS {
            0 => "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
            1 => "M-3.6-3.6h7.2v7.2h-7.2z",
            2 => "M0-4.8L4.6 3.4H-4.6z",
            3 => "M0-5L5 0L0 5L-5 0z",
            4 => "M0 4.8L4.6-3.4H-4.6z",
            5 => "M-1.6-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
            6 => "M0-4.8L4.6-1.5L2.8 3.9H-2.8L-4.6-1.5z",
            _ => {
                "M-2.3-4.6L0-2.3L2.3-4.6L4.6-2.3L2.3 0L4.6 2.3L2.3 4.6L0 2.3L-2.3 4.6L-4.6 2.3L-2.3 0L-4.6-2.3z"
            }
        }
    }
}

/// What stands before a name in the legend.
pub(super) enum Symbol {
    /// A line of this class with the marker of its series.
    Line(Look, &'static str, bool),
    /// A line without a marker.
    Plain(&'static str),
    /// A marker alone.
    Marker(Look),
    /// A filled square of this class.
    Square(String),
}

/// One row of names after another, as many in each as fit, from `top` down; returns the end. Names are numbered as
/// the groups of class `series` are.
pub(super) fn legend(canvas: &mut Canvas, entries: &[(Symbol, String)], room: f64, top: f64) -> f64 {
    if entries.is_empty() {
        return top;
    }
    let (mut x, mut y) = (0.0, top);
    for (index, (symbol, name)) in entries.iter().enumerate() {
        let indent = match symbol {
            Symbol::Line(..) | Symbol::Plain(_) => 32.0,
            Symbol::Marker(_) | Symbol::Square(_) => 18.0,
        };
        let shown = shortened(name, FONT, room - indent);
        let wide = indent + width(&shown, FONT);
        if x > 0.0 && x + wide > room {
            (x, y) = (0.0, y + LINE + 2.0);
        }
        let (left, upper, full, name) = (px(x), px(y), px(wide + 4.0), escape(name));
        canvas.put(format_args!(
            r#"<g class="legend" data-series="{index}" transform="translate({left} {upper})"><title>{name}</title><rect class="hit" x="-2" y="0" width="{full}" height="18" rx="3"/>"#
        ));
        match symbol {
            Symbol::Line(look, class, hollow) => {
                let (colour, shape) = (look.class(), look.shape());
                let hollow = if *hollow { " hollow" } else { "" };
                canvas.put(format_args!(
                    r#"<g class="{colour}"><path class="{class}" d="M1 9H27"/><path class="marker{hollow}" transform="translate(14 9)" d="{shape}"/></g>"#
                ));
            }
            Symbol::Plain(class) => canvas.put(format_args!(r#"<path class="{class}" d="M1 9H27"/>"#)),
            Symbol::Marker(look) => {
                let (colour, shape) = (look.class(), look.shape());
                canvas.put(format_args!(
                    r#"<g class="{colour}"><path class="marker" transform="translate(7 9)" d="{shape}"/></g>"#
                ));
            }
            Symbol::Square(class) => {
                canvas.put(format_args!(
                    r#"<rect class="{class}" x="1" y="3" width="12" height="12" rx="2"/>"#
                ));
            }
        }
        canvas.text("", indent, 13.0, Anchor::Start, &shown);
        canvas.put(format_args!("</g>"));
        x += wide + 18.0;
    }
    y + LINE + 9.0
}

/// Where values lie: the inside of a plot's axes.
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

    /// The vertical axis with its lines across; its label stands above it, where it can be read.
    pub fn vertical(canvas: &mut Canvas, room: f64, top: f64, axis: &Axis, ticks: &Ticks) -> Self {
        let mut top = top;
        for line in wrapped(&axis.label, FONT, room) {
            canvas.text("label", 0.0, top + 12.0, Anchor::Start, &line);
            top += LINE;
        }
        let widest = ticks.labels.iter().map(|label| width(label, SMALL)).fold(0.0, f64::max);
        let top = top + 8.0;
        let frame = Self {
            left: widest + 8.0,
            right: room - 12.0,
            top,
            bottom: top + (room * 0.46).clamp(190.0, 400.0),
        };
        for (value, label) in ticks.values.iter().zip(&ticks.labels) {
            let Some(share) = ticks.share(*value) else { continue };
            let y = frame.y(share);
            canvas.line("grid", (frame.left, y), (frame.right, y));
            canvas.text("tick", frame.left - 8.0, y + 4.0, Anchor::End, label);
        }
        frame
    }

    /// The horizontal axis below; returns where it ends.
    pub fn horizontal(&self, canvas: &mut Canvas, axis: &Axis, ticks: &Ticks) -> f64 {
        canvas.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        let widest = ticks.labels.iter().map(|label| width(label, SMALL)).fold(0.0, f64::max) + 8.0;
        let places: Vec<f64> = ticks.values.iter().filter_map(|value| ticks.share(*value)).collect();
        let gaps = places.iter().zip(places.iter().skip(1)).map(|(place, next)| next - place);
        let spacing = gaps.fold(1.0, f64::min).max(1e-3) * (self.right - self.left);
        let every = (widest / spacing).ceil().max(1.0) as usize;
        for (index, (value, label)) in ticks.values.iter().zip(&ticks.labels).enumerate() {
            let Some(share) = ticks.share(*value) else { continue };
            let x = self.x(share);
            canvas.line("axis", (x, self.bottom), (x, self.bottom + 5.0));
            if index % every == 0 {
                // The last label must not leave the picture.
                let over = (x + width(label, SMALL) / 2.0 - self.right - 12.0).max(0.0);
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

    /// Names below, one in the middle of each equal part, slanted where they would touch; returns where they end.
    pub fn names(&self, canvas: &mut Canvas, names: &[String]) -> f64 {
        let part = (self.right - self.left) / names.len().max(1) as f64;
        let middle = |index: usize| self.left + part * (index as f64 + 0.5);
        if names.iter().all(|name| width(name, SMALL) + 6.0 <= part) {
            for (index, name) in names.iter().enumerate() {
                canvas.text("tick", middle(index), self.bottom + 17.0, Anchor::Middle, name);
            }
            return self.bottom + 26.0;
        }
        // Half of the right angle: a label of length l reaches l / √2 down and to the left.
        let every = (SMALL * 1.5 / part).ceil().max(1.0) as usize;
        let mut deepest: f64 = 0.0;
        for (index, name) in names.iter().enumerate().step_by(every) {
            let (x, y) = (middle(index) + 4.0, self.bottom + 13.0);
            let room = SLANTED_ROOM.min((x - 6.0).max(20.0)) * 2f64.sqrt();
            let shown = shortened(name, SMALL, room);
            deepest = deepest.max(width(&shown, SMALL) / 2f64.sqrt());
            let (x, y, shown, name) = (px(x), px(y), escape(&shown), escape(name));
            canvas.put(format_args!(
                r#"<text class="tick" transform="translate({x} {y}) rotate(-45)" text-anchor="end"><title>{name}</title>{shown}</text>"#
            ));
        }
        self.bottom + deepest + 24.0
    }
}

/// A line in a plot's place that says why there is none.
pub(super) fn no_data(canvas: &mut Canvas, room: f64, top: f64) -> f64 {
    let (left, upper, wide) = (px(0.5), px(top + 0.5), px(room - 1.0));
    canvas.put(format_args!(
        r#"<rect class="empty" x="{left}" y="{upper}" width="{wide}" height="119" rx="6"/>"#
    ));
    canvas.text("label", room / 2.0, top + 64.0, Anchor::Middle, "No data");
    top + 120.0
}

/// Small print under a plot.
pub(super) fn footnote(canvas: &mut Canvas, text: &str, room: f64, top: f64) -> f64 {
    let mut bottom = top;
    for line in wrapped(text, SMALL, room) {
        canvas.text("tick", 0.0, bottom + 14.0, Anchor::Start, &line);
        bottom += LINE - 2.0;
    }
    bottom + 4.0
}

/// A picture as a file of its own: with title, ground and sheet.
pub(super) fn document(title: &str, caption: &str, room: f64, body: &str, height: f64) -> String {
    const MARGIN: f64 = 20.0;
    let mut heading = Canvas::default();
    let mut top = MARGIN;
    for line in wrapped(title, LARGE * 1.05, room) {
        heading.text("title", MARGIN, top + 14.0, Anchor::Start, &line);
        top += 21.0;
    }
    top += 8.0;
    let (wide, high) = (px(room + 2.0 * MARGIN), px((top + height + MARGIN).ceil()));
    let (margin, top, heading) = (px(MARGIN), px(top), heading.into_svg());
    let (title, caption, sheet) = (escape(title), escape(caption), include_str!("assets/figure.css"));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"{wide}\" height=\"{high}\" \
         viewBox=\"0 0 {wide} {high}\" role=\"img\">\n<!-- {MARK} -->\n<title>{title}</title>\n<desc>{caption}</desc>\n\
         <style>\n{sheet}</style>\n<rect class=\"paper\" width=\"{wide}\" height=\"{high}\"/>\n{heading}\n\
         <g transform=\"translate({margin} {top})\">{body}</g>\n</svg>\n"
    )
}

/// A picture to stand in a page, which has the title, the ground and the sheet.
pub(super) fn embedded(class: &str, title: &str, room: f64, body: &str, height: f64) -> String {
    let (wide, high, title) = (px(room), px(height.ceil()), escape(title));
    format!(
        "<svg class=\"plot {class}\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" \
         role=\"group\" aria-label=\"{title}\">{body}</svg>"
    )
}
