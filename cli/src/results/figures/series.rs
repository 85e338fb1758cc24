//! Records as series: named by the attributes that vary, grouped into panels by matrix, with the series that are missing.

use super::sweep_records::{SweepRecords, count};
use crate::plots::{Figure, Missing, Panel, Plot, Point, Series, SeriesStyle};
use crate::results::record::Record;
use crate::statistics::noise_interval;

/// Series that a panel can show; more are split over several panels.
const MAX_SERIES: usize = 12;

/// The name of an attribute, and its value in a record; empty where it does not apply.
type Attribute = (&'static str, fn(&Record) -> String);

/// Attributes that can distinguish records.
const ATTRIBUTES: [Attribute; 13] = [
    ("matrix", |r| r.matrix.name.clone()),
    ("kernel", |r| r.kernel.replace(',', ", ").replace(",  ", ", ")),
    ("k", |r| r.k.map_or(String::new(), |k| format!("K = {k}"))),
    ("dtype", |r| r.dtype.map_or(String::new(), |dtype| dtype.name().into())),
    ("devices", |r| r.devices.clone()),
    ("kind of devices", |r| kind_of_devices(&r.devices)),
    ("threads", |r| if r.threads == 1 { "1 thread".into() } else { format!("{} threads", r.threads) }),
    ("ranks", |r| r.ranks.map_or(String::new(), |ranks| count(ranks, "rank"))),
    ("mode", |r| r.mode.clone().unwrap_or_default()),
    ("schedule", |r| r.schedule.clone().unwrap_or_default()),
    ("transfer", |r| r.transfer.clone().unwrap_or_default()),
    ("chunk_bytes", |r| r.chunk_bytes.map_or(String::new(), |bytes| format!("{} chunks", size(bytes)))),
    ("cpu_share", |r| {
        r.cpu_share.map_or(String::new(), |share| format!("{:.0} % on the CPU", share * 100.0))
    }),
];

/// `64 KiB`, `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let text = format!("{:.2}", bytes as f64 / *unit as f64);
            format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} B"),
    }
}

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

/// Names records by the attributes that vary among them.
pub struct Naming {
    varying: Vec<Attribute>,
}

impl Naming {
    /// The attributes that vary in `records`, without those in `ignored`.
    pub fn new(records: &[&Record], ignored: &[&str]) -> Self {
        let varies = |of: fn(&Record) -> String| {
            let mut values = records.iter().map(|record| of(record)).filter(|value| !value.is_empty());
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        // Where the number of devices is the axis, their kind still distinguishes series.
        let by_kind = ignored.contains(&"devices");
        let is_used = |(name, of): &&Attribute| {
            let is_known = !ignored.contains(name) && (*name != "kind of devices" || by_kind);
            is_known && varies(*of)
        };
        Self { varying: ATTRIBUTES.iter().filter(is_used).copied().collect() }
    }

    /// The names of the varying attributes.
    pub fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.varying.iter().map(|(name, _)| *name)
    }

    /// The values of the varying attributes in a record.
    pub fn values(&self, record: &Record) -> Vec<String> {
        self.varying.iter().map(|(_, of)| of(record)).filter(|value| !value.is_empty()).collect()
    }

    /// The name of a record: the values of the varying attributes.
    pub fn name(&self, record: &Record) -> String {
        let values = self.values(record);
        match (values.is_empty(), record.simulated) {
            (false, _) => values.join(", "),
            (true, true) => "simulated".into(),
            (true, false) => "measured".into(),
        }
    }
}

/// Records that have the same name, in the order in which the names appear.
pub fn grouped<'a>(
    records: &[&'a Record],
    name: impl Fn(&Record) -> String,
) -> Vec<(String, Vec<&'a Record>)> {
    let mut groups: Vec<(String, Vec<&Record>)> = Vec::new();
    for &record in records {
        let name = name(record);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(record),
            None => groups.push((name, vec![record])),
        }
    }
    groups
}

/// A panel before it is drawn: the matrix, and the values of each series.
pub struct Unit<S> {
    /// The matrix; empty where there is one only, or where it grows along the axis.
    pub matrix: String,
    /// One for each group of records.
    pub series: Vec<S>,
}

