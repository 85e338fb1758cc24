use proptest::prelude::*;

use super::Unsound;
use crate::graph::fixture::{Draft, Shape, host_task, planner_like};
use crate::graph::{
    Access, BufferId, ChoiceId, DeviceId, Graph, GraphBuilder, PoolId, Role, StrandId, TaskId, TaskKind,
};

fn two_hundred_tasks() -> Draft {
    planner_like(Shape { accelerators: 2, chunks: 12, host_chunks: 20, choices: 3, split: true, slots: 2 })
}

fn rejection(draft: &Draft, what: &str) -> Unsound {
    match draft.graph().validate() {
        Err(unsound) => unsound,
        Ok(()) => panic!("{what} was not found"),
    }
}

#[test]
fn a_graph_like_the_planners_is_sound() {
    let draft = two_hundred_tasks();
    assert!((180..260).contains(&draft.entries.len()), "{} tasks", draft.entries.len());
    assert_eq!(draft.graph().validate(), Ok(()));
}

#[test]
fn every_missing_edge_is_found() {
    let draft = two_hundred_tasks();
    for edge in draft.edges() {
        rejection(&draft.without_edge(edge), &format!("the loss of {edge:?}"));
    }
}

#[test]
fn every_reversed_edge_is_found() {
    let draft = two_hundred_tasks();
    for (from, to) in draft.edges() {
        let mut cycle = draft.clone();
        cycle.entries[from.index()].predecessors.push(to);
        let unsound = rejection(&cycle, "a cycle");
        assert!(matches!(unsound, Unsound::Cycle { .. }), "{unsound}");
        let turned = {
            cycle.entries[to.index()].predecessors.retain(|&before| before != from);
            cycle
        };
        rejection(&turned, "a reversed edge");
    }
}

#[test]
fn every_missing_take_and_give_is_found() {
    let draft = two_hundred_tasks();
    for (number, entry) in draft.entries.iter().enumerate() {
        if let Some(pool) = entry.task.gives {
            let mut less = draft.clone();
            less.entries[number].task.gives = None;
            let unsound = rejection(&less, "a slot that stays taken");
            assert!(matches!(unsound, Unsound::NotGiven { pool: of, .. } if of == pool), "{unsound}");
        }
        if let Some(pool) = entry.task.takes {
            let mut less = draft.clone();
            less.entries[number].task.takes = None;
            let unsound = rejection(&less, "a slot given back without being held");
            assert!(matches!(unsound, Unsound::NotTaken { pool: of, .. } if of == pool), "{unsound}");
        }
    }
}

#[test]
fn every_doubled_write_is_found() {
    let draft = two_hundred_tasks();
    for (number, entry) in draft.entries.iter().enumerate() {
        for &write in &entry.writes {
            let mut more = draft.clone();
            let strand = more.strand(None);
            more.add((TaskKind::Merge, DeviceId::HOST, strand), (None, None), &[], &[], &[write]);
            rejection(&more, &format!("a second writer of the bytes of task {number}"));
        }
    }
}

#[test]
fn every_widened_access_is_found() {
    let draft = two_hundred_tasks();
    for (number, entry) in draft.entries.iter().enumerate() {
        for at in 0..entry.writes.len() {
            for (before, behind) in [(1, 0), (0, 1)] {
                let mut wider = draft.clone();
                let write = &mut wider.entries[number].writes[at];
                if write.begin < before {
                    continue;
                }
                (write.begin, write.end) = (write.begin - before, write.end + behind);
                rejection(&wider, &format!("a wider write of task {number}"));
            }
        }
        for at in 0..entry.reads.len() {
            let mut wider = draft.clone();
            wider.entries[number].reads[at].end += 1;
            let unsound = rejection(&wider, &format!("a wider read of task {number}"));
            assert!(matches!(unsound, Unsound::Outside { .. }), "{unsound}");
        }
    }
}

#[test]
fn every_narrowed_write_is_found() {
    let draft = two_hundred_tasks();
    for number in 0..draft.entries.len() {
        for at in 0..draft.entries[number].writes.len() {
            let mut narrower = draft.clone();
            narrower.entries[number].writes[at].end -= 1;
            rejection(&narrower, &format!("a narrower write of task {number}"));
        }
    }
}

