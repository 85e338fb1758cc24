//! Kernels compared: under the roofline, and as a heat map by matrix and K.

use super::series::{by_matrix, figure, grouped};
use super::sweep_records::{SweepRecords, count};
use crate::plots::{Ceiling, Figure, HeatMap, Panel, Plot, Roofline, RooflinePoint};
use crate::results::record::Record;

/// Columns of a heat map; more are split over several panels.
const MAX_COLUMNS: usize = 10;

/// Every kernel under the ceilings of its device.
pub fn roofline(swept: &SweepRecords<'_>) -> Option<Figure> {
    let panels = by_matrix(swept, &["k", "dtype", "devices", "threads", "schedule"], |_, members| {
        let points: Vec<(Option<Ceiling>, RooflinePoint)> =
            members.iter().filter_map(|record| roofline_point(record)).collect();
        if points.is_empty() { Err("has no rate".into()) } else { Ok(points) }
    });
    let panel = |unit: super::series::Unit<Vec<(Option<Ceiling>, RooflinePoint)>>| {
        let mut ceilings: Vec<Ceiling> = Vec::new();
        let mut points = Vec::new();
        for (ceiling, point) in unit.series.into_iter().flatten() {
            points.push(point);
            ceilings.extend(ceiling.filter(|ceiling| !ceilings.contains(ceiling)));
        }
        Panel { title: unit.matrix, plot: Plot::Roofline(Roofline { ceilings, points }) }
    };
    let caption = "Bytes are compulsory traffic: A once, the rows of X that are used once, Y once. The ceilings are the \
                   bandwidths of the cost model; a point above its ceiling has its data in a cache.";
    figure(
        swept,
        ("roofline", "How near to the roofline is each kernel?".into(), caption.into()),
        panels.units.into_iter().map(panel).collect(),
        panels.missing,
    )
}

fn roofline_point(record: &Record) -> Option<(Option<Ceiling>, RooflinePoint)> {
    let (gflops, flops, bytes) = (record.gflops()?, record.flops?, record.bytes?);
    let ceiling = record.memory_gb_per_s.map(|gb_per_s| Ceiling {
        name: format!("memory of {}", device(record)),
        gb_per_s,
        peak_gflops: record.peak_gflops,
    });
    let k = record.k.map_or(String::new(), |k| format!(", K = {k}"));
    let point = RooflinePoint {
        name: format!("{}, {}{k}", record.kernel, record.matrix.name),
        group: record.kernel.clone(),
        flops_per_byte: flops / (bytes as f64).max(1.0),
        gflops,
    };
    Some((ceiling, point))
}

/// The device of a record, with the CPU's threads.
fn device(record: &Record) -> String {
    match record.devices.as_str() {
        "cpu" => format!("cpu, {}", count(record.threads, "thread")),
        other => other.into(),
    }
}

/// For each device the GFLOP/s of each kernel, by matrix and K.
pub fn heat_maps(swept: &SweepRecords<'_>) -> Vec<Figure> {
    let of_device = |(name, records): (String, Vec<&Record>)| {
        let part = SweepRecords { sweep: swept.sweep, records };
        let several_types = part.values(|record| record.dtype) > 1;
        let several_ks = part.values(|record| record.k) > 1;
        let by_matrix_only = !several_types && !several_ks;
        let column = |record: &Record| {
            let k = format!("K = {}", record.k.unwrap_or(0));
            match record.dtype.filter(|_| several_types) {
                Some(dtype) => format!("{k}, {}", dtype.name()),
                None => k,
            }
        };
        // The missing kernels of the device; the cells are filled below.
        let missing =
            by_matrix(&part, &["k", "dtype", "devices", "threads", "schedule"], |_, _| Ok::<(), String>(()))
                .missing;
        let kernels = ranked(&part);
        let groups = match by_matrix_only {
            true => vec![(String::new(), part.records.clone())],
            false => grouped(&part.records, |record| record.matrix.name.clone()),
        };
        let mut panels = Vec::new();
        for (matrix, records) in groups {
            let timed: Vec<&Record> =
                records.into_iter().filter(|record| record.gflops().is_some()).collect();
            let column_of = |record: &Record| match by_matrix_only {
                true => record.matrix.name.clone(),
                false => column(record),
            };
            let columns = grouped(&timed, column_of);
            let parts = columns.len().div_ceil(MAX_COLUMNS);
            for (index, columns) in columns.chunks(MAX_COLUMNS).enumerate() {
                let value = |kernel: &String, members: &[&Record]| {
                    members.iter().find(|record| record.kernel == *kernel)?.gflops()
                };
                let row =
                    |kernel: &String| columns.iter().map(|(_, members)| value(kernel, members)).collect();
                let title = match parts {
                    1 => matrix.clone(),
                    _ => format!("{matrix} (part {} of {parts})", index + 1).trim_start().into(),
                };
                let plot = Plot::HeatMap(HeatMap {
                    x_label: String::new(),
                    y_label: "kernel".into(),
                    value_label: "rate (GFLOP/s)".into(),
                    columns: columns.iter().map(|(name, _)| name.clone()).collect(),
                    rows: kernels.clone(),
                    values: kernels.iter().map(row).collect(),
                    larger_is_better: true,
                });
                panels.push(Panel { title, plot });
            }
        }
        let text = (
            &*format!("kernels {name}"),
            format!("Which kernel is fastest on {name}?"),
            format!("Rate of the kernel alone at the {}; dashed: not measured.", part.time_noun()),
        );
        figure(&part, text, panels, missing)
    };
    let timed: Vec<&Record> = swept.records.clone();
    let devices = grouped(&timed, device).into_iter();
    devices
        .filter(|(_, records)| records.iter().any(|r| r.verified_s().is_some()))
        .filter_map(of_device)
        .collect()
}

/// Kernels with times, the one with the largest rate first.
fn ranked(swept: &SweepRecords<'_>) -> Vec<String> {
    let mut kernels: Vec<(String, f64)> = Vec::new();
    for record in swept.timed() {
        let rate = record.gflops().unwrap_or(0.0);
        match kernels.iter_mut().find(|(kernel, _)| *kernel == record.kernel) {
            Some((_, best)) => *best = best.max(rate),
            None => kernels.push((record.kernel.clone(), rate)),
        }
    }
    kernels.sort_by(|a, b| b.1.total_cmp(&a.1));
    kernels.into_iter().map(|(kernel, _)| kernel).collect()
}
