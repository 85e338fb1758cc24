//! Sums of the columns of a dense matrix, and of the squared deviations from their means. In the vocabulary of kinds of work there is no X,
//! and Y is one row, of which every block of rows of A is a segment: all chunks compute partial results of this row.
//!
//! With deviations, Y has twice as many columns as A: a chunk's partial results are the sums of all of its blocks, then the deviations.

use std::ops::Range;

use super::dense::{self, Units, device_bytes};
use super::{
    ChunkRows, Combine, Facts, Fingerprint, Footprint, Forms, KernelRequest, Kind, Layouts, Output, Position,
    PositionRange, SharedBytes, UniformRows, Work, XChoice, XOrder, XPlan,
};
use crate::cost::{Choice, Form, Load, Profile};
use crate::error::{Advice, Error, Result};
use crate::kernel::colmean::block_rows;
use crate::kernel::{KernelId, KindOfWork, Processor};
use crate::matrix::Dtype;

/// The kernels that a planner chooses among. Others are chosen by name only.
const CPU: &[KernelId] = &[KernelId::CpuColmean];
const GPU: &[KernelId] = &[KernelId::ColmeanReduce, KernelId::ColmeanLoop];

/// Sums of columns as a planner sees them: the shape of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colmean {
    /// Rows of A.
    pub rows: usize,
    /// Columns of A.
    pub columns: usize,
    /// Value type.
    pub dtype: Dtype,
    /// Whether squared deviations are computed too.
    pub deviations: bool,
}

impl From<Colmean> for Work<'static> {
    fn from(sums: Colmean) -> Self {
        Self::new(sums)
    }
}

impl Colmean {
    /// Rows of a block.
    pub fn block_rows(&self) -> usize {
        block_rows(self.rows as u64, self.columns as u64) as usize
    }

    /// Number of blocks.
    fn blocks(&self) -> usize {
        self.rows.div_ceil(self.block_rows())
    }

    /// The rows of A of a piece.
    pub fn rows_of(&self, piece: &ChunkRows) -> Range<usize> {
        let (blocks, block_rows) = (self.units().of(piece), self.block_rows());
        blocks.start * block_rows..self.rows.min(blocks.end * block_rows)
    }

    fn units(&self) -> Units {
        let weight = (self.block_rows() * self.columns * self.dtype.bytes()) as u128;
        Units { count: self.blocks(), are_segments: true, weight, grain: 1 }
    }

    fn facts_of(&self, piece: &ChunkRows) -> Facts {
        let (rows, entries) = (self.units().of(piece).len() as u64, self.piece_entries(piece));
        Facts::Uniform(UniformRows { rows, entries, a_bytes: self.piece_bytes(piece), x_bytes: 0 })
    }

    fn x_choice() -> XChoice {
        XChoice { x: XPlan::Nothing, bytes: 0, reason: "nothing: sums of columns read A alone".into() }
    }
}

/// The part of the memory bandwidth that a kernel reaches with large matrices; for GPU kernels as measured on an H200.
fn efficiency(kernel: KernelId) -> f64 {
    match kernel {
        KernelId::ColmeanReduce => 0.97,
        KernelId::ColmeanWarp => 0.88,
        // As fast as the others without deviations, and slower with them.
        KernelId::ColmeanLoop => 0.8,
        _ => 0.95,
    }
}

/// Predicted seconds of a form on a device: A is read once.
pub(super) fn kernel_s(rows: &UniformRows, device: &Profile, form: &Form, k: u64, dtype: Dtype) -> f64 {
    let load = rows.load(k, dtype);
    let compulsory_bytes = (load.compulsory_bytes as f64 / efficiency(form.kernel)) as u64;
    // Every entry is added once.
    device.kernel_s(&Load { k: 1, compulsory_bytes, ..load }) * device.correction(form)
}

impl Kind for Colmean {
    fn rows(&self) -> usize {
        usize::from(self.blocks() > 0)
    }

    fn x_rows(&self) -> usize {
        0
    }

