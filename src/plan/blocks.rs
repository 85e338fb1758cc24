//! X in blocks of rows: a chunk waits only for the blocks that it needs, so that Y is copied back while X arrives.
//!
//! Chunks run in the order of the last row of X that they need, and the blocks end at these rows. Where every chunk needs rows
//! all over X, as in power-law matrices, a single block is left and X is copied in one piece. If X is staged, this piece is cut into
//! equal blocks, so that one is staged while the block before it crosses the link.

use super::data::{Chunk, DevicePlan, Mode, Plan, Registered, XRows};
use super::device_part::CHUNKS_PER_DEVICE;
use super::draft::{Assembled, Division, Draft};
use crate::cost::Profile;
use crate::error::{Bytes, Error, Result, Seconds};
use crate::work::{ChunkRows, MAX_PART, Work};

/// A plan with blocks must take at most this share of the time in one piece.
const BLOCKS_MARGIN: f64 = 0.98;
/// A block takes at least this many times the latency of a copy.
const LATENCIES_PER_BLOCK: f64 = 4.0;
/// Most chunks of a device for the sake of blocks, and the least bytes of X, A and Y that cross for each.
const MAX_CHUNKS_FOR_BLOCKS: usize = 64;
const MIN_CROSSING_BYTES: u64 = 4 << 20;
/// Least bytes of an equal block of a staged X, and the most of them.
const MIN_STAGED_BLOCK_BYTES: u64 = 16 << 20;
const MAX_STAGED_BLOCKS: u64 = 16;

impl Draft<'_> {
    /// The plan with X in blocks where that is predicted faster, and the reason; no reason where X of every device is one block.
    pub fn in_blocks(&self, assembled: Assembled, division: &Division<'_>) -> Result<(Plan, Option<String>)> {
        let kernel_s = assembled.kernel_s.clone();
        let (plan, reason) = self.in_needed_blocks(assembled, division)?;
        if plan.most_blocks() > 0 {
            return Ok((plan, reason));
        }
        let mut blocks = plan.clone();
        blocks.cut_staged_x();
        if blocks.most_blocks() == 0 {
            return Ok((plan, reason));
        }
        blocks.predict(&kernel_s);
        if blocks.predicted_s >= BLOCKS_MARGIN * plan.predicted_s {
            return Ok((plan, reason));
        }
        let reason = format!(
            "X: in {} of about {}: one is staged while another is copied to the device; each product takes {} instead of {} in one piece",
            blocks.blocks_in_words("equal blocks"),
            Bytes(blocks.mean_block_bytes()),
            Seconds(blocks.predicted_s),
            Seconds(plan.predicted_s),
        );
        Ok((blocks, Some(reason)))
    }

    /// The plan with X in blocks that chunks need at different times.
    fn in_needed_blocks(
        &self,
        assembled: Assembled,
        division: &Division<'_>,
    ) -> Result<(Plan, Option<String>)> {
        let Assembled { plan, kernel_s } = assembled;
        let may = |device: &DevicePlan| {
            let is_large = least_block_bytes(&device.profile) < device.slots.x_bytes as f64 / 2.0;
            device.chunks > 1 && plan.held_rows(device.x).is_some() && is_large
        };
        if !plan.devices.iter().any(may) {
            return Ok((plan, None));
        }
        // Samples decide whether an exact count is worth its time.
        let mut sampled = plan.clone();
        for chunk in &mut sampled.chunks {
            // Samples that reach over nearly all of X hardly ever see its last row, which some entry needs.
            let is_narrow = |rows: &XRows| {
                rows.end.saturating_sub(rows.first) as f64 <= MAX_PART * self.request.work.x_rows() as f64
            };
            chunk.x_rows = chunk.features.sampled_x().filter(is_narrow);
        }
        sampled.cut_x();
        sampled.predict(&kernel_s);
        let is_faster = |blocks: &Plan| blocks.predicted_s < BLOCKS_MARGIN * plan.predicted_s;
        if sampled.most_blocks() == 0 || !is_faster(&sampled) {
            let reason = sampled.one_piece_reason(plan.predicted_s);
            return Ok((plan, Some(reason)));
        }
        let registered: Vec<Registered> = plan.devices.iter().map(|device| device.registered).collect();
        let Assembled { plan: mut blocks, kernel_s } = match self.assembled(division, &registered, true) {
            Err(Error::DoesNotFit { .. }) => {
                let reason = "X: in one piece: device memory is too small for more chunks";
                return Ok((plan, Some(reason.into())));
            }
            blocks => blocks?,
        };
        blocks.count_x_rows(&self.request.work);
        blocks.cut_x();
        blocks.predict(&kernel_s);
        if blocks.most_blocks() == 0 || !is_faster(&blocks) {
            let reason = blocks.one_piece_reason(plan.predicted_s);
            return Ok((plan, Some(reason)));
        }
        let (least, most) = blocks.blocks_per_chunk();
        let range = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let reason = format!(
            "X: in {} of about {}: a chunk waits for {range} of them; each product takes {} instead of {} in one piece",
            blocks.blocks_in_words("blocks of rows"),
            Bytes(blocks.mean_block_bytes()),
            Seconds(blocks.predicted_s),
            Seconds(plan.predicted_s),
        );
        Ok((blocks, Some(reason)))
    }

    /// The number of chunks with which the copies of a share of X, A and Y overlap best: before the first download and after the
    /// last upload the copies of one chunk do not overlap, and every chunk costs the latency of a copy.
    pub fn chunks_for_blocks(&self, profile: &Profile, share: f64) -> usize {
        let work = &self.request.work;
        let a_bytes = if self.mode == Mode::Resident { 0 } else { self.a_bytes() };
        let part = |bytes: u64| (bytes as f64 * share) as u64;
        let (up, down) = (part(work.x_bytes().saturating_add(a_bytes)), part(work.y_bytes()));
        let latency_s = profile.upload_s(0);
        let copy_s = (profile.upload_s(up) - latency_s).max(profile.download_s(down) - latency_s);
        let best = (2.0 * copy_s / latency_s.max(1e-9)).sqrt().min(MAX_CHUNKS_FOR_BLOCKS as f64) as usize;
        let most = (up.max(down) / MIN_CROSSING_BYTES) as usize;
        best.min(most).max(CHUNKS_PER_DEVICE)
    }
}

