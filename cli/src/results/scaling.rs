//! The answer of a sweep of products on vectors: how the efficiency changes with the number of devices, and why.

use super::config::Sweep;
use super::figures::{Naming, count, grouped};
use super::record::Record;
use super::wording::{duration, not_measured};
use crate::plots::{Answer, Cell, Column, Table};
use rowloom::internal::runtime::TimeParts;

/// Efficiencies whose ratio differs from 1 by less than this are equal.
const EQUAL_WITHIN: f64 = 0.005;

/// A part of a product's time: its name in a table, its words in a sentence, and its seconds.
struct Part {
    name: &'static str,
    words: &'static str,
    seconds: fn(&TimeParts) -> f64,
}

/// The parts that add up to the time of a product.
const PARTS: [Part; 5] = [
    Part {
        name: "kernels",
        words: "the kernels, which are less efficient on fewer rows per device",
        seconds: |parts| parts.kernels_s,
    },
    Part {
        name: "imbalance",
        words: "imbalance, since all devices wait for the one with the longest kernels",
        seconds: |parts| parts.imbalance_s,
    },
    Part {
        name: "packing",
        words: "packing and storing the exchanged rows and copying them within nodes, which is not hidden",
        seconds: |parts| parts.packing_s,
    },
    Part {
        name: "network bandwidth",
        words: "the bandwidth of the network, which is not hidden",
        seconds: |parts| parts.bandwidth_s,
    },
    Part {
        name: "network latency",
        words: "the latency of the network, which is not hidden",
        seconds: |parts| parts.latency_s,
    },
];

/// One number of devices.
struct Step<'a> {
    record: &'a Record,
    parts: TimeParts,
    devices: usize,
    /// Relative to the fewest devices.
    efficiency: f64,
    /// Device-seconds per operation of each part.
    costs: [f64; PARTS.len()],
}

/// The answer of a sweep: one sentence for each step to more devices.
pub(super) fn answer(sweep: &Sweep, records: &[&Record]) -> Answer {
    let grows = sweep.matrices.iter().any(|matrix| matrix.contains('{'));
    let is_timed = |record: &&Record| record.time_parts.is_some() && record.is_verified();
    let timed: Vec<&Record> = records.iter().copied().filter(is_timed).collect();
    let mut ignored = vec!["devices", "kind of devices"];
    ignored.extend(grows.then_some("matrix"));
    let naming = Naming::new(&timed, &ignored);
    let series = grouped(&timed, |record| naming.values(record).join(", "));
    let series: Vec<(String, Vec<Step<'_>>)> =
        series.into_iter().map(|(name, members)| (name, steps(&members))).collect();
    let mut sentences = Vec::new();
    for (name, steps) in &series {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}: ") };
        sentences.extend(steps.windows(2).map(|pair| format!("{prefix}{}", sentence(&pair[0], &pair[1]))));
    }
    if sentences.is_empty() {
        sentences.push("Fewer than two numbers of devices were simulated.".into());
    }
    sentences.extend(not_measured(records));
    let kind = if grows { "weak scaling" } else { "strong scaling" };
    Answer {
        question: format!("{}: how efficient are more devices ({kind}), and why?", sweep.name),
        sentence: sentences.join(" "),
        cases: Some(table(&series)),
    }
}

/// The records in the order of their numbers of devices.
fn steps<'a>(members: &[&'a Record]) -> Vec<Step<'a>> {
    let mut members = members.to_vec();
    members.sort_by_key(|record| record.device_count);
    let mut steps: Vec<Step<'a>> = Vec::new();
    let mut first_cost = None;
    for record in members {
        let (Some(parts), Some(flops)) = (record.time_parts, record.flops.filter(|&flops| flops > 0.0))
        else {
            continue;
        };
        let cost = |seconds: f64| seconds * record.device_count as f64 / flops;
        let total = cost(parts.product_s);
        let first = *first_cost.get_or_insert(total);
        let efficiency = first / total.max(f64::MIN_POSITIVE);
        let costs = PARTS.each_ref().map(|part| cost((part.seconds)(&parts)));
        steps.push(Step { record, parts, devices: record.device_count, efficiency, costs });
    }
    steps
}

