//! `rowloom trace`: summarizes a trace in short tables.

use crate::args::TraceArguments;
use crate::console::Console;
use crate::console::report::Report;
use crate::console::table::{Table, count, count_of, percent, seconds};
use rowloom::internal::error::Result;
use rowloom::internal::trace::{Bottleneck, CriticalPath, Predictions, RanksSummary, Summary, Trace};

/// Steps of the critical path that the table shows, the longest ones; the JSON object has all.
const LONGEST_STEPS: usize = 5;

/// Reads the trace, summarizes it and prints the tables.
pub fn run(arguments: &TraceArguments, console: &Console) -> Result<()> {
    let spinner = console.spinner(format!("reading {}", arguments.file.display()));
    let trace = Trace::read(&arguments.file)?;
    let summary = trace.summary();
    drop(spinner);
    if summary.tasks == 0 {
        console.note("the trace has no tasks, only steps of the host program");
    }
    let mut tables = vec![overview(&trace, &summary)];
    if summary.tasks > 0 {
        tables.extend(summary.ranks.iter().map(ranks));
        tables.extend([devices(&summary), lanes(&summary)]);
    }
    if let Some(path) = &summary.critical_path {
        tables.extend([path_parts(path), longest_steps(path)]);
    }
    if summary.predictions.count > 0 {
        tables.push(predictions(&summary.predictions));
    }
    if !summary.host.is_empty() {
        tables.push(host(&summary));
    }
    for (index, table) in tables.iter().enumerate() {
        if index > 0 {
            console.text("\n")?;
        }
        console.table(table)?;
    }
    console.json(
        &Report::new("trace")
            .with("file", arguments.file.display().to_string())
            .with("spans", trace.spans().len())
            .with("flows", trace.flows().len())
            .with("counter_values", trace.sample_count())
            .with("clock_alignment", trace.metadata_value("clock_alignment"))
            .with("summary", &summary),
    )
}

