//! A part of the text of a coordinate file: several readers, each with its own bytes, read a file together and build its rows.
//!
//! A reader parses the lines that begin in its bytes ([`TextPart::read`]) and tells the others what it found ([`TextFacts`]). Facts of
//! all readers decide whether the file is valid, with the error that a single reader gives ([`Head::check`]). Entries then go to the
//! readers that own their rows ([`TextPart::take_entries`]). An owner collects what it gets ([`RowEntries`]) and builds its rows: in the
//! order of the readers, hence in file order, so that duplicates are summed as by a single reader.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;

use super::build::{BuildFault, Shape, build};
use super::entries::{EntryParser, Fault};
use super::header::{Format, Header};
use super::lines::{FileRange, line_start};
use super::pieces::{Buckets, Budget, Piece, Sorter};
use super::tally::Tally;
use super::{
    Cuts, both_listed, check_changed, check_fits, check_text_holds, dense_as_sparse, parse_spans, wrong_count,
};
use crate::error::{Error, Place, Reason, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::csr::Csr;
use crate::matrix::info::{Field, MatrixInfo};
use crate::matrix::io::{Input, ReadOptions, complex_values, name_of, read_error};
use crate::matrix::scalar::Scalar;

/// Most buckets of rows that the entries of a part, or of an owner, are sorted into.
const MOST_BUCKETS: u64 = 64;

/// The header of a file, checked against its size.
#[derive(Debug, Clone)]
pub struct Head {
    source: String,
    name: String,
    header: Header,
    text_end: u64,
}

/// What a part of a file holds, apart from its entries.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct TextFacts {
    lines: u64,
    entries: u64,
    tally: Tally,
    /// The line that is refused, counted from one within the part, and why.
    refused: Option<(u64, Reason)>,
}

/// The entries of a part of a file.
pub struct TextPart<T> {
    /// Lines, entries and oddities.
    pub facts: TextFacts,
    buckets: Buckets,
    /// By bucket, in file order.
    pieces: VecDeque<(usize, Piece<T>)>,
    /// Entries of the first piece that were taken.
    taken: usize,
}

/// One entry on its way to the owner of its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry<T> {
    /// Row of the whole matrix.
    pub row: u64,
    /// Column.
    pub column: u32,
    /// Whether the file lists its mirror image instead.
    pub mirrored: bool,
    /// Value; one for a pattern.
    pub value: T,
}

