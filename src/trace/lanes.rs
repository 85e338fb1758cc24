//! No two spans of a lane overlap: the check, and the small corrections for clock errors.
//!
//! Times from two clocks (a device's and the host's) can overlap by the error of their alignment. Such spans are moved by at most
//! [`TOLERANCE_NS`] and counted; a larger overlap is an error of the recorder. A span of length zero gets one nanosecond, so that viewers
//! show it and can attach an arrow. A span that ends together with its outer span ends one nanosecond earlier, so that no viewer closes
//! them in the wrong order.

use super::model::{Adjustments, Category, Span, Trace};
use crate::error::{Error, Result};

/// Largest correction of a start or an end.
const TOLERANCE_NS: u64 = 5_000;

/// The shortest span in a file.
const SHORTEST_NS: u64 = 1;

/// The latest time in a file, 13 days: viewers store microseconds as doubles, and up to here the error of a sum of two is less than a
/// quarter of a nanosecond.
pub(super) const LATEST_NS: u64 = 1 << 50;

/// Corrected times and a count of the corrections, or the reason why the spans cannot be corrected.
type Corrected = std::result::Result<(Vec<Interval>, Adjustments), String>;

/// Start and end of a span in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Trace {
    /// Fails if [`Trace::write`] would have to move a span, or would fail.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        self.overlaps().map_err(Error::Internal)
    }

    /// The same with the reason as text.
    pub(super) fn overlaps(&self) -> std::result::Result<(), String> {
        self.correct(0, 0).map(drop)
    }

    /// Moves spans apart as [`Trace::write`] does, so that a summary is equal to that of the written file.
    #[doc(hidden)]
    pub fn separate_spans(&mut self) -> Result<()> {
        let (times, adjustments) = self.corrected_times()?;
        for (span, time) in self.spans.iter_mut().zip(times) {
            (span.start_ns, span.end_ns) = (time.start_ns, time.end_ns);
        }
        self.adjustments = adjustments;
        Ok(())
    }

    /// The times of all spans for a file, and a count of the corrections.
    pub(super) fn corrected_times(&self) -> Result<(Vec<Interval>, Adjustments)> {
        self.correct(TOLERANCE_NS, SHORTEST_NS).map_err(Error::Internal)
    }

    /// Times at which no two spans of a lane overlap and none is shorter than `shortest_ns`; an error if two overlap by more than
    /// `tolerance_ns`.
    fn correct(&self, tolerance_ns: u64, shortest_ns: u64) -> Corrected {
        let mut correction = Correction {
            trace: self,
            tolerance_ns,
            shortest_ns,
            times: Vec::with_capacity(self.spans.len()),
            adjustments: self.adjustments,
        };
        let mut nests = vec![true; self.lanes.len()];
        for span in &self.spans {
            let Some(nests) = nests.get_mut(span.lane.index()) else {
                return Err(format!("span '{}' is on a lane of another trace", span.name));
            };
            *nests &= span.category == Category::Host;
            if span.end_ns < span.start_ns || span.end_ns > LATEST_NS {
                let ((device, lane), Span { name, start_ns, end_ns, .. }) =
                    (self.process_and_lane(span), span);
                return Err(format!(
                    "span '{name}' on lane '{device} {lane}' cannot last from {start_ns} to {end_ns} ns"
                ));
            }
            let end_ns = span.end_ns.max(span.start_ns + shortest_ns);
            correction.times.push(Interval { start_ns: span.start_ns, end_ns });
        }
        let mut order: Vec<u32> = (0..self.spans.len() as u32).collect();
        order.sort_unstable_by_key(|&index| {
            let span = &self.spans[index as usize];
            // Of spans with the same start the longest is the outer one where spans nest, and the last elsewhere.
            let end_ns = if nests[span.lane.index()] { !span.end_ns } else { span.end_ns };
            (span.lane, span.start_ns, end_ns, index)
        });
        for lane in order.chunk_by(|&a, &b| self.spans[a as usize].lane == self.spans[b as usize].lane) {
            if lane.first().is_some_and(|&first| nests[self.spans[first as usize].lane.index()]) {
                correction.nest(lane)?;
            } else {
                correction.queue(lane)?;
            }
        }
        Ok((correction.times, correction.adjustments))
    }
}