/// A name from the file, without control characters.
fn shown(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

/// A share in percent, or `-` where it is unknown.
fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

fn overview(trace: &Trace, summary: &Summary) -> Table {
    let mut table = Table::facts();
    if let Some(path) = &summary.critical_path {
        table.fact("bottleneck", bottleneck(&path.bottleneck));
    }
    table.fact(
        "trace",
        format!(
            "{}, {}, {} on {}",
            count_of(trace.spans().len() as u64, "span", "spans"),
            count_of(trace.flows().len() as u64, "dependency", "dependencies"),
            count_of(trace.sample_count() as u64, "counter value", "counter values"),
            count_of(trace.lanes().count() as u64, "lane", "lanes")
        ),
    );
    if let Some(runs) = summary.runs {
        let mut text = format!("{} for {}", seconds(runs.median_s), count_of(summary.tasks, "task", "tasks"));
        if let Some(run) = summary.run.filter(|_| runs.count > 1) {
            text += &format!(
                ", product {} of {}, the median (min {}, max {})",
                count(run.saturating_add(1)),
                count(runs.count),
                seconds(runs.min_s),
                seconds(runs.max_s)
            );
        }
        table.fact("run", text);
    }
    if summary.tasks_outside > 0 {
        let tasks = count_of(summary.tasks_outside, "task", "tasks");
        let time = seconds(summary.outside_s);
        table.fact("outside", format!("{tasks} outside the measured products, {time}"));
    }
    if summary.tasks > 0 {
        let hidden = share(summary.hidden_fraction);
        table.fact("overlap", format!("{hidden} of copying or computing, whichever is shorter, is hidden"));
        if summary.together_fraction.is_some() {
            let together = share(summary.together_fraction);
            table.fact("together", format!("two or more devices are busy {together} of the run"));
        }
        table.fact("idle", format!("{} of the devices' time", share(summary.idle_fraction)));
    }
    if let Some(ranks) = &summary.ranks {
        let longer =
            ranks.imbalance.map(|imbalance| format!(", {} longer than the mean", percent(imbalance)));
        let slowest = format!("rank {} computes longest{}", ranks.slowest_rank, longer.unwrap_or_default());
        table.fact("ranks", format!("{}: {slowest}", count_of(ranks.ranks.len() as u64, "rank", "ranks")));
        let hidden = share(ranks.hidden_exchange);
        let exchange = share(ranks.exchange_share);
        table.fact("exchange", format!("{exchange} of the run; {hidden} of it is hidden behind computing"));
    }
    let moved = summary.adjustments;
    if moved.moved_spans > 0 || moved.dropped_flows > 0 {
        table.fact(
            "adjusted",
            format!(
                "{} moved by at most {}, {} left out (device clocks differ)",
                count_of(moved.moved_spans, "span", "spans"),
                seconds(moved.most_moved_ns as f64 * 1e-9),
                count_of(moved.dropped_flows, "dependency", "dependencies")
            ),
        );
    }
    table
}

/// `upload on cuda:0: 567 µs, 74.4% of the run`.
fn bottleneck(bottleneck: &Bottleneck) -> String {
    let Bottleneck { kind, device, time_s, share } = bottleneck;
    let place = device.as_ref().map(|device| format!(" on {}", shown(device))).unwrap_or_default();
    format!("{kind}{place}: {}, {} of the run", seconds(*time_s), percent(*share))
}

fn ranks(summary: &RanksSummary) -> Table {
    let mut table = Table::columns(["rank", "compute", "exchange", "hidden", "end"], &[1, 2, 3, 4]).wrapped();
    for rank in &summary.ranks {
        table.row([
            rank.rank.to_string(),
            seconds(rank.compute_s),
            seconds(rank.exchange_s),
            seconds(rank.hidden_exchange_s),
            seconds(rank.end_s),
        ]);
    }
    table
}

fn devices(summary: &Summary) -> Table {
    let mut table =
        Table::columns(["device", "compute", "copy", "busy", "hidden", "idle"], &[1, 2, 3, 4, 5]).wrapped();
    for device in &summary.devices {
        table.row([
            shown(&device.name),
            seconds(device.compute_s),
            seconds(device.copy_s),
            seconds(device.busy_s),
            share(device.hidden_fraction),
            percent(device.idle_fraction),
        ]);
    }
    table
}

fn lanes(summary: &Summary) -> Table {
    let mut table =
        Table::columns(["device", "lane", "tasks", "busy", "idle", "share"], &[2, 3, 4, 5]).wrapped();
    let whole = summary.runs.map_or(0.0, |runs| runs.median_s);
    for device in &summary.devices {
        for lane in &device.lanes {
            let busy = (whole > 0.0).then(|| lane.busy_s / whole);
            table.row([
                shown(&device.name),
                shown(&lane.name),
                count(lane.tasks),
                seconds(lane.busy_s),
                seconds(lane.idle_s),
                share(busy),
            ]);
        }
    }
    table
}

fn path_parts(path: &CriticalPath) -> Table {
    let mut table = Table::columns(["critical path", "tasks", "time", "share"], &[1, 2, 3]).wrapped();
    for part in &path.by_category {
        table.row([
            part.category.name().to_owned(),
            count(part.tasks),
            seconds(part.busy_s),
            percent(part.share),
        ]);
    }
    table.row(["gaps".to_owned(), String::new(), seconds(path.gaps_s), percent(1.0 - path.share)]);
    table
}

fn longest_steps(path: &CriticalPath) -> Table {
    let mut longest: Vec<_> = path.steps.iter().collect();
    longest.sort_by(|a, b| b.share.total_cmp(&a.share));
    longest.truncate(LONGEST_STEPS);
    longest.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    let headings = ["longest steps", "device", "lane", "start", "time", "share", "gap before"];
    let mut table = Table::columns(headings, &[3, 4, 5, 6]).wrapped();
    for step in longest {
        table.row([
            shown(&step.name),
            shown(&step.device),
            shown(&step.lane),
            seconds(step.start_s),
            seconds(step.duration_s),
            percent(step.share),
            seconds(step.gap_before_s),
        ]);
    }
    table
}

fn predictions(predictions: &Predictions) -> Table {
    let headings = ["worst predictions", "device", "lane", "predicted", "measured", "ratio"];
    let mut table = Table::columns(headings, &[3, 4, 5]).wrapped();
    for worst in &predictions.worst {
        table.row([
            shown(&worst.name),
            shown(&worst.device),
            shown(&worst.lane),
            seconds(worst.predicted_s),
            seconds(worst.measured_s),
            format!("{:.2}", worst.ratio),
        ]);
    }
    let ratio = predictions.measured_s / predictions.predicted_s;
    table.row([
        format!("all {}", count(predictions.count)),
        String::new(),
        String::new(),
        seconds(predictions.predicted_s),
        seconds(predictions.measured_s),
        format!("{ratio:.2}"),
    ]);
    table
}

fn host(summary: &Summary) -> Table {
    let mut table = Table::columns(["host program", "count", "time", "own time"], &[1, 2, 3]).wrapped();
    for step in &summary.host {
        table.row([shown(&step.name), count(step.count), seconds(step.total_s), seconds(step.own_s)]);
    }
    table
}
