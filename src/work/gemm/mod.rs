//! Dense products C = alpha A B + beta C. In the vocabulary of kinds of work, X is B and Y is C: every row of C needs all of B.

mod cost;

use std::ops::Range;

pub(super) use cost::kernel_s;

use super::dense::{self, Units, device_bytes};
use super::{
    ChunkRows, Facts, Fingerprint, Footprint, Forms, KernelRequest, Kind, Layouts, Output, Position,
    PositionRange, SharedBytes, UniformRows, Work, XChoice, XOrder,
};
use crate::cost::{Choice, Form, Profile};
use crate::error::{Advice, Error, Result};
use crate::kernel::{KernelId, KindOfWork, Processor};
use crate::matrix::Dtype;

/// The kernels that a planner chooses among. Others are chosen by name only.
const CPU: &[KernelId] = &[KernelId::CpuGemm, KernelId::CpuGemmRows];
const GPU: &[KernelId] = &[KernelId::Cublas, KernelId::GemmBlocked];

/// Rows and columns of C of a block of threads of the fastest kernels.
const TILE_ROWS: usize = 128;
const TILE_COLUMNS: usize = 128;
/// Multiprocessors of a GPU, each of which computes a tile at a time: those of an H200.
const MULTIPROCESSORS: usize = 132;
/// The most rows of tiles of [`Kind::wave_rows`].
const MOST_WAVE_TILES: usize = 8;

/// A dense product as a planner sees it: its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gemm {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of A, which are the rows of B.
    pub depth: usize,
    /// Columns of B and C.
    pub columns: usize,
    /// Value type.
    pub dtype: Dtype,
    /// Whether the old C is read.
    pub updated: bool,
}

impl From<Gemm> for Work<'static> {
    fn from(product: Gemm) -> Self {
        Self::new(product)
    }
}

impl Gemm {
    fn units(&self) -> Units {
        let weight = ((self.depth + self.columns) * self.dtype.bytes()) as u128;
        Units { count: self.rows, are_segments: false, weight, grain: TILE_ROWS }
    }

    fn facts_of(&self, piece: &ChunkRows) -> Facts {
        let entries = self.piece_entries(piece);
        let (rows, a_bytes) = (piece.slice_rows() as u64, self.piece_bytes(piece));
        Facts::Uniform(UniformRows { rows, entries, a_bytes, x_bytes: self.x_bytes() })
    }

    fn x_choice(&self, order: XOrder) -> XChoice {
        XChoice::whole(self, order, "all of B: every row of C needs it")
    }
}

impl Kind for Gemm {
    fn rows(&self) -> usize {
        self.rows
    }

    fn x_rows(&self) -> usize {
        self.depth
    }

    fn k(&self) -> usize {
        self.columns
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn output(&self) -> Output {
        Output { updated: self.updated, ..Output::default() }
    }

    /// Less does not make up for the copies of B and C that the devices slow down for each other.
    fn helpful_share(&self) -> f64 {
        dense::HELPFUL_SHARE
    }

    /// A processor may be a hundred times slower than another one here: 1/64 of the rows would take longer than all others. A CPU gets
    /// nothing then: even for a few rows it reads all of B, while it copies for the GPUs.
    fn smallest_share(&self, processor: Processor) -> f64 {
        match processor {
            Processor::Cpu => 0.0,
            Processor::Gpu => 1.0 / 1024.0,
        }
    }

    fn compares_sharing(&self) -> bool {
        true
    }

    fn smaller_vectors(&self) -> Advice {
        Advice::FewerColumnsOfB
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            kind: KindOfWork::Gemm.name().into(),
            rows: self.rows as u64,
            cols: self.depth as u64,
            entries: self.rows as u64 * self.depth as u64,
            hash: "dense".into(),
        }
    }

    fn remembering(&self) -> Work<'_> {
        Work::new(*self)
    }

    fn row_segments(&self, _row: usize) -> usize {
        1
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

    fn wave_rows(&self) -> Option<usize> {
        let across = self.columns.div_ceil(TILE_COLUMNS);
        // The part of the multiprocessors that are busy.
        let busy = |tiles: &usize| {
            let blocks = tiles * across;
            blocks as f64 / blocks.next_multiple_of(MULTIPROCESSORS).max(1) as f64
        };
        let tiles = (1..=MOST_WAVE_TILES).rev().max_by(|one, other| busy(one).total_cmp(&busy(other)));
        tiles.map(|tiles| tiles * TILE_ROWS)
    }

    fn facts(&self, pieces: &[ChunkRows]) -> Vec<Facts> {
        pieces.iter().map(|piece| self.facts_of(piece)).collect()
    }

    fn all_facts(&self) -> Facts {
        self.facts_of(&ChunkRows::Rows { begin: 0, end: self.rows })
    }

    fn piece_entries(&self, piece: &ChunkRows) -> u64 {
        piece.slice_rows() as u64 * self.depth as u64
    }

    fn a_bytes(&self) -> u64 {
        self.rows as u64 * self.depth as u64 * self.dtype.bytes() as u64
    }

    fn divided_bytes(&self) -> u64 {
        self.a_bytes().max(self.y_bytes())
    }

    fn stages_in_parts(&self) -> bool {
        true
    }

    fn piece_bytes(&self, piece: &ChunkRows) -> u64 {
        self.piece_entries(piece) * self.dtype.bytes() as u64
    }

    fn x_part(&self, order: XOrder, _pieces: &[ChunkRows], _facts: &[Facts]) -> XChoice {
        self.x_choice(order)
    }

    fn x_in_place(&self, order: XOrder, _pieces: &[ChunkRows]) -> XChoice {
        self.x_choice(order)
    }

    fn x_by_share(&self, _samples: &[Facts], _devices: usize) -> SharedBytes {
        SharedBytes { fixed: self.x_bytes(), shared: 0 }
    }

    fn x_spans(&self, pieces: &[ChunkRows]) -> Vec<Range<usize>> {
        vec![0..self.depth; pieces.len()]
    }

    fn x_list(&self, _pieces: &[ChunkRows]) -> Vec<u32> {
        (0..self.depth as u32).collect()
    }

    /// None: every row needs all of B.
    fn interior(&self, rows: Range<usize>) -> Range<usize> {
        rows.start..rows.start
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
        dense::forms(KindOfWork::Gemm, request, (CPU, GPU))
    }

    fn choose(&self, device: &Profile, _piece: &ChunkRows, facts: &Facts, forms: &Forms) -> Result<Choice> {
        dense::choose(device, facts, forms, self.columns as u64, self.dtype)
    }

    fn footprint(&self, piece: &ChunkRows, _form: &Form, _facts: &Facts) -> Result<Footprint> {
        let slot_bytes = device_bytes(piece.slice_rows() as u64, self.depth as u64, self.dtype);
        Ok(Footprint { slot_bytes, scratch_bytes: 0 })
    }

    fn checked_footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint> {
        if *facts != self.facts_of(piece) {
            return Err(Error::Internal("a chunk has facts about other rows".into()));
        }
        self.footprint(piece, form, facts)
    }
}
