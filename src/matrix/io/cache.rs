//! The binary cache `.rlm`: the arrays of a matrix as they are in memory, opened by mapping instead of parsing.
//!
//! A header with the shape, then what is known of the matrix as JSON, then row pointers, columns and values, each
//! starting at a multiple of 64 bytes. Numbers are in the byte order of the machine that wrote them, which a mark
//! tells. Every part has a checksum: the xxh3 hash of the hashes of its 1 MiB blocks, so that cores can share the
//! work. A cache that opens is complete, unchanged and sound.
//!
//! Values stay in the mapped file. Row pointers and columns are copied, because kernels derive addresses from them without a
//! check, and another program may overwrite the file or cut it short at any moment. A changed value gives another number and
//! no other address, and [`Csr::is_intact`] reports the change.

pub mod rows;

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::mapping::Mapping;
use super::write::write_file;
use super::{Input, Progress, ReadOptions, complex_values, non_finite_note};
use crate::error::{Advice, Error, Place, Result};
use crate::matrix::array::{AlignedBuffer, Array, SharedBytes};
use crate::matrix::convert::entries;
use crate::matrix::csr::{Csr, CsrView};
use crate::matrix::{Dtype, Field, Loaded, MatrixInfo, Scalar, complex};

/// First bytes of every cache.
pub const MAGIC: [u8; 8] = *b"ROWLOOM\0";
/// The layout this module writes, and the only one it reads.
const VERSION: u32 = 1;
/// Reads as another number in the other byte order.
const BYTE_ORDER: u32 = 0x0102_0304;
const ALIGNMENT: u64 = 64;
const BLOCK_BYTES: usize = 1 << 20;

/// The file's first 128 bytes.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    byte_order: u32,
    version: u32,
    value_bytes: u32,
    info_bytes: u32,
    rows: u64,
    cols: u64,
    nnz: u64,
    row_pointers_at: u64,
    columns_at: u64,
    values_at: u64,
    file_bytes: u64,
    /// Values that are infinite or not numbers, counted once here instead of at every opening.
    non_finite: u64,
    info_hash: u64,
    row_pointers_hash: u64,
    columns_hash: u64,
    values_hash: u64,
    /// Of all the bytes before it.
    header_hash: u64,
}

const HEADER_BYTES: usize = size_of::<Header>();

impl Header {
    fn own_hash(&self) -> u64 {
        xxh3_64(&bytemuck::bytes_of(self)[..HEADER_BYTES - size_of::<u64>()])
    }
}

/// The offsets of the parts, which follow from the shape.
#[derive(Debug, PartialEq)]
struct PartOffsets {
    row_pointers: Range<u64>,
    columns: Range<u64>,
    values: Range<u64>,
}

impl PartOffsets {
    /// `None` if the shape needs more than 2^64 bytes.
    fn of(rows: u64, nnz: u64, value_bytes: u32, info_bytes: u32) -> Option<Self> {
        let part = |after: u64, count: u64, bytes: u64| {
            let start = after.checked_next_multiple_of(ALIGNMENT)?;
            Some(start..start.checked_add(count.checked_mul(bytes)?)?)
        };
        let row_pointers = part(HEADER_BYTES as u64 + u64::from(info_bytes), rows.checked_add(1)?, 8)?;
        let columns = part(row_pointers.end, nnz, 4)?;
        let values = part(columns.end, nnz, value_bytes.into())?;
        Some(Self { row_pointers, columns, values })
    }
}

/// Writes a matrix whose rows are sorted and free of duplicates. If that fails, an existing file keeps its content.
/// `progress` counts the entries that are written.
pub fn write_cache<T: Scalar>(
    path: &Path,
    csr: &CsrView<'_, T>,
    info: &MatrixInfo,
    progress: Option<Progress<'_>>,
) -> Result<()> {
    let ascending = |row: usize| csr.row(row).0.windows(2).all(|pair| pair[0] < pair[1]);
    if !(0..csr.rows()).into_par_iter().with_min_len(1 << 10).all(ascending) {
        return Err(Error::usage("a cache holds only rows with ascending columns; sort the matrix first"));
    }
    let info = serde_json::to_vec(info).map_err(|error| Error::Internal(error.to_string()))?;
    let (columns, values) = entries(csr);
    let mut row_pointers = AlignedBuffer::copied_from(csr.row_pointers())?;
    let base = row_pointers[0];
    row_pointers.iter_mut().for_each(|pointer| *pointer -= base);

    let too_large = || Error::Internal("the matrix is too large for a file".into());
    let info_bytes = u32::try_from(info.len()).map_err(|_| too_large())?;
    let value_bytes = size_of::<T>() as u32;
    let offsets = PartOffsets::of(csr.rows() as u64, csr.nnz() as u64, value_bytes, info_bytes)
        .ok_or_else(too_large)?;
    let mut header = Header {
        magic: MAGIC,
        byte_order: BYTE_ORDER,
        version: VERSION,
        value_bytes,
        info_bytes,
        rows: csr.rows() as u64,
        cols: csr.cols() as u64,
        nnz: csr.nnz() as u64,
        row_pointers_at: offsets.row_pointers.start,
        columns_at: offsets.columns.start,
        values_at: offsets.values.start,
        file_bytes: offsets.values.end,
        non_finite: count_non_finite(values),
        info_hash: block_hash(&info),
        row_pointers_hash: block_hash(bytemuck::cast_slice(&row_pointers)),
        columns_hash: block_hash(bytemuck::cast_slice(columns)),
        values_hash: block_hash(bytemuck::cast_slice(values)),
        header_hash: 0,
    };
    header.header_hash = header.own_hash();

    write_file(path, |file| {
        let parts: [(u64, &[u8]); 5] = [
            (0, bytemuck::bytes_of(&header)),
            (HEADER_BYTES as u64, &info),
            (offsets.row_pointers.start, bytemuck::cast_slice(&row_pointers)),
            (offsets.columns.start, bytemuck::cast_slice(columns)),
            (offsets.values.start, bytemuck::cast_slice(values)),
        ];
        let mut written = 0;
        for (start, bytes) in parts {
            file.write_all(&[0; ALIGNMENT as usize][..(start - written) as usize])?;
            file.write_all(bytes)?;
            written = start + bytes.len() as u64;
        }
        progress.map_or(Ok(()), |progress| progress.advance(values.len() as u64))
    })
}

