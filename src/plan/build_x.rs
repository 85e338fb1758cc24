//! The tasks that copy X to the devices: in one piece, or in blocks of rows of which each kernel waits for those that it reads.

use super::build::{Builder, Item, XBlock, demand, task};
use super::data::{Chunk, Plan, XPlan, XRows};
use crate::graph::{Access, DeviceId, Role, Task, TaskId, TaskKind};

/// The turn of chunks that all wait for X in one piece. X is copied first: if chunks were, they would fill all slots and then wait for
/// it, and the link with them.
const AFTER_X: u32 = 1;

impl Plan {
    /// For each chunk its place in the order of its device: chunks that wait for fewer blocks of X first. All equal where no device
    /// receives X in blocks; the longest remaining path then decides among chunks.
    pub(super) fn turns(&self) -> Vec<u32> {
        let mut turns = vec![0; self.chunks.len()];
        if self.has_x_in_one_piece() {
            turns.fill(AFTER_X);
            return turns;
        }
        let mut order: Vec<usize> = (0..self.chunks.len()).collect();
        order.sort_by_key(|&index| (self.chunks[index].home, self.chunks[index].last_row_of_x(), index));
        let mut before: Option<(u32, u32)> = None;
        for index in order {
            let home = self.chunks[index].home;
            let turn = before.filter(|(device, _)| *device == home).map_or(0, |(_, turn)| turn + 1);
            turns[index] = turn;
            before = Some((home, turn));
        }
        turns
    }

    fn has_x_in_one_piece(&self) -> bool {
        self.devices.iter().all(|device| device.x_blocks.is_empty())
    }

    /// The numbers of rows of the blocks in which the part `x` of X is copied to device number `index`.
    #[doc(hidden)]
    pub fn x_block_rows(&self, index: usize, x: XPlan) -> Vec<u64> {
        self.blocks(index, x).iter().map(|block| block.end.saturating_sub(block.first)).collect()
    }

    /// The blocks of rows in which the part `x` of X is copied to device number `index`.
    fn blocks(&self, index: usize, x: XPlan) -> Vec<XRows> {
        let held = match x {
            XPlan::Nothing => XRows { first: 0, end: 0 },
            XPlan::Whole => XRows { first: 0, end: self.matrix.cols },
            XPlan::Columns { first, end } => XRows { first, end },
            XPlan::Gather { columns } => XRows { first: 0, end: columns },
        };
        // A device that takes over chunks receives more of X than planned, in one piece.
        let planned = self.devices.get(index).filter(|device| device.x == x && !device.x_blocks.is_empty());
        let Some(device) = planned else { return vec![held] };
        let starts = std::iter::once(held.first).chain(device.x_blocks.iter().copied());
        starts.zip(&device.x_blocks).map(|(first, &end)| XRows { first, end }).collect()
    }
}

