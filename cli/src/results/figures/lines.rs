//! Figures with a number on the horizontal axis.

use super::series::{
    Pair, by_matrix, figure, line_panels, measured, point, rate_spread, ratio_spread, reference, time_spread,
};
use super::sweep_records::{SweepRecords, is_serial};
use crate::plots::{Axis, Figure, Lines, Plot, Point, Scale, Series, SeriesStyle};
use crate::results::baseline::baselines;
use crate::results::config::Subject;
use crate::results::record::{Measured, Record};

/// Largest ratio of two series that a linear axis shows.
const MAX_LINEAR_RATIO: f64 = 10.0;

fn axis(label: &str, scale: Scale, from_zero: bool) -> Axis {
    Axis { label: label.into(), scale, from_zero }
}

/// Speed-up and efficiency by threads.
pub fn scaling_by_threads(swept: &SweepRecords<'_>) -> Vec<Figure> {
    scaling(swept, "threads", |record| record.threads as f64)
}

/// Speed-up and efficiency by devices of one kind.
pub fn scaling_by_devices(swept: &SweepRecords<'_>) -> Vec<Figure> {
    scaling(swept, "devices", |record| record.device_count as f64)
}

/// Speed-up and efficiency by ranks.
pub fn scaling_by_ranks(swept: &SweepRecords<'_>) -> Vec<Figure> {
    scaling(swept, "ranks", |record| record.ranks.unwrap_or(1) as f64)
}

/// Rates relative to the rate at the smallest count, which is right for growing matrices too.
fn scaling(swept: &SweepRecords<'_>, axis_name: &str, x: fn(&Record) -> f64) -> Vec<Figure> {
    let points_of = |members: &[&Record], efficiency: bool| -> Result<Vec<Point>, String> {
        if members.iter().any(|record| is_serial(record)) && axis_name == "threads" {
            return Err("runs on one thread".into());
        }
        let first = members.iter().min_by(|a, b| x(a).total_cmp(&x(b)));
        let base = first.and_then(|first| Some((x(first), first.gflops()?)));
        let (first_x, base_rate) = base.ok_or("has no rate")?;
        let base_interval = first.and_then(|first| rate_spread(first)).unwrap_or((base_rate, base_rate));
        if members.iter().all(|record| x(record) == first_x) {
            return Err(format!("measured with one number of {axis_name} only"));
        }
        let of = |record: &&Record| {
            let (count, rate) = (x(record), record.gflops()?);
            let value = rate / base_rate * first_x;
            // The base of all points has its own noise only.
            let base = if count == first_x { (base_rate, base_rate) } else { base_interval };
            let spread = rate_spread(record).map(|own| ratio_spread(value, (rate, own), (base_rate, base)));
            Some(match efficiency {
                true => point(count, 100.0 * value / count, None, record),
                false => point(count, value, spread, record),
            })
        };
        Ok(members.iter().filter_map(of).collect())
    };
    let x_axis = axis(axis_name, Scale::Log2, false);
    let plot = |y: Axis, ideal: fn(f64) -> f64| {
        let x_axis = x_axis.clone();
        move |mut series: Vec<Series>| {
            let counts = || series.iter().flat_map(|series| &series.points).map(|point| point.x);
            let (least, most) = (counts().fold(f64::INFINITY, f64::min), counts().fold(0.0, f64::max));
            series.push(reference("ideal", &[(least, ideal(least)), (most, ideal(most))]));
            Plot::Lines(Lines { x: x_axis.clone(), y: y.clone(), series })
        }
    };
    let kind = match swept.grows() {
        true => format!("weak scaling: the matrix grows with the number of {axis_name}"),
        false => "strong scaling".into(),
    };
    // Clusters and the machines of one node are of one kind: the node's.
    let ignored = match swept.sweep.subject {
        Subject::Vectors => &[axis_name, "kind of devices"][..],
        _ => &[axis_name],
    };
    let panels_of = |efficiency: bool| {
        by_matrix(swept, ignored, |name, members| {
            Ok::<Pair, String>((measured(name, points_of(members, efficiency)?), None))
        })
    };
    let (speedups, efficiencies) = (panels_of(false), panels_of(true));
    let speedup_plot = plot(axis("speed-up", Scale::Log2, false), |count| count);
    let efficiency_plot = plot(axis("efficiency (%)", Scale::Linear, true), |_| 100.0);
    let made = [
        figure(
            swept,
            (
                &format!("speed-up {axis_name}"),
                format!("How much faster are more {axis_name}?"),
                format!("Rate over the rate with the fewest {axis_name}; {kind}.{}", swept.error_bars()),
            ),
            line_panels(speedups.units, speedup_plot),
            speedups.missing,
        ),
        figure(
            swept,
            (
                &format!("efficiency {axis_name}"),
                format!("How efficient are more {axis_name}?"),
                format!("Speed-up over the number of {axis_name}; {kind}."),
            ),
            line_panels(efficiencies.units, efficiency_plot),
            efficiencies.missing,
        ),
    ];
    made.into_iter().flatten().collect()
}

