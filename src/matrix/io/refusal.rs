//! Lines of a table that are refused, and the errors that say so with the words of the file.

use super::matrix_market::number::shown;
use super::table_text::lines;
use crate::error::{Error, Place, Reason};

/// The number of a line, counted from one, and why it is refused.
pub(super) type Refused = (u64, Refusal);

/// Why a line is refused, and the byte of the line where, counted from zero.
#[derive(Debug)]
pub(super) struct Refusal {
    pub reason: Reason,
    pub at: Option<usize>,
    /// The column of the number that is refused, counted from zero.
    pub column: Option<usize>,
}

impl Refusal {
    /// The same with the word that begins `text` as it is in the file, where other marks were put in their places.
    fn quoting(self, text: &[u8]) -> Self {
        let word = text.split(|byte| b"; \t\r\"".contains(byte)).next().unwrap_or_default();
        let rewritten: Vec<u8> = word.iter().map(|&byte| if byte == b',' { b'.' } else { byte }).collect();
        let reason = self.reason.map_words(|words| words.replacen(&shown(&rewritten), &shown(word), 1));
        Self { reason, ..self }
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason: reason.into(), at: None, column: None }
    }
}

/// A file, with its text as it was and the names of its columns if it has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a [u8],
    pub names: &'a [String],
}

impl Source<'_> {
    /// The error for a refused line, which `lines_before` others precede.
    pub fn refused(self, lines_before: u64, (line, refusal): Refused) -> Error {
        let refusal = match refusal.at {
            Some(at) => {
                let before = (lines_before + line).saturating_sub(1);
                let text = lines(self.text).nth(before as usize).and_then(|line| line.get(at..));
                refusal.quoting(text.unwrap_or_default())
            }
            None => refusal,
        };
        let place = Place::line(self.file, lines_before + line);
        let place = refusal.at.map_or(place.clone(), |at| place.at_column(at as u64 + 1));
        // Columns are counted from zero, as in results.
        let name = refusal.column.and_then(|column| Some((column, self.names.get(column)?)));
        Error::input(
            place,
            match name {
                Some((column, name)) => refusal.reason.map_words(|words| {
                    format!(
                        "{words}; column {column} ({name}) needs a number in every row: remove the column if it has text, write nan \
                         where a value is missing"
                    )
                }),
                None => refusal.reason,
            },
        )
    }
}