/// Opens a cache and checks all of it, without parsing. Values of the other precision are converted.
pub fn read_cache<T: Scalar>(path: &Path, options: &ReadOptions) -> Result<Loaded<T>> {
    read_cache_input(&Input::open(path)?, options)
}

/// Opens what [`read_cache`] opens, from an open file.
pub(super) fn read_cache_input<T: Scalar>(input: &Input, options: &ReadOptions) -> Result<Loaded<T>> {
    let mapping = Arc::new(Mapping::of(input)?);
    let result = open(&input.path, &mapping, options);
    // The file may have changed during the checks, whatever their result.
    if mapping.is_intact() { result } else { Err(mapping.changed()) }
}

fn open<T: Scalar>(path: &Path, mapping: &Arc<Mapping>, options: &ReadOptions) -> Result<Loaded<T>> {
    let header = read_header(path, mapping.bytes())?;
    check_memory(path, &header, T::DTYPE, options)?;
    let mut notes = Vec::new();
    let (matrix, non_finite) = if header.value_bytes as usize == T::DTYPE.bytes() {
        (matrix_of::<T>(path, mapping, &header)?, header.non_finite)
    } else {
        let (matrix, from) = match T::DTYPE {
            Dtype::F64 => (matrix_of::<f32>(path, mapping, &header)?.cast::<T>()?, Dtype::F32),
            Dtype::F32 => (matrix_of::<f64>(path, mapping, &header)?.cast::<T>()?, Dtype::F64),
        };
        notes.push(format!("the cache holds {from}, its values were converted to {}", T::DTYPE));
        // Rounding to fewer bits can overflow.
        let non_finite = count_non_finite(matrix.view().values());
        (matrix, non_finite)
    };
    notes.extend(non_finite_note(path, non_finite, options.finite)?);
    let info_range = HEADER_BYTES..HEADER_BYTES + header.info_bytes as usize;
    let info = checked_part(path, mapping, info_range, header.info_hash, "description")?;
    let info: MatrixInfo =
        serde_json::from_slice(info).map_err(|_| damaged(path, "its description cannot be read"))?;
    if info.field == Field::Complex {
        if !options.complex {
            return Err(complex_values(Place::file(path)));
        }
        complex::check_pairs(&matrix.view()).map_err(|reason| damaged(path, reason))?;
    }
    Ok(Loaded { matrix, info, notes })
}

/// The header, if it fits the file.
fn read_header(path: &Path, bytes: &[u8]) -> Result<Header> {
    let refused = |reason: String| Error::input(Place::file(path), reason);
    if !bytes.starts_with(&MAGIC) {
        return Err(refused("this is not a Rowloom cache".into()).advise([Advice::CacheFile]));
    }
    let header: Header = match bytes.get(..HEADER_BYTES) {
        Some(first) => bytemuck::pod_read_unaligned(first),
        None => return Err(damaged(path, "it ends within its header")),
    };
    if header.byte_order == BYTE_ORDER.swap_bytes() {
        return Err(
            refused("the cache is from a machine of another byte order".into()).advise([Advice::CacheFile])
        );
    }
    if header.byte_order != BYTE_ORDER {
        return Err(damaged(path, "the checksum of its header is wrong"));
    }
    if header.version != VERSION {
        return Err(refused(format!(
            "the cache has version {}, this program reads version {VERSION}",
            header.version
        ))
        .advise([Advice::CacheFile]));
    }
    if header.header_hash != header.own_hash() {
        return Err(damaged(path, "the checksum of its header is wrong"));
    }
    let offsets = PartOffsets::of(header.rows, header.nnz, header.value_bytes, header.info_bytes);
    let fits = matches!(header.value_bytes, 4 | 8)
        && offsets.is_some_and(|offsets| {
            offsets.row_pointers.start == header.row_pointers_at
                && offsets.columns.start == header.columns_at
                && offsets.values.start == header.values_at
                && offsets.values.end == header.file_bytes
        });
    if !fits {
        return Err(damaged(path, "its header contradicts itself"));
    }
    if header.file_bytes != bytes.len() as u64 {
        return Err(damaged(
            path,
            &format!("it has {} bytes and should have {}", bytes.len(), header.file_bytes),
        ));
    }
    Ok(header)
}

