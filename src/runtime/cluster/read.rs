//! Distributed input: every rank reads its own rows of A, and no rank holds all of A where the format allows it.
//!
//! | source | what a rank reads |
//! |---|---|
//! | `.rlm` | the row pointers at the boundaries, its own rows (mapped), and the checksums of its own blocks |
//! | `.mtx` | the lines that begin in its share of the bytes; entries are sent to the owners of their rows |
//! | `gen:` | nothing: it generates its own rows |
//! | `.mtx.gz`, `.tar.gz`, `.npz` | rank 0 reads all of A and sends the others their rows (`read_whole`) |
//!
//! The rows are those that a single process reads, bit for bit and in the same order. An error is the same on all ranks, and is the
//! error of a single process where the input is at fault. All functions are collective.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use super::agreement::{agree, share, share_numbers, sum};
use super::division::{Division, RowCounts};
use super::entry_messages::{pack, unpack};
use super::rank_matrix::{RankMatrix, own_rows};
use super::read_whole::read_whole;
use crate::device::network::Communicator;
use crate::error::{Advice, Error, Place, Result};
use crate::matrix::generate::{Part, RowLengths, generate_part};
use crate::matrix::io::cache::rows::CacheRows;
use crate::matrix::io::matrix_market::part::{EntryBudget, Head, RowEntries, TextFacts, TextPart};
use crate::matrix::io::{DividedFormat, Input, ReadOptions, divided_format, non_finite_note};
use crate::matrix::{Loaded, Scalar};

/// Entries that a rank sends at once: about 20 MiB.
const ROUND_ENTRIES: usize = 1 << 20;

/// Reads the rows of this rank from a file that all ranks see, in any format of sparse matrices.
pub fn read_rows<T: Scalar>(
    ranks: &dyn Communicator,
    path: &Path,
    division: &Division,
    options: &ReadOptions,
) -> Result<RankMatrix<T>> {
    let limits = share_numbers(ranks, &[options.memory_limit_bytes])?;
    let memory_limit_bytes = limits.iter().flatten().copied().min().unwrap_or(u64::MAX);
    let options = &ReadOptions { memory_limit_bytes, ..*options };
    let opened = Input::open(path).and_then(|input| {
        let format = divided_format(&input)?;
        let bytes = input.file.metadata().map_err(|error| Error::read(path, error))?.len();
        Ok((input, format, bytes))
    });
    let (input, format, bytes) = agree(ranks, opened)?;
    let lengths = share_numbers(ranks, &[bytes, format as u64])?;
    if let Some(rank) = lengths.iter().position(|other| *other != lengths[0]) {
        let reason =
            format!("{} is another file than on rank 0; all ranks must see one file", path.display());
        let host = ranks.hosts().get(rank).cloned().unwrap_or_default();
        return Err(Error::Rank { rank, host, reason: reason.into(), exit_code: 3 });
    }
    match format {
        DividedFormat::Cache => read_cache(ranks, &input, division, options),
        DividedFormat::MatrixMarket => read_text(ranks, &input, division, options),
        DividedFormat::Whole => read_whole(ranks, &input, division, options),
    }
}

fn read_cache<T: Scalar>(
    ranks: &dyn Communicator,
    input: &Input,
    division: &Division,
    options: &ReadOptions,
) -> Result<RankMatrix<T>> {
    let cache = agree(ranks, CacheRows::open(input))?;
    let own = division.boundaries(cache.rows(), |row| row, |row| cache.row_start(row));
    // Those of rank 0: another rank might see other bytes, if the file changes now.
    let boundaries = share_numbers(ranks, &own)?.swap_remove(0);
    let rows = own_rows(&boundaries, ranks.rank());
    agree(ranks, check_memory::<T>(&cache, &rows, input, options))?;
    let mut hashes: [Vec<u64>; 3] = Default::default();
    for [pointers, columns, values] in share(ranks, &cache.hashes(rows.clone()))? {
        hashes[0].extend(pointers);
        hashes[1].extend(columns);
        hashes[2].extend(values);
    }
    agree(ranks, cache.check(hashes))?;
    let read = agree(ranks, cache.read::<T>(rows))?;
    let mut notes = Vec::new();
    let non_finite = match read.converted_non_finite {
        None => cache.non_finite(),
        Some(count) => {
            notes.push(format!(
                "the cache holds {}, its values were converted to {}",
                cache.dtype(),
                T::DTYPE
            ));
            sum(ranks, count)?
        }
    };
    notes.extend(non_finite_note(&input.path, non_finite, options.finite)?);
    let info = agree(ranks, cache.info())?;
    agree(ranks, cache.check_intact())?;
    let nnz = cache.nnz();
    Ok(RankMatrix { matrix: read.matrix, boundaries, nnz, info, notes, cache: Some(cache) })
}

fn check_memory<T: Scalar>(
    cache: &CacheRows,
    rows: &Range<u64>,
    input: &Input,
    options: &ReadOptions,
) -> Result<()> {
    let needed_bytes = cache.needed_bytes::<T>(rows.clone());
    if needed_bytes <= options.memory_limit_bytes {
        return Ok(());
    }
    Err(Error::DoesNotFit {
        what: format!("{}: {} rows of a rank", input.path.display(), rows.end - rows.start),
        needed_bytes,
        limit_bytes: options.memory_limit_bytes,
        advice: "use more ranks or a smaller matrix".into(),
    })
}

