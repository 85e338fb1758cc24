//! The critical path: the chain of tasks that determines the end of a run.
//!
//! The chain is followed backwards from the task that ended last. The predecessor of a task is the one that ended last among its
//! predecessors in the graph and the task before it on its lane. A gap is time between two tasks of the chain that neither the graph
//! nor the lane explains: overhead, or waiting for a slot or a worker.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::intervals::{seconds, share};
use super::model::{Category, Span, Trace};

/// The chain of tasks that determines the end of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CriticalPath {
    /// Total time of the chain's tasks.
    pub busy_s: f64,
    /// Total time of the gaps between them.
    pub gaps_s: f64,
    /// Share of the run that its tasks cover.
    pub share: f64,
    /// What takes the largest part of the run.
    pub bottleneck: Bottleneck,
    /// Time by kind of task, the largest first.
    pub by_category: Vec<CategoryShare>,
    /// The tasks, in order of time.
    pub steps: Vec<Step>,
}

/// The largest part of the critical path: one kind of task on one device, or the gaps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The kind of task, or `waiting` for the gaps.
    pub kind: &'static str,
    /// The device of the tasks; `None` for the gaps.
    pub device: Option<String>,
    /// Total time.
    pub time_s: f64,
    /// Share of the run.
    pub share: f64,
}

/// One kind of task on the critical path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CategoryShare {
    /// The kind.
    #[serde(serialize_with = "category_name")]
    pub category: Category,
    /// The number of tasks.
    pub tasks: u64,
    /// Their total time.
    pub busy_s: f64,
    /// Share of the run.
    pub share: f64,
}

/// One task of the critical path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The task.
    pub name: String,
    /// Its kind.
    #[serde(serialize_with = "category_name")]
    pub category: Category,
    /// Its process.
    pub device: String,
    /// Its lane.
    pub lane: String,
    /// Its start, since the start of the run.
    pub start_s: f64,
    /// Its duration.
    pub duration_s: f64,
    /// Share of the run.
    pub share: f64,
    /// The gap before it, since the step before or the start of the run.
    pub gap_before_s: f64,
}

fn category_name<S: Serializer>(category: &Category, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category.name())
}

/// The critical path of the spans `in_run`; `None` without spans.
pub(super) fn path(trace: &Trace, in_run: &[u32]) -> Option<CriticalPath> {
    let span = |index: u32| &trace.spans[index as usize];
    let run_start_ns = in_run.iter().map(|&index| span(index).start_ns).min()?;
    let last = in_run.iter().copied().max_by_key(|&index| (span(index).end_ns, index))?;
    let length_ns = span(last).end_ns.saturating_sub(run_start_ns);
    let before = predecessors(trace, in_run);

    let mut chain = vec![last];
    let mut current = last;
    while let Some(previous) = before[current as usize] {
        chain.push(previous);
        current = previous;
    }
    chain.reverse();

    let mut steps = Vec::with_capacity(chain.len());
    // With two device clocks a task may start slightly before its predecessor ends; the overlap counts once.
    let (mut reached_ns, mut busy_ns, mut gaps_ns) = (run_start_ns, 0, 0);
    let mut by_category: Vec<(Category, u64, u64)> = Vec::new();
    let mut by_device: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for index in chain {
        let step = span(index);
        let gap_ns = step.start_ns.saturating_sub(reached_ns);
        let counted_ns = step.end_ns.saturating_sub(reached_ns.max(step.start_ns));
        busy_ns += counted_ns;
        gaps_ns += gap_ns;
        reached_ns = reached_ns.max(step.end_ns);
        match by_category.iter_mut().find(|(category, ..)| *category == step.category) {
            Some((_, tasks, ns)) => (*tasks, *ns) = (*tasks + 1, *ns + counted_ns),
            None => by_category.push((step.category, 1, counted_ns)),
        }
        let (device, lane) = trace.process_and_lane(step);
        *by_device.entry((device, step.category.name())).or_default() += counted_ns;
        steps.push(Step {
            name: step.name.clone(),
            category: step.category,
            device: device.to_owned(),
            lane: lane.to_owned(),
            start_s: seconds(step.start_ns - run_start_ns),
            duration_s: seconds(step.duration_ns()),
            share: share(counted_ns, length_ns).unwrap_or(0.0),
            gap_before_s: seconds(gap_ns),
        });
    }
    by_category.sort_by_key(|&(_, _, ns)| std::cmp::Reverse(ns));
    let by_category = by_category
        .into_iter()
        .map(|(category, tasks, ns)| CategoryShare {
            category,
            tasks,
            busy_s: seconds(ns),
            share: share(ns, length_ns).unwrap_or(0.0),
        })
        .collect();
    let parts = by_device.into_iter().map(|((device, kind), ns)| (kind, Some(device.to_owned()), ns));
    let (kind, device, ns) = parts.chain([("waiting", None, gaps_ns)]).max_by_key(|&(_, _, ns)| ns)?;
    let bottleneck =
        Bottleneck { kind, device, time_s: seconds(ns), share: share(ns, length_ns).unwrap_or(0.0) };
    Some(CriticalPath {
        bottleneck,
        busy_s: seconds(busy_ns),
        gaps_s: seconds(gaps_ns),
        share: share(busy_ns, length_ns).unwrap_or(0.0),
        by_category,
        steps,
    })
}

/// For each span of the trace its predecessor on the critical path.
fn predecessors(trace: &Trace, in_run: &[u32]) -> Vec<Option<u32>> {
    // A predecessor comes earlier in this order, so that the chain ends even if the arrows form a cycle.
    let order = |index: u32| {
        let Span { start_ns, end_ns, .. } = trace.spans[index as usize];
        (start_ns, end_ns, index)
    };
    let mut before: Vec<Option<u32>> = vec![None; trace.spans.len()];
    let mut offer = |index: u32, candidate: u32| {
        if order(candidate) >= order(index) {
            return;
        }
        let ended_ns = |index: u32| trace.spans[index as usize].end_ns;
        // If two ended at the same time, the predecessor in the graph wins; it is compared last.
        let known = &mut before[index as usize];
        if known.is_none_or(|known| ended_ns(candidate) >= ended_ns(known)) {
            *known = Some(candidate);
        }
    };
    let mut by_lane = in_run.to_vec();
    by_lane.sort_unstable_by_key(|&index| (trace.spans[index as usize].lane, order(index)));
    for pair in by_lane.windows(2) {
        if let &[first, second] = pair
            && trace.spans[first as usize].lane == trace.spans[second as usize].lane
        {
            offer(second, first);
        }
    }
    let mut is_in_run = vec![false; trace.spans.len()];
    in_run.iter().for_each(|&index| is_in_run[index as usize] = true);
    for &(from, to) in &trace.flows {
        let known = |index: u32| is_in_run.get(index as usize).copied().unwrap_or(false);
        if known(from.0) && known(to.0) {
            offer(to.0, from.0);
        }
    }
    before
}
