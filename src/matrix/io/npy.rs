//! NumPy's `.npy`: reads dense vectors and matrices as multivectors, and writes them.
//!
//! `.npz` uses the header and the decoding of elements too. Real numbers, integers and booleans of either byte order are
//! read, complex numbers where the caller accepts them; text and Python objects are refused by name. A shape is checked against the bytes that follow.

use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::mapping::Mapping;
use super::matrix_market::tally::Tally;
use super::npy_header;
use super::write::write_file;
use super::{ArrayFormat, Dense, Input, ReadOptions, complex_values, counted};
use crate::error::{Advice, Error, Place, Result};
use crate::files::Target;
use crate::matrix::complex::PARTS;
use crate::matrix::{MultiVector, Scalar};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header that is read; NumPy's are below 200 bytes.
const MOST_HEADER_BYTES: usize = 1 << 16;
/// Bytes before the elements in files that Rowloom writes. NumPy needs 128 for the same arrays, so that the padding tells
/// the two apart: see [`is_own`].
const OWN_HEADER_BYTES: usize = 256;
/// Bytes before the text of the header: magic, version, length.
const PREFIX_BYTES: usize = 10;

/// The header: type and order of the elements, and their number in each dimension.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub element: Element,
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

impl Header {
    /// Number of elements; `None` beyond 2^64.
    pub fn count(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, &length| product.checked_mul(length))
    }

    /// Reads the header and nothing after it; the error is the reason without a place.
    pub fn read(input: &mut impl Read) -> std::result::Result<Self, String> {
        let mut bytes = |length: usize| -> std::result::Result<Vec<u8>, String> {
            let mut bytes = vec![0; length];
            input.read_exact(&mut bytes).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => "it ends within its header".to_string(),
                _ => format!("its header cannot be read: {error}"),
            })?;
            Ok(bytes)
        };
        let start = bytes(8)?;
        if !start.starts_with(MAGIC) {
            return Err("this is not a .npy array; its first bytes are not NumPy's".into());
        }
        let length = match start[6] {
            _ if start[7] != 0 => return Err(format!("unsupported .npy version {}.{}", start[6], start[7])),
            1 => bytes(2)?.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte)),
            2 | 3 => bytes(4)?.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte)),
            version => return Err(format!("unsupported .npy version {version}; 1, 2 and 3 are read")),
        };
        if length > MOST_HEADER_BYTES {
            return Err(format!("its header claims {length} bytes; it is damaged"));
        }
        let text = bytes(length)?;
        let text = std::str::from_utf8(&text).map_err(|_| "its header is not text".to_string())?;
        let entries = npy_header::entries(text)?;
        let word = |key: &str| {
            let found = entries.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            found.ok_or_else(|| format!("its header has no {key}: {text:?}"))
        };
        if entries.len() != 3 {
            return Err(format!("its header has other keys than descr, fortran_order and shape: {text:?}"));
        }
        let element = Element::parse(word("descr")?)?;
        let fortran_order = match word("fortran_order")? {
            "True" => true,
            "False" => false,
            _ => return Err("its header's fortran_order is neither True nor False".into()),
        };
        let shape =
            npy_header::lengths(word("shape")?).ok_or("its header's shape is not a tuple of lengths")?;
        Ok(Self { element, fortran_order, shape })
    }
}

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Element {
    pub kind: Kind,
    pub bytes: usize,
    big_endian: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Real,
    Signed,
    Unsigned,
    Boolean,
    /// A real and an imaginary part.
    Complex,
    /// Bytes of text, one each.
    Bytes,
    /// Text, four bytes a character.
    Unicode,
}

/// One element decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Real(f64),
    /// Wide enough for every integer NumPy has.
    Whole(i128),
}

