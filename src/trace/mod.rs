//! Traces: spans of work on lanes, on one clock.
//!
//! A [`Trace`] holds processes (one for each device, one for the program), their lanes (streams, workers, threads),
//! spans on the lanes, arrows between spans, and counters. It is written as a Chrome trace that Perfetto,
//! chrome://tracing and speedscope open, read back as the same trace, and summarised.
//!
//! Two rules hold for every file that [`Trace::write`] writes:
//!
//! - Times are whole nanoseconds since the origin of a [`Clock`].
//! - No two spans of a lane overlap. Spans of the program itself ([`Category::Host`]) may nest, one wholly inside
//!   another, which every viewer shows as a stack; spans of tasks may not even nest.

mod clock;
mod critical;
mod host_steps;
mod intervals;
mod lanes;
mod merge;
mod model;
mod ranks;
mod read;
mod recognise;
mod summary;
#[cfg(test)]
mod summary_tests;
#[cfg(test)]
mod tests;
mod write;

pub use clock::Clock;
pub use critical::{Bottleneck, CategoryShare, CriticalPath, Step};
pub use host_steps::HostStep;
pub use merge::{RANKS_KEY, of_rank, rank_process};
pub use model::{Adjustments, Arguments, Category, LaneId, ProcessId, Span, SpanId, Trace};
pub use ranks::{RankSummary, RanksSummary};
pub use summary::{DeviceSummary, LaneSummary, Prediction, Predictions, Runs, Summary};
