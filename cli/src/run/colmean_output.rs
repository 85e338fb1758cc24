//! The statistics of columns by channel and sample: selection, files, and the plot of the mean curve.

use std::path::{Path, PathBuf};

use crate::args::ColmeanArguments;
use crate::args::options::Statistic;
use crate::console::{check_target, write_file};
use crate::operands::dense::DenseInput;
use crate::plots::{Axis, Figure, Lines, Panel, Plot, Point, Scale, Series, SeriesStyle, svg};
use rowloom::internal::error::{Counted, Error, Result};
use rowloom::internal::kernel::colmean::Totals;
use rowloom::internal::matrix::io::{npy, write};
use rowloom::internal::matrix::{MultiVector, Scalar};

/// Channels that are drawn as one curve each.
const DRAWN_CHANNELS: usize = 8;

/// The channels and samples of a row, and those that are reported.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnSelection {
    /// Columns of a channel.
    samples: usize,
    /// The channels that are reported, ascending.
    channels: Vec<usize>,
    /// The first sample that is reported, and one past the last.
    window: (usize, usize),
    /// All columns.
    columns: usize,
}

/// One column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its channel.
    pub channel: usize,
    /// Its number within the channel.
    pub sample: usize,
    /// Its number within the row.
    pub column: usize,
}

impl ColumnSelection {
    /// The columns that the flags ask for, of a table with `columns` columns.
    pub fn new(arguments: &ColmeanArguments, columns: usize) -> Result<Self> {
        let samples = arguments.samples.map_or(columns.max(1), |samples| samples as usize);
        if !columns.is_multiple_of(samples) {
            return Err(Error::usage(format!(
                "--samples {samples} does not divide the {columns} columns of the table"
            )));
        }
        let all = columns / samples;
        let channels = match &arguments.channel {
            None => (0..all).collect(),
            Some(selection) => selection
                .numbers(all as u64)
                .map_err(|number| {
                    let channels = if all == 1 { "1 channel".into() } else { format!("{all} channels") };
                    let hint = if arguments.samples.is_none() { "; --samples N divides a row" } else { "" };
                    Error::usage(format!(
                        "--channel {number}: the table has {channels}, counted from 0{hint}"
                    ))
                })?
                .into_iter()
                .map(|channel| channel as usize)
                .collect(),
        };
        let window = arguments.window.map_or((0, samples), |window| {
            (window.begin as usize, window.end.map_or(samples, |end| end as usize))
        });
        if arguments.window.is_some() && (window.1 > samples || window.0 >= window.1) {
            return Err(Error::usage(format!(
                "--window {}:{}: a channel has {samples} samples, counted from 0",
                window.0, window.1
            )));
        }
        Ok(Self { samples, channels, window, columns })
    }

    /// The reported columns, channel by channel.
    pub fn selected(&self) -> impl Iterator<Item = Column> + '_ {
        self.channels.iter().flat_map(move |&channel| {
            // A table without columns has one channel without samples.
            let samples = self.window.0..self.window.1.min(self.columns);
            samples.map(move |sample| Column { channel, sample, column: channel * self.samples + sample })
        })
    }

    /// In words: columns, or samples of channels where the table has several channels.
    pub fn describe(&self) -> String {
        let samples = (self.window.1 - self.window.0) as u64;
        if self.has_one_channel() {
            return Counted(samples, "column").to_string();
        }
        format!("{} of {}", Counted(samples, "sample"), Counted(self.channels.len() as u64, "channel"))
    }

    /// A column in words, with its name where there is one.
    pub fn name(&self, Column { channel, sample, column }: Column, names: &[String]) -> String {
        match names.get(column) {
            Some(name) => format!("column {column}, {name}"),
            None if self.has_one_channel() => format!("column {column}"),
            None => format!("channel {channel}, sample {sample}"),
        }
    }

    /// Whether the samples of a channel are all columns of the table.
    fn has_one_channel(&self) -> bool {
        self.samples == self.columns
    }
}

/// The statistics of all columns.
pub struct Statistics {
    /// Each statistic with a value for each column of the table.
    pub values: Vec<(Statistic, Vec<f64>)>,
    /// The mean of each column.
    pub means: Vec<f64>,
}

impl Statistics {
    /// The statistics of `totals`, each once.
    pub fn of(totals: &Totals, wanted: &[Statistic]) -> Self {
        let value = |statistic: Statistic| match statistic {
            Statistic::Mean => totals.means(),
            Statistic::Sum => totals.sums(),
            Statistic::Variance => totals.variances(1),
        };
        let mut values: Vec<(Statistic, Vec<f64>)> = Vec::new();
        for &statistic in wanted {
            if values.iter().all(|(known, _)| *known != statistic) {
                values.push((statistic, value(statistic)));
            }
        }
        Self { values, means: totals.means() }
    }

    /// The smallest and the largest reported mean, with their columns.
    pub fn extremes(&self, selection: &ColumnSelection) -> Option<[(f64, Column); 2]> {
        let means = || {
            let mean = |column: Column| self.means.get(column.column).map(|mean| (*mean, column));
            selection.selected().filter_map(mean).filter(|(mean, _)| mean.is_finite())
        };
        let smallest = means().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let largest = means().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some([smallest, largest])
    }