impl Element {
    /// The type that the text after `descr` names, such as `'<f8', ...`.
    fn parse(descr: &str) -> std::result::Result<Self, String> {
        const READ: &str = "float32, float64, integers and booleans are read";
        let quote = descr.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let name = quote.and_then(|quote| descr[1..].split(quote).next());
        let Some(name) = name else {
            return Err(format!("unsupported: an array of records; {READ}"));
        };
        let big_endian = match name.as_bytes().first() {
            Some(b'>') => true,
            Some(b'=') => cfg!(target_endian = "big"),
            _ => false,
        };
        let code = name.trim_start_matches(['<', '>', '=', '|']);
        let (kind, bytes) = match (code.get(..1), code.get(1..).and_then(|bytes| bytes.parse().ok())) {
            (Some("f"), Some(bytes @ (4 | 8))) => (Kind::Real, bytes),
            (Some("i"), Some(bytes @ (1 | 2 | 4 | 8))) => (Kind::Signed, bytes),
            (Some("u"), Some(bytes @ (1 | 2 | 4 | 8))) => (Kind::Unsigned, bytes),
            (Some("b"), Some(1)) => (Kind::Boolean, 1),
            (Some("S"), Some(bytes @ 1..=64)) => (Kind::Bytes, bytes),
            (Some("U"), Some(characters @ 1..=64)) => (Kind::Unicode, characters * 4),
            (Some("c"), Some(bytes @ (8 | 16))) => (Kind::Complex, bytes),
            (Some("O"), _) => {
                return Err(format!(
                    "unsupported: Python objects, which would have to be run to be read; {READ}"
                ));
            }
            _ => return Err(format!("unsupported: elements of type {name:?}; {READ}")),
        };
        Ok(Self { kind, bytes, big_endian })
    }

    /// Whether elements are numbers, not text.
    pub fn is_number(self) -> bool {
        !matches!(self.kind, Kind::Bytes | Kind::Unicode)
    }

    /// The type of a real number in an element, and their number: two in a complex one.
    pub fn parts(self) -> (Self, usize) {
        match self.kind {
            Kind::Complex => (Self { kind: Kind::Real, bytes: self.bytes / PARTS, ..self }, PARTS),
            _ => (self, 1),
        }
    }

    /// Decodes an element of `self.bytes` bytes, of a kind that is a number and not complex: see [`Self::parts`].
    pub fn decode(self, element: &[u8]) -> Number {
        let mut little = [0; 8];
        little[..element.len()].copy_from_slice(element);
        if self.big_endian {
            little[..element.len()].reverse();
        }
        let bits = u64::from_le_bytes(little);
        match (self.kind, self.bytes) {
            (Kind::Real, 4) => Number::Real(f32::from_bits(bits as u32).into()),
            (Kind::Real, _) => Number::Real(f64::from_bits(bits)),
            (Kind::Signed, bytes) => {
                let unused = 64 - 8 * bytes as u32;
                Number::Whole(((bits << unused) as i64 >> unused).into())
            }
            (Kind::Boolean, _) => Number::Whole((bits != 0).into()),
            _ => Number::Whole(bits.into()),
        }
    }
}

impl Number {
    /// Whether it is a number and too large for one of that type.
    pub fn overflows<T: Scalar>(self) -> bool {
        matches!(self, Self::Real(value) if value.is_finite()) && !self.to_scalar::<T>().to_f64().is_finite()
    }

    /// Whether it is a whole number that no double equals.
    fn is_beyond_doubles(self) -> bool {
        matches!(self, Self::Whole(value) if value as f64 as i128 != value)
    }

    /// The nearest value.
    pub fn to_scalar<T: Scalar>(self) -> T {
        match self {
            Self::Real(value) => T::from_f64(value),
            Self::Whole(value) => T::from_f64(value as f64),
        }
    }
}

/// Reads a vector (one column) or a matrix, in C or Fortran order.
pub fn read_npy<T: Scalar>(path: &Path, options: &ReadOptions) -> Result<Dense<T>> {
    read_npy_input(&Input::open(path)?, options)
}

/// Reads what [`read_npy`] reads, from an open file.
pub(super) fn read_npy_input<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<Dense<T>> {
    let mapping = Mapping::of(input)?;
    let result = read_array(&input.path, mapping.bytes(), options);
    if mapping.is_intact() { result } else { Err(mapping.changed()) }
}

/// The header of an array with one or two dimensions, and its rows and columns; afterwards `bytes` are its elements.
fn checked_header(path: &Path, bytes: &mut &[u8], complex: bool) -> Result<(Header, u64, u64)> {
    let refused = |reason: String| Error::input(Place::file(path), reason);
    let header = Header::read(bytes).map_err(refused)?;
    if !header.element.is_number() {
        return Err(refused("unsupported: an array of text; give numbers".into()));
    }
    if header.element.kind == Kind::Complex && !complex {
        return Err(complex_values(Place::file(path)));
    }
    let (rows, k) = match header.shape[..] {
        [rows] => (rows, 1),
        [rows, k] => (rows, k),
        _ => return Err(refused(format!("unsupported: {} dimensions; give one or two", header.shape.len()))),
    };
    let expected = header.count().and_then(|count| count.checked_mul(header.element.bytes as u64));
    if expected != Some(bytes.len() as u64) {
        let reason =
            format!("{rows} x {k} elements do not fit its {} bytes; the file is damaged", bytes.len());
        return Err(refused(reason));
    }
    Ok((header, rows, k))
}

