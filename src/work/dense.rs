//! What kinds of work with a dense A have in common: rows of equal weight, and the choice among a few kernels.

use std::ops::Range;

use super::facts::Facts;
use super::kind::{Forms, KernelRequest};
use super::pitch::{XOrder, pitch_bytes};
use super::rows::{ChunkRows, Position, PositionRange};
use crate::cost::{Candidate, Choice, Form, Profile};
use crate::error::{Advice, Error, Result};
use crate::kernel::{KernelId, KindOfWork, Order, Processor};
use crate::matrix::Dtype;

/// A device with a smaller share of the rows of dense work hardly makes the job faster.
pub(super) const HELPFUL_SHARE: f64 = 1.0 / 16.0;

/// Units of equal weight, between which a chunk may begin: the rows of Y, or the segments of its only row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units {
    /// Their number.
    pub count: usize,
    /// Whether they are segments of one row.
    pub are_segments: bool,
    /// The weight of each, in bytes accessed.
    pub weight: u128,
    /// Units that a block of GPU threads computes together: large pieces consist of so many units, or of multiples.
    pub grain: usize,
}

impl Units {
    /// Units before a position.
    fn before(&self, position: Position) -> usize {
        match self.are_segments {
            true if position.row > 0 => self.count,
            true => position.segment.min(self.count),
            false => position.row.min(self.count),
        }
    }

    /// Weight of the units before a position.
    pub fn weight_before(&self, position: Position) -> u128 {
        self.before(position) as u128 * self.weight
    }

    /// The position with a weight of about `weight` before it.
    pub fn position_at(&self, weight: u128) -> Position {
        let unit = (weight / self.weight.max(1)).min(self.count as u128) as usize;
        match self.are_segments {
            true if unit < self.count => Position { row: 0, segment: unit },
            true => Position::of_row(1),
            false => Position::of_row(unit),
        }
    }

    /// A piece of some units.
    pub fn piece(&self, units: Range<usize>) -> ChunkRows {
        match self.are_segments {
            true => ChunkRows::Segments { row: 0, begin: units.start, end: units.end },
            false => ChunkRows::Rows { begin: units.start, end: units.end },
        }
    }

    /// The units of a piece.
    pub fn of(&self, piece: &ChunkRows) -> Range<usize> {
        let (begin, end) = match *piece {
            ChunkRows::Rows { begin, end } if self.are_segments => (begin * self.count, end * self.count),
            ChunkRows::Rows { begin, end } | ChunkRows::Segments { begin, end, .. } => (begin, end),
        };
        begin.min(self.count)..end.min(self.count)
    }

    /// Divides a range into `pieces` pieces, or fewer if there are fewer units.
    pub fn split(&self, span: PositionRange, pieces: usize) -> Vec<ChunkRows> {
        let (begin, end) = (self.before(span.begin), self.before(span.end));
        let units = end.saturating_sub(begin);
        let pieces = pieces.max(1).min(units);
        let grain = if units / pieces.max(1) >= 2 * self.grain { self.grain } else { 1 };
        let at = |piece: usize| match (units as u128 * piece as u128 / pieces as u128) as usize {
            inside if piece < pieces => begin + inside.next_multiple_of(grain),
            all => begin + all,
        };
        (0..pieces).map(|piece| self.piece(at(piece)..at(piece + 1))).collect()
    }
}

/// Bytes of `rows` rows of a dense matrix on a device: its rows have the pitch of X and Y.
pub(super) fn device_bytes(rows: u64, columns: u64, dtype: Dtype) -> u64 {
    rows.saturating_mul(pitch_bytes(columns.saturating_mul(dtype.bytes() as u64)))
}

