//! Reads SciPy's `.npz`: csr, csc and coo matrices of `scipy.sparse.save_npz`, stored or deflated.
//!
//! Declared sizes are not trusted: arrays grow as their bytes arrive, and every index is checked against the shape.
//! Unsorted rows are sorted, duplicates are summed, and both are noted.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use bytemuck::Pod;
use zip::ZipArchive;
use zip::result::ZipError;

use super::gzip::{MOST_EXPANSION, most_text_bytes};
use super::npy::{self, Element, Header, Kind, Number};
use super::{Dense, Input, ReadOptions, SPARSE, complex_values, counted};
use crate::error::{Advice, Error, Place, Reason, Result};
use crate::matrix::complex::repeated;
use crate::matrix::convert::{coo_to_csr, expand_pointers};
use crate::matrix::csr::MOST_COLUMNS;
use crate::matrix::info::SYNTHETIC_COMMENT;
use crate::matrix::{Coo, Csr, Field, Loaded, MatrixInfo, Scalar, Symmetry};

/// Elements decoded at a time.
const STEP_ELEMENTS: usize = 1 << 16;

/// Reads a matrix.
pub fn read_npz<T: Scalar>(path: &Path, options: &ReadOptions) -> Result<Loaded<T>> {
    read_npz_input(&Input::open(path)?, options)
}

/// Reads what [`read_npz`] reads, from an open file.
pub(super) fn read_npz_input<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<Loaded<T>> {
    let path = &input.path;
    let mut archive = Archive::open(input, options)?;
    let format = archive.text("format")?;
    let (rows, cols) = archive.shape()?;
    archive.check_rows(rows)?;
    let mut notes = Vec::new();
    let (matrix, duplicates, field, stored_entries) = match format.as_str() {
        "csr" | "csc" => {
            // A csc matrix is the csr of its transpose.
            let by_rows = format == "csr";
            let (majors, minors) = if by_rows { (rows, cols) } else { (cols, rows) };
            archive.check_rows(majors)?;
            let pointers = archive.pointers(majors)?;
            let mut indices = archive.indices("indices", minors)?;
            let Values { mut values, field } = archive.values::<T>(&mut notes)?;
            let parts = field.parts();
            archive.check_columns(cols, parts)?;
            let entries = archive.check_pointers(&pointers, indices.len(), values.len() / parts)?;
            if entries < indices.len() {
                let surplus = (indices.len() - entries) as u64;
                notes.push(counted(
                    surplus,
                    "entry after the last pointer was left out",
                    "entries after the last pointer were left out",
                ));
                indices.truncate(entries);
                values.truncate(entries * parts);
            }
            let order = worst_order(&pointers, &indices);
            if by_rows && order == Ordering::Greater {
                notes.push("rows were not sorted by column and have been sorted".into());
            }
            let (matrix, duplicates) = if by_rows && order == Ordering::Less {
                let mut pointers = pointers;
                pointers.iter_mut().for_each(|pointer| *pointer *= parts as u64);
                let columns = repeated(indices, parts, true)?;
                (Csr::try_new(rows as usize, cols as usize * parts, pointers, columns, values)?, 0)
            } else {
                let outer = expand_pointers(&pointers)?;
                drop(pointers);
                let places = if by_rows { (outer, indices) } else { (indices, outer) };
                csr_of((rows as usize, cols as usize), places, values, parts)?
            };
            (matrix, duplicates, field, entries)
        }
        "coo" => {
            let row_indices = archive.indices("row", rows)?;
            let col_indices = archive.indices("col", cols)?;
            let Values { values, field } = archive.values::<T>(&mut notes)?;
            let parts = field.parts();
            archive.check_columns(cols, parts)?;
            let entries = values.len() / parts;
            if row_indices.len() != entries || col_indices.len() != entries {
                return Err(archive.refused("row, col and data have different lengths; the file is damaged"));
            }
            let shape = (rows as usize, cols as usize);
            let (matrix, duplicates) = csr_of(shape, (row_indices, col_indices), values, parts)?;
            (matrix, duplicates, field, entries)
        }
        other => {
            return Err(archive.refused(&format!(
                "unsupported: a {other:?} matrix; csr, csc and coo are read (use .tocsr() before save_npz)"
            )));
        }
    };
    if duplicates > 0 {
        let (one, many) = ("duplicate entry was summed", "duplicate entries were summed");
        notes.push(counted(duplicates, one, many));
    }
    let info = MatrixInfo {
        name: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
        field,
        symmetry: Symmetry::General,
        stored_entries: stored_entries as u64,
        synthetic: archive.is_synthetic(),
        features: None,
    };
    Ok(Loaded { matrix, info, notes })
}