impl Head {
    /// Reads the header of a plain coordinate file.
    pub fn read(input: &Input) -> Result<Self> {
        let source = input.path.display().to_string();
        let unreadable = |error: io::Error| read_error(&input.path, &source, error);
        let text_end = input.file.metadata().map_err(unreadable)?.len();
        let whole = FileRange { file: &input.file, position: 0, end: text_end };
        let header =
            Header::read(&mut BufReader::new(whole)).map_err(|fault| fault.named(&source, unreadable))?;
        if header.format == Format::Array {
            return Err(dense_as_sparse(&source));
        }
        if header.field == Field::Complex {
            return Err(complex_values(Place::line(source, 1)));
        }
        check_text_holds(&source, &header, text_end - header.bytes)?;
        Ok(Self { source, name: name_of(&input.path), header, text_end })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Whether entries have values of their own.
    pub fn has_values(&self) -> bool {
        self.header.field != Field::Pattern
    }

    /// An error where the facts of all parts, in file order, refuse the file.
    pub fn check(&self, parts: &[TextFacts]) -> Result<()> {
        let (mut lines, mut entries) = (self.header.size_line, 0);
        for part in parts {
            if let Some((line, reason)) = &part.refused {
                return Err(Error::input(Place::line(&*self.source, lines + line), reason.clone()));
            }
            lines += part.lines;
            entries += part.entries;
            if entries > self.header.entries {
                return Err(wrong_count(&self.source, &self.header, "more follow".into()));
            }
        }
        if entries < self.header.entries {
            return Err(wrong_count(&self.source, &self.header, format!("only {entries} follow")));
        }
        Ok(())
    }

    /// Name and origin of the matrix.
    pub fn info(&self) -> MatrixInfo {
        MatrixInfo {
            name: self.name.clone(),
            field: self.header.field,
            symmetry: self.header.symmetry,
            stored_entries: self.header.entries,
            synthetic: self.header.synthetic,
            features: None,
        }
    }

    /// The notes on a file with these parts and so many duplicates.
    pub fn notes(&self, parts: &[TextFacts], duplicates: u64) -> Vec<String> {
        let mut tally = self.tally(parts);
        tally.duplicates = duplicates;
        tally.notes()
    }

    fn tally(&self, parts: &[TextFacts]) -> Tally {
        let mut tally = self.header.tally;
        parts.iter().for_each(|part| tally += part.tally);
        tally
    }

    /// The bytes of part `part` of `parts`: the lines that begin in an equal share of the text.
    fn bytes(&self, file: &File, part: usize, parts: usize) -> io::Result<Range<u64>> {
        let (start, length) = (self.header.bytes, self.text_end - self.header.bytes);
        let edge = |part: usize| {
            let at = start + (u128::from(length) * part as u128 / parts.max(1) as u128) as u64;
            if part == 0 { Ok(start) } else { line_start(file, at, self.text_end) }
        };
        Ok(edge(part)?..edge(part + 1)?)
    }
}

impl<T: Scalar> TextPart<T> {
    /// Parses part `part` of `parts` on the threads of the current pool. A line that is refused is a fact, not an error.
    pub fn read(
        head: &Head,
        input: &Input,
        part: usize,
        parts: usize,
        options: &ReadOptions,
    ) -> Result<Self> {
        let Input { file, path } = input;
        let unreadable = |error: io::Error| read_error(path, &head.source, error);
        let before = file.metadata().map_err(unreadable)?;
        let bytes = head.bytes(file, part, parts).map_err(unreadable)?;
        let cuts = Cuts::for_file(bytes.end - bytes.start);
        let wanted = (head.header.entries / parts.max(1) as u64 / cuts.bucket_entries).clamp(1, MOST_BUCKETS);
        let expected = cuts.span_bytes / super::TYPICAL_LINE_BYTES / wanted;
        let rows = usize::try_from(head.header.rows).unwrap_or(usize::MAX);
        let buckets = Buckets::new(rows, wanted as usize, head.has_values(), expected);
        let budget = Budget::new(options.memory_limit_bytes);
        let parser = || EntryParser::new(&head.header, options.finite, Sorter::new(buckets, &budget));
        let spans = parse_spans(file, bytes, cuts, options.progress, &unreadable, parser)?;
        check_changed(file, path, &before)?;
        let mut facts = TextFacts { lines: 0, entries: 0, tally: Tally::default(), refused: None };
        let mut by_bucket: Vec<Vec<Piece<T>>> = (0..buckets.count).map(|_| Vec::new()).collect();
        for span in spans {
            match span {
                Ok(span) => {
                    facts.lines += span.lines;
                    facts.entries += span.entries;
                    facts.tally += span.tally;
                    by_bucket.iter_mut().zip(span.pieces).for_each(|(all, more)| all.extend(more));
                }
                Err(Fault::Line(line, reason)) => {
                    facts.refused = Some((facts.lines + line, reason));
                    break;
                }
                Err(Fault::Whole(error)) => return Err(error),
            }
        }
        let of_bucket =
            |(bucket, pieces): (usize, Vec<Piece<T>>)| pieces.into_iter().map(move |piece| (bucket, piece));
        let pieces = by_bucket.into_iter().enumerate().flat_map(of_bucket).collect();
        Ok(Self { facts, buckets, pieces, taken: 0 })
    }

    /// Calls `count` with the row of each entry, mirrored ones included.
    pub fn for_each_row(&self, mut count: impl FnMut(u64)) {
        for (bucket, piece) in &self.pieces {
            piece.keys().for_each(|key| count(self.row(*bucket, key.row())));
        }
    }

