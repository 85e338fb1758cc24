//! The answers of a study: for each sweep the fastest choice of every case, its lead over the next, and whether the lead exceeds the
//! noise. Only verified results and simulated times are compared.

use super::config::{StudyConfig, Subject, Sweep};
use super::figures::{Naming, count, grouped};
use super::record::Record;
use super::scaling;
use super::wording::{by_k, digits, doubtful, duration, not_measured};
use crate::plots::{Answer, Cell, Column, Table};
use crate::statistics::{Difference, difference, noise_interval};

/// One answer for each sweep.
pub fn answers(config: &StudyConfig, records: &[Record]) -> Vec<Answer> {
    let of_sweep = |sweep: &Sweep| {
        let records: Vec<&Record> = records.iter().filter(|record| record.sweep == sweep.name).collect();
        match sweep.subject {
            Subject::Vectors => scaling::answer(sweep, &records),
            _ => Question::new(sweep, &records).answer(&records),
        }
    };
    config.sweep.iter().map(of_sweep).collect()
}

/// The question of a sweep.
struct Question<'a> {
    sweep: &'a Sweep,
    /// Names a case: the matrix, K, the precision, the conversion.
    case: Naming,
    /// Names a choice: everything else that varies.
    choice: Naming,
    /// Whether the matrix grows with the choice, so that rates are compared and not times.
    grows: bool,
}

/// The attributes that name a case. A growing matrix is part of the choice.
const CASE: [&str; 3] = ["matrix", "k", "dtype"];
/// The attributes that name a choice.
const CHOICE: [&str; 10] = [
    "kernel",
    "devices",
    "kind of devices",
    "threads",
    "ranks",
    "mode",
    "schedule",
    "transfer",
    "chunk_bytes",
    "cpu_share",
];

