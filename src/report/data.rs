//! What a report shows, as plain data: nothing here knows how a study was run or how a picture is drawn.

use serde::{Deserialize, Serialize};

/// A whole report.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// One line under it.
    pub subtitle: String,
    /// Groups of names and values: the machine, the program, the study.
    pub facts: Vec<(String, Vec<(String, String)>)>,
    /// The resolved configuration, as TOML.
    pub configuration: String,
    /// What a shell command does, and the command.
    pub commands: Vec<(String, String)>,
    /// What a reader should know before trusting a number: throttling, outliers, missing peers.
    pub notes: Vec<String>,
    /// Plots, in the order of reading.
    pub figures: Vec<Figure>,
    /// Tables, in the order of reading.
    pub tables: Vec<Table>,
    /// Runs to look into.
    pub timelines: Vec<Timeline>,
}

/// One plot: one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The stem of its file's name.
    pub id: String,
    /// The question it answers, or the claim it shows.
    pub title: String,
    /// A sentence or two under it.
    pub caption: String,
    /// The picture.
    pub plot: Plot,
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
    /// Values beside one another.
    Bars(Bars),
}

/// One axis of a plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How values lie on it.
    pub scale: Scale,
    /// Whether zero is on it; means nothing for logarithms.
    pub from_zero: bool,
}

/// How values lie on an axis.
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
    /// Where it comes from, and so how it is drawn.
    pub style: SeriesStyle,
}

/// Where a series comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SeriesStyle {
    /// Seen; solid, with markers.
    Measured,
    /// What could be had at best; dashed and grey.
    Reference,
    /// Computed beforehand; dotted.
    Predicted,
}

/// One value, with what is known of its spread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Where on the horizontal axis.
    pub x: f64,
    /// Where on the vertical axis.
    pub y: f64,
    /// The lower end of its error bar.
    pub low: Option<f64>,
    /// The upper end of its error bar.
    pub high: Option<f64>,
    /// What more there is to say about it.
    pub label: Option<String>,
}

/// Values against a variable: scaling beside the ideal line, efficiency, rates by K, time by share.
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
    /// What the columns are.
    pub x_label: String,
    /// What the rows are.
    pub y_label: String,
    /// What the values are, with their unit.
    pub value_label: String,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// `values[row][column]`; `None` where there is none.
    pub values: Vec<Vec<Option<f64>>>,
    /// Whether the best of a row is its largest value.
    pub larger_is_better: bool,
}

/// Arithmetic rates under the bounds of the machine, both axes logarithmic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Roofline {
    /// The bounds.
    pub ceilings: Vec<Ceiling>,
    /// What was measured.
    pub points: Vec<RooflinePoint>,
}

/// The bounds that one memory and one processor set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// Its name: the memory, the cache or the device.
    pub name: String,
    /// Bandwidth.
    pub gb_per_s: f64,
    /// The most arithmetic there is, where known.
    pub peak_gflops: Option<f64>,
}

/// One measurement under a roofline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RooflinePoint {
    /// Its name, such as the kernel and the matrix.
    pub name: String,
    /// What shares its colour and marker.
    pub group: String,
    /// Arithmetic intensity.
    pub flops_per_byte: f64,
    /// The rate reached.
    pub gflops: f64,
}

/// Values beside one another; one group of bars for each category.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bars {
    /// The values.
    pub y: Axis,
    /// Names of the groups.
    pub categories: Vec<String>,
    /// A name, and one value for each category.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

/// A table that can be sorted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The stem of its file's name.
    pub id: String,
    /// What it lists.
    pub title: String,
    /// Its columns, from the left.
    pub columns: Vec<Column>,
    /// Its rows, from the top; a short row ends in empty cells.
    pub rows: Vec<Vec<Cell>>,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: Option<String>,
    /// Whether it holds numbers, which stand to the right.
    pub numeric: bool,
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, and how many digits are shown after its point.
    Number(f64, usize),
    /// Nothing; sorts behind everything.
    Empty,
}

/// An interactive timeline of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Which run it is.
    pub title: String,
    /// What to look at.
    pub caption: String,
    /// Where spans lie, from the top.
    pub lanes: Vec<Lane>,
    /// What happened.
    pub spans: Vec<Span>,
}

/// One row of a timeline: a stream of a device, or a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The device or process it belongs to; neighbours of the same one stand under one heading.
    pub process: String,
    /// Its own name.
    pub name: String,
}

/// One thing that took time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The lane it lies in, counted from zero.
    pub lane: usize,
    /// What it is.
    pub name: String,
    /// What kind of work: `upload`, `kernel`, `download`, `host` and so on; decides the colour.
    pub kind: String,
    /// Its start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// When it was to start.
    pub predicted_start_s: Option<f64>,
    /// When it was to end.
    pub predicted_end_s: Option<f64>,
    /// More about it, as names and values.
    pub details: Vec<(String, String)>,
}