impl Plan {
    /// Counts for every chunk the rows of X that it needs.
    fn count_x_rows(&mut self, work: &Work<'_>) {
        let exact = exact_x_rows(work, &self.chunks);
        for (chunk, rows) in self.chunks.iter_mut().zip(exact) {
            chunk.x_rows = Some(rows);
        }
    }

    /// Cuts X of every GPU into blocks at the rows that its chunks need. Leaves one piece where that gives a single block.
    fn cut_x(&mut self) {
        let pitch_bytes = self.pitch_bytes();
        for index in 0..self.devices.len() {
            let device = &self.devices[index];
            let Some(held) = self.held_rows(device.x).filter(|_| device.profile.link.is_some()) else {
                continue;
            };
            let least_bytes = least_block_bytes(&device.profile);
            let least_rows = ((least_bytes / pitch_bytes.max(1) as f64) as u64).max(1);
            let own = self.chunks.iter().filter(|chunk| chunk.home as usize == index);
            let mut ends: Vec<u64> = own.map(Chunk::last_row_of_x).filter(|&end| end < held.end).collect();
            ends.sort_unstable();
            let mut blocks = Vec::new();
            let mut begin = held.first;
            for end in ends {
                if end >= begin.saturating_add(least_rows) && held.end - end >= least_rows {
                    blocks.push(end);
                    begin = end;
                }
            }
            if !blocks.is_empty() {
                blocks.push(held.end);
            }
            self.devices[index].x_blocks = blocks;
        }
        if self.most_blocks() == 0 {
            self.chunks.iter_mut().for_each(|chunk| chunk.x_rows = None);
        }
    }

