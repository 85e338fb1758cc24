//! Lines, counts, indices and sizes.

use rowloom::Error;
use rowloom::internal::matrix::io::{ReadOptions, read, read_dense};

use super::{ARRAY, REAL, accepted, dense_rows, given, packed, refused};

#[test]
fn line_endings_and_blanks_of_any_kind_are_accepted_without_a_note() {
    let plain = dense_rows(&accepted(format!("{REAL}2 2 2\n1 1 3\n2 1 -4.5\n")));
    assert_eq!(plain, [[3.0, 0.0], [-4.5, 0.0]]);
    for text in [
        format!("{REAL}2 2 2\n1 1 3\n2 1 -4.5"),
        format!("{REAL}2 2 2\n1 1 3\n2 1 -4.5\n").replace('\n', "\r\n"),
        format!("{REAL}2\t2\t2\n1\t1\t3\n2 \t 1 \t -4.5\n"),
        format!("{REAL}2 2 2  \n1 1 3 \t\n2 1 -4.5  \r\n"),
        format!("{REAL}\n2 2 2\n\n1 1 3\n  \n\r\n2 1 -4.5\n\n\n"),
        format!("{REAL}% comment\n%\n\n   \n%% more\n2 2 2\n1 1 3\n2 1 -4.5\n"),
        format!("{REAL}2 2 2\n1 1 3\n2 1 -4.5\n").to_ascii_uppercase(),
    ] {
        let loaded = accepted(&text);
        assert_eq!(dense_rows(&loaded), plain, "{text:?}");
        assert!(loaded.notes.is_empty(), "{text:?}: {:?}", loaded.notes);
    }
}

#[test]
fn carriage_returns_alone_are_refused() {
    refused(format!("{REAL}2 2 1\n1 1 3\n").replace('\n', "\r"), 1, "carriage return (CR) alone");
    refused(format!("{REAL}2 2 2\n1 1 3\r2 2 4\n"), 3, "carriage return (CR) alone");
}

#[test]
fn minor_deviations_are_accepted_with_a_note() {
    for (text, note) in [
        (format!("\u{feff}{REAL}1 1 1\n1 1 3\n"), "the file starts with a UTF-8 byte order mark"),
        (format!("{}1 1 1\n1 1 3\n", &REAL[1..]), "the banner has one % instead of two"),
        (format!(" {REAL}1 1 1\n1 1 3\n"), "1 line starts with blanks"),
        (format!("{REAL}  1 1 1\n\t1 1 3\n"), "2 lines start with blanks"),
        (format!("{REAL}1 1 1\n% a\n1 1 3\n  % b\n"), "2 comments are among the entries"),
    ] {
        let loaded = accepted(&text);
        assert_eq!(dense_rows(&loaded), [[3.0]]);
        assert_eq!(loaded.notes, [note]);
    }
}

#[test]
fn extra_words_and_wrong_counts_are_refused() {
    refused(format!("{REAL}2 2 2\n1 1 3\n2 2 4 5\n"), 4, "'5' follows the entry");
    refused(format!("{REAL}2 2 2\n1 1 3\n2 2 4 % why\n"), 4, "'%' follows the entry");
    refused(format!("{REAL}2 2 1\n1 1 3\n2 2 4\n"), 2, "declares 1 entries but more follow");
    refused(packed(format!("{REAL}2 2 1\n1 1 3\n2 2 4\n")), 2, "declares 1 entries but more follow");
    refused(format!("{REAL}2 2 3\n1 1 3\n2 2 4.000000000\n"), 2, "declares 3 entries but only 2 follow");
    refused(packed(format!("{REAL}2 2 3\n1 1 3\n2 2 4\n")), 2, "declares 3 entries but only 2 follow");
    refused(format!("{REAL}2 2 2\n1 1 3.000\n2 2\n"), 4, "has no value");
    refused(format!("{REAL}2 2 2\n1 1 3.000\n2       \n"), 4, "row and column are needed");
    refused(format!("{REAL}2 2\n1 1 3\n"), 2, "needs rows, columns and entries, but has 2 words");
    refused(format!("{REAL}2 2 1 1\n1 1 3\n"), 2, "needs rows, columns and entries, but has 4 words");
}

#[test]
fn a_file_that_is_not_a_matrix_is_refused() {
    refused("", None, "is empty");
    refused(REAL, 1, "ends before its size line");
    refused(format!("{REAL}% comment\n\n"), 3, "ends before its size line");
    for page in ["<!DOCTYPE html>\n<html>", "\n\n<html>\n", "  <HTML><head>", "\u{feff}<!doctype html>"] {
        refused(page, 1, "looks like HTML");
    }
    refused(format!("\n{REAL}1 1 1\n1 1 3\n"), 1, "the first line is '', not a %%MatrixMarket banner");
    refused("1 1 1\n1 1 3\n", 1, "not a %%MatrixMarket banner");
    refused(b"\xff\xfe%\0%\0", 1, "not a %%MatrixMarket banner");
}

