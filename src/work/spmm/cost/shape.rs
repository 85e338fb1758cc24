//! Shapes: classes of forms of one kernel that are independent of K. Times are predicted per shape.
//!
//! Most forms that can be compiled for a K are never the fastest. Measurements on an H200 gave the candidates: as many lanes as a row
//! of X has vectors where a warp has that many, or half as many with two vectors each; groups of lanes per row that are no wider
//! than needed.

use crate::cost::{Form, SHAPES};
use crate::kernel::KernelId;
use crate::kernel::cuda::{LARGEST_TILE_BYTES, Variant};
use crate::kernel::order::SPAN;
use crate::matrix::Dtype;
use crate::work::pitch_bytes;

/// Lanes of a warp.
const WARP: u32 = 32;

/// The shape whose weights predict `csr_cuts`, `csr_pattern` and `csr_packed`: the same division of long rows, and as many loads in flight.
const LIKE_CUTS: &str = "csr_segments_4";

impl Form {
    /// Its shape; `None` where the form is not a candidate.
    pub fn shape(&self, dtype: Dtype, k: u64) -> Option<&'static str> {
        let Variant { bytes, lanes, vectors, ways, shares, piece, depth, .. } = self.variant;
        let tile = pitch_bytes(k.saturating_mul(dtype.bytes() as u64)).clamp(4, LARGEST_TILE_BYTES) as u32;
        let wanted = tile.div_ceil(tile.min(16));
        let least = wanted.next_power_of_two().div_ceil(WARP);
        let fits = lanes == wanted.div_ceil(vectors.max(1)).next_power_of_two();
        let half = vectors == 2 * least && lanes >= 4;
        let whole = vectors == least;
        let few_ways = ways == (4 / lanes.max(1)).max(1);
        let name = match self.kernel {
            KernelId::CpuCsr | KernelId::CpuSell | KernelId::CpuEllPadded | KernelId::CpuEllUnpadded => {
                self.kernel.name().to_string()
            }
            KernelId::Sell => "sell".into(),
            KernelId::CsrSegments if bytes < tile.min(16) && lanes * bytes == tile => {
                format!("csr_segments_{depth}_narrow")
            }
            KernelId::CsrSegments if lanes == WARP && vectors == 1 && wanted > WARP => {
                format!("csr_segments_{depth}_tiles")
            }
            _ if !fits || !(whole || half) => return None,
            // Four loads of X in flight per segment, too.
            KernelId::CsrCuts | KernelId::CsrPattern | KernelId::CsrPacked => LIKE_CUTS.into(),
            KernelId::CsrSubwarp if whole => "csr_subwarp".into(),
            KernelId::CsrRuns if whole => format!("csr_runs_{piece}"),
            KernelId::CsrWays if whole && ways == (8 / lanes).max(1) => "csr_ways_8".into(),
            KernelId::CsrWays if whole && ways > 1 => format!("csr_ways_{}", lanes * ways),
            KernelId::CsrPieces if few_ways => format!("csr_pieces_{piece}"),
            KernelId::CsrSegments if ways > 1 => format!("csr_segments_w{ways}_{depth}"),
            KernelId::CsrSegments if piece == SPAN as u32 => format!("csr_segments_span_{depth}"),
            KernelId::CsrSegments => format!("csr_segments_{depth}"),
            KernelId::RowGroups => {
                let shared = if shares > 1 { "_shared" } else { "" };
                let deep = if depth > if vectors == 1 { 8 } else { 4 } { "_deep" } else { "" };
                format!("row_groups{shared}{deep}")
            }
            KernelId::Hybrid => "hybrid".into(),
            KernelId::RowGroupsCut if piece < 1024 && few_ways => format!("row_groups_cut_{piece}"),
            KernelId::RowGroupsCut if piece == 64 && whole && lanes * ways == 32 => {
                "row_groups_cut_64_x32".into()
            }
            KernelId::RowGroupsCut if piece == 1024 && lanes * ways == 16 => "row_groups_cut_x16".into(),
            KernelId::RowGroupsCut if piece == 1024 && lanes * ways == 32 => "row_groups_cut_x32".into(),
            _ => return None,
        };
        let name = if half && fits && self.kernel != KernelId::Sell { format!("{name}_half") } else { name };
        SHAPES.into_iter().find(|shape| *shape == name)
    }

    /// Its shape, or for a form without one the nearest shape of the same kernel.
    pub fn nearest_shape(&self, dtype: Dtype, k: u64) -> Option<&'static str> {
        if matches!(self.kernel, KernelId::CsrCuts | KernelId::CsrPattern | KernelId::CsrPacked) {
            return self.shape(dtype, k).or(Some(LIKE_CUTS));
        }
        let piece = format!("{}_{}", self.kernel.name(), self.variant.piece);
        let own = |shape: &&str| {
            let rest = shape.strip_prefix(self.kernel.name());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_') && !rest.starts_with("_cut"))
        };
        self.shape(dtype, k)
            .or_else(|| SHAPES.into_iter().find(|shape| *shape == piece))
            .or_else(|| SHAPES.into_iter().find(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Processor;
    use crate::work::spmm::cost::eligible;

    #[test]
    fn every_kernel_has_candidates_and_every_form_a_nearest_shape() {
        for processor in [Processor::Cpu, Processor::Gpu] {
            for &kernel in eligible(processor) {
                for (dtype, k) in
                    [(Dtype::F64, 1), (Dtype::F32, 1), (Dtype::F64, 8), (Dtype::F32, 33), (Dtype::F64, 128)]
                {
                    let forms = Form::all(kernel, dtype, k, true);
                    let candidates = forms.iter().filter(|form| form.shape(dtype, k).is_some()).count();
                    assert!(candidates > 0 || forms.is_empty(), "{} {dtype} {k}", kernel.name());
                    assert!(candidates <= 14, "{} {dtype} {k}: {candidates}", kernel.name());
                    for compiles in [false, true] {
                        for form in Form::all(kernel, dtype, k, compiles) {
                            let shape = form.nearest_shape(dtype, k).unwrap();
                            assert!(shape.starts_with(kernel.name()), "{shape} for {}", kernel.name());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn shapes_follow_from_the_parameters_of_a_form() {
        let shape = |kernel, lanes, vectors, ways, piece, k| {
            let variant = Variant { lanes, vectors, ways, piece, ..Variant::PLAIN };
            Form { kernel, variant }.shape(Dtype::F64, k)
        };
        assert_eq!(shape(KernelId::RowGroupsCut, 8, 2, 4, 1024, 32), Some("row_groups_cut_x32_half"));
        assert_eq!(shape(KernelId::RowGroupsCut, 16, 1, 1, 256, 32), Some("row_groups_cut_256"));
        assert_eq!(shape(KernelId::CsrPieces, 1, 1, 4, 4096, 1), Some("csr_pieces_4096"));
        assert_eq!(shape(KernelId::CsrPieces, 32, 2, 1, 1024, 128), Some("csr_pieces_1024"));
        assert_eq!(shape(KernelId::RowGroupsCut, 4, 1, 8, 64, 8), Some("row_groups_cut_64_x32"));
        assert_eq!(shape(KernelId::RowGroupsCut, 4, 1, 4, 1024, 8), Some("row_groups_cut_x16"));
        assert_eq!(shape(KernelId::RowGroupsCut, 4, 1, 8, 1024, 8), Some("row_groups_cut_x32"));
        assert_eq!(shape(KernelId::RowGroupsCut, 4, 1, 2, 1024, 8), None);
        assert_eq!(shape(KernelId::CsrWays, 2, 1, 2, 0, 4), Some("csr_ways_4"));
        assert_eq!(shape(KernelId::CsrWays, 4, 1, 8, 0, 8), Some("csr_ways_32"));
        assert_eq!(shape(KernelId::CsrWays, 4, 1, 32, 0, 8), None);
        let segments = |bytes, lanes, vectors, depth, k| {
            let variant = Variant { bytes, lanes, vectors, depth, piece: 128, ..Variant::PLAIN };
            Form { kernel: KernelId::CsrSegments, variant }.shape(Dtype::F64, k)
        };
        let by_ways = Variant { lanes: 4, ways: 4, depth: 8, piece: 128, ..Variant::PLAIN };
        let by_ways = Form { kernel: KernelId::CsrSegments, variant: by_ways };
        assert_eq!(by_ways.shape(Dtype::F64, 8), Some("csr_segments_w4_8"));
        let span = Variant { lanes: 8, vectors: 2, depth: 8, piece: SPAN as u32, ..Variant::PLAIN };
        let span = Form { kernel: KernelId::CsrSegments, variant: span };
        assert_eq!(span.shape(Dtype::F64, 32), Some("csr_segments_span_8_half"));
        let cuts = |lanes, vectors| Form {
            kernel: KernelId::CsrCuts,
            variant: Variant { lanes, vectors, ..Variant::PLAIN },
        };
        assert_eq!(cuts(16, 1).shape(Dtype::F64, 32), Some("csr_segments_4"));
        assert_eq!(cuts(8, 2).shape(Dtype::F64, 32), Some("csr_segments_4_half"));
        assert_eq!(cuts(1, 1).shape(Dtype::F64, 32), None);
        assert_eq!(cuts(1, 1).nearest_shape(Dtype::F64, 32), Some("csr_segments_4"));
        let pattern = Form { kernel: KernelId::CsrPattern, ..cuts(8, 2) };
        assert_eq!(pattern.shape(Dtype::F64, 32), Some("csr_segments_4_half"));
        let shared = Variant { lanes: 8, shares: 4, depth: 16, rows: 4, ..Variant::PLAIN };
        let shared = Form { kernel: KernelId::RowGroups, variant: shared };
        assert_eq!(shared.shape(Dtype::F64, 16), Some("row_groups_shared_deep"));
        assert_eq!(segments(16, 4, 1, 16, 8), Some("csr_segments_16"));
        assert_eq!(segments(16, 8, 2, 8, 32), Some("csr_segments_8_half"));
        assert_eq!(segments(16, 32, 1, 16, 128), Some("csr_segments_16_tiles"));
        assert_eq!(segments(16, 32, 1, 16, 64), Some("csr_segments_16"));
        assert_eq!(segments(8, 8, 1, 8, 8), Some("csr_segments_8_narrow"));
        assert_eq!(segments(8, 1, 1, 4, 1), Some("csr_segments_4"));
    }
}
