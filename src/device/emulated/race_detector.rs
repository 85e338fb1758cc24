//! A race detector with vector clocks: it finds a missing wait whatever the timing was.
//!
//! An operation happens after its predecessor on the lane, after the fences it waits for, and after everything that was
//! synchronised; nothing else creates order. A reader must happen after the last writer of its bytes. A writer must
//! happen after the last writer and after all readers since then. A violation is refused at submission, so operations in
//! flight never conflict.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::device::{Fault, FaultKind, Fence, Memory, MemoryRange};

/// Lanes of an emulated device.
pub const LANES: usize = 3;

/// For each lane the number of its operations that happen before.
type VectorClock = [u64; LANES];

/// An operation, for the race detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its fence.
    pub fence: Fence,
    /// Its lane.
    pub lane: usize,
    /// Its number on the lane, counted from 1.
    pub sequence: u64,
    /// The operation's name in messages.
    pub what: &'static str,
}

/// The last accesses to a range of bytes.
#[derive(Debug, Clone, Default)]
struct Segment {
    end: u64,
    writer: Option<Stamp>,
    /// The last reader of each lane since that write.
    readers: [Option<Stamp>; LANES],
}

/// The accesses and waits of an operation that is being submitted.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// Its lane.
    pub lane: usize,
    /// The operation's name in messages.
    pub what: &'static str,
    /// The fences it waits for.
    pub waits: &'a [Fence],
    /// The ranges it reads.
    pub reads: &'a [MemoryRange],
    /// The ranges it writes.
    pub writes: &'a [MemoryRange],
}

/// An operation that was accepted.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The operation.
    pub stamp: Stamp,
    /// Operations that must complete before it starts.
    pub waits: Vec<Stamp>,
    /// The operations that wrote the bytes it reads.
    pub sources: Vec<Stamp>,
}

/// The race detector of one device.
#[derive(Debug, Default)]
pub struct RaceDetector {
    /// Number of synchronised operations that were removed from the front of `operations`.
    synchronized_fences: u64,
    synchronized: VectorClock,
    operations: VecDeque<(Stamp, VectorClock)>,
    /// The vector clock of the last operation of each lane, including itself.
    lanes: [VectorClock; LANES],
    /// For each memory the accessed ranges, by their first byte.
    memories: HashMap<Memory, BTreeMap<u64, Segment>>,
}

impl RaceDetector {
    /// Adds a memory.
    pub fn add_memory(&mut self, memory: Memory) {
        self.memories.insert(memory, BTreeMap::new());
    }

    /// Removes a memory that was freed.
    pub fn remove_memory(&mut self, memory: Memory) {
        self.memories.remove(&memory);
    }

    /// Orders all later operations after the completed ones; `ended` is their number on each lane.
    pub fn mark_synchronized(&mut self, ended: [u64; LANES]) {
        self.synchronized = joined(self.synchronized, ended);
        while self.operations.front().is_some_and(|(stamp, _)| happens_before(stamp, &ended)) {
            self.operations.pop_front();
            self.synchronized_fences += 1;
        }
    }

    /// Accepts an operation, or returns a fault that names the missing order.
    pub fn admit(&mut self, intent: Intent<'_>) -> Result<Admitted, Fault> {
        let fence = Fence(self.synchronized_fences + self.operations.len() as u64);
        let mut clock = joined(self.lanes[intent.lane], self.synchronized);
        let mut waits = Vec::new();
        for wait in intent.waits {
            if *wait >= fence {
                let message = format!("a wait for fence {}, which was never returned by submit", wait.0);
                return Err(Fault::new(FaultKind::Misuse, message));
            }
            // A synchronised operation has completed already.
            let place = wait.0.checked_sub(self.synchronized_fences);
            if let Some((stamp, other)) = place.and_then(|place| self.operations.get(place as usize)) {
                clock = joined(clock, *other);
                waits.push(*stamp);
            }
        }
        let sequence = self.lanes[intent.lane][intent.lane] + 1;
        let stamp = Stamp { fence, lane: intent.lane, sequence, what: intent.what };
        let sources = self.check_reads(stamp, &clock, intent.reads)?;
        self.check_writes(stamp, &clock, intent.writes)?;
        clock[intent.lane] = sequence;
        for range in intent.reads {
            self.each_segment(range, |segment| segment.readers[stamp.lane] = Some(stamp));
        }
        for range in intent.writes {
            self.each_segment(range, |segment| {
                segment.writer = Some(stamp);
                segment.readers = Default::default();
            });
        }
        self.lanes[intent.lane] = clock;
        self.operations.push_back((stamp, clock));
        Ok(Admitted { stamp, waits, sources })
    }