#[test]
fn indices_outside_the_matrix_are_refused() {
    let with = |row: &str, column: &str| format!("{REAL}2 3 2\n1 1 1\n{row} {column} 5\n");
    refused(with("0", "1"), 4, "row 0 is outside 1..=2");
    refused(with("1", "0"), 4, "column 0 is outside 1..=3");
    refused(with("-1", "1"), 4, "row '-1' is negative");
    refused(with("3", "1"), 4, "row 3 is outside 1..=2; the file or its size line is damaged");
    refused(with("2", "4"), 4, "column 4 is outside 1..=3");
    refused(with("18446744073709551617", "1"), 4, "row '18446744073709551617' is beyond 2^64");
    refused(with("1", "36893488147419103233"), 4, "column '36893488147419103233' is beyond 2^64");
    refused(with("1.0", "1"), 4, "row '1.0' is not a whole number");
    refused(with("1", "1e0"), 4, "column '1e0' is not a whole number");
    assert_eq!(accepted(with("00000000000000000000002", "1")).matrix.nnz(), 2);
}

#[test]
fn impossible_sizes_are_refused() {
    refused(
        format!("{REAL}18446744073709551616 1 0\n"),
        2,
        "number of rows: '18446744073709551616' is beyond",
    );
    refused(format!("{REAL}1 -1 0\n"), 2, "number of columns: '-1' is negative");
    refused(format!("{REAL}1 1 -1\n"), 2, "number of entries: '-1' is negative");
    refused(format!("{REAL}1 1 99999999999999999999\n"), 2, "beyond 2^64");
    refused(format!("{REAL}1.0 1 0\n"), 2, "not a whole number");
    refused(format!("{REAL}1 4294967296 0\n"), 2, "4294967296 columns are beyond");
}

#[test]
fn more_entries_than_bytes_are_refused_before_allocating() {
    refused(format!("{REAL}9 9 1000000000000000\n1 1 1\n"), 2, "has room for 1 at most");
    refused(format!("{REAL}9 9 3\n1 1 1\n2 2 2"), 2, "has room for 2 at most");
    assert_eq!(accepted(format!("{REAL}9 9 2\n1 1 1\n2 2 2")).matrix.nnz(), 2);
    let pattern = REAL.replace("real", "pattern");
    assert_eq!(accepted(format!("{pattern}9 9 2\n1 1\n2 2")).matrix.nnz(), 2);
    refused(format!("{pattern}9 9 3\n1 1\n2 2"), 2, "has room for 2 at most");
    let array = given("x.mtx", format!("{ARRAY}3 1\n1\n2"));
    let error = read_dense::<f64>(&array.path, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("x.mtx:2: the size line declares 3 entries"), "{error}");
    refused(packed(format!("{REAL}9 9 1000000000000000\n1 1 1\n")), 2, "at most");
}

#[test]
fn sizes_beyond_the_memory_limit_are_refused_before_allocating() {
    let options = ReadOptions { memory_limit_bytes: 1 << 30, ..ReadOptions::default() };
    let text = format!("{REAL}1099511627776 1 1\n1 1 1\n");
    for bytes in [text.clone().into_bytes(), packed(&text)] {
        let given = given("a.mtx", bytes);
        match read::<f64>(&given.path, &options) {
            Err(Error::DoesNotFit { needed_bytes, limit_bytes, .. }) => {
                assert_eq!(limit_bytes, 1 << 30);
                assert!(needed_bytes > 8 << 40);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn duplicates_are_summed_and_counted() {
    let loaded = accepted(format!("{REAL}2 2 4\n1 1 3\n2 2 1\n1 1 4\n1 1 0.5\n"));
    assert_eq!(dense_rows(&loaded), [[7.5, 0.0], [0.0, 1.0]]);
    assert_eq!(loaded.notes, ["2 duplicate entries were added to the earlier ones"]);
    assert_eq!((loaded.matrix.nnz(), loaded.info.stored_entries), (2, 4));
}

#[test]
fn bytes_that_are_not_text_are_accepted_in_comments_only() {
    let comment = [REAL.as_bytes(), b"% \xff\xfe caf\xe9\n1 1 1\n% \xff\n1 1 3\n"].concat();
    assert_eq!(dense_rows(&accepted(comment)), [[3.0]]);
    refused([REAL.as_bytes(), b"1 1 1\n1 1 3\xff\n"].concat(), 3, "byte 0xff is not text");
    refused([REAL.as_bytes(), b"1 1 1\n\xa01 1 3\n"].concat(), 3, "byte 0xa0 is not text");
    refused([REAL.as_bytes(), b"1 1 1\n1 1 3\0\n"].concat(), 3, "a NUL byte among the entries");
    refused([REAL.as_bytes(), b"1 1 1\n", &[0; 10_000][..]].concat(), 3, "a NUL byte among the entries");
}

#[test]
fn a_comment_of_five_megabytes_is_skipped() {
    let long = "x".repeat(5_000_000);
    let text = format!("{REAL}%{long}\n2 2 2\n1 1 3\n%{long}\n2 2 4\n%{long}");
    for bytes in [text.clone().into_bytes(), packed(&text)] {
        let loaded = accepted(bytes);
        assert_eq!(dense_rows(&loaded), [[3.0, 0.0], [0.0, 4.0]]);
        assert_eq!(loaded.notes, ["2 comments are among the entries"]);
    }
    refused(format!("{REAL}%{long}\n2 2 2\n1 1 3\n%{long}\n9 2 4\n"), 6, "row 9 is outside");
}
