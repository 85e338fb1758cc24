//! Parses the entry lines of a coordinate file.
//!
//! A fast path reads the usual form of a line: two indices and a plain number. Any other line goes to the careful path,
//! which alone decides what is refused and why. The fast path may accept less than the careful path, never more.

use memchr::memchr;

use super::header::{Header, trim, words};
use super::lines::{LONGEST_LINE, is_blank};
use super::number::{self, Value, shown};
use super::pieces::{Piece, Sorter};
use super::tally::Tally;
use crate::error::{Advice, Error, Reason};
use crate::matrix::info::{Field, Symmetry};
use crate::matrix::scalar::Scalar;

/// Why a part of a file is refused.
#[derive(Debug)]
pub enum Fault {
    /// What is wrong on a line, counted from one within the part.
    Line(u64, Reason),
    /// An error that belongs to no line.
    Whole(Error),
}

/// The parsed content of a part of a file.
pub struct Part<T> {
    /// Entries by bucket.
    pub pieces: Vec<Vec<Piece<T>>>,
    /// Entry lines.
    pub entries: u64,
    /// Lines of any kind.
    pub lines: u64,
    /// Counts of repairs and oddities.
    pub tally: Tally,
}

/// Reads consecutive blocks of whole lines.
pub struct EntryParser<'a, T> {
    header: &'a Header,
    finite: bool,
    sorter: Sorter<'a, T>,
    entries: u64,
    lines: u64,
    tally: Tally,
}

impl<'a, T: Scalar> EntryParser<'a, T> {
    /// A parser of a file with this head; `finite` refuses NaN and infinities.
    pub fn new(header: &'a Header, finite: bool, sorter: Sorter<'a, T>) -> Self {
        Self { header, finite, sorter, entries: 0, lines: 0, tally: Tally::default() }
    }

    /// Parses `text`: whole lines, each with its line feed.
    pub fn parse(&mut self, text: &[u8]) -> Result<(), Fault> {
        match self.header.field {
            Field::Real => self.parse_with(text, one_part(fast_real)),
            Field::Integer if self.header.unsigned => self.parse_with(text, one_part(fast_unsigned)),
            Field::Integer => self.parse_with(text, one_part(fast_integer)),
            Field::Pattern => self.parse_with(text, |_, at| Some(([T::ONE], at))),
            Field::Complex => self.parse_with(text, fast_complex),
        }
    }

    /// The content of all blocks.
    pub fn finish(self) -> Result<Part<T>, Fault> {
        let Self { sorter, entries, lines, tally, .. } = self;
        Ok(Part { pieces: sorter.finish().map_err(Fault::Whole)?, entries, lines, tally })
    }

    /// Parses lines with values of `P` real numbers, each an entry of a column of its own.
    fn parse_with<const P: usize>(
        &mut self,
        text: &[u8],
        fast_value: impl Fn(&[u8], usize) -> Option<([T; P], usize)>,
    ) -> Result<(), Fault> {
        let pattern = self.header.field == Field::Pattern;
        let mut at = 0;
        while at < text.len() {
            self.lines += 1;
            if let Some((row, column, value, next)) = fast_entry(text, at, pattern, &fast_value)
                && row.wrapping_sub(1) < self.header.rows
                && column.wrapping_sub(1) < self.header.cols
            {
                self.tally.indented_lines += u64::from(is_blank(text[at]));
                self.take(row - 1, column - 1, value)?;
                at = next;
            } else {
                let end = memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
                self.careful_line::<P>(&text[at..end])?;
                at = end + 1;
            }
        }
        Ok(())
    }

