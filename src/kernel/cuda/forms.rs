//! The candidate forms of a kernel for a number of columns and a precision.

use super::variant::{Constant, Variant};
use super::{CudaKernel, LARGEST_TILE_BYTES, Layout, MAX_TILES, Parameter};
use crate::kernel::KernelId;
use crate::kernel::order::{SEGMENT, SPAN};
use crate::matrix::Dtype;

/// Bytes of a sector, the unit of GPU memory transactions.
const SECTOR_BYTES: u64 = 32;

/// Row sizes of X for which 8-byte vectors are also a candidate.
const NARROW_BYTES: std::ops::RangeInclusive<u64> = 32..=64;

/// Row sizes of X for which tiles of half a row are also a candidate.
const WIDE_BYTES: std::ops::RangeInclusive<u64> = LARGEST_TILE_BYTES / 2 + 1..=LARGEST_TILE_BYTES;

/// Minimal number of vectors that a lane has in flight in forms with pieces of a span.
const MIN_SPAN_VECTORS_IN_FLIGHT: u32 = 8;

/// Lanes of a warp.
const WARP: u32 = 32;

/// The pitch of X and Y in device memory for rows of `row_bytes` bytes: a power of two up to a sector, then whole sectors.
///
/// A gathered row then touches no more sectors than necessary, and 16-byte loads are aligned.
pub fn pitch_bytes(row_bytes: u64) -> u64 {
    match row_bytes {
        0 => 0,
        _ if row_bytes <= SECTOR_BYTES => row_bytes.next_power_of_two(),
        _ => row_bytes.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(u64::MAX),
    }
}

impl Variant {
    /// Bytes of a row of X that all its lanes cover together.
    fn tile_bytes(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.lanes) * u64::from(self.vectors)
    }

    /// Whether a kernel with lanes over K supports this pitch: vectors are aligned, and there are no more tiles than counters.
    fn suits(&self, dtype: Dtype, pitch_bytes: u64) -> bool {
        let aligned = pitch_bytes.is_multiple_of(u64::from(self.bytes.max(1)));
        aligned
            && self.bytes as usize >= dtype.bytes()
            && self.tile_bytes() >= pitch_bytes.min(LARGEST_TILE_BYTES)
    }
}

impl CudaKernel {
    /// Whether its threads have lanes over the columns of X. Such kernels also write the padding of the rows of Y.
    pub fn has_lanes(&self) -> bool {
        self.constants.contains(&Constant::Bytes)
    }