    fn k(&self) -> usize {
        self.columns * if self.deviations { 2 } else { 1 }
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn output(&self) -> Output {
        Output { updated: false, combine: Combine::Add }
    }

    /// Less does not make up for the partial sums: where the first rows are on another device, those of all blocks are copied and added.
    fn helpful_share(&self) -> f64 {
        dense::HELPFUL_SHARE
    }

    /// A CPU that hardly helps gets nothing, since it adds the partial sums of the GPUs.
    fn smallest_share(&self, processor: Processor) -> f64 {
        match processor {
            Processor::Cpu => 0.0,
            Processor::Gpu => 1.0 / 64.0,
        }
    }

    fn compares_sharing(&self) -> bool {
        true
    }

    fn smaller_vectors(&self) -> Advice {
        Advice::FewerColumnsOfTable
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            kind: KindOfWork::Colmean.name().into(),
            rows: Kind::rows(self) as u64,
            cols: 0,
            entries: self.rows as u64 * self.columns as u64,
            hash: format!("{}x{}", self.rows, self.columns),
        }
    }

    fn remembering(&self) -> Work<'_> {
        Work::new(*self)
    }

    fn row_segments(&self, _row: usize) -> usize {
        self.blocks()
    }

    fn weight_before(&self, position: Position) -> u128 {
        self.units().weight_before(position)
    }

    fn position_at(&self, weight: u128, _grain: u128) -> Position {
        self.units().position_at(weight)
    }

    fn split(&self, span: PositionRange, pieces: usize) -> Vec<ChunkRows> {
        self.units().split(span, pieces)
    }

    fn facts(&self, pieces: &[ChunkRows]) -> Vec<Facts> {
        pieces.iter().map(|piece| self.facts_of(piece)).collect()
    }

    fn all_facts(&self) -> Facts {
        self.facts_of(&self.units().piece(0..self.blocks()))
    }

    fn piece_entries(&self, piece: &ChunkRows) -> u64 {
        self.rows_of(piece).len() as u64 * self.columns as u64
    }

    fn a_bytes(&self) -> u64 {
        self.rows as u64 * self.columns as u64 * self.dtype.bytes() as u64
    }

    fn stages_in_parts(&self) -> bool {
        true
    }

    fn piece_bytes(&self, piece: &ChunkRows) -> u64 {
        self.piece_entries(piece) * self.dtype.bytes() as u64
    }

    fn x_part(&self, _order: XOrder, _pieces: &[ChunkRows], _facts: &[Facts]) -> XChoice {
        Self::x_choice()
    }

    fn x_in_place(&self, _order: XOrder, _pieces: &[ChunkRows]) -> XChoice {
        Self::x_choice()
    }

    fn x_by_share(&self, _samples: &[Facts], _devices: usize) -> SharedBytes {
        SharedBytes { fixed: 0, shared: 0 }
    }

    fn x_spans(&self, pieces: &[ChunkRows]) -> Vec<Range<usize>> {
        vec![0..0; pieces.len()]
    }

    fn x_list(&self, _pieces: &[ChunkRows]) -> Vec<u32> {
        Vec::new()
    }

    fn interior(&self, rows: Range<usize>) -> Range<usize> {
        rows
    }

    fn kernels(&self, processor: Processor) -> &'static [KernelId] {
        match processor {
            Processor::Cpu => CPU,
            Processor::Gpu => GPU,
        }
    }

    fn gains_from_layouts(&self) -> bool {
        false
    }

    fn forms(&self, request: &KernelRequest, _layouts: Layouts) -> Result<Forms> {
        dense::forms(KindOfWork::Colmean, request, (CPU, GPU))
    }

    fn choose(&self, device: &Profile, _piece: &ChunkRows, facts: &Facts, forms: &Forms) -> Result<Choice> {
        dense::choose(device, facts, forms, self.k() as u64, self.dtype)
    }

    fn footprint(&self, piece: &ChunkRows, _form: &Form, _facts: &Facts) -> Result<Footprint> {
        let slot_bytes = device_bytes(self.rows_of(piece).len() as u64, self.columns as u64, self.dtype);
        Ok(Footprint { slot_bytes, scratch_bytes: 0 })
    }

    fn checked_footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint> {
        if *facts != self.facts_of(piece) {
            return Err(Error::Internal("a chunk has facts about other rows".into()));
        }
        self.footprint(piece, form, facts)
    }
}
