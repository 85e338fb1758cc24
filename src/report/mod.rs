//! Reports people look at: plots and one page, made of plain data.
//!
//! [`svg`] draws a figure as a file of its own, [`timeline_svg`] a run, and [`html`] puts a whole [`Report`] into one
//! page that opens without a network. Every text is escaped, and numbers that are none leave a gap, never a broken
//! picture.
//!
//! ```
//! use rowloom::report::{Axis, Figure, Lines, Plot, Point, Scale, Series, SeriesStyle, svg};
//!
//! let axis = |label: &str, scale| Axis { label: label.into(), scale, from_zero: true };
//! let point = |x, y| Point { x, y, low: None, high: None, label: None };
//! let measured = Series {
//!     name: "csr".into(),
//!     points: vec![point(1.0, 1.0), point(2.0, 1.9)],
//!     style: SeriesStyle::Measured,
//! };
//! let figure = Figure {
//!     id: "scaling".into(),
//!     title: "Does it scale?".into(),
//!     caption: String::new(),
//!     plot: Plot::Lines(Lines {
//!         x: axis("threads", Scale::Log2),
//!         y: axis("speed-up", Scale::Linear),
//!         series: vec![measured],
//!     }),
//! };
//! assert!(svg(&figure).starts_with("<svg"));
//! ```

mod bars;
mod data;
mod heat_map;
mod html;
mod lines;
mod picture;
mod roofline;
#[cfg(test)]
mod tests;
mod text;
mod ticks;
mod timeline;

pub use data::*;
pub use html::html;

use picture::Canvas;

/// Width of the inside of a picture in its own file, and of one with many names on it.
const WIDTH: f64 = 680.0;
const GREAT_WIDTH: f64 = 960.0;

/// A figure as an SVG file: legible on white, and on black where the viewer prefers that.
pub fn svg(figure: &Figure) -> String {
    let room = if has_many_names(&figure.plot) { GREAT_WIDTH } else { WIDTH };
    let mut canvas = Canvas::default();
    let height = draw(&figure.plot, &mut canvas, room);
    picture::document(&figure.title, &figure.caption, room, &canvas.into_svg(), height)
}

/// A run as an SVG file that stands still.
pub fn timeline_svg(timeline: &Timeline) -> String {
    let mut canvas = Canvas::default();
    let height = timeline::draw(timeline, &mut canvas, GREAT_WIDTH);
    picture::document(&timeline.title, &timeline.caption, GREAT_WIDTH, &canvas.into_svg(), height)
}

/// Whether so many names stand on a plot that it needs more width than others.
fn has_many_names(plot: &Plot) -> bool {
    match plot {
        Plot::HeatMap(map) => map.columns.len() > 8,
        Plot::Bars(bars) => bars.categories.len() * bars.series.len() > 16,
        Plot::Lines(_) | Plot::Roofline(_) => false,
    }
}

/// Draws a plot into a canvas `room` wide; returns how high it became.
fn draw(plot: &Plot, canvas: &mut Canvas, room: f64) -> f64 {
    match plot {
        Plot::Lines(lines) => lines::draw(lines, canvas, room),
        Plot::HeatMap(map) => heat_map::draw(map, canvas, room),
        Plot::Roofline(roofline) => roofline::draw(roofline, canvas, room),
        Plot::Bars(bars) => bars::draw(bars, canvas, room),
    }
}
