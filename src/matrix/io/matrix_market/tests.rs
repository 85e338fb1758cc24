//! Random matrices, written in every accepted way and cut at every place, against an obviously right construction.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::stream::read_gzip_cut;
use super::{Cuts, read_plain_cut};
use crate::error::{Error, Result};
use crate::matrix::csr::Csr;
use crate::matrix::info::Loaded;
use crate::matrix::io::ReadOptions;
use crate::matrix::scalar::Scalar;

const PATH: &str = "random.mtx";

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn read_both_ways<T: Scalar>(text: &[u8], threads: usize, cuts: Cuts) -> [Result<Loaded<T>>; 2] {
    let (plain, gzip) = (file_of(text), file_of(&packed(text)));
    let options = ReadOptions::default();
    with_threads(threads, || {
        [
            read_plain_cut(&plain, Path::new(PATH), &options, cuts),
            read_gzip_cut(&gzip, Path::new(PATH), &options, cuts),
        ]
    })
}

/// What one listed entry means, by the definition of each symmetry.
fn expanded(symmetry: &str, (row, column, value): (usize, usize, f64)) -> Vec<(usize, usize, f64)> {
    match symmetry {
        "general" => vec![(row, column, value)],
        _ if row == column => vec![(row, column, value)],
        "skew-symmetric" => vec![(row, column, value), (column, row, -value)],
        _ => vec![(row, column, value), (column, row, value)],
    }
}

/// Every place in order, with the sum of what was listed there, in the order it was listed.
fn obviously_right(
    symmetry: &str,
    entries: &[(usize, usize, f64)],
) -> (BTreeMap<(usize, usize), f64>, usize) {
    let mut places = BTreeMap::new();
    let mut duplicates = 0;
    for entry in entries {
        for (index, (row, column, value)) in expanded(symmetry, *entry).into_iter().enumerate() {
            let known = places.contains_key(&(row, column));
            duplicates += usize::from(known && index == 0);
            places.entry((row, column)).and_modify(|sum| *sum += value).or_insert(value);
        }
    }
    (places, duplicates)
}

fn places_of<T: Scalar>(matrix: &Csr<T>) -> Vec<((usize, usize), u64)> {
    let view = matrix.view();
    (0..matrix.rows())
        .flat_map(|row| {
            let (columns, values) = view.row(row);
            let entry =
                move |(column, value): (&u32, &T)| ((row, *column as usize), value.to_f64().to_bits());
            columns.iter().zip(values).map(entry).collect::<Vec<_>>()
        })
        .collect()
}

#[derive(Debug, Clone)]
struct Case {
    rows: usize,
    cols: usize,
    symmetry: &'static str,
    entries: Vec<(usize, usize, f64)>,
    text: String,
}

fn spelled(field: &str, value: f64) -> String {
    match field {
        "pattern" => String::new(),
        "real" => format!("{value:e}"),
        _ => format!("{value}"),
    }
}

