//! The performance explorer: one page on which the speed-ups of many matrices are plotted, filtered and looked up.
//!
//! The page holds the data of all cases; its script computes the speed-ups, so that the reader chooses the kernel and what it is
//! compared with. A time without a verified result is never part of the page, so that no speed can be computed from it.
//!
//! ```
//! use rowloom_cli::plots::{ExplorerCase, ExplorerData, ExplorerMatrix, Timed, Timing, explorer_html};
//!
//! let matrix = ExplorerMatrix { name: "cant".into(), rows: 62_451, cols: 62_451, nnz: 4_007_383, ..Default::default() };
//! let timed = |name: &str, seconds| Timed {
//!     name: name.into(),
//!     library: None,
//!     timing: Timing::Verified { median_s: seconds, low_s: Some(seconds), high_s: Some(seconds) },
//! };
//! let measured = vec![timed("cpu_csr", 1e-3), timed("serial_csr", 2e-3)];
//! let case = ExplorerCase { dtype: "f64".into(), k: 8, device: "cpu".into(), measured, ..Default::default() };
//! let page = explorer_html(&ExplorerData { matrices: vec![matrix], cases: vec![case], ..Default::default() });
//! assert!(page.contains("cpu_csr") && page.contains("cant"));
//! ```

mod packed;

use super::html::POLICY;
use super::text::{escape, script_json};

/// Everything that the page shows.
#[derive(Debug, Clone, Default)]
pub struct ExplorerData {
    /// The title; it says where numbers are made up.
    pub title: String,
    /// The files that the cases come from.
    pub files: Vec<ExplorerFile>,
    /// The matrices.
    pub matrices: Vec<ExplorerMatrix>,
    /// The cases: one matrix, precision, K and device each.
    pub cases: Vec<ExplorerCase>,
    /// Results that are not part of the page, each with the reason.
    pub left_out: Vec<String>,
}

/// A file of results.
#[derive(Debug, Clone, Default)]
pub struct ExplorerFile {
    /// Its name.
    pub name: String,
    /// What it holds, in one line: command, version, machine, time.
    pub about: String,
}

/// A matrix. Features that are not known are `None`.
#[derive(Debug, Clone, Default)]
pub struct ExplorerMatrix {
    /// Its name.
    pub name: String,
    /// Its group of the collection, the kind of a generated one, or the folder of its file.
    pub group: String,
    /// The matrix as a command names it, quoted for a shell; empty where it is not known.
    pub argument: String,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Nonzeros.
    pub nnz: u64,
    /// Length of the longest row.
    pub longest_row: Option<f64>,
    /// Standard deviation of the row lengths divided by their mean.
    pub row_variation: Option<f64>,
    /// Share of the nonzeros in rows longer than 512.
    pub long_row_share: Option<f64>,
    /// Share of rows without nonzeros.
    pub empty_row_share: Option<f64>,
    /// Distinct columns per nonzero among 32 consecutive rows.
    pub new_columns: Option<f64>,
    /// Share of the nonzeros less than 2^16 columns from the median column of their 32 rows.
    pub near_share: Option<f64>,
    /// The nonzeros in cells, a digit from 0 to 7 each, one text for each row of cells.
    pub pattern: Vec<String>,
}

/// One matrix, precision, K and device.
#[derive(Debug, Clone, Default)]
pub struct ExplorerCase {
    /// The index of its file.
    pub file: usize,
    /// The index of its matrix.
    pub matrix: usize,
    /// The precision: `f64` or `f32`.
    pub dtype: String,
    /// Columns of X.
    pub k: u64,
    /// The device, and on which machine where there are several.
    pub device: String,
    /// The command before the matrix that repeats it: `bench` or `run`.
    pub command: String,
    /// The flags behind the matrix that repeat it.
    pub flags: String,
    /// The name of what the planner chose, as in `measured`; it may not have been measured.
    pub chosen: Option<String>,
    /// Why the planner chose it.
    pub reason: Option<String>,
    /// Every kernel and peer.
    pub measured: Vec<Timed>,
}

/// A kernel or an algorithm of a peer in one case.
#[derive(Debug, Clone)]
pub struct Timed {
    /// The name.
    pub name: String,
    /// The library of a peer; none for a kernel of Rowloom.
    pub library: Option<String>,
    /// Its time, or why there is none.
    pub timing: Timing,
}

/// The time of a verified result, or why there is no speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Timing {
    /// The median of a verified result with its 95 % interval, in seconds.
    Verified {
        /// The median.
        median_s: f64,
        /// Where the interval begins; none where it is not known.
        low_s: Option<f64>,
        /// Where it ends.
        high_s: Option<f64>,
    },
    /// The result was not checked.
    Unverified,
    /// The result was checked and is wrong.
    Wrong,
    /// It did not run.
    NotRun,
}

/// The page: one file that makes no requests.
pub fn explorer_html(data: &ExplorerData) -> String {
    let title = escape(&data.title);
    let (matrices, cases) = (data.matrices.len(), data.cases.len());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"generator\" content=\"rowloom\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{page_sheet}{own_sheet}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<p class=\"subtitle\" id=\"subtitle\">{cases} cases of {matrices} matrices</p>\n</header>\n\
         {body}<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"explorer-data\">{packed}</script>\n\
         <script>\n{common}</script>\n<script>\n{script}</script>\n<script>\n{plot}</script>\n<script>\n{views}</script>\n\
         </body>\n</html>\n",
        page_sheet = include_str!("../assets/report.css"),
        own_sheet = include_str!("../assets/explorer.css"),
        body = include_str!("../assets/explorer.html"),
        packed = script_json(&packed::packed(data)),
        common = include_str!("../assets/report.js"),
        script = include_str!("../assets/explorer.js"),
        plot = include_str!("../assets/explorer_plot.js"),
        views = include_str!("../assets/explorer_views.js"),
    )
}
