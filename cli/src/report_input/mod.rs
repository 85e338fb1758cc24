//! Files of `bench --json=FILE` and `study`, read for the performance explorer.
//!
//! A file of another version is read as long as the keys are there that a case needs; keys that are missing otherwise leave gaps.

mod bench;
mod files;
mod naming;
mod study;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::plots::{ExplorerData, ExplorerFile, ExplorerMatrix};
use crate::table::count_of;
use files::{Description, Facts};
use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::files::read_regular;

/// What a file must be.
const EXPECTED: &str =
    "expected a file that `rowloom bench --json=FILE` wrote, or results.json of the folder of a study";

/// The first keys of a report, and those that tell it from other files.
#[derive(Deserialize)]
struct Head {
    rowloom: Option<String>,
    command: Option<String>,
    cases: Option<IgnoredAny>,
    records: Option<IgnoredAny>,
    #[serde(default)]
    config: Option<HeadConfig>,
    #[serde(rename = "traceEvents")]
    trace_events: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct HeadConfig {
    #[serde(default)]
    oracle: Option<bool>,
}

/// The data of all files so far.
#[derive(Default)]
pub struct Collected {
    data: ExplorerData,
    matrices: HashMap<(String, String), usize>,
    /// The host of each file's machine.
    hosts: Vec<Option<String>>,
    /// Results that are not part of the page: how many of each reason, in the order of the reasons.
    skipped: BTreeMap<String, u64>,
}

impl Collected {
    /// Adds the cases of a file and returns their number.
    pub fn add(&mut self, path: &Path) -> Result<usize> {
        let text = read_regular(path)?;
        let head: Head = parsed(path, &text)?;
        let refused = |reason: String| Err(Error::input(Place::file(path), format!("{reason}; {EXPECTED}")));
        if head.trace_events.is_some() {
            return refused("this is a trace".into());
        }
        let (Some(version), Some(command)) = (head.rowloom, head.command) else {
            return refused("this is no report of rowloom".into());
        };
        let file = self.data.files.len();
        let before = self.data.cases.len();
        let provenance = match command.as_str() {
            "bench" if head.config.and_then(|config| config.oracle) == Some(true) => {
                return refused("a report of bench --oracle, which has no peers".into());
            }
            "bench" if head.cases.is_some() => bench::add(parsed(path, &text)?, file, self),
            "bench" => return refused("a report of rowloom bench without cases of products".into()),
            "study" if head.records.is_some() => study::add(parsed(path, &text)?, file, self),
            "study" => return refused("a report of rowloom study without records".into()),
            other => return refused(format!("a report of rowloom {other}")),
        };
        let cases = self.data.cases.len() - before;
        let about = [
            Some(format!("rowloom {version} {command}")),
            Some(count_of(cases as u64, "case", "cases")),
            provenance.machine.as_ref().and_then(|machine| machine.line()),
            provenance.started.clone(),
        ];
        let about = about.into_iter().flatten().collect::<Vec<_>>().join(", ");
        self.data.files.push(ExplorerFile { name: path.display().to_string(), about });
        self.hosts.push(provenance.machine.and_then(|machine| machine.host));
        Ok(cases)
    }

    /// The data of the page; devices of several machines are told apart by the host.
    pub fn finish(mut self, title: String) -> ExplorerData {
        let mut distinct: Vec<&String> = self.hosts.iter().flatten().collect();
        distinct.sort();
        distinct.dedup();
        if distinct.len() > 1 {
            for case in &mut self.data.cases {
                if let Some(Some(host)) = self.hosts.get(case.file) {
                    case.device = format!("{} on {host}", case.device);
                }
            }
        }
        let line = |(reason, number): (&String, &u64)| {
            format!("{}: {reason}", count_of(*number, "result", "results"))
        };
        self.data.left_out = self.skipped.iter().map(line).collect();
        self.data.title = title;
        self.data
    }

    /// The index of a matrix, which is added if it is new. A description fills gaps.
    fn matrix(
        &mut self,
        facts: &Facts,
        argument: Option<String>,
        description: Option<&Description>,
    ) -> usize {
        let key = (facts.name.clone(), facts.hash.clone());
        let index = *self.matrices.entry(key).or_insert_with(|| {
            let Facts { name, rows, cols, nnz, .. } = facts.clone();
            self.data.matrices.push(ExplorerMatrix { name, rows, cols, nnz, ..Default::default() });
            self.data.matrices.len() - 1
        });
        let argument = description.and_then(|of| of.argument.clone()).or(argument);
        if let Some(matrix) = self.data.matrices.get_mut(index) {
            if matrix.group.is_empty() || matrix.argument.is_empty() {
                matrix.group = naming::group(&facts.name, argument.as_deref());
                matrix.argument = argument.as_deref().map(naming::quoted).unwrap_or_default();
            }
            if let Some(features) = description.and_then(|of| of.features.as_ref()) {
                features.fill(matrix);
            }
            if let Some(pattern) = description.and_then(|of| of.pattern.as_ref()) {
                matrix.pattern.clone_from(&pattern.cells);
            }
        }
        index
    }

    /// Counts a result that is not part of the page.
    fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.into()).or_default() += 1;
    }
}

/// A file as JSON of some shape; an error names the line and the column.
fn parsed<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        let whole = error.to_string();
        let said = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(said, _)| said);
        let reason = match error.classify() {
            serde_json::error::Category::Data => format!("a case cannot be read: {said}"),
            _ if error.line() == 1 && error.column() <= 1 => "this is no JSON".into(),
            _ => format!("the JSON is damaged: {said}"),
        };
        let place = Place::line(path.display().to_string(), error.line() as u64);
        Error::input(place.at_column(error.column() as u64), format!("{reason}; {EXPECTED}"))
    })
}
