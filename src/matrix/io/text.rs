//! Reads a dense matrix from text: a row per line, numbers separated by blanks, commas or semicolons, perhaps behind a line of names.
//!
//! The first line with numbers decides the separator and the number of columns; all other lines must have the same. Blanks around a comma
//! are allowed. Blank lines, and lines that start with `#` or `%`, are skipped. Numbers are spelled as in Matrix Market files. All threads
//! of the current pool parse, each a span of whole lines. An error names the first line that is refused.
//!
//! The text is mapped and read twice: lines are counted first, so that numbers are parsed into their final place. Long lines are assumed to
//! be nearly as long as the first one, and counted by their ends; where that is wrong, all bytes are read again. A fast path reads the
//! usual form of a line, most of its numbers with vector instructions (`decimals`); any other line goes to the careful path, which
//! alone decides what is refused and why.

use std::ops::Range;
use std::path::Path;

use memchr::{memchr, memchr_iter};
use rayon::prelude::*;

use super::decimals::plain_decimals;
use super::mapping::Mapping;
use super::matrix_market::entries::{careful_value, check_text, fast_real};
use super::matrix_market::header::{LOOKS_LIKE_HTML, trim, words};
use super::matrix_market::lines::{LONGEST_LINE, is_blank};
use super::matrix_market::number::shown;
use super::matrix_market::tally::Tally;
use super::refusal::{Refusal, Refused, Source};
use super::table_text::{MOST_NAMES_BYTES, MixedLine, Table, begins_with_names, has_numbers, lines};
use super::{Input, ReadOptions, counted, read_start};
use crate::error::{Counted, Error, Place, Reason, Result};
use crate::matrix::info::Field;
use crate::matrix::{MultiVector, Scalar};

/// Numbers that are read at a time.
const PLAIN_NUMBERS: usize = 1024;

/// The least and the most bytes of text that a thread parses at a time. One thread finds the ends of all spans.
const SPAN_BYTES: usize = 256 << 10;
const MOST_SPAN_BYTES: usize = 1 << 20;

/// Spans per thread, so that all threads end at about the same time.
const SPANS_PER_THREAD: usize = 16;

/// Up to so many numbers of the first line are read by the fast path, which needs space for them, and others one by one.
const FAST_COLUMNS: usize = 1 << 20;

/// Lines of at least this length are counted without reading most of their bytes, since counting takes a quarter of the time otherwise.
const LONG_LINE_BYTES: usize = 4 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A matrix that was read from text.
#[derive(Debug)]
pub struct TextMatrix<T: Scalar> {
    /// The values.
    pub values: MultiVector<T>,
    /// The names of the columns, where the first line has them.
    pub names: Vec<String>,
    /// Sentences about repairs and oddities.
    pub notes: Vec<String>,
}

/// What stands between two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Blanks,
    Comma,
    /// A semicolon of the file; a comma in the text that is parsed.
    Semicolon,
}

impl Separator {
    fn is_mark(self) -> bool {
        self != Self::Blanks
    }

    fn name(self) -> &'static str {
        match self {
            Self::Blanks => "blank",
            Self::Comma => "comma",
            Self::Semicolon => "semicolon",
        }
    }
}

/// The form of all lines with numbers, as the first of them has it.
#[derive(Debug, Clone, Copy)]
struct Form {
    separator: Separator,
    columns: usize,
    /// Lines before the text that is parsed.
    lines_before: u64,
    /// Number of the first line with numbers, counted from one, and its bytes.
    line: u64,
    line_bytes: usize,
    finite: bool,
}

/// Reads a matrix from a regular file.
pub fn read_text<T: Scalar>(path: &Path, options: &ReadOptions) -> Result<TextMatrix<T>> {
    read_text_input(&Input::open(path)?, options)
}

/// Reads what [`read_text`] reads, from an open file.
pub fn read_text_input<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<TextMatrix<T>> {
    let mapping = Mapping::of(input)?;
    let (source, text) = (input.path.display().to_string(), mapping.bytes());
    let even_bytes = text.len() / (SPANS_PER_THREAD * rayon::current_num_threads());
    let result = read_bytes(&source, text, options, even_bytes.clamp(SPAN_BYTES, MOST_SPAN_BYTES));
    if mapping.is_intact() { result } else { Err(mapping.changed()) }
}

/// Whether a file with these first bytes may be a table: it begins with text that is neither a banner nor markup, or has only blanks.
pub(super) fn may_be_table(input: &Input, first_bytes: &[u8]) -> Result<bool> {
    let start =
        |bytes: &[u8]| bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_start().to_vec();
    let begins_with_text =
        |bytes: &[u8]| bytes.first().is_some_and(|byte| byte.is_ascii_graphic() && !b"%<".contains(byte));
    if begins_with_text(&start(first_bytes)) {
        return Ok(true);
    }
    let more = read_start(input, MOST_NAMES_BYTES)?;
    let has_only_blanks = !more.is_empty() && more.len() < MOST_NAMES_BYTES && start(&more).is_empty();
    Ok(has_only_blanks || begins_with_text(&start(&more)) || begins_with_names(&start(&more)))
}