    fn check_reads(
        &self,
        stamp: Stamp,
        clock: &VectorClock,
        ranges: &[MemoryRange],
    ) -> Result<Vec<Stamp>, Fault> {
        let mut sources: Vec<Stamp> = Vec::new();
        for range in ranges {
            for segment in self.touched(range) {
                let Some(writer) = segment.writer else { continue };
                if !happens_before(&writer, clock) {
                    return Err(unordered("used before ready", stamp, "reads", range, writer, "writes"));
                }
                if !sources.iter().any(|source| source.fence == writer.fence) {
                    sources.push(writer);
                }
            }
        }
        Ok(sources)
    }

    fn check_writes(&self, stamp: Stamp, clock: &VectorClock, ranges: &[MemoryRange]) -> Result<(), Fault> {
        for range in ranges {
            for segment in self.touched(range) {
                for reader in segment.readers.iter().flatten() {
                    if !happens_before(reader, clock) {
                        return Err(unordered("reused too early", stamp, "writes", range, *reader, "reads"));
                    }
                }
                if let Some(writer) = segment.writer
                    && !happens_before(&writer, clock)
                {
                    return Err(unordered("reused too early", stamp, "writes", range, writer, "writes"));
                }
            }
        }
        Ok(())
    }

    /// The known segments that overlap the range.
    fn touched(&self, range: &MemoryRange) -> impl Iterator<Item = &Segment> {
        let (begin, end) = (range.begin, range.end.max(range.begin));
        let segments = self.memories.get(&range.memory).filter(|_| begin < end);
        segments.into_iter().flat_map(move |segments| {
            let before = segments.range(..begin).next_back().filter(|(_, segment)| segment.end > begin);
            before.into_iter().chain(segments.range(begin..end)).map(|(_, segment)| segment)
        })
    }

    /// Applies `change` to exactly the bytes of the range, splitting segments at its bounds.
    fn each_segment(&mut self, range: &MemoryRange, change: impl Fn(&mut Segment)) {
        let Some(segments) = self.memories.get_mut(&range.memory) else { return };
        for at in [range.begin, range.end] {
            let split = segments.range_mut(..at).next_back().filter(|(_, segment)| segment.end > at);
            if let Some((_, segment)) = split {
                let behind = segment.clone();
                segment.end = at;
                segments.insert(at, behind);
            }
        }
        let mut at = range.begin;
        while at < range.end {
            let next = segments.range(at..range.end).next().map(|(begin, segment)| (*begin, segment.end));
            match next {
                Some((begin, end)) if begin == at => at = end,
                _ => {
                    let end = next.map_or(range.end, |(begin, _)| begin);
                    segments.insert(at, Segment { end, ..Segment::default() });
                    at = end;
                }
            }
        }
        for (_, segment) in segments.range_mut(range.begin..range.end) {
            change(segment);
        }
    }
}

fn joined(left: VectorClock, right: VectorClock) -> VectorClock {
    std::array::from_fn(|lane| left[lane].max(right[lane]))
}

fn happens_before(earlier: &Stamp, clock: &VectorClock) -> bool {
    earlier.sequence <= clock[earlier.lane]
}