    /// Adds an entry, and its mirror image where the file omits it.
    #[inline(always)]
    fn take<const P: usize>(&mut self, row: u64, column: u64, value: [T; P]) -> Result<(), Fault> {
        self.entries += 1;
        self.push(row, column, value, false)?;
        if self.header.symmetry != Symmetry::General {
            self.mirror(row, column, value)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn push<const P: usize>(
        &mut self,
        row: u64,
        column: u64,
        value: [T; P],
        mirrored: bool,
    ) -> Result<(), Fault> {
        let first = column as u32 * P as u32;
        for (column, part) in (first..).zip(value) {
            self.sorter.push(row, column, part, mirrored).map_err(Fault::Whole)?;
        }
        Ok(())
    }

    #[inline]
    fn mirror<const P: usize>(&mut self, row: u64, column: u64, value: [T; P]) -> Result<(), Fault> {
        let symmetry = self.header.symmetry;
        let is_zero = |parts: &[T]| parts.iter().all(|&part| part == T::ZERO);
        if row == column {
            return match symmetry {
                Symmetry::SkewSymmetric if !is_zero(&value) => {
                    Err(self.fault("the diagonal of a skew-symmetric matrix is zero, but this entry is not"))
                }
                Symmetry::Hermitian if !is_zero(&value[1..]) => {
                    Err(self.fault("the diagonal of a hermitian matrix is real, but this entry is not"))
                }
                _ => Ok(()),
            };
        }
        self.tally.lower += u64::from(row > column);
        self.tally.upper += u64::from(row < column);
        let negative = |part: T| T::from_f64(-part.to_f64());
        let mut mirrored = value;
        match symmetry {
            Symmetry::SkewSymmetric => mirrored = mirrored.map(negative),
            // The conjugate: of a real value, which has one part, the value itself.
            Symmetry::Hermitian => mirrored[1..].iter_mut().for_each(|part| *part = negative(*part)),
            Symmetry::General | Symmetry::Symmetric => {}
        }
        self.push(column, row, mirrored, true)
    }

    #[cold]
    fn fault(&self, reason: impl Into<Reason>) -> Fault {
        Fault::Line(self.lines, reason.into())
    }

    /// A line, without its line feed, word by word.
    fn careful_line<const P: usize>(&mut self, line: &[u8]) -> Result<(), Fault> {
        let start = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
        if line.get(start) == Some(&b'%') {
            self.tally.body_comments += 1;
            return Ok(());
        }
        check_text(line).map_err(|reason| self.fault(reason))?;
        let trimmed = trim(line).map_err(|reason| self.fault(reason))?;
        if trimmed.is_empty() {
            return Ok(());
        }
        if trimmed.len() > LONGEST_LINE {
            let reason = "a number this long overflows, or line ends are missing";
            return Err(self.fault(format!("the line is longer than {LONGEST_LINE} bytes; {reason}")));
        }
        self.tally.indented_lines += u64::from(start > 0);
        let (row, column, value) = self.careful_entry::<P>(trimmed).map_err(|reason| self.fault(reason))?;
        self.take(row - 1, column - 1, value)
    }

    fn careful_entry<const P: usize>(&mut self, line: &[u8]) -> Result<(u64, u64, [T; P]), Reason> {
        let mut words = words(line);
        let (Some(row), Some(column)) = (words.next(), words.next()) else {
            return Err(format!("{} is no entry: row and column are needed", shown(line)).into());
        };
        let row = index("row", row, self.header.rows)?;
        let column = index("column", column, self.header.cols)?;
        let mut value = [T::ONE; P];
        let (field, unsigned, finite) = (self.header.field, self.header.unsigned, self.finite);
        for (index, part) in value.iter_mut().enumerate() {
            match (field, words.next()) {
                (Field::Pattern, None) => {}
                (Field::Pattern, Some(extra)) => {
                    let extra = shown(extra);
                    let reason = format!("entries of a pattern matrix have no value, but {extra} follows");
                    return Err(reason.into());
                }
                (_, None) => {
                    let missing = if index == 0 { "value" } else { "imaginary part" };
                    return Err(format!("{} has no {missing}; the line is cut off", shown(line)).into());
                }
                (_, Some(word)) => {
                    *part = careful_value(field, unsigned, finite, word, &mut self.tally)?;
                }
            }
        }
        match words.next() {
            None => Ok((row, column, value)),
            Some(extra) => Err(format!("{} follows the entry; a line holds one entry", shown(extra)).into()),
        }
    }
}

/// Refuses bytes that occur in no number; `line` must not be a comment.
pub fn check_text(line: &[u8]) -> Result<(), String> {
    let strange = |byte: u8| !(byte.is_ascii_graphic() || is_blank(byte) || byte == b'\r');
    match line.iter().find(|byte| strange(**byte)) {
        Some(0) => Err("there is a NUL byte among the entries; the file is damaged".into()),
        Some(byte) => Err(format!("byte 0x{byte:02x} is not text; the file is damaged")),
        None => Ok(()),
    }
}

/// The value of a word; `tally` counts what is unusual about it.
pub fn careful_value<T: Scalar>(
    field: Field,
    unsigned: bool,
    finite: bool,
    word: &[u8],
    tally: &mut Tally,
) -> Result<T, Reason> {
    let Value { value, inexact, underflowed } = match field {
        Field::Integer => number::integer(word, unsigned)?,
        _ => number::real(word)?,
    };
    let rounded = T::from_f64(value);
    if !value.is_finite() {
        if finite {
            let reason = format!("value {} is not finite, and only finite values are allowed", shown(word));
            return Err(Reason::from(reason).advise([Advice::AnyValues]));
        }
        tally.non_finite += 1;
    } else if !rounded.to_f64().is_finite() {
        let reason = format!("value {} overflows {}", shown(word), T::DTYPE);
        return Err(Reason::from(reason).advise([Advice::DoublePrecision]));
    }
    tally.inexact += u64::from(inexact);
    tally.underflowed += u64::from(underflowed || (value != 0.0 && rounded == T::ZERO));
    Ok(rounded)
}

fn index(name: &str, word: &[u8], bound: u64) -> Result<u64, String> {
    let damaged = "the file or its size line is damaged";
    match number::count(word) {
        Ok(index) if (1..=bound).contains(&index) => Ok(index),
        Ok(index) => Err(format!("{name} {index} is outside 1..={bound}; {damaged}")),
        Err(reason) => Err(format!("{name} {reason}; indices are 1..={bound}")),
    }
}

/// Row, column, value and the start of the next line, if the line at `at` is spelled plainly.
#[inline(always)]
fn fast_entry<T>(
    text: &[u8],
    at: usize,
    pattern: bool,
    fast_value: impl Fn(&[u8], usize) -> Option<(T, usize)>,
) -> Option<(u64, u64, T, usize)> {
    let (row, at) = fast_index(text, skip_blanks(text, at))?;
    let (column, at) = fast_index(text, skip_one_blank(text, at)?)?;
    let at = if pattern { at } else { skip_one_blank(text, at)? };
    let (value, at) = fast_value(text, at)?;
    match text.get(at)? {
        b'\n' => Some((row, column, value, at + 1)),
        b'\r' if text.get(at + 1) == Some(&b'\n') => Some((row, column, value, at + 2)),
        _ => None,
    }
}

#[inline(always)]
fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|byte| is_blank(*byte)) {
        at += 1;
    }
    at
}

