//! Parsers of the values of flags.

use super::options::{FormatChoice, Selection, Window};
use rowloom::internal::kernel::Schedule;

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    const MOST_THREADS: usize = 4096;
    match text.parse() {
        Ok(threads @ 1..=MOST_THREADS) => Ok(threads),
        _ => Err(format!("the number of threads must be a whole number from 1 to {MOST_THREADS}")),
    }
}

pub(super) fn parse_k(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(k @ 1..) => Ok(k),
        _ if text.contains(',') => {
            Err("K is one number; `rowloom bench` and studies take several, such as 1,8,32".into())
        }
        _ => Err("K is the number of columns of X, a whole number of at least 1".into()),
    }
}

pub(super) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the seed must be a whole number from 0 to {}", u64::MAX))
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(seconds),
        _ => Err("the seconds must be a number above 0, such as 2 or 0.5".into()),
    }
}

pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("the share must be a number from 0 to 1, such as 0.25".into()),
    }
}

pub(super) fn parse_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() => Ok(factor),
        _ => Err("the factor must be a finite number, such as 1, -0.5 or 1e-3".into()),
    }
}

pub(super) fn parse_list(text: &str) -> Result<Selection, String> {
    Selection::parse(text)
}

pub(super) fn parse_window(text: &str) -> Result<Window, String> {
    Window::parse(text)
}

/// The values of `--transfer`.
pub const TRANSFERS: [&str; 3] = ["auto", "staged", "registered"];

pub(super) const SCHEDULES: [Schedule; 2] = [Schedule::Balanced, Schedule::EqualRows];

pub(super) fn schedule_named(name: String) -> Result<Schedule, String> {
    SCHEDULES.into_iter().find(|schedule| schedule.name() == name).ok_or(name)
}

pub(super) fn format_named(name: String) -> FormatChoice {
    match name.as_str() {
        "csr" => FormatChoice::Csr,
        "ell" => FormatChoice::Ell,
        "sell" => FormatChoice::Sell,
        _ => FormatChoice::Auto,
    }
}
