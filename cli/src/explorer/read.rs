//! Files of `bench --json=FILE` and `study`, read for the performance explorer.
//!
//! A file of another version is read as long as the keys are there that a case needs; keys that are missing otherwise leave gaps.

use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::collected::Collected;
use super::{bench, study};
use crate::console::table::count_of;
use crate::plots::ExplorerFile;
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

/// Adds the cases of a file and returns their number.
pub fn add(collected: &mut Collected, path: &Path) -> Result<usize> {
    let text = read_regular(path)?;
    let head: Head = parsed(path, &text)?;
    let refused = |reason: String| Err(Error::input(Place::file(path), format!("{reason}; {EXPECTED}")));
    if head.trace_events.is_some() {
        return refused("this is a trace".into());
    }
    let (Some(version), Some(command)) = (head.rowloom, head.command) else {
        return refused("this is no report of rowloom".into());
    };
    let file = collected.data.files.len();
    let before = collected.data.cases.len();
    let provenance = match command.as_str() {
        "bench" if head.config.and_then(|config| config.oracle) == Some(true) => {
            return refused("a report of bench --oracle, which has no peers".into());
        }
        "bench" if head.cases.is_some() => bench::add(parsed(path, &text)?, file, collected),
        "bench" => return refused("a report of rowloom bench without cases of products".into()),
        "study" if head.records.is_some() => study::add(parsed(path, &text)?, file, collected),
        "study" => return refused("a report of rowloom study without records".into()),
        other => return refused(format!("a report of rowloom {other}")),
    };
    let cases = collected.data.cases.len() - before;
    let about = [
        Some(format!("rowloom {version} {command}")),
        Some(count_of(cases as u64, "case", "cases")),
        provenance.machine.as_ref().and_then(|machine| machine.line()),
        provenance.started.clone(),
    ];
    let about = about.into_iter().flatten().collect::<Vec<_>>().join(", ");
    collected.data.files.push(ExplorerFile { name: path.display().to_string(), about });
    collected.hosts.push(provenance.machine.and_then(|machine| machine.host));
    Ok(cases)
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
