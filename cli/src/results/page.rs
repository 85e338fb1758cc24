//! The report of a study: answers, warnings, figures, tables, a timeline, and the commands that reproduce it.

use super::answer::answers;
use super::config::StudyConfig;
use super::figures::{count, figures, size};
use super::record::{BYTE_MODEL, Record};
use super::wording::explanations;
use crate::measure::MatrixFacts;
use crate::measure::Provenance;
use crate::plots::{Cell, Column, Report, Table, Timeline, WarningGroup};
use rowloom::internal::error::Result;

/// The parts that a report is made of.
pub struct Results<'a> {
    /// The study.
    pub config: &'a StudyConfig,
    /// The machine and the program.
    pub provenance: &'a Provenance,
    /// All records, speed-ups included.
    pub records: &'a [Record],
    /// Cases of the study.
    pub cases: usize,
    /// Cases that are finished.
    pub finished: usize,
    /// Timelines of single runs.
    pub timelines: Vec<Timeline>,
    /// A description of each shell command, and the command.
    pub commands: Vec<(String, String)>,
    /// Notes that the program printed.
    pub notes: Vec<String>,
}

/// The report.
pub fn page(results: Results<'_>) -> Result<Report> {
    let Results { config, provenance, records, cases, finished, timelines, commands, notes } = results;
    let mut facts = provenance.facts();
    let measure = &config.measure;
    let rule = match measure.repeat {
        Some(1) => "1 run".into(),
        Some(repeat) => format!("{repeat} runs"),
        None => "at least 10 runs and 0.5 s, until the standard deviation is 0.5 % of the mean".into(),
    };
    let warmup =
        if measure.warmup == 1 { "1 warm-up run".into() } else { format!("{} warm-up runs", measure.warmup) };
    facts.push((
        "Study".into(),
        vec![
            ("cases".into(), format!("{finished} of {cases} finished")),
            (
                "sweeps".into(),
                config.sweep.iter().map(|sweep| sweep.name.clone()).collect::<Vec<_>>().join(", "),
            ),
            (
                "each case".into(),
                format!("{warmup}, then {rule}; stops at the time cap of {} s", measure.time_cap_s),
            ),
            (
                "noise".into(),
                "95 % interval of the median, from order statistics of at most 20 blocks of consecutive runs"
                    .into(),
            ),
            ("bytes".into(), BYTE_MODEL.into()),
        ],
    ));
    let mut warnings = Vec::new();
    if finished < cases {
        let cause =
            format!("{} of {cases} cases are not finished; the same command continues.", cases - finished);
        warnings.push(WarningGroup { cause, items: Vec::new() });
    }
    warnings.extend(grouped_warnings(records));
    if !notes.is_empty() {
        warnings.push(WarningGroup { cause: "Notes of the program".into(), items: notes });
    }
    let mut tables: Vec<Table> = Vec::new();
    for sweep in &config.sweep {
        let records: Vec<&Record> = records.iter().filter(|record| record.sweep == sweep.name).collect();
        if !records.is_empty() {
            tables.push(results_table(&sweep.name, &records));
        }
    }
    tables.push(matrices_table(records));
    Ok(Report {
        title: config.title.clone(),
        subtitle: config.question.clone(),
        answers: answers(config, records),
        warnings,
        facts,
        configuration: config.to_toml()?,
        commands,
        figures: figures(config, records),
        tables,
        timelines,
    })
}

/// Records without times or ratios by reason, and doubtful times by cause.
fn grouped_warnings(records: &[Record]) -> Vec<WarningGroup> {
    let mut groups: Vec<WarningGroup> = Vec::new();
    let mut add = |cause: String, item: String| match groups.iter_mut().find(|group| group.cause == cause) {
        Some(group) if group.items.contains(&item) => {}
        Some(group) => group.items.push(item),
        None => groups.push(WarningGroup { cause, items: vec![item] }),
    };
    for record in records {
        if let Some(reason) = &record.reason {
            add(format!("Not measured: {reason}"), name(record));
        }
        if let Some(reason) = record.unverified_reason() {
            add(format!("No rate and no ratio: {reason}"), name(record));
        }
    }
    for record in records {
        for doubt in &record.doubts {
            add(format!("Doubtful times: {}", without_numbers(doubt)), format!("{}: {doubt}", name(record)));
        }
    }
    groups.iter_mut().for_each(|group| group.items = merged(&group.items));
    groups
}