    /// The forms that its file has entry points for in this precision.
    pub fn variants_of(&self, dtype: Dtype) -> impl Iterator<Item = &'static Variant> {
        let any = !self.has_lanes();
        self.variants.iter().filter(move |variant| any || variant.bytes as usize >= dtype.bytes())
    }

    /// The forms with entry points in this precision that can be launched for `k` columns.
    pub fn variants_for(&self, dtype: Dtype, k: u64) -> impl Iterator<Item = &'static Variant> {
        let (any, pitch) = (!self.has_lanes(), pitch_bytes(k.saturating_mul(dtype.bytes() as u64)));
        let counts = self.parameters.iter().any(|parameter| matches!(parameter, Parameter::Update(_)));
        let in_reach = !counts || pitch.div_ceil(LARGEST_TILE_BYTES) <= MAX_TILES;
        self.variants_of(dtype).filter(move |variant| any || (in_reach && variant.suits(dtype, pitch)))
    }

    /// The default form for `k` columns: the narrowest that covers a row of X. None if the kernel does not support so many
    /// columns.
    pub fn variant_for(&self, dtype: Dtype, k: u64) -> Option<Variant> {
        if !self.has_lanes() {
            return self.variants.first().copied();
        }
        self.variants_for(dtype, k)
            .copied()
            .min_by_key(|variant| (variant.tile_bytes(), std::cmp::Reverse(variant.bytes)))
    }

    /// The form with an entry point in the kernel's file that can be launched instead of `variant` for `k` columns:
    /// `variant` itself, or else the narrowest form that reads the same arrays.
    pub fn built_in_variant(&self, variant: &Variant, dtype: Dtype, k: u64) -> Option<Variant> {
        let entry = self.entry(dtype, variant);
        if self.variants_of(dtype).any(|built_in| self.entry(dtype, built_in) == entry) {
            return Some(*variant);
        }
        // Of the constants, only these determine the arrays.
        let layout = [Constant::Rows, Constant::Piece]
            .map(|constant| self.constants.contains(&constant).then_some(constant));
        let is_same =
            |of: &&Variant| layout.iter().flatten().all(|constant| constant.of(of) == constant.of(variant));
        self.variants_for(dtype, k)
            .filter(is_same)
            .copied()
            .min_by_key(|built_in| (built_in.tile_bytes(), std::cmp::Reverse(built_in.bytes)))
    }

    /// Candidate piece lengths.
    fn pieces(&self) -> &'static [u32] {
        match (self.layout, self.constants.contains(&Constant::Ways)) {
            (Layout::Runs, _) => &[16, 64],
            _ if self.id == KernelId::CsrSegments => &[SEGMENT as u32, SPAN as u32],
            (Layout::Pieces, _) => &[256, 1024, 4096],
            (Layout::RowGroups, true) => &[64, 256, 1024],
            _ => &[0],
        }
    }

    /// The candidate forms for `k` columns: with a compiler, all of [`Self::exact_variants`]; without one, the default form with
    /// each piece length.
    pub fn forms(&self, dtype: Dtype, k: u64, compiles: bool) -> Vec<Variant> {
        if compiles && k > 0 {
            return self.exact_variants(dtype, k);
        }
        let with_pieces = |variant: Variant| {
            let forms = self.pieces().iter().map(move |&piece| Variant { piece, ..variant });
            forms.filter(|form| !self.constants.contains(&Constant::Piece) || self.variants.contains(form))
        };
        match self.variant_for(dtype, k) {
            Some(variant) if self.has_lanes() => with_pieces(variant).collect(),
            variant => variant.into_iter().collect(),
        }
    }

    /// The candidate forms for `k` columns if forms can be compiled at run time.
    pub fn exact_variants(&self, dtype: Dtype, k: u64) -> Vec<Variant> {
        let Some(like) = self.variant_for(dtype, k).filter(|_| self.has_lanes()) else {
            return self.variants_for(dtype, k).copied().collect();
        };
        let row_bytes = k.saturating_mul(dtype.bytes() as u64);
        let pitch = pitch_bytes(row_bytes).min(LARGEST_TILE_BYTES);
        let mut forms = Vec::new();
        self.add_exact(pitch, pitch.min(16) as u32, &[1, 2, 4], like, &mut forms);
        // Twice as many lanes with half the bytes each occupy more multiprocessors if there are few rows.
        if self.id == KernelId::CsrSegments && NARROW_BYTES.contains(&pitch) {
            self.add_exact(pitch, 8, &[1], like, &mut forms);
        }
        // So do two warps with half a row of X each, if a row is wider than one vector per lane of a warp.
        if self.id == KernelId::CsrSegments && WIDE_BYTES.contains(&row_bytes) {
            let form = Variant { bytes: 16, lanes: WARP, vectors: 1, ..like };
            forms.extend([8, 16].map(|depth| Variant { depth, ..form }));
        }
        forms
    }

    /// Candidate depths for `vectors` per lane; registers limit the rows of X in flight. Ways that add in turn have smaller
    /// depths, and one vector per lane.
    fn depths(&self, vectors: u32, ways: u32) -> &'static [u32] {
        let any = self.constants.contains(&Constant::Depth);
        match (self.layout, vectors) {
            (Layout::Pieces, 1) if any && ways == 2 => &[8],
            (Layout::Pieces, 1) if any && (4..=8).contains(&ways) => &[4, 8],
            (Layout::Pieces, _) if any && ways > 1 => &[],
            (Layout::RowGroups, 1) if any => &[8, 16],
            (Layout::RowGroups, 2) if any => &[4, 8],
            (Layout::RowGroups, 1) => &[8],
            (Layout::RowGroups, _) => &[4],
            (_, 1) if any => &[4, 8, 16],
            (_, 2) if any => &[4, 8],
            _ if any => &[4],
            _ => &[1],
        }
    }

    /// Candidate shares: 1, and as many as a warp has lanes for.
    fn shares(&self, form: Variant) -> impl Iterator<Item = u32> {
        let any = self.constants.contains(&Constant::Shares) && form.vectors == 1;
        let most = if any { form.rows.min(WARP / form.lanes) } else { 1 };
        [1, most].into_iter().take(if most > 1 { 2 } else { 1 })
    }

    /// Appends all candidate forms with vectors of `bytes` bytes to `forms`.
    fn add_exact(&self, pitch: u64, bytes: u32, vectors: &[u32], like: Variant, forms: &mut Vec<Variant>) {
        let wanted = pitch.div_ceil(u64::from(bytes.max(1))) as u32;
        let has = |constant| self.constants.contains(&constant);
        for &vectors in vectors {
            let lanes = if has(Constant::Lanes) { wanted.div_ceil(vectors).next_power_of_two() } else { 1 };
            // Registers limit the number of sums, and lanes should not be half empty.
            let fits = lanes <= WARP
                && (vectors == 1 || lanes * vectors < 2 * wanted)
                && lanes * vectors >= wanted
                && vectors * like.rows <= 16
                && (self.id != KernelId::CsrSegments
                    || vectors == 1
                    || lanes >= 4 && vectors <= 2 * wanted.div_ceil(WARP));
            for ways in [1, 2, 4, 8, 16, 32] {
                let takes_ways = match (has(Constant::Ways), has(Constant::Depth)) {
                    (false, _) => ways == 1,
                    (true, false) => lanes * ways <= WARP && (has(Constant::Rows) || ways > 1 || lanes >= 4),
                    (true, true) => ways == 1 || lanes * ways <= WARP && u64::from(bytes) == pitch.min(16),
                };
                if fits && takes_ways && (ways == 1 || lanes * ways >= 4) {
                    let form = Variant { bytes, lanes, vectors, ways, ..like };
                    let deep = self.depths(vectors, ways).iter().map(|&depth| Variant { depth, ..form });
                    let shared =
                        deep.flat_map(|form| self.shares(form).map(move |shares| Variant { shares, ..form }));
                    let pieces = shared
                        .flat_map(|form| self.pieces().iter().map(move |&piece| Variant { piece, ..form }));
                    // A span is long enough to use one way with full vectors and many loads in flight.
                    let is_plain = ways == 1 && u64::from(bytes) == pitch.min(16);
                    let is_span =
                        |form: &Variant| self.id == KernelId::CsrSegments && form.piece == SPAN as u32;
                    forms.extend(pieces.filter(|form| {
                        !is_span(form) || is_plain && form.vectors * form.depth >= MIN_SPAN_VECTORS_IN_FLIGHT
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pitch_is_a_power_of_two_or_whole_sectors() {
        let pitches = [0, 4, 8, 12, 16, 20, 24, 32, 36, 40, 64, 72, 256].map(pitch_bytes);
        assert_eq!(pitches, [0, 4, 8, 16, 16, 32, 32, 32, 64, 64, 64, 96, 256]);
        assert_eq!(pitch_bytes(u64::MAX - 3), u64::MAX);
    }

    #[test]
    fn the_default_form_is_the_narrowest_that_covers_all_columns() {
        let runs = CudaKernel::of(KernelId::CsrRuns).unwrap();
        let tile = |dtype, k| {
            let variant = runs.variant_for(dtype, k).unwrap();
            (variant.bytes, variant.lanes * variant.vectors)
        };
        assert_eq!(
            [1, 2, 3, 5, 8, 9, 33].map(|k| tile(Dtype::F32, k)),
            [(4, 1), (8, 1), (16, 1), (16, 2), (16, 2), (16, 4), (16, 16)]
        );
        assert_eq!(
            [1, 2, 32, 128, 129, 2000].map(|k| tile(Dtype::F64, k)),
            [(8, 1), (16, 1), (16, 16), (16, 64), (16, 64), (16, 64)]
        );
        let sell = CudaKernel::of(KernelId::Sell).unwrap();
        assert!(sell.variant_for(Dtype::F64, 8).is_some() && sell.variant_for(Dtype::F64, 9).is_none());
    }

    #[test]
    fn built_in_forms_replace_exact_ones_that_read_the_same_arrays() {
        let mut without = Vec::new();
        for kernel in crate::kernel::cuda::CUDA_KERNELS {
            for (dtype, k) in
                [1, 3, 8, 16, 32, 100].into_iter().flat_map(|k| [(Dtype::F64, k), (Dtype::F32, k)])
            {
                for variant in kernel.exact_variants(dtype, k) {
                    let Some(built_in) = kernel.built_in_variant(&variant, dtype, k) else {
                        without.push((kernel.id, variant.piece));
                        continue;
                    };
                    assert_eq!(built_in.rows, variant.rows, "{}", kernel.variant_name(&variant));
                    if kernel.constants.contains(&Constant::Piece) {
                        assert_eq!(built_in.piece, variant.piece, "{}", kernel.variant_name(&variant));
                    }
                    let entry = kernel.entry(dtype, &built_in);
                    assert!(kernel.variants_of(dtype).any(|form| kernel.entry(dtype, form) == entry));
                    if built_in != variant {
                        assert!(kernel.variants_for(dtype, k).any(|form| *form == built_in));
                    }
                }
            }
        }
        without.dedup();
        let is_span = |(id, piece): &(KernelId, u32)| *id == KernelId::CsrSegments && *piece == SPAN as u32;
        assert!(without.iter().all(is_span), "only forms with pieces of a span may lack one: {without:?}");
    }

    #[test]
    fn canonical_forms_have_several_ways_if_a_warp_has_free_lanes() {
        let segments = CudaKernel::of(KernelId::CsrSegments).unwrap();
        let names = |dtype, k| -> Vec<String> {
            let forms = segments.exact_variants(dtype, k);
            forms.iter().map(|form| segments.variant_name(form)).collect()
        };
        let of_eight = names(Dtype::F64, 8);
        for name in ["l4v1d4", "l4v1d16", "l4v1w2d8", "l4v1w4d4", "l4v1w4d8", "l4v1w8d4", "l4v1w8d8"] {
            assert!(of_eight.contains(&format!("csr_segments_b16{name}p128")), "{name}: {of_eight:?}");
        }
        for name in ["l4v1d8", "l4v1d16"] {
            assert!(of_eight.contains(&format!("csr_segments_b16{name}p1024")), "{name}: {of_eight:?}");
        }
        assert_eq!(of_eight.len(), 13);
        assert_eq!(names(Dtype::F32, 1).len(), 9);
        let widest = names(Dtype::F64, 128);
        assert!(widest.iter().all(|name| !name.contains('w')));
        assert!(widest.contains(&"csr_segments_b16l32v1d16p128".into()), "{widest:?}");
        assert!(!names(Dtype::F64, 129).contains(&"csr_segments_b16l32v1d16p128".into()));
    }

    #[test]
    fn candidate_forms_cover_a_row_or_a_tile_and_fit_a_warp() {
        for id in [
            KernelId::CsrSubwarp,
            KernelId::CsrWays,
            KernelId::CsrPieces,
            KernelId::CsrSegments,
            KernelId::CsrRuns,
        ] {
            let kernel = CudaKernel::of(id).unwrap();
            for dtype in [Dtype::F64, Dtype::F32] {
                for k in [1, 2, 3, 4, 5, 8, 16, 31, 32, 100, 128, 500] {
                    let pitch = pitch_bytes(k * dtype.bytes() as u64);
                    let forms = kernel.exact_variants(dtype, k);
                    assert!(!forms.is_empty(), "{} {dtype} {k}", id.name());
                    for form in forms {
                        let is_half = form.lanes == WARP && form.vectors == 1 && WIDE_BYTES.contains(&pitch);
                        assert!(is_half || form.suits(dtype, pitch), "{form:?}");
                        assert!(form.lanes * form.ways <= WARP, "{form:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn row_groups_are_divided_among_at_most_the_lanes_of_a_warp() {
        let groups = CudaKernel::of(KernelId::RowGroups).unwrap();
        let shares = |k| -> Vec<(u32, u32)> {
            groups.exact_variants(Dtype::F64, k).iter().map(|form| (form.lanes, form.shares)).collect()
        };
        for (k, expected) in [(8, [(4, 1), (4, 4)]), (32, [(16, 1), (16, 2)]), (64, [(32, 1), (16, 1)])] {
            let found = shares(k);
            assert!(expected.iter().all(|one| found.contains(one)), "{k}: {found:?}");
            assert!(
                found.iter().all(|&(lanes, shares)| lanes * shares <= WARP && shares <= 4),
                "{k}: {found:?}"
            );
        }
    }
}
