//! The content of a report as plain data: nothing here knows how a study was run or how a figure is drawn.

use serde::{Deserialize, Serialize};

/// A whole report.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// One line under the heading.
    pub subtitle: String,
    /// The answers to the report's questions, one for each.
    pub answers: Vec<Answer>,
    /// Reasons to doubt a number, in groups: throttling, outliers, cases that were not measured.
    pub warnings: Vec<WarningGroup>,
    /// Groups of names and values: the machine, the program, the study.
    pub facts: Vec<(String, Vec<(String, String)>)>,
    /// The resolved configuration, as TOML.
    pub configuration: String,
    /// A description of each shell command, and the command.
    pub commands: Vec<(String, String)>,
    /// Figures, in the order of reading.
    pub figures: Vec<Figure>,
    /// Tables, in the order of reading.
    pub tables: Vec<Table>,
    /// Timelines of single runs.
    pub timelines: Vec<Timeline>,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// The answer in a sentence or two.
    pub sentence: String,
    /// One row for each case: the winner, the next, and whether their difference exceeds the noise.
    pub cases: Option<Table>,
}

/// Warnings with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WarningGroup {
    /// The cause.
    pub cause: String,
    /// The results that it concerns.
    pub items: Vec<String>,
}

/// One figure: one question, in one or more panels.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Figure {
    /// The stem of its file's name.
    pub id: String,
    /// The question it answers, or the claim it shows.
    pub title: String,
    /// A sentence or two under it.
    pub caption: String,
    /// Small multiples. They share one legend, and lines of the same quantities with similar values share their axes.
    pub panels: Vec<Panel>,
    /// Series that are not in the figure, and why.
    pub missing: Vec<Missing>,
    /// Colour numbers of series by name, as [`share_colours`](super::share_colours) assigns them. A series that is not
    /// named here takes the first number that is free.
    pub colours: Vec<(String, usize)>,
}

/// One plot of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Panel {
    /// The heading, such as the matrix; empty where a figure has one panel.
    pub title: String,
    /// The plot.
    pub plot: Plot,
}

/// A series that is not in a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The name of the series.
    pub name: String,
    /// Whether it was measured and is left out, or was not measured.
    pub measured: bool,
    /// The reason.
    pub reason: String,
}

/// The kinds of plots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Plot {
    /// Values against a variable.
    Lines(Lines),
    /// Values over two choices.
    HeatMap(HeatMap),
    /// Arithmetic rates under the bounds that bandwidth and arithmetic set.
    Roofline(Roofline),
    /// Values by category.
    Bars(Bars),
}

/// One axis of a plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// Whether a linear axis includes zero; logarithmic axes ignore it.
    pub from_zero: bool,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Scale {
    /// Equal steps add.
    Linear,
    /// Equal steps double.
    Log2,
    /// Equal steps are tenfold.
    Log10,
}

/// Points joined in the order of x.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
    /// Its origin, which decides how it is drawn.
    pub style: SeriesStyle,
}

/// The origin of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SeriesStyle {
    /// Measured or simulated; solid, with markers.
    Measured,
    /// Many points; solid, without markers.
    Curve,
    /// An upper bound; dashed and grey.
    Reference,
    /// Predicted by the cost model; dotted.
    Predicted,
}

/// One value with its error bar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The value on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: f64,
    /// The lower end of its error bar.
    pub low: Option<f64>,
    /// The upper end of its error bar.
    pub high: Option<f64>,
    /// Details for its tooltip.
    pub label: Option<String>,
}

/// Values against a variable: speed-up with its ideal line, efficiency, rate by K, time by CPU share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lines {
    /// The variable.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// One line each.
    pub series: Vec<Series>,
}

/// Values over two choices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeatMap {
    /// The quantity in the columns.
    pub x_label: String,
    /// The quantity in the rows.
    pub y_label: String,
    /// The quantity in the cells, with its unit.
    pub value_label: String,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// `values[row][column]`; `None` where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
    /// Whether the best of a column is its largest value.
    pub larger_is_better: bool,
}

/// Arithmetic rates under the bounds of the machine; both axes are logarithmic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Roofline {
    /// The bounds.
    pub ceilings: Vec<Ceiling>,
    /// The measurements.
    pub points: Vec<RooflinePoint>,
}

/// The bounds that one memory and one processor set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// Its name: the memory, the cache or the device.
    pub name: String,
    /// Bandwidth.
    pub gb_per_s: f64,
    /// Peak arithmetic rate, where known.
    pub peak_gflops: Option<f64>,
}

/// One measurement under a roofline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RooflinePoint {
    /// Its name, such as the kernel and the matrix.
    pub name: String,
    /// The series it belongs to: points of a group share colour and marker.
    pub group: String,
    /// Arithmetic intensity.
    pub flops_per_byte: f64,
    /// The measured rate.
    pub gflops: f64,
}

/// Values by category: one group of bars for each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bars {
    /// The values.
    pub y: Axis,
    /// Names of the groups.
    pub categories: Vec<String>,
    /// A name, and one value for each category.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

/// A table; the page can sort it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The stem of its file's name.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// A sentence under the heading; empty for none.
    pub caption: String,
    /// Its columns, from the left.
    pub columns: Vec<Column>,
    /// Its rows, from the top; missing cells of a short row are empty.
    pub rows: Vec<Vec<Cell>>,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: Option<String>,
    /// Whether it holds numbers, which are aligned right.
    pub numeric: bool,
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number, and its digits after the decimal point.
    Number(f64, usize),
    /// No value; sorted last.
    Empty,
}

/// An interactive timeline of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The run's name.
    pub title: String,
    /// A sentence or two under it.
    pub caption: String,
    /// Its lanes, from the top.
    pub lanes: Vec<Lane>,
    /// Its spans, in any order.
    pub spans: Vec<Span>,
}

/// One row of a timeline: a stream of a device, or a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The device or process it belongs to; adjacent lanes of one process share a heading.
    pub process: String,
    /// Its own name.
    pub name: String,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The index of its lane.
    pub lane: usize,
    /// Its name.
    pub name: String,
    /// The kind of work, which decides the colour: `upload`, `kernel`, `download`, `host` and so on.
    pub kind: String,
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Its predicted start.
    pub predicted_start_s: Option<f64>,
    /// Its predicted end.
    pub predicted_end_s: Option<f64>,
    /// Details for its tooltip, as names and values.
    pub details: Vec<(String, String)>,
}
