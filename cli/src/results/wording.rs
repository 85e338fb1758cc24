//! Numbers and refusals in the words of answers.

use super::baseline::baselines;
use super::figures::{count, grouped, short_reason};
use super::record::Record;

/// A sentence for each reason why records have no times.
pub fn not_measured(records: &[&Record]) -> Vec<String> {
    let refused: Vec<&Record> = records.iter().copied().filter(|record| record.reason.is_some()).collect();
    let sentence = |(reason, members): (String, Vec<&Record>)| {
        let verb = if members.len() == 1 { "was" } else { "were" };
        format!("{} {verb} not measured: {reason}.", count(members.len(), "result"))
    };
    grouped(&refused, short_reason).into_iter().map(sentence).collect()
}

/// The highest rates with the fewest and with the most columns, where K was swept.
pub fn by_k(timed: &[&Record]) -> Option<String> {
    let ks = || timed.iter().filter_map(|record| record.k);
    let (fewest, most) = (ks().min()?, ks().max()?);
    if fewest == most {
        return None;
    }
    let highest = |k: usize| {
        let rates = timed.iter().filter(|record| record.k == Some(k)).filter_map(|record| record.gflops());
        rates.max_by(f64::total_cmp).map(digits)
    };
    let (narrow, wide) = (highest(fewest)?, highest(most)?);
    Some(format!(
        "The highest rate is {narrow} GFLOP/s with K = {fewest} and {wide} GFLOP/s with K = {most}."
    ))
}

/// A sentence on the cases whose comparison rests on doubtful times, of all `cases`.
pub fn doubtful(doubtful: usize, cases: usize) -> Option<String> {
    let which = match (doubtful, cases) {
        (0, _) => return None,
        (_, 1) => "The".into(),
        _ => format!("In {doubtful} of {cases} cases the"),
    };
    Some(format!("{which} times compared are doubtful: the warnings have the reasons."))
}

/// A number with three significant digits.
pub fn digits(value: f64) -> String {
    let decimals = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", decimals as usize)
}

/// Seconds in the unit that fits.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{} s", digits(s)),
        s if s >= 1e-3 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} µs", digits(s * 1e6)),
    }
}

/// What the cells of a table of results do not say.
pub fn explanations(records: &[&Record]) -> Vec<String> {
    let in_cache = records.iter().any(|record| record.roofline_fraction().is_some_and(|share| share > 1.0));
    let unverified =
        records.iter().any(|record| record.checked.is_none() && record.unverified_reason().is_some());
    let sentences = [
        (
            in_cache,
            "A result without a share of the roofline is faster than the memory: its data stay in the caches.",
        ),
        (
            unverified,
            "not verified: the result was not compared with the reference, so it has no rate and cannot win; verification was off, or \
             the library does not return its result.",
        ),
    ];
    let applying = sentences.into_iter().filter(|(applies, _)| *applies);
    let mut sentences: Vec<String> = applying.map(|(_, sentence)| sentence.to_owned()).collect();
    sentences.extend(baselines(records).map(|baselines| format!("Speed-ups are over {baselines}.")));
    let mut peers: Vec<&str> = records.iter().filter_map(|record| record.fastest_peer.as_deref()).collect();
    peers.sort_unstable();
    peers.dedup();
    if !peers.is_empty() {
        sentences
            .push(format!("over peer: speed-up over the fastest peer of the case, {}.", peers.join(" or ")));
    }
    sentences
}