#[test]
fn a_written_input_is_found() {
    let mut draft = two_hundred_tasks();
    draft.entries[40].writes.push(Access { buffer: BufferId(0), begin: 0, end: 1 });
    assert!(matches!(rejection(&draft, "a written input"), Unsound::InputWritten { .. }));
}

#[test]
fn a_choice_without_strands_is_found() {
    let mut draft = two_hundred_tasks();
    draft.choice();
    assert!(matches!(rejection(&draft, "an empty choice"), Unsound::EmptyChoice { .. }));
}

#[test]
fn strands_of_one_choice_may_not_wait_for_each_other() {
    let draft = two_hundred_tasks();
    let of_first = |strand: StrandId| draft.strands[strand.index()] == Some(ChoiceId(0));
    let tasks = || (0..draft.entries.len()).filter(|&at| of_first(draft.entries[at].task.strand));
    let (first, last) = (tasks().next().unwrap(), tasks().next_back().unwrap());
    let mut crossed = draft.clone();
    crossed.entries[last].predecessors.push(TaskId(first as u32));
    assert!(matches!(rejection(&crossed, "a crossed choice"), Unsound::ChoiceCrossed { .. }));
}

#[test]
fn a_pool_without_slots_is_found() {
    let mut draft = two_hundred_tasks();
    draft.pools[3].1 = 0;
    assert!(matches!(rejection(&draft, "an empty pool"), Unsound::EmptyPool { pool: PoolId(3), .. }));
}

#[test]
fn pools_taken_against_their_order_are_found_unless_they_never_run_out() {
    let mut draft = two_hundred_tasks();
    let swap = |pool: &mut Option<PoolId>| {
        if let Some(pool) = pool {
            pool.0 = [1, 0, 2, 3].get(pool.0 as usize).copied().unwrap_or(pool.0);
        }
    };
    for entry in &mut draft.entries {
        swap(&mut entry.task.takes);
        swap(&mut entry.task.gives);
    }
    assert!(matches!(rejection(&draft, "the wrong order"), Unsound::MayDeadlock { .. }));
    draft.pools[0].1 = 100;
    draft.pools[1].1 = 100;
    assert_eq!(draft.graph().validate(), Ok(()));
}

#[test]
fn a_slot_kept_while_waiting_for_others_that_need_one_is_found() {
    let mut draft = two_hundred_tasks();
    // X goes through the same pinned slots as the chunks, whose kernels wait for it while they hold slots.
    draft.entries[0].task.takes = Some(PoolId(0));
    draft.entries[1].task.gives = Some(PoolId(0));
    assert!(matches!(
        rejection(&draft, "X waiting for a slot that its readers hold"),
        Unsound::MayDeadlock { .. }
    ));
}

#[test]
fn reports_name_the_tasks() {
    let draft = two_hundred_tasks();
    let unsound = rejection(&draft.without_edge((TaskId(0), TaskId(1))), "an edge");
    let message = "stage 0 on device 0 and upload 1 on device 1 both access bytes 0..64 of buffer 3, at least \
                   one writes, and neither waits for the other";
    assert_eq!(unsound.to_string(), message);
}

#[test]
fn a_million_tasks_are_validated() {
    let draft = planner_like(Shape {
        accelerators: 4,
        chunks: 40_000,
        host_chunks: 50_000,
        choices: 7_000,
        split: true,
        slots: 3,
    });
    assert!(draft.entries.len() > 990_000);
    assert_eq!(draft.graph().validate(), Ok(()));
}

/// Whether `later` waits for `earlier`, for all pairs.
fn closure(draft: &Draft) -> Vec<u64> {
    let mut before = vec![0u64; draft.entries.len()];
    loop {
        let old = before.clone();
        for (from, to) in draft.edges() {
            before[to.index()] |= before[from.index()] | 1 << from.0;
        }
        if before == old {
            return before;
        }
    }
}

