//! On simulated devices: times, overlap, and which device takes which choice.

use crossbeam::channel::unbounded;

use crate::device::simulated::{SimulatedDevice, SimulatedSpec, Simulation};
use crate::device::{Device, Operation, Reports};
use crate::error::Result;
use crate::exec::{Binder, Counter, ExecOptions, ExecOutcome, HeldSlots, TaskSchedule, execute};
use crate::graph::fixture::{Draft, Shape, planner_like};
use crate::graph::{Demand, DeviceId, Graph, TaskId, TaskKind};

struct Pass;

impl<'run> Binder<'run> for Pass {
    fn operation(&mut self, _task: TaskId, _slots: &HeldSlots) -> Result<Operation<'run>> {
        Ok(Operation::Pass)
    }
}

fn simulate(graph: &Graph, accelerators: u32) -> ExecOutcome {
    let (sender, receiver) = unbounded();
    let simulation = Simulation::new(1000.0);
    let reports = |number| Reports::new(DeviceId(number), sender.clone());
    let mut devices: Vec<SimulatedDevice> =
        vec![simulation.device(&SimulatedSpec::host("cpu", 1, 2), reports(0))];
    for number in 1..=accelerators {
        let spec = SimulatedSpec::accelerator(format!("sim:{number}"), 1 << 30, 10.0, 0);
        devices.push(simulation.device(&spec, reports(number)));
    }
    let mut devices: Vec<&mut dyn Device<'static>> =
        devices.iter_mut().map(|device| device as &mut dyn Device<'static>).collect();
    let schedule = TaskSchedule::new(graph).unwrap();
    execute(graph, &schedule, &mut devices, &receiver, &mut Pass, &ExecOptions::default()).unwrap()
}

fn takes_ns(draft: &mut Draft, of: impl Fn(TaskKind) -> u64) {
    for entry in &mut draft.entries {
        entry.task.demand = Demand { alone_ns: of(entry.task.kind), ..Demand::default() };
    }
}

#[test]
fn transfers_overlap_with_kernels() {
    let mut draft = planner_like(Shape {
        accelerators: 1,
        chunks: 20,
        host_chunks: 0,
        choices: 0,
        split: false,
        slots: 3,
    });
    takes_ns(&mut draft, |kind| if kind == TaskKind::Kernel { 100 } else { 20 });
    let outcome = simulate(&draft.graph(), 1);
    let end = outcome.records.iter().map(|record| record.end_ns).max().unwrap();
    // Staging, uploading X and uploading the first chunk; twenty kernels back to back; download and merge of the last.
    assert_eq!(end, 3 * 20 + 20 * 100 + 2 * 20);
}

#[test]
fn devices_meet_in_the_middle_of_the_choices() {
    let mut draft = planner_like(Shape {
        accelerators: 1,
        chunks: 0,
        host_chunks: 0,
        choices: 30,
        split: false,
        slots: 2,
    });
    takes_ns(&mut draft, |kind| match kind {
        TaskKind::CpuCompute => 400,
        TaskKind::Kernel => 100,
        _ => 5,
    });
    let graph = draft.graph();
    let outcome = simulate(&graph, 1);
    let device = |strand: crate::graph::StrandId| {
        let tasks = graph.tasks().iter().filter(move |task| task.strand == strand);
        tasks.map(|task| task.device.0).max().unwrap()
    };
    let takers: Vec<u32> = outcome.chosen.iter().map(|strand| device(strand.unwrap())).collect();
    let accelerated = takers.iter().filter(|&&device| device == 1).count();
    assert!((22..=26).contains(&accelerated), "{takers:?}");
    assert!(takers.is_sorted_by(|one, other| one >= other), "{takers:?}");
}

#[test]
fn a_device_takes_choices_only_after_starting_its_own_chunks() {
    let mut draft = planner_like(Shape {
        accelerators: 1,
        chunks: 6,
        host_chunks: 6,
        choices: 4,
        split: false,
        slots: 2,
    });
    takes_ns(&mut draft, |_| 50);
    let graph = draft.graph();
    let outcome = simulate(&graph, 1);
    let began = |floating: bool, kind: TaskKind| {
        let of = |record: &&crate::exec::Record| {
            let task = graph.tasks()[record.task.index()];
            // The first two tasks stage and upload X.
            task.kind == kind
                && record.task.0 > 1
                && graph.strands()[task.strand.index()].is_some() == floating
        };
        outcome.records.iter().filter(of).map(|record| record.start_ns).collect::<Vec<_>>()
    };
    for kind in [TaskKind::Stage, TaskKind::CpuCompute] {
        let (own, floating) = (began(false, kind), began(true, kind));
        assert!(own.iter().max() <= floating.iter().min(), "{kind:?} {own:?} {floating:?}");
        assert!(own.len() == 6 && !floating.is_empty());
    }
}

#[test]
fn counters_stay_within_the_pools_and_end_at_zero() {
    let draft =
        planner_like(Shape { accelerators: 2, chunks: 9, host_chunks: 2, choices: 5, split: true, slots: 3 });
    let graph = draft.graph();
    let outcome = simulate(&graph, 2);
    let mut last = vec![0; graph.pools().len()];
    let mut highest = vec![0; graph.pools().len()];
    for sample in &outcome.samples {
        if let Counter::Slots(pool) = sample.counter {
            last[pool.index()] = sample.value;
            highest[pool.index()] = highest[pool.index()].max(sample.value);
        }
    }
    assert!(last.iter().all(|&value| value == 0), "{last:?}");
    assert!(highest.iter().all(|&value| (1..=3).contains(&value)), "{highest:?}");
}

#[test]
fn the_same_graph_gives_the_same_records() {
    let shape = Shape { accelerators: 3, chunks: 20, host_chunks: 9, choices: 11, split: true, slots: 2 };
    let graph = planner_like(shape).graph();
    assert_eq!(simulate(&graph, 3), simulate(&graph, 3));
}

#[test]
fn the_bytes_on_a_link_are_those_of_the_copies_in_flight() {
    let mut draft = Draft::default();
    for link_bytes in [1000, 300] {
        let strand = draft.strand(None);
        let upload = draft.add((TaskKind::Upload, DeviceId(1), strand), (None, None), &[], &[], &[]);
        draft.entries[upload.index()].task.demand.link_bytes = link_bytes;
    }
    let strand = draft.strand(None);
    draft.add((TaskKind::Kernel, DeviceId(1), strand), (None, None), &[], &[], &[]);
    let outcome = simulate(&draft.graph(), 1);
    let of_link = outcome.samples.iter().filter(|sample| sample.counter == Counter::LinkBytes(DeviceId(1)));
    let bytes: Vec<u64> = of_link.map(|sample| sample.value).collect();
    // Both copies are submitted, the one with the longer prediction first, and end in that order.
    assert_eq!(bytes, [300, 1300, 1000, 0]);
}