/// The forms of a kind of work that a request allows, of the kernels that a planner chooses among.
pub(super) fn forms(
    work: KindOfWork,
    request: &KernelRequest,
    (cpu, gpu): (&[KernelId], &[KernelId]),
) -> Result<Forms> {
    if let Some(format) = request.format.filter(|format| *format != crate::kernel::Format::Dense) {
        let name = format.name();
        let reason = format!("the matrix is dense, not {name}");
        return Err(Error::usage(reason).advise([Advice::AutomaticFormat]));
    }
    let allowed = |kernel: &&KernelId| {
        let is_installed = **kernel != KernelId::Cublas || request.cublas;
        is_installed && (!request.reproducible || kernel.info().order == Order::Canonical)
    };
    let candidates = |kernels: &[KernelId]| -> Vec<Candidate> {
        let form =
            |kernel: &KernelId| Candidate { form: Form::cpu(*kernel), shape: None, nearest_shape: None };
        kernels.iter().filter(allowed).map(form).collect()
    };
    let is_requested = request.kernel.is_some();
    let mut forms = Forms { cpu: candidates(cpu), gpu: candidates(gpu), x_order: XOrder::Rows, is_requested };
    let Some(kernel) = request.kernel else { return Ok(forms) };
    let info = kernel.info();
    if info.work != work || request.variant.is_some_and(|variant| variant != Form::cpu(kernel).variant) {
        let reason = format!("kernel {} cannot be used here", info.name);
        return Err(Error::usage(reason).advise([Advice::ListOfKernels]));
    }
    if request.reproducible && info.order != Order::Canonical {
        let reason = format!("the order of additions of kernel {} is not canonical", info.name);
        return Err(Error::usage(reason).advise([Advice::AutomaticKernel, Advice::AnyOrder]));
    }
    if kernel == KernelId::Cublas && !(request.has_gpu && request.cublas) {
        return Err(match request.has_gpu {
            true => Error::usage("kernel cublas needs the library cuBLAS, which was not found")
                .advise([Advice::ListOfLibraries]),
            false => Error::usage("kernel cublas needs a CUDA GPU and the library cuBLAS")
                .advise([Advice::AddCudaGpu]),
        });
    }
    match info.runs_on {
        Processor::Gpu if !request.has_gpu => {
            let reason = format!("kernel {} needs a GPU", info.name);
            return Err(Error::usage(reason).advise([Advice::AddGpu]));
        }
        Processor::Cpu if !request.has_cpu => {
            let reason = format!("kernel {} needs the CPU", info.name);
            return Err(Error::usage(reason).advise([Advice::AddCpu]));
        }
        Processor::Gpu => forms.gpu = candidates(&[kernel]),
        Processor::Cpu => forms.cpu = candidates(&[kernel]),
    }
    Ok(forms)
}

/// The fastest form for rows with these facts; the first of equally fast ones.
pub(super) fn choose(device: &Profile, facts: &Facts, forms: &Forms, k: u64, dtype: Dtype) -> Result<Choice> {
    let timed = forms
        .of(device.processor)
        .iter()
        .map(|candidate| (candidate.form, facts.kernel_s(device, &candidate.form, k, dtype)));
    let fastest = timed.reduce(|best, other| if other.1 < best.1 { other } else { best });
    let (form, predicted_s) =
        fastest.ok_or_else(|| Error::Internal("there is no kernel to choose from".into()))?;
    Ok(Choice { form, predicted_s, reason: form.kernel.info().summary.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_all_units_once(
            count in 0usize..500,
            pieces in 0usize..60,
            are_segments: bool,
            weight in 0u128..100,
            grain in 1usize..20,
        ) {
            let units = Units { count, are_segments, weight, grain };
            let all = PositionRange {
                begin: Position::of_row(0),
                end: Position::of_row(if are_segments { 1 } else { count }),
            };
            let split = units.split(all, pieces);
            prop_assert_eq!(split.len(), pieces.max(1).min(count));
            let mut next = 0;
            for piece in &split {
                let own = units.of(piece);
                prop_assert!(own.start == next && own.end > next);
                let is_large = count / split.len() >= 2 * grain;
                prop_assert!(!is_large || own.start.is_multiple_of(grain));
                next = own.end;
            }
            prop_assert_eq!(next, count);
            prop_assert_eq!(units.weight_before(all.end), count as u128 * weight);
            for unit in 0..=count {
                let position = units.position_at(unit as u128 * weight.max(1));
                prop_assert_eq!(units.before(position), unit);
            }
        }
    }
}