/// Refuses a matrix beyond the memory limit before anything is allocated.
fn check_memory(path: &Path, header: &Header, asked: Dtype, options: &ReadOptions) -> Result<()> {
    // Row pointers and columns are copied, and values if they are converted; a conversion copies the columns once more.
    let as_it_is = header.value_bytes as usize == asked.bytes();
    let entry_bytes = if as_it_is { 4 } else { 8 + asked.bytes() as u64 };
    let needed_bytes = ((header.rows + 1) * 8).saturating_add(header.nnz.saturating_mul(entry_bytes));
    if needed_bytes > options.memory_limit_bytes {
        return Err(Error::DoesNotFit {
            what: format!("{}: a matrix of {} rows and {} nonzeros", path.display(), header.rows, header.nnz),
            needed_bytes,
            limit_bytes: options.memory_limit_bytes,
            advice: "raise the limit or use a smaller matrix".into(),
        });
    }
    Ok(())
}

/// The matrix as the cache holds it.
fn matrix_of<S: Scalar>(path: &Path, mapping: &Arc<Mapping>, header: &Header) -> Result<Csr<S>> {
    // The header fits the file, so every offset fits memory.
    let range =
        |start: u64, count: u64, bytes: usize| start as usize..(start as usize + count as usize * bytes);
    let pointer_range = range(header.row_pointers_at, header.rows + 1, 8);
    let column_range = range(header.columns_at, header.nnz, 4);
    let value_range = range(header.values_at, header.nnz, size_of::<S>());

    let row_pointers =
        copied_part::<u64>(path, mapping, pointer_range, header.row_pointers_hash, "row pointers")?;
    let columns = copied_part::<u32>(path, mapping, column_range, header.columns_hash, "list of columns")?;
    checked_part(path, mapping, value_range.clone(), header.values_hash, "list of values")?;

    let owner: Arc<dyn SharedBytes> = mapping.clone();
    let unsound = || damaged(path, "its arrays do not fit together");
    let values = Array::<S>::window(owner, value_range).ok_or_else(unsound)?;
    Csr::try_new(header.rows as usize, header.cols as usize, row_pointers, columns, values)
        .map_err(|_| unsound())
}

/// A copy of a part of the file, if the checksum of the copy agrees: the checked bytes are those that are used.
fn copied_part<E: bytemuck::Pod>(
    path: &Path,
    mapping: &Mapping,
    range: Range<usize>,
    hash: u64,
    name: &str,
) -> Result<AlignedBuffer<E>> {
    let mut copy = AlignedBuffer::<E>::zeroed(range.len() / size_of::<E>())?;
    let from = mapping.bytes().get(range).unwrap_or_default();
    let hashes: Vec<u64> = bytemuck::cast_slice_mut::<E, u8>(&mut copy)
        .par_chunks_mut(BLOCK_BYTES)
        .zip(from.par_chunks(BLOCK_BYTES))
        .map(|(to, from)| {
            to.copy_from_slice(from);
            xxh3_64(to)
        })
        .collect();
    if xxh3_64(bytemuck::cast_slice(&hashes)) == hash { Ok(copy) } else { Err(wrong_checksum(path, name)) }
}

/// A part of the file, if its checksum agrees.
fn checked_part<'a>(
    path: &Path,
    mapping: &'a Mapping,
    range: Range<usize>,
    hash: u64,
    name: &str,
) -> Result<&'a [u8]> {
    match mapping.bytes().get(range) {
        Some(bytes) if block_hash(bytes) == hash => Ok(bytes),
        _ => Err(wrong_checksum(path, name)),
    }
}

fn wrong_checksum(path: &Path, part: &str) -> Error {
    damaged(path, &format!("the checksum of its {part} is wrong"))
}

fn damaged(path: &Path, reason: &str) -> Error {
    let reason = format!("the cache is damaged: {reason}");
    Error::input(Place::file(path), reason).advise([Advice::CacheFile])
}

/// The hash of the hashes of all blocks.
fn block_hash(bytes: &[u8]) -> u64 {
    let hashes: Vec<u64> = bytes.par_chunks(BLOCK_BYTES).map(xxh3_64).collect();
    xxh3_64(bytemuck::cast_slice(&hashes))
}

fn count_non_finite<T: Scalar>(values: &[T]) -> u64 {
    let count = |part: &[T]| part.iter().filter(|value| !value.to_f64().is_finite()).count() as u64;
    values.par_chunks(1 << 16).map(count).sum()
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