fn read_text<T: Scalar>(
    ranks: &dyn Communicator,
    input: &Input,
    division: &Division,
    options: &ReadOptions,
) -> Result<RankMatrix<T>> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let head = agree(ranks, Head::read(input))?;
    let mut part = agree(ranks, TextPart::<T>::read(&head, input, rank, size, options))?;
    let facts: Vec<TextFacts> = share(ranks, &part.facts)?;
    head.check(&facts)?;
    let mut counts = RowCounts::new(head.rows());
    part.for_each_row(|row| counts.add(row, 1));
    let counts = counts.combined(ranks)?;
    let boundaries = counts.boundaries(division);
    let rows = own_rows(&boundaries, rank);
    let budget = EntryBudget::new(options.memory_limit_bytes);
    let expected = counts.nonzeros(rows.clone());
    let mut entries = agree(ranks, RowEntries::new(&head, rows, size, expected, &budget, options))?;
    let collected = exchange_entries(ranks, &mut part, &mut entries, &boundaries, head.has_values())?;
    drop(part);
    let built = collected.and_then(|()| entries.build(&facts));
    let (matrix, duplicates) = agree(ranks, built)?;
    let nnz = sum(ranks, matrix.nnz() as u64)?;
    let notes = head.notes(&facts, sum(ranks, duplicates)?);
    Ok(RankMatrix { matrix, boundaries, nnz, info: head.info(), notes, cache: None })
}

/// Sends all entries to the owners of their rows, a bounded number at once. The inner result is an error of this rank alone, which
/// takes part in all rounds nevertheless.
fn exchange_entries<T: Scalar>(
    ranks: &dyn Communicator,
    part: &mut TextPart<T>,
    entries: &mut RowEntries<'_, T>,
    boundaries: &[u64],
    has_values: bool,
) -> Result<Result<()>> {
    let size = ranks.size();
    let mut collected = Ok(());
    loop {
        let mut by_owner = vec![Vec::new(); size];
        let is_left = part.take_entries(ROUND_ENTRIES, |entry| {
            // The last rank whose first row is not behind the row; ranks without rows are skipped.
            let owner = boundaries[1..].partition_point(|end| *end <= entry.row).min(size - 1);
            by_owner[owner].push(entry);
        });
        let messages = by_owner.iter().map(|entries| pack(entries, is_left, has_values)).collect();
        drop(by_owner);
        let mut any_left = false;
        for (reader, message) in ranks.all_to_all(messages)?.iter().enumerate() {
            let mut add = |entry| {
                if collected.is_ok() {
                    collected = entries.add(reader, entry);
                }
            };
            any_left |= unpack(message, has_values, &mut add)
                .ok_or_else(|| ranks.rank_error(reader, "its entries cannot be read".into()))?;
        }
        if !any_left {
            return Ok(collected);
        }
    }
}

/// Generates the rows of this rank.
pub fn generate_rows<T: Scalar>(
    ranks: &dyn Communicator,
    spec: &str,
    seed: u64,
    division: &Division,
    memory_limit_bytes: u64,
) -> Result<RankMatrix<T>> {
    let limits = share_numbers(ranks, &[memory_limit_bytes])?;
    let memory_limit_bytes = limits.iter().flatten().copied().min().unwrap_or(u64::MAX);
    let chosen = RefCell::new(None);
    let choose = |rows: u64, lengths: &RowLengths<'_>| {
        let mut counts = RowCounts::new(rows);
        let own: Vec<Range<u64>> =
            counts.intervals(ranks.rank(), ranks.size()).map(|(_, rows)| rows).collect();
        let first = own.first().map_or(0, |rows| rows.start);
        let counted = lengths(first..own.last().map_or(first, |rows| rows.end));
        // All ranks take part in the division, so one that cannot count its rows tells the others.
        for (row, length) in (first..).zip(agree(ranks, counted)?) {
            counts.add(row, length);
        }
        let boundaries = counts.combined(ranks)?.boundaries(division);
        let own = own_rows(&boundaries, ranks.rank());
        *chosen.borrow_mut() = Some(boundaries);
        Ok(own)
    };
    let part = Part::Chosen { parts: ranks.size() as u64, choose: &choose };
    // Before the rows are chosen, all ranks have the same errors or none.
    let generated = generate_part::<T>(spec, seed, memory_limit_bytes, part);
    let Loaded { matrix, mut info, notes } = match (chosen.take(), generated) {
        (None, Err(error)) => return Err(error),
        (_, generated) => agree(ranks, generated)?,
    };
    let boundaries = share_numbers(ranks, &[matrix.rows() as u64])?.iter().flatten().fold(
        vec![0],
        |mut boundaries, rows| {
            boundaries.push(boundaries.last().copied().unwrap_or(0) + rows);
            boundaries
        },
    );
    let nnz = sum(ranks, matrix.nnz() as u64)?;
    info.stored_entries = nnz;
    Ok(RankMatrix { matrix, boundaries, nnz, info, notes, cache: None })
}

/// The error for a source that ranks cannot read by parts.
pub fn unsupported_source(source: &str) -> Error {
    let reason = "over several ranks A is a file or gen:";
    Error::input(Place { source: source.into(), line: None, column: None }, reason)
        .advise([Advice::CacheFile])
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
