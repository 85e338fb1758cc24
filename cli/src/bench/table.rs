//! The tables that `rowloom bench` prints: every kernel and peer of each case, ranked, or one line a case. Results that were not verified
//! have a time and no rank or ratio.

use super::report::{CaseReport, chosen_summary, summary};
use crate::console::Console;
use crate::console::table::{Table, percent, seconds};
use crate::measure::{CaseResult, with_threads};
use crate::results::{Record, Standing};
use crate::statistics::{Summary, TimeRatio};
use rowloom::internal::error::Result;

/// A case in one line, as it is printed when it has been measured.
pub fn line(case: &CaseResult) -> String {
    let none = match case.kernels.iter().any(|kernel| kernel.times.median.is_some()) {
        true => "no Y was verified",
        false => "no kernel ran",
    };
    let fastest = case.best().map_or_else(
        || none.into(),
        |(kernel, time)| format!("{} {}, {:.1} GFLOP/s", kernel.kernel, seconds(time), case.gflops(time)),
    );
    let peer = case.best_peer().zip(case.ratio()).map(|((peer, time), speedup)| {
        let name = with_threads(&peer.name(), case.threads);
        format!("; {} than {name} ({})", faster_or_slower(speedup), seconds(time))
    });
    format!("{}: {fastest}{}", case.name_with_threads(), peer.unwrap_or_default())
}

/// A speed-up in words: `1.25× faster`, or `1.25× slower` where it is 0.8.
pub fn faster_or_slower(speedup: f64) -> String {
    if speedup >= 1.0 { format!("{speedup:.2}× faster") } else { format!("{:.2}× slower", 1.0 / speedup) }
}

/// Prints all cases: every kernel and peer, or only the fastest where `best_only`.
pub fn show(reports: &[CaseReport<'_>], best_only: bool, console: &Console) -> Result<()> {
    if best_only {
        console.table(&one_line_each(reports))?;
    } else {
        for (index, report) in reports.iter().enumerate() {
            let gap = if index > 0 { "\n" } else { "" };
            console.prose(&format!("{gap}{}\n", heading(report)))?;
            console.table(&ranked(report))?;
            if let Some(chosen) = not_measured(report) {
                console.prose(&format!("The planner would choose {chosen}, which was not measured.\n"))?;
            }
        }
    }
    for (whose, summary) in [("fastest", summary(reports)), ("chosen", chosen_summary(reports))] {
        if let Some(Summary { cases, geomean, worst, worst_case, below }) = summary {
            let plural = if cases == 1 { "case" } else { "cases" };
            console.prose(&format!(
                "\nSpeed-up of the {whose} kernel over the fastest peer, {cases} {plural}:\n\
                 geometric mean {geomean:.2}×, worst {worst:.2}× ({worst_case}), {below} below 0.95×\n"
            ))?;
        }
    }
    Ok(())
}

/// Prints why peers that `--against` names were not measured: their notes were shown before the measurement.
pub fn show_missing(missing: &[String], console: &Console) -> Result<()> {
    let gap = if missing.is_empty() { "" } else { "\n" };
    let sentences: String = missing.iter().map(|missing| format!("{missing}\n")).collect();
    console.prose(&format!("{gap}{sentences}"))
}

/// The kernel that the planner would choose, where it is not among those that were measured.
fn not_measured<'a>(report: &'a CaseReport<'_>) -> Option<&'a str> {
    let chosen = report.chosen.as_deref()?;
    let measured = report.case.kernels.iter().any(|kernel| kernel.kernel == chosen);
    (!measured).then_some(chosen)
}

/// The case, and the rates of its fastest kernel.
fn heading(report: &CaseReport<'_>) -> String {
    let case = report.case;
    let rates = case.best().map(|(_, time)| {
        format!(": {:.1} GFLOP/s, {}", case.gflops(time), bandwidth_share(case.fraction(time)))
    });
    format!("{}{}", case.name_with_threads(), rates.unwrap_or_default())
}

/// A share of the memory bandwidth in words; above 1 the data came from the caches.
fn bandwidth_share(share: f64) -> String {
    if share > 1.0 {
        "faster than memory: the data stay in the caches".into()
    } else {
        format!("{} of memory bandwidth", percent(share))
    }
}

/// Every kernel and peer of a case, the fastest first; what did not run or is wrong comes last, with the reason.
fn ranked(report: &CaseReport<'_>) -> Table {
    let headings = ["rank", "kernel", "time", "against the fastest", "result"];
    let mut table = Table::columns(headings, &[0, 2]).wrapped();
    let mut rows: Vec<(&Record, Option<Standing>)> =
        report.records.iter().zip(report.standings.iter().copied()).collect();
    rows.sort_by_key(|(_, standing)| standing.map_or(usize::MAX, |standing| standing.rank));
    for (record, standing) in rows {
        let is_chosen = report.chosen.as_deref() == Some(record.kernel.as_str());
        let mark = if is_chosen { " (chosen)" } else { "" };
        table.row([
            or_dash(standing.map(|standing| standing.rank.to_string())),
            format!("{}{mark}", with_threads(&record.kernel, record.threads)),
            or_dash(record.times.median.map(seconds)),
            record.reason.clone().unwrap_or_else(|| against_fastest(record, standing)),
            result(record).into(),
        ]);
    }
    table
}

/// Whether the interval of a ratio has 1 in it.
fn is_noise(TimeRatio { ratio, spread }: TimeRatio) -> bool {
    spread.is_some_and(|spread| (ratio - 1.0).abs() <= spread)
}

/// `fastest`, `1.18 ± 0.03 × slower`, or why it is not compared.
fn against_fastest(record: &Record, standing: Option<Standing>) -> String {
    match (record.unverified_reason(), standing) {
        (Some(reason), _) => format!("- ({reason})"),
        (None, Some(Standing { rank: 1, .. })) => "fastest".into(),
        (None, Some(Standing { against_fastest: Some(ratio), .. })) => {
            let noise = if is_noise(ratio) { ", within noise" } else { "" };
            format!("{} × slower{noise}", with_spread(ratio))
        }
        _ => "-".into(),
    }
}

/// A ratio with three significant digits, and its spread where it is known: `1.18 ± 0.03`.
pub fn with_spread(TimeRatio { ratio, spread }: TimeRatio) -> String {
    let decimals = match ratio {
        _ if ratio < 10.0 => 2,
        _ if ratio < 100.0 => 1,
        _ => 0,
    };
    let spread = spread.map_or_else(String::new, |spread| format!(" ± {spread:.decimals$}"));
    format!("{ratio:.decimals$}{spread}")
}

/// How the Y that was computed compares with the right one.
fn result(record: &Record) -> &'static str {
    match record.checked {
        Some(checked) if !checked.passed => "WRONG",
        Some(checked) if checked.bitwise => "same bits",
        Some(_) => "in bound",
        None => "not verified",
    }
}