    /// The statistics of a column in one line, with its name where there is one.
    pub fn line(&self, column: Column, names: &[String]) -> String {
        let Column { channel, sample, column } = column;
        let name = match names.get(column) {
            Some(name) => format!("{column} ({name})"),
            None if channel == 0 => column.to_string(),
            None => format!("{column} (channel {channel}, sample {sample})"),
        };
        let value = |(statistic, values): &(Statistic, Vec<f64>)| {
            format!("{} {:.6}", statistic.name(), values.get(column).copied().unwrap_or(f64::NAN))
        };
        format!("{name}: {}", self.values.iter().map(value).collect::<Vec<_>>().join(", "))
    }

    /// The statistics as a table of text; the last column has the names where the table has them.
    fn csv(&self, selection: &ColumnSelection, names: &[String], provenance: &[String]) -> String {
        let mut text: String = provenance.iter().map(|line| format!("# {line}\n")).collect();
        text += "channel,sample,column";
        for (statistic, _) in &self.values {
            text += &format!(",{}", statistic.name());
        }
        text += if names.is_empty() { "\n" } else { ",name\n" };
        for Column { channel, sample, column } in selection.selected() {
            text += &format!("{channel},{sample},{column}");
            for (_, values) in &self.values {
                // The shortest text that reads back to the same number.
                text += &values.get(column).map_or(",".into(), |value| format!(",{value:?}"));
            }
            if let Some(name) = names.get(column) {
                text += &format!(",\"{}\"", name.replace('"', "\"\""));
            }
            text.push('\n');
        }
        text
    }

    fn array(&self, selection: &ColumnSelection) -> Result<MultiVector<f64>> {
        let columns: Vec<Column> = selection.selected().collect();
        MultiVector::from_fn(columns.len(), self.values.len(), |row, statistic| {
            self.values[statistic].1.get(columns[row].column).copied().unwrap_or(f64::NAN)
        })
    }

    /// The curve of the means: a line for each of a few channels, else the mean, smallest and largest of all of them.
    fn figure(&self, selection: &ColumnSelection, table: &str, rows: usize) -> Figure {
        let point = |sample: usize, y: f64| Point { x: sample as f64, y, low: None, high: None, label: None };
        let mean = |channel: usize, sample: usize| {
            self.means.get(channel * selection.samples + sample).copied().unwrap_or(f64::NAN)
        };
        let samples = || selection.window.0..selection.window.1.min(selection.columns);
        let series = |name: String, style, value: &dyn Fn(usize) -> f64| Series {
            name,
            points: samples().map(|sample| point(sample, value(sample))).collect(),
            style,
        };
        let channels = &selection.channels;
        let series: Vec<Series> = match channels.len() {
            0..=DRAWN_CHANNELS => channels
                .iter()
                .map(|&channel| {
                    series(format!("channel {channel}"), SeriesStyle::Curve, &|sample| mean(channel, sample))
                })
                .collect(),
            count => {
                let over = |sample: usize, from: f64, fold: fn(f64, f64) -> f64| {
                    channels.iter().map(|&channel| mean(channel, sample)).fold(from, fold)
                };
                let sum = |sample| over(sample, 0.0, |sum, mean| sum + mean);
                vec![
                    series(format!("mean of {count} channels"), SeriesStyle::Curve, &|sample| {
                        sum(sample) / count as f64
                    }),
                    series("smallest channel".into(), SeriesStyle::Reference, &|sample| {
                        over(sample, f64::INFINITY, f64::min)
                    }),
                    series("largest channel".into(), SeriesStyle::Reference, &|sample| {
                        over(sample, f64::NEG_INFINITY, f64::max)
                    }),
                ]
            }
        };
        let axis = |label: &str| Axis { label: label.into(), scale: Scale::Linear, from_zero: false };
        let plot = Plot::Lines(Lines { x: axis("sample"), y: axis("mean"), series });
        Figure {
            id: "colmean".into(),
            title: format!("Means of the columns of {table}"),
            caption: format!("Each value is the mean of {rows} rows."),
            panels: vec![Panel { title: String::new(), plot }],
            ..Figure::default()
        }
    }
}

/// The files that `--output` and `--plot` name.
#[derive(Debug)]
pub struct Files {
    output: Option<PathBuf>,
    plot: Option<PathBuf>,
}

impl Files {
    /// The files of the flags. Endings must be known and folders must accept new files.
    pub fn new(arguments: &ColmeanArguments) -> Result<Self> {
        let (output, plot) = (arguments.output.clone(), arguments.plot.clone());
        if let Some(path) = &output
            && !["csv", "npy", "mtx"].iter().any(|ending| has_ending(path, ending))
        {
            return Err(Error::usage(format!("{}: the ending must be .csv, .npy or .mtx", path.display())));
        }
        [&output, &plot].into_iter().flatten().try_for_each(|path| check_target(path))?;
        Ok(Self { output, plot })
    }

    /// Writes them.
    pub fn write<T: Scalar>(
        &self,
        statistics: &Statistics,
        selection: &ColumnSelection,
        table: &DenseInput<T>,
        provenance: &[String],
    ) -> Result<()> {
        match &self.output {
            Some(path) if has_ending(path, "csv") => {
                write_file(path, statistics.csv(selection, &table.column_names, provenance).as_bytes())?;
            }
            Some(path) if has_ending(path, "npy") => {
                npy::write_npy(path.as_path(), &statistics.array(selection)?, true)?;
            }
            Some(path) => write::write_array(path.as_path(), &statistics.array(selection)?)?,
            None => {}
        }
        match &self.plot {
            Some(path) => write_file(
                path,
                svg(&statistics.figure(selection, &table.name, table.values.rows())).as_bytes(),
            ),
            None => Ok(()),
        }
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}