/// The items with results of one name as one item, in the words of the first: what the name leaves out, such as the chunk size, varies.
fn merged(items: &[String]) -> Vec<String> {
    let mut results: Vec<(&str, &String, usize)> = Vec::new();
    for item in items {
        let name = item.split_once(": ").map_or(item.as_str(), |(name, _)| name);
        match results.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., count)) => *count += 1,
            None => results.push((name, item, 1)),
        }
    }
    let worded = |(_, first, count): (&str, &String, usize)| match count {
        1 => first.clone(),
        count => format!("{first} ({count} results, this is the first)"),
    };
    results.into_iter().map(worded).collect()
}

/// `text` with each number replaced by `…`, so that warnings of one kind have one cause.
fn without_numbers(text: &str) -> String {
    let mut cause = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            cause.push(letter);
            continue;
        }
        while letters.peek().is_some_and(|next| next.is_ascii_digit() || *next == '.') {
            letters.next();
        }
        cause.push('…');
    }
    cause
}

/// The kernel, matrix, K, type, devices and threads of a record.
fn name(record: &Record) -> String {
    let k = record.k.map_or(String::new(), |k| format!(" with K = {k}"));
    let kernel = if record.kernel.is_empty() { "all kernels" } else { &record.kernel };
    let dtype = record.dtype.map_or(String::new(), |dtype| format!(", {}", dtype.name()));
    let has_cpu = record.devices.split(',').any(|device| device == "cpu");
    let threads =
        if has_cpu { format!(", {}", count(record.used_threads(), "thread")) } else { String::new() };
    format!("{kernel} on {}{k}{dtype}, {}{threads}", record.matrix.name, record.devices)
}

fn column(name: &str, unit: Option<&str>, numeric: bool) -> Column {
    Column { name: name.into(), unit: unit.map(Into::into), numeric }
}

fn number(value: Option<f64>, digits: usize) -> Cell {
    value.filter(|value| value.is_finite()).map_or(Cell::Empty, |value| Cell::Number(value, digits))
}