/// The same question, byte by byte and pair by pair, for graphs without choices and slots.
fn sound_bytes(draft: &Draft) -> bool {
    let before = closure(draft);
    let waits = |later: usize, earlier: usize| before[later] >> earlier & 1 == 1;
    if (0..draft.entries.len()).any(|task| waits(task, task)) {
        return false;
    }
    for (number, &(role, bytes)) in draft.buffers.iter().enumerate() {
        for byte in 0..bytes {
            let touches = |accesses: &[Access]| {
                let mut accesses = accesses.iter();
                accesses.any(|at| at.buffer.index() == number && (at.begin..at.end).contains(&byte))
            };
            let tasks = || 0..draft.entries.len();
            let writers: Vec<usize> = tasks().filter(|&at| touches(&draft.entries[at].writes)).collect();
            let readers: Vec<usize> = tasks().filter(|&at| touches(&draft.entries[at].reads)).collect();
            let apart = |one: usize, other: usize| one == other || waits(one, other) || waits(other, one);
            let kept_apart =
                writers.iter().all(|&one| writers.iter().chain(&readers).all(|&other| apart(one, other)));
            let written = |&reader: &usize| writers.iter().any(|&writer| waits(reader, writer));
            let right = match role {
                Role::Input => writers.is_empty(),
                Role::Output => writers.len() == 1 && readers.iter().all(written),
                Role::Scratch => readers.iter().all(written),
                Role::InOut => writers.len() <= 1,
            };
            if !kept_apart || !right {
                return false;
            }
        }
    }
    true
}

/// Whether some order of the tasks deadlocks.
fn can_deadlock(draft: &Draft) -> bool {
    let count = draft.entries.len();
    let mut seen = vec![false; 1 << count];
    let mut states = vec![0usize];
    while let Some(done) = states.pop() {
        if std::mem::replace(&mut seen[done], true) {
            continue;
        }
        let mut free: Vec<i64> = draft.pools.iter().map(|&(_, slots)| i64::from(slots)).collect();
        for (number, entry) in draft.entries.iter().enumerate().filter(|(at, _)| done >> at & 1 == 1) {
            debug_assert!(number < count);
            entry.task.takes.into_iter().for_each(|pool| free[pool.index()] -= 1);
            entry.task.gives.into_iter().for_each(|pool| free[pool.index()] += 1);
        }
        let mut moved = false;
        for (number, entry) in draft.entries.iter().enumerate().filter(|(at, _)| done >> at & 1 == 0) {
            let ready = entry.predecessors.iter().all(|before| done >> before.0 & 1 == 1);
            if ready && entry.task.takes.is_none_or(|pool| free[pool.index()] > 0) {
                moved = true;
                states.push(done | 1 << number);
            }
        }
        if !moved && done + 1 != 1 << count {
            return true;
        }
    }
    false
}

fn random_bytes() -> impl Strategy<Value = Draft> {
    let access = || (0u32..3, 0u64..6, 1u64..6);
    let task = (
        prop::collection::vec(access(), 0..3),
        prop::collection::vec(access(), 0..3),
        prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    );
    prop::collection::vec(task, 1..9).prop_map(|tasks| {
        let mut draft = Draft::default();
        for role in [Role::Input, Role::Scratch, Role::InOut] {
            draft.buffer(role, 6);
        }
        for (reads, writes, before) in tasks {
            let accesses = |list: &[(u32, u64, u64)]| {
                let of = |&(buffer, begin, bytes): &(u32, u64, u64)| Access {
                    buffer: BufferId(buffer),
                    begin,
                    end: (begin + bytes).min(6),
                };
                list.iter().map(of).collect::<Vec<_>>()
            };
            let count = draft.entries.len();
            let before: Vec<TaskId> =
                before.iter().filter(|_| count > 0).map(|at| TaskId(at.index(count) as u32)).collect();
            let mut writes = accesses(&writes);
            writes.retain(|write| write.buffer.0 > 0);
            let strand = draft.strand(None);
            let task = (TaskKind::CpuCompute, DeviceId::HOST, strand);
            draft.add(task, (None, None), &before, &accesses(&reads), &writes);
        }
        draft
    })
}

