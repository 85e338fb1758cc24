//! In every order of completions, each task runs once and after its predecessors.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::scripted::{Run, check_cover, seeded};
use crate::exec::{ExecOptions, TaskSchedule};
use crate::graph::fixture::{Draft, Shape, planner_like};
use crate::graph::{ChoiceId, DeviceId, PoolId, StrandId, TaskId, TaskKind};

fn completes(run: &Run, seed: u64) {
    let (outcome, _) = run.go(seeded(seed), &ExecOptions::default(), None);
    let outcome = outcome.unwrap();
    check_cover(&run.graph, &outcome);
    assert!(outcome.is_complete() && outcome.faults.is_empty() && !outcome.cancelled, "{outcome:?}");
    assert!(outcome.chosen.iter().all(Option::is_some));
}

#[test]
fn a_small_graph_completes_in_every_order_of_completions() {
    let shapes = [
        Shape { accelerators: 1, chunks: 1, host_chunks: 1, choices: 1, split: false, slots: 1 },
        Shape { accelerators: 1, chunks: 2, host_chunks: 0, choices: 0, split: false, slots: 2 },
        Shape { accelerators: 2, chunks: 0, host_chunks: 1, choices: 1, split: false, slots: 1 },
    ];
    for shape in shapes {
        for stream_ordered in [true, false] {
            let mut run = Run::of(planner_like(shape).graph());
            run.stream_ordered = stream_ordered;
            let mut orders = 0;
            // For each completion the option taken and the number of options.
            let path: Rc<RefCell<Vec<(usize, usize)>>> = Rc::default();
            loop {
                let taken = path.clone();
                let mut at = 0;
                let follow = move |options: usize| {
                    let mut taken = taken.borrow_mut();
                    if at == taken.len() {
                        taken.push((0, options));
                    }
                    assert_eq!(taken[at].1, options, "the run is not deterministic");
                    at += 1;
                    taken[at - 1].0
                };
                let (outcome, _) = run.go(Box::new(follow), &ExecOptions::default(), None);
                let outcome = outcome.unwrap();
                check_cover(&run.graph, &outcome);
                assert!(outcome.is_complete());
                orders += 1;
                let mut path = path.borrow_mut();
                while path.last().is_some_and(|&(choice, options)| choice + 1 == options) {
                    path.pop();
                }
                match path.last_mut() {
                    Some(last) if orders < 20_000 => last.0 += 1,
                    _ => break,
                }
            }
            assert!(orders > 10, "only {orders} orders");
        }
    }
}

#[test]
fn a_schedule_can_be_reused() {
    let run = Run::of(
        planner_like(Shape { accelerators: 2, chunks: 3, host_chunks: 2, choices: 4, split: true, slots: 2 })
            .graph(),
    );
    for seed in 0..200 {
        completes(&run, seed);
    }
}

#[test]
fn the_longest_remaining_path_runs_first() {
    let mut draft = Draft::default();
    let strands: Vec<StrandId> = (0..3).map(|_| draft.strand(None)).collect();
    let mut add = |strand: usize, before: &[TaskId]| {
        let task = (TaskKind::CpuCompute, DeviceId::HOST, strands[strand]);
        draft.add(task, (None, None), before, &[], &[])
    };
    let (short, middle, long) = (add(0, &[]), add(1, &[]), add(2, &[]));
    let middle_end = add(1, &[middle]);
    let long_middle = add(2, &[long]);
    let long_end = add(2, &[long_middle]);
    let mut run = Run::of(draft.graph());
    run.depth = 1;
    let (_, submitted) = run.go(Box::new(|_| 0), &ExecOptions::default(), None);
    // Tasks take 100, 101, 102 … ns, so of two paths with equally many tasks the later one is longer.
    assert_eq!(submitted, [long, long_middle, middle, long_end, middle_end, short]);
}

