//! A trace in a few numbers: busy and idle lanes, copies hidden behind compute, the critical path, bad predictions.
//!
//! # Repeated runs
//!
//! Tasks may carry the number of the run they belong to. Everything that [`Summary`] says of tasks is then of one run,
//! the one whose length is the median of all (the shorter of the two middle ones), because that is the run a user means
//! by "the time of this product"; sums over runs would count the pauses between them as idle. The spread is given
//! beside it. Tasks without a number are work outside of the runs, such as uploading what stays; they are counted and
//! left out. Where no task carries a number, all tasks together are the one run.
//!
//! # Words
//!
//! - The *length* of a run is from the beginning of its first task to the end of its last.
//! - *Copies* are uploads and downloads, *compute* is kernels and chunks on the CPU; staging and merging keep a lane
//!   busy and are neither.
//! - Times of a device are those during which any of its lanes was at it, so parallel lanes do not add up.
//! - A device's *hidden fraction* is the share of the shorter of its copy and compute time during which the other ran
//!   too. The total weighs devices by that shorter time.
//! - The *idle fraction* is of units that could work: an accelerator's streams together are one unit, as it is at work
//!   while any of them is; each lane of CPU work is a unit of its own.

use std::collections::BTreeMap;

use serde::Serialize;

use super::critical::{self, CriticalPath};
use super::host_steps::HostStep;
use super::intervals::{Moments, seconds, share};
use super::model::{Adjustments, Category, ProcessId, Span, Trace};

/// How many of the worst predictions are listed.
const WORST: usize = 5;

/// What a trace says, in a few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The run that is described, where tasks carry numbers of runs.
    pub run: Option<u64>,
    /// How long it and the other runs took; none without tasks.
    pub runs: Option<Runs>,
    /// Tasks of the run.
    pub tasks: u64,
    /// Tasks that belong to no run where others do.
    pub tasks_outside: u64,
    /// Time during which tasks outside of runs ran.
    pub outside_s: f64,
    /// Processes with tasks in the run.
    pub devices: Vec<DeviceSummary>,
    /// Of the shorter of copy and compute time, the share that ran while the other ran; none where nothing could.
    pub hidden_fraction: Option<f64>,
    /// Share of the units' time during which they did nothing; none without tasks.
    pub idle_fraction: Option<f64>,
    /// The chain of tasks that decided when the run ended; none without tasks.
    pub critical_path: Option<CriticalPath>,
    /// How well durations were predicted.
    pub predictions: Predictions,
    /// What the program did around the tasks, by name, in order of first appearance.
    pub host: Vec<HostStep>,
    /// What was changed when the file was written.
    pub adjustments: Adjustments,
}

/// How long the runs took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Runs {
    /// How many there are.
    pub count: u64,
    /// The run described.
    pub median_s: f64,
    /// The shortest.
    pub min_s: f64,
    /// The longest.
    pub max_s: f64,
}

/// One process in the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceSummary {
    /// Its name.
    pub name: String,
    /// While it computed.
    pub compute_s: f64,
    /// While it copied.
    pub copy_s: f64,
    /// While it did anything.
    pub busy_s: f64,
    /// Of the shorter of copy and compute time, the share that ran while the other ran.
    pub hidden_fraction: Option<f64>,
    /// Share of its units' time during which they did nothing.
    pub idle_fraction: f64,
    /// Its lanes.
    pub lanes: Vec<LaneSummary>,
}

/// One lane in the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneSummary {
    /// Its name.
    pub name: String,
    /// Tasks on it.
    pub tasks: u64,
    /// While one of them ran.
    pub busy_s: f64,
    /// The rest of the run.
    pub idle_s: f64,
}

/// Durations against what the cost model said.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Predictions {
    /// Tasks with a prediction.
    pub count: u64,
    /// What was predicted for them together.
    pub predicted_s: f64,
    /// What they took together.
    pub measured_s: f64,
    /// The worst of them, by ratio, either way.
    pub worst: Vec<Prediction>,
}

/// One task against what the cost model said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The task.
    pub name: String,
    /// Its process.
    pub device: String,
    /// Its lane.
    pub lane: String,
    /// What was predicted.
    pub predicted_s: f64,
    /// What it took.
    pub measured_s: f64,
    /// Measured over predicted.
    pub ratio: f64,
}

impl Trace {
    /// The trace in a few numbers; of repeated runs the median one.
    pub fn summary(&self) -> Summary {
        let lengths = run_lengths(&self.spans);
        let (run, runs) = median_run(lengths);
        let is_in_run = |span: &Span| span.category.is_task() && (run.is_none() || span.arguments.run == run);
        let in_run: Vec<u32> =
            (0u32..).zip(&self.spans).filter(|(_, span)| is_in_run(span)).map(|(index, _)| index).collect();
        let outside = |span: &&Span| run.is_some() && span.category.is_task() && span.arguments.run.is_none();
        let spans = || in_run.iter().map(|&index| &self.spans[index as usize]);
        let start_ns = spans().map(|span| span.start_ns).min().unwrap_or(0);
        let end_ns = spans().map(|span| span.end_ns).max().unwrap_or(0);
        let length_ns = end_ns.saturating_sub(start_ns);

        let measured: Vec<Measured> = (0..self.processes.len() as u32)
            .filter_map(|process| self.measure(ProcessId(process), &in_run, length_ns))
            .collect();
        let sum = |part: fn(&Measured) -> u64| measured.iter().map(part).sum::<u64>();
        let hidden_fraction = share(sum(|device| device.hidden_ns), sum(|device| device.shorter_ns));
        let unit_ns = length_ns.saturating_mul(sum(|device| device.units));
        let idle_fraction = share(sum(|device| device.idle_ns), unit_ns);
        Summary {
            run,
            runs,
            tasks: in_run.len() as u64,
            tasks_outside: self.spans.iter().filter(outside).count() as u64,
            outside_s: seconds(Moments::of(self.spans.iter().filter(outside).map(times)).length()),
            hidden_fraction,
            idle_fraction,
            critical_path: critical::path(self, &in_run),
            predictions: self.predictions(spans()),
            devices: measured.into_iter().map(|device| device.summary).collect(),
            host: super::host_steps::steps(&self.spans),
            adjustments: self.adjustments,
        }
    }

