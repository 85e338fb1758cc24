//! Distributed reading against the reader of a single process, with ranks that are threads.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::device::network::on_thread_ranks;
use crate::matrix::Csr;
use crate::matrix::generate::tests::EXAMPLES;
use crate::matrix::generate::{KINDS, generate};
use crate::matrix::io::cache::write_cache;
use crate::matrix::io::npz_write::write_npz;
use crate::matrix::io::read;
use crate::matrix::io::write::write_matrix_market;

const LIMIT: u64 = 1 << 30;

fn division(speeds: &[f64]) -> Division {
    Division::for_product(speeds.to_vec(), 4, 8)
}

/// Rows, columns and the bits of the values, row by row.
fn listed<T: Scalar>(matrix: &Csr<T>) -> Vec<Vec<(u32, u64)>> {
    let view = matrix.view();
    let row = |row: usize| {
        let (columns, values) = view.row(row);
        columns.iter().zip(values).map(|(column, value)| (*column, value.to_f64().to_bits())).collect()
    };
    (0..view.rows()).map(row).collect()
}

/// Asserts that the ranks together have what a single process has.
fn assert_same<T: Scalar>(parts: Vec<Result<RankMatrix<T>>>, whole: &Loaded<T>) {
    let parts: Vec<RankMatrix<T>> = parts.into_iter().map(|part| part.unwrap()).collect();
    let together: Vec<_> = parts.iter().flat_map(|part| listed(&part.matrix)).collect();
    assert_eq!(together, listed(&whole.matrix));
    for (rank, part) in parts.iter().enumerate() {
        assert_eq!(part.boundaries, parts[0].boundaries);
        assert_eq!((part.boundaries[rank + 1] - part.boundaries[rank]) as usize, part.matrix.rows());
        assert_eq!((part.rows(), part.nnz), (whole.matrix.rows() as u64, whole.matrix.nnz() as u64));
        assert_eq!((part.matrix.cols(), &part.info), (whole.matrix.cols(), &whole.info));
        assert_eq!(part.notes, whole.notes);
    }
}

fn written(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn generated_rows_are_those_of_one_process_for_every_kind() {
    assert_eq!(EXAMPLES.len(), KINDS.len());
    for spec in EXAMPLES {
        let whole = generate::<f64>(spec, 7, LIMIT).unwrap();
        for size in 1..=5 {
            let speeds = &[1.0, 3.0, 1.0, 0.5, 2.0][..size];
            assert_same(
                on_thread_ranks(size, |ranks| generate_rows::<f64>(ranks, spec, 7, &division(speeds), LIMIT)),
                &whole,
            );
        }
    }
}

#[test]
fn a_generator_that_is_refused_is_refused_on_every_rank_with_the_error_of_one_process() {
    for spec in ["stencil27,n=100000", "uniform,rows=3,degree=9", "nothing", "rmat,scale=40,degree=1"] {
        let expected = generate::<f64>(spec, 1, LIMIT).unwrap_err();
        for outcome in
            on_thread_ranks(3, |ranks| generate_rows::<f64>(ranks, spec, 1, &division(&[1.0; 3]), LIMIT))
        {
            let error = outcome.unwrap_err();
            assert_eq!(error.exit_code(), expected.exit_code(), "{error}");
            if !matches!(error, Error::DoesNotFit { .. }) {
                assert_eq!(error.to_string(), expected.to_string());
            }
        }
    }
}

#[test]
fn rows_of_a_cache_are_those_of_one_process_in_both_precisions() {
    let folder = tempfile::tempdir().unwrap();
    // The last has row pointers, columns and values of several blocks each; the first row pointer of a block is its last.
    for (index, spec) in
        ["hub,rows=300,degree=3,hubs=2", "empty,rows=7", "diagonal,rows=262144"].iter().enumerate()
    {
        let path = folder.path().join(format!("{index}.rlm"));
        let matrix = generate::<f64>(spec, 3, LIMIT).unwrap();
        write_cache(&path, &matrix.matrix.view(), &matrix.info, None).unwrap();
        let options = ReadOptions { memory_limit_bytes: LIMIT, ..ReadOptions::default() };
        let (double, single) = (read::<f64>(&path, &options).unwrap(), read::<f32>(&path, &options).unwrap());
        for size in 1..=5 {
            let division = division(&vec![1.0; size]);
            assert_same(
                on_thread_ranks(size, |ranks| read_rows::<f64>(ranks, &path, &division, &options)),
                &double,
            );
            assert_same(
                on_thread_ranks(size, |ranks| read_rows::<f32>(ranks, &path, &division, &options)),
                &single,
            );
        }
    }
}

#[test]
fn a_changed_byte_of_a_cache_is_found_by_the_ranks_as_by_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = generate::<f64>("band,rows=60,width=3", 3, LIMIT).unwrap();
    let path = folder.path().join("a.rlm");
    write_cache(&path, &matrix.matrix.view(), &matrix.info, None).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let path = written(&folder, "changed.rlm", &changed);
        let options = ReadOptions::default();
        // Bytes between the arrays belong to nothing.
        let expected = read::<f64>(&path, &options).map(drop).map_err(|error| error.to_string());
        for outcome in
            on_thread_ranks(3, |ranks| read_rows::<f64>(ranks, &path, &division(&[1.0; 3]), &options))
        {
            assert_eq!(outcome.map(drop).map_err(|error| error.to_string()), expected, "byte {at}");
        }
    }
}

