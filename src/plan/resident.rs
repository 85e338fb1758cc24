//! Layouts of A that devices have already, for other plans of the same matrix: a plan may use them as they are, so that a device has one
//! copy of A for any number of columns.
//!
//! Such a plan has the chunks of the layout, and kernels that read it. It may be slower than a plan with a layout of its own, which needs
//! the memory for another copy of A and the time to bring it.

use super::request::{DeviceSpec, PlanRequest, ResidentLayout};
use crate::cost::StoredForm;
use crate::error::Bytes;
use crate::work::{ChunkRows, Combine, Forms, Position, PositionRange, Work, XPlan};

impl ResidentLayout {
    /// The rows and segments of its chunks; `None` where some between them are missing.
    fn span(&self, work: &Work<'_>) -> Option<PositionRange> {
        let ends = |rows: &ChunkRows| match *rows {
            ChunkRows::Rows { begin, end } => (Position::of_row(begin), Position::of_row(end)),
            ChunkRows::Segments { row, begin, end } => {
                let last = if end >= work.row_segments(row) {
                    Position::of_row(row + 1)
                } else {
                    Position { row, segment: end }
                };
                (Position { row, segment: begin }, last)
            }
        };
        let mut chunks = self.chunks.iter().map(|(rows, _)| ends(rows));
        let (begin, first_end) = chunks.next()?;
        let end = chunks.try_fold(first_end, |end, (begin, next)| (begin == end).then_some(next))?;
        Some(PositionRange { begin, end })
    }

    /// Whether a plan for vectors that stay on the devices can use it: with whole rows, and a range of X.
    fn suits_vectors(&self) -> bool {
        let whole = |(rows, _): &(ChunkRows, StoredForm)| matches!(rows, ChunkRows::Rows { .. });
        self.chunks.iter().all(whole) && !matches!(self.x, XPlan::Gather { .. })
    }
}

/// A division of all rows in which every GPU has a layout already.
pub(super) struct Adopted<'a> {
    /// For each device of the candidate, the host first, its layout and its rows.
    parts: Vec<(Option<&'a ResidentLayout>, PositionRange)>,
}

impl<'a> Adopted<'a> {
    /// The divisions for `devices`, the host first, whose layouts together have all rows that the CPU does not compute. The CPU
    /// computes some if it is among the devices.
    pub fn all(request: &'a PlanRequest<'_>, devices: &[Option<DeviceSpec>]) -> Vec<Self> {
        let may = request.chunks.is_none() && request.chunk_bytes.is_none() && request.cpu_share.is_none();
        if !may && !request.vectors_stay || request.work.output().combine != Combine::Concatenate {
            return Vec::new();
        }
        let suits = |layout: &&ResidentLayout| !request.vectors_stay || layout.suits_vectors();
        let of = |name: &str| -> Vec<&'a ResidentLayout> {
            request.resident.iter().filter(|layout| layout.device == name).filter(suits).collect()
        };
        let layouts: Vec<Vec<&ResidentLayout>> = devices
            .iter()
            .skip(1)
            .map(|device| device.as_ref().map_or(Vec::new(), |on| of(&on.name)))
            .collect();
        let most = layouts.iter().map(Vec::len).min().unwrap_or(0);
        let division = |number: usize| {
            let of_gpus: Option<Vec<&ResidentLayout>> =
                layouts.iter().map(|layouts| layouts.get(number).copied()).collect();
            Self::of(&request.work, devices.first()?.is_some(), &of_gpus?)
        };
        (0..most).filter_map(division).collect()
    }

    fn of(work: &Work<'_>, cpu_computes: bool, of_gpus: &[&'a ResidentLayout]) -> Option<Self> {
        let all = work.all();
        let mut parts = Vec::with_capacity(of_gpus.len() + 1);
        let mut at = of_gpus.first()?.span(work)?.begin;
        if cpu_computes == (at == all.begin) {
            return None;
        }
        parts.push((None, PositionRange { begin: all.begin, end: at }));
        for layout in of_gpus {
            let span = layout.span(work)?;
            if span.begin != at {
                return None;
            }
            at = span.end;
            parts.push((Some(*layout), span));
        }
        (at == all.end).then_some(Self { parts })
    }

    /// The rows of each device.
    pub fn spans(&self) -> Vec<PositionRange> {
        self.parts.iter().map(|(_, span)| *span).collect()
    }

    /// The share of the work of each device.
    pub fn shares(&self, work: &Work<'_>) -> Vec<f64> {
        let total = work.weight(work.all()).max(1) as f64;
        self.parts.iter().map(|(_, span)| work.weight(*span) as f64 / total).collect()
    }

    /// The layout of the device with this name.
    pub fn layout(&self, device: &str) -> Option<&'a ResidentLayout> {
        self.parts.iter().filter_map(|(layout, _)| *layout).find(|layout| layout.device == device)
    }

    /// The reason, in words.
    pub fn reason(&self) -> String {
        let layouts = self.parts.iter().filter_map(|(layout, _)| *layout);
        let words: Vec<String> =
            layouts.map(|layout| format!("{} ({})", layout.device, Bytes(layout.bytes))).collect();
        format!("A: stored once for all plans of this matrix: {} has it already", words.join(" and "))
    }
}

/// The devices without the memory of the layouts of A that stay in use.
pub(super) fn beside_layouts(devices: &[DeviceSpec], layouts: &[ResidentLayout]) -> Vec<DeviceSpec> {
    let beside = |device: &DeviceSpec| {
        let taken = layouts.iter().filter(|layout| layout.device == device.name && layout.is_in_use);
        let taken: u64 = taken.map(|layout| layout.bytes).sum();
        DeviceSpec { taken_bytes: device.taken_bytes.saturating_add(taken), ..device.clone() }
    };
    devices.iter().map(beside).collect()
}

/// The forms of `forms` that read a chunk stored as `stored` on a GPU.
pub(super) fn reading(forms: &Forms, stored: StoredForm) -> Forms {
    let gpu = forms.gpu.iter().filter(|candidate| candidate.form.stored() == stored).copied().collect();
    Forms { gpu, ..forms.clone() }
}
