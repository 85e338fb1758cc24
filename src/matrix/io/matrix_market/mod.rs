//! Reads Matrix Market: coordinate files as CSR, array files as multivectors.
//!
//! All threads of the current pool parse coordinate text, span by span, into buckets of consecutive rows; each bucket then
//! becomes its part of the CSR arrays. An error names the first line that is refused, by its number in the file.

mod build;
mod dense;
pub(super) mod entries;
pub(super) mod header;
pub(super) mod lines;
pub(super) mod number;
pub mod part;
mod pieces;
mod stream;
pub(super) mod tally;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;

use self::build::{BuildFault, Shape, build};
use self::entries::{EntryParser, Fault, Part};
use self::header::{Format, Header};
use self::lines::{FileRange, LineBlocks, spans};
use self::pieces::{Buckets, Budget, Piece, Sorter};
use self::tally::Tally;
use super::{Progress, ReadOptions, complex_values, name_of, read_error};
use crate::error::{Error, Place, Result};
use crate::matrix::array::AlignedBuffer;
use crate::matrix::info::{Field, Loaded, MatrixInfo};
use crate::matrix::scalar::Scalar;

pub(crate) use self::dense::{read_array_gzip, read_array_plain};
pub(crate) use self::stream::read_gzip;

/// Estimated bytes of an entry line. Only the sizes of allocations depend on it.
const TYPICAL_LINE_BYTES: u64 = 24;

/// How text is divided; tests divide it finer.
#[derive(Debug, Clone, Copy)]
struct Cuts {
    /// Bytes of text of one task.
    span_bytes: u64,
    /// Bytes read at once within a span: few enough to stay in a core's own cache.
    block_bytes: usize,
    /// Entries that make a bucket of their own worthwhile.
    bucket_entries: u64,
}

impl Cuts {
    fn for_file(bytes: u64) -> Self {
        let spans = rayon::current_num_threads() as u64 * 4;
        Self {
            span_bytes: (bytes / spans).clamp(256 << 10, 64 << 20),
            block_bytes: 256 << 10,
            bucket_entries: 1 << 16,
        }
    }
}

/// Reads a plain coordinate file.
pub(crate) fn read_plain<T: Scalar>(file: &File, path: &Path, options: &ReadOptions) -> Result<Loaded<T>> {
    let bytes = file.metadata().map_err(|error| Error::read(path, error))?.len();
    read_plain_cut(file, path, options, Cuts::for_file(bytes))
}

fn read_plain_cut<T: Scalar>(
    file: &File,
    path: &Path,
    options: &ReadOptions,
    cuts: Cuts,
) -> Result<Loaded<T>> {
    let source = path.display().to_string();
    let unreadable = |error: io::Error| read_error(path, &source, error);
    let before = file.metadata().map_err(unreadable)?;
    let whole = FileRange { file, position: 0, end: before.len() };
    let header =
        Header::read(&mut BufReader::new(whole)).map_err(|fault| fault.named(&source, unreadable))?;
    let text_bytes = before.len() - header.bytes;
    let mut assembly = Assembly::<T>::begin(source.clone(), header, text_bytes, options, cuts)?;

    let text = header.bytes..before.len();
    let parser = || assembly.parser();
    let parts = parse_spans(file, text, cuts, options.progress, &unreadable, parser)?;
    check_changed(file, path, &before)?;
    for part in parts {
        assembly.add(part)?;
    }
    assembly.finish(name_of(path))
}