/// The fastest choice of a case, and the next.
struct Ranking<'a> {
    case: String,
    winner: (String, &'a Record),
    next: Option<(String, &'a Record)>,
}

impl<'a> Question<'a> {
    fn new(sweep: &'a Sweep, records: &[&Record]) -> Self {
        let grows = sweep.matrices.iter().any(|matrix| matrix.contains('{'));
        let mut not_case = CHOICE.to_vec();
        let mut not_choice = CASE.to_vec();
        if grows {
            not_case.push("matrix");
        }
        if sweep.subject == Subject::Conversion {
            not_choice.push("kernel");
        }
        let timed: Vec<&Record> = records.iter().copied().filter(|record| is_ranked(record)).collect();
        let case = Naming::new(&timed, &not_case);
        Self { sweep, case, choice: Naming::new(&timed, &not_choice), grows }
    }

    /// The case of a record; empty where the sweep has one case.
    fn case_of(&self, record: &Record) -> String {
        let names = [self.case.values(record).join(", "), self.conversion(record).0];
        names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// The choice of a record.
    fn choice_of(&self, record: &Record) -> String {
        let names = [self.conversion(record).1, self.choice.values(record).join(", ")];
        let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if names.is_empty() { record.kernel.clone() } else { names.join(", ") }
    }

    /// The conversion of a record and its variant; empty for products.
    fn conversion(&self, record: &Record) -> (String, String) {
        match record.kernel.rsplit_once(", ") {
            Some((conversion, way)) if self.sweep.subject == Subject::Conversion => {
                (conversion.into(), way.into())
            }
            _ => Default::default(),
        }
    }

    /// Seconds, or seconds per operation where the matrix grows: the least wins.
    fn score(&self, record: &Record) -> Option<f64> {
        let work = if self.grows { record.flops? } else { 1.0 };
        record.times.median.map(|median| median / work)
    }

    /// The noun for the choice.
    fn noun(&self) -> String {
        let noun = |attribute: &'static str| match attribute {
            "threads" => "number of threads",
            "ranks" => "number of ranks",
            "chunk_bytes" => "chunk size",
            "cpu_share" => "CPU share",
            other => other,
        };
        let mut nouns: Vec<&str> = self.choice.attributes().map(noun).collect();
        if self.sweep.subject == Subject::Conversion {
            nouns.insert(0, "variant");
        }
        match nouns[..] {
            [] => "choice".into(),
            ["devices"] => "set of devices".into(),
            [one] => one.into(),
            _ => format!("combination of {}", nouns.join(" and ")),
        }
    }

    fn answer(&self, records: &[&Record]) -> Answer {
        let timed: Vec<&Record> = records.iter().copied().filter(|record| is_ranked(record)).collect();
        let rankings: Vec<Ranking<'_>> = grouped(&timed, |record| self.case_of(record))
            .into_iter()
            .filter_map(|case| self.rank(case))
            .collect();
        let mut sentences = Vec::new();
        match &rankings[..] {
            [] if records.iter().any(|record| record.times.median.is_some()) => {
                sentences.push("No result was verified.".into());
            }
            [] => sentences.push("Nothing was measured.".into()),
            [only] => sentences.push(self.one_case(only)),
            _ => sentences.extend(self.many_cases(&rankings)),
        }
        sentences.extend(by_k(&timed));
        sentences
            .extend(doubtful(rankings.iter().filter(|ranking| has_doubts(ranking)).count(), rankings.len()));
        sentences.extend(not_measured(records));
        let wrong = records.iter().filter(|record| record.is_wrong()).count();
        if wrong > 0 {
            let verb = if wrong == 1 { "is" } else { "are" };
            sentences.push(format!("{} {verb} wrong and cannot win.", count(wrong, "result")));
        }
        let is_unverified =
            |record: &&&Record| record.checked.is_none() && record.unverified_reason().is_some();
        let unverified = records.iter().filter(is_unverified).count();
        if unverified > 0 {
            let verb = if unverified == 1 { "was not verified and is" } else { "were not verified and are" };
            sentences.push(format!("{} {verb} not compared.", count(unverified, "result")));
        }
        let comparison = if self.grows { "has the highest rate" } else { "is fastest" };
        Answer {
            question: format!("{}: which {} {comparison}?", self.sweep.name, self.noun()),
            sentence: sentences.join(" "),
            // The sentence says all about a single case.
            cases: (rankings.len() > 1).then(|| self.table(&rankings)),
        }
    }

    fn rank<'r>(&self, (case, members): (String, Vec<&'r Record>)) -> Option<Ranking<'r>> {
        // A choice that was measured twice, as serial conversions are with every number of threads, counts once.
        let mut best: Vec<(String, &Record, f64)> = Vec::new();
        for record in members {
            let (name, score) = (self.choice_of(record), self.score(record)?);
            match best.iter_mut().find(|(known, ..)| *known == name) {
                Some(known) if score < known.2 => *known = (name, record, score),
                Some(_) => {}
                None => best.push((name, record, score)),
            }
        }
        best.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut best = best.into_iter().map(|(name, record, _)| (name, record));
        Some(Ranking { case, winner: best.next()?, next: best.next() })
    }

    /// The time of a record, or its rate where the matrix grows.
    fn value(&self, record: &Record) -> String {
        match (self.grows, record.gflops()) {
            (true, Some(rate)) => format!("{} GFLOP/s", digits(rate)),
            _ => record.times.median.map_or(String::new(), duration),
        }
    }

    fn one_case(&self, ranking: &Ranking<'_>) -> String {
        let (name, record) = &ranking.winner;
        let Some((next_name, next)) = &ranking.next else {
            return format!("Only {name} was measured: {}.", self.value(record));
        };
        let fastest = if self.grows { "The highest rate has" } else { "The fastest is" };
        let ratio = self.lead(ranking).map_or(String::new(), |lead| format!(", {lead:.2}× faster than"));
        format!(
            "{fastest} {name} ({}){ratio} {next_name} ({}): {}.",
            self.value(record),
            self.value(next),
            self.verdict(ranking)
        )
    }

    fn many_cases(&self, rankings: &[Ranking<'_>]) -> Vec<String> {
        let mut wins: Vec<(&str, usize)> = Vec::new();
        for ranking in rankings {
            let name = ranking.winner.0.as_str();
            match wins.iter_mut().find(|(known, _)| *known == name) {
                Some((_, wins)) => *wins += 1,
                None => wins.push((name, 1)),
            }
        }
        wins.sort_by_key(|(_, wins)| std::cmp::Reverse(*wins));
        let all = rankings.len();
        if rankings.iter().all(|ranking| ranking.next.is_none()) {
            return vec![format!("Each of the {all} cases has one choice only, so there is no winner.")];
        }
        let part = |(index, (name, wins)): (usize, &(&str, usize))| match index {
            0 if *wins == all => format!("{name} in all {all} cases"),
            0 => format!("{name} in {wins} of {all} cases"),
            _ => format!("{name} in {wins}"),
        };
        let parts: Vec<String> = wins.iter().enumerate().map(part).collect();
        let fastest = if self.grows { "The highest rate has" } else { "The fastest is" };
        let mut sentences = vec![format!("{fastest} {}.", parts.join("; "))];
        let compared: Vec<&Ranking<'_>> = rankings.iter().filter(|ranking| ranking.next.is_some()).collect();
        let leads = || compared.iter().filter_map(|ranking| self.lead(ranking));
        let (least, most) = (leads().fold(f64::INFINITY, f64::min), leads().fold(0.0, f64::max));
        if least <= most {
            sentences.push(format!("The winner is {least:.2}× to {most:.2}× faster than the next."));
        }
        let measured: Vec<&&Ranking<'_>> = compared.iter().filter(|ranking| !is_simulated(ranking)).collect();
        if measured.is_empty() {
            sentences.push("All times are simulated and have no noise.".into());
        } else {
            let exceeding = measured
                .iter()
                .filter(|ranking| self.difference(ranking) == Difference::ExceedsNoise)
                .count();
            sentences.push(format!(
                "The difference exceeds the noise in {exceeding} of {}.",
                count(measured.len(), "measured case")
            ));
        }
        sentences
    }

    /// The ratio of the next to the winner.
    fn lead(&self, ranking: &Ranking<'_>) -> Option<f64> {
        let (_, next) = ranking.next.as_ref()?;
        let lead = self.score(next)? / self.score(ranking.winner.1)?;
        Some(lead).filter(|lead| lead.is_finite())
    }

    fn difference(&self, ranking: &Ranking<'_>) -> Difference {
        let interval = |record: &Record| {
            let work = if self.grows { record.flops? } else { 1.0 };
            noise_interval(&record.times).map(|(low, high)| (low / work, high / work))
        };
        match &ranking.next {
            Some((_, next)) => difference(interval(ranking.winner.1), interval(next)),
            None => Difference::Unknown,
        }
    }

    fn verdict(&self, ranking: &Ranking<'_>) -> &'static str {
        match self.difference(ranking) {
            _ if ranking.next.is_none() => "no other choice",
            _ if is_simulated(ranking) => "simulated, without noise",
            Difference::ExceedsNoise => "the difference exceeds the noise",
            Difference::WithinNoise => "the difference is within the noise",
            Difference::Unknown => "too few runs to know the noise",
        }
    }

    fn table(&self, rankings: &[Ranking<'_>]) -> Table {
        let column = |name: &str, numeric| Column { name: name.into(), unit: None, numeric };
        let (value, unit) = if self.grows { ("rate", "GFLOP/s") } else { ("time", "ms") };
        let value_column = || Column { unit: Some(unit.into()), ..column(value, true) };
        let columns = vec![
            column("case", false),
            column(if self.grows { "highest rate" } else { "fastest" }, false),
            value_column(),
            column("next", false),
            value_column(),
            Column { unit: Some("×".into()), ..column("next/fastest", true) },
            column("verdict", false),
        ];
        let cell = |record: &Record| {
            let value =
                if self.grows { record.gflops() } else { record.times.median.map(|median| 1e3 * median) };
            value.map_or(Cell::Empty, |value| Cell::Number(value, if self.grows { 1 } else { 4 }))
        };
        let row = |ranking: &Ranking<'_>| {
            let case = if ranking.case.is_empty() { "all".into() } else { ranking.case.clone() };
            let (name, record) = &ranking.winner;
            let next = ranking.next.as_ref();
            vec![
                Cell::Text(case),
                Cell::Text(name.clone()),
                cell(record),
                next.map_or(Cell::Empty, |(name, _)| Cell::Text(name.clone())),
                next.map_or(Cell::Empty, |(_, record)| cell(record)),
                self.lead(ranking).map_or(Cell::Empty, |lead| Cell::Number(lead, 2)),
                Cell::Text(self.verdict(ranking).into()),
            ]
        };
        Table {
            id: "cases".into(),
            title: format!("The winner of each of the {} cases", rankings.len()),
            caption: String::new(),
            columns,
            rows: rankings.iter().map(row).collect(),
        }
    }
}

/// Whether a record can win: it has times, and its result was verified.
fn is_ranked(record: &Record) -> bool {
    record.verified_s().is_some()
}

/// Whether the times of the winner or of the next are doubtful.
fn has_doubts(ranking: &Ranking<'_>) -> bool {
    let mut compared = std::iter::once(&ranking.winner).chain(&ranking.next);
    compared.any(|(_, record)| !record.doubts.is_empty())
}

/// Whether the winner and the next are simulated.
fn is_simulated(ranking: &Ranking<'_>) -> bool {
    ranking.winner.1.simulated && ranking.next.as_ref().is_none_or(|(_, next)| next.simulated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Checked, MatrixFacts};
    use crate::statistics::Times;
    use rowloom::internal::toml_file::TomlFile;

    fn config(sweep: &str) -> StudyConfig {
        StudyConfig::parse(&TomlFile::new("t.toml", format!("title = 't'\n[[sweep]]\nname = 's'\n{sweep}")))
            .unwrap()
    }

    /// Nine samples around `seconds`, `spread` apart.
    fn record(matrix: &str, kernel: &str, seconds: f64, spread: f64) -> Record {
        let steps = [-2.0, -1.0, 0.0, 1.0, 2.0, -1.0, 1.0, 0.0, 0.0];
        Record {
            sweep: "s".into(),
            matrix: MatrixFacts { name: matrix.into(), ..MatrixFacts::default() },
            kernel: kernel.into(),
            devices: "cpu".into(),
            device_count: 1,
            threads: 2,
            times: Times::new(&steps.map(|step| seconds * (1.0 + spread * step))),
            checked: Some(Checked::weighed(0)),
            flops: Some(1e9),
            ..Record::default()
        }
    }

    fn kernels(records: &[Record]) -> Answer {
        let sweep = "subject = 'kernel'\nmatrices = ['gen:a', 'gen:b']";
        answers(&config(sweep), records).remove(0)
    }

    #[test]
    fn an_answer_names_the_winner_the_ratio_and_whether_it_exceeds_the_noise() {
        let answer = kernels(&[
            record("a", "cpu_csr", 2e-3, 0.01),
            record("a", "cpu_sell", 1e-3, 0.01),
            record("a", "cpu_ell", 4e-3, 0.01),
        ]);
        assert_eq!(answer.question, "s: which kernel is fastest?");
        assert_eq!(
            answer.sentence,
            "The fastest is cpu_sell (1.00 ms), 2.00× faster than cpu_csr (2.00 ms): the difference exceeds the noise."
        );
        let close = kernels(&[record("a", "cpu_csr", 1.01e-3, 0.05), record("a", "cpu_sell", 1e-3, 0.05)]);
        assert!(close.sentence.contains("the difference is within the noise"), "{}", close.sentence);
        let single = Record { times: Times::new(&[3e-3]), ..record("a", "cpu_sell", 1.0, 0.0) };
        let unknown = kernels(&[record("a", "cpu_csr", 1e-3, 0.01), single]);
        assert!(unknown.sentence.contains("too few runs to know the noise"), "{}", unknown.sentence);
    }

    #[test]
    fn many_cases_are_counted_and_listed() {
        let answer = kernels(&[
            record("a", "cpu_csr", 2e-3, 0.01),
            record("a", "cpu_sell", 1e-3, 0.01),
            record("b", "cpu_csr", 1e-3, 0.05),
            record("b", "cpu_sell", 1.01e-3, 0.05),
        ]);
        assert_eq!(
            answer.sentence,
            "The fastest is cpu_sell in 1 of 2 cases; cpu_csr in 1. The winner is 1.01× to 2.00× faster than the next. \
             The difference exceeds the noise in 1 of 2 measured cases."
        );
        let cases = answer.cases.unwrap();
        assert_eq!(cases.rows.len(), 2);
        assert_eq!(cases.rows[0][0], Cell::Text("a".into()));
        assert_eq!(cases.rows[0][1], Cell::Text("cpu_sell".into()));
        assert_eq!(cases.rows[0][6], Cell::Text("the difference exceeds the noise".into()));
        assert_eq!(cases.rows[1][6], Cell::Text("the difference is within the noise".into()));
    }

    #[test]
    fn simulated_winners_have_no_noise_and_wrong_results_do_not_win() {
        let on = |devices: &str, seconds| Record {
            devices: devices.into(),
            simulated: true,
            times: Times::new(&[seconds]),
            ..record("a", "auto", 1.0, 0.0)
        };
        let sweep = config("matrices = ['gen:a']");
        let answer = answers(&sweep, &[on("sim:h200", 2e-3), on("sim:h200x2", 1e-3)]).remove(0);
        assert_eq!(answer.question, "s: which set of devices is fastest?");
        assert!(answer.sentence.contains("sim:h200x2 (1.00 ms), 2.00× faster"), "{}", answer.sentence);
        assert!(answer.sentence.ends_with("simulated, without noise."), "{}", answer.sentence);
        let wrong = Record { checked: Some(Checked::weighed(1)), ..record("a", "cpu_ell", 1e-9, 0.0) };
        let answer = kernels(&[wrong, record("a", "cpu_csr", 1e-3, 0.01)]);
        assert_eq!(answer.sentence, "Only cpu_csr was measured: 1.00 ms. 1 result is wrong and cannot win.");
    }

    #[test]
    fn doubtful_times_and_a_swept_k_have_a_sentence() {
        let doubtful = Record { doubts: vec!["outliers".into()], ..record("a", "cpu_csr", 2e-3, 0.01) };
        let answer = kernels(&[doubtful.clone(), record("a", "cpu_sell", 1e-3, 0.01)]);
        let sentence = "The times compared are doubtful: the warnings have the reasons.";
        assert!(answer.sentence.ends_with(sentence), "{}", answer.sentence);
        let slowest = Record { times: Times::new(&[9e-3; 9]), ..doubtful.clone() };
        let answer = kernels(&[
            Record { kernel: "slow".into(), ..slowest },
            record("a", "cpu_ell", 2e-3, 0.01),
            record("a", "cpu_sell", 1e-3, 0.01),
        ]);
        assert!(!answer.sentence.contains("doubtful"), "{}", answer.sentence);
        let with = |k, seconds| Record { k: Some(k), ..record("a", "cpu_sell", seconds, 0.01) };
        let answer = kernels(&[with(1, 1e-3), with(32, 0.5e-3), Record { k: Some(32), ..doubtful }]);
        let sentence = "The highest rate is 1000 GFLOP/s with K = 1 and 2000 GFLOP/s with K = 32. \
                        In 1 of 2 cases the times compared are doubtful: the warnings have the reasons.";
        assert!(answer.sentence.ends_with(sentence), "{}", answer.sentence);
    }

    #[test]
    fn unverified_results_are_not_compared() {
        let unverified = Record { checked: None, ..record("a", "cpu_ell", 1e-9, 0.0) };
        let answer = kernels(&[unverified.clone(), record("a", "cpu_csr", 1e-3, 0.01)]);
        assert_eq!(
            answer.sentence,
            "Only cpu_csr was measured: 1.00 ms. 1 result was not verified and is not compared."
        );
        let other = Record { kernel: "cpu_csr".into(), ..unverified.clone() };
        let answer = kernels(&[unverified, other]);
        assert_eq!(
            answer.sentence,
            "No result was verified. 2 results were not verified and are not compared."
        );
        assert_eq!(answer.cases, None);
    }

    #[test]
    fn every_sweep_has_an_answer_even_where_nothing_was_measured() {
        let refused = Record {
            times: Times::default(),
            reason: Some("device cuda:0: there is no CUDA driver; install one".into()),
            ..record("a", "auto", 1.0, 0.0)
        };
        let answer = answers(&config("matrices = ['gen:a']"), &[refused.clone(), refused]).remove(0);
        assert_eq!(
            answer.sentence,
            "Nothing was measured. 2 results were not measured: device cuda:0: there is no CUDA driver."
        );
        assert_eq!(answer.cases, None);
    }

    #[test]
    fn growing_matrices_are_compared_by_rate() {
        let on = |matrix: &str, threads, flops, seconds| Record {
            threads,
            flops: Some(flops),
            times: Times::new(&[seconds; 9]),
            ..record(matrix, "auto", 1.0, 0.0)
        };
        let sweep = config("matrices = ['gen:uniform,rows={1000*threads}']\nthreads = [1, 2]");
        let answer = answers(&sweep, &[on("rows=1", 1, 1e9, 1.0), on("rows=2", 2, 2e9, 1.25)]).remove(0);
        assert_eq!(answer.question, "s: which number of threads has the highest rate?");
        assert!(
            answer.sentence.contains("2 threads (1.60 GFLOP/s), 1.60× faster than 1 thread"),
            "{}",
            answer.sentence
        );
    }
}