/// Panels by matrix, and the series that none of them shows.
pub struct Panels<S> {
    /// One for each matrix with a series.
    pub units: Vec<Unit<S>>,
    /// Series without times, with the reason.
    pub missing: Vec<Missing>,
}

/// Makes a series of each group of records that differ in nothing but `axis`. `series_of` gets the name and the records that have
/// times of verified results, and returns the series or the reason why it is not shown. The other records are missing.
pub fn by_matrix<S>(
    swept: &SweepRecords<'_>,
    axis: &[&str],
    series_of: impl Fn(&str, &[&Record]) -> Result<S, String>,
) -> Panels<S> {
    let mut ignored = axis.to_vec();
    ignored.push("matrix");
    let naming = Naming::new(&swept.records, &ignored);
    let matrices = match swept.grows() {
        true => vec![(String::new(), swept.records.clone())],
        false => grouped(&swept.records, |record| record.matrix.name.clone()),
    };
    let several = matrices.len() > 1;
    let mut panels = Panels { units: Vec::new(), missing: Vec::new() };
    let mut absent: Vec<(Missing, String)> = Vec::new();
    for (matrix, records) in matrices {
        let mut unit =
            Unit { matrix: if several { matrix.clone() } else { String::new() }, series: Vec::new() };
        for (name, members) in grouped(&records, |record| naming.name(record)) {
            let (timed, untimed): (Vec<&Record>, Vec<&Record>) =
                members.iter().partition(|record| record.verified_s().is_some());
            for record in &untimed {
                let position = axis.iter().filter_map(|axis| attribute(axis, record)).next();
                let name = match position.filter(|_| !timed.is_empty()) {
                    Some(position) => format!("{name} at {position}"),
                    None => name.clone(),
                };
                let measured = record.times.median.is_some();
                let missing = Missing { name, measured, reason: short_reason(record) };
                absent.push((missing, matrix.clone()));
            }
            if timed.is_empty() {
                continue;
            }
            match series_of(&name, &timed) {
                Ok(series) => unit.series.push(series),
                Err(reason) => absent.push((Missing { name, measured: true, reason }, matrix.clone())),
            }
        }
        if !unit.series.is_empty() {
            panels.units.push(unit);
        }
    }
    panels.missing = merged(absent, if several { panels.units.len() } else { 1 });
    panels.missing.extend(absent_peers(swept));
    panels
}

/// The value of the attribute of that name.
fn attribute(name: &str, record: &Record) -> Option<String> {
    let (_, of) = ATTRIBUTES.iter().find(|(known, _)| *known == name)?;
    Some(of(record)).filter(|value| !value.is_empty())
}

/// The first clause of the reason why there are no times, or why they are not compared.
pub fn short_reason(record: &Record) -> String {
    let reason = record.reason.as_deref().or(record.unverified_reason()).unwrap_or("no times");
    reason.split(';').next().unwrap_or(reason).trim().into()
}

/// Each missing series once; with its matrices where it is missing in some of the `panels` only.
fn merged(absent: Vec<(Missing, String)>, panels: usize) -> Vec<Missing> {
    let mut merged: Vec<(Missing, Vec<String>)> = Vec::new();
    for (missing, matrix) in absent {
        match merged.iter_mut().find(|(known, _)| *known == missing) {
            Some((_, matrices)) if matrices.contains(&matrix) => {}
            Some((_, matrices)) => matrices.push(matrix),
            None => merged.push((missing, vec![matrix])),
        }
    }
    let named = |(missing, matrices): (Missing, Vec<String>)| match matrices.len() < panels {
        true => Missing { name: format!("{} on {}", missing.name, matrices.join(" and ")), ..missing },
        false => missing,
    };
    merged.into_iter().map(named).collect()
}