/// Chains that take and give slots, with edges between them.
fn random_slots() -> impl Strategy<Value = Draft> {
    let chain = (prop::collection::vec(0u32..3, 1..3), any::<bool>());
    let chains = prop::collection::vec(chain, 2..5);
    let across = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..3);
    (chains, across, prop::collection::vec(prop_oneof![3 => Just(1u32), 1 => Just(2)], 3)).prop_map(
        |(chains, across, slots)| {
            let mut draft = Draft::default();
            for slots in slots {
                draft.pool(DeviceId::HOST, slots);
            }
            for (mut pools, overlapping) in chains {
                pools.dedup();
                let strand = draft.strand(None);
                let task = (TaskKind::CpuCompute, DeviceId::HOST, strand);
                let mut held = None;
                let mut last: Vec<TaskId> = Vec::new();
                for pool in pools.into_iter().map(PoolId) {
                    if !overlapping && held.is_some() {
                        last = vec![draft.add(task, (None, held.take()), &last, &[], &[])];
                    }
                    last = vec![draft.add(task, (Some(pool), held), &last, &[], &[])];
                    held = Some(pool);
                }
                draft.add(task, (None, held), &last, &[], &[]);
            }
            let count = draft.entries.len();
            for (one, other) in across {
                let (one, other) = (one.index(count), other.index(count));
                if one < other {
                    draft.entries[other].predecessors.push(TaskId(one as u32));
                }
            }
            draft
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_byte_check_agrees_with_a_check_of_every_pair(draft in random_bytes()) {
        prop_assert_eq!(draft.graph().validate().is_ok(), sound_bytes(&draft));
    }

    #[test]
    fn a_graph_that_passes_never_deadlocks(draft in random_slots()) {
        if draft.graph().validate().is_ok() {
            prop_assert!(!can_deadlock(&draft));
        }
    }

    #[test]
    fn graphs_of_every_shape_are_sound(
        accelerators in 0u32..4, chunks in 0u32..5, host_chunks in 0u32..5, choices in 0u32..4,
        split: bool, slots in 1u32..4,
    ) {
        let shape = Shape { accelerators, chunks, host_chunks, choices, split, slots };
        prop_assert_eq!(planner_like(shape).graph().validate(), Ok(()));
    }
}

#[test]
fn the_random_graphs_include_sound_and_unsound_ones() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut sound, mut accepted, mut deadlocked) = (0, 0, 0);
    for _ in 0..400 {
        sound += u32::from(sound_bytes(&random_bytes().new_tree(&mut runner).unwrap().current()));
        let slots = random_slots().new_tree(&mut runner).unwrap().current();
        accepted += u32::from(slots.graph().validate().is_ok());
        deadlocked += u32::from(can_deadlock(&slots));
    }
    assert!(sound > 20 && sound < 380 && accepted > 50 && deadlocked > 10, "{sound} {accepted} {deadlocked}");
}