/// Reads a dense matrix: the only array of an archive that `numpy.savez` wrote.
pub(super) fn read_dense_npz<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<Dense<T>> {
    let mut archive = Archive::open(input, options)?;
    let listed = archive.zip.file_names().map(|name| name.map(Cow::into_owned));
    let names: Vec<String> = listed.collect::<std::result::Result<_, _>>().map_err(|error| {
        Error::input(Place::file(&input.path), format!("the archive is damaged ({error})"))
    })?;
    let name = match &names[..] {
        _ if names.iter().any(|name| name == "format.npy") => return Err(archive.refused(SPARSE)),
        [name] if name.ends_with(".npy") => name,
        names => {
            let listed: Vec<&str> = names.iter().map(|name| name.trim_end_matches(".npy")).collect();
            let reason = "save one array with numpy.save";
            return Err(archive.refused(&format!(
                "{} arrays ({}); {reason}",
                names.len(),
                listed.join(", ")
            )));
        }
    };
    let array = archive.unpacked(name)?;
    npy::read_npy_input(&Input { file: array, path: input.path.clone() }, options)
}

/// The matrix with these entries, whose values have `parts` real numbers each, and the number of duplicates.
fn csr_of<T: Scalar>(
    (rows, cols): (usize, usize),
    (row_indices, col_indices): (Vec<u32>, Vec<u32>),
    values: Vec<T>,
    parts: usize,
) -> Result<(Csr<T>, u64)> {
    let row_indices = repeated(row_indices, parts, false)?;
    let col_indices = repeated(col_indices, parts, true)?;
    let coo = Coo::try_new(rows, cols * parts, row_indices, col_indices, values)?;
    let (matrix, duplicates) = coo_to_csr(&coo)?;
    Ok((matrix, duplicates / parts as u64))
}

/// The largest comparison of neighbouring columns in any row: `Less` if all rows ascend.
fn worst_order(pointers: &[u64], indices: &[u32]) -> Ordering {
    let row_order = |pair: &[u64]| {
        let row = &indices[pair[0] as usize..pair[1] as usize];
        row.windows(2).map(|columns| columns[0].cmp(&columns[1])).max()
    };
    pointers.windows(2).filter_map(row_order).max().unwrap_or(Ordering::Less)
}

struct Values<T> {
    values: Vec<T>,
    field: Field,
}

struct Archive<'a> {
    path: &'a Path,
    options: &'a ReadOptions<'a>,
    zip: ZipArchive<BufReader<File>>,
    /// Bytes that the arrays may still have: see [`most_text_bytes`].
    allowed_bytes: u64,
}

impl<'a> Archive<'a> {
    fn open(input: &'a Input, options: &'a ReadOptions<'a>) -> Result<Self> {
        let path = &input.path;
        let file = input.file.try_clone().map_err(|error| Error::read(path, error))?;
        let file_bytes = file.metadata().map_err(|error| Error::read(path, error))?.len();
        let zip = ZipArchive::new(BufReader::with_capacity(1 << 20, file)).map_err(|error| {
            let reason =
                format!("this is not a .npz file, or it is damaged ({error}); save it again with save_npz");
            Error::input(Place::file(path), reason)
        })?;
        Ok(Self { path, options, zip, allowed_bytes: most_text_bytes(file_bytes) })
    }

    fn refused(&self, reason: &str) -> Error {
        Error::input(Place::file(self.path), reason)
    }

    /// A member as a file without a name.
    fn unpacked(&mut self, name: &str) -> Result<File> {
        let (path, most) = (self.path, self.allowed_bytes.min(self.options.memory_limit_bytes));
        let damaged = |error: &dyn Display| {
            Error::input(Place::file(path), format!("{name}: the archive is damaged ({error})"))
        };
        let member = self.zip.by_name(name).map_err(|error| damaged(&error))?;
        check_memory(path, self.options, name, member.size())?;
        let mut file = tempfile::tempfile().map_err(|error| Error::write(std::env::temp_dir(), error))?;
        let copied = io::copy(&mut member.take(most.saturating_add(1)), &mut file);
        match copied.map_err(|error| damaged(&error))? {
            bytes if bytes > most => Err(damaged(&"it expands too far")),
            _ => Ok(file),
        }
    }

    /// Whether Rowloom wrote the file from a synthetic matrix.
    fn is_synthetic(&self) -> bool {
        String::from_utf8_lossy(self.zip.comment()).contains(SYNTHETIC_COMMENT)
    }

    /// Refuses row pointers beyond the memory limit.
    fn check_rows(&self, rows: u64) -> Result<()> {
        let needed_bytes = rows.saturating_add(1).saturating_mul(8);
        check_memory(self.path, self.options, &format!("a matrix of {rows} rows"), needed_bytes)
    }

