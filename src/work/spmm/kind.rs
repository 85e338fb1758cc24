//! A sparse product as a kind of work.

use std::ops::Range;
use std::sync::Arc;

use super::columns::{column_spans, distinct_columns};
use super::cost::eligible;
use super::features::{Features, features};
use super::interior::longest_interior;
use super::partition::{position_at, split, weight_before};
use super::{NAME, Spmm, choice, features_of, forms, x_part};
use crate::cost::{Choice, Form, Profile};
use crate::error::{Advice, Error, Result};
use crate::kernel::order::SEGMENT;
use crate::kernel::{KernelId, Processor};
use crate::matrix::Dtype;
use crate::work::{
    ChunkRows, Facts, Fingerprint, Footprint, Forms, KernelRequest, Kind, Layouts, Output, Position,
    PositionRange, SharedBytes, Work, XChoice, XOrder,
};

impl<'a> From<Spmm<'a>> for Work<'a> {
    fn from(product: Spmm<'a>) -> Self {
        Self::new(product)
    }
}

impl Spmm<'_> {
    /// Features of all rows.
    fn all_features(&self) -> Features {
        Features::of(self, &ChunkRows::Rows { begin: 0, end: self.rows() })
    }
}

impl Kind for Spmm<'_> {
    fn rows(&self) -> usize {
        self.rows()
    }

    fn x_rows(&self) -> usize {
        self.cols()
    }

    fn k(&self) -> usize {
        self.k
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn output(&self) -> Output {
        Output::default()
    }

    fn smaller_vectors(&self) -> Advice {
        Advice::FewerColumns
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            kind: NAME.into(),
            rows: self.rows() as u64,
            cols: self.cols() as u64,
            entries: self.nnz(),
            hash: self.hash(),
        }
    }

    fn remembering(&self) -> Work<'_> {
        let product = self.clone().with_features(Some(self.all_features()));
        Work::new(Spmm { ranges: Some(Arc::default()), known_chunks: Some(Arc::default()), ..product })
    }

    fn has_equal_values(&self) -> bool {
        self.has_equal_values()
    }

    fn sampled_packed_bytes(&self) -> Option<u64> {
        let packable = self.packable?;
        let sample = || (packable.sampled_entry_bytes() * self.nnz() as f64) as u64;
        Some(*self.sampled_packed_bytes.get_or_init(sample))
    }

    fn row_segments(&self, row: usize) -> usize {
        self.row_segments(row)
    }

    fn weight_before(&self, position: Position) -> u128 {
        weight_before(self, position)
    }

    fn position_at(&self, weight: u128, grain: u128) -> Position {
        position_at(self, weight, grain)
    }

    fn split(&self, span: PositionRange, pieces: usize) -> Vec<ChunkRows> {
        split(self, span, pieces)
    }

    fn facts(&self, pieces: &[ChunkRows]) -> Vec<Facts> {
        features(self, pieces).into_iter().map(Facts::Spmm).collect()
    }

    fn all_facts(&self) -> Facts {
        self.all_features().into()
    }

    fn piece_entries(&self, piece: &ChunkRows) -> u64 {
        self.piece_nnz(piece)
    }

    fn a_bytes(&self) -> u64 {
        (self.rows() as u64 + 1) * 8 + self.nnz() * self.entry_bytes()
    }

    fn piece_bytes(&self, piece: &ChunkRows) -> u64 {
        (piece.slice_rows() as u64 + 1) * 8 + self.piece_nnz(piece) * self.entry_bytes()
    }

    fn x_part(&self, order: XOrder, pieces: &[ChunkRows], facts: &[Facts]) -> XChoice {
        x_part::choose(self, order, pieces, facts)
    }

    fn x_in_place(&self, order: XOrder, pieces: &[ChunkRows]) -> XChoice {
        x_part::in_place(self, order, pieces)
    }

    fn x_by_share(&self, samples: &[Facts], devices: usize) -> SharedBytes {
        x_part::by_share(self, samples, devices)
    }

    fn x_spans(&self, pieces: &[ChunkRows]) -> Vec<Range<usize>> {
        column_spans(self, pieces)
    }

    fn x_list(&self, pieces: &[ChunkRows]) -> Vec<u32> {
        distinct_columns(self, pieces)
    }

    fn interior(&self, rows: Range<usize>) -> Range<usize> {
        longest_interior(self, rows)
    }

    fn needs_other_ranks(&self) -> bool {
        self.own_columns.as_ref().is_some_and(|own| *own != (0..self.cols() as u64))
    }

    fn kernels(&self, processor: Processor) -> &'static [KernelId] {
        eligible(processor)
    }

    /// Long rows need a list of their segments.
    fn gains_from_layouts(&self) -> bool {
        self.all_features().max > SEGMENT as u64
    }

    fn forms(&self, request: &KernelRequest, layouts: Layouts) -> Result<Forms> {
        let needs_one_value = layouts == Layouts::Pattern || request.kernel == Some(KernelId::CsrPattern);
        if needs_one_value && self.nnz() > 0 && !self.has_equal_values() {
            return Err(forms::values_differ());
        }
        if request.a_stays && request.has_gpu && request.kernel == Some(KernelId::CsrPacked) {
            return Err(forms::packed_stays());
        }
        forms::forms(request, layouts, self.dtype, self.k as u64)
    }

    fn choose(&self, device: &Profile, piece: &ChunkRows, facts: &Facts, forms: &Forms) -> Result<Choice> {
        choice::choose(self, device, piece, features_of(facts)?, forms)
    }

    fn footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint> {
        self.footprint(piece, form.layout(), &form.variant, features_of(facts)?.max)
    }

    fn checked_footprint(&self, piece: &ChunkRows, form: &Form, facts: &Facts) -> Result<Footprint> {
        let longest = self.lengths(piece).max().unwrap_or(0);
        if features_of(facts)?.max != longest {
            return Err(Error::Internal("a chunk has features of other rows".into()));
        }
        self.footprint(piece, form.layout(), &form.variant, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_piece_are_its_row_pointers_and_entries() {
        let pointers = [0, 3, 4, 604];
        let bytes =
            |dtype, piece| Spmm::of_pattern(&pointers, None, 700, 4, dtype).unwrap().piece_bytes(&piece);
        let first_two = ChunkRows::Rows { begin: 0, end: 2 };
        assert_eq!(bytes(Dtype::F64, first_two), 3 * 8 + 4 * 12);
        assert_eq!(bytes(Dtype::F32, first_two), 3 * 8 + 4 * 8);
        // The last two segments of a row of 600 nonzeros.
        assert_eq!(
            bytes(Dtype::F64, ChunkRows::Segments { row: 2, begin: 3, end: 5 }),
            3 * 8 + (128 + 88) * 12
        );
        let work = Spmm::of_pattern(&pointers, None, 700, 4, Dtype::F64).unwrap();
        assert_eq!(work.a_bytes(), work.piece_bytes(&ChunkRows::Rows { begin: 0, end: 3 }));
    }
}
