//! No two spans of a lane overlap: the check, and the small corrections that clocks make necessary.
//!
//! Times that come from two clocks (a device's events beside the host's) can overlap by the error of their alignment.
//! Such spans are moved by at most [`TOLERANCE_NS`] and counted; anything larger is a fault of the recorder and
//! refused. A span of no length gets one nanosecond, so that every viewer shows it and can hang an arrow on it; a span
//! that ends together with the one that holds it ends one earlier, so that no viewer closes them in the wrong order.

use super::model::{Adjustments, Category, Span, Trace};
use crate::error::{Error, Result};

/// The most by which a beginning or an end is moved.
const TOLERANCE_NS: u64 = 5_000;

/// The shortest span in a file.
const SHORTEST_NS: u64 = 1;

/// The latest time that a file can hold, 13 days: viewers keep microseconds as doubles, and until then sums of two
/// are less than a quarter of a nanosecond off.
pub(super) const LATEST_NS: u64 = 1 << 50;

/// Times that can be written and what was changed for them, or the reason why there are none.
type Settled = std::result::Result<(Vec<Interval>, Adjustments), String>;

/// Beginning and end of a span as they go into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Trace {
    /// Fails on what [`Trace::write`] would have to move, and on what it would refuse.
    pub fn check(&self) -> Result<()> {
        self.overlaps().map_err(Error::Internal)
    }

    /// The same, in words alone.
    pub(super) fn overlaps(&self) -> std::result::Result<(), String> {
        self.settle(0, 0).map(drop)
    }

    /// Moves spans apart as [`Trace::write`] does, so that a summary is equal to that of the written file.
    pub fn separate_spans(&mut self) -> Result<()> {
        let (times, adjustments) = self.settled()?;
        for (span, time) in self.spans.iter_mut().zip(times) {
            (span.start_ns, span.end_ns) = (time.start_ns, time.end_ns);
        }
        self.adjustments = adjustments;
        Ok(())
    }

    /// The times of all spans as a file may hold them, and what was changed for that.
    pub(super) fn settled(&self) -> Result<(Vec<Interval>, Adjustments)> {
        self.settle(TOLERANCE_NS, SHORTEST_NS).map_err(Error::Internal)
    }

    /// Times so that no two spans of a lane overlap and none is shorter than `shortest_ns`; an error where two
    /// overlap by more than `tolerance_ns`.
    fn settle(&self, tolerance_ns: u64, shortest_ns: u64) -> Settled {
        let mut settling = Settling {
            trace: self,
            tolerance_ns,
            shortest_ns,
            times: Vec::with_capacity(self.spans.len()),
            adjustments: self.adjustments,
        };
        let mut nests = vec![true; self.lanes.len()];
        for span in &self.spans {
            let Some(nests) = nests.get_mut(span.lane.index()) else {
                return Err(format!("span '{}' lies on a lane of another trace", span.name));
            };
            *nests &= span.category == Category::Host;
            if span.end_ns < span.start_ns || span.end_ns > LATEST_NS {
                let ((device, lane), Span { name, start_ns, end_ns, .. }) = (self.place(span), span);
                return Err(format!(
                    "span '{name}' on lane '{device} {lane}' cannot last from {start_ns} to {end_ns} ns"
                ));
            }
            let end_ns = span.end_ns.max(span.start_ns + shortest_ns);
            settling.times.push(Interval { start_ns: span.start_ns, end_ns });
        }
        let mut order: Vec<u32> = (0..self.spans.len() as u32).collect();
        order.sort_unstable_by_key(|&index| {
            let span = &self.spans[index as usize];
            // Of spans that begin together, the longest holds the others where they nest, and is last elsewhere.
            let end_ns = if nests[span.lane.index()] { !span.end_ns } else { span.end_ns };
            (span.lane, span.start_ns, end_ns, index)
        });
        for lane in order.chunk_by(|&a, &b| self.spans[a as usize].lane == self.spans[b as usize].lane) {
            if lane.first().is_some_and(|&first| nests[self.spans[first as usize].lane.index()]) {
                settling.nest(lane)?;
            } else {
                settling.queue(lane)?;
            }
        }
        Ok((settling.times, settling.adjustments))
    }
}

/// Lanes being settled, one after the other; each comes as its spans in the order of their beginnings.
struct Settling<'a> {
    trace: &'a Trace,
    tolerance_ns: u64,
    shortest_ns: u64,
    times: Vec<Interval>,
    adjustments: Adjustments,
}

impl Settling<'_> {
    /// Spans of tasks: each begins when the one before has ended.
    fn queue(&mut self, lane: &[u32]) -> std::result::Result<(), String> {
        // The span that ended last as it was recorded, and where the lane is free as it is written.
        let mut before: Option<&Span> = None;
        let mut free_ns = 0;
        for &index in lane {
            let span = &self.trace.spans[index as usize];
            if let Some(before) = before.filter(|before| before.end_ns > span.start_ns + self.tolerance_ns) {
                return Err(self.overlap(before, span, before.end_ns.min(span.end_ns) - span.start_ns));
            }
            let start_ns = span.start_ns.max(free_ns);
            let end_ns = self.times[index as usize].end_ns.max(start_ns + self.shortest_ns);
            self.place(index, Interval { start_ns, end_ns });
            free_ns = end_ns;
            before = before.filter(|before| before.end_ns > span.end_ns).or(Some(span));
        }
        Ok(())
    }

    /// Spans of the program: each lies wholly inside or wholly behind every other; where one sticks out a little, the
    /// smaller move decides which.
    fn nest(&mut self, lane: &[u32]) -> std::result::Result<(), String> {
        // Those that hold the beginning of the next one, the innermost last.
        let mut open: Vec<u32> = Vec::new();
        for &index in lane {
            let span = &self.trace.spans[index as usize];
            let mut now = self.times[index as usize];
            // Where the one before was moved behind this one's beginning, this one goes along.
            if let Some(&before) = open.last() {
                now.start_ns = now.start_ns.max(self.times[before as usize].start_ns);
                now.end_ns = now.end_ns.max(now.start_ns + self.shortest_ns);
            }
            while let Some(&holder) = open.last() {
                let holder_end_ns = self.times[holder as usize].end_ns;
                if holder_end_ns > now.start_ns {
                    // An end shared with the holder is told apart, as rounding in a viewer could cross the two.
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
            self.place(index, now);
            open.push(index);
        }
        Ok(())
    }

    fn place(&mut self, index: u32, now: Interval) {
        let was = std::mem::replace(&mut self.times[index as usize], now);
        let moved_ns = was.start_ns.abs_diff(now.start_ns).max(was.end_ns.abs_diff(now.end_ns));
        // What only tells neighbours apart is no disagreement of clocks.
        if moved_ns > self.shortest_ns {
            self.adjustments.moved_spans += 1;
            self.adjustments.most_moved_ns = self.adjustments.most_moved_ns.max(moved_ns);
        }
    }

    fn overlap(&self, first: &Span, second: &Span, by_ns: u64) -> String {
        let (device, lane) = self.trace.place(second);
        format!(
            "spans '{}' and '{}' on lane '{device} {lane}' of the trace overlap by {by_ns} ns",
            first.name, second.name
        )
    }
}
