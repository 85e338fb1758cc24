//! Checks that every slot is given back and that no order of the tasks deadlocks on slots.
//!
//! The rule: between taking a slot of pool `p` and giving it back, a strand may only depend on takes from pools with
//! higher numbers.
//!
//! Proof that this prevents deadlocks. Suppose nothing is in flight and some tasks are unfinished. Each unfinished task
//! without unfinished predecessors waits for a slot. Let `p` be the highest pool that one of them waits for. All slots of
//! `p` are held. The task that gives one of them back depends on an unfinished task without unfinished predecessors, which
//! waits for a slot itself. That task is not before the task that took the slot of `p`, so by the rule it takes from a
//! pool higher than `p`. This contradicts the choice of `p`.
//!
//! A pool with at least one slot per taking task never blocks and is left out.

use super::reach::{Reach, Visits};
use super::{Graph, PoolId, TaskId, Unsound};

/// A slot of `pool`, taken by one task and given back by the same or a later task of the strand.
struct Hold {
    pool: PoolId,
    taker: TaskId,
    giver: TaskId,
}

pub(super) fn check(graph: &Graph, reach: &mut Reach<'_>) -> Result<(), Unsound> {
    let holds = holds(graph, reach)?;
    let mut takers = vec![0u64; graph.pools.len()];
    for (number, task) in graph.tasks.iter().enumerate() {
        let Some(pool) = task.takes else { continue };
        takers[pool.index()] += 1;
        if graph.pools[pool.index()].slots == 0 {
            return Err(Unsound::EmptyPool { task: graph.named(TaskId(number as u32)), pool });
        }
    }
    let scarce = |pool: &PoolId| u64::from(graph.pools[pool.index()].slots) < takers[pool.index()];
    let takes = |task: TaskId| graph.tasks[task.index()].takes.filter(scarce);

    // For each task the lowest pool that it or a task before it takes from.
    let mut lowest = vec![PoolId(u32::MAX); graph.tasks.len()];
    for &task in &reach.order {
        let before = graph.predecessors(task).iter().map(|before| lowest[before.index()]);
        lowest[task.index()] = before.chain(takes(task)).min().unwrap_or(PoolId(u32::MAX));
    }

    let mut visits = Visits::new(graph.tasks.len());
    let mut stack = Vec::new();
    for Hold { pool, taker, giver } in holds.into_iter().filter(|hold| scarce(&hold.pool)) {
        if taker == giver {
            continue;
        }
        visits.clear();
        stack.clear();
        stack.push(giver);
        while let Some(task) = stack.pop() {
            if let Some(wanted) = takes(task).filter(|&wanted| wanted <= pool) {
                let (giver, needs) = (graph.named(giver), graph.named(task));
                return Err(Unsound::MayDeadlock { giver, pool, needs, wanted });
            }
            for &before in graph.predecessors(task) {
                let matters = before != taker && lowest[before.index()] <= pool;
                if matters && visits.insert(before) && !reach.reaches(before, taker) {
                    stack.push(before);
                }
            }
        }
    }
    Ok(())
}

/// Pairs every task that takes a slot with the task that gives it back.
fn holds(graph: &Graph, reach: &mut Reach<'_>) -> Result<Vec<Hold>, Unsound> {
    // A task takes a slot when it starts and gives one back when it completes.
    let mut events = Vec::new();
    for id in graph.task_ids() {
        let task = &graph.tasks[id.index()];
        let position = reach.positions[id.index()];
        events.extend(task.takes.map(|pool| (task.strand, pool, position, false, id)));
        events.extend(task.gives.map(|pool| (task.strand, pool, position, true, id)));
    }
    events.sort_unstable();
    let mut holds: Vec<Hold> = Vec::with_capacity(events.len() / 2);
    for group in events.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let mut taken: Option<TaskId> = None;
        let mut given: Option<TaskId> = None;
        for &(_, pool, _, gives, id) in group {
            let ordered =
                |reach: &mut Reach<'_>, earlier: TaskId| earlier == id || reach.reaches(earlier, id);
            if gives {
                let taker = taken.take().filter(|&taker| ordered(reach, taker));
                let Some(taker) = taker else {
                    return Err(Unsound::NotTaken { task: graph.named(id), pool });
                };
                holds.push(Hold { pool, taker, giver: id });
                given = Some(id);
            } else {
                if let Some(before) = taken {
                    return Err(Unsound::NotGiven { task: graph.named(before), pool });
                }
                // The next take must be ordered after the give.
                if given.is_some_and(|giver| !ordered(reach, giver)) {
                    return Err(Unsound::NotGiven { task: graph.named(id), pool });
                }
                taken = Some(id);
            }
        }
        if let (Some(task), Some(&(_, pool, ..))) = (taken, group.first()) {
            return Err(Unsound::NotGiven { task: graph.named(task), pool });
        }
    }
    Ok(holds)
}
