//! How a table of text is written: names in its first line, semicolons between numbers, decimal commas, numbers in quotation marks.
//!
//! Spreadsheets write such tables. A line is one of names if no field of it is a number, except in quotation marks, and the next line has as
//! many fields; with separators between the fields, another number of fields is an error, and so is a number without quotation marks.
//!
//! In a table with semicolons, or with tabs, a comma is a decimal mark; its numbers are rewritten with commas between them and decimal points,
//! byte for byte, so that places in errors stay right. Quotation marks around a number become blanks. In a table with commas between its
//! numbers, a comma within quotation marks may be a decimal mark or one of thousands, so such a field is refused.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};
use rayon::prelude::*;

use super::matrix_market::header::words;
use super::matrix_market::lines::is_blank;
use crate::error::Counted;

/// Most bytes of a file that are searched for the line of names and the line after it.
pub(super) const MOST_NAMES_BYTES: usize = 1 << 20;

/// Bytes that are rewritten at a time.
const REWRITTEN_BYTES: usize = 1 << 20;

/// The names and the numbers of a table.
#[derive(Debug)]
pub(super) struct Table<'t> {
    /// The names of the columns; none where the first line has numbers.
    pub names: Vec<String>,
    /// Fields of the first line of numbers, where there are names.
    pub fields: usize,
    /// Lines before the numbers.
    pub lines_before: u64,
    /// The numbers, with blanks or commas between them and decimal points.
    pub numbers: Cow<'t, [u8]>,
    /// The first line, where it has names and numbers.
    pub mixed: Option<MixedLine>,
    /// Whether the commas of `numbers` are semicolons in the file.
    pub has_semicolons: bool,
    /// Sentences about the form.
    pub notes: Vec<String>,
}

/// A line with names and numbers, which is neither a line of names nor a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MixedLine {
    /// The number of the line, counted from one.
    pub line: u64,
    /// The first name.
    pub name: String,
    /// The first number.
    pub number: String,
}

/// What the first line with content has.
enum FirstLine {
    Names(Vec<String>),
    Mixed(MixedLine),
    Other,
}

impl<'t> Table<'t> {
    /// The table that `text` is.
    pub fn of(text: &'t [u8]) -> Self {
        let (first_line, lines_before, numbers) = without_names(text);
        let (names, mixed) = match first_line {
            FirstLine::Names(names) => (names, None),
            FirstLine::Mixed(mixed) => (Vec::new(), Some(mixed)),
            FirstLine::Other => (Vec::new(), None),
        };
        let first = lines(numbers).find(|line| has_numbers(line)).unwrap_or_default();
        let fields = if names.is_empty() { 0 } else { fields(first).len() };
        let has_semicolons = memchr(b';', first).is_some();
        let has_decimal_commas =
            if has_semicolons { memchr(b',', numbers).is_some() } else { has_tabs_and_decimal_commas(first) };
        let mut notes = Vec::new();
        if !names.is_empty() {
            notes.push(match &names[..] {
                [name] => format!("the first line is the name of the column, {name}"),
                names => format!("the first line has the names of {} columns", names.len()),
            });
        }
        if has_decimal_commas {
            notes.push(match memchr_iter(b'.', numbers).count() {
                0 => "commas are decimal marks".into(),
                points => format!(
                    "commas are decimal marks, and so are {}: no mark separates thousands",
                    Counted(points as u64, "point")
                ),
            });
        }
        let has_quotes = memchr(b'"', numbers).is_some();
        let is_rewritten = has_semicolons || has_decimal_commas;
        let mut numbers = Cow::Borrowed(numbers);
        if has_quotes {
            let unquote = |line: &mut [u8]| unquote(line, is_rewritten);
            numbers.to_mut().par_split_mut(|byte| *byte == b'\n').for_each(unquote);
        }
        if is_rewritten {
            rewrite(numbers.to_mut());
        }
        Self { names, fields, lines_before, numbers, mixed, has_semicolons, notes }
    }
}

/// Whether a text that begins with `start` begins with names of columns.
pub(super) fn begins_with_names(start: &[u8]) -> bool {
    !matches!(without_names(start).0, FirstLine::Other)
}