    /// Cuts X into equal blocks on every GPU whose X is staged. Every chunk waits for all of them.
    fn cut_staged_x(&mut self) {
        let block_rows = (MIN_STAGED_BLOCK_BYTES / self.pitch_bytes().max(1)).max(1);
        for index in 0..self.devices.len() {
            let device = &self.devices[index];
            let is_staged = device.profile.link.is_some() && !device.registered.x && device.chunks > 0;
            let Some(held) = self.held_rows(device.x).filter(|_| is_staged) else { continue };
            let rows = held.end.saturating_sub(held.first);
            let blocks = (rows / block_rows).min(MAX_STAGED_BLOCKS);
            if blocks > 1 {
                let end = |block: u64| {
                    held.first + (u128::from(rows) * u128::from(block) / u128::from(blocks)) as u64
                };
                self.devices[index].x_blocks = (1..=blocks).map(end).collect();
            }
        }
    }

    /// The largest number of blocks of a device; 0 where every device receives X in one piece.
    fn most_blocks(&self) -> usize {
        self.devices.iter().map(|device| device.x_blocks.len()).max().unwrap_or(0)
    }

    /// The number of blocks of a device with its noun; the least and the largest number where devices differ.
    pub(super) fn blocks_in_words(&self, noun: &str) -> String {
        let counts = || self.devices.iter().map(|device| device.x_blocks.len()).filter(|&blocks| blocks > 0);
        match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
            (least, most) if least == most => format!("{most} {noun}"),
            (least, most) => format!("{least} to {most} {noun} per device"),
        }
    }

    /// Bytes of all blocks divided by their number.
    fn mean_block_bytes(&self) -> u64 {
        let in_blocks = || self.devices.iter().filter(|device| !device.x_blocks.is_empty());
        let blocks: usize = in_blocks().map(|device| device.x_blocks.len()).sum();
        in_blocks().map(|device| device.slots.x_bytes).sum::<u64>() / blocks.max(1) as u64
    }

    /// The least and the largest number of blocks that a chunk with entries needs.
    fn blocks_per_chunk(&self) -> (usize, usize) {
        let counts = self.chunks.iter().filter(|chunk| chunk.size.entries > 0).filter_map(|chunk| {
            let device =
                self.devices.get(chunk.home as usize).filter(|device| !device.x_blocks.is_empty())?;
            let rows = chunk.x_rows?;
            let starts = std::iter::once(0).chain(device.x_blocks.iter().copied());
            let blocks = starts.zip(&device.x_blocks).map(|(first, &end)| XRows { first, end });
            Some(blocks.filter(|block| block.overlaps(rows)).count())
        });
        counts.fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)))
    }

    /// Why X is copied in one piece, in `one_piece_s` per product, and not as in this plan.
    fn one_piece_reason(&self, one_piece_s: f64) -> String {
        match self.most_blocks() {
            0 => "X: in one piece: every chunk needs rows up to the end of X".into(),
            _ => format!(
                "X: in one piece: {} would not make the product faster ({} against {})",
                self.blocks_in_words("blocks of rows"),
                Seconds(self.predicted_s),
                Seconds(one_piece_s)
            ),
        }
    }
}

/// The least bytes of a block: below them, the latency of copies costs more than overlap gains. Infinite for the host.
pub(super) fn least_block_bytes(profile: &Profile) -> f64 {
    profile.link.as_ref().map_or(f64::INFINITY, |link| {
        LATENCIES_PER_BLOCK * link.latency_us * 1e-6 * link.to_device_gb_per_s * 1e9
    })
}

/// For each chunk the rows of X that it needs.
fn exact_x_rows(work: &Work<'_>, chunks: &[Chunk]) -> Vec<XRows> {
    let pieces: Vec<ChunkRows> = chunks.iter().map(|chunk| chunk.rows).collect();
    let spans = work.x_spans(&pieces).into_iter();
    spans.map(|span| XRows { first: span.start as u64, end: span.end as u64 }).collect()
}
