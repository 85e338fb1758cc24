//! Reads the header of a Matrix Market file: banner, comments, size line.
//!
//! A [`Header`] always describes a supported kind of file and a possible shape. The readers of the body check that the
//! declared entries follow.

use std::io::{self, BufRead};

use memchr::memchr;

use super::lines::{LONGEST_LINE, is_blank, is_comment};
use super::number::{count, shown};
use super::tally::Tally;
use crate::error::{Error, Place};
use crate::matrix::csr::MOST_COLUMNS;
use crate::matrix::info::{Field, SYNTHETIC_COMMENT, Symmetry};

/// How a file lists its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Row, column and value of each.
    Coordinate,
    /// All values, column after column.
    Array,
}

/// The declarations of a header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    /// How entries are listed.
    pub format: Format,
    /// The type of the entries.
    pub field: Field,
    /// Whether the file says that no value is negative.
    pub unsigned: bool,
    /// The symmetry, which says what the file omits.
    pub symmetry: Symmetry,
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub cols: u64,
    /// Number of entry lines that follow; saturated for an array beyond 2^64 values.
    pub entries: u64,
    /// The number of the size line, counted from one; it is the last line of the header.
    pub size_line: u64,
    /// Bytes of the header.
    pub bytes: u64,
    /// A comment says that the matrix was generated.
    pub synthetic: bool,
    /// Counts of repairs and oddities.
    pub tally: Tally,
}

/// Why a header is refused.
#[derive(Debug)]
pub enum HeaderFault {
    /// The system's or the decompressor's error.
    Read(io::Error),
    /// The line (none for the file as a whole), and what is wrong with it.
    Line(Option<u64>, String),
}

impl HeaderFault {
    /// The error for a source; `read` converts a failed read.
    pub fn named(self, source: &str, read: impl FnOnce(io::Error) -> Error) -> Error {
        match self {
            Self::Read(error) => read(error),
            Self::Line(line, reason) => {
                Error::input(Place { source: source.into(), line, column: None }, reason)
            }
        }
    }
}

type HeaderResult<T> = std::result::Result<T, HeaderFault>;

const NO_TEXT: &str = "the first line is not text, so it is not a %%MatrixMarket banner; give .mtx, .mtx.gz, .tar.gz, .npz or .rlm";

impl Header {
    /// Reads the header and leaves `reader` at the first byte of the body.
    pub fn read(reader: &mut impl BufRead) -> HeaderResult<Self> {
        let mut lines = HeadLines { reader, lines: 0, bytes: 0 };
        let mut tally = Tally::default();
        let mut synthetic = false;
        let Some(first) = lines.next()? else {
            return Err(HeaderFault::Line(None, "the file is empty".into()));
        };
        let (format, field, unsigned, symmetry) = match banner(&first, &mut tally) {
            Ok(banner) => banner,
            Err(reason) => {
                let page = is_markup(&first)
                    || (is_empty(&first) && lines.next_text()?.is_some_and(|line| is_markup(&line)));
                let reason = match page {
                    true => LOOKS_LIKE_HTML.into(),
                    false if first.contains(&0) => NO_TEXT.into(),
                    false => reason,
                };
                return Err(HeaderFault::Line(Some(1), reason));
            }
        };
        loop {
            let Some(line) = lines.next()? else {
                let reason = "the file ends before its size line; fetch it again";
                return Err(HeaderFault::Line(Some(lines.lines), reason.into()));
            };
            if is_comment(&line) {
                synthetic |= line.starts_with(SYNTHETIC_COMMENT.as_bytes());
                continue;
            }
            let fault = |reason| HeaderFault::Line(Some(lines.lines), reason);
            let trimmed = trim(&line).map_err(fault)?;
            if trimmed.is_empty() {
                continue;
            }
            tally.indented_lines += u64::from(is_blank(line[0]));
            let (rows, cols, entries) = size(trimmed, format).map_err(fault)?;
            if symmetry != Symmetry::General && rows != cols {
                return Err(fault(format!("a symmetric matrix is square, but this one is {rows} by {cols}")));
            }
            let most = MOST_COLUMNS / field.parts();
            if cols > most as u64 {
                return Err(fault(format!("{cols} columns are beyond the supported {most}")));
            }
            let (size_line, bytes) = (lines.lines, lines.bytes);
            return Ok(Self {
                format,
                field,
                unsigned,
                symmetry,
                rows,
                cols,
                entries,
                size_line,
                bytes,
                synthetic,
                tally,
            });
        }
    }
}

