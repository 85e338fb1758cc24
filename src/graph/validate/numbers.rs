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