/// Corrects lanes one after the other; the spans of a lane come in the order of their starts.
struct Correction<'a> {
    trace: &'a Trace,
    tolerance_ns: u64,
    shortest_ns: u64,
    times: Vec<Interval>,
    adjustments: Adjustments,
}

impl Correction<'_> {
    /// Spans of tasks: each starts after the end of the one before.
    fn queue(&mut self, lane: &[u32]) -> std::result::Result<(), String> {
        // The span with the latest recorded end, and the end of the lane as written.
        let mut before: Option<&Span> = None;
        let mut free_ns = 0;
        for &index in lane {
            let span = &self.trace.spans[index as usize];
            if let Some(before) = before.filter(|before| before.end_ns > span.start_ns + self.tolerance_ns) {
                return Err(self.overlap(before, span, before.end_ns.min(span.end_ns) - span.start_ns));
            }
            let start_ns = span.start_ns.max(free_ns);
            let end_ns = self.times[index as usize].end_ns.max(start_ns + self.shortest_ns);
            self.set_time(index, Interval { start_ns, end_ns });
            free_ns = end_ns;
            before = before.filter(|before| before.end_ns > span.end_ns).or(Some(span));
        }
        Ok(())
    }

    /// Spans of the program: two of them nest or are disjoint. A span that crosses the end of another is moved inside or behind it,
    /// whichever is the smaller correction.
    fn nest(&mut self, lane: &[u32]) -> std::result::Result<(), String> {
        // The spans that contain the start of the next one, the innermost last.
        let mut open: Vec<u32> = Vec::new();
        for &index in lane {
            let span = &self.trace.spans[index as usize];
            let mut now = self.times[index as usize];
            // If the span before was moved behind this start, this span moves too.
            if let Some(&before) = open.last() {
                now.start_ns = now.start_ns.max(self.times[before as usize].start_ns);
                now.end_ns = now.end_ns.max(now.start_ns + self.shortest_ns);
            }
            while let Some(&holder) = open.last() {
                let holder_end_ns = self.times[holder as usize].end_ns;
                if holder_end_ns > now.start_ns {
                    // Equal ends are separated: rounding in a viewer could swap them.
                    if now.end_ns == holder_end_ns && now.end_ns - now.start_ns > self.shortest_ns {
                        now.end_ns -= self.shortest_ns;
                    }
                    if now.end_ns <= holder_end_ns {
                        break;
                    }
                    let (sticks_out_ns, reaches_in_ns) =
                        (now.end_ns - holder_end_ns, holder_end_ns - now.start_ns);
                    let overlap_ns = sticks_out_ns.min(reaches_in_ns);
                    if overlap_ns > self.tolerance_ns.max(self.shortest_ns) {
                        return Err(self.overlap(&self.trace.spans[holder as usize], span, overlap_ns));
                    }
                    if sticks_out_ns < reaches_in_ns {
                        now.end_ns = (holder_end_ns - self.shortest_ns).max(now.start_ns + self.shortest_ns);
                        break;
                    }
                    now.start_ns = holder_end_ns;
                }
                open.pop();
            }
            self.set_time(index, now);
            open.push(index);
        }
        Ok(())
    }

    /// Sets the time of a span and counts the correction.
    fn set_time(&mut self, index: u32, now: Interval) {
        let was = std::mem::replace(&mut self.times[index as usize], now);
        let moved_ns = was.start_ns.abs_diff(now.start_ns).max(was.end_ns.abs_diff(now.end_ns));
        // Separating equal ends does not count as a clock error.
        if moved_ns > self.shortest_ns {
            self.adjustments.moved_spans += 1;
            self.adjustments.most_moved_ns = self.adjustments.most_moved_ns.max(moved_ns);
        }
    }

    fn overlap(&self, first: &Span, second: &Span, by_ns: u64) -> String {
        let (device, lane) = self.trace.process_and_lane(second);
        format!(
            "spans '{}' and '{}' on lane '{device} {lane}' of the trace overlap by {by_ns} ns",
            first.name, second.name
        )
    }
}
