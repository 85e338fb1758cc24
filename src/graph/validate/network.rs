//! Checks the tasks that exchange rows with other ranks: a network is a device that runs only them, a send only reads and a receive
//! only writes.

use super::{Graph, Unsound};
use crate::graph::{DeviceId, TaskKind};

pub(super) fn check(graph: &Graph) -> Result<(), Unsound> {
    let mut networks: Vec<DeviceId> =
        graph.tasks.iter().filter(|task| task.kind.is_network()).map(|task| task.device).collect();
    networks.sort_unstable();
    networks.dedup();
    if networks.is_empty() {
        return Ok(());
    }
    for id in graph.task_ids() {
        let task = &graph.tasks[id.index()];
        let wrong = |what| Err(Unsound::NotOfNetwork { task: graph.named(id), what });
        match task.kind {
            TaskKind::Send | TaskKind::Receive if task.device == DeviceId::HOST => {
                return wrong("runs on the host, which is no network");
            }
            TaskKind::Send if !graph.writes(id).is_empty() => {
                return wrong("sends bytes and also writes some");
            }
            TaskKind::Receive if !graph.reads(id).is_empty() => {
                return wrong("receives bytes and also reads some");
            }
            kind if !kind.is_network() && networks.binary_search(&task.device).is_ok() => {
                return wrong("runs on a network, which only sends and receives");
            }
            _ => {}
        }
    }
    Ok(())
}