/// A reader of bytes 0..8 and a task that updates them in place, with or without an edge between them.
fn in_place(edge: Option<bool>, updates: &[(u64, u64)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let y = builder.buffer(Role::InOut, 16);
    let strand = builder.strand(None);
    let reader = builder.task(host_task(strand), &[], &[Access { buffer: y, begin: 0, end: 8 }], &[]);
    for &(begin, end) in updates {
        let (strand, bytes) = (builder.strand(None), [Access { buffer: y, begin, end }]);
        let update = builder.task(host_task(strand), &[], &bytes, &bytes);
        match edge {
            Some(true) => builder.edge(reader, update),
            Some(false) => builder.edge(update, reader),
            None => {}
        }
    }
    builder.freeze()
}

#[test]
fn bytes_that_are_updated_in_place_need_an_order_with_their_readers_and_one_writer() {
    for edge in [true, false] {
        assert_eq!(in_place(Some(edge), &[(0, 12)]).validate(), Ok(()), "the rest may stay as it is");
        let twice = in_place(Some(edge), &[(0, 12), (8, 16)]).validate();
        assert!(matches!(twice, Err(Unsound::Unordered { .. })), "{twice:?}");
    }
    let unordered = in_place(None, &[(0, 12)]).validate();
    assert!(matches!(unordered, Err(Unsound::Unordered { .. })), "{unordered:?}");
    assert_eq!(in_place(None, &[(8, 16)]).validate(), Ok(()), "the reader does not read those bytes");
}

#[test]
fn only_a_task_that_updates_bytes_in_place_may_not_be_run_again() {
    let graph = in_place(Some(true), &[(0, 12)]);
    assert!(graph.may_run_again(TaskId(0)) && !graph.may_run_again(TaskId(1)));
    let planned = two_hundred_tasks().graph();
    assert!((0..planned.tasks().len()).all(|task| planned.may_run_again(TaskId(task as u32))));
}

#[test]
fn messages_to_other_ranks_are_tasks_of_a_network_alone() {
    let network = DeviceId(1);
    let graph = |kinds: &[(TaskKind, DeviceId)], read_by_receive: bool| {
        let mut builder = GraphBuilder::new();
        let (x, ghosts) = (builder.buffer(Role::Input, 8), builder.buffer(Role::Scratch, 8));
        let whole = |buffer: BufferId| Access { buffer, begin: 0, end: 8 };
        for &(kind, device) in kinds {
            let strand = builder.strand(None);
            let task = crate::graph::Task { kind, device, ..host_task(strand) };
            let (reads, writes) = match kind {
                TaskKind::Receive if read_by_receive => (vec![whole(x)], vec![whole(ghosts)]),
                TaskKind::Receive => (vec![], vec![whole(ghosts)]),
                _ => (vec![whole(x)], vec![]),
            };
            builder.task(task, &[], &reads, &writes);
        }
        builder.freeze()
    };
    let sound =
        [(TaskKind::Send, network), (TaskKind::Receive, network), (TaskKind::CpuCompute, DeviceId::HOST)];
    let sound_graph = graph(&sound, false);
    assert_eq!(sound_graph.validate(), Ok(()));
    assert!(!sound_graph.may_run_again(TaskId(0)) && !sound_graph.may_run_again(TaskId(1)));
    assert!(sound_graph.may_run_again(TaskId(2)));
    let on_host = graph(&[(TaskKind::Send, DeviceId::HOST)], false);
    let shared = graph(&[(TaskKind::Send, network), (TaskKind::Kernel, network)], false);
    for unsound in [on_host, shared, graph(&sound, true)] {
        let found = unsound.validate();
        assert!(matches!(found, Err(Unsound::NotOfNetwork { .. })), "{found:?}");
    }
}

#[test]
fn a_reduction_runs_on_the_host_and_reads_the_partial_results_of_every_rank() {
    let network = DeviceId(1);
    let graph = |device: DeviceId, read: usize, waits: bool| {
        let mut builder = GraphBuilder::new();
        let whole = |buffer: BufferId| Access { buffer, begin: 0, end: 8 };
        let partials: Vec<Access> = (0..3).map(|_| whole(builder.buffer(Role::Scratch, 8))).collect();
        let task = |builder: &mut GraphBuilder, kind, device| {
            let strand = builder.strand(None);
            crate::graph::Task { kind, device, ..host_task(strand) }
        };
        let mut received = Vec::new();
        for access in &partials {
            let receive = task(&mut builder, TaskKind::Receive, network);
            received.push(builder.task(receive, &[], &[], &[*access]));
        }
        let result = whole(builder.buffer(Role::Output, 8));
        let reduce = task(&mut builder, TaskKind::Reduce, device);
        let waits = if waits { &received[..] } else { &[] };
        builder.task(reduce, waits, &partials[..read], &[result]);
        builder.freeze()
    };
    assert_eq!(graph(DeviceId::HOST, 3, true).validate(), Ok(()));
    let early = graph(DeviceId::HOST, 3, false).validate();
    assert!(matches!(early, Err(Unsound::Unordered { .. })), "{early:?}");
    for unsound in [graph(DeviceId::HOST, 2, true), graph(network, 3, true), graph(DeviceId(2), 3, true)] {
        let found = unsound.validate();
        assert!(matches!(found, Err(Unsound::NotOfNetwork { .. })), "{found:?}");
    }
}