fn read_bytes<T: Scalar>(
    source: &str,
    text: &[u8],
    options: &ReadOptions,
    span_bytes: usize,
) -> Result<TextMatrix<T>> {
    let has_mark = text.starts_with(BYTE_ORDER_MARK);
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let table = Table::of(text);
    let source = Source { file: source, text, names: &table.names };
    if let Some(MixedLine { line, name, number }) = &table.mixed {
        let reason = format!(
            "this line has a name, {}, and a number, {}: put quotation marks around names that are numbers, or remove the line",
            shown(name.as_bytes()),
            shown(number.as_bytes())
        );
        return Err(Error::input(Place::line(source.file, *line), reason));
    }
    let text = &*table.numbers;
    if table.names.len() != table.fields {
        let (names, fields) =
            (Counted(table.names.len() as u64, "name"), Counted(table.fields as u64, "field"));
        let reason = format!(
            "this line has {names}, the first line of numbers {fields}: every column needs one name, and a line no separator at its end"
        );
        return Err(Error::input(Place::line(source.file, table.lines_before), reason));
    }
    let form = first_form::<T>(source.file, &table, options.finite)?
        .map_err(|refusal| source.refused(table.lines_before, refusal))?;
    let spans = spans(text, span_bytes);
    let rows = |skipped: usize| read_rows(source, text, &spans, form, options, skipped);
    let skipped = if form.line_bytes < LONG_LINE_BYTES { 0 } else { form.line_bytes / 4 * 3 };
    let read = match rows(skipped) {
        // Some lines are shorter, or the text is damaged.
        Err(_) if skipped > 0 => rows(0),
        read => read,
    };
    let (values, mut tally) = read?;
    tally.byte_order_marks = has_mark.into();
    let notes = table.notes.into_iter().chain(tally.notes()).collect();
    Ok(TextMatrix { values, names: table.names, notes })
}

/// Reads all rows. The first `skipped` bytes of each line are not searched for its end where lines are counted: an error may then be that
/// of a line that is shorter.
fn read_rows<T: Scalar>(
    source: Source<'_>,
    text: &[u8],
    spans: &[&[u8]],
    form: Form,
    options: &ReadOptions,
    skipped: usize,
) -> Result<(MultiVector<T>, Tally)> {
    let counts: Vec<Lines> = spans.par_iter().map(|span| Lines::of(span, skipped)).collect();
    let rows: usize = counts.iter().map(|lines| lines.with_numbers).sum();
    // Every number has at least a digit and a separator.
    if rows.checked_mul(form.columns).is_none_or(|numbers| numbers > text.len() / 2 + 1) {
        return Err(source.refused(form.lines_before, first_ragged_line(text, form)));
    }
    let needed_bytes = (rows * form.columns * size_of::<T>()) as u64;
    if needed_bytes > options.memory_limit_bytes {
        return Err(Error::DoesNotFit {
            what: format!("{} with {rows} × {} numbers", source.file, form.columns),
            needed_bytes,
            limit_bytes: options.memory_limit_bytes,
            advice: "use a machine with more memory or raise the limit".into(),
        });
    }
    let mut values = MultiVector::<T>::zeros(rows, form.columns)?;
    let mut parts = Vec::with_capacity(spans.len());
    let (mut rest, mut line) = (values.data_mut(), 0);
    for (span, lines) in spans.iter().zip(&counts) {
        let (own, after) = rest.split_at_mut(lines.with_numbers * form.columns);
        parts.push((*span, own, line));
        (rest, line) = (after, line + lines.all);
    }
    let parsed: Vec<std::result::Result<Tally, (u64, Refusal)>> = parts
        .into_par_iter()
        .map(|(span, numbers, before)| {
            let tally = parse_span(span, form, numbers).map_err(|(line, why)| (before + line, why))?;
            if let Some(progress) = options.progress {
                progress.advance(span.len() as u64).map_err(|error| (before, error.to_string().into()))?;
            }
            Ok(tally)
        })
        .collect();
    let mut tally = Tally::default();
    for part in parsed {
        tally += part.map_err(|refusal| source.refused(form.lines_before, refusal))?;
    }
    Ok((values, tally))
}

