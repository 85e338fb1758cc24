//! Figures with a number on the horizontal axis.

use super::super::record::Record;
use super::series::{fastest, groups, measured, point, rate_spread, reference};
use super::{Swept, is_serial};
use crate::report::{Axis, Figure, Lines, Plot, Scale, Series, SeriesStyle};

fn axis(label: &str, scale: Scale, from_zero: bool) -> Axis {
    Axis { label: label.into(), scale, from_zero }
}

/// A sentence on what could not be shown.
fn without(left_out: usize) -> String {
    if left_out == 0 { String::new() } else { format!(" The {left_out} slowest series are left out.") }
}

/// Speed-up and efficiency by threads.
pub fn scaling_by_threads(swept: &Swept<'_>) -> Vec<Figure> {
    scaling(swept, "threads", &["threads"], |record| record.threads as f64)
}

/// Speed-up and efficiency by devices of one kind.
pub fn scaling_by_devices(swept: &Swept<'_>) -> Vec<Figure> {
    scaling(swept, "devices", &["devices"], |record| record.device_count as f64)
}

/// Rates against the rate at the smallest count, which holds for growing matrices too.
fn scaling(swept: &Swept<'_>, axis_name: &str, ignored: &[&str], x: fn(&Record) -> f64) -> Vec<Figure> {
    let mut ignored = ignored.to_vec();
    if swept.grows() {
        ignored.push("matrix");
    }
    let records: Vec<&Record> = swept.records.iter().copied().filter(|record| !is_serial(record)).collect();
    let (mut speedups, mut efficiencies) = (Vec::new(), Vec::new());
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for (name, members) in groups(&records, &ignored) {
        // One value of the axis more than once means that devices of several kinds are mixed; kinds are series then.
        let first = members.iter().min_by(|a, b| x(a).total_cmp(&x(b)));
        let Some(base) = first.and_then(|first| Some((x(first), first.gflops()?))) else { continue };
        let (mut up, mut part) = (Vec::new(), Vec::new());
        for record in &members {
            let Some(rate) = record.gflops() else { continue };
            let speedup = rate / base.1 * base.0;
            let spread =
                rate_spread(record).map(|(low, high)| (low / base.1 * base.0, high / base.1 * base.0));
            up.push(point(x(record), speedup, spread, record));
            part.push(point(x(record), 100.0 * speedup / x(record), None, record));
        }
        if up.len() > 1 {
            least = up.iter().map(|point| point.x).fold(least, f64::min);
            most = up.iter().map(|point| point.x).fold(most, f64::max);
            speedups.push(measured(name.clone(), up));
            efficiencies.push(measured(name, part));
        }
    }
    if speedups.is_empty() {
        return Vec::new();
    }
    let ((mut speedups, left_out), (mut efficiencies, _)) = (fastest(speedups), fastest(efficiencies));
    speedups.push(reference("ideal", &[(least, least), (most, most)]));
    efficiencies.push(reference("ideal", &[(least, 100.0), (most, 100.0)]));
    let kind = if swept.grows() { "weak scaling: the matrix grows with them" } else { "strong scaling" };
    let x_axis = axis(axis_name, Scale::Log2, false);
    let figure = |id: &str, title: String, caption: String, y: Axis, series: Vec<Series>| Figure {
        id: swept.id(&format!("{id} {axis_name}")),
        title,
        caption,
        plot: Plot::Lines(Lines { x: x_axis.clone(), y, series }),
    };
    vec![
        figure(
            "speed-up",
            format!("How much faster do more {axis_name} make it? ({})", swept.sweep.name),
            format!(
                "Rate over the rate with the fewest {axis_name}, {kind}. Bars reach from the 95th percentile of the times to the shortest.{}",
                without(left_out)
            ),
            axis("speed-up", Scale::Log2, false),
            speedups,
        ),
        figure(
            "efficiency",
            format!("How well are {axis_name} used? ({})", swept.sweep.name),
            format!("Speed-up over the number of {axis_name}, {kind}.{}", without(left_out)),
            axis("efficiency (%)", Scale::Linear, true),
            efficiencies,
        ),
    ]
}

/// How many times faster than the serial kernel, by threads.
pub fn speedup_by_threads(swept: &Swept<'_>) -> Option<Figure> {
    let known: Vec<&Record> = swept
        .records
        .iter()
        .copied()
        .filter(|record| {
            record.speedup.is_some() && !is_serial(record) && !record.kernel.ends_with(", serial")
        })
        .collect();
    let mut ignored = vec!["threads"];
    if swept.grows() {
        ignored.push("matrix");
    }
    let mut series = Vec::new();
    for (name, members) in groups(&known, &ignored) {
        let points: Vec<_> = members
            .iter()
            .filter_map(|record| Some(point(record.threads as f64, record.speedup?, None, record)))
            .collect();
        if points.len() > 1 {
            series.push(measured(name, points));
        }
    }
    if series.is_empty() {
        return None;
    }
    let (series, left_out) = fastest(series);
    Some(Figure {
        id: swept.id("speed-up over serial"),
        title: format!("How many times faster than the serial one? ({})", swept.sweep.name),
        caption: format!("Median time of the serial one over the median time.{}", without(left_out)),
        plot: Plot::Lines(Lines {
            x: axis("threads", Scale::Log2, false),
            y: axis("speed-up over serial", Scale::Linear, true),
            series,
        }),
    })
}