#[inline(always)]
fn skip_one_blank(text: &[u8], at: usize) -> Option<usize> {
    is_blank(*text.get(at)?).then(|| skip_blanks(text, at + 1))
}

/// Most digits that cannot overflow a `u64`.
const SAFE_DIGITS: usize = 19;

#[inline(always)]
fn fast_index(text: &[u8], start: usize) -> Option<(u64, usize)> {
    let mut at = start;
    let mut number = 0u64;
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (1..=SAFE_DIGITS).contains(&(at - start)).then_some((number, at))
}

/// A finite number that neither overflows nor becomes zero without being it.
#[inline(always)]
pub fn fast_real<T: Scalar>(text: &[u8], at: usize) -> Option<(T, usize)> {
    let (value, length) = fast_float2::parse_partial::<f64, _>(text.get(at..)?).ok()?;
    let rounded = T::from_f64(value);
    let next = at + length;
    let plain = if rounded == T::ZERO {
        !text[at..next].iter().any(|byte| (b'1'..=b'9').contains(byte))
    } else {
        rounded.to_f64().is_finite()
    };
    plain.then_some((rounded, next))
}

/// A real and an imaginary part as [`fast_real`] reads them.
#[inline(always)]
fn fast_complex<T: Scalar>(text: &[u8], at: usize) -> Option<([T; 2], usize)> {
    let (real, at) = fast_real(text, at)?;
    let (imaginary, at) = fast_real(text, skip_one_blank(text, at)?)?;
    Some(([real, imaginary], at))
}