/// Libraries that the sweep asks for and that have no records.
fn absent_peers(swept: &SweepRecords<'_>) -> Vec<Missing> {
    let is_absent =
        |peer: &&String| swept.records.iter().all(|record| !record.kernel.starts_with(peer.as_str()));
    let missing = |peer: &String| Missing {
        name: peer.clone(),
        measured: false,
        reason: "not usable on this machine, see the warnings".into(),
    };
    swept.sweep.against.iter().filter(is_absent).map(missing).collect()
}

/// A measured series, with the series that was predicted for it.
pub type Pair = (Series, Option<Series>);

/// Panels of lines. `plot` gets the series of a panel and makes the plot; a panel with too many series is split, the series with
/// the largest values first.
pub fn line_panels(units: Vec<Unit<Pair>>, plot: impl Fn(Vec<Series>) -> Plot) -> Vec<Panel> {
    let mut panels = Vec::new();
    for Unit { matrix, mut series } in units {
        let parts = series.len().div_ceil(MAX_SERIES);
        if parts > 1 {
            let largest = |(series, _): &Pair| series.points.iter().map(|point| point.y).fold(0.0, f64::max);
            series.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
        }
        for (index, part) in series.chunks(MAX_SERIES).enumerate() {
            let title = match parts {
                1 => matrix.clone(),
                _ => format!("{matrix} (part {} of {parts})", index + 1).trim_start().into(),
            };
            let both =
                part.iter().flat_map(|(measured, predicted)| [Some(measured.clone()), predicted.clone()]);
            panels.push(Panel { title, plot: plot(both.flatten().collect()) });
        }
    }
    panels
}

/// A figure of the sweep, or none where no panel has a series.
pub fn figure(
    swept: &SweepRecords<'_>,
    (id, title, caption): (&str, String, String),
    panels: Vec<Panel>,
    missing: Vec<Missing>,
) -> Option<Figure> {
    let title = format!("{title} (sweep: {})", swept.sweep.name);
    let colours = Vec::new();
    (!panels.is_empty()).then(|| Figure { id: swept.id(id), title, caption, panels, missing, colours })
}

/// A point with the details of its record.
pub fn point(x: f64, y: f64, spread: Option<(f64, f64)>, record: &Record) -> Point {
    let runs = match (record.simulated, record.times.n) {
        (true, _) => "simulated".into(),
        (false, 1) => "1 run".into(),
        (false, runs) => format!("{runs} runs"),
    };
    let label = format!("{}, {} on {}: {runs}", record.matrix.name, record.kernel, record.devices);
    Point { x, y, low: spread.map(|(low, _)| low), high: spread.map(|(_, high)| high), label: Some(label) }
}

/// The noise interval of the time in seconds; simulated times have none.
pub fn time_spread(record: &Record) -> Option<(f64, f64)> {
    noise_interval(&record.times).filter(|(low, _)| !record.simulated && *low > 0.0)
}

/// The noise interval of the rate in GFLOP/s.
pub fn rate_spread(record: &Record) -> Option<(f64, f64)> {
    let flops = record.flops.filter(|_| record.is_verified())?;
    let (low, high) = time_spread(record)?;
    Some((flops / high * 1e-9, flops / low * 1e-9))
}

/// The interval of a ratio of two rates that have these intervals: the relative widths are added in quadrature, as in `bench`.
pub fn ratio_spread(ratio: f64, rate: (f64, (f64, f64)), base: (f64, (f64, f64))) -> (f64, f64) {
    let ((rate, (low, high)), (base, (base_low, base_high))) = (rate, base);
    let below = (1.0 - low / rate).hypot(base_high / base - 1.0);
    let above = (high / rate - 1.0).hypot(1.0 - base_low / base);
    (ratio * (1.0 - below).max(0.0), ratio * (1.0 + above))
}

/// A measured series of points in the order of x.
pub fn measured(name: &str, mut points: Vec<Point>) -> Series {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { name: name.into(), points, style: SeriesStyle::Measured }
}

/// A reference line through these points.
pub fn reference(name: &str, points: &[(f64, f64)]) -> Series {
    let point = |&(x, y): &(f64, f64)| Point { x, y, low: None, high: None, label: None };
    Series { name: name.into(), points: points.iter().map(point).collect(), style: SeriesStyle::Reference }
}