/// Spans of whole lines of about `bytes` bytes.
fn spans(text: &[u8], bytes: usize) -> Vec<&[u8]> {
    let mut spans = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let least = bytes.clamp(1, rest.len()) - 1;
        let end = memchr(b'\n', &rest[least..]).map_or(rest.len(), |found| least + found + 1);
        let (span, after) = rest.split_at(end);
        spans.push(span);
        rest = after;
    }
    spans
}

/// Counts of lines.
struct Lines {
    all: u64,
    with_numbers: usize,
}

impl Lines {
    /// Those of a span. A line is taken to be longer than `skipped` bytes, except at the end of the span.
    fn of(span: &[u8], skipped: usize) -> Self {
        let mut counts = Self { all: 0, with_numbers: 0 };
        let mut begin = 0;
        while begin < span.len() {
            let from = if skipped < span.len() - begin { begin + skipped } else { begin };
            let end = memchr(b'\n', &span[from..]).map_or(span.len(), |found| from + found);
            counts.all += 1;
            counts.with_numbers += usize::from(has_numbers(&span[begin..end]));
            begin = end + 1;
        }
        counts
    }
}

/// The form of the first line with numbers.
fn first_form<T: Scalar>(
    source: &str,
    table: &Table<'_>,
    finite: bool,
) -> Result<std::result::Result<Form, Refused>> {
    let nothing =
        || Error::input(Place { source: source.into(), line: None, column: None }, "the file has no numbers");
    let first = lines(&table.numbers).enumerate().find(|(_, line)| has_numbers(line));
    let (index, line) = first.ok_or_else(nothing)?;
    let number = index as u64 + 1;
    if line.trim_ascii_start().starts_with(b"<") {
        return Err(Error::input(Place::line(source, number), LOOKS_LIKE_HTML));
    }
    let separator = match memchr(b',', line) {
        Some(_) if table.has_semicolons => Separator::Semicolon,
        Some(_) => Separator::Comma,
        None => Separator::Blanks,
    };
    let lines_before = table.lines_before;
    let form = Form {
        separator,
        columns: 0,
        lines_before,
        line: lines_before + number,
        line_bytes: line.len(),
        finite,
    };
    let count = count_numbers(line, separator);
    let mut row = vec![T::ZERO; if count <= FAST_COLUMNS { count } else { 0 }];
    if !row.is_empty() && fast_line(line, 0..line.len(), separator, &mut row) {
        return Ok(Ok(Form { columns: count, ..form }));
    }
    let mut columns = 0;
    let parsed = careful_numbers::<T>(line, form, &mut Tally::default(), |_, _| columns += 1);
    Ok(parsed.map(|()| Form { columns, ..form }).map_err(|why| (number, why)))
}

/// The first line whose number of words is another than that of the first line.
fn first_ragged_line(text: &[u8], form: Form) -> Refused {
    let ragged = lines(text).enumerate().filter(|(_, line)| has_numbers(line)).find_map(|(index, line)| {
        let count = count_numbers(line, form.separator);
        (count != form.columns).then(|| (index as u64 + 1, other_count(count, form)))
    });
    ragged.unwrap_or_else(|| (form.line - form.lines_before, changed()))
}

/// The number of words between separators.
fn count_numbers(line: &[u8], separator: Separator) -> usize {
    match separator {
        Separator::Blanks => words(line.strip_suffix(b"\r").unwrap_or(line)).count(),
        Separator::Comma | Separator::Semicolon => memchr_iter(b',', line).count() + 1,
    }
}

fn other_count(count: usize, form: Form) -> Refusal {
    let Form { columns, line, .. } = form;
    let found = counted(count as u64, "number", "numbers");
    format!("the line has {found} but line {line} has {columns}; all rows of a matrix are equally long")
        .into()
}

/// The numbers of a span differ from those that were counted.
fn changed() -> Refusal {
    "the file changed while it was read; read it again when it is complete".to_string().into()
}

/// Parses all lines of a span. `numbers` has room for exactly the lines that were counted.
fn parse_span<T: Scalar>(span: &[u8], form: Form, numbers: &mut [T]) -> std::result::Result<Tally, Refused> {
    let mut tally = Tally::default();
    let mut rows = numbers.chunks_exact_mut(form.columns);
    let (mut at, mut line_number) = (0, 0);
    while at < span.len() {
        line_number += 1;
        let end = memchr(b'\n', &span[at..]).map_or(span.len(), |length| at + length);
        let begin = at;
        let line = &span[begin..end];
        at = end + 1;
        if !has_numbers(line) {
            check_skipped(line).map_err(|why| (line_number, why))?;
            continue;
        }
        let row = rows.next().ok_or_else(|| (line_number, changed()))?;
        if !fast_line(span, begin..end, form.separator, row) {
            careful_line(line, form, &mut tally, row).map_err(|why| (line_number, why))?;
        }
    }
    match rows.next() {
        None => Ok(tally),
        Some(_) => Err((line_number, changed())),
    }
}

