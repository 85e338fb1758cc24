//! Checks that every byte is written before it is read, that conflicting accesses are ordered by edges, and that every
//! byte of Y is written exactly once, or at most once where it is updated in place.
//!
//! Each buffer is divided into segments at the bounds of its writes. The writers of a segment must be totally ordered, so
//! a reader is compared only with the last writer before it and the first writer after it. Tasks of different strands of
//! one choice never both run and need no order.

use super::reach::Reach;
use super::{Access, ChoiceId, Graph, TaskId, Unsound};
use crate::graph::{BufferId, Role, StrandId};

#[derive(Clone, Copy)]
struct Touch {
    task: TaskId,
    begin: u64,
    end: u64,
}

pub(super) fn check(graph: &Graph, reach: &mut Reach<'_>) -> Result<(), Unsound> {
    let (write_starts, writes) = by_buffer(graph, |task| graph.writes(task));
    let (read_starts, reads) = by_buffer(graph, |task| graph.reads(task));
    let strands_of = graph.strands_per_choice();
    for (number, buffer) in graph.buffers.iter().enumerate() {
        let writers = &writes[write_starts[number]..write_starts[number + 1]];
        let readers = &reads[read_starts[number]..read_starts[number + 1]];
        let id = BufferId(number as u32);
        if buffer.role == Role::Input {
            if let Some(writer) = writers.first() {
                let access = Access { buffer: id, begin: writer.begin, end: writer.end };
                return Err(Unsound::InputWritten { task: graph.named(writer.task), access });
            }
            continue;
        }
        let segments = Segments::new(graph, reach, id, writers);
        for segment in 0..segments.count() {
            segments.check_writers(segment, reach)?;
            // Bytes of an in-out buffer may stay as they are; those that are updated have one writer, as those of Y.
            let is_kept = buffer.role == Role::InOut && segments.writers(segment).is_empty();
            if buffer.role != Role::Scratch && !is_kept {
                segments.check_output(segment, &strands_of)?;
            }
        }
        if buffer.role == Role::Output {
            segments.check_ends(buffer.bytes)?;
        }
        for reader in readers {
            match buffer.role {
                Role::InOut => segments.check_order(reader, reach)?,
                _ => segments.check_reader(reader, reach, &strands_of)?,
            }
        }
    }
    Ok(())
}

/// All non-empty accesses, grouped by buffer.
fn by_buffer<'g>(graph: &'g Graph, of: impl Fn(TaskId) -> &'g [Access]) -> (Vec<usize>, Vec<Touch>) {
    let accesses = || graph.task_ids().flat_map(|task| of(task).iter().map(move |access| (task, access)));
    let touching = || accesses().filter(|(_, access)| access.begin < access.end);
    let mut starts = vec![0usize; graph.buffers.len() + 1];
    for (_, access) in touching() {
        starts[access.buffer.index() + 1] += 1;
    }
    for buffer in 0..graph.buffers.len() {
        starts[buffer + 1] += starts[buffer];
    }
    let mut cursors = starts.clone();
    let mut touches = vec![Touch { task: TaskId(0), begin: 0, end: 0 }; starts[graph.buffers.len()]];
    for (task, &Access { buffer, begin, end }) in touching() {
        touches[cursors[buffer.index()]] = Touch { task, begin, end };
        cursors[buffer.index()] += 1;
    }
    (starts, touches)
}

/// A buffer, divided into segments at the bounds of its writes.
struct Segments<'g> {
    graph: &'g Graph,
    buffer: BufferId,
    bounds: Vec<u64>,
    starts: Vec<usize>,
    /// The writers of each segment, in topological order.
    writers: Vec<TaskId>,
    /// Whether some writer belongs to a choice.
    chosen: bool,
}

