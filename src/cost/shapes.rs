//! The names of all kernel shapes, under which descriptions and models of machines store weights. A shape is a class of forms of one
//! kernel that is independent of K.

/// All shapes.
pub const SHAPES: [&str; 55] = [
    "cpu_csr",
    "cpu_sell",
    "cpu_ell_padded",
    "cpu_ell_unpadded",
    "csr_subwarp",
    "csr_ways_4",
    "csr_ways_8",
    "csr_ways_16",
    "csr_ways_32",
    "csr_pieces_1024",
    "csr_pieces_4096",
    "csr_runs_16",
    "csr_runs_64",
    "row_groups",
    "row_groups_half",
    "row_groups_cut_64",
    "row_groups_cut_64_half",
    "row_groups_cut_64_x32",
    "row_groups_cut_256",
    "row_groups_cut_256_half",
    "row_groups_cut_x16",
    "row_groups_cut_x16_half",
    "row_groups_cut_x32",
    "row_groups_cut_x32_half",
    "sell",
    "hybrid",
    "hybrid_half",
    "csr_pieces_256",
    "csr_pieces_256_half",
    "csr_pieces_1024_half",
    "csr_pieces_4096_half",
    "csr_segments_4",
    "csr_segments_8",
    "csr_segments_16",
    "csr_segments_4_half",
    "csr_segments_8_half",
    "csr_segments_4_narrow",
    "csr_segments_8_narrow",
    "csr_segments_16_narrow",
    "csr_segments_w2_8",
    "csr_segments_w4_4",
    "csr_segments_w4_8",
    "csr_segments_w8_4",
    "csr_segments_w8_8",
    "row_groups_deep",
    "row_groups_deep_half",
    "row_groups_shared",
    "row_groups_shared_deep",
    "csr_segments_span_4",
    "csr_segments_span_8",
    "csr_segments_span_16",
    "csr_segments_span_4_half",
    "csr_segments_span_8_half",
    "csr_segments_8_tiles",
    "csr_segments_16_tiles",
];

/// The number of weights of a shape.
pub const WEIGHTS_PER_SHAPE: usize = 45;

/// Whether there are as many weights as a shape has, all finite.
pub(super) fn are_valid(weights: &[f64]) -> bool {
    weights.len() == WEIGHTS_PER_SHAPE && weights.iter().all(|weight| weight.is_finite())
}