    /// A process in a run of that length; none where it has no task in it.
    fn measure(&self, process: ProcessId, in_run: &[u32], length_ns: u64) -> Option<Measured> {
        let mut by_lane: BTreeMap<usize, Vec<&Span>> = BTreeMap::new();
        for span in in_run.iter().map(|&index| &self.spans[index as usize]) {
            let lane = span.lane.index();
            if self.lanes.get(lane).is_some_and(|lane| lane.process == process) {
                by_lane.entry(lane).or_default().push(span);
            }
        }
        if by_lane.is_empty() {
            return None;
        }
        let of = |wanted: &dyn Fn(Category) -> bool| {
            Moments::of(
                by_lane.values().flatten().filter(|span| wanted(span.category)).map(|span| times(span)),
            )
        };
        let (copy, compute) = (of(&Category::is_copy), of(&Category::is_compute));
        let (hidden_ns, shorter_ns) = (copy.shared_with(&compute), copy.length().min(compute.length()));

        let streams = |category| category == Category::Kernel || Category::is_copy(category);
        let (mut units, mut idle_ns) = (0, 0);
        if by_lane.values().flatten().any(|span| streams(span.category)) {
            units += 1;
            idle_ns += length_ns - of(&streams).length();
        }
        let mut lanes = Vec::new();
        for (&lane, spans) in &by_lane {
            let busy_ns = Moments::of(spans.iter().map(|span| times(span))).length();
            if spans.iter().any(|span| !streams(span.category)) {
                units += 1;
                idle_ns += length_ns - busy_ns;
            }
            lanes.push(LaneSummary {
                name: self.lanes[lane].name.clone(),
                tasks: spans.len() as u64,
                busy_s: seconds(busy_ns),
                idle_s: seconds(length_ns - busy_ns),
            });
        }
        let summary = DeviceSummary {
            name: self.process_name(process).to_owned(),
            compute_s: seconds(compute.length()),
            copy_s: seconds(copy.length()),
            busy_s: seconds(of(&|_| true).length()),
            hidden_fraction: share(hidden_ns, shorter_ns),
            idle_fraction: share(idle_ns, length_ns.saturating_mul(units)).unwrap_or(0.0),
            lanes,
        };
        Some(Measured { summary, hidden_ns, shorter_ns, idle_ns, units })
    }

    fn predictions<'a>(&self, spans: impl Iterator<Item = &'a Span>) -> Predictions {
        let mut predictions = Predictions::default();
        let mut ranked: Vec<(f64, &Span)> = Vec::new();
        for span in spans {
            let Some(predicted_us) = span.arguments.predicted_us.filter(|&us| us > 0.0 && us.is_finite())
            else {
                continue;
            };
            predictions.count += 1;
            predictions.predicted_s += predicted_us * 1e-6;
            predictions.measured_s += seconds(span.duration_ns());
            ranked.push((span.duration_ns() as f64 / (predicted_us * 1e3), span));
        }
        // Half as long is as far off as twice as long.
        ranked.sort_by(|a, b| b.0.ln().abs().total_cmp(&a.0.ln().abs()));
        ranked.truncate(WORST);
        for (ratio, span) in ranked {
            let (device, lane) = self.place(span);
            predictions.worst.push(Prediction {
                name: span.name.clone(),
                device: device.to_owned(),
                lane: lane.to_owned(),
                predicted_s: span.arguments.predicted_us.unwrap_or(0.0) * 1e-6,
                measured_s: seconds(span.duration_ns()),
                ratio,
            });
        }
        predictions
    }
}

/// A device's summary and what the totals need of it.
struct Measured {
    summary: DeviceSummary,
    hidden_ns: u64,
    shorter_ns: u64,
    idle_ns: u64,
    units: u64,
}

fn times(span: &Span) -> (u64, u64) {
    (span.start_ns, span.end_ns)
}

/// The length of every run, by its number; tasks without one are a run of their own only where there is no other.
fn run_lengths(spans: &[Span]) -> Vec<(Option<u64>, u64)> {
    let mut bounds: BTreeMap<Option<u64>, (u64, u64)> = BTreeMap::new();
    for span in spans.iter().filter(|span| span.category.is_task()) {
        let bounds = bounds.entry(span.arguments.run).or_insert((u64::MAX, 0));
        *bounds = (bounds.0.min(span.start_ns), bounds.1.max(span.end_ns));
    }
    if bounds.len() > 1 {
        bounds.remove(&None);
    }
    bounds.into_iter().map(|(run, (start_ns, end_ns))| (run, end_ns.saturating_sub(start_ns))).collect()
}

fn median_run(mut lengths: Vec<(Option<u64>, u64)>) -> (Option<u64>, Option<Runs>) {
    lengths.sort_by_key(|&(run, length_ns)| (length_ns, run));
    let (Some(first), Some(last)) = (lengths.first(), lengths.last()) else { return (None, None) };
    let median = lengths[(lengths.len() - 1) / 2];
    let runs = Runs {
        count: lengths.len() as u64,
        median_s: seconds(median.1),
        min_s: seconds(first.1),
        max_s: seconds(last.1),
    };
    (median.0, Some(runs))
}