/// GFLOP/s by K.
pub fn rate_by_k(swept: &Swept<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut matrices: Vec<&str> = Vec::new();
    for record in &swept.records {
        if !matrices.contains(&record.matrix.name.as_str()) {
            matrices.push(&record.matrix.name);
        }
    }
    let kernels = swept.values(|record| record.kernel.clone());
    // Many kernels on many matrices are a figure for each matrix.
    let apart = kernels > 2 && matrices.len() > 1;
    let parts: Vec<Option<&str>> = if apart { matrices.into_iter().map(Some).collect() } else { vec![None] };
    for part in parts {
        let of_part = |record: &&Record| part.is_none_or(|matrix| record.matrix.name == matrix);
        let records: Vec<&Record> = swept.records.iter().copied().filter(of_part).collect();
        let mut series = Vec::new();
        for (name, members) in groups(&records, &["k"]) {
            let rate = |record: &&&Record| {
                Some(point(record.k? as f64, record.gflops()?, rate_spread(record), record))
            };
            series.push(measured(name, members.iter().filter_map(|record| rate(&record)).collect()));
        }
        series.retain(|series| series.points.len() > 1);
        if series.is_empty() {
            continue;
        }
        let (series, left_out) = fastest(series);
        let (of, id) = part
            .map_or((String::new(), String::new()), |matrix| (format!(", {matrix}"), format!(" {matrix}")));
        figures.push(Figure {
            id: swept.id(&format!("rate by k{id}")),
            title: format!("How fast is it with more columns? ({}{of})", swept.sweep.name),
            caption: format!(
                "Two operations for each nonzero and column, at the median time; bars reach from the 95th percentile of the times to the shortest.{}",
                without(left_out)
            ),
            plot: Plot::Lines(Lines {
                x: axis("K, columns of X", Scale::Log2, false),
                y: axis("GFLOP/s", Scale::Linear, true),
                series,
            }),
        });
    }
    figures
}

/// Hidden share and time by the size of chunks.
pub fn overlap_by_chunk(swept: &Swept<'_>) -> Vec<Figure> {
    let mebibytes = |record: &Record| record.chunk_bytes.map(|bytes| bytes as f64 / (1u64 << 20) as f64);
    let (mut hidden, mut times) = (Vec::new(), Vec::new());
    for (name, members) in groups(&swept.records, &["chunk_bytes"]) {
        let points = members.iter().filter_map(|record| {
            Some(point(mebibytes(record)?, 100.0 * record.hidden_fraction?, None, record))
        });
        hidden.push(measured(name.clone(), points.collect()));
        times.push(measured(name, times_at(&members, mebibytes)));
    }
    hidden.retain(|series| !series.points.is_empty());
    let figure = |id: &str, title: &str, caption: &str, y: Axis, series: Vec<Series>| Figure {
        id: swept.id(id),
        title: format!("{title} ({})", swept.sweep.name),
        caption: caption.into(),
        plot: Plot::Lines(Lines { x: axis("A in a chunk (MiB)", Scale::Log2, false), y, series }),
    };
    let mut figures = Vec::new();
    if !hidden.is_empty() {
        figures.push(figure(
            "overlap by chunk",
            "How much of copying and computing goes on at once?",
            "Of the shorter of copy and compute time, the share that ran while the other ran.",
            axis("hidden (%)", Scale::Linear, true),
            fastest(hidden).0,
        ));
    }
    figures.push(figure(
        "time by chunk",
        "Which chunks are fastest?",
        "Median time of a product; bars reach from the shortest to the 95th percentile.",
        axis("time (ms)", Scale::Linear, true),
        fastest(times).0,
    ));
    figures
}

fn times_at(members: &[&Record], x: impl Fn(&Record) -> Option<f64>) -> Vec<crate::report::Point> {
    let of = |record: &&Record| {
        let spread = record.times.min.zip(record.times.p95).map(|(min, p95)| (1e3 * min, 1e3 * p95));
        Some(point(x(record)?, 1e3 * record.times.median?, spread, record))
    };
    members.iter().filter_map(of).collect()
}

/// Time by the CPU's share, measured and predicted.
pub fn time_by_share(swept: &Swept<'_>) -> Option<Figure> {
    let share = |record: &Record| record.cpu_share.map(|share| 100.0 * share);
    let mut series = Vec::new();
    for (name, members) in groups(&swept.records, &["cpu_share"]) {
        let predicted = members
            .iter()
            .filter(|record| !record.simulated)
            .filter_map(|record| Some(point(share(record)?, 1e3 * record.predicted_s?, None, record)));
        let predicted = measured(format!("{name}, predicted"), predicted.collect());
        series.push(measured(name, times_at(&members, share)));
        if !predicted.points.is_empty() {
            series.push(Series { style: SeriesStyle::Predicted, ..predicted });
        }
    }
    let (series, left_out) = fastest(series);
    Some(Figure {
        id: swept.id("time by share"),
        title: format!("How much should the CPU compute? ({})", swept.sweep.name),
        caption: format!(
            "Median time of a product with a share of it computed by the CPU; bars reach from the shortest to the 95th percentile.{}",
            without(left_out)
        ),
        plot: Plot::Lines(Lines {
            x: axis("the CPU's share (%)", Scale::Linear, true),
            y: axis("time (ms)", Scale::Linear, true),
            series,
        }),
    })
}
