use proptest::prelude::*;

use super::*;
use crate::error::Error;
use crate::matrix::csr::Csr;

const LIMIT: u64 = 1 << 30;

fn make(spec: &str) -> Csr<f64> {
    generate(spec, 7, LIMIT).unwrap().matrix
}

/// A small example of every kind.
pub const EXAMPLES: &[&str] = &[
    "stencil5,n=9",
    "stencil7,n=6",
    "stencil27,n=5",
    "fem3,n=4",
    "rmat,scale=8,degree=8",
    "road,n=500",
    "uniform,rows=300,degree=7,cols=90",
    "band,rows=50,width=6",
    "hub,rows=200,degree=3,hubs=4",
    "mixed,n=5",
    "arrow,rows=40",
    "diagonal,rows=33",
    "empty,rows=10,cols=3",
    "holes,rows=101,degree=5",
    "like,name=mhda416",
];

#[test]
fn every_kind_has_an_example() {
    let example = |kind: &Kind| EXAMPLES.iter().any(|spec| spec.split(',').next() == Some(kind.name));
    assert!(KINDS.iter().all(example));
}

#[test]
fn columns_ascend_without_duplicates_and_values_are_in_range() {
    for spec in EXAMPLES {
        let loaded = generate::<f64>(spec, 1, LIMIT).unwrap();
        assert!(loaded.info.synthetic && loaded.info.name == *spec);
        let view = loaded.matrix.view();
        for row in 0..view.rows() {
            let (columns, values) = view.row(row);
            assert!(columns.is_sorted_by(|a, b| a < b), "{spec} row {row}: {columns:?}");
            let off_diagonal = values.iter().zip(columns).filter(|(_, column)| **column as usize != row);
            assert!(off_diagonal.into_iter().all(|(value, _)| value.abs() <= 1.0), "{spec} row {row}");
        }
    }
}

#[test]
fn a_specification_and_seed_give_the_same_matrix_for_any_number_of_threads() {
    let on = |threads: usize, spec: &str, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| generate::<f32>(spec, seed, LIMIT).unwrap().matrix)
    };
    for spec in EXAMPLES {
        let one = on(1, spec, 3);
        assert_eq!(one, on(5, spec, 3), "{spec}");
        assert!(one.nnz() == 0 || one != on(1, spec, 4), "{spec} does not depend on the seed");
    }
}

/// Coupling of grid points by definition: every pair of points is tested.
fn grid_by_definition(n: i64, depth: i64, coupled: impl Fn([i64; 3]) -> bool) -> Vec<Vec<u32>> {
    let points: Vec<[i64; 3]> =
        (0..depth).flat_map(|z| (0..n).flat_map(move |y| (0..n).map(move |x| [x, y, z]))).collect();
    let offset = |a: &[i64; 3], b: &[i64; 3]| [0, 1, 2].map(|axis| (a[axis] - b[axis]).abs());
    let row = |a| (0..).zip(&points).filter(|(_, b)| coupled(offset(a, b))).map(|(at, _)| at).collect();
    points.iter().map(row).collect()
}

fn assert_pattern(spec: &str, expected: &[Vec<u32>]) {
    let matrix = make(spec);
    assert_eq!((matrix.rows(), matrix.cols()), (expected.len(), expected.len()), "{spec}");
    for (row, columns) in expected.iter().enumerate() {
        assert_eq!(matrix.view().row(row).0, columns, "{spec} row {row}");
    }
}

#[test]
fn stencils_couple_the_points_of_their_definition() {
    for n in 1..=4 {
        let near = |offset: [i64; 3]| offset.iter().sum::<i64>() <= 1;
        let around = |offset: [i64; 3]| offset.iter().all(|&step| step <= 1);
        assert_pattern(&format!("stencil5,n={n}"), &grid_by_definition(n, 1, near));
        assert_pattern(&format!("stencil7,n={n}"), &grid_by_definition(n, n, near));
        assert_pattern(&format!("stencil27,n={n}"), &grid_by_definition(n, n, around));
        let nodes = grid_by_definition(n, n, around);
        let triple =
            |columns: &Vec<u32>| columns.iter().flat_map(|&node| [0, 1, 2].map(|u| node * 3 + u)).collect();
        let rows: Vec<Vec<u32>> = nodes.iter().flat_map(|columns| vec![triple(columns); 3]).collect();
        assert_pattern(&format!("fem3,n={n}"), &rows);
    }
}