impl Builder<'_> {
    /// Copies X to every GPU that computes a chunk, unless it holds its part already.
    pub fn copy_x(&mut self, takers: &[Vec<u32>], is_held: bool) {
        let plan = self.plan;
        for (index, device) in plan.devices.iter().enumerate() {
            let number = index as u32;
            let used = takers.iter().any(|devices| devices.contains(&number));
            if device.profile.link.is_none() || !used {
                continue;
            }
            let takes_over = plan.chunks.iter().zip(takers).any(|(chunk, devices)| {
                devices.contains(&number) && chunk.home != number && !chunk.also.contains(&number)
            });
            if takes_over {
                self.x[index] = XPlan::Whole;
            }
            let blocks = plan.blocks(index, self.x[index]);
            let rows = blocks.iter().map(|block| block.end.saturating_sub(block.first)).sum();
            let bytes = plan.x_bytes(rows);
            if bytes == 0 {
                continue;
            }
            let is_held = is_held && !takes_over;
            let on_device = self.graph.buffer(if is_held { Role::Input } else { Role::Scratch }, bytes);
            let whole = Access { buffer: on_device, begin: 0, end: bytes };
            let first = blocks.first().map_or(0, |block| block.first);
            let is_one = blocks.len() == 1;
            for (block, rows) in blocks.into_iter().enumerate() {
                if is_held {
                    self.x_blocks[index].push(XBlock { rows, whole, upload: None });
                    continue;
                }
                let arrived = if is_one { whole } else { self.x_access(whole, first, rows) };
                let item = self.item(Item::X { device: number, block: block as u32, rows });
                let turn = self.block_turn(number, rows);
                let upload = self.copy_block(number, item, turn, rows, arrived);
                self.x_blocks[index].push(XBlock { rows, whole, upload: Some(upload) });
            }
        }
    }

    /// The bytes of some rows of X on a device whose first row is `first`.
    fn x_access(&self, whole: Access, first: u64, rows: XRows) -> Access {
        let at = |row: u64| row.saturating_sub(first).saturating_mul(self.plan.pitch_bytes()).min(whole.end);
        Access { begin: at(rows.first), end: at(rows.end), ..whole }
    }

    /// The turn of the first chunk of a device that reads a block; the last one where none does.
    fn block_turn(&self, device: u32, rows: XRows) -> u32 {
        if self.plan.has_x_in_one_piece() {
            return 0;
        }
        let own = self.plan.chunks.iter().zip(&self.turns).filter(|(chunk, _)| chunk.home == device);
        let reading = own.filter(|(chunk, _)| chunk.x_rows.is_none_or(|read| read.overlaps(rows)));
        reading.map(|(_, &turn)| turn).min().unwrap_or(u32::MAX)
    }

    /// Copies rows of X to `arrived`, through page-locked memory where X is not registered. Returns the upload.
    fn copy_block(&mut self, device: u32, item: u32, turn: u32, rows: XRows, arrived: Access) -> TaskId {
        let (plan, planned) = (self.plan, &self.plan.devices[device as usize]);
        let bytes = arrived.end - arrived.begin;
        let strand = self.graph.strand(None);
        let row_bytes = plan.row_bytes();
        let (begin, end) = match self.x[device as usize] {
            XPlan::Gather { .. } => (0, plan.matrix.cols.saturating_mul(row_bytes)),
            _ => (rows.first.saturating_mul(row_bytes), rows.end.saturating_mul(row_bytes)),
        };
        let read = Access { buffer: self.host_x, begin, end };
        let (before, from) = if planned.registered.x {
            (Vec::new(), read)
        } else {
            let staged = Access { buffer: self.graph.buffer(Role::Scratch, bytes), begin: 0, end: bytes };
            let copy = demand(plan.host.copy_s(bytes), 0, bytes.saturating_mul(2));
            let stage = task(TaskKind::Stage, DeviceId::HOST, strand, item, (None, None), copy);
            (vec![self.graph.task(Task { turn, ..stage }, &[], &[read], &[staged])], staged)
        };
        let cross = demand(planned.profile.upload_s(bytes), bytes, bytes);
        let upload = task(TaskKind::Upload, DeviceId(device), strand, item, (None, None), cross);
        self.graph.task(Task { turn, ..upload }, &before, &[from], &[arrived])
    }

    /// The uploads that the kernel of a chunk waits for, and the bytes of X that it reads.
    pub fn x_of_chunk(&self, chunk: &Chunk, device: u32) -> (Vec<TaskId>, Option<Access>) {
        let blocks = &self.x_blocks[device as usize];
        let Some(first) = blocks.first() else { return (Vec::new(), None) };
        let rows = chunk.x_rows.filter(|_| self.plan.held_rows(self.x[device as usize]).is_some());
        let Some(rows) = rows else {
            return (blocks.iter().filter_map(|block| block.upload).collect(), Some(first.whole));
        };
        let access = self.x_access(first.whole, first.rows.first, rows);
        let uploads =
            blocks.iter().filter(|block| block.rows.overlaps(rows)).filter_map(|block| block.upload);
        (uploads.collect(), (access.begin < access.end).then_some(access))
    }
}