fn unordered(
    headline: &str,
    stamp: Stamp,
    verb: &str,
    range: &MemoryRange,
    other: Stamp,
    other_verb: &str,
) -> Fault {
    let message = format!(
        "{headline}: {} {} {verb} bytes {}..{} of memory {}, and nothing orders it after {} {}, which {other_verb} \
         some of them: the graph lacks an edge",
        stamp.what, stamp.fence.0, range.begin, range.end, range.memory.0, other.what, other.fence.0
    );
    Fault::new(FaultKind::Misuse, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::device::Memory;

    fn bytes(begin: u64, end: u64) -> MemoryRange {
        MemoryRange { memory: Memory(0), begin, end }
    }

    fn race_detector() -> RaceDetector {
        let mut race_detector = RaceDetector::default();
        race_detector.add_memory(Memory(0));
        race_detector
    }

    fn admit(
        race_detector: &mut RaceDetector,
        lane: usize,
        waits: &[Fence],
        reads: &[MemoryRange],
        writes: &[MemoryRange],
    ) -> Result<Fence, Fault> {
        let what = ["upload", "launch", "download"][lane];
        race_detector.admit(Intent { lane, what, waits, reads, writes }).map(|admitted| admitted.stamp.fence)
    }

    #[test]
    fn a_freed_memory_takes_no_room() {
        let mut race_detector = RaceDetector::default();
        for number in 0..1000 {
            let memory = Memory(number);
            race_detector.add_memory(memory);
            let range = MemoryRange { memory, begin: 0, end: 8 };
            let intent = Intent { lane: 0, what: "upload", waits: &[], reads: &[], writes: &[range] };
            race_detector.admit(intent).unwrap();
            race_detector.mark_synchronized([u64::from(number) + 1, 0, 0]);
            race_detector.remove_memory(memory);
        }
        assert!(race_detector.memories.is_empty() && race_detector.operations.is_empty());
    }

    #[test]
    fn a_missing_wait_is_found() {
        let mut race_detector = race_detector();
        let upload = admit(&mut race_detector, 0, &[], &[], &[bytes(0, 100)]).unwrap();
        let fault = admit(&mut race_detector, 1, &[], &[bytes(90, 110)], &[bytes(200, 300)]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Misuse);
        assert!(
            fault.message.contains("used before ready: launch 1 reads bytes 90..110"),
            "{}",
            fault.message
        );
        assert!(fault.message.contains("after upload 0"), "{}", fault.message);
        let launch = admit(&mut race_detector, 1, &[upload], &[bytes(90, 110)], &[bytes(200, 300)]).unwrap();
        assert!(admit(&mut race_detector, 2, &[upload], &[bytes(299, 300)], &[]).is_err());
        assert!(admit(&mut race_detector, 2, &[launch], &[bytes(299, 300)], &[]).is_ok());
    }

    #[test]
    fn a_slot_reused_too_early_is_found() {
        let mut race_detector = race_detector();
        let first = admit(&mut race_detector, 0, &[], &[], &[bytes(0, 100)]).unwrap();
        let launch = admit(&mut race_detector, 1, &[first], &[bytes(0, 50)], &[]).unwrap();
        let fault = admit(&mut race_detector, 0, &[], &[], &[bytes(40, 60)]).unwrap_err();
        assert!(fault.message.contains("reused too early: upload 2 writes"), "{}", fault.message);
        assert!(fault.message.contains("after launch 1, which reads"), "{}", fault.message);
        // Bytes that the launch does not read may be written at any time.
        assert!(admit(&mut race_detector, 0, &[], &[], &[bytes(50, 100)]).is_ok());
        assert!(admit(&mut race_detector, 0, &[launch], &[], &[bytes(0, 100)]).is_ok());
    }

    #[test]
    fn order_is_transitive_over_lanes_waits_and_synchronisation() {
        let mut race_detector = race_detector();
        let upload = admit(&mut race_detector, 0, &[], &[], &[bytes(0, 10)]).unwrap();
        let later_upload = admit(&mut race_detector, 0, &[], &[], &[bytes(10, 20)]).unwrap();
        // Waiting for the second upload is waiting for the first.
        let launch = admit(&mut race_detector, 1, &[later_upload], &[bytes(0, 10)], &[]).unwrap();
        // The download waits for the launch, and so for the uploads.
        assert!(admit(&mut race_detector, 2, &[launch], &[bytes(0, 20)], &[]).is_ok());
        assert!(admit(&mut race_detector, 0, &[upload], &[], &[bytes(0, 20)]).is_err());
        race_detector.mark_synchronized([1, 1, 1]);
        assert!(admit(&mut race_detector, 0, &[upload], &[], &[bytes(0, 10)]).is_ok());
        assert!(admit(&mut race_detector, 1, &[], &[bytes(0, 10)], &[]).is_err());
        race_detector.mark_synchronized([3, 1, 1]);
        let after = admit(&mut race_detector, 0, &[launch], &[], &[bytes(0, 20)]).unwrap();
        assert_eq!(after, Fence(5));
        assert!(admit(&mut race_detector, 1, &[Fence(77)], &[], &[]).is_err());
    }

    #[test]
    fn an_operation_lists_the_writers_of_its_input() {
        let mut race_detector = race_detector();
        let first = admit(&mut race_detector, 0, &[], &[], &[bytes(0, 10)]).unwrap();
        let second = admit(&mut race_detector, 0, &[], &[], &[bytes(10, 20)]).unwrap();
        let intent =
            Intent { lane: 1, what: "launch", waits: &[second], reads: &[bytes(5, 15)], writes: &[] };
        let sources = race_detector.admit(intent).unwrap().sources;
        assert_eq!(sources.iter().map(|source| source.fence).collect::<Vec<_>>(), [first, second]);
    }

    /// The same rules, applied byte by byte with the full happens-before relation.
    struct Slow {
        happens_after: Vec<Vec<bool>>,
        last_of_lane: [Option<usize>; LANES],
        accesses: Vec<(Vec<u64>, Vec<u64>)>,
    }

    impl Slow {
        fn admit(&mut self, lane: usize, waits: &[Fence], reads: &[u64], writes: &[u64]) -> bool {
            let mut after = vec![false; self.accesses.len()];
            for before in waits.iter().map(|wait| wait.0 as usize).chain(self.last_of_lane[lane]) {
                after[before] = true;
                for (at, earlier) in self.happens_after[before].iter().enumerate() {
                    after[at] |= earlier;
                }
            }
            let conflict = self.accesses.iter().enumerate().any(|(other, (other_reads, other_writes))| {
                let meets = |left: &[u64], right: &[u64]| left.iter().any(|byte| right.contains(byte));
                let conflicts =
                    meets(reads, other_writes) || meets(writes, other_writes) || meets(writes, other_reads);
                conflicts && !after[other]
            });
            if !conflict {
                self.last_of_lane[lane] = Some(self.accesses.len());
                self.happens_after.push(after);
                self.accesses.push((reads.to_vec(), writes.to_vec()));
            }
            !conflict
        }
    }

    proptest! {
        #[test]
        fn the_race_detector_agrees_with_the_rules_applied_byte_by_byte(
            operations in prop::collection::vec(
                (0..LANES, prop::collection::vec(0u64..12, 0..3), (0u64..8, 0u64..4), (0u64..8, 0u64..4)), 1..24,
            )
        ) {
            let mut fast = race_detector();
            let mut slow = Slow { happens_after: vec![], last_of_lane: [None; LANES], accesses: vec![] };
            for (lane, waits, (read, read_length), (write, write_length)) in operations {
                let known = slow.accesses.len() as u64;
                let waits: Vec<Fence> = waits.into_iter().filter(|wait| *wait < known).map(Fence).collect();
                let reads = bytes(read, read + read_length);
                let writes = bytes(20 + write, 20 + write + write_length);
                let both = [bytes(write, write + write_length), writes];
                // Operations may write bytes that others read, but not bytes that they read themselves.
                let written = if lane == 0 { &both[..1] } else { &both[1..] };
                let read_ranges = if lane == 0 { vec![] } else { vec![reads] };
                let list = |ranges: &[MemoryRange]| ranges.iter().flat_map(|r| r.begin..r.end).collect::<Vec<_>>();
                let expected = slow.admit(lane, &waits, &list(&read_ranges), &list(written));
                let got = admit(&mut fast, lane, &waits, &read_ranges, written).is_ok();
                prop_assert_eq!(got, expected);
            }
        }
    }
}