#[test]
fn stencil_matrices_are_symmetric_and_diagonally_dominant() {
    for spec in ["stencil5,n=7", "stencil7,n=4", "stencil27,n=4", "fem3,n=3"] {
        let matrix = make(spec);
        let at = |row: usize, column: usize| {
            let (columns, values) = matrix.view().row(row);
            columns.binary_search(&(column as u32)).map_or(0.0, |found| values[found])
        };
        for row in 0..matrix.rows() {
            let others: f64 =
                (0..matrix.rows()).filter(|&column| column != row).map(|c| at(row, c).abs()).sum();
            assert!(at(row, row) > others, "{spec} row {row}");
            assert!((0..matrix.rows()).all(|column| at(row, column) == at(column, row)), "{spec} row {row}");
        }
    }
}

#[test]
fn road_networks_are_symmetric_and_local_with_a_degree_of_two_and_a_half() {
    let matrix = make("road,n=40000");
    let mean = matrix.nnz() as f64 / 40000.0;
    assert!((2.3..2.6).contains(&mean), "{mean}");
    for row in 0..matrix.rows() {
        for &column in matrix.view().row(row).0 {
            assert!(matrix.view().row(column as usize).0.contains(&(row as u32)));
            assert!([1, 200].contains(&row.abs_diff(column as usize)));
        }
    }
}

#[test]
fn special_patterns_match_their_definitions() {
    assert_pattern("arrow,rows=4", &[vec![0, 1, 2, 3], vec![0, 1], vec![0, 2], vec![0, 3]]);
    assert_pattern("diagonal,rows=3", &[vec![0], vec![1], vec![2]]);
    assert_pattern("band,rows=4,width=3", &[vec![0, 1], vec![0, 1, 2], vec![1, 2, 3], vec![2, 3]]);
    assert_pattern("band,rows=3,width=2", &[vec![0, 1], vec![1, 2], vec![2]]);
    assert_pattern("band,rows=2,width=0", &[vec![], vec![]]);
    assert_pattern("band,rows=2,width=99", &[vec![0, 1], vec![0, 1]]);
    assert_eq!(make("empty,rows=5,cols=2").nnz(), 0);

    let holes = make("holes,rows=9,degree=4");
    assert!((0..9).all(|row| holes.view().row_length(row) == [0, 4][row % 2]));

    let hub = make("hub,rows=100,degree=2,hubs=3");
    let long = (0..100).filter(|&row| hub.view().row_length(row) == 50).count();
    assert_eq!((long, hub.nnz()), (3, 3 * 50 + 97 * 2));
}

#[test]
fn sizes_of_zero_give_no_nonzeros() {
    for spec in [
        "stencil5,n=0",
        "stencil7,n=0",
        "stencil27,n=0",
        "fem3,n=0",
        "road,n=0",
        "uniform,rows=0,degree=0",
        "band,rows=0,width=3",
        "hub,rows=0,degree=0,hubs=0",
        "arrow,rows=0",
        "diagonal,rows=0",
        "empty,rows=0",
        "holes,rows=0,degree=0",
        "rmat,scale=0,degree=0",
        "uniform,rows=4,degree=0,cols=0",
    ] {
        assert_eq!(make(spec).nnz(), 0, "{spec}");
    }
}

#[test]
fn rmat_row_lengths_are_skewed_and_the_degree_is_nearly_the_requested_one() {
    let matrix = make("rmat,scale=12,degree=16");
    let longest = (0..matrix.rows()).map(|row| matrix.view().row_length(row)).max().unwrap();
    assert!(longest > 20 * 16, "{longest}");
    assert!(matrix.nnz() > 4096 * 10 && matrix.nnz() <= 4096 * 16);
}

#[test]
fn stand_ins_have_a_note_that_they_are_synthetic() {
    let loaded = generate::<f64>("like,name=cant", 1, LIMIT).unwrap();
    assert_eq!((loaded.matrix.rows(), loaded.matrix.nnz()), (62451, 4007383));
    assert!(loaded.notes[0].contains("synthetic stand-in for cant, not the collection's matrix"));
}

#[test]
fn sizes_that_exceed_memory_or_overflow_are_refused_immediately() {
    for spec in [
        "stencil5,n=4294967295",
        "stencil7,n=3000000",
        "stencil27,n=1500",
        "fem3,n=2642245",
        "fem3,n=1000",
        "stencil5,n=18446744073709551615",
        "rmat,scale=31,degree=18446744073709551615",
        "rmat,scale=30,degree=16",
        "rmat,scale=99,degree=1",
        "road,n=18446744073709551615",
        "uniform,rows=18446744073709551615,degree=1",
        "uniform,rows=1000000000,degree=16",
        "band,rows=18446744073709551615,width=18446744073709551615",
        "band,rows=4000000000,width=4000000000",
        "hub,rows=4294967295,degree=1,hubs=4294967295",
        "arrow,rows=18446744073709551615",
        "diagonal,rows=18446744073709551615",
        "empty,rows=1099511627776",
        "empty,rows=18446744073709551615,cols=1",
        "empty,rows=1,cols=4294967296",
        "holes,rows=4000000000,degree=4000000000",
        "like,name=Cube_Coup_dt0",
    ] {
        let started = std::time::Instant::now();
        let refused = generate::<f64>(spec, 1, LIMIT);
        assert!(matches!(refused, Err(Error::DoesNotFit { .. } | Error::Usage(_))), "{spec}");
        assert!(started.elapsed().as_secs() < 2, "{spec} took {:?}", started.elapsed());
    }
}