impl<'g> Segments<'g> {
    fn new(graph: &'g Graph, reach: &Reach<'_>, buffer: BufferId, touches: &[Touch]) -> Self {
        let mut bounds: Vec<u64> = touches.iter().flat_map(|touch| [touch.begin, touch.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let count = bounds.len().saturating_sub(1);
        let place = |byte: u64| bounds.partition_point(|&bound| bound < byte);
        let mut starts = vec![0usize; count + 1];
        for touch in touches {
            for segment in place(touch.begin)..place(touch.end) {
                starts[segment + 1] += 1;
            }
        }
        for segment in 0..count {
            starts[segment + 1] += starts[segment];
        }
        let mut cursors = starts.clone();
        let mut writers = vec![TaskId(0); starts[count]];
        for touch in touches {
            for cursor in &mut cursors[place(touch.begin)..place(touch.end)] {
                writers[*cursor] = touch.task;
                *cursor += 1;
            }
        }
        for segment in 0..count {
            writers[starts[segment]..starts[segment + 1]]
                .sort_unstable_by_key(|task| reach.positions[task.index()]);
        }
        let chosen = writers.iter().any(|&task| graph.choice_of(task).is_some());
        Self { graph, buffer, bounds, starts, writers, chosen }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn writers(&self, segment: usize) -> &[TaskId] {
        &self.writers[self.starts[segment]..self.starts[segment + 1]]
    }

    fn access(&self, segment: usize) -> Access {
        Access { buffer: self.buffer, begin: self.bounds[segment], end: self.bounds[segment + 1] }
    }

    fn unordered(&self, first: TaskId, second: TaskId, access: Access) -> Result<(), Unsound> {
        let (first, second) = (self.graph.named(first), self.graph.named(second));
        Err(Unsound::Unordered { first, second, access })
    }

    /// Whether the two tasks belong to different strands of one choice, so that at most one runs.
    fn exclude(&self, one: TaskId, other: TaskId) -> bool {
        let tasks = &self.graph.tasks;
        self.graph.choice_of(one).is_some()
            && self.graph.choice_of(one) == self.graph.choice_of(other)
            && tasks[one.index()].strand != tasks[other.index()].strand
    }

    fn check_writers(&self, segment: usize, reach: &mut Reach<'_>) -> Result<(), Unsound> {
        let writers = self.writers(segment);
        for (place, &earlier) in writers.iter().enumerate() {
            // Order is transitive, so it is enough to compare neighbours, unless some exclude each other.
            let behind = if self.chosen { writers.len() } else { writers.len().min(place + 2) };
            for &later in &writers[place + 1..behind] {
                if earlier != later && !self.exclude(earlier, later) && !reach.reaches(earlier, later) {
                    return self.unordered(earlier, later, self.access(segment));
                }
            }
        }
        Ok(())
    }

    /// Checks that exactly one task writes the segment, or exactly one task of each strand of one choice.
    fn check_output(&self, segment: usize, strands_of: &[u32]) -> Result<(), Unsound> {
        let access = self.access(segment);
        // A task may name the same bytes twice.
        let mut writers = self.writers(segment).to_vec();
        writers.dedup();
        let Some((&first, others)) = writers.split_first() else {
            return Err(Unsound::OutputMissing { access });
        };
        let mut strands: Vec<_> =
            writers.iter().map(|task| (self.graph.tasks[task.index()].strand, *task)).collect();
        strands.sort_unstable();
        let same_strand = strands.windows(2).find(|pair| pair[0].0 == pair[1].0);
        let outsider = others.iter().find(|&&other| !self.exclude(first, other));
        let twice = same_strand.map(|pair| (pair[0].1, pair[1].1)).or(outsider.map(|&other| (first, other)));
        if let Some((first, second)) = twice {
            let (first, second) = (self.graph.named(first), self.graph.named(second));
            return Err(Unsound::OutputTwice { first, second, access });
        }
        match self.graph.choice_of(first) {
            Some(choice) if strands_of[choice.index()] as usize != writers.len() => {
                Err(Unsound::ChoiceUneven { task: self.graph.named(first), choice, access })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the segments cover the buffer from its first byte to its last.
    fn check_ends(&self, bytes: u64) -> Result<(), Unsound> {
        let missing =
            |begin, end| Err(Unsound::OutputMissing { access: Access { buffer: self.buffer, begin, end } });
        match (self.bounds.first(), self.bounds.last()) {
            (Some(&first), _) if first > 0 => missing(0, first),
            (_, Some(&last)) if last < bytes => missing(last, bytes),
            (None, _) if bytes > 0 => missing(0, bytes),
            _ => Ok(()),
        }
    }

    /// Checks that a reader of an in-out buffer comes before or after every other task that updates its bytes.
    fn check_order(&self, reader: &Touch, reach: &mut Reach<'_>) -> Result<(), Unsound> {
        for segment in 0..self.count() {
            let access = self.access(segment);
            if access.end <= reader.begin || reader.end <= access.begin {
                continue;
            }
            for &writer in self.writers(segment) {
                let ordered = writer == reader.task
                    || self.exclude(writer, reader.task)
                    || reach.reaches(writer, reader.task)
                    || reach.reaches(reader.task, writer);
                if !ordered {
                    return self.unordered(writer, reader.task, access);
                }
            }
        }
        Ok(())
    }

    fn check_reader(&self, reader: &Touch, reach: &mut Reach<'_>, strands_of: &[u32]) -> Result<(), Unsound> {
        let access = Access { buffer: self.buffer, begin: reader.begin, end: reader.end };
        let unwritten = || Err(Unsound::Unwritten { task: self.graph.named(reader.task), access });
        let inside = self.bounds.first().is_some_and(|&first| first <= reader.begin)
            && self.bounds.last().is_some_and(|&last| reader.end <= last);
        if !inside {
            return unwritten();
        }
        let begin = self.bounds.partition_point(|&bound| bound <= reader.begin) - 1;
        let end = self.bounds.partition_point(|&bound| bound < reader.end);
        for segment in begin..end {
            let covered = if self.chosen {
                self.reads_chosen(reader.task, segment, reach, strands_of)?
            } else {
                self.reads_plain(reader.task, segment, reach)?
            };
            if !covered {
                return unwritten();
            }
        }
        Ok(())
    }

    /// Whether a task writes the segment before `reader`. For buffers without choices.
    fn reads_plain(&self, reader: TaskId, segment: usize, reach: &mut Reach<'_>) -> Result<bool, Unsound> {
        let writers = self.writers(segment);
        let position = reach.positions[reader.index()];
        let before = writers.partition_point(|task| reach.positions[task.index()] < position);
        let mut behind = writers[before..].iter().filter(|&&task| task != reader);
        if let Some(&later) = behind.next()
            && !reach.reaches(reader, later)
        {
            return match before {
                0 => Ok(false),
                _ => self.unordered(reader, later, self.access(segment)).map(|()| false),
            };
        }
        let Some(&last) = before.checked_sub(1).and_then(|last| writers.get(last)) else { return Ok(false) };
        if !reach.reaches(last, reader) {
            self.unordered(last, reader, self.access(segment))?;
        }
        Ok(true)
    }

    /// Whether a task, or a task of each strand of a choice, writes the segment before `reader`.
    fn reads_chosen(
        &self,
        reader: TaskId,
        segment: usize,
        reach: &mut Reach<'_>,
        strands_of: &[u32],
    ) -> Result<bool, Unsound> {
        let own = self.graph.tasks[reader.index()].strand;
        let mut covered = false;
        let mut of_choices = Vec::new();
        for &writer in self.writers(segment) {
            if writer == reader || self.exclude(writer, reader) {
                continue;
            }
            if reach.reaches(writer, reader) {
                let strand = self.graph.tasks[writer.index()].strand;
                match self.graph.choice_of(writer) {
                    Some(choice) if strand != own => of_choices.push((choice, strand)),
                    _ => covered = true,
                }
            } else if !reach.reaches(reader, writer) {
                self.unordered(writer, reader, self.access(segment))?;
            }
        }
        of_choices.sort_unstable();
        of_choices.dedup();
        let whole = |group: &[(ChoiceId, StrandId)]| group.len() as u32 == strands_of[group[0].0.index()];
        Ok(covered || of_choices.chunk_by(|a, b| a.0 == b.0).any(whole))
    }
}