fn overflow<T: Scalar>(path: &Path, count: u64) -> Error {
    let values = counted(count, "value overflows", "values overflow");
    Error::input(Place::file(path), format!("{values} {}", T::DTYPE)).advise([Advice::DoublePrecision])
}

fn read_array<T: Scalar>(path: &Path, mut bytes: &[u8], options: &ReadOptions) -> Result<Dense<T>> {
    let refused = |reason: String| Error::input(Place::file(path), reason);
    let (header, rows, k) = checked_header(path, &mut bytes, options.complex)?;
    let Header { element, fortran_order, ref shape } = header;
    let (part, parts) = element.parts();
    let needed_bytes = (bytes.len() / part.bytes) as u64 * size_of::<T>() as u64;
    if needed_bytes > options.memory_limit_bytes {
        return Err(Error::DoesNotFit {
            what: format!("{}: {rows} x {k} {}", path.display(), T::DTYPE),
            needed_bytes,
            limit_bytes: options.memory_limit_bytes,
            advice: "raise the limit or use fewer columns".into(),
        });
    }
    // One length may exceed memory where the other is zero.
    let size = |length: u64| usize::try_from(length).map_err(|_| refused("its shape is impossible".into()));
    let (rows, k) = (size(rows)?, size(k)?);
    let mut result = MultiVector::<T>::zeros(rows, k * parts)?;
    let [bad, too_large, inexact] = result
        .data_mut()
        .par_chunks_mut((k * parts).max(1))
        .with_min_len(1 + 4096 / k.max(1))
        .enumerate()
        .map(|(row, to)| {
            let [mut bad, mut too_large, mut inexact] = [0u64; 3];
            for (column, values) in to.chunks_exact_mut(parts).enumerate() {
                let at = if fortran_order { column * rows + row } else { row * k + column };
                let element = &bytes[at * element.bytes..][..element.bytes];
                for (value, bytes) in values.iter_mut().zip(element.chunks_exact(part.bytes)) {
                    let number = part.decode(bytes);
                    *value = number.to_scalar();
                    bad += u64::from(!value.to_f64().is_finite());
                    too_large += u64::from(number.overflows::<T>());
                    inexact += u64::from(number.is_beyond_doubles());
                }
            }
            [bad, too_large, inexact]
        })
        .reduce(|| [0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    if too_large > 0 {
        return Err(overflow::<T>(path, too_large));
    }
    if options.finite && bad > 0 {
        let values = counted(bad, "value is not finite", "values are not finite");
        return Err(
            refused(format!("{values}, and only finite values are allowed")).advise([Advice::AnyValues])
        );
    }
    let one_dimensional = shape.len() == 1;
    let notes = Tally { non_finite: bad, inexact, ..Tally::default() }.notes();
    let format = ArrayFormat::Npy { one_dimensional };
    Ok(Dense { values: result, is_complex: parts == PARTS, names: Vec::new(), format, notes })
}

/// An array in a file of which some rows are read.
#[derive(Debug)]
pub struct NpyRows {
    mapping: Mapping,
    path: PathBuf,
    header: Header,
    rows: u64,
    k: u64,
    /// Where the elements begin.
    start: usize,
}

impl NpyRows {
    /// Opens a vector (one column) or a matrix and checks its size.
    pub fn open(input: &Input) -> Result<Self> {
        let mapping = Mapping::of(input)?;
        let mut bytes = mapping.bytes();
        let (header, rows, k) = checked_header(&input.path, &mut bytes, false)?;
        let start = mapping.bytes().len() - bytes.len();
        Ok(Self { path: input.path.clone(), header, rows, k, start, mapping })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns.
    pub fn k(&self) -> u64 {
        self.k
    }

    /// Whether the array has one dimension.
    pub fn is_one_dimensional(&self) -> bool {
        self.header.shape.len() == 1
    }

    /// The rows `row(0)` to `row(count - 1)`.
    pub fn read<T: Scalar>(&self, count: usize, row: impl Fn(usize) -> u64 + Sync) -> Result<MultiVector<T>> {
        let k = self.k as usize;
        let mut result = MultiVector::<T>::zeros(count, k)?;
        let Header { element, fortran_order, .. } = self.header;
        let elements = &self.mapping.bytes()[self.start..];
        let too_large: u64 = result
            .data_mut()
            .par_chunks_mut(k.max(1))
            .with_min_len(1 + 4096 / k.max(1))
            .enumerate()
            .map(|(index, to)| {
                let row = row(index).min(self.rows.saturating_sub(1)) as usize;
                let mut too_large = 0;
                for (column, value) in to.iter_mut().enumerate() {
                    let at = if fortran_order { column * self.rows as usize + row } else { row * k + column };
                    let number = element.decode(&elements[at * element.bytes..][..element.bytes]);
                    *value = number.to_scalar();
                    too_large += u64::from(number.overflows::<T>());
                }
                too_large
            })
            .sum();
        if !self.mapping.is_intact() {
            return Err(self.mapping.changed());
        }
        if too_large > 0 {
            return Err(overflow::<T>(&self.path, too_large));
        }
        Ok(result)
    }
}

/// Writes an array in C order, with two dimensions or, for a single column that is asked for as a vector, one.
pub fn write_npy<'t, T: Scalar>(
    target: impl Into<Target<'t>>,
    array: &MultiVector<T>,
    one_dimensional: bool,
) -> Result<()> {
    let header = array_header::<T>(array.rows() as u64, array.k() as u64, one_dimensional);
    write_rows(target.into(), &header, array)
}

/// Writes an array whose columns are the real and the imaginary parts of complex columns, as complex numbers.
pub fn write_complex_npy<'t, T: Scalar>(
    target: impl Into<Target<'t>>,
    array: &MultiVector<T>,
    one_dimensional: bool,
) -> Result<()> {
    let shape = shape(array.rows() as u64, (array.k() / PARTS) as u64, one_dimensional);
    write_rows(target.into(), &header_bytes(&number_type::<T>('c'), &shape, OWN_HEADER_BYTES), array)
}

fn write_rows<T: Scalar>(target: Target<'_>, header: &[u8], array: &MultiVector<T>) -> Result<()> {
    write_file(target, |file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(header)?;
        for row in 0..array.rows() {
            file.write_all(bytemuck::cast_slice(array.row(row)))?;
        }
        file.flush()
    })
}