    /// Calls `take` with the next entries, at most `most`, and frees their memory. Returns whether entries are left. Entries of one row
    /// are in file order.
    pub fn take_entries(&mut self, most: usize, mut take: impl FnMut(Entry<T>)) -> bool {
        let mut left = most;
        while let Some((bucket, piece)) = self.pieces.front() {
            let count = left.min(piece.len() - self.taken);
            let values = piece.values();
            for (index, key) in piece.keys().enumerate().skip(self.taken).take(count) {
                take(Entry {
                    row: self.row(*bucket, key.row()),
                    column: key.column(),
                    mirrored: key.mirrored(),
                    value: values.get(index).copied().unwrap_or(T::ONE),
                });
            }
            self.taken += count;
            left -= count;
            if self.taken < piece.len() {
                return true;
            }
            self.pieces.pop_front();
            self.taken = 0;
        }
        false
    }

    fn row(&self, bucket: usize, row_in_bucket: usize) -> u64 {
        ((bucket as u64) << self.buckets.shift) + row_in_bucket as u64
    }
}

/// The entries of some rows, by the reader that sent them.
pub struct RowEntries<'a, T> {
    head: &'a Head,
    rows: Range<u64>,
    limit_bytes: u64,
    buckets: Buckets,
    readers: Vec<Sorter<'a, T>>,
    count: u64,
}

/// The memory that entries may take.
pub struct EntryBudget(Budget);

impl EntryBudget {
    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self(Budget::new(limit_bytes))
    }
}

impl<'a, T: Scalar> RowEntries<'a, T> {
    /// No entries yet, of `rows`, from `readers` readers. About `expected` entries will come.
    pub fn new(
        head: &'a Head,
        rows: Range<u64>,
        readers: usize,
        expected: u64,
        budget: &'a EntryBudget,
        options: &ReadOptions,
    ) -> Result<Self> {
        let (own_rows, limit_bytes) = (rows.end - rows.start, options.memory_limit_bytes);
        check_fits(&head.source, own_rows, expected, size_of::<T>(), limit_bytes)?;
        let wanted = (expected / (1 << 16)).clamp(1, MOST_BUCKETS);
        let row_count = usize::try_from(own_rows).unwrap_or(usize::MAX);
        let per_reader = expected / wanted / readers.max(1) as u64;
        let buckets = Buckets::new(row_count, wanted as usize, head.has_values(), per_reader);
        let readers = (0..readers).map(|_| Sorter::new(buckets, &budget.0)).collect();
        Ok(Self { head, rows, limit_bytes, buckets, readers, count: 0 })
    }

    /// Adds an entry that reader `reader` sent.
    pub fn add(&mut self, reader: usize, entry: Entry<T>) -> Result<()> {
        let (true, Some(sorter)) = (self.rows.contains(&entry.row), self.readers.get_mut(reader)) else {
            return Err(Error::Internal(format!("an entry of row {} came to {:?}", entry.row, self.rows)));
        };
        self.count += 1;
        sorter.push(entry.row - self.rows.start, entry.column, entry.value, entry.mirrored)
    }

