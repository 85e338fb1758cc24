//! Validates a graph from its edges alone, without assumptions about lane order or times.
//!
//! A valid graph can be run in any topological order. In each of them, tasks read only written bytes, write each byte of Y
//! once and do not deadlock on slots.
//!
//! After a fault, a task may be run again if it writes no in-out buffer: it reads inputs and the results of earlier tasks, and
//! overwrites its result. A task that updates an in-out buffer may be run at most once, since the first attempt may have changed
//! the bytes that the second one would read. Neither may a task that sends or receives, since the other rank takes part in it once.

mod bytes;
mod choices;
mod network;
mod numbers;
mod reach;
mod slots;

use std::fmt;

use super::{Access, ChoiceId, DeviceId, Graph, PoolId, Role, TaskId, TaskKind};
use crate::error::Error;

/// A task, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Its number.
    pub id: TaskId,
    /// Its kind.
    pub kind: TaskKind,
    /// Its device.
    pub device: DeviceId,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on device {}", self.kind.name(), self.id.0, self.device.0)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {}..{} of buffer {}", self.begin, self.end, self.buffer.0)
    }
}

/// Why a graph is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// A task refers to something that does not exist.
    #[error("{task} refers to {what} that the graph does not have")]
    Unknown {
        /// The task.
        task: Named,
        /// What it refers to, such as `a buffer`.
        what: &'static str,
    },
    /// A strand refers to a choice that does not exist.
    #[error("strand {strand} refers to a choice that the graph does not have")]
    UnknownChoice {
        /// The strand's number.
        strand: u32,
    },
    /// A choice without strands can never be taken.
    #[error("choice {} has no strands", choice.0)]
    EmptyChoice {
        /// The choice.
        choice: ChoiceId,
    },
    /// The graph has a cycle.
    #[error("{task} is on a cycle or waits for one")]
    Cycle {
        /// A task on the cycle, or behind it.
        task: Named,
    },
    /// An access exceeds its buffer.
    #[error("{task} accesses {access}, which has {bytes} bytes")]
    Outside {
        /// The task.
        task: Named,
        /// The access.
        access: Access,
        /// The buffer's size.
        bytes: u64,
    },
    /// An input is written.
    #[error("{task} writes {access}, an input")]
    InputWritten {
        /// The task.
        task: Named,
        /// What it writes.
        access: Access,
    },
    /// A task reads bytes that no earlier task writes.
    #[error("{task} reads {access} but waits for no task that writes them")]
    Unwritten {
        /// The task.
        task: Named,
        /// What it reads.
        access: Access,
    },
    /// Two tasks access the same bytes, at least one writes, and they are not ordered.
    #[error(
        "{first} and {second} both access {access}, at least one writes, and neither waits for the other"
    )]
    Unordered {
        /// One of them.
        first: Named,
        /// The other.
        second: Named,
        /// Bytes that both access.
        access: Access,
    },
    /// Bytes of an output that no task writes.
    #[error("no task writes {access}, an output")]
    OutputMissing {
        /// The bytes.
        access: Access,
    },
    /// Bytes of an output that two tasks write.
    #[error("{first} and {second} both write {access}, an output")]
    OutputTwice {
        /// One of them.
        first: Named,
        /// The other.
        second: Named,
        /// The bytes.
        access: Access,
    },
    /// Bytes of an output that only some strands of a choice write.
    #[error("{task} writes {access}, an output, but another strand of choice {} does not", choice.0)]
    ChoiceUneven {
        /// A task that writes them.
        task: Named,
        /// The choice.
        choice: ChoiceId,
        /// The bytes.
        access: Access,
    },
    /// A task waits for some but not all strands of a choice.
    #[error("{task} waits for some but not all strands of choice {}", choice.0)]
    ChoiceLeak {
        /// The task that waits.
        task: Named,
        /// The choice.
        choice: ChoiceId,
    },
    /// A task waits for another strand of its own choice.
    #[error("{task} waits for another strand of its own choice {}", choice.0)]
    ChoiceCrossed {
        /// The task that waits.
        task: Named,
        /// The choice.
        choice: ChoiceId,
    },
    /// A task sends or receives where it cannot, or another task runs on a network.
    #[error("{task} {what}")]
    NotOfNetwork {
        /// The task.
        task: Named,
        /// The violated rule.
        what: &'static str,
    },
    /// A slot is taken but not given back.
    #[error("{task} takes a slot of pool {}, and no later task of its strand gives it back before the next take", pool.0)]
    NotGiven {
        /// The task that takes it.
        task: Named,
        /// The pool.
        pool: PoolId,
    },
    /// A slot is given back that the strand does not hold.
    #[error("{task} gives back a slot of pool {} that no earlier task of its strand took", pool.0)]
    NotTaken {
        /// The task that gives it.
        task: Named,
        /// The pool.
        pool: PoolId,
    },
    /// A slot is taken from a pool that has none.
    #[error("{task} takes a slot of pool {}, which has none", pool.0)]
    EmptyPool {
        /// The task.
        task: Named,
        /// The pool.
        pool: PoolId,
    },
    /// Some order of the tasks deadlocks on slots.
    #[error(
        "{giver} gives a slot of pool {} back and may have to wait for {needs}, which takes a slot of pool {}: slots \
         must be taken in the order of the pools' numbers", pool.0, wanted.0
    )]
    MayDeadlock {
        /// The task that would give the held slot back.
        giver: Named,
        /// The pool of the held slot.
        pool: PoolId,
        /// A task that must run before it and after the slot was taken.
        needs: Named,
        /// The pool that this one takes from.
        wanted: PoolId,
    },
}

impl Unsound {
    /// The internal error for a program that built an invalid graph.
    pub fn into_error(self) -> Error {
        Error::Internal(format!("the task graph is invalid: {self}"))
    }
}

impl Graph {
    /// Validates the graph, or returns the first violation.
    pub fn validate(&self) -> Result<(), Unsound> {
        numbers::check(self)?;
        let mut reach = reach::Reach::new(self)?;
        choices::check(self)?;
        network::check(self)?;
        slots::check(self, &mut reach)?;
        bytes::check(self, &mut reach)
    }

    /// Whether a task may be run again after a fault: it updates no bytes in place, and no other rank takes part in it.
    pub fn may_run_again(&self, task: TaskId) -> bool {
        let in_out = |access: &Access| {
            self.buffers.get(access.buffer.index()).is_some_and(|buffer| buffer.role == Role::InOut)
        };
        let is_network = self.tasks.get(task.index()).is_some_and(|task| task.kind.is_network());
        !is_network && !self.writes(task).iter().any(|access| access.begin < access.end && in_out(access))
    }

    fn named(&self, id: TaskId) -> Named {
        let task = &self.tasks[id.index()];
        Named { id, kind: task.kind, device: task.device }
    }

    fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.tasks.len() as u32).map(TaskId)
    }

    fn choice_of(&self, task: TaskId) -> Option<ChoiceId> {
        self.strands[self.tasks[task.index()].strand.index()]
    }

    /// Number of strands of each choice.
    fn strands_per_choice(&self) -> Vec<u32> {
        let mut counts = vec![0; self.choices()];
        for choice in self.strands.iter().flatten() {
            counts[choice.index()] += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests;
