//! `bench --baseline FILE`: an earlier run is read, and each case is compared with it.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::bench_table::with_spread;
use super::console::Console;
use super::table::{Table, seconds};
use crate::error::{Error, Place, Result};
use crate::study::{CaseResult, Change, Comparison, TimeRatio, Verdict};

/// What is read of the report.
#[derive(Deserialize)]
struct Report {
    command: String,
    config: Value,
    cases: Vec<Value>,
}

/// The cases of a file that `bench --json=FILE` wrote.
pub fn load(path: &Path) -> Result<Vec<CaseResult>> {
    let text = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    let refused = |reason: String| {
        let action = "--baseline takes a file that `rowloom bench --json=FILE` wrote";
        Error::input(Place::file(path), format!("{reason}; {action}"))
    };
    let value: Value =
        serde_json::from_slice(&text).map_err(|error| refused(format!("damaged or no JSON: {error}")))?;
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

/// Prints how this run compares with the one in `path`.
pub fn show(comparison: &Comparison, path: &Path, console: &Console) -> Result<()> {
    console.text(&format!("\nAgainst {}, the fastest kernel of each case:\n", path.display()))?;
    if !comparison.cases.is_empty() {
        console.table(&table(comparison))?;
    }
    let total = comparison.cases.len();
    let plural = if total == 1 { "case" } else { "cases" };
    let count = |verdict| comparison.count(verdict);
    console.text(&format!(
        "{total} {plural} in both runs: {} faster, {} slower, {} within noise\n",
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::WithinNoise)
    ))?;
    for matrix in &comparison.other_contents {
        console
            .text(&format!("{matrix}: another matrix of this name was measured in {}\n", path.display()))?;
    }
    for case in &comparison.only_before {
        console.text(&format!("only in {}: {case}\n", path.display()))?;
    }
    for case in &comparison.only_now {
        console.text(&format!("only in this run: {case}\n"))?;
    }
    Ok(())
}

/// A line for each case, and below it one for each kernel or peer whose time differs by more than the noise.
fn table(comparison: &Comparison) -> Table {
    let mut table = Table::columns(["case", "now"], &[]).wrapped();
    for case in &comparison.cases {
        let change = case.fastest.as_ref().map_or_else(|| "no right result to compare".into(), words);
        table.row([case.case.clone(), change]);
        let exceeds = |change: &Change| matches!(change.verdict, Verdict::Faster | Verdict::Slower);
        for kernel in case.kernels.iter().filter(|kernel| exceeds(&kernel.change)) {
            table.row([format!("- {}", kernel.kernel), words(&kernel.change)]);
        }
    }
    table
}

/// `1.12 ± 0.02 × faster (527 µs → 470 µs)`.
fn words(change: &Change) -> String {
    let &Change { before_s, now_s, ratio, spread, verdict } = change;
    let ratio = with_spread(TimeRatio { ratio, spread });
    let times = format!("({} → {})", seconds(before_s), seconds(now_s));
    match verdict {
        Verdict::Faster => format!("{ratio} × faster {times}"),
        Verdict::Slower => format!("{ratio} × slower {times}"),
        Verdict::WithinNoise => format!("within noise {times}"),
        Verdict::NoiseUnknown => format!("noise unknown, a single run {times}"),
    }
}
