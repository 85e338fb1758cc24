use super::*;
use crate::matrix::{Csr, Dtype, generate};
use proptest::prelude::*;

fn matrix(spec: &str) -> Csr<f64> {
    generate(spec, 1, 1 << 32).unwrap().matrix
}

/// Asserts that pieces cover the product once and in order; returns the rows that are cut.
fn check_cover(work: &Spmm<'_>, pieces: &[ChunkRows]) -> Vec<usize> {
    let mut next = Position { row: 0, segment: 0 };
    let mut cut = Vec::new();
    for piece in pieces {
        match *piece {
            ChunkRows::Rows { begin, end } => {
                assert_eq!((next.row, next.segment), (begin, 0), "{pieces:?}");
                assert!(end > begin);
                next = Position { row: end, segment: 0 };
            }
            ChunkRows::Segments { row, begin, end } => {
                assert_eq!((next.row, next.segment), (row, begin), "{pieces:?}");
                assert!(end > begin && end <= work.row_segments(row));
                cut.push(row);
                next = if end == work.row_segments(row) {
                    Position { row: row + 1, segment: 0 }
                } else {
                    Position { row, segment: end }
                };
            }
        }
    }
    assert_eq!((next.row, next.segment), (work.rows(), 0), "{pieces:?}");
    cut.dedup();
    cut
}

#[test]
fn chunks_of_light_rows_balance_within_two_percent() {
    let specs = [
        ("rmat,scale=16,degree=16", 32),
        ("uniform,rows=100000,degree=16", 64),
        ("stencil27,n=40", 100),
        ("road,n=200000", 128),
        ("fem3,n=20", 32),
        ("holes,rows=50000,degree=8", 16),
        ("band,rows=30000,width=19", 48),
    ];
    for (spec, pieces) in specs {
        let matrix = matrix(spec);
        for k in [1, 8, 32] {
            let work = Spmm::new(&matrix.view(), k).unwrap();
            let chunks = split(&work, work.all(), pieces);
            check_cover(&work, &chunks);
            let costs: Vec<u128> = chunks.iter().map(|chunk| work.cost(chunk)).collect();
            let heaviest = (0..work.rows()).map(|row| work.row_cost(row)).max().unwrap();
            let mean = costs.iter().sum::<u128>() as f64 / costs.len() as f64;
            let balance = *costs.iter().max().unwrap() as f64 / mean;
            // A chunk ends within one row of the ideal boundary, so the bound holds if no row exceeds 2 % of a chunk.
            if heaviest as f64 * 100.0 <= 2.0 * mean {
                assert_eq!(chunks.len(), pieces, "{spec}");
                assert!(balance <= 1.02, "{spec} k={k}: {balance}");
            }
            assert!(balance <= 1.0 + heaviest as f64 / mean + 1e-9, "{spec} k={k}: {balance}");
        }
    }
}

#[test]
fn a_row_heavier_than_a_chunk_is_cut_at_segments() {
    let arrow = matrix("arrow,rows=20000");
    let work = Spmm::new(&arrow.view(), 4).unwrap();
    let chunks = split(&work, work.all(), 8);
    assert_eq!(check_cover(&work, &chunks), [0]);
    let most = work.weight(work.all()) / 8;
    for chunk in &chunks {
        let one_segment = SEGMENT as u128 * u128::from(work.weights.per_nonzero);
        assert!(work.cost(chunk) <= most + 2 * one_segment, "{chunk:?}");
    }
    assert_eq!(check_cover(&work, &split(&work, work.all(), 1)), Vec::<usize>::new());
}

#[test]
fn no_rows_give_no_chunk_and_one_short_row_gives_one_chunk() {
    let none = Spmm::of_pattern(&[0], None, 0, 4, Dtype::F64).unwrap();
    assert_eq!(split(&none, none.all(), 9), []);
    let one = Spmm::of_pattern(&[0, 7], None, 9, 4, Dtype::F64).unwrap();
    assert_eq!(split(&one, one.all(), 9), [ChunkRows::Rows { begin: 0, end: 1 }]);
}

