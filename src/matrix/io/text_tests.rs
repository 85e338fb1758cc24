//! Text is read as each number alone would be, whatever the spans; damaged text is refused by line.

use proptest::prelude::*;

use super::*;
use crate::error::Advice;

fn read(text: &str) -> Result<TextMatrix<f64>> {
    read_bytes("a.txt", text.as_bytes(), &ReadOptions::default(), SPAN_BYTES)
}

fn rows(matrix: &TextMatrix<f64>) -> Vec<Vec<f64>> {
    (0..matrix.values.rows()).map(|row| matrix.values.row(row).to_vec()).collect()
}

#[test]
fn blanks_or_commas_separate_numbers_of_any_spelling() {
    let expected = vec![vec![1.0, -2.5e-3, 300.0], vec![0.0, 5.0, 0.5]];
    for text in [
        "1 -2.5e-3 3.0E+002\n0 5. .5\n",
        "1,-2.5e-3,3.0E+002\n0,5.,.5",
        "# a comment\r\n\r\n  1 ,\t-2.5D-3 , 3e2  \r\n% another\r\n0.0e0,+5,0.5\r\n\r\n",
        "\u{feff}1\t-0.0025\t300\n\n\n0\t5\t5e-1",
    ] {
        assert_eq!(rows(&read(text).unwrap()), expected, "{text:?}");
    }
    assert_eq!(rows(&read("7").unwrap()), [[7.0]]);
}

#[test]
fn semicolons_separate_numbers_and_leave_commas_to_decimals() {
    let expected = vec![vec![1.5, -2500.0], vec![0.25, 4.0]];
    for text in [
        "1,5;-2,5e3\n0,25;4\n",
        "1.5;-2.5e3\n0.25;4\n",
        "1,5\t-2,5e3\n0,25\t4\n",
        "# a;b\n1,5 ; -2500\r\n,25;4,\r\n",
    ] {
        assert_eq!(rows(&read(text).unwrap()), expected, "{text:?}");
    }
    assert_eq!(read("1,5;2\n").unwrap().notes, ["commas are decimal marks"]);
    assert_eq!(
        read("1,5;2.500\n3,5;1.0\n").unwrap().notes,
        ["commas are decimal marks, and so are 2 points: no mark separates thousands"]
    );
    assert!(read("1.5;2\n").unwrap().notes.is_empty());
    // Without semicolons and tabs a comma separates.
    assert_eq!(rows(&read("1,5\n").unwrap()), [[1.0, 5.0]]);
}

#[test]
fn numbers_in_quotation_marks_are_read() {
    for (text, expected) in [
        ("\"id\";\"val\"\n1;\"2,5\"\n\"2\";3,5\n", [[1.0, 2.5], [2.0, 3.5]]),
        ("\"1\",\"2.5\"\r\n\"2\",\"3.5\"\r\n", [[1.0, 2.5], [2.0, 3.5]]),
        ("\"1\"\t\"2,5\"\n\"2\"\t\"3,5\"\n", [[1.0, 2.5], [2.0, 3.5]]),
    ] {
        assert_eq!(rows(&read(text).unwrap()), expected, "{text:?}");
    }
    for (text, message) in [
        // 1.234 or 1234.
        ("1,\"1,234\"\n", "a.txt:1:3: value '\\\"1' is not a number"),
        (
            "a;b\n1;\"x\"\n",
            "a.txt:2:3: value '\\\"x\\\"' is not a number; column 1 (b) needs a number in every row: remove the column if it has text, write nan where a value is missing",
        ),
        ("1;\"2\n", "a.txt:1:3: value '\\\"2' is not a number"),
        ("1;\"\"\n", "a.txt:1:3: a number is missing: no digit is before or after a semicolon"),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), message, "{text:?}");
    }
}

