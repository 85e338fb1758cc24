//! Chunks, X and memory of every device of a candidate plan.

use std::cell::OnceCell;
use std::rc::Rc;

use rayon::prelude::*;

use super::balance::apportion;
use super::data::{Mode, Registered, Slots, XPlan};
use super::device_part::{CHUNKS_PER_DEVICE, DeviceChunks, DevicePart, KnownChunks};
use super::draft::{Division, Draft};
use super::interior::interior_apart;
use super::memory::{Need, RING_SLOTS, budget, divide};
use super::request::DeviceSpec;
use super::request::ResidentLayout;
use crate::error::{Advice, Bytes, Error, Result};
use crate::kernel::cuda::Layout;
use crate::work::{ChunkRows, Combine, Position, PositionRange, XChoice, XOrder};

/// Largest chunk: larger ones are not copied faster.
const MAX_CHUNK_BYTES: u64 = 64 << 20;
/// Largest chunk of partial sums that stays on one of several GPUs, each of which has memory for a chunk of another. Only the sums are
/// copied with each run, so that smaller chunks gain nothing.
const MAX_RESIDENT_SUM_BYTES: u64 = 1 << 30;
/// Smallest chunk with its slice: below this, the latency of copies costs more than overlap gains.
const MIN_CHUNK_BYTES: u64 = 1 << 20;
/// Smallest slice of Y of a first chunk that is divided: below this, the latency of more copies costs more than it gains.
const MIN_DIVIDED_BYTES: u64 = 4 << 20;
/// Share of the CPU's part that other devices may take, and its number of chunks.
const HOST_TAIL: f64 = 0.16;
const HOST_TAIL_CHUNKS: usize = 4;
/// Largest number of chunks of a plan.
const MAX_CHUNKS: usize = 1 << 20;

/// Bytes of a part's chunks: the sum, and the maxima over its chunks.
#[derive(Default)]
struct Sizes {
    all: u64,
    largest: u64,
    scratch: u64,
    slice: u64,
}

fn is_gpu(device: &Option<DeviceSpec>) -> bool {
    device.as_ref().is_some_and(|device| device.profile.link.is_some())
}

