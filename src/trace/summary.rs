//! The summary of a trace: busy and idle lanes, overlap of copies and compute, the critical path, the worst predictions.
//!
//! # Repeated runs
//!
//! A task may have the number of its run. [`Summary`] then describes one run, the one of median length (the shorter of the two middle
//! ones): sums over runs would count the pauses between them as idle. The shortest and the longest run are given too. Tasks without a
//! number are work outside the runs, such as the upload of a resident matrix; they are counted separately. If no task has a number, all
//! tasks are one run.
//!
//! # Definitions
//!
//! - The *length* of a run is the time from the start of its first task to the end of its last.
//! - *Copies* are uploads and downloads; *compute* is kernels on devices and on the CPU. Staging and merging keep a lane busy and are
//!   neither.
//! - Times of a device are unions over its lanes: parallel lanes do not add up.
//! - The *hidden fraction* of a device is the share of the shorter of its copy and compute time during which the other ran too. The
//!   total is weighted by that shorter time.
//! - The *idle fraction* of a device is the share of the run in which none of its lanes is busy. The total is the average over the
//!   devices with tasks in the run.
//! - The *together fraction* is the share of the run in which at least two of the devices that compute are busy.

use std::collections::BTreeMap;

use serde::Serialize;

use super::critical::{self, CriticalPath};
use super::host_steps::HostStep;
use super::intervals::{TimeSet, seconds, share, shared_ns};
use super::model::{Adjustments, Category, ProcessId, Span, Trace};
use super::ranks::RanksSummary;

/// The number of worst predictions in the summary.
const WORST_PREDICTIONS: usize = 5;

/// The summary of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The number of the run that is described, if runs have numbers.
    pub run: Option<u64>,
    /// The lengths of all runs; `None` without tasks.
    pub runs: Option<Runs>,
    /// The number of tasks in the run.
    pub tasks: u64,
    /// The number of tasks outside the runs.
    pub tasks_outside: u64,
    /// Time during which tasks outside the runs ran.
    pub outside_s: f64,
    /// Processes with tasks in the run.
    pub devices: Vec<DeviceSummary>,
    /// The share of copying or computing, whichever is shorter, that is hidden behind the other; `None` if no device has both.
    pub hidden_fraction: Option<f64>,
    /// The average of the devices' idle fractions; `None` without tasks.
    pub idle_fraction: Option<f64>,
    /// The share of the run in which two devices or more were busy; `None` if fewer than two computed.
    pub together_fraction: Option<f64>,
    /// The critical path; `None` without tasks.
    pub critical_path: Option<CriticalPath>,
    /// Predicted and measured durations.
    pub predictions: Predictions,
    /// Steps of the program outside the tasks, by name, in order of first appearance.
    pub host: Vec<HostStep>,
    /// Corrections in the file.
    pub adjustments: Adjustments,
    /// The ranks, in a trace of several.
    pub ranks: Option<RanksSummary>,
}

/// The lengths of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Runs {
    /// The number of runs.
    pub count: u64,
    /// The run that is described.
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
    /// Time during which it computed.
    pub compute_s: f64,
    /// Time during which it copied.
    pub copy_s: f64,
    /// Time during which it was busy.
    pub busy_s: f64,
    /// The share of copying or computing, whichever is shorter, that is hidden behind the other.
    pub hidden_fraction: Option<f64>,
    /// The share of the run in which none of its lanes was busy.
    pub idle_fraction: f64,
    /// Its lanes.
    pub lanes: Vec<LaneSummary>,
}

/// One lane in the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneSummary {
    /// Its name.
    pub name: String,
    /// The number of its tasks.
    pub tasks: u64,
    /// Time during which one of them ran.
    pub busy_s: f64,
    /// The rest of the run.
    pub idle_s: f64,
}

/// Predicted and measured durations of all tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Predictions {
    /// The number of tasks with a prediction.
    pub count: u64,
    /// The sum of their predicted durations.
    pub predicted_s: f64,
    /// The sum of their measured durations.
    pub measured_s: f64,
    /// The tasks with the largest ratio of the two durations, in either direction.
    pub worst: Vec<Prediction>,
}

/// Predicted and measured duration of one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The task.
    pub name: String,
    /// Its process.
    pub device: String,
    /// Its lane.
    pub lane: String,
    /// The predicted duration.
    pub predicted_s: f64,
    /// The measured duration.
    pub measured_s: f64,
    /// Measured over predicted.
    pub ratio: f64,
}

impl Trace {
    /// The summary; of several runs it describes the median one.
    #[doc(hidden)]
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
        let device_ns = length_ns.saturating_mul(measured.len() as u64);
        let idle_fraction = share(sum(|device| device.idle_ns), device_ns);
        let computing = || measured.iter().filter(|device| device.summary.compute_s > 0.0);
        let busy: Vec<TimeSet> = computing().map(|device| device.busy.clone()).collect();
        let together_fraction = (busy.len() >= 2).then(|| share(shared_ns(&busy), length_ns)).flatten();
        Summary {
            run,
            runs,
            tasks: in_run.len() as u64,
            tasks_outside: self.spans.iter().filter(outside).count() as u64,
            outside_s: seconds(TimeSet::of(self.spans.iter().filter(outside).map(times)).length()),
            hidden_fraction,
            idle_fraction,
            together_fraction,
            critical_path: critical::path(self, &in_run),
            predictions: self.predictions(spans()),
            devices: measured.into_iter().map(|device| device.summary).collect(),
            host: super::host_steps::steps(&self.spans),
            adjustments: self.adjustments,
            ranks: self.rank_summary(&in_run),
        }
    }

    /// The summary of a process in a run of that length; `None` if it has no task in the run.
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
            TimeSet::of(
                by_lane.values().flatten().filter(|span| wanted(span.category)).map(|span| times(span)),
            )
        };
        let (copy, compute) = (of(&Category::is_copy), of(&Category::is_compute));
        let (hidden_ns, shorter_ns) = (copy.intersection_ns(&compute), copy.length().min(compute.length()));

        let busy = of(&|_| true);
        let busy_ns = busy.length();
        let idle_ns = length_ns - busy_ns;
        let mut lanes = Vec::new();
        for (&lane, spans) in &by_lane {
            let busy_ns = TimeSet::of(spans.iter().map(|span| times(span))).length();
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
            busy_s: seconds(busy_ns),
            hidden_fraction: share(hidden_ns, shorter_ns),
            idle_fraction: share(idle_ns, length_ns).unwrap_or(0.0),
            lanes,
        };
        Some(Measured { summary, busy, hidden_ns, shorter_ns, idle_ns })
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
        // Half the predicted time is as wrong as twice the predicted time.
        ranked.sort_by(|a, b| b.0.ln().abs().total_cmp(&a.0.ln().abs()));
        ranked.truncate(WORST_PREDICTIONS);
        for (ratio, span) in ranked {
            let (device, lane) = self.process_and_lane(span);
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

/// The summary of a device and its terms of the totals.
struct Measured {
    summary: DeviceSummary,
    busy: TimeSet,
    hidden_ns: u64,
    shorter_ns: u64,
    idle_ns: u64,
}

fn times(span: &Span) -> (u64, u64) {
    (span.start_ns, span.end_ns)
}

/// The length of every run by its number; tasks without a number are a run if no task has one.
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