/// A line without blanks and carriage return around it; a carriage return elsewhere is refused.
pub fn trim(line: &[u8]) -> std::result::Result<&[u8], String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if memchr(b'\r', line).is_some() {
        let reason = "a carriage return (CR) alone is not a line end; convert the file to LF line ends";
        return Err(reason.into());
    }
    let start = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(*byte)).map_or(start, |last| last + 1);
    Ok(&line[start..end])
}

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty())
}

/// A failed download often leaves an HTML page in the file.
pub const LOOKS_LIKE_HTML: &str = "this looks like HTML, not a matrix; fetch the matrix file itself";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn is_markup(line: &[u8]) -> bool {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii_start().starts_with(b"<")
}

fn is_empty(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn banner(line: &[u8], tally: &mut Tally) -> std::result::Result<(Format, Field, bool, Symmetry), String> {
    let unmarked = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    tally.byte_order_marks += u64::from(unmarked.len() != line.len());
    tally.indented_lines += u64::from(unmarked.first().is_some_and(|byte| is_blank(*byte)));
    let lower = unmarked.to_ascii_lowercase();
    let trimmed = trim(&lower)?;
    let words: Vec<&[u8]> = words(trimmed).collect();
    let Some(([first, object], rest)) = words.split_first_chunk() else {
        return Err(no_banner(trim(unmarked)?));
    };
    match *first {
        b"%%matrixmarket" => {}
        b"%matrixmarket" => tally.short_banners += 1,
        _ => return Err(no_banner(trim(unmarked)?)),
    }
    if *object != b"matrix" {
        return Err(format!("unsupported: {} objects; only 'matrix' is supported", shown(object)));
    }
    let [format, field, symmetry] = rest else {
        return Err("the banner needs the words matrix, format, field and symmetry, and no more".into());
    };
    let format = match *format {
        b"coordinate" => Format::Coordinate,
        b"array" => Format::Array,
        _ => return Err(format!("unsupported: format {}; coordinate and array are read", shown(format))),
    };
    let (field, unsigned) = match *field {
        b"real" | b"double" => (Field::Real, false),
        b"integer" => (Field::Integer, false),
        b"unsigned-integer" => (Field::Integer, true),
        b"pattern" => (Field::Pattern, false),
        b"complex" => (Field::Complex, false),
        _ => {
            let supported = "real, double, integer, unsigned-integer, pattern and complex are read";
            return Err(format!("unsupported: field {}; {supported}", shown(field)));
        }
    };
    let symmetry = match *symmetry {
        b"general" => Symmetry::General,
        b"symmetric" => Symmetry::Symmetric,
        b"skew-symmetric" => Symmetry::SkewSymmetric,
        b"hermitian" => Symmetry::Hermitian,
        _ => {
            let supported = "general, symmetric, skew-symmetric and hermitian are read";
            return Err(format!("unsupported: symmetry {}; {supported}", shown(symmetry)));
        }
    };
    Ok((format, field, unsigned, symmetry))
}

fn no_banner(line: &[u8]) -> String {
    format!(
        "the first line is {}, not a %%MatrixMarket banner; this is not a Matrix Market file",
        shown(line)
    )
}

fn size(line: &[u8], format: Format) -> std::result::Result<(u64, u64, u64), String> {
    let words: Vec<&[u8]> = words(line).collect();
    let number =
        |name: &str, word: &[u8]| count(word).map_err(|reason| format!("number of {name}: {reason}"));
    match (format, &words[..]) {
        (Format::Coordinate, [rows, cols, entries]) => {
            Ok((number("rows", rows)?, number("columns", cols)?, number("entries", entries)?))
        }
        (Format::Array, [rows, cols]) => {
            let (rows, cols) = (number("rows", rows)?, number("columns", cols)?);
            Ok((rows, cols, rows.saturating_mul(cols)))
        }
        (format, words) => {
            let needs = match format {
                Format::Coordinate => "rows, columns and entries",
                Format::Array => "rows and columns",
            };
            Err(format!("the size line needs {needs}, but has {} words: {}", words.len(), shown(line)))
        }
    }
}

/// The lines of a header; of a long line only the start is kept.
struct HeadLines<'a, R> {
    reader: &'a mut R,
    lines: u64,
    bytes: u64,
}