#[test]
fn a_first_line_of_names_names_the_columns() {
    for (text, names) in [
        ("time,value\n1,2\n", vec!["time", "value"]),
        ("time value\n1 2\n", vec!["time", "value"]),
        ("\u{feff}# of today\n\n\"time, s\";\"value\"\r\n1,0;2,0\r\n", vec!["time, s", "value"]),
        ("time\tvalue of it\n1\t2\n", vec!["time", "value of it"]),
        (",value\n1,2\n", vec!["", "value"]),
    ] {
        let table = read(text).unwrap();
        assert_eq!(table.names, names, "{text:?}");
        assert_eq!(rows(&table), [[1.0, 2.0]], "{text:?}");
        assert_eq!(
            table.notes.iter().filter(|note| note.contains("names of 2 columns")).count(),
            1,
            "{text:?}"
        );
    }
    for (text, counts) in [
        ("a;b\n1,5;2,5;\n", "has 2 names, the first line of numbers 3 fields"),
        ("a;b\n1;2;3\n", "has 2 names, the first line of numbers 3 fields"),
        ("x\n1,5\n", "has 1 name, the first line of numbers 2 fields"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with("a.txt:1: this line") && error.contains(counts), "{text:?}: {error}");
    }
    assert!(read("1 2\n3 4\n").unwrap().names.is_empty());
    assert!(read("nan inf\n3 4\n").unwrap().names.is_empty(), "both are numbers");
}

#[test]
fn a_first_line_of_names_and_numbers_is_refused_unless_the_numbers_are_in_quotation_marks() {
    for (text, line, number) in
        [("date,2020,2021\n1,2,3\n", 1, "2020"), ("# of years\n\na\t2,5\n1\t2\n", 3, "2,5")]
    {
        let error = read(text).unwrap_err().to_string();
        let expected = format!("a.txt:{line}: this line has a name, ");
        assert!(error.starts_with(&expected) && error.contains(number), "{text:?}: {error}");
    }
    let table = read("date,\"2020\",\"2021\"\n1,2,3\n").unwrap();
    assert_eq!(
        (table.names.clone(), rows(&table)),
        (vec!["date".into(), "2020".into(), "2021".into()], vec![vec![1.0, 2.0, 3.0]])
    );
    // Numbers in quotation marks alone are numbers.
    assert!(read("\"1\",\"2\"\n1,2\n").unwrap().names.is_empty());
}

#[test]
fn damaged_text_is_refused_by_line_and_column() {
    for (text, message) in [
        ("", "a.txt: the file has no numbers"),
        ("\n# only a comment\n \r\n", "a.txt: the file has no numbers"),
        ("<html>\n", "a.txt:1: this looks like HTML, not a matrix; fetch the matrix file itself"),
        (
            "1 2\n3\n",
            "a.txt:2: the line has 1 number but line 1 has 2; all rows of a matrix are equally long",
        ),
        (
            "1 2\n\n3 4 5\n",
            "a.txt:3: the line has 3 numbers but line 1 has 2; all rows of a matrix are equally long",
        ),
        (
            "1,2\n3\n",
            "a.txt:2: the line has 1 number but line 1 has 2; all rows of a matrix are equally long",
        ),
        ("1,2\n3,\n", "a.txt:2:3: a number is missing: no digit is before or after a comma"),
        ("1,,2\n", "a.txt:1:3: a number is missing: no digit is before or after a comma"),
        ("1,2 3\n", "a.txt:1:5: a comma is missing before '3'; line 1 separates numbers by commas"),
        ("1,2\n3 44\n", "a.txt:2:3: a comma is missing before '44'; line 1 separates numbers by commas"),
        ("1 2\n3 1,5\n", "a.txt:2:3: value '1,5' is not a number; the decimal sign is a point"),
        (
            "1;2\n3,5;1.234,5\n",
            "a.txt:2:5: value '1.234,5' is not a number; a number has one decimal mark and no mark of thousands",
        ),
        ("1 x2\n", "a.txt:1:3: value 'x2' is not a number"),
        ("time value unit\n1 2\n", "a.txt:1:1: value 'time' is not a number"),
        ("time 7\n1 2\n", "a.txt:1:1: value 'time' is not a number"),
        (
            "time value\n1 2\n3 y\n",
            "a.txt:3:3: value 'y' is not a number; column 1 (value) needs a number in every row: remove the column if it has text, write nan where a value is missing",
        ),
        (
            "time,value\n1,2\n\n3\n",
            "a.txt:4: the line has 1 number but line 2 has 2; all rows of a matrix are equally long",
        ),
        ("1;2\n3;\n", "a.txt:2:3: a number is missing: no digit is before or after a semicolon"),
        (
            "1;2\n3 44\n",
            "a.txt:2:3: a semicolon is missing before '44'; line 1 separates numbers by semicolons",
        ),
        ("1 2\n3 4z\n", "a.txt:2:3: value '4z' is not a number"),
        ("1 1.5-102\n", "a.txt:1:3: value '1.5-102' is not a number; an exponent needs its E"),
        (
            "1 0x1p3\n",
            "a.txt:1:3: value '0x1p3' is not a number; hexadecimal numbers are not part of the format",
        ),
        ("1\n1e400\n", "a.txt:2:1: value '1e400' overflows f64"),
        (
            "1\r2\r",
            "a.txt:1: a carriage return (CR) alone is not a line end; convert the file to LF line ends",
        ),
        ("1 \u{0}2\n", "a.txt:1: there is a NUL byte among the entries; the file is damaged"),
        ("1 2\n3 é\n", "a.txt:2: byte 0xc3 is not text; the file is damaged"),
        ("1 2 # end\n", "a.txt:1:5: value '#' is not a number"),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), message, "{text:?}");
    }
    let long = format!("1 {}\n", "1".repeat(5000));
    assert!(read(&long).unwrap_err().to_string().contains("longer than 4096 bytes"));
}