#[test]
fn impossible_degrees_and_hub_counts_are_usage_errors() {
    for spec in [
        "uniform,rows=5,degree=6",
        "uniform,rows=9,degree=3,cols=2",
        "holes,rows=4,degree=5",
        "hub,rows=4,degree=1,hubs=5",
        "hub,rows=4,degree=5,hubs=1",
        "like,name=",
        "nothing",
        "",
    ] {
        assert!(matches!(generate::<f64>(spec, 1, LIMIT), Err(Error::Usage(_))), "{spec}");
    }
}

proptest! {
    #[test]
    fn no_specification_makes_a_generator_panic(text in "[a-z0-9,=:]{0,30}", kind in 0..KINDS.len(), key in 0..3usize, value: u64) {
        let _ = generate::<f32>(&text, 1, 1 << 16);
        let kind = &KINDS[kind];
        let keys: Vec<String> = kind.keys.iter().enumerate()
            .map(|(at, name)| format!("{}={}", name.name, if at == key { value } else { value % 50 })).collect();
        let _ = generate::<f32>(&format!("{},{}", kind.name, keys.join(",")), value, 1 << 16);
    }

    #[test]
    fn uniform_rows_have_the_requested_degree(rows in 0u64..60, cols in 1u64..60, share in 0.0f64..=1.0, seed: u64) {
        let degree = (cols as f64 * share) as u64;
        let spec = format!("uniform,rows={rows},degree={degree},cols={cols}");
        let matrix = generate::<f64>(&spec, seed, LIMIT).unwrap().matrix;
        prop_assert_eq!((matrix.rows() as u64, matrix.cols() as u64), (rows, cols));
        for row in 0..matrix.rows() {
            prop_assert_eq!(matrix.view().row_length(row) as u64, degree);
            prop_assert!(matrix.view().row(row).0.is_sorted_by(|a, b| a < b));
        }
    }
}

#[test]
fn a_pattern_is_that_of_the_matrix_with_values() {
    for spec in
        ["rmat,scale=9,degree=12", "stencil27,n=5,depth=9", "mixed,n=4", "road,n=300", "like,name=cant"]
    {
        let matrix = generate::<f64>(spec, 7, 1 << 30).unwrap().matrix;
        let pattern = generate_pattern::<f64>(spec, 7, 1 << 30).unwrap().matrix;
        let (matrix, pattern) = (matrix.view(), pattern.view());
        assert_eq!(matrix.row_pointers(), pattern.row_pointers(), "{spec}");
        assert_eq!(matrix.columns(), pattern.columns(), "{spec}");
        assert!(pattern.values().iter().all(|&value| value == 0.0), "{spec}");
        assert!(!pattern.has_equal_values(), "{spec}: zeros that stand for other values");
    }
}

#[test]
fn values_do_not_count_in_the_memory_of_a_pattern() {
    let limit = 13_000 * 4 + 1001 * 8;
    assert!(generate::<f64>("uniform,rows=1000,degree=13", 1, limit).is_err());
    assert!(generate_pattern::<f64>("uniform,rows=1000,degree=13", 1, limit).is_ok());
}

#[test]
fn a_power_law_graph_equals_its_sorted_edges() {
    let (scale, degree, seed) = (8u64, 9u64, 5u64);
    let stream = crate::matrix::random::mix(!seed);
    let mut edges: Vec<u64> = (0..degree << scale)
        .map(|edge| scattered::draw_edge(&mut crate::matrix::random::Sequence::new(stream, edge), scale))
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let matrix = generate::<f64>("rmat,scale=8,degree=9", seed, 1 << 30).unwrap().matrix;
    let view = matrix.view();
    let found = (0..view.rows())
        .flat_map(|row| view.row(row).0.iter().map(move |&column| (row as u64) << 32 | u64::from(column)));
    assert_eq!(found.collect::<Vec<_>>(), edges);
}

#[test]
fn a_tower_of_equal_sides_is_a_cube() {
    let cube = generate::<f64>("stencil27,n=6", 1, 1 << 30).unwrap().matrix;
    let tower = generate::<f64>("stencil27,n=6,depth=6", 1, 1 << 30).unwrap().matrix;
    assert_eq!(cube.view().columns(), tower.view().columns());
    let tall = generate::<f64>("stencil27,n=3,depth=50", 1, 1 << 30).unwrap().matrix;
    assert_eq!((tall.rows(), tall.nnz()), (450, 7 * 7 * 148));
}