impl<R: BufRead> HeadLines<'_, R> {
    /// The next line that is not empty.
    fn next_text(&mut self) -> HeaderResult<Option<Vec<u8>>> {
        loop {
            match self.next()? {
                Some(line) if is_empty(&line) => {}
                line => return Ok(line),
            }
        }
    }

    fn next(&mut self) -> HeaderResult<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut started = false;
        loop {
            let available = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available.map_err(HeaderFault::Read)?,
            };
            if available.is_empty() {
                break;
            }
            if !started {
                started = true;
                self.lines += 1;
            }
            let end = memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            let kept = part.len().min(LONGEST_LINE.saturating_sub(line.len()));
            line.extend_from_slice(&part[..kept]);
            if kept < part.len() && !is_comment(&line) {
                let reason = format!("the line is longer than {LONGEST_LINE} bytes; the file is damaged");
                return Err(HeaderFault::Line(Some(self.lines), reason));
            }
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            self.bytes += used as u64;
            if end.is_some() {
                break;
            }
        }
        Ok(started.then_some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &[u8]) -> Header {
        Header::read(&mut &text[..]).unwrap()
    }

    fn refusal(text: &[u8]) -> (Option<u64>, String) {
        match Header::read(&mut &text[..]).unwrap_err() {
            HeaderFault::Line(line, reason) => (line, reason),
            HeaderFault::Read(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_body_starts_after_the_size_line() {
        let text = b"%%MatrixMarket matrix coordinate integer symmetric\n% note\n\n 3 3 2\n1 1 5\n";
        let read = header(text);
        assert_eq!((read.rows, read.cols, read.entries, read.size_line), (3, 3, 2, 4));
        assert_eq!((read.field, read.symmetry), (Field::Integer, Symmetry::Symmetric));
        assert_eq!(&text[read.bytes as usize..], b"1 1 5\n");
        assert_eq!(read.tally.indented_lines, 1);
    }

    #[test]
    fn every_field_and_symmetry_is_known() {
        for (word, field) in [
            ("real", Field::Real),
            ("double", Field::Real),
            ("INTEGER", Field::Integer),
            ("unsigned-integer", Field::Integer),
            ("pattern", Field::Pattern),
            ("complex", Field::Complex),
        ] {
            let text = format!("%%MatrixMarket matrix coordinate {word} General\r\n1 1 0\r\n");
            assert_eq!(header(text.as_bytes()).field, field);
        }
        assert!(header(b"%%matrixmarket MATRIX coordinate unsigned-integer hermitian\n1 1 0").unsigned);
    }

    #[test]
    fn refusals_name_their_line() {
        assert_eq!(refusal(b"").0, None);
        assert_eq!(refusal(b"%%MatrixMarket matrix coordinate real general\n%\n").0, Some(2));
        let (line, reason) = refusal(b"%%MatrixMarket matrix coordinate real symmetric\n%\n2 3 0\n");
        assert_eq!((line, reason.contains("square")), (Some(3), true));
        assert_eq!(refusal(&[b'1'; 1 << 20]).0, Some(1));
    }
}