#[test]
fn values_that_are_not_finite_and_too_small_ones_are_noted() {
    let text = "nan inf\n-Infinity 1e-400\n";
    let read_text = read(text).unwrap();
    assert!(read_text.values.row(0)[0].is_nan() && read_text.values.row(1)[0] == f64::NEG_INFINITY);
    assert_eq!(read_text.notes, ["3 values are not finite", "1 value below the smallest number became zero"]);
    let options = ReadOptions { finite: true, ..ReadOptions::default() };
    let error = read_bytes::<f64>("a.txt", text.as_bytes(), &options, SPAN_BYTES).unwrap_err();
    assert_eq!(error.message(), "a.txt:1:1: value 'nan' is not finite, and only finite values are allowed");
    assert_eq!(error.pieces_of_advice(), [Advice::AnyValues]);
    let error = read_bytes::<f32>("a.txt", b"1 1e39", &ReadOptions::default(), SPAN_BYTES).unwrap_err();
    assert_eq!(error.message(), "a.txt:1:3: value '1e39' overflows f32");
    assert_eq!(error.pieces_of_advice(), [Advice::DoublePrecision]);
}

#[test]
fn a_matrix_beyond_the_limit_is_refused_before_it_is_allocated() {
    let options = ReadOptions { memory_limit_bytes: 47, ..ReadOptions::default() };
    let error = read_bytes::<f64>("a.txt", b"1 2 3\n4 5 6\n", &options, SPAN_BYTES).unwrap_err();
    assert!(error.to_string().starts_with("a.txt with 2 × 3 numbers needs 48"), "{error}");
    // One long line and many short ones: the product of rows and columns exceeds any memory.
    let text = "1 ".repeat(1 << 20) + "\n" + &"1\n".repeat(1 << 20);
    let error = read(&text).unwrap_err();
    assert!(
        error.to_string().starts_with("a.txt:2: the line has 1 number but line 1 has 1048576"),
        "{error}"
    );
}

#[test]
fn a_regular_file_is_read_and_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "1 2\n3 4\n").unwrap();
    let found = read_text::<f32>(&path, &ReadOptions::default()).unwrap();
    assert_eq!(found.values.data(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(read_text::<f32>(folder.path(), &ReadOptions::default()).unwrap_err().exit_code(), 3);
    let dense = crate::matrix::io::read_dense::<f64>(&path, &ReadOptions::default()).unwrap();
    assert_eq!((dense.values.k(), dense.format), (2, crate::matrix::io::ArrayFormat::Text));
}

#[test]
fn a_text_is_divided_into_spans_that_threads_share() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "1.5 2.5\n".repeat(100_000)).unwrap();
    let spans = std::sync::Mutex::new(Vec::new());
    let report = |bytes: u64| {
        spans.lock().unwrap().push(bytes);
        Ok(())
    };
    let options =
        ReadOptions { progress: Some(crate::matrix::io::Progress(&report)), ..ReadOptions::default() };
    assert_eq!(read_text::<f32>(&path, &options).unwrap().values.rows(), 100_000);
    let mut spans = spans.into_inner().unwrap();
    spans.sort_unstable();
    // Three times 256 KiB, and the rest.
    assert_eq!(spans, [800_000 - 3 * 262_144, 262_144, 262_144, 262_144]);
}

