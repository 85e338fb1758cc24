//! Checks that a task that waits for one strand of a choice waits for all strands of it.

use super::{ChoiceId, Graph, Unsound};

pub(super) fn check(graph: &Graph) -> Result<(), Unsound> {
    let strands_of = graph.strands_per_choice();
    if let Some(empty) = strands_of.iter().position(|&strands| strands == 0) {
        return Err(Unsound::EmptyChoice { choice: ChoiceId(empty as u32) });
    }
    let mut waited_for = Vec::new();
    for id in graph.task_ids() {
        let own = graph.tasks[id.index()].strand;
        waited_for.clear();
        for &before in graph.predecessors(id) {
            let strand = graph.tasks[before.index()].strand;
            if let (Some(choice), true) = (graph.strands[strand.index()], strand != own) {
                waited_for.push((choice, strand));
            }
        }
        waited_for.sort_unstable();
        waited_for.dedup();
        for group in waited_for.chunk_by(|a, b| a.0 == b.0) {
            let choice = group[0].0;
            if graph.choice_of(id) == Some(choice) {
                return Err(Unsound::ChoiceCrossed { task: graph.named(id), choice });
            }
            if group.len() as u32 != strands_of[choice.index()] {
                return Err(Unsound::ChoiceLeak { task: graph.named(id), choice });
            }
        }
    }
    Ok(())
}