#[derive(Debug, Clone)]
struct Text {
    text: String,
    ranks: usize,
    speeds: Vec<f64>,
}

prop_compose! {
    fn text()(
        rows in 1usize..40,
        cols in 1usize..40,
        field in prop::sample::select(vec!["real", "integer", "pattern"]),
        symmetry in prop::sample::select(vec!["general", "symmetric", "skew-symmetric", "hermitian"]),
        raw in prop::collection::vec((any::<(u32, u32, i32)>(), 0usize..6, any::<bool>()), 0..120),
        upper in prop::bool::weighted(0.1),
        damage in prop::option::weighted(0.3, (0usize..120, 0usize..5)),
        speeds in prop::collection::vec(0.2f64..5.0, 1..6),
    ) -> Text {
        let cols = if symmetry == "general" { cols } else { rows };
        let mut lines = Vec::new();
        for ((row, column, value), between, carriage) in raw {
            let (mut row, mut column) = (row as usize % rows, column as usize % cols);
            if symmetry != "general" && row < column && !upper {
                (row, column) = (column, row);
            }
            if symmetry == "skew-symmetric" && row == column {
                continue;
            }
            let value = match field {
                "pattern" => String::new(),
                "integer" => format!("{value}"),
                _ => format!("{:e}", f64::from(value) / 1024.0),
            };
            let end = if carriage { " \r\n" } else { "\n" };
            let more = ["", "", "", "\n", "% comment\n", "   \n"][between];
            lines.push(format!("{} {} {value}{end}{more}", row + 1, column + 1));
        }
        let mut count = lines.len();
        if let Some((at, kind)) = damage {
            match kind {
                0 => count += 1,
                1 => count = count.saturating_sub(1),
                _ if lines.is_empty() => {}
                _ => {
                    let at = at % lines.len();
                    lines[at] = ["0 1 1\n", "1 1 1 1 1\n", "x\n"][kind - 2].into();
                }
            }
        }
        let body = lines.concat();
        let text = format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n% a\n{rows} {cols} {count}\n{body}");
        Text { text, ranks: speeds.len(), speeds }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn ranks_read_any_matrix_market_text_as_one_process_does(case in text()) {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, "a.mtx", case.text.as_bytes());
        let options = ReadOptions::default();
        let parts = on_thread_ranks(case.ranks, |ranks| read_rows::<f64>(ranks, &path, &division(&case.speeds), &options));
        match read::<f64>(&path, &options) {
            Ok(whole) => assert_same(parts, &whole),
            Err(expected) => {
                for part in parts {
                    let error = part.unwrap_err();
                    prop_assert_eq!(error.exit_code(), expected.exit_code());
                    // With both triangles listed in several places, any of them may be named.
                    let is_any = expected.to_string().contains("both listed");
                    prop_assert!(
                        error.to_string() == expected.to_string() || (is_any && error.to_string().contains("both listed")),
                        "{} instead of {}", error, expected
                    );
                }
            }
        }
    }
}

