//! Traces read back from the files that [`Trace::write`] wrote.
//!
//! A damaged file is an error with its line and the reason. Traces of other programs are refused: they have no tasks, chunks and
//! predictions, and need not keep the rules that the summary relies on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category as Fault;
use serde_json::{Map, Value};

use super::lanes::LATEST_NS;
use super::model::{Arguments, Category, Lane, LaneId, ProcessId, Span, SpanId, Trace};
use super::write::{ADJUSTMENTS_KEY, FORMAT, FORMAT_KEY};
use crate::error::{Advice, Error, Place, Result};

const NOT_A_ROWLOOM_TRACE: &str = "this is not a trace that Rowloom wrote";

impl Trace {
    /// Reads a trace that [`Trace::write`] wrote; any other or damaged file is an input error.
    pub fn read(path: &Path) -> Result<Self> {
        // Opening a named pipe without a writer would block.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(|error| Error::read(path, error))?;
        if !file.metadata().map_err(|error| Error::read(path, error))?.is_file() {
            return Err(Error::input(Place::file(path), "this is not a regular file; name a trace file"));
        }
        Self::parse(path, BufReader::with_capacity(1 << 18, file))
    }

    /// The trace that [`Trace::to_bytes`] gave.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::parse(Path::new("the trace of a rank"), bytes)
    }

    fn parse(path: &Path, text: impl Read) -> Result<Self> {
        let mut json = serde_json::Deserializer::from_reader(text);
        let mut trace = Self::default();
        TraceSeed(&mut trace)
            .deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|error| describe(path, error))?;
        trace.overlaps().map_err(|reason| Error::input(Place::file(path), format!("damaged: {reason}")))?;
        Ok(trace)
    }
}

fn not_a_trace(path: &Path) -> Error {
    Error::input(Place::file(path), NOT_A_ROWLOOM_TRACE).advise([Advice::NewTrace])
}

/// The error at a line of the file.
fn describe(path: &Path, error: serde_json::Error) -> Error {
    let (fault, line, column) = (error.classify(), error.line() as u64, error.column() as u64);
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let reason = match fault {
        Fault::Io => return Error::read(path, error.into()),
        Fault::Eof => "the file is empty or cut short; make the trace again".to_owned(),
        Fault::Syntax if line <= 1 && column <= 2 => return not_a_trace(path),
        // A line would point at one of many places where another kind of file differs from a trace.
        Fault::Data if message.contains(NOT_A_ROWLOOM_TRACE) => return not_a_trace(path),
        Fault::Syntax => format!("damaged JSON: {message}; make the trace again"),
        Fault::Data => message.to_owned(),
    };
    let place = Place { source: path.display().to_string(), line: None, column: None };
    let place = if line == 0 { place } else { Place { line: Some(line), column: Some(column), ..place } };
    Error::input(place, reason)
}

/// Fills a trace from the file's object.
struct TraceSeed<'a>(&'a mut Trace);

impl<'de> DeserializeSeed<'de> for TraceSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TraceSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a trace ({NOT_A_ROWLOOM_TRACE})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let (mut known, mut complete) = (false, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metadata" => {
                    add_metadata(self.0, map.next_value()?).map_err(A::Error::custom)?;
                    known = true;
                }
                // A Rowloom trace has its metadata first, so that no event of another program is parsed.
                "traceEvents" if known && !complete => {
                    map.next_value_seed(EventsSeed(self.0))?;
                    complete = true;
                }
                "traceEvents" => return Err(A::Error::custom(NOT_A_ROWLOOM_TRACE)),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if complete { Ok(()) } else { Err(A::Error::custom(NOT_A_ROWLOOM_TRACE)) }
    }
}

fn add_metadata(trace: &mut Trace, mut metadata: Map<String, Value>) -> std::result::Result<(), String> {
    match metadata.remove(FORMAT_KEY) {
        Some(version) if version == FORMAT => {}
        Some(version) if version.is_u64() => {
            return Err(format!(
                "this trace has layout {version}; this program reads layout {FORMAT}: use the program that wrote it"
            ));
        }
        _ => return Err(NOT_A_ROWLOOM_TRACE.into()),
    }
    let adjustments = metadata.remove(ADJUSTMENTS_KEY).unwrap_or_default();
    trace.adjustments =
        serde_json::from_value(adjustments).map_err(|error| format!("damaged adjustments: {error}"))?;
    trace.metadata = metadata;
    Ok(())
}

/// Fills a trace from the file's list of events.
struct EventsSeed<'a>(&'a mut Trace);

