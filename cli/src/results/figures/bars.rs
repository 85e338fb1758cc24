//! Figures with names on the horizontal axis.

use super::series::{Unit, by_matrix, figure};
use super::sweep_records::{SweepRecords, count, is_serial};
use crate::plots::{Axis, Bars, Figure, Panel, Plot, Scale};
use crate::results::config::Subject;
use crate::results::record::Record;

/// The name of a series, and its value in each category.
type Values = (String, Vec<Option<f64>>);

/// The rate of each choice of the attribute `name`: GFLOP/s, or GB/s of work that is bound by memory.
pub fn choices(swept: &SweepRecords<'_>, name: &str, of: impl Fn(&Record) -> String) -> Option<Figure> {
    let categories = distinct(swept, &of);
    let in_bytes = matches!(swept.sweep.subject, Subject::Colmean | Subject::Transfers);
    let panels = by_matrix(swept, &[name], |label, members| {
        let rate = |record: &Record| if in_bytes { record.gb_per_s() } else { record.gflops() };
        let value = |category: &String| rate(members.iter().find(|record| of(record) == *category)?);
        Ok::<Values, String>((label.into(), categories.iter().map(value).collect()))
    });
    let amount = match swept.sweep.subject {
        Subject::Gemm => "2 × entries of A × columns of B operations",
        Subject::Colmean => "Bytes of the table",
        Subject::Transfers => "Bytes of all directions",
        _ => "2 × nonzeros × K operations",
    };
    let caption = format!("{amount} over the {}.", swept.time_noun());
    figure(
        swept,
        (&format!("rate by {name}"), format!("Which {} is fastest?", noun(name)), caption),
        bar_panels(panels.units, if in_bytes { "rate (GB/s)" } else { "rate (GFLOP/s)" }, &categories),
        panels.missing,
    )
}

/// The noun for an attribute of which one is chosen.
fn noun(name: &str) -> &str {
    match name {
        "devices" => "set of devices",
        "chunk_bytes" => "size of a copy",
        other => other,
    }
}

/// Times of conversions: serial, and parallel with the largest number of threads.
pub fn conversions(swept: &SweepRecords<'_>) -> Option<Figure> {
    let most = swept.records.iter().map(|record| record.threads).max()?;
    let categories = distinct(swept, &|record| conversion(record).0.to_string());
    let wanted: Vec<&Record> =
        swept.records.iter().copied().filter(|record| is_serial(record) || record.threads == most).collect();
    let wanted = SweepRecords { sweep: swept.sweep, records: wanted };
    // Serial conversions are measured again with every number of threads; the threads of a series are part of its name.
    let panels = by_matrix(&wanted, &["kernel", "threads"], |_, members| {
        let milliseconds = |way: &str, category: &String| {
            let is_it = |record: &&&Record| conversion(record) == (category.as_str(), way);
            Some(1e3 * members.iter().find(is_it)?.times.median?)
        };
        let series = |name: String, way: &str| -> Values {
            (name, categories.iter().map(|category| milliseconds(way, category)).collect())
        };
        Ok::<[Values; 2], String>([
            series("serial".into(), "serial"),
            series(format!("parallel, {}", count(most, "thread")), "parallel"),
        ])
    });
    let flat = |unit: Unit<[Values; 2]>| Unit {
        matrix: unit.matrix,
        series: unit.series.into_iter().flatten().collect::<Vec<Values>>(),
    };
    figure(
        swept,
        (
            "conversions",
            "How long do conversions take?".into(),
            "Median time. The input lists the entries column by column, as most files do.".into(),
        ),
        bar_panels(panels.units.into_iter().map(flat).collect(), "time (ms)", &categories),
        panels.missing,
    )
}

/// The conversion of a record, and whether it is `serial` or `parallel`.
fn conversion(record: &Record) -> (&str, &str) {
    record.kernel.rsplit_once(", ").unwrap_or((&record.kernel, ""))
}

/// The distinct values of the records that have times, in the order in which they appear.
fn distinct(swept: &SweepRecords<'_>, of: &impl Fn(&Record) -> String) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for record in swept.timed() {
        let value = of(record);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn bar_panels(units: Vec<Unit<Values>>, label: &str, categories: &[String]) -> Vec<Panel> {
    let panel = |unit: Unit<Values>| Panel {
        title: unit.matrix,
        plot: Plot::Bars(Bars {
            y: Axis { label: label.into(), scale: Scale::Linear, from_zero: true },
            categories: categories.to_vec(),
            series: unit.series,
        }),
    };
    units.into_iter().map(panel).collect()
}
