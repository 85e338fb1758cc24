//! A fault stops exactly the strands that depend on it, at every task.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::scripted::{InjectedFault, Run, check_cover, seeded};
use crate::device::FaultKind;
use crate::device::completion::Timeouts;
use crate::error::Error;
use crate::exec::{ExecOptions, ExecOutcome};
use crate::graph::fixture::{Shape, planner_like};
use crate::graph::{Demand, DeviceId, Graph, StrandId, TaskId};

fn small() -> Graph {
    let shape = Shape { accelerators: 2, chunks: 3, host_chunks: 2, choices: 3, split: true, slots: 2 };
    planner_like(shape).graph()
}

fn quick() -> ExecOptions<'static> {
    let timeouts = Timeouts { watchdog: Duration::from_millis(2), ..Timeouts::default() };
    ExecOptions { timeouts, ..ExecOptions::default() }
}

/// All strands that depend on `first`, directly or not.
fn stopped_by(graph: &Graph, first: impl Iterator<Item = StrandId>) -> HashSet<StrandId> {
    let mut stopped: HashSet<StrandId> = first.collect();
    let strand = |task: TaskId| graph.tasks()[task.index()].strand;
    loop {
        let before = stopped.len();
        for (from, to) in graph.edges() {
            if stopped.contains(&strand(from)) {
                stopped.insert(strand(to));
            }
        }
        if stopped.len() == before {
            return stopped;
        }
    }
}

fn outcome(run: &Run, seed: u64) -> ExecOutcome {
    let outcome = run.go(seeded(seed), &quick(), None).0.unwrap();
    check_cover(&run.graph, &outcome);
    outcome
}

#[test]
fn a_fault_at_any_task_stops_only_dependent_strands() {
    let graph = small();
    for number in 0..graph.tasks().len() as u32 {
        let task = TaskId(number);
        let strand = graph.tasks()[task.index()].strand;
        for kind in
            [FaultKind::Launch, FaultKind::Copy, FaultKind::Job, FaultKind::Misuse, FaultKind::OutOfMemory]
        {
            for injected in [InjectedFault::Refused(kind), InjectedFault::Ends(kind)] {
                let run = Run::of(graph.clone()).with(task, injected);
                let outcome = outcome(&run, u64::from(number));
                let stoppable = stopped_by(&graph, [strand].into_iter());
                assert!(outcome.unfinished.iter().all(|strand| stoppable.contains(strand)), "{outcome:?}");
                assert!(outcome.dead.is_empty());
                let ran =
                    outcome.faults.iter().map(|fault| (fault.task, fault.fault.kind)).collect::<Vec<_>>();
                if graph.strands()[strand.index()].is_none() {
                    assert_eq!(ran, [(task, kind)]);
                    assert!(outcome.unfinished.contains(&strand));
                } else {
                    assert!(ran.is_empty() == outcome.is_complete() && ran.len() < 2);
                }
            }
        }
    }
}

#[test]
fn the_only_slots_of_a_stopped_strand_go_to_the_strands_that_wait_for_them() {
    let shape = Shape { accelerators: 1, chunks: 3, host_chunks: 0, choices: 0, split: false, slots: 1 };
    let graph = planner_like(shape).graph();
    // The first two tasks stage and upload X, which every other strand needs.
    for number in 2..graph.tasks().len() as u32 {
        let strand = graph.tasks()[number as usize].strand;
        for injected in [InjectedFault::Refused(FaultKind::Copy), InjectedFault::Ends(FaultKind::Copy)] {
            let run = Run::of(graph.clone()).with(TaskId(number), injected);
            assert_eq!(outcome(&run, u64::from(number)).unfinished, [strand], "{number} {injected:?}");
        }
    }
}

#[test]
fn after_a_device_loss_at_any_task_the_others_do_the_rest() {
    let graph = small();
    for number in 0..graph.tasks().len() as u32 {
        let task = TaskId(number);
        let device = graph.tasks()[task.index()].device;
        for injected in [InjectedFault::Refused(FaultKind::Lost), InjectedFault::Ends(FaultKind::Lost)] {
            for seed in 0..4 {
                let run = Run::of(graph.clone()).with(task, injected);
                let outcome = outcome(&run, seed);
                if outcome.faults.is_empty() {
                    assert!(outcome.is_complete(), "{outcome:?}");
                    continue;
                }
                assert_eq!((outcome.faults.len(), &outcome.dead[..]), (1, &[device][..]), "{outcome:?}");
                let uses = |at: &crate::graph::Task| at.device == device;
                let users = graph.tasks().iter().filter(|at| uses(at)).map(|at| at.strand);
                let stoppable = stopped_by(&graph, users);
                assert!(outcome.unfinished.iter().all(|strand| stoppable.contains(strand)), "{outcome:?}");
                // The host can take every choice that the lost device did not take.
                if device != DeviceId::HOST {
                    assert!(outcome.chosen.iter().all(Option::is_some), "{outcome:?}");
                }
            }
        }
    }
}