/// Parses a range of a file that begins at the start of a line, on all threads of the current pool; the content of each span, in order.
fn parse_spans<'p, T: Scalar>(
    file: &File,
    text: Range<u64>,
    cuts: Cuts,
    progress: Option<Progress<'_>>,
    unreadable: &(impl Fn(io::Error) -> Error + Sync),
    parser: impl Fn() -> EntryParser<'p, T> + Sync,
) -> Result<Vec<std::result::Result<Part<T>, Fault>>> {
    let starts = spans(file, text.start, text.end, cuts.span_bytes).map_err(unreadable)?;
    let parse = |ends: &[u64]| {
        let range = FileRange { file, position: ends[0], end: ends[1] };
        let mut blocks = LineBlocks::new(range, cuts.block_bytes);
        let mut parser = parser();
        let mut block = Vec::new();
        while blocks.next(&mut block).map_err(|error| Fault::Whole(unreadable(error)))? {
            parser.parse(&block)?;
            if let Some(progress) = progress {
                let amount = block.len() as u64;
                progress.advance(amount).map_err(|error| Fault::Whole(unreadable(error)))?;
            }
        }
        parser.finish()
    };
    Ok(starts.par_windows(2).with_max_len(1).map(parse).collect())
}

/// An error if the file changed since `before`.
fn check_changed(file: &File, path: &Path, before: &std::fs::Metadata) -> Result<()> {
    let after = file.metadata().map_err(|error| Error::read(path, error))?;
    let modified = |metadata: &std::fs::Metadata| (metadata.len(), metadata.modified().ok());
    if modified(before) == modified(&after) {
        return Ok(());
    }
    let reason = "the file changed while it was read; read it again when it is complete";
    Err(Error::input(Place::file(path), reason))
}

/// A matrix that is assembled from its parts, in file order.
struct Assembly<T> {
    source: String,
    header: Header,
    finite: bool,
    buckets: Buckets,
    budget: Budget,
    memory_limit_bytes: u64,
    row_pointers: AlignedBuffer<u64>,
    pieces: Vec<Vec<Piece<T>>>,
    entries: u64,
    lines: u64,
    tally: Tally,
}

impl<T: Scalar> Assembly<T> {
    /// Checks the declared sizes against the memory limit and against the bytes of text.
    fn begin(
        source: String,
        header: Header,
        text_bytes: u64,
        options: &ReadOptions,
        cuts: Cuts,
    ) -> Result<Self> {
        if header.format == Format::Array {
            return Err(dense_as_sparse(&source));
        }
        if header.field == Field::Complex && !options.complex {
            return Err(complex_values(Place::line(source, 1)));
        }
        check_text_holds(&source, &header, text_bytes)?;
        let parts = header.field.parts() as u64;
        let least_entries = header.entries.saturating_mul(parts);
        check_fits(&source, header.rows, least_entries, size_of::<T>(), options.memory_limit_bytes)?;
        let rows = usize::try_from(header.rows).unwrap_or(usize::MAX);
        let wanted_buckets = (header.entries / cuts.bucket_entries).clamp(1, 64) as usize;
        let row_pointers = AlignedBuffer::zeroed(rows.saturating_add(1))?;
        let expected = cuts.span_bytes / TYPICAL_LINE_BYTES / wanted_buckets as u64;
        let buckets = Buckets::new(rows, wanted_buckets, header.field != Field::Pattern, expected);
        Ok(Self {
            source,
            header,
            finite: options.finite,
            buckets,
            budget: Budget::new(options.memory_limit_bytes),
            memory_limit_bytes: options.memory_limit_bytes,
            row_pointers,
            pieces: (0..buckets.count).map(|_| Vec::new()).collect(),
            entries: 0,
            lines: header.size_line,
            tally: header.tally,
        })
    }

