//! Reads array files: all values, column by column, as a row-major multivector.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::check_text_holds;
use super::entries::{careful_value, check_text};
use super::header::{Format, Header, trim};
use super::lines::{FileRange, LONGEST_LINE, LineBlocks, is_comment};
use super::number::shown;
use super::tally::Tally;
use crate::error::{Error, Place, Reason, Result};
use crate::matrix::info::{Field, Symmetry};
use crate::matrix::io::gzip::{Members, most_text_bytes};
use crate::matrix::io::{ReadOptions, read_error};
use crate::matrix::multivector::MultiVector;
use crate::matrix::scalar::Scalar;

const BLOCK_BYTES: usize = 256 << 10;

/// Reads a plain array file; its values, and sentences about oddities.
pub(crate) fn read_array_plain<T: Scalar>(
    file: &File,
    path: &Path,
    options: &ReadOptions,
) -> Result<(MultiVector<T>, Vec<String>)> {
    let bytes = file.metadata().map_err(|error| Error::read(path, error))?.len();
    read_array(BufReader::new(FileRange { file, position: 0, end: bytes }), bytes, path, options)
}

/// Reads a gzip-compressed array file.
pub(crate) fn read_array_gzip<T: Scalar>(
    file: &File,
    path: &Path,
    options: &ReadOptions,
) -> Result<(MultiVector<T>, Vec<String>)> {
    let bytes = file.metadata().map_err(|error| Error::read(path, error))?.len();
    let most = most_text_bytes(bytes);
    let members = Members::new(BufReader::with_capacity(BLOCK_BYTES, file), most);
    read_array(BufReader::new(members), most, path, options)
}

fn read_array<T: Scalar>(
    mut text: impl BufRead,
    text_bytes: u64,
    path: &Path,
    options: &ReadOptions,
) -> Result<(MultiVector<T>, Vec<String>)> {
    let source = path.display().to_string();
    let unreadable = |error| read_error(path, &source, error);
    let header = Header::read(&mut text).map_err(|fault| fault.named(&source, unreadable))?;
    check_supported(&source, &header)?;
    check_text_holds(&source, &header, text_bytes.saturating_sub(header.bytes))?;
    let needed_bytes = header.entries.saturating_mul(size_of::<T>() as u64);
    if needed_bytes > options.memory_limit_bytes {
        return Err(Error::DoesNotFit {
            what: format!("the {} by {} array of {source}", header.rows, header.cols),
            needed_bytes,
            limit_bytes: options.memory_limit_bytes,
            advice: "use a machine with more memory or raise the limit".into(),
        });
    }
    // Both fit, since their product does.
    let (rows, k) = (header.rows as usize, header.cols as usize);
    let mut dense = MultiVector::zeros(rows, k)?;
    let mut blocks = LineBlocks::new(text, BLOCK_BYTES);
    let mut block = Vec::new();
    let mut tally = Tally::default();
    let (mut line_number, mut read) = (header.size_line, 0);
    while blocks.next(&mut block).map_err(unreadable)? {
        for line in block.strip_suffix(b"\n").unwrap_or(&block).split(|byte| *byte == b'\n') {
            line_number += 1;
            let value = array_value(line, &header, options.finite, &mut tally)
                .map_err(|reason| Error::input(Place::line(&source, line_number), reason))?;
            let Some(value) = value else { continue };
            if read == header.entries {
                return Err(wrong_count(&source, &header, "more follow".into()));
            }
            let (row, column) = (read as usize % rows, read as usize / rows);
            dense.data_mut()[row * k + column] = value;
            read += 1;
        }
    }
    if read < header.entries {
        return Err(wrong_count(&source, &header, format!("only {read} follow")));
    }
    Ok((dense, tally.notes()))
}

fn check_supported(source: &str, header: &Header) -> Result<()> {
    let refuse = |reason: &str| Err(Error::input(Place::line(source, 1), reason));
    if header.format != Format::Array {
        refuse("a dense multivector is needed here, in array format; this file is in coordinate format")
    } else if header.field == Field::Pattern {
        refuse("an array cannot be of field pattern; real and integer are read")
    } else if header.field == Field::Complex {
        refuse(
            "unsupported: complex arrays in Matrix Market; real and integer are read, and complex arrays from .npy files",
        )
    } else if header.symmetry != Symmetry::General {
        refuse("unsupported: arrays that store one triangle; general ones are read")
    } else {
        Ok(())
    }
}

/// The value of a line, or none if it is blank or a comment.
fn array_value<T: Scalar>(
    line: &[u8],
    header: &Header,
    finite: bool,
    tally: &mut Tally,
) -> std::result::Result<Option<T>, Reason> {
    if is_comment(line) {
        return Ok(None);
    }
    check_text(line)?;
    let word = trim(line)?;
    if word.is_empty() {
        return Ok(None);
    }
    if word.len() > LONGEST_LINE {
        return Err(
            format!("the line is longer than {LONGEST_LINE} bytes; a number this long overflows").into()
        );
    }
    if word.iter().any(|byte| matches!(byte, b' ' | b'\t')) {
        return Err(
            format!("{} is more than one word; an array has one value on each line", shown(word)).into()
        );
    }
    careful_value(header.field, header.unsigned, finite, word, tally).map(Some)
}

fn wrong_count(source: &str, header: &Header, found: String) -> Error {
    let reason = format!("the size line declares {} values but {found}; the file is damaged", header.entries);
    Error::input(Place::line(source, header.size_line), reason)
}
