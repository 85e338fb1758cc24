//! Checks the tasks that exchange bytes with other ranks: a network is a device that runs only them, a send only reads and a receive
//! only writes. A reduction runs on the host, and reads what all receives of its graph have written.

use super::{Graph, Unsound};
use crate::graph::{BufferId, DeviceId, TaskKind};

pub(super) fn check(graph: &Graph) -> Result<(), Unsound> {
    let mut networks: Vec<DeviceId> =
        graph.tasks.iter().filter(|task| task.kind.is_network()).map(|task| task.device).collect();
    networks.sort_unstable();
    networks.dedup();
    let receives = graph.task_ids().filter(|id| graph.tasks[id.index()].kind == TaskKind::Receive);
    let received: Vec<BufferId> =
        receives.flat_map(|id| graph.writes(id)).map(|access| access.buffer).collect();
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
            TaskKind::Reduce if task.device != DeviceId::HOST => {
                return wrong("adds partial results on a device, not on the host");
            }
            TaskKind::Reduce => {
                let is_read =
                    |buffer: &BufferId| graph.reads(id).iter().any(|access| access.buffer == *buffer);
                if !received.iter().all(is_read) {
                    return wrong("leaves out the partial results of a rank");
                }
            }
            kind if !kind.is_network() && networks.binary_search(&task.device).is_ok() => {
                return wrong("runs on a network, which only sends and receives");
            }
            _ => {}
        }
    }
    Ok(())
}