    /// A parser for one part.
    fn parser(&self) -> EntryParser<'_, T> {
        EntryParser::new(&self.header, self.finite, Sorter::new(self.buckets, &self.budget))
    }

    /// Adds the next part.
    fn add(&mut self, part: std::result::Result<Part<T>, Fault>) -> Result<()> {
        let part = part.map_err(|fault| match fault {
            Fault::Line(line, reason) => Error::input(Place::line(&*self.source, self.lines + line), reason),
            Fault::Whole(error) => error,
        })?;
        for (all, more) in self.pieces.iter_mut().zip(part.pieces) {
            all.extend(more);
        }
        self.lines += part.lines;
        self.entries += part.entries;
        self.tally += part.tally;
        if self.entries > self.header.entries {
            return Err(wrong_count(&self.source, &self.header, "more follow".into()));
        }
        Ok(())
    }

    /// The matrix, all parts added.
    fn finish(self, name: String) -> Result<Loaded<T>> {
        if self.entries < self.header.entries {
            let found = format!("only {} follow", self.entries);
            return Err(wrong_count(&self.source, &self.header, found));
        }
        let Self { source, header, buckets, row_pointers, pieces, mut tally, .. } = self;
        let parts = header.field.parts();
        let nonzeros = (header.entries + tally.lower + tally.upper) * parts as u64;
        check_fits(&source, header.rows, nonzeros, size_of::<T>(), self.memory_limit_bytes)?;
        let shape = Shape {
            first_row: 0,
            rows: row_pointers.len() - 1,
            cols: header.cols as usize * parts,
            parts,
            symmetry: header.symmetry,
            both_triangles: tally.lower > 0 && tally.upper > 0,
        };
        let (matrix, duplicates) =
            build(shape, buckets, pieces, row_pointers).map_err(|fault| match fault {
                BuildFault::Other(error) => error,
                BuildFault::BothListed(row, column) => both_listed(source, row, column),
            })?;
        tally.duplicates = duplicates / parts as u64;
        let info = MatrixInfo {
            name,
            field: header.field,
            symmetry: header.symmetry,
            stored_entries: header.entries,
            synthetic: header.synthetic,
            features: None,
        };
        Ok(Loaded { matrix, info, notes: tally.notes() })
    }
}

fn dense_as_sparse(source: &str) -> Error {
    let reason = "unsupported: dense; a sparse matrix is needed here, in coordinate format";
    Error::input(Place::line(source, 1), reason)
}

fn wrong_count(source: &str, header: &Header, found: String) -> Error {
    let reason = format!(
        "the size line declares {} entries but {found}; the file or its size line is damaged",
        header.entries
    );
    Error::input(Place::line(source, header.size_line), reason)
}

fn both_listed(source: String, row: u64, column: u64) -> Error {
    let reason = format!(
        "row {row} column {column} and its mirror image are both listed, but a symmetric file lists one triangle; the \
         banner should say general, or one triangle is to be removed"
    );
    Error::input(Place { source, line: None, column: None }, reason)
}

/// Refuses more entries than the text can hold if each has the shortest possible line.
fn check_text_holds(source: &str, header: &Header, text_bytes: u64) -> Result<()> {
    let least = match (header.format, header.field) {
        (Format::Coordinate, Field::Pattern) => "1 1\n".len(),
        (Format::Coordinate, Field::Complex) => "1 1 1 1\n".len(),
        (Format::Coordinate, _) => "1 1 1\n".len(),
        (Format::Array, _) => "1\n".len(),
    };
    // The last line needs no line feed.
    let most = text_bytes.saturating_add(1) / least as u64;
    if header.entries <= most {
        return Ok(());
    }
    let reason = format!(
        "the size line declares {} entries but the text that follows has room for {most} at most; the file is cut \
         off or its size line is damaged",
        header.entries
    );
    Err(Error::input(Place::line(source, header.size_line), reason))
}

/// Refuses a CSR matrix beyond the memory limit.
fn check_fits(source: &str, rows: u64, nonzeros: u64, value_bytes: usize, limit_bytes: u64) -> Result<()> {
    let pointers = rows.saturating_add(1).saturating_mul(8);
    let needed_bytes = pointers.saturating_add(nonzeros.saturating_mul(4 + value_bytes as u64));
    if needed_bytes <= limit_bytes {
        return Ok(());
    }
    Err(Error::DoesNotFit {
        what: format!("{source} with {rows} rows and {nonzeros} nonzeros"),
        needed_bytes,
        limit_bytes,
        advice: "use a machine with more memory or raise the limit".into(),
    })
}