/// The bytes before the elements of an array that [`write_npy`] writes.
pub(crate) fn array_header<T: Scalar>(rows: u64, k: u64, one_dimensional: bool) -> Vec<u8> {
    header_bytes(&number_type::<T>('f'), &shape(rows, k, one_dimensional), OWN_HEADER_BYTES)
}

fn shape(rows: u64, k: u64, one_dimensional: bool) -> String {
    if one_dimensional && k == 1 { format!("({rows},)") } else { format!("({rows}, {k})") }
}

/// The `descr` of real (`f`) or complex (`c`) numbers in the byte order of this machine.
pub(super) fn number_type<T: Scalar>(kind: char) -> String {
    let order = if cfg!(target_endian = "big") { '>' } else { '<' };
    let parts = if kind == 'c' { PARTS } else { 1 };
    format!("{order}{kind}{}", T::DTYPE.bytes() * parts)
}

/// The `bytes` bytes before the elements of an array, a multiple of 64; blanks pad the header's text.
pub(super) fn header_bytes(descr: &str, shape: &str, bytes: usize) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let text = format!("{text:<width$}\n", width = bytes - PREFIX_BYTES - 1);
    [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// Whether a file that starts with these bytes was written by [`write_npy`]: a short header, padded to 256 bytes.
pub fn is_own(first_bytes: &[u8]) -> bool {
    let Some(start) = first_bytes.get(..OWN_HEADER_BYTES) else { return false };
    let (prefix, text) = start.split_at(PREFIX_BYTES);
    let length = (OWN_HEADER_BYTES - PREFIX_BYTES) as u16;
    let text = String::from_utf8_lossy(text);
    let dictionary = text.trim_end_matches(['\n', ' ']);
    prefix == [MAGIC, &[1, 0], &length.to_le_bytes()].concat()
        && dictionary.ends_with('}')
        && PREFIX_BYTES + dictionary.len() < OWN_HEADER_BYTES / 2
}

#[cfg(test)]
#[path = "npy_tests.rs"]
mod tests;
