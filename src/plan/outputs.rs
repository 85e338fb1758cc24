//! The rows of Y that a graph writes: each run of consecutive rows is an output buffer.

use super::data::Plan;
use super::remaining::Remaining;
use crate::graph::{Access, BufferId, GraphBuilder, Role};
use crate::work::ChunkRows;

/// Runs of consecutive rows of Y and their buffers.
pub(super) struct Outputs {
    runs: Vec<(u64, u64)>,
    buffers: Vec<BufferId>,
}

impl Outputs {
    /// Makes buffers for the rows that remain to be written.
    pub fn new(plan: &Plan, remaining: &Remaining, graph: &mut GraphBuilder) -> Self {
        let to_do = |list: &[bool], index: usize| list.get(index).copied().unwrap_or(false);
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for (index, chunk) in plan.chunks.iter().enumerate() {
            if let ChunkRows::Rows { begin, end } = chunk.rows
                && to_do(&remaining.chunks, index)
            {
                rows.push((begin as u64, end as u64));
            }
        }
        for (index, split) in plan.split_rows.iter().enumerate() {
            if to_do(&remaining.split_rows, index) {
                rows.push((split.row, split.row + 1));
            }
        }
        rows.sort_unstable();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in rows {
            match runs.last_mut() {
                Some(run) if run.1 == begin => run.1 = end,
                _ => runs.push((begin, end)),
            }
        }
        let role = if plan.output.updated { Role::InOut } else { Role::Output };
        let bytes = |run: &(u64, u64)| (run.1 - run.0).saturating_mul(plan.row_bytes());
        let buffers = runs.iter().map(|run| graph.buffer(role, bytes(run))).collect();
        Self { runs, buffers }
    }

    /// The buffer and byte range of `count` rows from `row` on.
    pub fn access(&self, row: u64, count: u64, row_bytes: u64) -> Access {
        let run = self.runs.partition_point(|run| run.0 <= row).saturating_sub(1);
        let first = self.runs.get(run).map_or(0, |run| run.0);
        let begin = row.saturating_sub(first).saturating_mul(row_bytes);
        let buffer = self.buffers.get(run).copied().unwrap_or(BufferId(0));
        Access { buffer, begin, end: begin.saturating_add(count.saturating_mul(row_bytes)) }
    }
}
