//! The data of the page as compact JSON: names are written once, times are nanoseconds, intervals thousandths of the time.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{ExplorerCase, ExplorerData, ExplorerMatrix, Timed, Timing};

/// Significant digits of a time.
const TIME_DIGITS: i32 = 5;
/// Significant digits of a feature.
const FEATURE_DIGITS: i32 = 5;
/// What a case has in place of a time.
const UNVERIFIED: i64 = -1;
const WRONG: i64 = -2;
const NOT_RUN: i64 = -3;
/// The width of an interval that is not known.
const UNKNOWN: i64 = -1;
/// The characters of two cells of a pattern, of which each has one of eight levels.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Texts in the order of their first use, each with a number.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
    all: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.numbers.insert(name.into(), self.all.len());
        self.all.push(name.into());
        self.all.len() - 1
    }
}

/// The object that the page's script reads.
pub fn packed(data: &ExplorerData) -> Value {
    let mut tables = Tables::default();
    let matrices: Vec<Value> = data.matrices.iter().map(|matrix| tables.matrix(matrix)).collect();
    let cases: Vec<Value> = data.cases.iter().map(|case| tables.case(case)).collect();
    json!({
        "files": data.files.iter().map(|file| json!([file.name, file.about])).collect::<Vec<_>>(),
        "groups": tables.groups.all, "devices": tables.devices.all, "flags": tables.flags.all,
        "reasons": tables.reasons.all, "names": tables.names.all, "libraries": tables.libraries,
        "matrices": matrices, "cases": cases, "left_out": data.left_out,
    })
}

#[derive(Default)]
struct Tables {
    groups: Names,
    devices: Names,
    flags: Names,
    reasons: Names,
    names: Names,
    /// The library of each name, `null` for kernels of Rowloom.
    libraries: Vec<Option<String>>,
}

impl Tables {
    fn matrix(&mut self, matrix: &ExplorerMatrix) -> Value {
        let &ExplorerMatrix { rows, cols, nnz, .. } = matrix;
        let mean = (rows > 0).then(|| nnz as f64 / rows as f64);
        let features = [
            mean,
            matrix.longest_row,
            matrix.row_variation,
            matrix.long_row_share,
            matrix.empty_row_share,
            matrix.new_columns,
            matrix.near_share,
        ];
        let features = features.map(|feature| feature.map(|value| rounded(value, FEATURE_DIGITS)));
        let group = self.groups.number(&matrix.group);
        let across = matrix.pattern.first().map_or(0, String::len);
        json!([
            matrix.name,
            group,
            matrix.argument,
            rows,
            cols,
            nnz,
            features,
            across,
            pattern(&matrix.pattern)
        ])
    }

    fn case(&mut self, case: &ExplorerCase) -> Value {
        let device = self.devices.number(&case.device);
        let flags = self.flags.number(&format!("{} | {}", case.command, case.flags));
        let chosen = case.chosen.as_ref().map(|chosen| self.name(chosen, None));
        let reason = case.reason.as_deref().unwrap_or_default();
        let parts = reason.split("; ").filter(|part| !part.is_empty());
        let reasons: Vec<usize> = parts.map(|part| self.reasons.number(part)).collect();
        let times: Vec<i64> = case.measured.iter().flat_map(|timed| self.timed(timed)).collect();
        json!([case.file, case.matrix, case.dtype, case.k, device, flags, chosen, reasons, times])
    }

    fn name(&mut self, name: &str, library: Option<&String>) -> usize {
        let number = self.names.number(name);
        if number == self.libraries.len() {
            self.libraries.push(library.cloned());
        }
        number
    }

    /// Number of the name, time, and how far the interval reaches below and above it.
    fn timed(&mut self, timed: &Timed) -> [i64; 4] {
        let name = self.name(&timed.name, timed.library.as_ref()) as i64;
        let (time, below, above) = match timed.timing {
            Timing::Unverified => (UNVERIFIED, UNKNOWN, UNKNOWN),
            Timing::Wrong => (WRONG, UNKNOWN, UNKNOWN),
            Timing::NotRun => (NOT_RUN, UNKNOWN, UNKNOWN),
            Timing::Verified { median_s, low_s, high_s } => {
                let share = |end: f64| ((end - median_s).abs() / median_s * 1000.0).ceil() as i64;
                let share = |end: Option<f64>| end.filter(|_| median_s > 0.0).map_or(UNKNOWN, share);
                (rounded((median_s * 1e9).max(1.0), TIME_DIGITS) as i64, share(low_s), share(high_s))
            }
        };
        [name, time, below, above]
    }
}

/// A value with a number of significant digits.
fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.*e}", (digits - 1) as usize).parse().unwrap_or(value)
}

/// Two cells in each character, row after row.
fn pattern(lines: &[String]) -> String {
    let level = |digit: u8| usize::from(digit.saturating_sub(b'0').min(7));
    let levels: Vec<usize> = lines.iter().flat_map(|line| line.bytes()).map(level).collect();
    let character = |pair: &[usize]| {
        let index = pair.first().unwrap_or(&0) * 8 + pair.get(1).unwrap_or(&0);
        ALPHABET.get(index).map_or('A', |&byte| char::from(byte))
    };
    levels.chunks(2).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(name: &str, timing: Timing) -> Timed {
        Timed { name: name.into(), library: None, timing }
    }

    #[test]
    fn a_time_without_a_verified_result_is_not_in_the_page() {
        let measured = vec![
            timed("a", Timing::Unverified),
            timed("b", Timing::Wrong),
            timed("c", Timing::NotRun),
            timed("d", Timing::Verified { median_s: 1.234_567e-3, low_s: Some(1.2e-3), high_s: None }),
        ];
        let case = ExplorerCase { measured, ..ExplorerCase::default() };
        let packed = packed(&ExplorerData { cases: vec![case], ..ExplorerData::default() });
        let times = [0, -1, -1, -1, 1, -2, -1, -1, 2, -3, -1, -1, 3, 1_234_600, 28, -1];
        assert_eq!(packed["cases"][0][8], json!(times));
        assert_eq!(packed["names"], json!(["a", "b", "c", "d"]));
    }

    #[test]
    fn names_and_parts_of_reasons_are_written_once() {
        let case = |reason: &str| ExplorerCase {
            reason: Some(reason.into()),
            chosen: Some("cpu_csr".into()),
            ..ExplorerCase::default()
        };
        let cases = vec![case("all cores; predicted 1 ms"), case("all cores; predicted 2 ms")];
        let packed = packed(&ExplorerData { cases, ..ExplorerData::default() });
        assert_eq!(packed["reasons"], json!(["all cores", "predicted 1 ms", "predicted 2 ms"]));
        assert_eq!(packed["cases"][1][7], json!([0, 2]));
        assert_eq!(packed["names"], json!(["cpu_csr"]));
    }

    #[test]
    fn two_cells_of_a_pattern_share_a_character() {
        assert_eq!(pattern(&["07".into(), "70".into()]), "H4");
        assert_eq!(pattern(&["123".into()]), "KY");
        assert_eq!(pattern(&[]), "");
    }

    #[test]
    fn values_are_rounded_to_significant_digits() {
        assert_eq!(
            [rounded(123_456.0, 3), rounded(0.001_236, 3), rounded(0.0, 3)],
            [123_000.0, 0.00124, 0.0]
        );
    }
}