/// What the first line with content has; the number of lines up to it, and the text behind them, if it has names.
fn without_names(text: &[u8]) -> (FirstLine, u64, &[u8]) {
    let nothing = (FirstLine::Other, 0, text);
    let mut contents = lines(text).enumerate().filter(|(_, line)| has_numbers(line));
    let (Some((index, first)), Some((_, second))) = (contents.next(), contents.next()) else {
        return nothing;
    };
    // Most tables begin with a number: a long line of them is not divided into fields.
    let head = first.trim_ascii_start().split(|byte| b" \t,;\r".contains(byte)).next().unwrap_or_default();
    if is_number(&String::from_utf8_lossy(head)) {
        return nothing;
    }
    let (words, numbers) = (quoted_fields(first), fields(second));
    let names: Vec<String> = words.iter().map(|word| unquoted(word)).collect();
    let name = names.iter().find(|name| !name.is_empty() && !is_number(name));
    let follows = numbers.iter().any(|field| is_number(field))
        && (names.len() == numbers.len() || is_separated(first) || is_separated(second))
        && !first.trim_ascii_start().starts_with(b"<");
    let (Some(name), true) = (name, follows) else { return nothing };
    let line = index as u64 + 1;
    match words.iter().find(|word| is_number(word)) {
        None => {
            // Both are parts of the text.
            let end = first.as_ptr() as usize - text.as_ptr() as usize + first.len();
            (FirstLine::Names(names), line, text.get(end + 1..).unwrap_or_default())
        }
        Some(number) if is_separated(first) => {
            (FirstLine::Mixed(MixedLine { line, name: name.clone(), number: number.clone() }), 0, text)
        }
        Some(_) => nothing,
    }
}

/// Whether a line has separators that only tables have.
fn is_separated(line: &[u8]) -> bool {
    line.iter().any(|byte| b";\t,".contains(byte))
}

/// The fields of a line without quotation marks: between semicolons, else tabs, else commas, else blanks.
fn fields(line: &[u8]) -> Vec<String> {
    quoted_fields(line).iter().map(|field| unquoted(field)).collect()
}

fn unquoted(field: &str) -> String {
    field.trim_matches('"').to_owned()
}

/// The fields of a line with their quotation marks.
fn quoted_fields(line: &[u8]) -> Vec<String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let shown = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
    let Some(separator) = [b';', b'\t', b','].into_iter().find(|&byte| memchr(byte, line).is_some()) else {
        return words(line).map(shown).collect();
    };
    let mut is_quoted = false;
    let ends = |byte: &u8| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    };
    line.split(ends).map(shown).collect()
}

/// Whether a field is a number, with a decimal point or a decimal comma.
fn is_number(field: &str) -> bool {
    field.replace(',', ".").parse::<f64>().is_ok()
}

/// Whether a line has tabs between its numbers, and commas that can only be decimal marks.
fn has_tabs_and_decimal_commas(line: &[u8]) -> bool {
    memchr(b'\t', line).is_some()
        && memchr(b',', line).is_some()
        && fields(line).iter().all(|field| field.is_empty() || is_number(field))
}

/// Puts blanks for the quotation marks around each number of a line.
fn unquote(line: &mut [u8], has_decimal_commas: bool) {
    let is_of_number = |byte: &u8| {
        byte.is_ascii_digit() || b"+-.eEdD ".contains(byte) || (has_decimal_commas && *byte == b',')
    };
    let mut rest = line;
    while let Some(begin) = memchr(b'"', rest) {
        let Some(length) = memchr(b'"', &rest[begin + 1..]) else { return };
        let (field, after) = rest[begin..].split_at_mut(length + 2);
        if let [first, inner @ .., last] = field
            && inner.iter().all(is_of_number)
        {
            (*first, *last) = (b' ', b' ');
        }
        rest = after;
    }
}

/// Puts commas for semicolons and points for commas.
fn rewrite(numbers: &mut [u8]) {
    numbers.par_chunks_mut(REWRITTEN_BYTES).flatten_iter().for_each(|byte| match *byte {
        b';' => *byte = b',',
        b',' => *byte = b'.',
        _ => {}
    });
}

/// The lines of a text, without their line feeds.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n')
}

/// Whether a line has something else than blanks and a comment.
pub(super) fn has_numbers(line: &[u8]) -> bool {
    !matches!(line.iter().find(|byte| !is_blank(**byte)), None | Some(b'#' | b'%' | b'\r'))
}