#[test]
fn a_rank_without_the_file_is_named_with_its_host_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(&folder, "a.mtx", b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.5\n");
    let outcomes = on_thread_ranks(3, |ranks| {
        let own = if ranks.rank() == 1 { folder.path().join("missing.mtx") } else { path.clone() };
        read_rows::<f64>(ranks, &own, &division(&[1.0; 3]), &ReadOptions::default())
    });
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().starts_with("rank 1 on "), "{error}");
        assert!(error.to_string().contains("missing.mtx: No such file"), "{error}");
    }
    // A file that no rank has is no rank's fault.
    let missing = folder.path().join("missing.mtx");
    for outcome in on_thread_ranks(2, |ranks| {
        read_rows::<f64>(ranks, &missing, &division(&[1.0; 2]), &ReadOptions::default())
    }) {
        assert!(!outcome.unwrap_err().to_string().contains("rank"));
    }
}

#[test]
fn ranks_that_see_different_files_and_damaged_files_for_one_reader_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.5\n";
    let (one, two) = (
        written(&folder, "1.mtx", text.as_bytes()),
        written(&folder, "2.mtx", format!("{text}\n").as_bytes()),
    );
    let outcomes = on_thread_ranks(2, |ranks| {
        let own = [&one, &two][ranks.rank()];
        read_rows::<f64>(ranks, own, &division(&[1.0; 2]), &ReadOptions::default())
    });
    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap_err().to_string().contains("rank 1 on ")));
    let packed = written(&folder, "a.mtx.gz", &[0x1f, 0x8b, 8, 0]);
    for outcome in on_thread_ranks(2, |ranks| {
        read_rows::<f64>(ranks, &packed, &division(&[1.0; 2]), &ReadOptions::default())
    }) {
        let expected = read::<f64>(&packed, &ReadOptions::default()).unwrap_err();
        let error = outcome.unwrap_err();
        assert_eq!((error.exit_code(), error.to_string()), (3, expected.to_string()));
    }
}

#[test]
fn compressed_files_that_rank_0_reads_give_every_rank_the_rows_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = generate::<f64>("hub,rows=300,degree=3,hubs=2", 3, LIMIT).unwrap();
    let empty = generate::<f64>("empty,rows=7", 3, LIMIT).unwrap();
    // More bytes than a message has, so that the rows of a rank arrive in several parts.
    let large = generate::<f64>("diagonal,rows=2000000", 3, LIMIT).unwrap();
    let path = |name: &str| folder.path().join(name);
    write_npz(&path("a.npz"), &matrix.matrix.view(), &matrix.info, None).unwrap();
    write_npz(&path("empty.npz"), &empty.matrix.view(), &empty.info, None).unwrap();
    write_npz(&path("large.npz"), &large.matrix.view(), &large.info, None).unwrap();
    write_matrix_market(&path("a.mtx.gz"), &matrix.matrix.view(), &matrix.info, None).unwrap();
    assert_eq!(std::fs::read(path("a.mtx.gz")).unwrap()[..2], [0x1f, 0x8b]);
    for name in ["a.npz", "empty.npz", "a.mtx.gz", "large.npz"] {
        let (path, options) =
            (path(name), ReadOptions { memory_limit_bytes: LIMIT, ..ReadOptions::default() });
        let mut whole = read::<f64>(&path, &options).unwrap();
        whole.notes.push(
            "rank 0 read the whole file; ranks read their own rows of a .rlm file, which is faster".into(),
        );
        for size in if name == "large.npz" { 2..3 } else { 1..6 } {
            let division = division(&[1.0, 3.0, 1.0, 0.5, 2.0][..size]);
            assert_same(
                on_thread_ranks(size, |ranks| read_rows::<f64>(ranks, &path, &division, &options)),
                &whole,
            );
        }
        // Rank 0 has too little memory for all of A.
        let options = ReadOptions { memory_limit_bytes: 40, ..options };
        for outcome in
            on_thread_ranks(2, |ranks| read_rows::<f64>(ranks, &path, &division(&[1.0; 2]), &options))
        {
            assert_eq!(
                outcome.unwrap_err().exit_code(),
                read::<f64>(&path, &options).unwrap_err().exit_code(),
                "{name}"
            );
        }
    }
}