    /// Decodes all elements of an array; `accept` converts an element, or returns why it is refused.
    fn array<V: Pod>(
        &mut self,
        name: &str,
        dimensions: usize,
        mut accept: impl FnMut(Element, &[u8]) -> std::result::Result<V, Reason>,
    ) -> Result<(Header, Vec<V>)> {
        let (path, options) = (self.path, self.options);
        let refused_for = |reason: Reason| {
            Error::input(Place::file(path), reason.map_words(|words| format!("{name}.npy: {words}")))
        };
        let refused = |reason: String| refused_for(reason.into());
        let mut member =
            self.zip.by_name(&format!("{name}.npy")).map_err(|error| no_member(path, name, &error))?;
        let header = Header::read(&mut member).map_err(refused)?;
        if header.shape.len() != dimensions {
            return Err(refused(format!("{} dimensions instead of {dimensions}", header.shape.len())));
        }
        let count = header.count().unwrap_or(u64::MAX);
        let needed_bytes = count.saturating_mul(size_of::<V>() as u64);
        check_memory(path, options, &format!("{name}.npy with {count} elements"), needed_bytes)?;
        let array_bytes = count.saturating_mul(header.element.bytes as u64);
        self.allowed_bytes = self.allowed_bytes.checked_sub(array_bytes).ok_or_else(|| {
            refused(format!(
                "{count} elements are declared, which expand the file more than {MOST_EXPANSION} times; if you trust it, save it \
                 again with compressed=False"
            ))
        })?;
        let mut values = Vec::new();
        let mut bytes = vec![0; STEP_ELEMENTS * header.element.bytes];
        let mut left = count;
        while left > 0 {
            let step = left.min(STEP_ELEMENTS as u64) as usize;
            let bytes = &mut bytes[..step * header.element.bytes];
            member.read_exact(bytes).map_err(|error| {
                refused(format!(
                    "{count} elements are declared, but it ends or is damaged before the last ({error})"
                ))
            })?;
            values.try_reserve(step).map_err(|_| refused("the system refused the memory".into()))?;
            for element in bytes.chunks_exact(header.element.bytes) {
                let position = values.len();
                let value = accept(header.element, element);
                values.push(value.map_err(|reason| {
                    refused_for(reason.map_words(|words| format!("element {position}: {words}")))
                })?);
            }
            left -= step as u64;
        }
        // Reading to the end also checks the archive's checksum.
        match member.read(&mut [0]) {
            Ok(0) => Ok((header, values)),
            Ok(_) => Err(refused(format!("there are bytes after its {count} elements; it is damaged"))),
            Err(error) => Err(refused(format!("the archive is damaged ({error})"))),
        }
    }

    /// The type of the elements of an array.
    fn element(&mut self, name: &str) -> Result<Element> {
        let path = self.path;
        let refused = |reason: String| Error::input(Place::file(path), format!("{name}.npy: {reason}"));
        let member = self.zip.by_name(&format!("{name}.npy"));
        let mut member = member.map_err(|error| no_member(path, name, &error))?;
        Header::read(&mut member).map(|header| header.element).map_err(refused)
    }

    /// A single string.
    fn text(&mut self, name: &str) -> Result<String> {
        let mut text = String::new();
        self.array(name, 0, |element, bytes| {
            let width = match element.kind {
                Kind::Bytes => 1,
                Kind::Unicode => 4,
                _ => return Err("not text".into()),
            };
            // Characters of ASCII have one byte that is not zero, in either byte order.
            let characters = bytes.chunks(width).map(|one| one.iter().copied().max().unwrap_or(0));
            text.extend(characters.filter(|&byte| byte != 0).map(char::from));
            Ok(0u8)
        })?;
        Ok(text)
    }

    fn shape(&mut self) -> Result<(u64, u64)> {
        let (_, lengths) = self.array("shape", 1, |element, bytes| whole(element, bytes, u64::MAX))?;
        let [rows, cols] = lengths[..] else {
            return Err(self.refused(&format!("unsupported: {} dimensions; a matrix has two", lengths.len())));
        };
        // Conversions from csc and coo store rows as indices too.
        let most = MOST_COLUMNS as u64;
        if rows > most || cols > most {
            return Err(self.refused(&format!("unsupported: {rows} x {cols}; at most {most} each")));
        }
        Ok((rows, cols))
    }

    /// Refuses more columns than a matrix whose values have `parts` real numbers can have.
    fn check_columns(&self, cols: u64, parts: usize) -> Result<()> {
        let most = (MOST_COLUMNS / parts) as u64;
        match cols <= most {
            true => Ok(()),
            false => {
                Err(self
                    .refused(&format!("unsupported: {cols} columns; a complex matrix has at most {most}")))
            }
        }
    }

