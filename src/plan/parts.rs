//! Chunks, X and memory of every device of a draft.

use rayon::prelude::*;

use super::balance::apportion;
use super::data::{Mode, Registered, Slots, XPlan};
use super::draft::Draft;
use super::kernels::ChunkKernels;
use super::memory::{Need, RING, budget, cut};
use super::part::{CHUNKS_A_DEVICE, Part};
use super::request::DeviceSpec;
use super::x::{XChoice, choose};
use crate::error::{Bytes, Error, Result};
use crate::work::features::features;
use crate::work::{ChunkRows, Position, PositionRange, XOrder, position_at, split};

/// Bytes of a chunk beyond which larger ones copy no faster.
const LARGEST_CHUNK_BYTES: u64 = 64 << 20;
/// Bytes of a chunk and its slice below which smaller ones would cost more in starting copies than overlap gains.
const SMALLEST_CHUNK_BYTES: u64 = 1 << 20;
/// Share of the CPU's part that other devices may take, and the chunks it is cut into.
const HOST_TAIL: f64 = 0.16;
const HOST_TAIL_CHUNKS: usize = 4;
/// Most chunks of a plan.
const MOST_CHUNKS: usize = 1 << 20;

/// Bytes of a part's chunks: all of them together, and the most of any of them.
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
    /// Chunks, X and memory of every device; chunks become smaller until the memory suffices.
    pub fn parts(
        &self,
        devices: &[Option<DeviceSpec>],
        shares: &[f64],
        spans: &[PositionRange],
        registered: &[Registered],
    ) -> Result<Vec<Part>> {
        let work = &self.request.work;
        let order = self.forms.x_order();
        let mut counts = self.counts(devices, shares, spans)?;
        loop {
            let pieces =
                spans.iter().zip(&counts).zip(devices).map(|((span, &count), device)| match device {
                    Some(_) if is_gpu(device) => self.tapered(split(work, *span, count)),
                    Some(_) if self.devices.len() > 1 && !self.insists() => self.host_pieces(*span),
                    _ => split(work, *span, count),
                });
            let pieces: Vec<Vec<ChunkRows>> = pieces.collect();
            let mut parts: Vec<Part> = pieces
                .into_iter()
                .zip(devices.iter().zip(registered))
                .map(|(pieces, (device, &registered))| {
                    let features = features(work, &pieces);
                    let home = device.as_ref().map(|device| &device.profile);
                    let kernels = pieces
                        .par_iter()
                        .zip(&features)
                        .map(|(piece, features)| self.chunk_kernels(home, piece, features))
                        .collect::<Result<_>>()?;
                    let x = match device {
                        Some(_) if registered.a && !pieces.is_empty() => {
                            let reason = "all of X: A crosses as it lies, with the columns it has";
                            XChoice::whole(work, order, reason)
                        }
                        Some(device) if device.profile.link.is_some() => {
                            choose(work, order, &pieces, &features)
                        }
                        Some(_) => XChoice::whole(work, order, "X is read where it lies"),
                        None => XChoice::nothing(),
                    };
                    // Rows that are picked one by one, and columns, do not cross from where they lie.
                    let as_it_lies = order == XOrder::Rows && !matches!(x.x, XPlan::Gather { .. });
                    let registered = Registered { x: registered.x && as_it_lies, ..registered };
                    Ok(Part { pieces, features, kernels, x, registered, slots: Slots::default() })
                })
                .collect::<Result<_>>()?;
            let cut = self.cut_memory(devices, &mut parts);
            if cut.is_ok() && !self.wants_finer(&parts) {
                return Ok(parts);
            }
            // Slots are as large as the largest chunk of any GPU, so all of them get smaller ones.
            let mut finer = counts.clone();
            for index in (0..devices.len()).filter(|&index| is_gpu(&devices[index])) {
                finer[index] = counts[index].saturating_mul(2);
            }
            let grows = (0..counts.len()).any(|index| {
                finer[index] > counts[index]
                    && split(work, spans[index], finer[index]).len() > parts[index].pieces.len()
            });
            let too_many = finer.iter().fold(0usize, |sum, &count| sum.saturating_add(count)) > MOST_CHUNKS;
            let hopeless = devices.iter().zip(&parts).any(|(device, part)| {
                is_gpu(device) && device.as_ref().is_some_and(|device| part.x.bytes > budget(device))
            });
            if self.request.chunks.is_some() || !grows || too_many || hopeless {
                // The same chunks once more means that they cannot become smaller; where X alone is too large that is no help.
                return cut.map(|()| parts);
            }
            counts = finer;
        }
    }

    /// Whether it was said how many or how large chunks are to be.
    fn insists(&self) -> bool {
        self.request.chunks.is_some() || self.request.chunk_bytes.is_some()
    }

    /// The CPU's part: most of it in one chunk, since it waits for no copies and its threads wait for each other at the end of
    /// each one; then some small ones that others may take.
    fn host_pieces(&self, span: PositionRange) -> Vec<ChunkRows> {
        let work = &self.request.work;
        let before = PositionRange { end: span.begin, ..PositionRange::all(work) }.cost(work);
        let own = span.cost(work);
        let tail = (own as f64 * HOST_TAIL) as u128;
        let cut = position_at(work, before + own - tail, own).clamp(span.begin, span.end);
        let mut pieces = split(work, PositionRange { end: cut, ..span }, 1);
        pieces.extend(split(work, PositionRange { begin: cut, ..span }, HOST_TAIL_CHUNKS));
        pieces
    }

    /// The last chunk in parts of a half, a quarter and two eighths: what is left to compute and to bring back when the
    /// last byte has arrived is then little.
    fn tapered(&self, mut pieces: Vec<ChunkRows>) -> Vec<ChunkRows> {
        const PARTS: [usize; 4] = [4, 2, 1, 1];
        let work = &self.request.work;
        if self.mode == Mode::Resident || self.insists() || pieces.len() < CHUNKS_A_DEVICE {
            return pieces;
        }
        let Some(&ChunkRows::Rows { begin, end }) = pieces.last() else { return pieces };
        let eighths: usize = PARTS.iter().sum();
        if work.piece_bytes(&ChunkRows::Rows { begin, end }) < eighths as u64 * SMALLEST_CHUNK_BYTES {
            return pieces;
        }
        let at = |row| Position { row, segment: 0 };
        let parts = split(work, PositionRange { begin: at(begin), end: at(end) }, eighths);
        let ends: Vec<usize> = parts
            .iter()
            .filter_map(|part| match part {
                ChunkRows::Rows { end, .. } => Some(*end),
                ChunkRows::Segments { .. } => None,
            })
            .collect();
        if ends.len() != eighths || parts.len() != eighths {
            return pieces;
        }
        pieces.pop();
        let (mut from, mut taken) = (begin, 0);
        for part in PARTS {
            taken += part;
            pieces.push(ChunkRows::Rows { begin: from, end: ends[taken - 1] });
            from = ends[taken - 1];
        }
        pieces
    }

    /// Whether chunks are so large that too few slots fit for copies to go on while a kernel runs.
    fn wants_finer(&self, parts: &[Part]) -> bool {
        self.mode != Mode::Resident
            && self.request.chunks.is_none()
            && self.request.chunk_bytes.is_none()
            && parts.iter().any(|part| {
                let slots = &part.slots;
                slots.a_slots > 0
                    && slots.a_slots < RING.min(part.pieces.len() as u32)
                    && slots.a_slot_bytes + slots.y_slot_bytes > SMALLEST_CHUNK_BYTES
            })
    }

    /// How many chunks each device gets.
    fn counts(
        &self,
        devices: &[Option<DeviceSpec>],
        shares: &[f64],
        spans: &[PositionRange],
    ) -> Result<Vec<usize>> {
        let work = &self.request.work;
        let total = PositionRange::all(work).cost(work).max(1);
        if let Some(chunks) = self.request.chunks {
            let of_spans: Vec<f64> = spans.iter().map(|span| span.cost(work) as f64 / total as f64).collect();
            return Ok(apportion(&of_spans, chunks));
        }
        let bytes_of = |index: usize| {
            let share = spans[index].cost(work) as f64 / total as f64;
            (work.a_bytes() as f64 * share) as u64
        };
        let alone = self.devices.len() == 1;
        let mut counts = Vec::with_capacity(shares.len());
        for (index, device) in devices.iter().enumerate() {
            counts.push(match (device, self.request.chunk_bytes) {
                (None, _) => 0,
                (Some(_), Some(bytes)) => bytes_of(index).div_ceil(bytes.max(1)).max(1) as usize,
                (Some(device), None) if device.profile.link.is_none() && alone => 1,
                (Some(_), None) => {
                    CHUNKS_A_DEVICE.max(bytes_of(index).div_ceil(LARGEST_CHUNK_BYTES) as usize)
                }
            });
        }
        let sum = counts.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
        if sum > MOST_CHUNKS {
            let advice = "take a larger --chunk-bytes";
            return Err(Error::Usage(format!(
                "{sum} chunks are more than the {MOST_CHUNKS} that a plan may have; {advice}"
            )));
        }
        Ok(counts)
    }

    /// Slots of every GPU; an error where one has too little memory.
    fn cut_memory(&self, devices: &[Option<DeviceSpec>], parts: &mut [Part]) -> Result<()> {
        let work = &self.request.work;
        let on_gpus = || (0..devices.len()).filter(|&index| is_gpu(&devices[index]));
        let sizes = parts
            .iter()
            .map(|part| {
                let all = part.pieces.iter().zip(&part.features).zip(&part.kernels);
                let mut sizes = Sizes::default();
                for ((piece, features), ChunkKernels { gpu, .. }) in all {
                    let footprint = work.footprint(piece, gpu.layout(), &gpu.variant, features.max)?;
                    sizes.all = sizes.all.saturating_add(footprint.slot_bytes);
                    sizes.largest = footprint.slot_bytes.max(sizes.largest);
                    sizes.scratch = footprint.scratch_bytes.max(sizes.scratch);
                    sizes.slice = work.slice_bytes(piece).max(sizes.slice);
                }
                Ok(sizes)
            })
            .collect::<Result<Vec<Sizes>>>()?;
        let most = |of: fn(&Sizes) -> u64| on_gpus().map(|index| of(&sizes[index])).max().unwrap_or(0);
        let any_staged_bytes = most(|sizes| sizes.largest);
        let scratch_bytes = most(|sizes| sizes.scratch);
        let slice_bytes = most(|sizes| sizes.slice);
        let many = on_gpus().count() > 1;
        for index in on_gpus().collect::<Vec<_>>() {
            let Some(device) = &devices[index] else { continue };
            let part = &mut parts[index];
            if part.pieces.is_empty() {
                continue;
            }
            let need = Need {
                mode: self.mode,
                x_bytes: part.x.bytes,
                registered: part.registered,
                chunks: part.pieces.len() as u32,
                all_staged_bytes: sizes[index].all,
                staged_bytes: sizes[index].largest,
                any_staged_bytes,
                scratch_bytes,
                slice_bytes,
                spare: many,
            };
            part.slots = cut(&need, budget(device)).map_err(|needed_bytes| Error::DoesNotFit {
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
                    (Mode::Resident, _) => "take --mode stream, or leave rows to the CPU".into(),
                    (_, Some(_)) => "take more --chunks or a smaller -k".into(),
                    _ => "take a larger --mem-limit, a smaller -k, or --devices cpu".into(),
                },
            })?;
        }
        Ok(())
    }
}
