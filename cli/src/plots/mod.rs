//! Reports: figures and one page, made of plain data.
//!
//! [`svg`] draws a figure as a file, [`timeline_svg`] a run, and `html` makes one page of a whole [`Report`] that opens without
//! a network. All text is escaped; a value that is not a finite number leaves a gap and is counted below the figure.
//!
//! ```
//! use rowloom_cli::plots::{Axis, Figure, Lines, Panel, Plot, Point, Scale, Series, SeriesStyle, svg};
//!
//! let axis = |label: &str, scale| Axis { label: label.into(), scale, from_zero: true };
//! let point = |x, y| Point { x, y, low: None, high: None, label: None };
//! let measured = Series {
//!     name: "csr".into(),
//!     points: vec![point(1.0, 1.0), point(2.0, 1.9)],
//!     style: SeriesStyle::Measured,
//! };
//! let plot = Plot::Lines(Lines {
//!     x: axis("threads", Scale::Log2),
//!     y: axis("speed-up", Scale::Linear),
//!     series: vec![measured],
//! });
//! let figure = Figure {
//!     id: "scaling".into(),
//!     title: "Does it scale?".into(),
//!     panels: vec![Panel { title: String::new(), plot }],
//!     ..Figure::default()
//! };
//! assert!(svg(&figure).starts_with("<svg"));
//! ```

mod appearance;
mod bars;
mod canvas;
mod data;
mod explorer;
#[cfg(test)]
mod figure_tests;
mod heat_map;
mod html;
mod legend;
mod lines;
mod panels;
mod roofline;
#[cfg(test)]
mod tests;
mod text;
mod ticks;
mod timeline;

pub use appearance::share_colours;
pub use data::*;
pub use explorer::{ExplorerCase, ExplorerData, ExplorerFile, ExplorerMatrix, Timed, Timing, explorer_html};
pub use html::html;

use canvas::Canvas;

/// Width of a figure in a file, without margins.
const FIGURE_WIDTH: f64 = 680.0;
/// Width of a figure with several panels or many names.
const WIDE_FIGURE_WIDTH: f64 = 1040.0;

/// A figure as an SVG file, with light and dark colours.
pub fn svg(figure: &Figure) -> String {
    let width = if panels::is_wide(figure) { WIDE_FIGURE_WIDTH } else { FIGURE_WIDTH };
    let mut canvas = Canvas::default();
    let height = panels::draw(figure, &mut canvas, width);
    canvas::document(&figure.title, &figure.caption, width, &canvas.into_svg(), height)
}

/// A run as a static SVG file.
pub fn timeline_svg(timeline: &Timeline) -> String {
    let mut canvas = Canvas::default();
    let height = timeline::draw(timeline, &mut canvas, WIDE_FIGURE_WIDTH);
    canvas::document(&timeline.title, &timeline.caption, WIDE_FIGURE_WIDTH, &canvas.into_svg(), height)
}