    /// The rows, and the number of listed duplicates in them. `parts` are the facts of all readers.
    pub fn build(self, parts: &[TextFacts]) -> Result<(Csr<T>, u64)> {
        let Self { head, rows, limit_bytes, buckets, readers, count } = self;
        check_fits(&head.source, rows.end - rows.start, count, size_of::<T>(), limit_bytes)?;
        let mut pieces: Vec<Vec<Piece<T>>> = (0..buckets.count).map(|_| Vec::new()).collect();
        for reader in readers {
            pieces.iter_mut().zip(reader.finish()?).for_each(|(all, more)| all.extend(more));
        }
        let row_count = (rows.end - rows.start) as usize;
        let row_pointers = AlignedBuffer::zeroed(row_count + 1)?;
        let tally = head.tally(parts);
        let shape = Shape {
            first_row: rows.start as usize,
            rows: row_count,
            cols: head.header.cols as usize,
            parts: 1,
            symmetry: head.header.symmetry,
            both_triangles: tally.lower > 0 && tally.upper > 0,
        };
        build(shape, buckets, pieces, row_pointers).map_err(|fault| match fault {
            BuildFault::Other(error) => error,
            BuildFault::BothListed(row, column) => both_listed(head.source.clone(), row, column),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file with this text, opened, and its header. Open files stay readable after their folder is removed.
    fn opened(text: &str) -> (Input, Head) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let input = Input::open(file.path()).unwrap();
        let head = Head::read(&input).unwrap();
        (input, head)
    }

    #[test]
    fn every_field_but_pattern_has_values() {
        for (field, value, has_values) in
            [("real", " 2", true), ("integer", " 2", true), ("pattern", "", false)]
        {
            let text = format!("%%MatrixMarket matrix coordinate {field} general\n1 1 1\n1 1{value}\n");
            assert_eq!(opened(&text).1.has_values(), has_values, "{field}");
        }
    }

    #[test]
    fn entries_are_taken_in_portions_of_the_requested_size() {
        let (buckets, budget) = (Buckets::new(4, 4, true, 0), Budget::new(u64::MAX));
        let mut sorter = Sorter::<f64>::new(buckets, &budget);
        let rows = [0, 0, 1, 1, 1, 1, 1, 3, 3, 3, 3];
        for (column, row) in (0..).zip(rows) {
            sorter.push(row, column, f64::from(column), false).unwrap();
        }
        let by_bucket = sorter.finish().unwrap().into_iter().enumerate();
        let pieces: VecDeque<_> = by_bucket
            .flat_map(|(bucket, pieces)| pieces.into_iter().map(move |piece| (bucket, piece)))
            .collect();
        assert_eq!(pieces.len(), 3);
        let facts = TextFacts { lines: 11, entries: 11, tally: Tally::default(), refused: None };
        let mut part = TextPart { facts, buckets, pieces, taken: 0 };
        let (mut taken, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let before = taken.len();
            let is_left = part.take_entries(5, |entry| taken.push((entry.row, entry.column, entry.value)));
            sizes.push(taken.len() - before);
            if !is_left {
                break;
            }
        }
        assert_eq!(sizes, [5, 5, 1]);
        let expected: Vec<_> =
            (0..).zip(rows).map(|(column, row)| (row, column, f64::from(column))).collect();
        assert_eq!(taken, expected);
    }

    /// The rows `rows` of a file, built from the entries of three readers.
    fn built(text: &str, rows: Range<u64>) -> Result<Csr<f64>> {
        let ((input, head), options) = (opened(text), ReadOptions::default());
        let read = |part| TextPart::<f64>::read(&head, &input, part, 3, &options).unwrap();
        let mut parts = [0, 1, 2].map(read);
        let facts = parts.each_ref().map(|part| part.facts.clone());
        head.check(&facts)?;
        let budget = EntryBudget::new(u64::MAX);
        let mut own = RowEntries::new(&head, rows.clone(), 3, 8, &budget, &options)?;
        for (reader, part) in parts.iter_mut().enumerate() {
            let mut entries = Vec::new();
            while part.take_entries(2, |entry| entries.push(entry)) {}
            entries.retain(|entry| rows.contains(&entry.row));
            entries.into_iter().try_for_each(|entry| own.add(reader, entry))?;
        }
        own.build(&facts).map(|(matrix, _)| matrix)
    }

    #[test]
    fn an_owner_builds_its_rows_from_the_entries_of_all_readers() {
        let banner = "%%MatrixMarket matrix coordinate real symmetric";
        let text = format!("{banner}\n4 4 5\n4 4 7\n2 1 2\n3 2 5\n1 1 1\n2 1 8\n");
        let expected = Csr::try_new(3, 4, vec![0, 2, 3, 4], vec![0, 2, 1, 3], vec![10.0, 5.0, 5.0, 7.0]);
        assert_eq!(built(&text, 1..4).unwrap(), expected.unwrap());
        // Row 2 is the first of the owner's rows.
        let text = format!("{banner}\n4 4 3\n3 2 5\n2 3 5\n4 4 7\n");
        let reason = built(&text, 1..4).unwrap_err().to_string();
        assert!(reason.contains(": row 2 column 3 and its mirror image are both listed"), "{reason}");
    }
}