fn is_comment(line: &[u8]) -> bool {
    matches!(line.iter().find(|byte| !is_blank(**byte)), Some(b'#' | b'%'))
}

/// Refuses a carriage return within a line of blanks.
fn check_skipped(line: &[u8]) -> std::result::Result<(), Refusal> {
    if is_comment(line) { Ok(()) } else { trim(line).map(drop).map_err(Refusal::from) }
}

/// Parses the line at `range` of a text; `false` if it is not spelled plainly, or if it has another number of values.
#[inline]
fn fast_line<T: Scalar>(text: &[u8], range: Range<usize>, separator: Separator, row: &mut [T]) -> bool {
    let line = &text[..range.end];
    let skip_blanks = |mut at: usize| {
        while line.get(at).is_some_and(|byte| is_blank(*byte)) {
            at += 1;
        }
        at
    };
    let mut at = skip_blanks(range.start);
    let last = row.len() - 1;
    let mut column = 0;
    let mut plain = [0.0; PLAIN_NUMBERS];
    loop {
        // The numbers before the last one; a line feed is no separator, so they are those of this line.
        let wanted = (last - column).min(PLAIN_NUMBERS);
        let (count, next) = plain_decimals(text, at, separator.is_mark(), &mut plain[..wanted]);
        let mut is_lost = false;
        for (number, &value) in row[column..].iter_mut().zip(&plain[..count]) {
            *number = T::from_f64(value);
            is_lost |= (*number == T::ZERO) & (value != 0.0) | !number.to_f64().is_finite();
        }
        if is_lost {
            return false;
        }
        (column, at) = (column + count, next);
        if count == PLAIN_NUMBERS {
            continue;
        }
        let Some((value, end)) = fast_real::<T>(line, at) else { return false };
        row[column] = value;
        at = skip_blanks(end);
        if column == last {
            return at == line.len() || line[at..] == *b"\r";
        }
        match separator {
            Separator::Blanks if at == end => return false,
            Separator::Blanks => {}
            Separator::Comma | Separator::Semicolon if line.get(at) != Some(&b',') => return false,
            Separator::Comma | Separator::Semicolon => at = skip_blanks(at + 1),
        }
        column += 1;
    }
}

fn careful_line<T: Scalar>(
    line: &[u8],
    form: Form,
    tally: &mut Tally,
    row: &mut [T],
) -> std::result::Result<(), Refusal> {
    let mut count = 0;
    careful_numbers(line, form, tally, |column, value| {
        count += 1;
        if let Some(number) = row.get_mut(column) {
            *number = value;
        }
    })?;
    if count == row.len() { Ok(()) } else { Err(other_count(count, form)) }
}

/// Calls `take` with the column and value of each number of a line.
fn careful_numbers<T: Scalar>(
    line: &[u8],
    form: Form,
    tally: &mut Tally,
    mut take: impl FnMut(usize, T),
) -> std::result::Result<(), Refusal> {
    check_text(line)?;
    let trimmed = trim(line)?;
    // Words are parts of the line.
    let place = |word: &[u8]| Some(word.as_ptr() as usize - line.as_ptr() as usize);
    let mut number = |column: usize, word: &[u8]| {
        let at = place(word);
        let refuse = |reason: Reason| Refusal { reason, at, column: None };
        if word.len() > LONGEST_LINE {
            let reason = "a number this long overflows, or separators are missing";
            return Err(refuse(format!("the number is longer than {LONGEST_LINE} bytes; {reason}").into()));
        }
        let value = careful_value(Field::Real, false, form.finite, word, tally)
            .map_err(|reason| Refusal { column: Some(column), ..refuse(reason) })?;
        take(column, value);
        Ok(())
    };
    match form.separator {
        Separator::Blanks => words(trimmed).enumerate().try_for_each(|(column, word)| number(column, word)),
        Separator::Comma | Separator::Semicolon => {
            let mark = form.separator.name();
            trimmed.split(|byte| *byte == b',').enumerate().try_for_each(|(column, field)| {
                let word = trim(field)?;
                let mut found = words(word);
                match (found.next(), found.next()) {
                    (None, _) => Err(Refusal {
                        reason: format!("a number is missing: no digit is before or after a {mark}").into(),
                        at: place(field),
                        column: Some(column),
                    }),
                    (Some(_), Some(second)) => Err(Refusal {
                        reason: format!(
                            "a {mark} is missing before {}; line {} separates numbers by {mark}s",
                            shown(second),
                            form.line
                        )
                        .into(),
                        at: place(second),
                        column: None,
                    }),
                    (Some(word), None) => number(column, word),
                }
            })
        }
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