impl Draft<'_> {
    /// Chunks, X and memory of every device; chunks are made smaller until they fit in memory.
    pub fn parts(
        &self,
        division: &Division<'_>,
        registered: &[Registered],
        for_blocks: bool,
    ) -> Result<Vec<DevicePart>> {
        let work = &self.request.work;
        let Division { devices, spans, .. } = *division;
        let mut counts = self.counts(division, for_blocks)?;
        let mut decreasing = match self.adopted {
            Some(_) => vec![None; devices.len()],
            None => self.decreasing(division, registered, for_blocks)?,
        };
        loop {
            let chunks = self.chunks(division, &counts, &decreasing, for_blocks)?;
            let mut parts: Vec<DevicePart> = chunks
                .into_iter()
                .zip(devices.iter().zip(registered))
                .map(|(chunks, (device, &registered))| self.part(chunks, device, registered))
                .collect::<Result<_>>()?;
            let divided = self.divide_memory(devices, &mut parts);
            if self.adopted.is_some() || divided.is_ok() && !self.wants_finer(&parts) {
                return divided.map(|()| parts);
            }
            if decreasing.iter().any(Option::is_some) {
                decreasing.fill(None);
                continue;
            }
            // Slots are as large as the largest chunk of any GPU, so the chunks of all GPUs are made smaller.
            let mut finer = counts.clone();
            for index in (0..devices.len()).filter(|&index| is_gpu(&devices[index])) {
                finer[index] = counts[index].saturating_mul(2);
            }
            let grows = (0..counts.len()).any(|index| {
                finer[index] > counts[index]
                    && work.split(spans[index], finer[index]).len() > parts[index].chunks.pieces.len()
            });
            let too_many = finer.iter().fold(0usize, |sum, &count| sum.saturating_add(count)) > MAX_CHUNKS;
            let x_too_large = devices.iter().zip(&parts).any(|(device, part)| {
                is_gpu(device) && device.as_ref().is_some_and(|device| part.x.bytes > budget(device))
            });
            if self.request.chunks.is_some() || !grows || too_many || x_too_large {
                // Chunks cannot become smaller, or smaller chunks would not help.
                return divided.map(|()| parts);
            }
            counts = finer;
        }
    }

    /// The chunks of every device, so many for each GPU. Chunks that were made before are used again.
    fn chunks(
        &self,
        division: &Division<'_>,
        counts: &[usize],
        decreasing: &[Option<Vec<ChunkRows>>],
        for_blocks: bool,
    ) -> Result<Vec<Rc<DeviceChunks>>> {
        let is_same = |known: &&KnownChunks| {
            known.counts == counts && known.decreasing == decreasing && known.for_blocks == for_blocks
        };
        if let Some(known) = division.known_chunks.borrow().iter().find(is_same) {
            return Ok(known.devices.clone());
        }
        let work = &self.request.work;
        // Vectors that stay have whole rows, and several pieces could divide one.
        let count_of = |count: usize| if self.request.vectors_stay { 1 } else { count };
        let pieces_of = |((span, &count), device): ((&PositionRange, &usize), &Option<DeviceSpec>)| {
            let count = count_of(count);
            match device {
                Some(_) if is_gpu(device) => {
                    let pieces = self.tapered(work.split(*span, count));
                    if for_blocks { self.starting_small(pieces) } else { pieces }
                }
                Some(_) if self.devices.len() > 1 && !self.has_requested_chunks() => self.host_pieces(*span),
                _ => work.split(*span, count),
            }
        };
        let pieces = division.spans.iter().zip(counts).zip(division.devices).map(pieces_of);
        let pieces = pieces.zip(decreasing).map(|(equal, own)| own.clone().unwrap_or(equal));
        let mut pieces: Vec<Vec<ChunkRows>> = pieces.collect();
        let owners = pieces.iter().filter(|pieces| !pieces.is_empty()).count();
        if self.request.vectors_stay && self.adopted.is_none() && (owners > 1 || work.needs_other_ranks()) {
            pieces = pieces.into_iter().map(|pieces| interior_apart(work, pieces)).collect();
        }
        for (pieces, device) in pieces.iter_mut().zip(division.devices) {
            if let Some(layout) = self.adopted_by(device) {
                *pieces = layout.chunks.iter().map(|(rows, _)| *rows).collect();
            }
        }
        let of_device = |(pieces, device): (Vec<ChunkRows>, &Option<DeviceSpec>)| {
            let stored = self.adopted_by(device).map(|layout| &layout.chunks);
            let features = work.facts(&pieces);
            let home = device.as_ref().map(|device| &device.profile);
            let (kernels, footprints) = pieces
                .par_iter()
                .zip(&features)
                .enumerate()
                .map(|(index, (piece, features))| {
                    let stored = stored.and_then(|chunks| chunks.get(index)).map(|(_, stored)| *stored);
                    let kernels = self.chunk_kernels(home, piece, features, stored)?;
                    let footprint = work.footprint(piece, &kernels.gpu, features)?;
                    Ok((kernels, footprint))
                })
                .collect::<Result<(Vec<_>, Vec<_>)>>()?;
            Ok(Rc::new(DeviceChunks { pieces, features, kernels, footprints, x: OnceCell::new() }))
        };
        let devices = pieces.into_iter().zip(division.devices).map(of_device);
        let devices = devices.collect::<Result<Vec<_>>>()?;
        let (counts, decreasing) = (counts.to_vec(), decreasing.to_vec());
        let known = KnownChunks { counts, decreasing, for_blocks, devices: devices.clone() };
        division.known_chunks.borrow_mut().push(known);
        Ok(devices)
    }

    /// The part of a device with these chunks, without the layout of its memory.
    fn part(
        &self,
        chunks: Rc<DeviceChunks>,
        device: &Option<DeviceSpec>,
        registered: Registered,
    ) -> Result<DevicePart> {
        let (work, order, pieces) = (&self.request.work, self.forms.x_order, &chunks.pieces);
        let is_packed =
            is_gpu(device) && chunks.kernels.iter().any(|kernels| kernels.gpu.layout() == Layout::Packed);
        let x = match device {
            Some(_) if self.adopted_by(device).is_some() => self.adopted_x(&chunks, device)?,
            Some(_) if is_packed && !pieces.is_empty() => {
                XChoice::whole(&**work, order, "all of X: the columns of a packed A refer to all of X")
            }
            Some(_) if registered.a && !pieces.is_empty() => {
                let reason = "all of X: A is registered, so its column numbers refer to all of X";
                XChoice::whole(&**work, order, reason)
            }
            Some(_) if self.request.vectors_stay => work.x_in_place(order, pieces),
            Some(device) if device.profile.link.is_some() => {
                chunks.x.get_or_init(|| work.x_part(order, pieces, &chunks.features)).clone()
            }
            Some(_) => XChoice::whole(&**work, order, "X is read in place"),
            None => XChoice::nothing(),
        };
        // Gathered rows and columns of X are copies, so X itself is not registered.
        let unchanged = order == XOrder::Rows && !matches!(x.x, XPlan::Gather { .. });
        let registered = Registered { x: registered.x && unchanged, ..registered };
        Ok(DevicePart { chunks, x, registered, slots: Slots::default() })
    }

    /// The layout of A that a device has already and keeps.
    fn adopted_by(&self, device: &Option<DeviceSpec>) -> Option<&ResidentLayout> {
        self.adopted?.layout(&device.as_ref()?.name)
    }

    /// The part of X that the layout of a device refers to; an error where it is not one that this product can have.
    fn adopted_x(&self, chunks: &DeviceChunks, device: &Option<DeviceSpec>) -> Result<XChoice> {
        let (work, order, pieces) = (&self.request.work, self.forms.x_order, &chunks.pieces);
        let wanted = self.adopted_by(device).map(|layout| layout.x);
        let whole =
            || XChoice::whole(&**work, order, "all of X: the column numbers of the stored A refer to it");
        let choices: [&dyn Fn() -> XChoice; 3] =
            [&whole, &|| work.x_in_place(order, pieces), &|| work.x_part(order, pieces, &chunks.features)];
        let found = choices.iter().map(|choice| choice()).find(|choice| Some(choice.x) == wanted);
        found.ok_or_else(|| Error::Internal("a stored A refers to another part of X".into()))
    }

    /// Whether the number or the size of chunks was requested.
    fn has_requested_chunks(&self) -> bool {
        self.request.chunks.is_some() || self.request.chunk_bytes.is_some()
    }

    /// The CPU's part: one large chunk, since the CPU waits for no copies and its threads synchronise at the end of each chunk; then
    /// some small chunks that other devices may take. A resident device has no other part of A and cannot take any.
    fn host_pieces(&self, span: PositionRange) -> Vec<ChunkRows> {
        let work = &self.request.work;
        if self.mode == Mode::Resident {
            return work.split(span, 1);
        }
        let (before, own) = (work.weight_before(span.begin), work.weight(span));
        let tail = (own as f64 * HOST_TAIL) as u128;
        let cut = work.position_at(before + own - tail, own).clamp(span.begin, span.end);
        let mut pieces = work.split(PositionRange { end: cut, ..span }, 1);
        pieces.extend(work.split(PositionRange { begin: cut, ..span }, HOST_TAIL_CHUNKS));
        pieces
    }

    /// Splits the last chunk into a half, a quarter and two eighths, so that little is left to compute and to download after the
    /// last upload.
    fn tapered(&self, mut pieces: Vec<ChunkRows>) -> Vec<ChunkRows> {
        let work = &self.request.work;
        if self.mode == Mode::Resident || self.has_requested_chunks() || pieces.len() < CHUNKS_PER_DEVICE {
            return pieces;
        }
        let Some(last) = pieces.pop() else { return pieces };
        let is_large = work.piece_bytes(&last) >= 8 * MIN_CHUNK_BYTES;
        pieces.extend(is_large.then(|| self.in_eighths(&last, [4, 2, 1, 1])).flatten().unwrap_or(vec![last]));
        pieces
    }

    /// Splits the first chunk into two eighths, a quarter and a half, so that the first download starts early.
    fn starting_small(&self, pieces: Vec<ChunkRows>) -> Vec<ChunkRows> {
        let Some((first, rest)) = pieces.split_first().filter(|_| pieces.len() >= CHUNKS_PER_DEVICE) else {
            return pieces;
        };
        let work = &self.request.work;
        let slice_bytes = work.slice_bytes(first);
        let may = slice_bytes >= MIN_DIVIDED_BYTES && !self.has_requested_chunks();
        match self.in_eighths(first, [1, 1, 2, 4]).filter(|_| may) {
            Some(mut parts) => {
                parts.extend_from_slice(rest);
                parts
            }
            None => pieces,
        }
    }

    /// Divides a chunk of whole rows into parts of so many eighths of its cost; `None` where its rows are too few or too long.
    fn in_eighths(&self, piece: &ChunkRows, eighths: [usize; 4]) -> Option<Vec<ChunkRows>> {
        let &ChunkRows::Rows { begin, end } = piece else { return None };
        let rows = PositionRange { begin: Position::of_row(begin), end: Position::of_row(end) };
        let parts = self.request.work.split(rows, 8);
        let ends: Vec<usize> = parts
            .iter()
            .filter_map(|part| match part {
                ChunkRows::Rows { end, .. } => Some(*end),
                ChunkRows::Segments { .. } => None,
            })
            .collect();
        if ends.len() != 8 || parts.len() != 8 {
            return None;
        }
        let (mut from, mut taken) = (begin, 0);
        let part = |count: &usize| {
            taken += count;
            let rows = ChunkRows::Rows { begin: from, end: ends[taken - 1] };
            from = ends[taken - 1];
            rows
        };
        Some(eighths.iter().map(part).collect())
    }

    /// Whether chunks are so large that too few slots fit for copies to overlap with kernels.
    fn wants_finer(&self, parts: &[DevicePart]) -> bool {
        self.mode != Mode::Resident
            && self.request.chunks.is_none()
            && self.request.chunk_bytes.is_none()
            && parts.iter().any(|part| {
                let slots = &part.slots;
                slots.a_slots > 0
                    && slots.a_slots < RING_SLOTS.min(part.chunks.pieces.len() as u32)
                    && slots.a_slot_bytes + slots.y_slot_bytes > MIN_CHUNK_BYTES
            })
    }

    /// The number of chunks of each device.
    fn counts(&self, division: &Division<'_>, for_blocks: bool) -> Result<Vec<usize>> {
        let work = &self.request.work;
        let Division { devices, shares, spans, .. } = *division;
        let total = work.weight(work.all()).max(1);
        if let Some(chunks) = self.request.chunks {
            let of_spans: Vec<f64> =
                spans.iter().map(|&span| work.weight(span) as f64 / total as f64).collect();
            return Ok(apportion(&of_spans, chunks));
        }
        let share_of = |index: usize| work.weight(spans[index]) as f64 / total as f64;
        let bytes_of = |index: usize| (work.divided_bytes() as f64 * share_of(index)) as u64;
        let sums_stay = self.mode == Mode::Resident && work.output().combine == Combine::Add;
        let least = |index: usize, device: &DeviceSpec| match &device.profile.link {
            Some(_) if for_blocks => self.chunks_for_blocks(&device.profile, share_of(index)),
            _ if sums_stay => 1,
            _ => CHUNKS_PER_DEVICE,
        };
        let largest = match (sums_stay, devices.iter().filter(|device| is_gpu(device)).count()) {
            (true, 1) => u64::MAX,
            (true, _) => MAX_RESIDENT_SUM_BYTES,
            (false, _) => MAX_CHUNK_BYTES,
        };
        let alone = self.devices.len() == 1;
        let mut counts = Vec::with_capacity(shares.len());
        for (index, device) in devices.iter().enumerate() {
            counts.push(match (device, self.request.chunk_bytes) {
                (None, _) => 0,
                (Some(_), Some(bytes)) => bytes_of(index).div_ceil(bytes.max(1)).max(1) as usize,
                (Some(device), None) if device.profile.link.is_none() && alone => 1,
                (Some(device), None) => least(index, device).max(bytes_of(index).div_ceil(largest) as usize),
            });
        }
        let sum = counts.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
        if sum > MAX_CHUNKS {
            let reason = format!("{sum} chunks exceed the limit of {MAX_CHUNKS} for a plan");
            return Err(Error::usage(reason).advise([Advice::LargerChunks]));
        }
        Ok(counts)
    }

    /// Divides the memory of every GPU into slots; an error where one has too little.
    fn divide_memory(&self, devices: &[Option<DeviceSpec>], parts: &mut [DevicePart]) -> Result<()> {
        let work = &self.request.work;
        let on_gpus = || (0..devices.len()).filter(|&index| is_gpu(&devices[index]));
        let sizes = parts
            .iter()
            .map(|part| {
                let mut sizes = Sizes::default();
                for (piece, footprint) in part.chunks.pieces.iter().zip(&part.chunks.footprints) {
                    sizes.all = sizes.all.saturating_add(footprint.slot_bytes);
                    sizes.largest = footprint.slot_bytes.max(sizes.largest);
                    sizes.scratch = footprint.scratch_bytes.max(sizes.scratch);
                    sizes.slice = work.slice_bytes(piece).max(sizes.slice);
                }
                sizes
            })
            .collect::<Vec<Sizes>>();
        let most = |of: fn(&Sizes) -> u64| on_gpus().map(|index| of(&sizes[index])).max().unwrap_or(0);
        let any_staged_bytes = most(|sizes| sizes.largest);
        let scratch_bytes = most(|sizes| sizes.scratch);
        let slice_bytes = most(|sizes| sizes.slice);
        let many = on_gpus().count() > 1;
        for index in on_gpus().collect::<Vec<_>>() {
            let Some(device) = &devices[index] else { continue };
            let part = &mut parts[index];
            if part.chunks.pieces.is_empty() {
                continue;
            }
            let need = Need {
                mode: self.mode,
                x_bytes: part.x.bytes,
                registered: part.registered,
                chunks: part.chunks.pieces.len() as u32,
                all_staged_bytes: sizes[index].all,
                staged_bytes: sizes[index].largest,
                any_staged_bytes,
                scratch_bytes,
                slice_bytes,
                spare: many,
                in_parts: work.stages_in_parts(),
            };
            part.slots = divide(&need, budget(device)).map_err(|needed_bytes| Error::DoesNotFit {
                what: format!(
                    "{}: X ({}), a chunk of A ({}) and its slice of Y ({})",
                    device.name,
                    Bytes(part.x.bytes),
                    Bytes(sizes[index].largest),
                    Bytes(slice_bytes)
                ),
                needed_bytes,
                limit_bytes: budget(device),
                advice: match (self.mode, self.request.chunks) {
                    (Mode::Resident, _) => self.resident_advice(),
                    (_, Some(_)) => vec![Advice::MoreChunks, work.smaller_vectors()].into(),
                    _ => vec![Advice::MoreDeviceMemory, work.smaller_vectors(), Advice::CpuOnly].into(),
                },
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::fixture::with_draft;
    use super::super::make::make;
    use super::super::tests::{matrix, request};
    use super::*;
    use crate::work::Work;

    fn rows(begin: usize, end: usize) -> ChunkRows {
        ChunkRows::Rows { begin, end }
    }

    /// Plans two devices, of which the last has the rows from `cut` on and as much memory as its part of X has bytes. Returns the
    /// numbers of chunks of that device which were tried before the refusal.
    fn tried_counts(words: &[&str], diagonal: usize, cut: usize) -> Vec<usize> {
        let matrix = matrix(&format!("diagonal,rows={diagonal}"));
        let request = request(Work::spmm(&matrix.view(), 8).unwrap(), words);
        with_draft(&request, Mode::Oneshot, |draft| {
            let first = (words.len() > 1).then(|| request.devices[0].clone());
            let mut devices = [first, request.devices.last().cloned()];
            let position = Position::of_row;
            let spans = [
                PositionRange { begin: position(0), end: position(cut) },
                PositionRange { begin: position(cut), end: position(diagonal) },
            ];
            let staged = [Registered::default(); 2];
            let of = |devices: &[Option<DeviceSpec>]| {
                let known_chunks = RefCell::default();
                let division = Division { devices, shares: &[0.5, 0.5], spans: &spans, known_chunks };
                let parts = draft.parts(&division, &staged, false);
                let known = division.known_chunks.into_inner();
                (parts, known.iter().map(|known| known.counts[1]).collect::<Vec<usize>>())
            };
            let x_bytes = of(&devices).0.unwrap()[1].x.bytes;
            assert!(x_bytes > 0);
            devices[1].as_mut().unwrap().memory_limit_bytes = Some(x_bytes);
            let (parts, tried) = of(&devices);
            assert!(
                matches!(parts.map(|_| ()), Err(Error::DoesNotFit { limit_bytes, .. }) if limit_bytes == x_bytes)
            );
            tried
        })
    }

    #[test]
    fn chunks_that_cannot_become_smaller_are_tried_once() {
        assert_eq!(tried_counts(&["cpu", "emu"], 20, 18), [8]);
    }

    #[test]
    fn chunks_become_smaller_as_long_as_x_does_not_exceed_the_memory() {
        assert_eq!(tried_counts(&["emu"], 64, 0), [8, 16, 32, 64]);
    }

    #[test]
    fn a_chunk_is_divided_into_eighths_of_its_rows() {
        let matrix = matrix("diagonal,rows=80");
        let request = request(Work::spmm(&matrix.view(), 8).unwrap(), &["emu"]);
        with_draft(&request, Mode::Oneshot, |draft| {
            let parts = draft.in_eighths(&rows(16, 80), [4, 2, 1, 1]);
            assert_eq!(parts, Some(vec![rows(16, 48), rows(48, 64), rows(64, 72), rows(72, 80)]));
            assert_eq!(draft.in_eighths(&rows(0, 7), [4, 2, 1, 1]), None, "fewer rows than eighths");
        });
    }

    #[test]
    fn the_last_chunk_is_divided_only_if_each_eighth_has_a_mebibyte() {
        // A row of one entry has 8 bytes of row pointers and 12 bytes of the entry, and a chunk has one more pointer.
        let smallest = ((8 << 20) - 8) / 20;
        let matrix = matrix(&format!("diagonal,rows={}", 7 + smallest));
        let request = request(Work::spmm(&matrix.view(), 1).unwrap(), &["emu"]);
        with_draft(&request, Mode::Oneshot, |draft| {
            let pieces_of = |last: usize| {
                let mut pieces: Vec<ChunkRows> = (0..7).map(|row| rows(row, row + 1)).collect();
                pieces.push(rows(7, 7 + last));
                let tapered = draft.tapered(pieces.clone());
                assert_eq!(tapered[..7], pieces[..7]);
                tapered.len()
            };
            assert_eq!(pieces_of(smallest), 7 + 4);
            assert_eq!(pieces_of(smallest - 1), 7 + 1);
        });
    }

    #[test]
    fn a_cpu_reads_x_in_place() {
        let matrix = matrix("band,rows=400,width=3");
        let plan = make(&request(Work::spmm(&matrix.view(), 8).unwrap(), &["cpu", "emu"])).unwrap();
        let cpu = &plan.devices[0];
        assert_eq!((cpu.x, &*cpu.x_reason), (XPlan::Whole, "X is read in place"));
    }
}