/// A value of one part.
#[inline(always)]
fn one_part<T>(
    fast_value: impl Fn(&[u8], usize) -> Option<(T, usize)>,
) -> impl Fn(&[u8], usize) -> Option<([T; 1], usize)> {
    move |text, at| fast_value(text, at).map(|(value, at)| ([value], at))
}

#[inline(always)]
fn fast_unsigned<T: Scalar>(text: &[u8], at: usize) -> Option<(T, usize)> {
    let (number, next) = fast_index(text, at)?;
    (number <= 1 << 53).then(|| (T::from_f64(number as f64), next))
}

#[inline(always)]
fn fast_integer<T: Scalar>(text: &[u8], at: usize) -> Option<(T, usize)> {
    if text.get(at) != Some(&b'-') {
        return fast_unsigned(text, at);
    }
    let (magnitude, next) = fast_unsigned::<T>(text, at + 1)?;
    Some((T::from_f64(-magnitude.to_f64()), next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::io::matrix_market::header::Format;
    use crate::matrix::io::matrix_market::pieces::{Buckets, Budget};
    use proptest::prelude::*;

    fn header(field: Field) -> Header {
        Header {
            format: Format::Coordinate,
            field,
            unsigned: false,
            symmetry: Symmetry::General,
            rows: 100,
            cols: 100,
            entries: 1,
            size_line: 2,
            bytes: 0,
            synthetic: false,
            tally: Tally::default(),
        }
    }

    proptest! {
        /// The contract of the fast path: what it reads, the careful path reads alike.
        #[test]
        fn the_fast_path_never_accepts_what_the_careful_one_refuses(
            words in prop::collection::vec("[-+]?[0-9]{0,3}[.eEdDx,]{0,2}[-+0-9]{0,4}|nan|inf|1e-400|1e400|0", 0..5),
            blanks in prop::collection::vec("[ \t]{0,2}", 5),
            end in "\r?\n",
        ) {
            let mut line = String::new();
            for (word, blank) in words.iter().zip(&blanks) {
                line += blank;
                line += word;
            }
            let text = line.clone() + &end;
            for field in [Field::Real, Field::Integer, Field::Pattern, Field::Complex] {
                let header = header(field);
                let budget = Budget::new(u64::MAX);
                let parser =
                    || EntryParser::<f32>::new(&header, false, Sorter::new(Buckets::new(100, 1, true, 0), &budget));
                let (mut both, mut careful) = (parser(), parser());
                let outcomes = (both.parse(text.as_bytes()).is_ok(), {
                    careful.lines = 1;
                    let line = &text.as_bytes()[..text.len() - 1];
                    match field {
                        Field::Complex => careful.careful_line::<2>(line).is_ok(),
                        _ => careful.careful_line::<1>(line).is_ok(),
                    }
                });
                prop_assert_eq!(outcomes.0, outcomes.1, "{:?}", text);
                if outcomes.0 {
                    prop_assert_eq!((both.entries, both.tally), (careful.entries, careful.tally));
                    let (both, careful) = (both.finish().unwrap(), careful.finish().unwrap());
                    for (one, other) in both.pieces[0].iter().zip(&careful.pieces[0]) {
                        prop_assert!(one.keys().eq(other.keys()));
                        let bits = |piece: &Piece<f32>| piece.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                        prop_assert_eq!(bits(one), bits(other));
                    }
                }
            }
        }
    }
}