#[test]
fn a_position_in_a_light_row_is_the_nearer_end_of_the_row() {
    // A nonzero costs 4 + 8 + 4 bytes and a row 8 + 8, so that the first row costs 1616.
    let work = Spmm::of_pattern(&[0, 100, 110], None, 200, 1, Dtype::F64).unwrap();
    let row_at = |cost| {
        let Position { row, segment } = position_at(&work, cost, u128::MAX);
        assert_eq!(segment, 0);
        row
    };
    assert_eq!([0, 808, 809, 1615, 1616, 1704, 1705, 1792].map(row_at), [0, 0, 1, 1, 1, 1, 2, 2]);
}

#[test]
fn a_position_in_a_heavy_row_is_the_nearest_segment() {
    // Four segments of 128 nonzeros of 16 bytes each.
    let work = Spmm::of_pattern(&[0, 512], None, 2000, 1, Dtype::F64).unwrap();
    let at = |entries: u128| {
        let Position { row, segment } = position_at(&work, 16 * entries, 1000);
        (row, segment)
    };
    assert_eq!([0, 63, 64, 276, 319].map(at), [(0, 0), (0, 0), (0, 1), (0, 2), (0, 2)]);
    assert_eq!([320, 447, 448, 512, 5000].map(at), [(0, 3), (0, 3), (1, 0), (1, 0), (1, 0)]);
}

fn pointers(lengths: &[u64]) -> Vec<u64> {
    let mut sum = 0;
    let ends = lengths.iter().map(|length| {
        sum += length;
        sum
    });
    std::iter::once(0).chain(ends).collect()
}

proptest! {
    #[test]
    fn pieces_cover_each_row_once_and_exceed_the_mean_by_at_most_one_row(
        lengths in prop::collection::vec(prop_oneof![9 => 0u64..40, 1 => 0u64..6000], 1..300),
        pieces in 1usize..64,
        k in 1usize..40,
    ) {
        let pointers = pointers(&lengths);
        let work = Spmm::of_pattern(&pointers, None, 10, k, Dtype::F32).unwrap();
        let span = work.all();
        let chunks = split(&work, span, pieces);
        let cut = check_cover(&work, &chunks);
        // There are at most as many pieces of whole rows as rows.
        let most = work.weight(span) / pieces.min(lengths.len()) as u128;
        let uncut = (0..work.rows()).filter(|row| !cut.contains(row)).map(|row| work.row_cost(row));
        let heaviest = uncut.max().unwrap_or(0);
        let segment = SEGMENT as u128 * u128::from(work.weights.per_nonzero);
        for chunk in &chunks {
            let slack = match chunk {
                ChunkRows::Rows { .. } => heaviest + 1,
                ChunkRows::Segments { .. } => {
                    segment + chunk.slice_rows() as u128 * u128::from(work.weights.per_row) + 1
                }
            };
            prop_assert!(work.cost(chunk) <= most + slack, "{chunk:?} of {chunks:?}");
        }
    }

    #[test]
    fn ranges_between_arbitrary_positions_cover_each_row_once(
        lengths in prop::collection::vec(prop_oneof![3 => 0u64..40, 1 => 0u64..6000], 1..60),
        shares in prop::collection::vec(0.0f64..1.0, 0..5),
        pieces in 1usize..9,
    ) {
        let pointers = pointers(&lengths);
        let work = Spmm::of_pattern(&pointers, None, 10, 3, Dtype::F64).unwrap();
        let all = work.all();
        let total = work.weight(all);
        let mut shares = shares;
        shares.sort_by(f64::total_cmp);
        let mut begin = all.begin;
        let mut chunks = Vec::new();
        let cuts = shares.iter().map(|share| position_at(&work, (total as f64 * share) as u128, total / 20));
        for end in cuts.chain([all.end]) {
            let end = end.max(begin);
            chunks.extend(split(&work, PositionRange { begin, end }, pieces));
            begin = end;
        }
        check_cover(&work, &chunks);
    }
}