prop_compose! {
    fn case()(
        rows in 0usize..40,
        cols in 0usize..40,
        field in prop::sample::select(vec!["real", "integer", "pattern"]),
        symmetry in prop::sample::select(vec!["general", "symmetric", "skew-symmetric", "hermitian"]),
    )(
        // Every entry with the blanks, the line end and the lines between it and the next.
        raw in prop::collection::vec((any::<(u32, u32, i32)>(), 0usize..3, 0usize..4, any::<bool>()), 0..120),
        rows in Just(rows), cols in Just(cols), field in Just(field), symmetry in Just(symmetry),
        last_line_feed in any::<bool>(),
    ) -> Case {
        let cols = if symmetry == "general" { cols } else { rows };
        let mut entries = Vec::new();
        let mut body = String::new();
        for ((row, column, value), blanks, between, carriage) in raw {
            if rows == 0 || cols == 0 {
                continue;
            }
            let (mut row, mut column) = (row as usize % rows, column as usize % cols);
            if symmetry != "general" && row < column {
                (row, column) = (column, row);
            }
            let value = match field {
                "pattern" => 1.0,
                "integer" => f64::from(value),
                _ => f64::from(value) / 1024.0,
            };
            if symmetry == "skew-symmetric" && row == column {
                continue;
            }
            entries.push((row, column, value));
            let blank = [" ", "\t", "  \t "][blanks];
            body += [" ", "", "", ""][between];
            body += &format!("{}{blank}{}{blank}{}", row + 1, column + 1, spelled(field, value));
            body += if carriage { " \r\n" } else { "\n" };
            body += ["", "\n", "% comment\n", ""][between];
        }
        if !last_line_feed && body.ends_with('\n') {
            body.pop();
        }
        let head = format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n% a\n");
        let text = format!("{head}{rows} {cols} {}\n{body}", entries.len());
        Case { rows, cols, symmetry, entries, text }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_spelling_cut_anywhere_on_any_threads_gives_the_same_matrix(
        case in case(), threads in 1usize..4, span_bytes in 1u64..200, block_bytes in 1usize..100, bucket_entries in 1u64..50,
    ) {
        let cuts = Cuts { span_bytes, block_bytes, bucket_entries };
        let (places, duplicates) = obviously_right(case.symmetry, &case.entries);
        let expected: Vec<_> = places.iter().map(|(place, value)| (*place, value.to_bits())).collect();
        for outcome in read_both_ways::<f64>(case.text.as_bytes(), threads, cuts) {
            let loaded = outcome.unwrap();
            prop_assert_eq!((loaded.matrix.rows(), loaded.matrix.cols()), (case.rows, case.cols));
            prop_assert_eq!(places_of(&loaded.matrix), expected.clone());
            prop_assert_eq!(loaded.info.stored_entries, case.entries.len() as u64);
            let told = loaded.notes.iter().find(|note| note.contains("duplicate"));
            let counted = told.map_or(0, |note| note.split(' ').next().unwrap().parse().unwrap());
            prop_assert_eq!(counted, duplicates);
        }
    }

    #[test]
    fn the_first_bad_line_is_named_wherever_the_text_is_cut(
        lines in 1usize..60, bad in prop::collection::btree_set(0usize..60, 1..4), threads in 1usize..4,
        span_bytes in 1u64..200, block_bytes in 1usize..100,
    ) {
        let bad: Vec<usize> = bad.into_iter().map(|line| line % lines).collect();
        let first = *bad.iter().min().unwrap();
        let body: String = (0..lines)
            .map(|line| if bad.contains(&line) { "9 1 1.5\n".into() } else { format!("{} 1 1.5\n", line % 3 + 1) })
            .collect();
        let text = format!("%%MatrixMarket matrix coordinate real general\n3 1 {lines}\n{body}");
        let cuts = Cuts { span_bytes, block_bytes, bucket_entries: 5 };
        for outcome in read_both_ways::<f32>(text.as_bytes(), threads, cuts) {
            let message = outcome.unwrap_err().to_string();
            let place = format!("{PATH}:{}: row 9 is outside 1..=3", first + 3);
            prop_assert!(message.starts_with(&place), "{}", message);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        body in prop::collection::vec(prop::sample::select(b"0123456789 .-+eEdD\n\n\r\t%x\0\xff,".to_vec()), 0..200),
        head in 0usize..4, span_bytes in 1u64..100,
    ) {
        let heads = [
            "", "%%MatrixMarket matrix coordinate real general\n", "%%MatrixMarket matrix coordinate real general\n9 9 2\n",
            "%%MatrixMarket matrix coordinate integer symmetric\n9 9 3\n",
        ];
        let text = [heads[head].as_bytes(), &body].concat();
        let cuts = Cuts { span_bytes, block_bytes: 7, bucket_entries: 1 };
        let [plain, gzip] = read_both_ways::<f64>(&text, 2, cuts);
        match (plain, gzip) {
            (Ok(plain), Ok(gzip)) => prop_assert_eq!(places_of(&plain.matrix), places_of(&gzip.matrix)),
            (Err(plain), Err(gzip)) => prop_assert_eq!(plain.exit_code(), gzip.exit_code()),
            (plain, gzip) => prop_assert!(false, "plain {:?}, gzip {:?}", plain.is_ok(), gzip.is_ok()),
        }
    }
}

#[test]
fn duplicates_are_summed_in_file_order() {
    // In any other order the sum is another: 1e16 + 1 + 1 rounds twice, 1 + 1 + 1e16 not at all.
    let text = b"%%MatrixMarket matrix coordinate real general\n1 2 4\n1 2 1e16\n1 1 7\n1 2 1\n1 2 1\n";
    for span_bytes in 1..80 {
        let cuts = Cuts { span_bytes, block_bytes: 5, bucket_entries: 1 };
        for outcome in read_both_ways::<f64>(text, 2, cuts) {
            let loaded = outcome.unwrap();
            assert_eq!(loaded.matrix.view().values(), &[7.0, 1e16 + 1.0 + 1.0]);
            assert_ne!(1e16 + 1.0 + 1.0, 1.0 + 1.0 + 1e16);
        }
    }
}

#[test]
fn memory_beyond_the_limit_is_refused_while_the_text_streams() {
    // Both triangles of a declared 4000 entries: the head alone does not tell that they do not fit.
    let body: String = (1..4001).map(|row| format!("{} 1 1.5\n", row + 1)).collect();
    let text = format!("%%MatrixMarket matrix coordinate real symmetric\n4001 4001 4000\n{body}");
    let file = file_of(&packed(text.as_bytes()));
    let options = ReadOptions { memory_limit_bytes: 4002 * 8 + 4000 * 12, ..ReadOptions::default() };
    let cuts = Cuts { span_bytes: 100, block_bytes: 1000, bucket_entries: 100 };
    let outcome = read_gzip_cut::<f64>(&file, Path::new(PATH), &options, cuts);
    assert!(matches!(outcome, Err(Error::DoesNotFit { .. })));
}
