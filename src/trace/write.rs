//! Traces as files that Perfetto, chrome://tracing and speedscope open.
//!
//! The file is the object form of the Chrome trace format. It is streamed: it needs memory for a buffer and sixteen bytes a span. A
//! failed write leaves the old file as it was.
//!
//! Microseconds are written with three decimals, which is exact. Viewers add start and duration as doubles (speedscope after
//! subtracting the first start of the lane), so that a rounding error could put the sum behind the start of the next span. In that case
//! the written duration is shorter by that error, and still reads as the same nanosecond.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::lanes::{Interval, LATEST_NS};
use super::model::{Adjustments, Arguments, LaneId, Span, SpanId, Trace};
use crate::error::{Error, Result};
use crate::files;

/// The metadata key by which traces of Rowloom are recognised; its value is the version of the layout.
pub(super) const FORMAT_KEY: &str = "rowloom_trace";
/// The version of the layout.
pub(super) const FORMAT: u64 = 1;
/// The metadata key of the corrections.
pub(super) const ADJUSTMENTS_KEY: &str = "adjustments";

impl Trace {
    /// Writes the whole trace or nothing.
    ///
    /// Spans of a lane that overlap by a few microseconds, as times from two clocks can, are moved apart and counted as `adjustments` in
    /// the metadata; a larger overlap is an internal error.
    pub fn write(&self, path: &Path) -> Result<()> {
        let (times, adjustments) = self.corrected_times()?;
        self.check_ids()?;
        files::replace(path, |file| {
            let mut file = Events { file: BufWriter::with_capacity(1 << 18, file), trace: self, first: true };
            file.all(&times, adjustments)?;
            file.file.flush()
        })
    }

    /// Writes what [`Self::write`] writes to memory.
    pub(super) fn write_to(&self, memory: impl Write) -> Result<()> {
        let (times, adjustments) = self.corrected_times()?;
        self.check_ids()?;
        let mut events = Events { file: memory, trace: self, first: true };
        events.all(&times, adjustments).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Fails if an id is from another trace, or a counter's time is larger than [`LATEST_NS`].
    fn check_ids(&self) -> Result<()> {
        let spans = self.spans.len();
        let foreign = self.flows.iter().any(|(from, to)| from.index() >= spans || to.index() >= spans)
            || self.lanes.iter().any(|lane| lane.process.index() >= self.processes.len())
            || self.counters.iter().any(|counter| counter.process.index() >= self.processes.len());
        if foreign {
            return Err(Error::Internal("the trace holds ids of another trace".into()));
        }
        if let Some(sample) = self.samples.iter().find(|sample| sample.at_ns > LATEST_NS) {
            return Err(Error::Internal(format!(
                "a counter of the trace has a value at {} ns",
                sample.at_ns
            )));
        }
        Ok(())
    }
}

/// A writer of events.
struct Events<'a, W: Write> {
    file: W,
    trace: &'a Trace,
    /// Whether the next event is the first.
    first: bool,
}