/// How the efficiency changes from one number of devices to the next, and the part of the time that changes it most.
fn sentence(before: &Step<'_>, after: &Step<'_>) -> String {
    let percent = |share: f64| match share {
        share if share > 0.0 && share < 0.01 => format!("{:.2} %", 100.0 * share),
        share => format!("{:.1} %", 100.0 * share),
    };
    let devices = format!("From {} to {}", before.devices, count(after.devices, "GPU"));
    let time = after.record.times.median.map_or_else(String::new, duration);
    let (old, new) = (before.efficiency, after.efficiency);
    if (new / old - 1.0).abs() < EQUAL_WITHIN {
        return format!("{devices} the efficiency stays at {} ({time} per product).", percent(new));
    }
    let falls = new < old;
    let change = |part: usize| (after.costs[part] - before.costs[part]) * if falls { 1.0 } else { -1.0 };
    let most = (0..PARTS.len()).max_by(|&a, &b| change(a).total_cmp(&change(b))).unwrap_or(0);
    let share = |step: &Step<'_>| (PARTS[most].seconds)(&step.parts) / step.parts.product_s;
    let verb = if falls { "falls" } else { "rises" };
    let cause = match (falls, most) {
        (false, 0) => "the kernels, which are more efficient on fewer rows per device",
        _ => PARTS[most].words,
    };
    format!(
        "{devices} the efficiency {verb} from {} to {} ({time} per product), mainly by {cause}: {} of the product, before {}.",
        percent(old),
        percent(new),
        percent(share(after)),
        percent(share(before)),
    )
}

fn table(series: &[(String, Vec<Step<'_>>)]) -> Table {
    let column = |name: &str, unit: Option<&str>, numeric| Column {
        name: name.into(),
        unit: unit.map(Into::into),
        numeric,
    };
    let mut columns = vec![
        column("case", None, false),
        column("GPUs", None, true),
        column("time", Some("ms"), true),
        column("efficiency", Some("%"), true),
    ];
    columns.extend(PARTS.iter().map(|part| column(part.name, Some("% of the time"), true)));
    columns.push(column("exchanged", Some("MiB"), true));
    columns.push(column("between nodes", Some("MiB"), true));
    columns.push(column("messages", None, true));
    let mebibytes = |bytes: u64| Cell::Number(bytes as f64 / f64::from(1 << 20), 1);
    let row = |name: &str, step: &Step<'_>| {
        let mut cells = vec![
            Cell::Text(if name.is_empty() { "all".into() } else { name.into() }),
            Cell::Number(step.devices as f64, 0),
            Cell::Number(1e3 * step.parts.product_s, 4),
            Cell::Number(100.0 * step.efficiency, 2),
        ];
        let share = |part: &Part| 100.0 * (part.seconds)(&step.parts) / step.parts.product_s;
        cells.extend(PARTS.iter().map(|part| Cell::Number(share(part), 1)));
        cells.extend([mebibytes(step.parts.exchanged_bytes), mebibytes(step.parts.network_bytes)]);
        cells.push(Cell::Number(step.parts.messages as f64, 0));
        cells
    };
    let rows = series.iter().flat_map(|(name, steps)| steps.iter().map(move |step| row(name, step)));
    Table {
        id: "scaling".into(),
        title: "Time and efficiency by number of devices".into(),
        caption: "The five shares add up to the time of a product: the kernels of a device (mean), the extra time of the slowest \
                  device's kernels, and the three parts of the exchange that are not hidden behind kernels."
            .into(),
        columns,
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Times;

    fn record(devices: usize, parts: TimeParts, flops: f64) -> Record {
        Record {
            device_count: devices,
            devices: format!("sim:node8x{devices}"),
            flops: Some(flops),
            times: Times::new(&[parts.product_s]),
            time_parts: Some(parts),
            simulated: true,
            ..Record::default()
        }
    }

    #[test]
    fn the_part_that_grows_most_is_the_reason() {
        let one = TimeParts { product_s: 1.0, kernels_s: 1.0, ..TimeParts::default() };
        let two = TimeParts { product_s: 0.8, kernels_s: 0.5, latency_s: 0.1, bandwidth_s: 0.2, ..one };
        let records = [record(2, two, 1e9), record(1, one, 1e9)];
        let steps = steps(&records.iter().collect::<Vec<_>>());
        assert_eq!(steps.iter().map(|step| step.devices).collect::<Vec<_>>(), [1, 2]);
        assert!((steps[1].efficiency - 0.625).abs() < 1e-12);
        let words = sentence(&steps[0], &steps[1]);
        assert!(words.starts_with("From 1 to 2 GPUs the efficiency falls from 100.0 % to 62.5 %"), "{words}");
        assert!(
            words.contains("bandwidth of the network") && words.contains("25.0 % of the product"),
            "{words}"
        );
    }

    #[test]
    fn weak_scaling_counts_the_operations() {
        let one = TimeParts { product_s: 1.0, kernels_s: 1.0, ..TimeParts::default() };
        let records = [record(1, one, 1e9), record(4, one, 4e9)];
        let steps = steps(&records.iter().collect::<Vec<_>>());
        assert!((steps[1].efficiency - 1.0).abs() < 1e-12);
        assert!(sentence(&steps[0], &steps[1]).contains("stays at 100.0 %"));
    }
}