/// The results of a sweep. A column with one value in all rows is named in the caption instead; an empty column is left out.
fn results_table(sweep: &str, records: &[&Record]) -> Table {
    let time = if records.iter().all(|record| record.simulated) { "simulated time" } else { "time" };
    let columns = vec![
        column("matrix", None, false),
        column("K", None, true),
        column("type", None, false),
        column("kernel", None, false),
        column("devices", None, false),
        column("threads", None, true),
        column("options", None, false),
        column(time, Some("ms"), true),
        column("spread", Some("%"), true),
        column("rate", Some("GFLOP/s"), true),
        column("of roofline", Some("%"), true),
        column("speed-up", Some("×"), true),
        column("over peer", Some("×"), true),
        column("predicted", Some("ms"), true),
        column("hidden", Some("%"), true),
        column("runs", None, true),
        column("result", None, false),
    ];
    let row = |record: &&Record| {
        let times = &record.times;
        let spread =
            times.stddev.zip(times.mean.filter(|&mean| mean > 0.0)).map(|(dev, mean)| 100.0 * dev / mean);
        let result = match (&record.reason, record.checked) {
            (Some(_), _) => Cell::Text("not measured".into()),
            (None, Some(checked)) => Cell::Text(if checked.passed { "correct" } else { "WRONG" }.into()),
            (None, None) if record.simulated => Cell::Text("simulated".into()),
            (None, None) if record.is_verified() => Cell::Text("nothing to verify".into()),
            (None, None) => Cell::Text("not verified".into()),
        };
        let kernel = match &record.chosen {
            Some(chosen) if *chosen != record.kernel => format!("{}: {chosen}", record.kernel),
            _ => record.kernel.clone(),
        };
        vec![
            Cell::Text(record.matrix.name.clone()),
            number(record.k.map(|k| k as f64), 0),
            record.dtype.map_or(Cell::Empty, |dtype| Cell::Text(dtype.name().into())),
            Cell::Text(kernel),
            Cell::Text(record.devices.clone()),
            number(Some(record.used_threads() as f64), 0),
            Cell::Text(options(record)),
            number(times.median.map(|median| 1e3 * median), 3),
            number(spread, 1),
            number(record.gflops(), 2),
            number(record.roofline_fraction().filter(|share| *share <= 1.0).map(|share| 100.0 * share), 1),
            number(record.speedup.filter(|_| record.is_verified()), 2),
            number(record.peer_speedup, 2),
            number(record.predicted_s.map(|seconds| 1e3 * seconds), 3),
            number(record.verified_hidden_fraction().map(|share| 100.0 * share), 1),
            number(Some(times.n as f64).filter(|_| !record.simulated), 0),
            result,
        ]
    };
    let rows: Vec<Vec<Cell>> = records.iter().map(row).collect();
    let mut table = without_constant_columns(format!("Results: {sweep}"), sweep, columns, rows);
    for sentence in explanations(records) {
        let gap = if table.caption.is_empty() { "" } else { " " };
        table.caption += &format!("{gap}{sentence}");
    }
    table
}

