//! `bench --baseline FILE`: an earlier run is read, and each case is compared with it.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::table::with_spread;
use crate::console::Console;
use crate::console::table::{Table, seconds};
use crate::measure::CaseResult;
use crate::results::{CaseChange, Change, Comparison, Verdict};
use crate::statistics::TimeRatio;
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::files::read_regular;

/// What is read of the report.
#[derive(Deserialize)]
struct Report {
    command: String,
    config: Value,
    cases: Vec<Value>,
}

/// The cases of a file that `bench --json=FILE` wrote.
pub fn load(path: &Path) -> Result<Vec<CaseResult>> {
    let text = read_regular(path)?;
    let refused = |reason: String| {
        let action = "--baseline takes a file that `rowloom bench --json=FILE` wrote";
        Error::input(Place::file(path), format!("{reason}; {action}"))
    };
    let value: Value =
        serde_json::from_slice(&text).map_err(|error| refused(format!("damaged or no JSON: {error}")))?;
    if value.get("traceEvents").is_some() {
        return Err(refused("this is a trace, not a report of rowloom bench".into()));
    }
    let Report { command, config, cases } =
        serde_json::from_value(value).map_err(|error| refused(format!("no report of rowloom: {error}")))?;
    if command != "bench" {
        return Err(refused(format!("a report of rowloom {command}, not of rowloom bench")));
    }
    if config.get("oracle").and_then(Value::as_bool) == Some(true) {
        return Err(refused("a report of bench --oracle, which does not keep single times".into()));
    }
    let case = |(index, value): (usize, Value)| {
        serde_json::from_value(value).map_err(|error| refused(format!("case {}: {error}", index + 1)))
    };
    cases.into_iter().enumerate().map(case).collect()
}

/// What the rows of the table are.
const HEADING: &str = "\
Fastest kernel of each case;
below it every kernel whose time changed beyond the noise:
";

/// Prints how this run compares with the one in `path`.
pub fn show(comparison: &Comparison, path: &Path, console: &Console) -> Result<()> {
    console.prose(&format!("\nAgainst {}:\n", path.display()))?;
    if comparison.cases.is_empty() {
        console.prose("no case is in both files\n")?;
    } else {
        console.prose(HEADING)?;
        console.table(&table(comparison))?;
        let total = comparison.cases.len();
        let plural = if total == 1 { "case" } else { "cases" };
        let count = |verdict| comparison.count(verdict);
        console.prose(&format!(
            "{total} {plural} in both runs: {} faster, {} slower, {} within noise\n",
            count(Verdict::Faster),
            count(Verdict::Slower),
            count(Verdict::WithinNoise)
        ))?;
    }
    for matrix in &comparison.other_contents {
        console
            .prose(&format!("{matrix}: another matrix of this name was measured in {}\n", path.display()))?;
    }
    for case in &comparison.only_before {
        console.prose(&format!("only in {}: {case}\n", path.display()))?;
    }
    for case in &comparison.only_now {
        console.prose(&format!("only in this run: {case}\n"))?;
    }
    Ok(())
}

/// A line for each case, and below it one for each kernel or peer whose time differs by more than the noise.
fn table(comparison: &Comparison) -> Table {
    let mut table = Table::columns(["case", "now"], &[]).wrapped();
    for case in &comparison.cases {
        table.row([case.case.clone(), fastest(case)]);
        let exceeds = |change: &Change| matches!(change.verdict, Verdict::Faster | Verdict::Slower);
        for kernel in case.kernels.iter().filter(|kernel| exceeds(&kernel.change)) {
            table.row([format!("- {}", kernel.kernel), words(&kernel.change)]);
        }
    }
    table
}

/// The change of the fastest kernel; where it is another kernel now, with both names:
/// `cpu_sell 225 µs → cpu_csr 217 µs: within noise`.
fn fastest(case: &CaseChange) -> String {
    match (&case.fastest, &case.before_kernel, &case.now_kernel) {
        (Some(change), Some(before), Some(now)) if before != now => {
            let (before_s, now_s) = (seconds(change.before_s), seconds(change.now_s));
            format!("{before} {before_s} → {now} {now_s}: {}", verdict(change))
        }
        (Some(change), ..) => words(change),
        (None, ..) => "no right result to compare".into(),
    }
}

/// `1.12 ± 0.02 × faster (527 µs → 470 µs)`.
fn words(change: &Change) -> String {
    format!("{} ({} → {})", verdict(change), seconds(change.before_s), seconds(change.now_s))
}

fn verdict(change: &Change) -> String {
    let &Change { ratio, spread, verdict, .. } = change;
    let ratio = with_spread(TimeRatio { ratio, spread });
    match verdict {
        Verdict::Faster => format!("{ratio} × faster"),
        Verdict::Slower => format!("{ratio} × slower"),
        Verdict::WithinNoise => "within noise".into(),
        Verdict::NoiseUnknown => "noise unknown, a single run".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_two_kernels_names_both() {
        let change = Change::of(&[225e-6; 8], &[224e-6; 8]).unwrap();
        let case = |now: &str| CaseChange {
            case: "a".into(),
            before_kernel: Some("cpu_sell".into()),
            now_kernel: Some(now.into()),
            fastest: Some(change.clone()),
            kernels: Vec::new(),
        };
        assert_eq!(fastest(&case("cpu_csr")), "cpu_sell 225 µs → cpu_csr 224 µs: within noise");
        assert_eq!(fastest(&case("cpu_sell")), "within noise (225 µs → 224 µs)");
    }
}