/// Speed-up over the serial kernel or conversion, by threads.
pub fn speedup_by_threads(swept: &SweepRecords<'_>) -> Option<Figure> {
    // Whole products over the one on one thread are in the figure of scaling.
    let has_baseline =
        |record: &&Record| record.speedup.is_some() && record.measured != Measured::Run && !is_serial(record);
    if !swept.records.iter().any(has_baseline) {
        return None;
    }
    let panels = by_matrix(swept, &["threads"], |name, members| {
        if members.iter().any(|record| is_serial(record)) {
            return Err("the baseline".into());
        }
        let of = |record: &&Record| Some(point(record.threads as f64, record.speedup?, None, record));
        let points: Vec<Point> = members.iter().filter_map(of).collect();
        match points.is_empty() {
            true => Err("no serial counterpart".into()),
            false => Ok((measured(name, points), None)),
        }
    });
    let plot = |series: Vec<Series>| {
        let (x, y) =
            (axis("threads", Scale::Log2, false), axis("speed-up over the baseline", Scale::Linear, true));
        Plot::Lines(Lines { x, y, series })
    };
    figure(
        swept,
        (
            "speed-up over baseline",
            "How much faster is it than the baseline?".into(),
            format!(
                "Median time of the baseline over the median time of the parallel version. Speed-ups are over {}.",
                baselines(&swept.records).unwrap_or_else(|| "the serial version".into())
            ),
        ),
        line_panels(panels.units, plot),
        panels.missing,
    )
}

/// GFLOP/s by K.
pub fn rate_by_k(swept: &SweepRecords<'_>) -> Option<Figure> {
    let panels = by_matrix(swept, &["k"], |name, members| {
        let of =
            |record: &&Record| Some(point(record.k? as f64, record.gflops()?, rate_spread(record), record));
        let points: Vec<Point> = members.iter().filter_map(of).collect();
        if points.is_empty() { Err("has no rate".into()) } else { Ok((measured(name, points), None)) }
    });
    let plot = |series: Vec<Series>| {
        let (x, y) =
            (axis("K, columns of X", Scale::Log2, false), axis("rate (GFLOP/s)", scale_for(&series), true));
        Plot::Lines(Lines { x, y, series })
    };
    let caption =
        format!("2 × nonzeros × K operations over the {}.{}", swept.time_noun(), swept.error_bars());
    figure(
        swept,
        ("rate by k", "How does the rate depend on K?".into(), caption),
        line_panels(panels.units, plot),
        panels.missing,
    )
}

/// A logarithmic scale where the largest values of two series differ so much that one would be a flat line at zero.
fn scale_for(series: &[Series]) -> Scale {
    let largest = |series: &Series| series.points.iter().map(|point| point.y).fold(0.0, f64::max);
    let least = series.iter().map(largest).fold(f64::INFINITY, f64::min);
    let most = series.iter().map(largest).fold(0.0, f64::max);
    if most > MAX_LINEAR_RATIO * least { Scale::Log10 } else { Scale::Linear }
}