impl<'de> DeserializeSeed<'de> for EventsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> std::result::Result<(), A::Error> {
        let mut arrow = None;
        while let Some(event) = events.next_element::<Event>()? {
            add_event(self.0, event, &mut arrow)
                .map_err(|reason| A::Error::custom(format!("damaged event: {reason}")))?;
        }
        if arrow.is_some() { Err(A::Error::custom("damaged: an arrow has no end")) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Phase {
    M,
    X,
    #[serde(rename = "s")]
    ArrowStart,
    #[serde(rename = "f")]
    ArrowEnd,
    C,
}

#[derive(Debug, Deserialize)]
struct Event {
    ph: Phase,
    pid: u32,
    tid: u32,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    id: u64,
    name: String,
    #[serde(default)]
    args: EventArguments,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventArguments {
    name: Option<String>,
    value: Option<f64>,
    from: Option<u32>,
    to: Option<u32>,
    chunk: Option<u64>,
    rows: Option<u64>,
    bytes: Option<u64>,
    kernel: Option<String>,
    predicted_us: Option<f64>,
    gb_per_s: Option<f64>,
    run: Option<u64>,
    /// A size that a kind of work has named.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Adds an event to the trace; `arrow` is the id and source of an arrow whose end must be the next event.
fn add_event(
    trace: &mut Trace,
    event: Event,
    arrow: &mut Option<(u64, SpanId)>,
) -> std::result::Result<(), String> {
    if arrow.is_some() && !matches!(event.ph, Phase::ArrowEnd) {
        return Err("the arrow before it has no end".into());
    }
    match event.ph {
        Phase::M => add_name(trace, event),
        Phase::X => {
            let lane = known_lane(trace, &event)?;
            let category = Category::by_name(&event.cat);
            let category = category.ok_or_else(|| format!("unknown category '{}'", event.cat))?;
            let start_ns = nanoseconds("ts", event.ts)?;
            let end_ns = start_ns + nanoseconds("dur", event.dur)?;
            let args = event.args;
            let arguments = Arguments {
                chunk: args.chunk,
                rows: args.rows,
                size: args.others.into_iter().find_map(|(name, value)| Some((name.into(), value.as_u64()?))),
                bytes: args.bytes,
                kernel: args.kernel.map(Into::into),
                predicted_us: args.predicted_us,
                gb_per_s: args.gb_per_s,
                run: args.run,
            };
            trace.span(Span { lane, name: event.name, category, start_ns, end_ns, arguments });
            Ok(())
        }
        Phase::ArrowStart => {
            *arrow = Some((event.id, arrow_span(trace, &event)?));
            Ok(())
        }
        Phase::ArrowEnd => match arrow.take() {
            Some((id, from)) if id == event.id => {
                let to = arrow_span(trace, &event)?;
                trace.flow(from, to);
                Ok(())
            }
            _ => Err("an arrow has an end and no start".into()),
        },
        Phase::C => {
            let process = known_process(trace, event.pid)?;
            let value = event.args.value.ok_or("a counter has no value")?;
            trace.counter(process, &event.name, nanoseconds("ts", event.ts)?, value);
            Ok(())
        }
    }
}

/// Adds the name of a process or lane; names come in the order of their numbers.
fn add_name(trace: &mut Trace, event: Event) -> std::result::Result<(), String> {
    match (event.name.as_str(), event.args.name) {
        ("process_name", Some(name))
            if trace.lanes.is_empty() && event.pid as usize == trace.processes.len() + 1 =>
        {
            trace.processes.push(name);
            Ok(())
        }
        ("thread_name", Some(name)) if lane_index(trace, event.tid) == Some(trace.lanes.len()) => {
            let process = known_process(trace, event.pid)?;
            trace.lanes.push(Lane { process, name });
            Ok(())
        }
        ("process_sort_index" | "thread_sort_index", None) => Ok(()),
        _ => Err("a name is missing or out of order".into()),
    }
}

fn known_process(trace: &Trace, pid: u32) -> std::result::Result<ProcessId, String> {
    let index = pid.checked_sub(1).filter(|&index| (index as usize) < trace.processes.len());
    index.map(ProcessId).ok_or_else(|| format!("process {pid} has no name"))
}

/// The index of a lane; lanes are numbered after the processes.
fn lane_index(trace: &Trace, tid: u32) -> Option<usize> {
    (tid as usize).checked_sub(trace.processes.len() + 1)
}

fn known_lane(trace: &Trace, event: &Event) -> std::result::Result<LaneId, String> {
    let process = known_process(trace, event.pid)?;
    lane_index(trace, event.tid)
        .filter(|&index| trace.lanes.get(index).is_some_and(|lane| lane.process == process))
        .map(|index| LaneId(index as u32))
        .ok_or_else(|| format!("thread {} of process {} has no name", event.tid, event.pid))
}

fn arrow_span(trace: &Trace, event: &Event) -> std::result::Result<SpanId, String> {
    let lane = known_lane(trace, event)?;
    let span = event.args.from.or(event.args.to).ok_or("an arrow names no span")?;
    match trace.spans.get(span as usize) {
        Some(found) if found.lane == lane => Ok(SpanId(span)),
        _ => Err(format!("an arrow names span {span}, which is not on its thread")),
    }
}

/// Microseconds of a file in whole nanoseconds.
fn nanoseconds(key: &str, microseconds: f64) -> std::result::Result<u64, String> {
    let ns = (microseconds * 1000.0).round();
    if (0.0..=LATEST_NS as f64).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err(format!("{key} of {microseconds} µs is out of range"))
    }
}