impl<W: Write> Events<'_, W> {
    fn all(&mut self, times: &[Interval], mut adjustments: Adjustments) -> io::Result<()> {
        let arrows = self.arrows(times);
        adjustments.dropped_flows += (self.trace.flows.len() - arrows.len()) as u64;
        let mut metadata = self.trace.metadata.clone();
        metadata.insert(FORMAT_KEY.into(), json!(FORMAT));
        metadata.insert(ADJUSTMENTS_KEY.into(), json!(adjustments));
        self.file.write_all(b"{\"displayTimeUnit\":\"ms\",\n\"metadata\":")?;
        serde_json::to_writer(&mut self.file, &Value::Object(metadata))?;
        self.file.write_all(b",\n\"traceEvents\":[")?;
        self.names()?;
        let mut lane_starts = vec![u64::MAX; self.trace.lanes.len()];
        for (span, time) in self.trace.spans.iter().zip(times) {
            let lane_start = &mut lane_starts[span.lane.index()];
            *lane_start = time.start_ns.min(*lane_start);
        }
        for (span, &time) in self.trace.spans.iter().zip(times) {
            self.span(span, time, lane_starts[span.lane.index()])?;
        }
        // After the spans: viewers process events of the same time in order, and an arrow needs its span.
        for (number, &(from, to, at_ns)) in arrows.iter().enumerate() {
            self.arrow(number, from, at_ns.0, "s")?;
            self.arrow(number, to, at_ns.1, "f")?;
        }
        self.counters()?;
        self.file.write_all(b"\n]}\n")
    }

    /// Begins an event of a phase.
    fn event(&mut self, phase: &str) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.file, "{separator}\n{{\"ph\":\"{phase}\"")
    }

    fn text(&mut self, key: &str, text: &str) -> io::Result<()> {
        write!(self.file, ",\"{key}\":")?;
        Ok(serde_json::to_writer(&mut self.file, text)?)
    }

    fn time(&mut self, key: &str, ns: u64) -> io::Result<()> {
        write!(self.file, ",\"{key}\":{}.{:03}", ns / 1000, ns % 1000)
    }

    /// The process and thread number of a lane. Lanes of all processes have different numbers, after those of the processes: some viewers
    /// confuse equal numbers, and others treat a thread with the number of its process as the main thread.
    fn lane(&mut self, lane: LaneId) -> io::Result<()> {
        let process = self.trace.lanes[lane.index()].process;
        let tid = self.trace.processes.len() + lane.index() + 1;
        write!(self.file, ",\"pid\":{},\"tid\":{tid}", process.0 + 1)
    }

    /// Writes the names and the order of processes and lanes.
    fn names(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (index, name) in trace.processes.iter().enumerate() {
            let pid = index + 1;
            self.event("M")?;
            write!(self.file, ",\"name\":\"process_name\",\"pid\":{pid},\"tid\":0,\"args\":{{\"name\":")?;
            serde_json::to_writer(&mut self.file, name)?;
            self.file.write_all(b"}}")?;
            self.event("M")?;
            write!(
                self.file,
                ",\"name\":\"process_sort_index\",\"pid\":{pid},\"tid\":0,\"args\":{{\"sort_index\":{index}}}}}"
            )?;
        }
        for (index, lane) in trace.lanes.iter().enumerate() {
            let id = LaneId(index as u32);
            self.event("M")?;
            self.file.write_all(b",\"name\":\"thread_name\"")?;
            self.lane(id)?;
            self.file.write_all(b",\"args\":{\"name\":")?;
            serde_json::to_writer(&mut self.file, &lane.name)?;
            self.file.write_all(b"}}")?;
            self.event("M")?;
            self.file.write_all(b",\"name\":\"thread_sort_index\"")?;
            self.lane(id)?;
            write!(self.file, ",\"args\":{{\"sort_index\":{index}}}}}")?;
        }
        Ok(())
    }

    fn span(&mut self, span: &Span, time: Interval, lane_start_ns: u64) -> io::Result<()> {
        self.event("X")?;
        self.lane(span.lane)?;
        self.time("ts", time.start_ns)?;
        match rounded_duration(time, lane_start_ns) {
            Some(shorter) => write!(self.file, ",\"dur\":{shorter}")?,
            None => self.time("dur", time.end_ns - time.start_ns)?,
        }
        write!(self.file, ",\"cat\":\"{}\"", span.category.name())?;
        self.text("name", &span.name)?;
        self.arguments(&span.arguments)?;
        self.file.write_all(b"}")
    }

    fn arguments(&mut self, arguments: &Arguments) -> io::Result<()> {
        let Arguments { chunk, rows, size, bytes, kernel, predicted_us, gb_per_s, run } = arguments;
        self.file.write_all(b",\"args\":{")?;
        let mut separator = "";
        for (key, number) in [("chunk", chunk), ("rows", rows)] {
            if let Some(number) = number {
                write!(self.file, "{separator}\"{key}\":{number}")?;
                separator = ",";
            }
        }
        if let Some((name, number)) = size {
            self.file.write_all(separator.as_bytes())?;
            serde_json::to_writer(&mut self.file, name.as_ref())?;
            write!(self.file, ":{number}")?;
            separator = ",";
        }
        for (key, number) in [("bytes", bytes), ("run", run)] {
            if let Some(number) = number {
                write!(self.file, "{separator}\"{key}\":{number}")?;
                separator = ",";
            }
        }
        for (key, number) in [("predicted_us", predicted_us), ("gb_per_s", gb_per_s)] {
            if let Some(number) = number.filter(|number| number.is_finite()) {
                write!(self.file, "{separator}\"{key}\":{number:?}")?;
                separator = ",";
            }
        }
        if let Some(kernel) = kernel {
            write!(self.file, "{separator}\"kernel\":")?;
            serde_json::to_writer(&mut self.file, kernel.as_ref())?;
        }
        self.file.write_all(b"}")
    }

    /// Arrows that can be drawn: source, target, and a time inside each. The times are not at the edges of their spans where possible,
    /// so that viewers do not attach the arrow to a neighbour, and the source comes first.
    fn arrows(&self, times: &[Interval]) -> Vec<(SpanId, SpanId, (u64, u64))> {
        let inside = |span: SpanId| {
            let Interval { start_ns, end_ns } = times[span.index()];
            ((start_ns + 1).min(end_ns - 1), end_ns - 1)
        };
        let place = |&(from, to): &(SpanId, SpanId)| {
            let (source, target) = (inside(from), inside(to));
            let leaves_ns = source.1.min(target.1).max(source.0);
            (leaves_ns <= target.1).then_some((from, to, (leaves_ns, leaves_ns.max(target.0))))
        };
        self.trace.flows.iter().filter_map(place).collect()
    }

    fn arrow(&mut self, number: usize, span: SpanId, at_ns: u64, phase: &str) -> io::Result<()> {
        self.event(phase)?;
        self.lane(self.trace.spans[span.index()].lane)?;
        self.time("ts", at_ns)?;
        // Different keys at the two ends: chrome://tracing merges their arguments.
        let (binding, word) = if phase == "f" { (",\"bp\":\"e\"", "to") } else { ("", "from") };
        write!(
            self.file,
            ",\"id\":{number}{binding},\"cat\":\"edge\",\"name\":\"edge\",\"args\":{{\"{word}\":{}}}}}",
            span.0
        )
    }

    fn counters(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for sample in trace.samples.iter().filter(|sample| sample.value.is_finite()) {
            let counter = &trace.counters[sample.counter as usize];
            self.event("C")?;
            write!(self.file, ",\"pid\":{},\"tid\":0", counter.process.0 + 1)?;
            self.time("ts", sample.at_ns)?;
            self.text("name", &counter.name)?;
            write!(self.file, ",\"args\":{{\"value\":{:?}}}}}", sample.value)?;
        }
        Ok(())
    }
}

/// The duration in microseconds to write if the exact one, added as a double, exceeds the end.
fn rounded_duration(time: Interval, lane_start_ns: u64) -> Option<f64> {
    let microseconds = |ns: u64| ns as f64 / 1000.0;
    let (start, end, origin) =
        (microseconds(time.start_ns), microseconds(time.end_ns), microseconds(lane_start_ns));
    // With and without subtracting the first start of the lane.
    let stays_before =
        |duration: &f64| start + duration <= end && (start - origin) + duration <= end - origin;
    let exact = microseconds(time.end_ns - time.start_ns);
    let (difference, step) = (end - start, end.next_up() - end);
    let candidates = [exact, difference, difference.next_down(), difference - step, difference - 2.0 * step];
    candidates.into_iter().find(stays_before).filter(|&duration| duration != exact)
}