#[test]
fn a_later_turn_does_not_overtake_a_task_that_waits_for_a_slot() {
    let mut draft = Draft::default();
    let pool = draft.pool(DeviceId::HOST, 1);
    for (turn, slot) in [(0, Some(pool)), (1, Some(pool)), (2, None)] {
        let strand = draft.strand(None);
        let task = draft.add((TaskKind::CpuCompute, DeviceId::HOST, strand), (slot, slot), &[], &[], &[]);
        draft.entries[task.index()].task.turn = turn;
    }
    let (outcome, submitted) = Run::of(draft.graph()).go(seeded(1), &ExecOptions::default(), None);
    assert!(outcome.unwrap().is_complete());
    assert_eq!(submitted, [TaskId(0), TaskId(1), TaskId(2)]);
}

#[test]
fn an_unvalidated_graph_that_deadlocks_is_an_error() {
    let mut draft = Draft::default();
    let pool = draft.pool(DeviceId::HOST, 1);
    for _ in 0..2 {
        let strand = draft.strand(None);
        draft.add((TaskKind::CpuCompute, DeviceId::HOST, strand), (Some(pool), None), &[], &[], &[]);
    }
    let (outcome, _) = Run::of(draft.graph()).go(seeded(1), &ExecOptions::default(), None);
    assert!(outcome.unwrap_err().to_string().contains("deadlocked"));
}

#[test]
fn a_graph_with_numbers_of_nothing_has_no_schedule() {
    let said = |damage: fn(&mut Draft)| {
        let mut draft = Draft::default();
        let strand = draft.strand(None);
        draft.add((TaskKind::CpuCompute, DeviceId::HOST, strand), (None, None), &[], &[], &[]);
        damage(&mut draft);
        TaskSchedule::new(&draft.graph()).map(|_| ()).unwrap_err().to_string()
    };
    assert!(said(|draft| draft.entries[0].predecessors.push(TaskId(1))).contains("a task"));
    assert!(said(|draft| draft.entries[0].task.strand = StrandId(1)).contains("a strand"));
    assert!(said(|draft| draft.entries[0].task.takes = Some(PoolId(0))).contains("a slot pool"));
    assert!(said(|draft| draft.strands[0] = Some(ChoiceId(0))).contains("a choice"));
}

#[test]
fn a_graph_for_missing_devices_is_an_error() {
    let mut draft = Draft::default();
    let strand = draft.strand(None);
    draft.add((TaskKind::Kernel, DeviceId(3), strand), (None, None), &[], &[], &[]);
    let mut run = Run::of(draft.graph());
    run.devices = 2;
    let (outcome, _) = run.go(seeded(1), &ExecOptions::default(), None);
    assert!(outcome.unwrap_err().to_string().contains("device 3"));
}

fn random_dag() -> impl Strategy<Value = Draft> {
    let kinds = prop::sample::select(vec![
        (TaskKind::CpuCompute, 0),
        (TaskKind::Stage, 0),
        (TaskKind::Upload, 1),
        (TaskKind::Kernel, 1),
        (TaskKind::Kernel, 2),
        (TaskKind::Download, 2),
    ]);
    let before = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    prop::collection::vec((kinds, before, any::<bool>()), 1..30).prop_map(|tasks| {
        let mut draft = Draft::default();
        for ((kind, device), before, own_strand) in tasks {
            if own_strand || draft.strands.is_empty() {
                draft.strand(None);
            }
            let strand = StrandId(draft.strands.len() as u32 - 1);
            let count = draft.entries.len();
            let before: Vec<TaskId> =
                before.iter().filter(|_| count > 0).map(|at| TaskId(at.index(count) as u32)).collect();
            draft.add((kind, DeviceId(device), strand), (None, None), &before, &[], &[]);
        }
        draft
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_graphs_complete_in_any_order_of_completions(draft in random_dag(), seed: u64, depth in 1usize..4, waits: bool) {
        let mut run = Run::of(draft.graph());
        (run.depth, run.stream_ordered) = (depth, waits);
        completes(&run, seed);
    }

    #[test]
    fn planned_graphs_complete_in_any_order_of_completions(
        accelerators in 0u32..4, chunks in 0u32..6, host_chunks in 0u32..4, choices in 0u32..6,
        split: bool, slots in 1u32..4, seed: u64, depth in 1usize..5, waits: bool,
    ) {
        let shape = Shape { accelerators, chunks, host_chunks, choices, split, slots };
        let mut run = Run::of(planner_like(shape).graph());
        (run.depth, run.stream_ordered) = (depth, waits);
        completes(&run, seed);
    }
}