    fn pointers(&mut self, majors: u64) -> Result<Vec<u64>> {
        let (_, pointers) = self.array("indptr", 1, |element, bytes| whole(element, bytes, u64::MAX))?;
        if pointers.len() as u64 != majors + 1 {
            let reason = format!("indptr.npy: {} pointers for {majors} rows or columns", pointers.len());
            return Err(self.refused(&reason));
        }
        Ok(pointers)
    }

    /// The number of entries, if the pointers are valid.
    fn check_pointers(&self, pointers: &[u64], indices: usize, values: usize) -> Result<usize> {
        let last = pointers.last().copied().unwrap_or(0);
        let sound = pointers.first() == Some(&0) && pointers.windows(2).all(|pair| pair[0] <= pair[1]);
        if !sound || indices != values || last > indices as u64 {
            return Err(self.refused("indptr, indices and data do not fit together; the file is damaged"));
        }
        Ok(last as usize)
    }

    fn indices(&mut self, name: &str, bound: u64) -> Result<Vec<u32>> {
        let (_, indices) = self.array(name, 1, |element, bytes| {
            // Below the bound, which is below 2^32.
            whole(element, bytes, bound).map(|index| index as u32)
        })?;
        Ok(indices)
    }

    fn values<T: Scalar>(&mut self, notes: &mut Vec<String>) -> Result<Values<T>> {
        let (mut inexact, mut not_finite) = (0u64, 0u64);
        let (finite, accepts_complex) = (self.options.finite, self.options.complex);
        let path = self.path;
        let mut number = |element: Element, bytes: &[u8]| {
            let number = element.decode(bytes);
            let value = number.to_scalar::<T>();
            if number.overflows::<T>() {
                let reason = format!("a value overflows {}", T::DTYPE);
                return Err(Reason::from(reason).advise([Advice::DoublePrecision]));
            }
            if !value.to_f64().is_finite() {
                if finite {
                    let reason = format!("{value} is not finite, and only finite values are allowed");
                    return Err(Reason::from(reason).advise([Advice::AnyValues]));
                }
                not_finite += 1;
            }
            if let Number::Whole(exact) = number {
                inexact += u64::from(value.to_f64() as i128 != exact);
            }
            Ok(value)
        };
        let (field, values) = match self.element("data")? {
            element if element.kind == Kind::Complex && !accepts_complex => {
                return Err(complex_values(Place::file(path)));
            }
            element if element.kind == Kind::Complex => {
                let (_, values) = self.array("data", 1, |element, bytes| {
                    let (part, _) = element.parts();
                    let (real, imaginary) = bytes.split_at(part.bytes);
                    Ok([number(part, real)?, number(part, imaginary)?])
                })?;
                (Field::Complex, values.into_flattened())
            }
            element => {
                let (_, values) = self.array("data", 1, |element, bytes| match element.is_number() {
                    true => number(element, bytes),
                    false => Err("text, not a number".into()),
                })?;
                (if element.kind == Kind::Real { Field::Real } else { Field::Integer }, values)
            }
        };
        if not_finite > 0 {
            notes.push(counted(not_finite, "value is not finite", "values are not finite"));
        }
        if inexact > 0 {
            let note = counted(inexact, "integer was rounded", "integers were rounded");
            notes.push(format!("{note} to {}", T::DTYPE));
        }
        Ok(Values { values, field })
    }
}

/// The error of an array that an archive lacks, or that cannot be opened.
fn no_member(path: &Path, name: &str, error: &ZipError) -> Error {
    let reason = match error {
        ZipError::FileNotFound => {
            format!("there is no {name}.npy in it; this is not a matrix of scipy.sparse.save_npz")
        }
        error => format!("{name}.npy: the archive is damaged ({error})"),
    };
    Error::input(Place::file(path), reason)
}

fn check_memory(path: &Path, options: &ReadOptions, what: &str, needed_bytes: u64) -> Result<()> {
    if needed_bytes > options.memory_limit_bytes {
        return Err(Error::DoesNotFit {
            what: format!("{}: {what}", path.display()),
            needed_bytes,
            limit_bytes: options.memory_limit_bytes,
            advice: "raise the limit or use a smaller matrix".into(),
        });
    }
    Ok(())
}

/// An integer from 0 to below `bound`.
fn whole(element: Element, bytes: &[u8], bound: u64) -> std::result::Result<u64, Reason> {
    if !matches!(element.kind, Kind::Signed | Kind::Unsigned) {
        return Err("not an integer".into());
    }
    match element.decode(bytes) {
        Number::Whole(value) if (0..i128::from(bound)).contains(&value) => Ok(value as u64),
        Number::Whole(value) => Err(format!("{value} is outside 0..{bound}; the file is damaged").into()),
        Number::Real(_) => Err("not an integer".into()),
    }
}

#[cfg(test)]
#[path = "npz_tests.rs"]
mod tests;