/// Overlap and time by chunk size.
pub fn overlap_by_chunk(swept: &SweepRecords<'_>) -> Vec<Figure> {
    let mebibytes = |record: &Record| record.chunk_bytes.map(|bytes| bytes as f64 / (1u64 << 20) as f64);
    let plot = |y: Axis| {
        move |series| {
            let x = axis("chunk size (MiB of A)", Scale::Log2, false);
            Plot::Lines(Lines { x, y: y.clone(), series })
        }
    };
    let hidden = by_matrix(swept, &["chunk_bytes"], |name, members| {
        let of =
            |record: &&Record| Some(point(mebibytes(record)?, 100.0 * record.hidden_fraction?, None, record));
        let points: Vec<Point> = members.iter().filter_map(of).collect();
        match points.is_empty() {
            true => Err("copies nothing, so nothing can overlap".into()),
            false => Ok::<Pair, String>((measured(name, points), None)),
        }
    });
    let times = by_matrix(swept, &["chunk_bytes"], |name, members| {
        Ok::<Pair, String>((measured(name, times_at(members, mebibytes)), None))
    });
    let made = [
        figure(
            swept,
            (
                "overlap by chunk",
                "How much do copies and kernels overlap?".into(),
                "Share of copying or computing, whichever is shorter, that is hidden behind the other."
                    .into(),
            ),
            line_panels(hidden.units, plot(axis("hidden (%)", Scale::Linear, true))),
            hidden.missing,
        ),
        figure(
            swept,
            (
                "time by chunk",
                "Which chunk size is fastest?".into(),
                format!("{} of one product.{}", capitalised(swept.time_noun()), swept.error_bars()),
            ),
            line_panels(times.units, plot(axis("time (ms)", Scale::Linear, true))),
            times.missing,
        ),
    ];
    made.into_iter().flatten().collect()
}

fn times_at(members: &[&Record], x: impl Fn(&Record) -> Option<f64>) -> Vec<Point> {
    let of = |record: &&Record| {
        let spread = time_spread(record).map(|(low, high)| (1e3 * low, 1e3 * high));
        Some(point(x(record)?, 1e3 * record.times.median?, spread, record))
    };
    members.iter().filter_map(of).collect()
}

/// Time by CPU share, measured and predicted.
pub fn time_by_share(swept: &SweepRecords<'_>) -> Option<Figure> {
    let share = |record: &Record| record.cpu_share.map(|share| 100.0 * share);
    let panels = by_matrix(swept, &["cpu_share"], |name, members| {
        let predicted = members
            .iter()
            .filter(|record| !record.simulated)
            .filter_map(|record| Some(point(share(record)?, 1e3 * record.predicted_s?, None, record)));
        let predicted_name = match name {
            "measured" => "predicted".into(),
            _ => format!("{name}, predicted"),
        };
        let predicted = measured(&predicted_name, predicted.collect());
        let predicted = Series { style: SeriesStyle::Predicted, ..predicted };
        let predicted = Some(predicted).filter(|series| !series.points.is_empty());
        Ok((measured(name, times_at(members, share)), predicted))
    });
    let plot = |series: Vec<Series>| {
        let (x, y) = (axis("CPU share (%)", Scale::Linear, true), axis("time (ms)", Scale::Linear, true));
        Plot::Lines(Lines { x, y, series })
    };
    let noun = capitalised(swept.time_noun());
    let caption = format!(
        "{noun} of one {} by the share of it that the CPU computes.{}",
        swept.unit(),
        swept.error_bars()
    );
    figure(
        swept,
        ("time by share", "Which CPU share is fastest?".into(), caption),
        line_panels(panels.units, plot),
        panels.missing,
    )
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
