//! Kernels beside one another: under the roofline, and as a map of who is fastest where.

use super::super::record::Record;
use super::Swept;
use crate::report::{Ceiling, Figure, HeatMap, Plot, Roofline, RooflinePoint};

/// Columns of a heat map that can still be read.
const MOST_COLUMNS: usize = 16;

/// Every kernel under the roofs of its device.
pub fn roofline(swept: &Swept<'_>) -> Option<Figure> {
    let mut ceilings: Vec<Ceiling> = Vec::new();
    let mut points = Vec::new();
    for record in &swept.records {
        let (Some(gflops), Some(flops), Some(bytes)) = (record.gflops(), record.flops, record.bytes) else {
            continue;
        };
        let name = format!("memory of {}", place(record));
        if let Some(gb_per_s) =
            record.memory_gb_per_s.filter(|_| ceilings.iter().all(|known| known.name != name))
        {
            ceilings.push(Ceiling { name, gb_per_s, peak_gflops: record.peak_gflops });
        }
        let k = record.k.map_or(String::new(), |k| format!(", K = {k}"));
        points.push(RooflinePoint {
            name: format!("{}, {}{k}", record.kernel, record.matrix.name),
            group: record.kernel.clone(),
            flops_per_byte: flops / (bytes as f64).max(1.0),
            gflops,
        });
    }
    (!points.is_empty()).then(|| Figure {
        id: swept.id("roofline"),
        title: format!("How near to the roof does each kernel come? ({})", swept.sweep.name),
        caption: "Bytes are those that must move: A once, the rows of X that are used once, Y once. The roofs are the \
                  rates in the cost model; a point above its roof has its data in a cache."
            .into(),
        plot: Plot::Roofline(Roofline { ceilings, points }),
    })
}

/// The device of a record, with the CPU's threads.
fn place(record: &Record) -> String {
    match record.devices.as_str() {
        "cpu" => format!("cpu, {} threads", record.threads),
        other => other.into(),
    }
}

/// For each device GFLOP/s of each kernel on each matrix.
pub fn heat_maps(swept: &Swept<'_>) -> Vec<Figure> {
    let mut places: Vec<String> = Vec::new();
    for record in &swept.records {
        if !places.contains(&place(record)) {
            places.push(place(record));
        }
    }
    let of_place = |place_name: String| {
        let records: Vec<&Record> =
            swept.records.iter().copied().filter(|record| place(record) == place_name).collect();
        let several_types = records.iter().any(|record| record.dtype != records[0].dtype);
        let row = |record: &Record| row(record, several_types);
        let mut columns: Vec<(String, f64)> = Vec::new();
        let mut rows: Vec<String> = Vec::new();
        for record in &records {
            let rate = record.gflops().unwrap_or(0.0);
            match columns.iter_mut().find(|(kernel, _)| *kernel == record.kernel) {
                Some((_, best)) => *best = best.max(rate),
                None => columns.push((record.kernel.clone(), rate)),
            }
            if !rows.contains(&row(record)) {
                rows.push(row(record));
            }
        }
        let left_out = columns.len().saturating_sub(MOST_COLUMNS);
        if left_out > 0 {
            columns.sort_by(|a, b| b.1.total_cmp(&a.1));
            columns.truncate(MOST_COLUMNS);
        }
        let value = |row_name: &String, kernel: &String| {
            records.iter().find(|record| row(record) == *row_name && record.kernel == *kernel)?.gflops()
        };
        let values =
            rows.iter().map(|row| columns.iter().map(|(kernel, _)| value(row, kernel)).collect()).collect();
        let more =
            if left_out > 0 { format!(" The {left_out} slowest are left out.") } else { String::new() };
        Figure {
            id: swept.id(&format!("kernels {place_name}")),
            title: format!("Which kernel is fastest where? ({}, {place_name})", swept.sweep.name),
            caption: format!("GFLOP/s at the median time of the kernel alone.{more}"),
            plot: Plot::HeatMap(HeatMap {
                x_label: "kernel".into(),
                y_label: "matrix and K".into(),
                value_label: "GFLOP/s".into(),
                columns: columns.into_iter().map(|(kernel, _)| kernel).collect(),
                rows,
                values,
                larger_is_better: true,
            }),
        }
    };
    places.into_iter().map(of_place).collect()
}

fn row(record: &Record, with_type: bool) -> String {
    let dtype =
        record.dtype.filter(|_| with_type).map_or(String::new(), |dtype| format!(" {}", dtype.name()));
    format!("{}{dtype} K={}", record.matrix.name, record.k.unwrap_or(0))
}