#[test]
fn long_lines_among_shorter_ones_are_all_found_and_refused_by_their_number() {
    let numbers = |spelled: &str, count: usize| vec![spelled; count].join(" ");
    let long = numbers("-1.234567890123e-04", 300);
    let short = numbers("1", 300);
    for between in ["", "\n", "# a comment\n", " \n% x\n\n"] {
        for last in ["", "\n", "\n\n", "\n# the end", "\n# the end\n\n"] {
            let text = format!("{long}\n{between}{long}\n{short}\n{between}{long}{last}");
            for span_bytes in [1, 4000, 9000, SPAN_BYTES] {
                let read = read_bytes::<f64>("a.txt", text.as_bytes(), &ReadOptions::default(), span_bytes);
                let values = read.unwrap().values;
                assert_eq!((values.rows(), values.k()), (4, 300));
                let columns = [values.row(0)[0], values.row(1)[299], values.row(2)[7], values.row(3)[299]];
                assert_eq!(columns, [-1.234567890123e-4, -1.234567890123e-4, 1.0, -1.234567890123e-4]);
            }
        }
    }
    for (damaged, message) in [
        (numbers("1", 299), "a.txt:3: the line has 299 numbers but line 1 has 300"),
        (numbers("1", 600), "a.txt:3: the line has 600 numbers but line 1 has 300"),
        (long.replacen("-04 -1", "-04 x1", 1), "a.txt:3:21: value 'x1.234567890123e-04' is not a number"),
    ] {
        let text = format!("{long}\n# a comment\n{damaged}\n{long}\n");
        let error = read(&text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

/// A number as text, in one of many spellings.
fn spelled() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:e}")),
        (-1e6..1e6f64, 0usize..12).prop_map(|(value, digits)| format!("{value:.digits$}")),
        (-1e6..1e6f64, 0usize..18).prop_map(|(value, digits)| format!("{value:.digits$E}")),
        any::<i32>().prop_map(|value| format!("{value:+}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_number_is_the_nearest_double_whatever_the_spans(
        numbers in (1usize..6).prop_flat_map(|columns| {
            prop::collection::vec(prop::collection::vec(spelled(), columns), 1..12)
        }),
        separator in prop_oneof![Just(" "), Just("\t "), Just(","), Just(" , ")],
        end in prop_oneof![Just("\n"), Just("\r\n"), Just("\n# x 1\n"), Just("\n\n")],
        span_bytes in 1usize..200,
    ) {
        let text: String = numbers.iter().map(|row| row.join(separator) + end).collect();
        let found = read_bytes::<f64>("a.txt", text.as_bytes(), &ReadOptions::default(), span_bytes).unwrap();
        let expected: Vec<Vec<u64>> =
            numbers.iter().map(|row| row.iter().map(|word| word.parse::<f64>().unwrap().to_bits()).collect()).collect();
        let bits: Vec<Vec<u64>> =
            rows(&found).iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect();
        prop_assert_eq!(bits, expected);
    }

    #[test]
    fn damaged_text_gives_the_same_outcome_for_all_spans_and_never_panics(
        text in "([-+0-9.eE, \t\r#%nx]{0,12}\n){0,8}", span_bytes in 1usize..60,
    ) {
        let outcome = |span_bytes| {
            read_bytes::<f32>("a.txt", text.as_bytes(), &ReadOptions::default(), span_bytes)
                .map(|found| found.values.data().iter().map(|value| value.to_bits()).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        prop_assert_eq!(outcome(span_bytes), outcome(SPAN_BYTES));
    }
}