/// A table in which every column has two values at least; the caption names the others.
fn without_constant_columns(title: String, id: &str, columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Table {
    let values = |index: usize| rows.iter().map(move |row| row.get(index).unwrap_or(&Cell::Empty));
    let is_empty = |cell: &Cell| *cell == Cell::Empty || *cell == Cell::Text(String::new());
    let mut constants = Vec::new();
    let mut kept = Vec::new();
    for (index, column) in columns.into_iter().enumerate() {
        let first = values(index).next().unwrap_or(&Cell::Empty);
        let is_constant = rows.len() > 1 && values(index).all(|cell| cell == first);
        match first {
            _ if values(index).all(is_empty) => {}
            Cell::Text(text) if is_constant => constants.push(format!("{} {text}", column.name)),
            Cell::Number(value, digits) if is_constant => {
                let unit = column.unit.map_or(String::new(), |unit| format!(" {unit}"));
                constants.push(format!("{} {value:.digits$}{unit}", column.name));
            }
            _ => kept.push((index, column)),
        }
    }
    let caption = match constants.is_empty() {
        true => String::new(),
        false => format!("In all rows: {}.", constants.join(", ")),
    };
    let indices: Vec<usize> = kept.iter().map(|(index, _)| *index).collect();
    let of_kept = |row: &Vec<Cell>| {
        indices.iter().map(|index| row.get(*index).cloned().unwrap_or(Cell::Empty)).collect()
    };
    let rows = rows.iter().map(of_kept).collect();
    let id = format!("results-{}", id.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    Table { id, title, caption, columns: kept.into_iter().map(|(_, column)| column).collect(), rows }
}

/// The options of a record that are not at their default.
fn options(record: &Record) -> String {
    let words = [
        record.mode.clone().filter(|mode| mode != "auto"),
        record.schedule.clone().filter(|schedule| schedule != "balanced"),
        record.transfer.clone().filter(|transfer| transfer != "auto"),
        record.chunk_bytes.map(|bytes| format!("chunks of {}", size(bytes))),
        record.cpu_share.map(|share| format!("{:.0} % on the CPU", 100.0 * share)),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn matrices_table(records: &[Record]) -> Table {
    let mut matrices: Vec<&MatrixFacts> = Vec::new();
    for record in records {
        if !matrices.contains(&&record.matrix) {
            matrices.push(&record.matrix);
        }
    }
    let row = |matrix: &&MatrixFacts| {
        vec![
            Cell::Text(matrix.name.clone()),
            number(Some(matrix.rows as f64), 0),
            number(Some(matrix.cols as f64), 0),
            number(Some(matrix.nnz as f64), 0),
            Cell::Text(matrix.hash.clone()),
        ]
    };
    Table {
        id: "matrices".into(),
        title: "Matrices".into(),
        caption: String::new(),
        columns: vec![
            column("matrix", None, false),
            column("rows", None, true),
            column("columns", None, true),
            column("nonzeros", None, true),
            column("xxh3", None, false),
        ],
        rows: matrices.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Checked;
    use crate::statistics::Times;
    use rowloom::internal::matrix::Dtype;

    /// Pixels inside the card of a table on a page of 1280 px, of a character, and of the padding of a cell.
    const CARD: usize = 1126;
    const CHARACTER: usize = 8;
    const PADDING: usize = 12;

    fn record(index: usize) -> Record {
        Record {
            sweep: "s".into(),
            matrix: MatrixFacts {
                name: format!("uniform,rows={}000,degree=16", index + 1),
                ..MatrixFacts::default()
            },
            dtype: Some(if index.is_multiple_of(2) { Dtype::F64 } else { Dtype::F32 }),
            k: Some(1 << index),
            devices: if index.is_multiple_of(2) { "cpu".into() } else { "cpu,cuda:0".into() },
            device_count: 1,
            threads: 1 + index,
            kernel: format!("csr_adaptive_subblocks_{index}"),
            mode: Some(if index.is_multiple_of(2) { "stream" } else { "resident" }.into()),
            chunk_bytes: Some(1 << (16 + index)),
            times: Times::new(&[0.123 * (1 + index) as f64, 0.124]),
            predicted_s: Some(0.2 + index as f64),
            flops: Some(1e12),
            bytes: Some(1_000_000_000),
            memory_gb_per_s: Some(100.0 + index as f64),
            speedup: Some(12.34 * (1 + index) as f64),
            hidden_fraction: Some(0.5 / (1 + index) as f64),
            checked: Some(Checked::weighed(usize::from(index == 2))),
            ..Record::default()
        }
    }

    /// The width of the longest part that cannot wrap.
    fn unbreakable(text: &str) -> usize {
        text.split([' ', ',']).map(|part| part.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_table_of_results_fits_a_page_of_1280_pixels() {
        let records: Vec<Record> = (0..6).map(record).collect();
        let records: Vec<&Record> = records.iter().collect();
        let table = results_table("s", &records);
        let widths = table.columns.iter().enumerate().map(|(index, column)| {
            let cells = table.rows.iter().map(|row| match &row[index] {
                // Text breaks anywhere, but should not need to.
                Cell::Text(text) => unbreakable(text).min(9),
                Cell::Number(value, digits) => format!("{value:.digits$}").len(),
                Cell::Empty => 0,
            });
            let unit = column.unit.as_deref().unwrap_or_default();
            let head = unbreakable(&format!("{} {unit}", column.name)) + 1;
            cells.max().unwrap_or(0).max(head) * CHARACTER + PADDING
        });
        let width: usize = widths.sum();
        assert!(width <= CARD, "{width} px of {CARD}");
    }

    #[test]
    fn columns_with_one_value_are_in_the_caption() {
        let records = [record(0), Record { k: Some(4), kernel: "cpu_csr".into(), ..record(0) }];
        let records: Vec<&Record> = records.iter().collect();
        let table = results_table("s", &records);
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["K", "kernel"]);
        assert!(
            table.caption.contains("type f64") && table.caption.contains("threads 1"),
            "{}",
            table.caption
        );
        assert!(table.caption.contains("time 123.500 ms"), "{}", table.caption);
    }

    #[test]
    fn a_warning_names_type_and_threads_and_equal_ones_are_one() {
        let doubtful = |threads, chunk_bytes, doubt: &str| Record {
            threads,
            chunk_bytes: Some(chunk_bytes),
            doubts: vec![doubt.into()],
            ..record(0)
        };
        let groups = grouped_warnings(&[
            doubtful(1, 1024, "2 of 10 samples are outliers"),
            doubtful(2, 1024, "3 of 10 samples are outliers"),
            doubtful(2, 2048, "4 of 10 samples are outliers"),
        ]);
        let name = "csr_adaptive_subblocks_0 on uniform,rows=1000,degree=16 with K = 1, f64, cpu";
        assert_eq!(groups.len(), 1);
        assert_eq!(
            groups[0].items,
            [
                format!("{name}, 1 thread: 2 of 10 samples are outliers"),
                format!("{name}, 2 threads: 3 of 10 samples are outliers (2 results, this is the first)"),
            ]
        );
    }

    #[test]
    fn a_result_faster_than_the_roofline_has_no_share_and_a_sentence() {
        let cached = Record { memory_gb_per_s: Some(0.1), ..record(0) };
        assert!(cached.roofline_fraction() > Some(1.0));
        let table = results_table("s", &[&cached, &record(1)]);
        let column = table.columns.iter().position(|column| column.name == "of roofline").unwrap();
        assert_eq!(table.rows[0][column], Cell::Empty);
        assert!(table.caption.contains("its data stay in the caches"), "{}", table.caption);
        let other = results_table("s", &[&record(1), &record(3)]);
        assert!(!other.caption.contains("caches") && !other.caption.contains("not verified"));
        let unverified = Record { checked: None, ..record(0) };
        let table = results_table("s", &[&unverified, &record(1)]);
        assert!(table.caption.contains("not verified: the result was not compared"), "{}", table.caption);
    }

    #[test]
    fn warnings_are_grouped_by_cause() {
        let doubtful = |index, doubt: &str| Record { doubts: vec![doubt.into()], ..record(index) };
        let refused = |index| Record {
            reason: Some("no CUDA driver".into()),
            times: Times::default(),
            ..record(index)
        };
        let groups = grouped_warnings(&[
            doubtful(0, "3 of 10 samples are outliers, up to 4.5 times the median"),
            refused(1),
            doubtful(4, "2 of 12 samples are outliers, up to 2.1 times the median"),
            refused(3),
            record(2),
            Record { checked: None, ..record(0) },
        ]);
        let causes: Vec<(&str, usize)> =
            groups.iter().map(|group| (group.cause.as_str(), group.items.len())).collect();
        assert_eq!(
            causes,
            [
                ("Not measured: no CUDA driver", 2),
                ("No rate and no ratio: Y is wrong", 1),
                ("No rate and no ratio: Y was not verified", 1),
                ("Doubtful times: … of … samples are outliers, up to … times the median", 2)
            ]
        );
        assert!(groups[3].items[1].contains("2 of 12 samples"), "{:?}", groups[3].items);
    }

    #[test]
    fn an_unverified_result_has_a_time_and_no_rate_or_ratio() {
        let unverified = Record { checked: None, ..record(0) };
        let wrong = record(2);
        let records = [&record(1), &unverified, &wrong];
        let table = results_table("s", &records);
        let cell = |row: usize, name: &str| {
            let column = table.columns.iter().position(|column| column.name == name).unwrap();
            table.rows[row][column].clone()
        };
        for name in ["rate", "of roofline", "speed-up", "hidden"] {
            assert!(matches!(cell(0, name), Cell::Number(..)), "{name}");
            assert_eq!([cell(1, name), cell(2, name)], [Cell::Empty, Cell::Empty], "{name}");
        }
        assert!(matches!(cell(1, "time"), Cell::Number(..)));
        let results = [1, 2].map(|row| cell(row, "result"));
        assert_eq!(results, ["not verified", "WRONG"].map(|text| Cell::Text(text.into())));
    }
}
