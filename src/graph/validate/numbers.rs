//! Checks that all ids exist and all accesses are within their buffers.

use super::{Graph, Unsound};

pub(super) fn check(graph: &Graph) -> Result<(), Unsound> {
    let count = graph.tasks.len();
    for id in graph.task_ids() {
        let task = &graph.tasks[id.index()];
        let unknown = |what| Err(Unsound::Unknown { task: graph.named(id), what });
        if task.strand.index() >= graph.strands.len() {
            return unknown("a strand");
        }
        if [task.takes, task.gives].iter().flatten().any(|pool| pool.index() >= graph.pools.len()) {
            return unknown("a slot pool");
        }
        let mut neighbours = graph.predecessors(id).iter().chain(graph.successors(id));
        if neighbours.any(|other| other.index() >= count) {
            return unknown("a task");
        }
        for &access in graph.reads(id).iter().chain(graph.writes(id)) {
            let Some(buffer) = graph.buffers.get(access.buffer.index()) else { return unknown("a buffer") };
            if access.begin > access.end || access.end > buffer.bytes {
                return Err(Unsound::Outside { task: graph.named(id), access, bytes: buffer.bytes });
            }
        }
    }
    let unknown_choice =
        graph.strands.iter().position(|of| of.is_some_and(|of| of.index() >= graph.choices()));
    unknown_choice.map_or(Ok(()), |strand| Err(Unsound::UnknownChoice { strand: strand as u32 }))
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{Draft, host_task};
    use crate::graph::{BufferId, ChoiceId, PoolId, StrandId, TaskId};

    /// One task, and a change of it that names what does not exist.
    fn said(damage: impl Fn(&mut Draft)) -> String {
        let mut draft = Draft::default();
        let strand = draft.strand(None);
        let entry = crate::graph::fixture::Entry {
            task: host_task(strand),
            predecessors: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
        };
        draft.entries.push(entry);
        assert_eq!(draft.graph().validate(), Ok(()));
        damage(&mut draft);
        draft.graph().validate().unwrap_err().into_error().to_string()
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let access = crate::graph::Access { buffer: BufferId(4), begin: 0, end: 1 };
        assert!(said(|draft| draft.entries[0].task.strand = StrandId(1)).contains("a strand"));
        assert!(said(|draft| draft.entries[0].task.takes = Some(PoolId(0))).contains("a slot pool"));
        assert!(said(|draft| draft.entries[0].task.gives = Some(PoolId(0))).contains("a slot pool"));
        assert!(said(|draft| draft.entries[0].predecessors.push(TaskId(1))).contains("a task"));
        assert!(said(|draft| draft.entries[0].reads.push(access)).contains("a buffer"));
        assert!(said(|draft| draft.strands[0] = Some(ChoiceId(0))).contains("choice"));
    }
}