#[test]
fn a_hung_device_is_declared_dead_and_its_tasks_are_named() {
    let graph = small();
    for number in 0..graph.tasks().len() as u32 {
        let task = TaskId(number);
        let at = graph.tasks()[task.index()];
        let run = Run::of(graph.clone()).with(task, InjectedFault::Silent);
        let (result, submitted) = run.go(seeded(7), &quick(), None);
        if !submitted.contains(&task) {
            assert!(result.unwrap().is_complete());
        } else if at.device == DeviceId::HOST {
            match result {
                Err(Error::Device { device, reason }) => {
                    assert_eq!(device, "scripted:0");
                    let name = format!("{} {number}", at.kind.name());
                    assert!(
                        reason.words().contains(&name) && reason.words().contains("did not complete"),
                        "{reason}"
                    );
                }
                other => panic!("{other:?}"),
            }
        } else {
            let outcome = result.unwrap();
            check_cover(&graph, &outcome);
            assert_eq!(outcome.dead, [at.device]);
            let [fault] = &outcome.faults[..] else { panic!("{:?}", outcome.faults) };
            assert_eq!((fault.device, fault.fault.kind), (at.device, FaultKind::Hang));
            assert!(outcome.unfinished.contains(&at.strand));
            assert!(outcome.chosen.iter().all(Option::is_some));
        }
    }
}

#[test]
fn a_long_task_has_20_times_its_predicted_time_but_not_longer_than_other_ranks_wait() {
    let hung_after = |predicted_ms: u64, message: Option<Duration>| {
        let shape = Shape { accelerators: 1, chunks: 1, host_chunks: 0, choices: 0, split: false, slots: 1 };
        let mut draft = planner_like(shape);
        for entry in &mut draft.entries {
            entry.task.demand = Demand { alone_ns: predicted_ms * 1_000_000, ..Demand::default() };
        }
        let graph = draft.graph();
        let of_device = graph.tasks().iter().position(|task| task.device == DeviceId(1)).unwrap();
        let run = Run::of(graph).with(TaskId(of_device as u32), InjectedFault::Silent);
        let timeouts = Timeouts { watchdog: Duration::from_millis(2), message };
        let start = Instant::now();
        let outcome = run.go(seeded(1), &ExecOptions { timeouts, ..ExecOptions::default() }, None).0.unwrap();
        assert_eq!(outcome.dead, [DeviceId(1)]);
        start.elapsed()
    };
    assert!(hung_after(10, None) >= Duration::from_millis(200));
    assert!(hung_after(1000, Some(Duration::from_millis(20))) < Duration::from_secs(10));
}

#[test]
fn two_devices_may_fail_in_one_run() {
    let graph = small();
    let on = |device: u32| {
        let tasks = graph.tasks().iter().enumerate().filter(move |(_, task)| task.device.0 == device);
        tasks.map(|(number, _)| TaskId(number as u32)).step_by(2).collect::<Vec<_>>()
    };
    for first in on(1) {
        for second in on(2) {
            let run = Run::of(graph.clone())
                .with(first, InjectedFault::Ends(FaultKind::Lost))
                .with(second, InjectedFault::Ends(FaultKind::Launch));
            outcome(&run, 3);
        }
    }
}

#[test]
fn if_all_devices_are_lost_choices_stay_open_and_unfinished() {
    let graph = small();
    let first = |device: u32| graph.tasks().iter().position(|task| task.device.0 == device).unwrap() as u32;
    let mut run = Run::of(graph.clone());
    for device in 0..3 {
        run = run.with(TaskId(first(device)), InjectedFault::Refused(FaultKind::Lost));
    }
    let outcome = outcome(&run, 1);
    assert!(outcome.records.is_empty() && outcome.chosen.iter().all(Option::is_none), "{outcome:?}");
    assert_eq!(outcome.unfinished.len(), 2 + 2 * 3 + 2 + 3 + 2 + 1 + 1 + 1);
}

#[test]
fn a_binder_error_ends_the_run_with_nothing_in_flight() {
    let graph = small();
    for number in 0..graph.tasks().len() as u32 {
        let task = TaskId(number);
        let run = Run::of(graph.clone()).with(task, InjectedFault::Unbound);
        match run.go(seeded(u64::from(number)), &quick(), None).0 {
            Err(Error::Usage(message)) => {
                assert_eq!(message.words(), format!("task {number} cannot be made"))
            }
            Err(other) => panic!("{other}"),
            // The task belongs to a choice that another device took.
            Ok(outcome) => assert!(
                graph.strands()[graph.tasks()[task.index()].strand.index()].is_some()
                    && outcome.is_complete()
            ),
        }
    }
}

#[test]
fn after_a_cancel_at_any_completion_nothing_more_is_submitted() {
    let graph = small();
    for ends in 0..30 {
        let flag = Arc::new(AtomicBool::new(false));
        let raise = {
            let flag = flag.clone();
            Box::new(move |ended: usize| flag.store(ended >= ends, Ordering::Relaxed))
        };
        let options = ExecOptions {
            cancel: Some(&flag),
            timeouts: Timeouts { watchdog: Duration::from_secs(5), ..Timeouts::default() },
            ..ExecOptions::default()
        };
        let (outcome, submitted) = Run::of(graph.clone()).go(seeded(ends as u64), &options, Some(raise));
        let outcome = outcome.unwrap();
        check_cover(&graph, &outcome);
        assert!(outcome.cancelled && !outcome.is_complete());
        assert_eq!(outcome.records.len(), submitted.len());
        assert!(submitted.len() < ends + 1 + 3 * 9, "{ends} {}", submitted.len());
    }
}
