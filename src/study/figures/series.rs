//! Records as series of points: grouped by everything that varies beside the axis.

use super::super::record::Record;
use crate::report::{Point, Series, SeriesStyle};

/// Most series that a figure can be read with.
pub const MOST_SERIES: usize = 9;

/// A name, and what a record has of it.
type Attribute = (&'static str, fn(&Record) -> String);

/// What may tell records apart.
const ATTRIBUTES: [Attribute; 12] = [
    ("matrix", |r| r.matrix.name.clone()),
    ("kernel", |r| r.kernel.clone()),
    ("k", |r| r.k.map_or(String::new(), |k| format!("K = {k}"))),
    ("dtype", |r| r.dtype.map_or(String::new(), |dtype| dtype.name().into())),
    ("devices", |r| r.devices.clone()),
    ("kind of devices", |r| kind_of_devices(&r.devices)),
    ("threads", |r| format!("{} threads", r.threads)),
    ("mode", |r| r.mode.clone().unwrap_or_default()),
    ("schedule", |r| r.schedule.clone().unwrap_or_default()),
    ("transfer", |r| r.transfer.clone().unwrap_or_default()),
    ("chunk_bytes", |r| r.chunk_bytes.map_or(String::new(), |bytes| format!("{bytes} B"))),
    ("cpu_share", |r| r.cpu_share.map_or(String::new(), |share| format!("{:.0}% CPU", share * 100.0))),
];

/// `sim:h200` for `sim:h200x4`, `cpu,emu` for `cpu,emu:0,emu:1`.
fn kind_of_devices(devices: &str) -> String {
    let kind = |word: &str| match word.split_once(':') {
        Some(("sim", machine)) => {
            let counted = machine.rsplit_once('x').filter(|(_, count)| count.parse::<u32>().is_ok());
            format!("sim:{}", counted.map_or(machine, |(machine, _)| machine))
        }
        Some((kind, _)) => kind.to_string(),
        None => word.to_string(),
    };
    let mut kinds: Vec<String> = devices.split(',').map(kind).collect();
    kinds.dedup();
    kinds.join(",")
}

/// Records in groups that differ in nothing but what `without` names; each with a name of what tells it apart.
pub fn groups<'a>(records: &[&'a Record], without: &[&str]) -> Vec<(String, Vec<&'a Record>)> {
    let varies = |of: &fn(&Record) -> String| {
        let first = records.first().map(|record| of(record));
        records.iter().any(|record| Some(of(record)) != first)
    };
    let telling: Vec<fn(&Record) -> String> = ATTRIBUTES
        .iter()
        .filter(|(name, of)| {
            // How many devices there are may be the axis; of what kind they are then still matters.
            let counted = *name == "kind of devices" && !without.contains(&"devices");
            !without.contains(name) && !counted && varies(of)
        })
        .map(|(_, of)| *of)
        .collect();
    let mut groups: Vec<(String, Vec<&Record>)> = Vec::new();
    for &record in records {
        let words: Vec<String> =
            telling.iter().map(|of| of(record)).filter(|word| !word.is_empty()).collect();
        let name = if words.is_empty() { record.matrix.name.clone() } else { words.join(", ") };
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(record),
            None => groups.push((name, vec![record])),
        }
    }
    groups
}

/// A point with what is to be said of its record.
pub fn point(x: f64, y: f64, spread: Option<(f64, f64)>, record: &Record) -> Point {
    let runs = if record.simulated { "simulated".into() } else { format!("{} runs", record.times.n) };
    let label = format!("{}, {} on {}: {runs}", record.matrix.name, record.kernel, record.devices);
    Point { x, y, low: spread.map(|(low, _)| low), high: spread.map(|(_, high)| high), label: Some(label) }
}

/// The rate's spread: at the 95th percentile of the times, and at the shortest.
pub fn rate_spread(record: &Record) -> Option<(f64, f64)> {
    let flops = record.flops?;
    let rate = |seconds: f64| flops / seconds * 1e-9;
    Some((rate(record.times.p95.filter(|&p95| p95 > 0.0)?), rate(record.times.min.filter(|&min| min > 0.0)?)))
}

/// Measured series, in the order they came; the fastest where there are too many, and how many were left out.
pub fn fastest(mut series: Vec<Series>) -> (Vec<Series>, usize) {
    let left_out = series.len().saturating_sub(MOST_SERIES);
    if left_out > 0 {
        let highest = |series: &Series| series.points.iter().map(|point| point.y).fold(0.0, f64::max);
        let mut heights: Vec<f64> = series.iter().map(highest).collect();
        heights.sort_by(|a, b| b.total_cmp(a));
        let least = heights.get(MOST_SERIES - 1).copied().unwrap_or(0.0);
        series.retain(|series| highest(series) >= least);
        series.truncate(MOST_SERIES);
    }
    (series, left_out)
}

/// A measured series of points in the order of x.
pub fn measured(name: String, mut points: Vec<Point>) -> Series {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { name, points, style: SeriesStyle::Measured }
}

/// A reference line through these points.
pub fn reference(name: &str, points: &[(f64, f64)]) -> Series {
    let point = |&(x, y): &(f64, f64)| Point { x, y, low: None, high: None, label: None };
    Series { name: name.into(), points: points.iter().map(point).collect(), style: SeriesStyle::Reference }
}