/// The fastest kernel of each case, and the fastest peer where there is one.
fn one_line_each(reports: &[CaseReport<'_>]) -> Table {
    let has_peers = reports.iter().any(|report| report.case.best_peer().is_some());
    let last_heading = if has_peers { "fastest peer" } else { "GFLOP/s" };
    let headings = ["case", "fastest kernel", "time", last_heading];
    let mut table = Table::columns(headings, &[2]).wrapped();
    for CaseReport { case, chosen, .. } in reports {
        let best = case.best();
        let name = |kernel: &str| {
            let mark = if chosen.as_deref() == Some(kernel) { " (chosen)" } else { "" };
            format!("{kernel}{mark}")
        };
        let peer = case.best_peer().zip(case.ratio()).map(|((peer, _), speedup)| {
            // The peer's time over that of the kernel is the kernel's speed-up.
            let name = with_threads(&peer.name(), case.threads);
            format!("{name} {}", faster_or_slower(1.0 / speedup))
        });
        let gflops = best.map(|(_, time)| format!("{:.1}", case.gflops(time)));
        table.row([
            case.name(),
            or_dash(best.map(|(kernel, _)| name(&kernel.kernel))),
            or_dash(best.map(|(_, time)| seconds(time))),
            or_dash(if has_peers { peer } else { gflops }),
        ]);
    }
    table
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Checked;
    use crate::results::standings;
    use crate::statistics::Times;

    #[test]
    fn an_unverified_result_has_a_dash_and_a_reason() {
        let of = |checked| Record { times: Times::new(&[1.0, 1.0]), checked, ..Record::default() };
        let records = [of(None), of(Some(Checked::weighed(1))), of(Some(Checked::weighed(0)))];
        let standings = standings(&records);
        let words = |index: usize| against_fastest(&records[index], standings[index]);
        assert_eq!([0, 1, 2].map(words), ["- (Y was not verified)", "- (Y is wrong)", "fastest"]);
        assert_eq!([0, 1, 2].map(|index| result(&records[index])), ["not verified", "WRONG", "in bound"]);
    }

    #[test]
    fn ratios_have_three_digits_and_a_spread_where_it_is_known() {
        let words = |ratio: f64, spread: Option<f64>| with_spread(TimeRatio { ratio, spread });
        assert_eq!(words(1.178, Some(0.031)), "1.18 ± 0.03");
        assert_eq!(words(55.73, Some(10.8)), "55.7 ± 10.8");
        assert_eq!(words(187.15, Some(35.48)), "187 ± 35");
        assert_eq!(words(2.0, None), "2.00");
    }

    #[test]
    fn a_share_above_the_memory_bandwidth_is_explained() {
        assert_eq!(bandwidth_share(0.5), "50.0% of memory bandwidth");
        assert_eq!(bandwidth_share(1.192), "faster than memory: the data stay in the caches");
    }

    #[test]
    fn a_ratio_whose_interval_has_one_in_it_is_noise() {
        let of = |ratio, spread| is_noise(TimeRatio { ratio, spread });
        assert!(of(1.03, Some(0.04)) && of(0.98, Some(0.03)));
        assert!(!of(1.03, Some(0.02)) && !of(1.0001, None));
    }

    #[test]
    fn a_speed_up_below_one_is_called_slower() {
        assert_eq!(faster_or_slower(1.254), "1.25× faster");
        assert_eq!(faster_or_slower(0.8), "1.25× slower");
    }
}
