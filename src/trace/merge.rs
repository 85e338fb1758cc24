//! Traces of several ranks as one: the processes of each rank with its number, on the clock of rank 0.

use std::io::{BufWriter, Write};

use serde_json::{Value, json};

use super::model::{Counter, Lane, LaneId, ProcessId, Sample, Span, SpanId, Trace};
use crate::error::{Error, Result};

/// The metadata key of the ranks of a merged trace.
pub const RANKS_KEY: &str = "ranks";

/// The name of a process of a rank.
pub fn rank_process(rank: usize, process: &str) -> String {
    format!("rank {rank} {process}")
}

/// The number of a rank and the name of its process, where `name` is the name of one.
pub fn of_rank(name: &str) -> Option<(usize, &str)> {
    let (rank, process) = name.strip_prefix("rank ")?.split_once(' ')?;
    Some((rank.parse().ok()?, process))
}

impl Trace {
    /// The trace as [`Trace::write`] writes it, to be sent to another rank.
    #[doc(hidden)]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = BufWriter::new(Vec::new());
        self.write_to(&mut bytes)?;
        bytes.flush().map_err(|error| Error::Internal(error.to_string()))?;
        bytes.into_inner().map_err(|error| Error::Internal(error.to_string()))
    }

    /// Adds the trace of a rank, whose clock shows `ahead_ns` more than that of this trace. Times before zero become zero.
    #[doc(hidden)]
    pub fn add_rank(&mut self, rank: usize, other: Self, ahead_ns: i64) {
        let moved = |ns: u64| u64::try_from(i128::from(ns) - i128::from(ahead_ns)).unwrap_or(0);
        let (processes, lanes) = (self.processes.len() as u32, self.lanes.len() as u32);
        let (spans, counters) = (self.spans.len() as u32, self.counters.len() as u32);
        let process = |process: ProcessId| ProcessId(process.0 + processes);
        self.processes.extend(other.processes.iter().map(|name| rank_process(rank, name)));
        self.lanes
            .extend(other.lanes.into_iter().map(|lane| Lane { process: process(lane.process), ..lane }));
        self.spans.extend(other.spans.into_iter().map(|span| Span {
            lane: LaneId(span.lane.0 + lanes),
            start_ns: moved(span.start_ns),
            end_ns: moved(span.end_ns),
            ..span
        }));
        let arrow = |(from, to): (SpanId, SpanId)| (SpanId(from.0 + spans), SpanId(to.0 + spans));
        self.flows.extend(other.flows.into_iter().map(arrow));
        let named = |counter: Counter| Counter { process: process(counter.process), ..counter };
        self.counters.extend(other.counters.into_iter().map(named));
        let sample = |sample: Sample| Sample {
            counter: sample.counter + counters,
            at_ns: moved(sample.at_ns),
            ..sample
        };
        self.samples.extend(other.samples.into_iter().map(sample));
        for (key, value) in other.metadata {
            // The configuration and the machine are those of rank 0; each rank has clock errors of its own.
            match (self.metadata.get_mut(&key), value) {
                (Some(Value::Object(known)), Value::Object(more)) if key == "clock_alignment" => {
                    known.extend(more.into_iter().map(|(name, error)| (rank_process(rank, &name), error)));
                }
                (None, Value::Object(more)) if key == "clock_alignment" => {
                    let named = more.into_iter().map(|(name, error)| (rank_process(rank, &name), error));
                    self.metadata.insert(key, Value::Object(named.collect()));
                }
                (None, value) => {
                    self.metadata.insert(key, value);
                }
                _ => {}
            }
        }
        let ranks = self.metadata.entry(RANKS_KEY).or_insert(json!(0));
        *ranks = json!(ranks.as_u64().unwrap_or(0).max(rank as u64 + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Arguments, Category};

    fn trace(start_ns: u64) -> Trace {
        let mut trace = Trace::default();
        let process = trace.process("cpu");
        let lane = trace.lane(process, "pool");
        let span = |name: &str, start_ns: u64| Span {
            lane,
            name: name.into(),
            category: Category::CpuCompute,
            start_ns,
            end_ns: start_ns + 10,
            arguments: Arguments::default(),
        };
        let (first, second) = (trace.span(span("a", start_ns)), trace.span(span("b", start_ns + 20)));
        trace.flow(first, second);
        trace.counter(process, "slots", start_ns, 1.0);
        trace.clock_error("cpu", 7);
        trace
    }

    #[test]
    fn ranks_have_processes_of_their_own_on_one_clock() {
        let mut merged = Trace::default();
        merged.add_rank(0, trace(100), 0);
        merged.add_rank(1, trace(1100), 1000);
        assert_eq!(merged.processes().collect::<Vec<_>>(), ["rank 0 cpu", "rank 1 cpu"]);
        let starts: Vec<u64> = merged.spans().iter().map(|span| span.start_ns).collect();
        assert_eq!(starts, [100, 120, 100, 120]);
        assert_eq!(merged.flows().len(), 2);
        assert_ne!(merged.spans()[0].lane, merged.spans()[2].lane);
        assert_eq!(merged.metadata_value(RANKS_KEY), Some(&json!(2)));
        // It is a valid file.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        merged.write(&path).unwrap();
        assert_eq!(Trace::read(&path).unwrap().spans(), merged.spans());
        assert_eq!(of_rank("rank 12 cuda:0"), Some((12, "cuda:0")));
        assert_eq!(of_rank("cpu"), None);
    }

    #[test]
    fn bytes_of_a_trace_read_as_the_same_trace() {
        let trace = trace(5);
        let bytes = trace.to_bytes().unwrap();
        assert_eq!(Trace::from_bytes(&bytes).unwrap().spans(), trace.spans());
        assert!(Trace::from_bytes(&bytes[..40]).is_err());
    }
}
